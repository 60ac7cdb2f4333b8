"""Array operations that train and serve trees; knows nothing of estimators.

One public operation a file: its contract stands there, and one line that hands the work to
``reference/``, ``cpu/`` or ``cuda/``, where the same file name implements it. All
implementations return the same bits.
"""
