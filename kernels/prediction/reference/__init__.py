"""Reference implementations of ``kernels.prediction``."""
