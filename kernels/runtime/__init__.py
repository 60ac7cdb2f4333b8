"""Dispatch, compilation and launch of operations.

``dispatch`` finds the implementation of an operation, ``dtypes`` and ``arrays`` describe the data,
``compilation`` compiles for the CPU and keeps what was compiled. ``cpu/team`` runs kernels on
threads; ``cuda/target`` is the only way to CUDA. ``each`` and ``fetch`` are operations themselves.
"""
