"""Gradient boosting with settings that are searched for: many are tried, the best are averaged."""
