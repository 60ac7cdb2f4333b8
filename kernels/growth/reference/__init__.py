"""Reference implementations of ``kernels.growth``."""
