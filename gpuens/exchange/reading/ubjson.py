"""Universal Binary JSON (draft 12), as far as tree models use it."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from .files import ImportedModelError

NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
"""Types of numbers, as NumPy names them: all are big-endian."""
_UNPACK = {
    ord(kind): struct.Struct(f">{code}") for kind, code in zip("iUIlLdD", "bBhiqfd", strict=True)
}
_CONSTANTS = {ord("Z"): None, ord("T"): True, ord("F"): False}
DEEPEST = 100
"""Containers within containers; models have about ten."""


def parse_ubjson(data: bytes) -> Any:
    """Return the value of a document: lists of numbers of one type as read-only arrays. Raises an
    ImportedModelError if the data is cut short or not UBJSON; the message has the position."""
    reader = _UbjsonReader(data)
    value = reader.value(reader.byte(), 0)
    return value


class _UbjsonReader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def fail(self, text: str) -> ImportedModelError:
        return ImportedModelError(f"The UBJSON document {text} at byte {self.at}.")

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        if size > len(self.data) - self.at:
            raise self.fail(f"is cut short: {size} more bytes are announced")
        self.at += size
        return self.data[self.at - size : self.at]

    def byte(self) -> int:
        """Return the next byte that is not a no-op."""
        while True:
            found = self.take(1)[0]
            if found != ord("N"):
                return found

    def value(self, kind: int, depth: int) -> Any:
        if kind in _UNPACK:
            packed = _UNPACK[kind]
            return packed.unpack(self.take(packed.size))[0]
        if kind == ord("S"):
            return self.text()
        if kind == ord("C"):
            return chr(self.take(1)[0])
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind == ord("H"):
            return self.text()
        if kind not in b"[{":
            raise self.fail(f"has the unknown type {chr(kind)!r}")
        if depth == DEEPEST:
            raise self.fail("is nested too deeply")
        return self.array(depth + 1) if kind == ord("[") else self.object(depth + 1)

    def text(self) -> str:
        """Return a text, which its length comes before."""
        try:
            return self.take(self.size()).decode()
        except UnicodeDecodeError:
            raise self.fail("has text that is not UTF-8") from None

    def size(self) -> int:
        kind = self.byte()
        if kind not in b"iUIlL":
            raise self.fail(f"has a length of type {chr(kind)!r}")
        found = self.value(kind, 0)
        if not 0 <= found <= len(self.data) - self.at:
            raise self.fail(f"has the length {found}, and not so many bytes")
        return int(found)

    def header(self) -> tuple[int | None, int | None]:
        """Return the type and the number of a container's entries, where they are announced."""
        kind = None
        if self.data[self.at : self.at + 1] == b"$":
            self.at += 1
            kind = self.byte()
            if kind in _CONSTANTS:
                raise self.fail(f"has a container of the type {chr(kind)!r}, which takes no bytes")
            if self.data[self.at : self.at + 1] != b"#":
                raise self.fail("has a container with a type and without a length")
        if self.data[self.at : self.at + 1] == b"#":
            self.at += 1
            return kind, self.size()
        return None, None

    def array(self, depth: int) -> Any:
        kind, size = self.header()
        if kind is not None and chr(kind) in NUMBERS:
            dtype = np.dtype(NUMBERS[chr(kind)])
            assert size is not None
            return np.frombuffer(self.take(size * dtype.itemsize), dtype)
        found: list[Any] = []
        while size is None or len(found) < size:
            of_entry = self.byte() if kind is None else kind
            if size is None and of_entry == ord("]"):
                break
            found.append(self.value(of_entry, depth))
        return found

    def object(self, depth: int) -> dict[str, Any]:
        kind, size = self.header()
        found: dict[str, Any] = {}
        n = 0
        while size is None or n < size:
            if size is None and self.data[self.at : self.at + 1] == b"}":
                self.at += 1
                break
            name = self.text()
            found[name] = self.value(self.byte() if kind is None else kind, depth)
            n += 1
        return found
