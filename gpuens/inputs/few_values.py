"""Columns of few different values, which take a byte a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from .frames import EXACT_IN_FLOAT64

MOST_VALUES = 256
NUMBERED = "biuU"
"""Kinds of values that are kept by number. Floats are not: 0.0 and -0.0 are equal, but differ."""
PIECE = 1 << 20
"""Rows that are counted at once: NumPy counts copies with 8 bytes a row."""


class FewValues:
    """A column of at most 256 different values, each row by its number; NumPy's functions take it
    as the array of its values.

    Parameters
    ----------
    values : ndarray, shape (n_values,)
        Ascending.
    numbers : uint8, shape (n_rows,)
        The places of the rows' values among them.
    """

    ndim = 1

    def __init__(self, values: np.ndarray, numbers: np.ndarray) -> None:
        self.values, self.numbers = values, numbers
        self.shape, self.dtype = numbers.shape, values.dtype

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: Any) -> FewValues:
        return FewValues(self.values, self.numbers[rows])

    def present(self) -> FewValues:
        """Return the same column with the values alone that rows have."""
        is_there = np.zeros(len(self.values), np.bool_)
        for begin in range(0, len(self.numbers), PIECE):
            is_there |= np.bincount(self.numbers[begin : begin + PIECE], None, is_there.size) > 0
        if is_there.all():
            return self
        number = (np.cumsum(is_there) - 1).astype(np.uint8)
        return FewValues(self.values[is_there], number[self.numbers])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("FewValues has no array of its values that could be shared.")
        return self.values.astype(dtype or self.dtype)[self.numbers]


class Collected:
    """A column that arrives part by part: by numbers while its values are integers, booleans or
    strings, and few."""

    def __init__(self) -> None:
        self._values: np.ndarray | None = None
        self._parts: list[np.ndarray] = []
        self._is_by_number = True

    def add(self, part: np.ndarray) -> None:
        """Append the values of further rows."""
        if self._is_by_number:
            values, numbers = self._numbered(part)
            if values is not None:
                self._values = values
                self._parts.append(numbers)
                return
            self._parts = [np.asarray(self._read(known)) for known in self._parts]
            self._is_by_number = False
        self._parts.append(part)

    def joined(self) -> np.ndarray | FewValues:
        """Return the whole column, and forget it."""
        whole = _joined(self._parts)
        self._parts.clear()
        return self._read(whole) if self._is_by_number else whole

    def _read(self, numbers: np.ndarray) -> FewValues:
        assert self._values is not None
        return FewValues(self._values, numbers)

    def _numbered(self, part: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """Return all values so far, and the numbers of those of a part; None if there are too
        many, or of another kind."""
        if part.ndim != 1 or part.dtype.kind not in NUMBERED:
            return None, part
        found, numbers = _distinct(part)
        known = found[:0] if self._values is None else self._values
        values = np.unique(_joined([known, found]))
        if len(values) > MOST_VALUES or values.dtype.kind not in NUMBERED:
            return None, part
        if len(values) > len(known):
            moved = np.searchsorted(values, known.astype(values.dtype)).astype(np.uint8)
            self._parts = [moved[before] for before in self._parts]
        places = np.searchsorted(values, found.astype(values.dtype)).astype(np.uint8)
        return values, places[numbers]


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Return parts of a column as one.

    Raises
    ------
    ValueError
        Numbers of some parts would become text, or floats that do not hold them.
    """
    whole = np.concatenate(parts)
    if len({part.dtype.kind == "U" for part in parts}) > 1:
        raise ValueError(
            "y holds text in some batches and numbers in others. Convert them, for example by str."
        )
    integers = [part for part in parts if part.size and part.dtype.kind in "iu"]
    if whole.dtype.kind == "f" and any(
        int(part.min()) < -EXACT_IN_FLOAT64 or int(part.max()) > EXACT_IN_FLOAT64
        for part in integers
    ):
        raise ValueError(
            "y holds integers beyond 2**53 in some batches, and numbers of another type in others, "
            "with which they would be rounded. Pass one type throughout."
        )
    return whole


def _distinct(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different values, ascending, and the number of each row's; without sorting where
    they are integers close to each other."""
    if part.dtype.kind != "U" and part.size:
        low, high = int(part.min()), int(part.max())
        if high - low < MOST_VALUES:
            wide = np.uint64 if part.dtype.kind == "u" else np.int64
            offset = (part.astype(wide) - wide(low)).astype(np.int64)
            is_there = np.bincount(offset) > 0
            values = (np.flatnonzero(is_there).astype(wide) + wide(low)).astype(part.dtype)
            return values, (np.cumsum(is_there) - 1)[offset]
    return np.unique(part, return_inverse=True)
