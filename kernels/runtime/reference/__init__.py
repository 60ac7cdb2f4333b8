"""Reference implementations of ``kernels.runtime``."""
