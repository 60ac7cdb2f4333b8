"""Checked access to the fields of a document that may be damaged or made to do harm."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .files import ImportedModelError


class Field:
    """A value of a document, as from ``json.loads`` or an array, with its path, which errors
    name."""

    def __init__(self, value: Any, path: str) -> None:
        self.value, self.path = value, path

    def fail(self, text: str) -> ImportedModelError:
        """Return the error of this field."""
        return ImportedModelError(f"{self.path} {text}.")

    def __contains__(self, name: str) -> bool:
        return isinstance(self.value, dict) and name in self.value

    def __getitem__(self, name: str) -> Field:
        if not isinstance(self.value, dict):
            raise self.fail(f"must be an object with a field {name!r}, got {_kind(self.value)}")
        path = f"{self.path}.{name}" if self.path else name
        if name not in self.value:
            raise ImportedModelError(f"{path} is missing: the file is damaged or not a model.")
        return Field(self.value[name], path)

    def items(self) -> Iterator[Field]:
        """Iterate over the entries of a list."""
        if not isinstance(self.value, (list, np.ndarray)):
            raise self.fail(f"must be a list, got {_kind(self.value)}")
        return (Field(value, f"{self.path}[{i}]") for i, value in enumerate(self.value))

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.fail(f"must be text, got {_kind(self.value)}")
        return self.value

    def texts(self) -> list[str]:
        """Return a list of texts."""
        return [item.text() for item in self.items()]

    def number(self) -> float:
        """Return a finite number, which may be written as text."""
        try:
            found = float(self.value) if isinstance(self.value, (int, float, str)) else np.nan
        except (ValueError, OverflowError):
            found = np.nan
        if not np.isfinite(found):
            raise self.fail(f"must be a finite number, got {self.value!r:.40}")
        return found

    def integer(self, low: int, high: int) -> int:
        """Return a whole number within bounds, which may be written as text."""
        found = self.number()
        if found != int(found) or not low <= found <= high:
            raise self.fail(f"must be a whole number from {low} to {high}, got {self.value!r:.40}")
        return int(found)

    def numbers(self, size: int | None = None) -> np.ndarray:
        """Return a list of numbers, float64, of a length that may be prescribed."""
        if isinstance(self.value, np.ndarray):
            found = self.value.astype(np.float64)
        else:
            if not isinstance(self.value, list):
                raise self.fail(f"must be a list of numbers, got {_kind(self.value)}")
            try:
                found = np.frombuffer(array("d", self.value), np.float64)
            except (TypeError, OverflowError) as error:
                raise self.fail(f"must be a list of numbers ({error})") from None
        if size is not None and found.size != size:
            raise self.fail(f"must have {size} entries, got {found.size}")
        return found

    def floats(self, size: int | None = None) -> np.ndarray:
        """Return a list of numbers without NaN and infinities."""
        found = self.numbers(size)
        if not np.isfinite(found).all():
            first = int(np.argmax(~np.isfinite(found)))
            raise self.fail(f"must hold finite numbers, got {found[first]} at entry {first}")
        return found

    def singles(self, size: int | None = None) -> np.ndarray:
        """Return numbers that were float32, as float64 (text holds their decimals, which float64
        reads differently)."""
        with np.errstate(over="ignore", under="ignore"):
            return Field(self.floats(size).astype(np.float32), self.path).floats()

    def integers(self, low: int, high: int, size: int | None = None) -> np.ndarray:
        """Return a list of whole numbers within bounds, int64."""
        found = self.numbers(size)
        wrong = ~((found >= low) & (found <= high) & (np.floor(found) == found))
        if wrong.any():
            first = int(np.argmax(wrong))
            raise self.fail(
                f"must hold whole numbers from {low} to {high}, got {found[first]} at entry {first}"
            )
        return found.astype(np.int64)

    def whole_numbers(self) -> list[int]:
        """Return a list of whole numbers of 64 bits, which float64 would round."""
        found = self.value.tolist() if isinstance(self.value, np.ndarray) else self.value
        whole = isinstance(found, list) and all(type(value) is int for value in found)
        if not whole or not all(-(2**63) <= value < 2**64 for value in found):
            raise self.fail("must hold whole numbers of 64 bits")
        return list(found)

    def one_of(self, known: Sequence[str]) -> str:
        """Return a text that is one of those known."""
        found = self.text()
        if found not in known:
            raise self.fail(
                f"is {found!r:.60}, which cannot be imported. Known: {', '.join(known)}"
            )
        return found


def parse_json(text: bytes | str, what: str) -> Field:
    """Return the document of a JSON text. Raises an ImportedModelError if it is not valid, or
    nested too deeply."""
    try:
        return Field(json.loads(text), "")
    except RecursionError:
        raise ImportedModelError(f"{what} is nested too deeply: it is not a model.") from None
    except ValueError as error:
        raise ImportedModelError(f"{what} is not valid JSON, or is cut short: {error}.") from None


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", type(None): "null", bool: "a bool"}
    return names.get(type(value), "a number")
