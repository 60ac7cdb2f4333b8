"""Reference implementations of ``kernels.binning``."""
