"""The operations as CUDA kernels, each directly above its launcher.

The same source runs on hardware, compiled by Numba on first use, and in Numba's CUDA simulator
(``NUMBA_ENABLE_CUDASIM=1``), where a thread block is a handful of Python threads.
"""
