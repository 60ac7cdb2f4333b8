"""Kernels that were compiled ahead: files that the launcher looks into before Numba compiles.

``python -m building.cubins`` writes them into the folder ``kernels/prebuilt``: one with the machine
code for each architecture (cubins), and one with PTX, which the driver compiles for architectures
that came later. A kernel is found by its function, the constants in its closure and the types of
its arguments, and it is used only if the sources that it was made of are those of today. Whatever
is not found is compiled.

A file is compressed by LZMA, which checks the content: a line of JSON, and all code behind it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import lzma
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import compilation
from .compiling import describe

FOLDER = Path(__file__).parents[2] / "prebuilt"
FORMAT = 1
Version = tuple[int, int]


class Code(NamedTuple):
    """A kernel in a file.

    Parameters
    ----------
    symbol : str
        Its name in the code.
    stamp : str
        Of the sources that it was made of.
    code : bytes
        A cubin or PTX.
    """

    symbol: str
    stamp: str
    code: bytes


class Archive(NamedTuple):
    """The content of a file.

    Parameters
    ----------
    path : Path
    toolkit : tuple of two integers
        The version of CUDA that the code is from.
    kernels : mapping of str to Code
    """

    path: Path
    toolkit: Version
    kernels: Mapping[str, Code]


class DamagedError(Exception):
    """A file is not one of these, or not whole."""


def key_of(function: Any, kinds: Iterable[Any]) -> str | None:
    """Return the name of a kernel for arguments of some kinds (see ``launching.kind_of``), None if
    it has functions from outside of this package, as a custom loss has."""
    try:
        described = describe(function)
    except LookupError:
        return None
    of_arguments = [
        (_name(kind[0]), *kind[1:]) if isinstance(kind, tuple) else _name(kind) for kind in kinds
    ]
    return hashlib.sha256(repr((described, of_arguments)).encode()).hexdigest()[:20]


def _name(dtype: np.dtype) -> tuple[str, int]:
    return str(dtype.descr), dtype.itemsize


def stamp_of(function: Any) -> str:
    """Return the stamp of the sources that a kernel is made of."""
    return compilation._stamp_of_sources(Path(function.py_func.__code__.co_filename))


def write(path: Path, toolkit: Version, kernels: Mapping[str, Code]) -> None:
    """Write a file."""
    table, begin = {}, 0
    for key, kernel in kernels.items():
        table[key] = [kernel.symbol, kernel.stamp, begin, begin + len(kernel.code)]
        begin += len(kernel.code)
    head = json.dumps({"format": FORMAT, "toolkit": toolkit, "kernels": table}).encode()
    code = b"".join(kernel.code for kernel in kernels.values())
    path.write_bytes(lzma.compress(head + b"\n" + code, preset=9))


def read(path: Path) -> Archive:
    """Read a file.

    Raises
    ------
    DamagedError
    """
    try:
        head, _, code = lzma.decompress(path.read_bytes()).partition(b"\n")
        content = json.loads(head)
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']}, not {FORMAT}")
        major, minor = content["toolkit"]
        kernels = {
            key: Code(symbol, stamp, code[begin:end])
            for key, (symbol, stamp, begin, end) in content["kernels"].items()
        }
    except (OSError, EOFError, lzma.LZMAError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{type(error).__name__}: {error}") from error
    return Archive(path, (major, minor), kernels)


def candidates(capability: Version, folder: Path) -> list[Path]:
    """Return the files that a device of a compute capability may run, the best first: cubins of
    its own generation, which later ones of it run too, then PTX."""
    major, minor = capability
    cubins = [folder / f"cuda-sm_{major}{m}.xz" for m in range(minor, -1, -1)]
    texts = [folder / f"cuda-ptx_{n}.xz" for n in range(10 * major + minor, 0, -1)]
    return [path for path in (*cubins, *texts) if path.is_file()]


def is_taken(archive: Archive, driver: Version) -> bool:
    """Return whether a driver of a version of CUDA takes the code: cubins of the same generation
    of CUDA or an older one, PTX of no newer version."""
    if archive.path.name.startswith("cuda-ptx"):
        return archive.toolkit <= driver
    return archive.toolkit[0] <= driver[0]


@functools.cache
def archive_for(capability: Version, driver: Version, folder: Path) -> Archive | None:
    """Return the best file for a device, None without one. A damaged one is named in a warning."""
    for path in candidates(capability, folder):
        try:
            archive = read(path)
        except DamagedError as error:
            _warn(path, f"is damaged ({error})")
            continue
        if is_taken(archive, driver):
            return archive
    return None


def find(function: Any, device: int, kinds: tuple[Any, ...]) -> Any:
    """Return the kernel of ``cuda.core`` for a device, None if it has to be compiled."""
    if not FOLDER.is_dir() or (key := key_of(function, kinds)) is None:
        return None
    archive = archive_for(capability_of(device), driver_version(), FOLDER)
    kernel = archive.kernels.get(key) if archive is not None else None
    if kernel is None or kernel.stamp != stamp_of(function) or archive.path in _refused:
        return None
    try:
        return loaded(kernel, archive.path.name.startswith("cuda-ptx"))
    except Exception as error:  # of cuda-core and cuda-bindings, with types of their own
        _refused.add(archive.path)
        _warn(archive.path, f"is refused by the driver ({type(error).__name__}: {error})")
        return None


_refused: set[Path] = set()
"""Files whose code the driver has not taken."""


def _warn(path: Path, what: str) -> None:
    text = f"{path} {what}. Its kernels are compiled. Install gpuens again, or delete the file."
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def object_of(kernel: Code, is_ptx: bool) -> Any:
    """Return the code as an object of ``cuda.core``; this needs no driver."""
    from cuda.core import ObjectCode

    make = ObjectCode.from_ptx if is_ptx else ObjectCode.from_cubin
    return make(kernel.code, name=kernel.symbol)


def loaded(kernel: Code, is_ptx: bool) -> Any:
    """Return the kernel, loaded by the driver."""
    found = object_of(kernel, is_ptx).get_kernel(kernel.symbol)
    int(found.handle)  # an error of the driver comes here
    return found


@functools.cache
def capability_of(device: int) -> Version:
    """Return the compute capability of a device."""
    from cuda.core import Device

    major, minor = Device(device).compute_capability
    return int(major), int(minor)


@functools.cache
def driver_version() -> Version:
    """Return the version of CUDA that the driver is of."""
    from cuda.bindings import driver

    _, version = driver.cuDriverGetVersion()
    return int(version) // 1000, int(version) % 1000 // 10
