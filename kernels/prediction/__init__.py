"""Rows down the trees, and from raw predictions to probabilities."""
