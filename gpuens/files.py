"""Files that replace others once they are complete, or leave no trace."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BEGINNING = 40
"""Characters of a file's name that the name of the unfinished file begins with."""


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a name next to ``path`` to write to; that file replaces ``path`` once it is complete
    and on the disk, and leaves no trace if writing fails.

    Raises
    ------
    OSError
        ``path`` is a folder, a device or a pipe, which must not be replaced.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is not a regular file: pass the name of a file.")
    # Not longer than the name itself may be: most file systems take 255 bytes.
    unfinished = path.with_name(f".{path.name[:BEGINNING]}.{secrets.token_hex(4)}.part")
    try:
        unfinished.touch()
        usual = unfinished.stat().st_mode
        yield unfinished
        unfinished.chmod(usual)  # safetensors keeps others from reading
        _flush(unfinished)
        os.replace(unfinished, path)
    finally:
        with suppress(OSError):
            unfinished.unlink()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
