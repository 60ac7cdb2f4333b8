"""Shapley values of predictions: ``TreeExplainer``."""
