"""CUDA implementations (Numba) of ``kernels.binning``."""
