"""CPU implementations (Numba) of ``kernels.binning``."""
