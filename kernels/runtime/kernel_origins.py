"""Where the CUDA kernels of this process came from."""

from __future__ import annotations

from typing import Any

CUBIN, PTX, COMPILED = "cubin", "PTX", "compiled"
"""Machine code from a file; PTX from a file, which the driver compiles; compiled by Numba, now or
in an earlier process."""

_names: dict[str, set[str]] = {CUBIN: set(), PTX: set(), COMPILED: set()}


def note(origin: str, kernel: Any) -> None:
    """Remember the origin of a kernel that was loaded on a device."""
    function = kernel.py_func
    _names[origin].add(f"{function.__module__}.{function.__qualname__}")


def of_cuda() -> dict[str, list[str]]:
    """Return the names of the kernels so far, by origin."""
    return {origin: sorted(names) for origin, names in _names.items()}
