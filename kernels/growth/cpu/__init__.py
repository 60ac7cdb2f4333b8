"""CPU implementations (Numba) of ``kernels.growth``."""
