"""CPU implementations (Numba) of ``kernels.prediction``."""
