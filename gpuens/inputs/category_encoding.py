"""Columns whose values are categories: their distinct values, and the numbers of those."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..devices.placement import module_of, to_numpy

_WIDEST_TABLE = 2**16
"""Range of whole numbers below which counting them is cheaper than sorting, for few rows too."""

_EXACT = 2**53
"""Every whole number up to this size is a float64."""


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A column of numbers.

    values : integers, booleans or floats, shape (n_rows,), NumPy or CuPy
        NaN is missing.
    missing : bool, shape (n_rows,), or None
        Which other values are missing.
    """

    values: Any
    missing: Any = None

    def distinct(self) -> np.ndarray:
        """The values that occur, ascending, without the missing ones."""
        values = self.values if self.missing is None else self.values[~self.missing]
        if values.dtype.kind == "f":
            values = values[values == values]
        return to_numpy(_distinct(values))

    def kind(self) -> str | None:
        """As ``kind_of`` the distinct values; numbers also where all are missing."""
        return "numbers"

    def encode(self, known: np.ndarray) -> Any:
        """The position of each value in ``known`` (ascending) as float32, NaN if it has none."""
        xp = module_of(self.values)
        if kind_of(known) != "numbers":
            return xp.full(self.values.shape, np.nan, np.float32)
        common = np.result_type(known.dtype, self.values.dtype)
        common = np.result_type(np.int8) if common.kind == "b" else common
        values, known = self.values.astype(common, copy=False), known.astype(common, copy=False)
        position = _positions(values, known)
        found = xp.asarray(known)[position] == values
        if self.missing is not None:
            found &= ~self.missing
        return xp.where(found, position.astype(np.float32), np.float32(np.nan))


@dataclass(frozen=True, eq=False)
class DictionaryColumn:
    """A column that holds the positions of its values in a list of categories.

    codes : integers, shape (n_rows,), NumPy
        -1 is missing.
    categories : ndarray or list
        In any order; some may be missing values, or occur in no row.
    label : str
        What error messages call the column.
    """

    codes: np.ndarray
    categories: Any
    label: str

    @classmethod
    def of_objects(cls, values: list[Any], label: str) -> DictionaryColumn:
        """Hash every value.

        Raises
        ------
        ValueError
            A value cannot be hashed.
        """
        try:
            position = {value: code for code, value in enumerate(set(values))}
        except TypeError as error:
            raise ValueError(
                f"{label} holds values that cannot be categories ({error}). Use strings or numbers."
            ) from error
        codes = np.fromiter(map(position.__getitem__, values), np.int64, len(values))
        return cls(codes, list(position), label)

    def distinct(self) -> np.ndarray:
        """The values that occur, ascending, without the missing ones: numbers, or strings as
        objects.

        Raises
        ------
        ValueError
            They are neither numbers throughout nor strings throughout.
        """
        used = self._used
        if self.kind() == "strings":
            texts = sorted(set(map(str.__str__, used)))
            ordered = np.empty(len(texts), object)
            ordered[:] = texts
            return ordered
        values = np.asarray(used)
        return _distinct(values if values.dtype.kind in "biuf" else values.astype(np.float64))

    def kind(self) -> str | None:
        """As ``kind_of`` the distinct values."""
        types = set(map(type, self._used))
        if not types:
            return None
        if all(issubclass(t, str) for t in types):
            return "strings"
        if all(issubclass(t, (numbers.Real, np.bool_)) for t in types):
            return "numbers"
        raise ValueError(
            f"{self.label} holds categories of the types {sorted(t.__name__ for t in types)}, "
            "which must be strings throughout or numbers throughout. Convert them, for example "
            "with str."
        )

    def encode(self, known: np.ndarray) -> np.ndarray:
        """The position of each value in ``known`` as float32, NaN if it has none."""
        position = {value: float(code) for code, value in enumerate(known.tolist())}
        numbers_of = [position.get(value, np.nan) for value in self._listed]
        return np.array([*numbers_of, np.nan], np.float32)[self.codes]  # the last: missing

    @cached_property
    def _listed(self) -> list[Any]:
        """The categories as Python objects, None for missing ones."""
        listed = list(self.categories)
        if isinstance(self.categories, np.ndarray) and self.categories.dtype.kind not in "mM":
            listed = self.categories.tolist()  # which turns dates into numbers
        return [None if _is_missing(value) else value for value in listed]

    @cached_property
    def _used(self) -> list[Any]:
        """Those that occur and are not missing."""
        occurs = np.zeros(len(self._listed) + 1, np.bool_)
        occurs[self.codes] = True
        pairs = zip(self._listed, occurs[:-1].tolist(), strict=True)
        return [value for value, is_used in pairs if is_used and value is not None]


Column = NumberColumn | DictionaryColumn


def kind_of(distinct: np.ndarray) -> str | None:
    """What the distinct values of a column are: "strings", "numbers", or None without any."""
    if len(distinct) == 0:
        return None
    return "strings" if distinct.dtype.kind == "O" else "numbers"


def _distinct(values: Any) -> Any:
    """Distinct numbers, ascending; no value is NaN."""
    xp = module_of(values)
    whole = values.dtype.kind != "f" or bool((xp.floor(values) == values).all())
    if not whole or len(values) == 0:
        return xp.unique(values)
    low, high = values.min().item(), values.max().item()
    if max(abs(low), abs(high)) > _EXACT or high - low >= max(len(values), _WIDEST_TABLE):
        return xp.unique(values)
    occurs = xp.bincount(values.astype(np.int64) - int(low)) > 0
    return (xp.flatnonzero(occurs) + int(low)).astype(values.dtype)


def _positions(values: Any, known: np.ndarray) -> Any:
    """The only positions in ``known`` (ascending) where the values can be found."""
    xp = module_of(values)
    low, high = known[0].item(), known[-1].item()
    whole = max(abs(low), abs(high)) <= _EXACT and bool((np.floor(known) == known).all())
    if not whole or high - low >= len(values):
        return xp.minimum(xp.searchsorted(xp.asarray(known), values), len(known) - 1)
    # A fraction finds the entry of a whole number: the caller compares.
    table = np.zeros(int(high) - int(low) + 1, np.int64)
    table[known.astype(np.int64) - int(low)] = np.arange(len(known))
    inside = xp.where((values >= low) & (values <= high), values, known[0])
    return xp.asarray(table)[inside.astype(np.int64) - int(low)]


def _is_missing(value: Any) -> bool:
    if type(value) is str:
        return False
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (
        isinstance(value, numbers.Real) and value != value
    )  # fmt: skip
