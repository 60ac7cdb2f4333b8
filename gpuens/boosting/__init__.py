"""Gradient boosting: the estimators, the loop over rounds, and what a round consists of."""
