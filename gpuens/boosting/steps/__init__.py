"""The steps of a round of boosting, and what takes their place."""
