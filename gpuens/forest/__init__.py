"""The trained trees as frozen arrays, and everything that only needs these."""
