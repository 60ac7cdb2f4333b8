"""Models of this package, written in the formats of other libraries."""
