"""Random forests, extremely randomised trees, quantile and isolation forests."""
