"""CPU implementations (Numba) of ``kernels.leaves``."""
