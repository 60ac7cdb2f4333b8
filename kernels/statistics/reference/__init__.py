"""Reference implementations of ``kernels.statistics``."""
