"""Kernels that were compiled ahead: files that the launcher looks into before Numba compiles.

``python -m building.cubins`` writes them into the folder ``kernels/prebuilt``: some with machine
code for several architectures (cubins), and one with PTX, which the driver compiles for
architectures that came later. A kernel is found by its function, the constants in its closure and
the types of its arguments, and it is used only if the sources that it was made of are those of
today. Whatever is not found is compiled.

A file is named after what it holds, as in ``cuda-sm_75-80.xz``. It is compressed by LZMA, which
checks the content: a line of JSON, and all code behind it, a kernel's codes for all architectures
side by side. They resemble each other: together they take two thirds of their places in files of
their own.
"""

from __future__ import annotations

import functools
import hashlib
import json
import lzma
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import kernel_origins, source_stamps
from . import errors
from .compiling import describe

KERNELS = Path(__file__).parents[2]
FOLDER = KERNELS / "prebuilt"
FORMAT = 4
NAME = re.compile(r"cuda-(sm|ptx)_([0-9-]+)\.xz")
INSTRUCTION = 16
"""Bytes of an instruction in a cubin: code begins at multiples of them."""
_THOROUGH = {"id": lzma.FILTER_LZMA2, "preset": 9, "nice_len": 273, "depth": 512}
FILTERS = {"sm": [_THOROUGH | {"lc": 0, "lp": 4, "pb": 4}], "ptx": [_THOROUGH]}
"""How code is compressed; a byte of an instruction is expected by its place in the instruction."""
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
    """The content of a file for an architecture.

    Parameters
    ----------
    path : Path
    is_ptx : bool
        Whether it is PTX, not machine code.
    toolkit : tuple of two integers
        The version of CUDA that the code is from.
    kernels : mapping of str to Code
    """

    path: Path
    is_ptx: bool
    toolkit: Version
    kernels: Mapping[str, Code]


class DamagedKernelsError(Exception):
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
    return source_stamps.stamp_of_sources(Path(function.py_func.__code__.co_filename))


def contents_of(path: Path) -> tuple[str, tuple[int, ...]]:
    """Return ``sm`` or ``ptx``, and the architectures that a file of this name has code for; none
    if it is not one of these files."""
    found = NAME.fullmatch(path.name)
    return (found[1], tuple(map(int, found[2].split("-")))) if found else ("", ())


def write(path: Path, toolkit: Version, kernels: Mapping[int, Mapping[str, Code]]) -> None:
    """Write a file: the kernels of each architecture, which are the same ones."""
    kind, architectures = contents_of(path)
    table, parts, begin = {}, [], 0
    for key, first in kernels[architectures[0]].items():
        places = []
        for architecture in architectures:
            code = kernels[architecture][key].code
            places.append([begin, begin + len(code)])
            parts.append(_padded(code))
            begin += len(parts[-1])
        table[key] = [first.symbol, first.stamp, places]
    head = json.dumps({"format": FORMAT, "toolkit": toolkit, "kernels": table}).encode()
    content = _padded(head + b"\n", b" ") + b"".join(parts)
    path.write_bytes(lzma.compress(content, filters=FILTERS[kind]))


def _padded(code: bytes, pad: bytes = b"\0") -> bytes:
    return code + pad * (-len(code) % INSTRUCTION)


def read(path: Path, architecture: int) -> Archive:
    """Read what a file holds for an architecture.

    Raises
    ------
    DamagedKernelsError
    """
    kind, architectures = contents_of(path)
    which = architectures.index(architecture)
    try:
        content = lzma.decompress(path.read_bytes())
        code = content.index(b"\n") + 1
        code += -code % INSTRUCTION
        head = json.loads(content[:code])
        if head["format"] != FORMAT:
            raise ValueError(f"its format is {head['format']}, not {FORMAT}")
        major, minor = head["toolkit"]
        kernels = {}
        for key, (symbol, stamp, places) in head["kernels"].items():
            begin, end = places[which]
            kernels[key] = Code(symbol, stamp, content[code + begin : code + end])
    except (OSError, EOFError, lzma.LZMAError, LookupError, ValueError, TypeError) as error:
        raise DamagedKernelsError(f"{type(error).__name__}: {error}") from error
    return Archive(path, kind == "ptx", (major, minor), kernels)


def candidates(capability: Version, folder: Path) -> list[tuple[Path, int]]:
    """Return the files that have code for a device of a compute capability, the best first, and the
    best architecture in each: cubins of its own generation, which later ones of it run too, then
    PTX."""
    own, oldest = 10 * capability[0] + capability[1], {"sm": 10 * capability[0], "ptx": 0}
    found = []
    for path in folder.glob("cuda-*.xz"):
        kind, architectures = contents_of(path)
        if usable := [n for n in architectures if oldest[kind] <= n <= own]:
            found.append((kind == "sm", max(usable), path))
    return [(path, architecture) for _, architecture, path in sorted(found, reverse=True)]


def is_taken(archive: Archive, driver: Version) -> bool:
    """Return whether a driver of a version of CUDA takes the code: cubins of the same generation
    of CUDA or an older one, PTX of no newer version."""
    if archive.is_ptx:
        return archive.toolkit <= driver
    return archive.toolkit[0] <= driver[0]


@functools.cache
def archive_for(capability: Version, driver: Version, folder: Path) -> Archive | None:
    """Return the best file for a device, None without one. A damaged one is named in a warning."""
    for path, architecture in candidates(capability, folder):
        try:
            archive = read(path, architecture)
        except DamagedKernelsError as error:
            _warn(path, f"is damaged ({error})")
            continue
        if is_taken(archive, driver):
            return archive
    return None


def has_code_for(capability: Version, driver: Version) -> bool:
    """Return whether there is a file for devices of a compute capability, and all in it was made of
    the sources that are here."""
    archive = archive_for(capability, driver, FOLDER) if FOLDER.is_dir() else None
    return archive is not None and _stamps() >= {
        kernel.stamp for kernel in archive.kernels.values()
    }


def _stamps() -> set[str]:
    """Return the stamps of all files of kernels."""
    return set(map(source_stamps.stamp_of_sources, KERNELS.glob("*/cuda/*.py")))


def find(function: Any, device: int, kinds: tuple[Any, ...]) -> Any:
    """Return the kernel of ``cuda.core`` for a device, None if it has to be compiled.

    Raises
    ------
    RuntimeError
        The GPU is out of memory or lost, which compiling would not help.
    """
    if not FOLDER.is_dir() or (key := key_of(function, kinds)) is None:
        return None
    archive = archive_for(capability_of(device), driver_version(), FOLDER)
    kernel = archive.kernels.get(key) if archive is not None else None
    if kernel is None or kernel.stamp != stamp_of(function) or archive.path in _refused:
        return None
    try:
        found = loaded(kernel, archive.is_ptx)
    except Exception as error:  # of cuda-core and cuda-bindings, with types of their own
        if errors.is_of_the_device(error):
            what = errors.remedy(str(errors.name_in(error)))
            raise RuntimeError(
                f"The CUDA driver does not load the kernel {kernel.symbol}: {what}"
            ) from error
        _refused.add(archive.path)
        _warn(archive.path, f"is refused by the driver ({type(error).__name__}: {error})")
        return None
    kernel_origins.note(kernel_origins.PTX if archive.is_ptx else kernel_origins.CUBIN, function)
    return found


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
