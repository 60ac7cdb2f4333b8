"""Numba kernels for the CPU.

Every operation is one ``worker`` function that all threads of a team run together: each
takes its share of the work by its number, pulls tasks from a counter, and meets the others
at barriers (see ``team``).
"""
