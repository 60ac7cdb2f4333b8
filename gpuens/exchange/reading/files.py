"""Model files as bytes, and the error of those that cannot be imported."""

from __future__ import annotations

import os
from typing import Any


class ImportedModelError(ValueError):
    """A model of another library cannot be read, or does not fit the rows it should predict; the
    message names the field."""


def bytes_of(source: Any, name: str, wanted: str) -> bytes:
    """Return the content of a file, or of bytes. Raises a TypeError if the source is neither a path
    nor bytes, an OSError if it cannot be read, and an ImportedModelError if it is empty."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
    elif isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            data = file.read()
    else:
        raise TypeError(f"{name} must be {wanted}, got {type(source).__name__}.")
    if not data:
        raise ImportedModelError(f"{name} is empty: it is not a model.")
    return data
