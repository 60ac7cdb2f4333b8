"""Code shared by all measurements."""
