"""CUDA implementations (Numba) of ``kernels.statistics``."""
