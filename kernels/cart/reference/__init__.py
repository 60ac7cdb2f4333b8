"""Reference implementations of ``kernels.cart``."""
