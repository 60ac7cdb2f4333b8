"""CPU implementations (Numba) of ``kernels.statistics``."""
