"""Reference implementations of ``kernels.leaves``."""
