"""CUDA implementations (Numba) of ``kernels.prediction``."""
