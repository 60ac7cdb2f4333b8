"""Every formula once: scalars in, scalars out, the same bits on every target.

Each function is a bare ``@formula`` function, so that CPU kernels, CUDA kernels and the
simulator can all call it; ``vectorise`` makes the same source run on whole arrays of any
Array API library for the reference implementations.
"""
