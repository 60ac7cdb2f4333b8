"""CUDA implementations (Numba) of ``kernels.growth``."""
