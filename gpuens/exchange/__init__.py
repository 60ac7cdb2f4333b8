"""Models of other libraries in and out."""
