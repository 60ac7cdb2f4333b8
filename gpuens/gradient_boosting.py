"""Gradient boosted trees: ``GradientBoostingClassifier`` and ``GradientBoostingRegressor``."""

from .boosting_classifier import GradientBoostingClassifier
from .boosting_regressor import GradientBoostingRegressor

__all__ = ["GradientBoostingClassifier", "GradientBoostingRegressor"]
