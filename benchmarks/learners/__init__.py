"""Learners beside the libraries that are known for them."""
