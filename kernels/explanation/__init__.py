"""Shapley values of the features of each row: contributions and interactions."""
