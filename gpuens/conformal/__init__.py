"""Predictions with a guaranteed coverage: intervals of numbers, and sets of classes."""
