"""CPU implementations (Numba) of ``kernels.cart``."""
