"""The sources that a compiled kernel depends on: when one of them changes, it is compiled again."""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path

from ..scalars.lazy_jit import Function

_IMPORT = re.compile(r"^from (\.+)([\w.]*) import ([\w, ]+|\([^)]*\))", re.MULTILINE)


def sources_of(function: Function) -> set[Path]:
    """Return the files that a kernel is made of: its own and its imports."""
    path = Path(function.py_func.__code__.co_filename)
    return _imported({path}, path)


@functools.cache
def stamp_of_sources(path: Path) -> str:
    """Return a hash of the sources that a file's kernels are made of.

    Raises
    ------
    OSError
        A source cannot be read.
    """
    digest = hashlib.sha256()
    for source in sorted(_imported({path}, path)):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _imported(known: set[Path], path: Path) -> set[Path]:
    """Add the files of this package that a file imports, directly or not, to those known."""
    for dots, module, names in _IMPORT.findall(_text(path)):
        folder = path.parents[len(dots) - 1].joinpath(*filter(None, module.split(".")))
        found = [folder.with_suffix(".py"), folder / "__init__.py"]
        found += [folder / f"{name.split(' ')[0]}.py" for name in re.findall(r"\w+", names)]
        for source in found:
            if source not in known and source.is_file():
                known.add(source)
                _imported(known, source)
    return known


@functools.cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
