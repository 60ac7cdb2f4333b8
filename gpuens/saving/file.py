"""The container of a saved model: safetensors arrays and a JSON document, written atomically."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from ..files import replacing

FORMAT = 2
"""Number of the newest format; all up to it can be read. Models that need none of what is new are
written in the format that older versions read."""
DOCUMENT = "gpuens"
"""Entry of the file's metadata that holds the document."""
MOST_DOCUMENT_BYTES = 2**26
_LENGTH_BYTES = 8
"""A safetensors file begins with the length of its header."""


class ModelFileError(ValueError):
    """A file is not a model, is damaged, or was written by a newer version."""


def write_file(
    path: str | os.PathLike[str],
    document: dict[str, Any],
    arrays: dict[str, Any],
    number: int = FORMAT,
) -> None:
    """Write a model file, whole or not at all: a document that JSON can hold, which gets the
    entries "format" and "checksum", and arrays of numbers or booleans. Raises an OSError if the
    folder does not exist or cannot be written, or the disk is full."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    path = Path(path)
    arrays = {name: _plain(array) for name, array in arrays.items()}
    document = document | {"format": number}
    document["checksum"] = checksum(document, arrays)
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    try:
        with replacing(path) as unfinished:
            save_file(arrays, unfinished, metadata={DOCUMENT: text})
    except SafetensorError as error:
        raise OSError(f"{path} could not be written ({error}). Nothing was changed.") from error


def read_file(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the document and the arrays of a model file. Raises an OSError if it does not exist or
    cannot be read, and a ModelFileError if it is not a model file, is damaged, or has a newer
    format."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.exists():
        beside = (
            "" if path.parent.exists() else f", whose folder {path.parent} does not exist either"
        )
        raise FileNotFoundError(
            errno.ENOENT, f"There is no model file{beside}", str(path.absolute())
        )
    _check_header_length(path)
    try:
        with safe_open(path, framework="numpy") as file:
            document = _document(path, (file.metadata() or {}).get(DOCUMENT))
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, TypeError, KeyError, AttributeError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{path} is damaged, or not a model file: {error}.") from error
    stated = document.pop("checksum", None)
    if stated != checksum(document, arrays):
        raise ModelFileError(f"{path} is damaged: its contents do not fit its checksum.")
    return document, arrays


def checksum(document: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 of a document and its arrays."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"), sort_keys=True)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode("utf-8", "surrogatepass"))
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _plain(array: np.ndarray) -> np.ndarray:
    """Return an array as safetensors stores it: contiguous and little-endian."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)


def _check_header_length(path: Path) -> None:
    """Refuse what cannot be a model before a parser allocates anything for it."""
    with open(path, "rb") as file:
        start = file.read(_LENGTH_BYTES)
        size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(start, "little")
    if len(start) < _LENGTH_BYTES or length > size - _LENGTH_BYTES or length < 2:
        raise ModelFileError(f"{path} is cut off, or not a model file.")
    if length > MOST_DOCUMENT_BYTES:
        raise ModelFileError(
            f"{path} has a header of {length} bytes, models have at most {MOST_DOCUMENT_BYTES}."
        )


def _document(path: Path, text: str | None) -> dict[str, Any]:
    if text is None:
        raise ModelFileError(f"{path} is a safetensors file, but does not hold a gpuens model.")
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its document is not JSON ({error}).") from error
    if not isinstance(document, dict):
        raise ModelFileError(f"{path} is damaged: its document is not a JSON object.")
    number = document.get("format")
    if type(number) is not int or number < 1:
        raise ModelFileError(f"{path} is damaged: the number of its format is {number!r}.")
    if number > FORMAT:
        raise ModelFileError(
            f"{path} has format {number}, written by gpuens {document.get('gpuens')!s:.40}; this "
            f"version reads formats up to {FORMAT}. Update gpuens."
        )
    return document


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
