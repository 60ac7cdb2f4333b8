"""CUDA implementations (Numba) of ``kernels.leaves``."""
