"""Bias and variance of a learner, and the variance of an average of models."""

from .decomposition import BiasVariance, bias_variance, correlation_of_models, variance_of_average

__all__ = ["BiasVariance", "bias_variance", "correlation_of_models", "variance_of_average"]
