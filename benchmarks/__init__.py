"""Measurements of gpuens and of the libraries beside it: ``python -m benchmarks``."""
