"""Voting and stacking: models of different kinds, combined."""
