"""CUDA implementations (Numba) of ``kernels.cart``."""
