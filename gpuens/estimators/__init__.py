"""Pieces that all estimators share: parameters, docstrings, validation rows, saving."""
