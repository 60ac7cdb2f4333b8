"""Kernels without instructions: what the stub of the driver reads of machine code, at once.

Compiling all kernels takes ten minutes of a processor. A rehearsal needs their names and parameters
only: each is PTX with nothing in its body, in a file like those with machine code.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpuens.kernels import catalogue
from gpuens.kernels.runtime.cuda import precompiled
from gpuens.kernels.runtime.cuda.compiling import kinds_of

ARCHITECTURE = 90
TEXT = """.version 8.0
.target sm_90
.visible .entry {name}({parameters}) {{ ret; }}
"""


def write(folder: Path) -> None:
    """Write a file with all kernels of the catalogue."""
    folder.mkdir()
    kernels = {}
    for entry in catalogue.entries():
        kinds = kinds_of(entry.arguments)
        key = precompiled.key_of(entry.kernel, kinds)
        assert key is not None
        kernels[key] = code_of(f"gpuens_{entry.name}", kinds, precompiled.stamp_of(entry.kernel))
    path = folder / f"cuda-sm_{ARCHITECTURE}.xz"
    precompiled.write(path, (12, 0), {ARCHITECTURE: kernels})


def code_of(name: str, kinds: tuple[object, ...], stamp: str) -> precompiled.Code:
    """Return a kernel that takes arguments of these kinds and does nothing."""
    bits = [size for kind in kinds for size in bits_of(kind)]
    parameters = ", ".join(f".param .b{size} {name}_param_{i}" for i, size in enumerate(bits))
    return precompiled.Code(name, stamp, TEXT.format(name=name, parameters=parameters).encode())


def bits_of(kind: object) -> list[int]:
    """Return the bits of each word of an argument: an array has five, and two an axis."""
    if isinstance(kind, tuple):
        return [64] * (5 + 2 * kind[1])
    return [8 * np.dtype(kind).itemsize]  # type: ignore[call-overload]
