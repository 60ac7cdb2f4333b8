"""Single decision trees, and what they share with forests."""
