"""Rows of a table matched with the features and categories of an imported model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..devices.placement import Device, module_of
from ..inputs.arrays import is_frame, on_device, read_table
from ..inputs.categories import source_of
from ..inputs.frames import (
    Column,
    DictionaryColumn,
    column_names,
    columns_of_categories,
    is_pandas,
    with_names,
)
from ..kernels.runtime.arrays import Array
from .reading.files import ImportedModelError


@dataclass(frozen=True, eq=False)
class KnownCategories:
    """The values that the categories of a model were made of, where its file has them.

    Column k has ascending numbers, or strings as objects, ``values[k]`` with the categories
    ``codes[k]``, and belongs to ``features[k]``: -1 throughout where they belong to the columns of
    a data frame that have a categorical type, in their order. Other values are read as ``unknown``:
    -1, the code of none, or NaN; None is for XGBoost, whose own comparison of names is then used
    (``names_of_xgboost``). ``of_numbers`` is whether columns of numbers hold values, too, and not
    codes: a text then is the value of the whole number that it spells."""

    values: tuple[np.ndarray, ...]
    codes: tuple[np.ndarray, ...]
    features: np.ndarray
    unknown: float | None
    of_numbers: bool

    @classmethod
    def of(
        cls, listed: list[list[Any]], features: Any, unknown: float | None, of_numbers: bool = False
    ) -> KnownCategories:
        """Make them of lists in which category c comes at place c, the first of equal ones. Raises
        an ImportedModelError if a list holds neither texts only nor numbers only."""
        values, codes = [], []
        for of_feature in listed:
            found, first = np.unique(_as_values(of_feature), return_index=True)
            values.append(found)
            codes.append(first.astype(np.int64))
        return cls(tuple(values), tuple(codes), np.array(features, np.int64), unknown, of_numbers)

    def columns_in(self, X: Any) -> dict[int, int]:
        """Return which columns of X take which of the lists. Raises an ImportedModelError if X has
        not as many columns of categories as there are lists."""
        if not (self.features < 0).any():
            return {f: k for k, f in enumerate(self.features.tolist())}
        if not is_frame(X):
            return {}
        found = np.flatnonzero(columns_of_categories(X)).tolist()
        if len(found) != len(self.values):
            raise ImportedModelError(
                f"pandas_categorical: the model has {len(self.values)} columns of a categorical "
                f"type, X has {len(found)}. Give its columns the types of the training data."
            )
        return {f: k for k, f in enumerate(found)}

    def encode(self, column: Column, k: int) -> Array:
        """Return the codes of a column by list k, float32; NaN is missing."""
        values, codes = self.values[k], self.codes[k]
        if isinstance(column, DictionaryColumn):
            if values.dtype.kind == "O":
                column = replace(column, categories=[_as_text(v) for v in column.categories])
            missing: Any = column.missing
        else:
            values, codes = _spelled(values, codes)
            xp = module_of(column.values)
            missing = column.values != column.values
            if column.missing is not None:
                missing = missing | xp.asarray(column.missing)
        xp = module_of(missing)
        place = xp.asarray(column.encode(values))
        known = place == place
        own = xp.asarray(np.append(codes, 0))
        found = own[xp.where(known, place, len(codes)).astype(np.int64)]
        if self.unknown is None:
            _refuse_unknown(column, known | missing)
        else:
            found = xp.where(known, found.astype(np.float32), np.float32(self.unknown))
        return xp.where(missing, np.float32(np.nan), found.astype(np.float32))


def _refuse_unknown(column: Column, accepted: Array) -> None:
    """Raise an ImportedModelError that names the first category that is not accepted."""
    if isinstance(column, DictionaryColumn) and not accepted.all():
        value = column.categories[column.codes[np.flatnonzero(~np.asarray(accepted))[0]]]
        raise ImportedModelError(
            f"{column.label} has the category {value!r:.60}, which the model was not trained on: "
            "XGBoost refuses it, or takes the next category in alphabetical order for it. Leave "
            "these rows out, or make their values missing."
        )


def names_of_xgboost(column: DictionaryColumn, X: Any, f: int, known: np.ndarray) -> Column:
    """Return a column with the names that XGBoost compares with ``known``, those of the model.

    XGBoost (3.1, 3.2) joins the names of a pandas column in UTF-8, and cuts the bytes where the
    characters of the names end: ["Bonn", "Köln", "Graz"] are "Bonn", "K\\xc3\\xb6l" and "nGra".
    Models have names so cut, or whole ones of pyarrow and polars, and no mark of which. Bytes
    beyond ASCII are lone surrogates in these names, as PEP 383 has them. Raises an
    ImportedModelError if names are not ASCII and not all in the model: others could be taken for
    what they are not."""
    names = [_as_text(value) for value in column.categories]
    if known.dtype.kind != "O" or not all(isinstance(name, str) for name in names):
        return column
    if all(name.isascii() for name in [*names, *known.tolist()]):
        return column
    cut = names
    if not is_frame(X) or not columns_of_categories(X)[f]:
        wrong = f"{column.label} holds text"
    else:
        cut = _cut_at_characters(names) if is_pandas(X) else [_escaped(name) for name in names]
        unknown = set(cut).difference(known.tolist())
        if not unknown:
            return replace(column, categories=cut)
        wrong = f"{column.label} has the category {names[cut.index(min(unknown))]!r:.60}"
    raise ImportedModelError(
        f"{wrong}, which cannot be compared with the categories of the model: not all are ASCII, "
        "and XGBoost damages such names of pandas columns, by the order in which they are listed. "
        "Give the column the categorical type that it had in training, with the same categories "
        "in the same order, or train with ASCII names or with integers."
    )


def _cut_at_characters(names: list[str]) -> list[str]:
    joined = "".join(names).encode(errors="surrogatepass")
    ends = np.cumsum([len(name) for name in names]).tolist()
    return [_named(joined[a:b]) for a, b in zip([0, *ends], ends, strict=False)]


def _escaped(name: str) -> str:
    return _named(name.encode(errors="surrogatepass"))


def _named(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")


def _as_text(value: Any) -> Any:
    """Return the text of a whole number; other values as they are."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return str(int(value)) if whole else value


def _spelled(values: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers among values, ascending, with their codes; texts may spell them."""
    if values.dtype.kind != "O":
        return values, codes
    spelled = [(int(v), c) for v, c in zip(values, codes.tolist(), strict=True) if _spells(v)]
    spelled.sort()
    return np.array([v for v, _ in spelled], np.int64), np.array([c for _, c in spelled], np.int64)


def _spells(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) < 19 and str(int(text)) == text


def _as_values(listed: list[Any]) -> np.ndarray:
    if all(isinstance(value, str) for value in listed):
        found = np.empty(len(listed), object)
        found[:] = listed
        return found
    kinds = {bool if isinstance(value, bool) else type(value) for value in listed}
    if kinds <= {int, float} or kinds == {bool}:
        return np.array(listed, np.float64 if float in kinds else None)
    raise ImportedModelError(
        f"The categories {str(listed):.60} must be all texts or all numbers. Convert them, train "
        "again, and import that model."
    )


SPELLINGS: dict[str, Callable[[Any], str]] = {
    "catboost": str,
    "lightgbm": lambda name: str(name).replace(" ", "_"),
    "xgboost": lambda name: " ".join(map(str, name)) if isinstance(name, tuple) else str(name),
}
"""Forms in which libraries store the name of a data frame's column, where they change it."""


def with_features(X: Any, estimator: Any) -> Any:
    """Return X, if it has the model's columns by number and by name, under the model's names.
    Raises an ImportedModelError if it does not."""
    n_features = estimator.n_features_in_
    shape = getattr(X, "shape", None)
    if shape is not None and len(shape) == 2 and shape[1] != n_features:
        raise ImportedModelError(
            f"n_features_in_: X has {shape[1]} features, but {type(estimator).__name__} is "
            f"expecting {n_features} features as input."
        )
    names = getattr(estimator, "feature_names_in_", None)
    if names is None or not is_frame(X):
        return X
    found, wanted = column_names(X), list(names)
    spelling = SPELLINGS.get(estimator.source_["library"], lambda name: name)
    if found != wanted and [spelling(name) for name in found] == wanted:
        return with_names(X, wanted)
    if all(isinstance(name, str) for name in found) and found != wanted:
        wrong = next((i for i, (a, b) in enumerate(zip(found, wanted, strict=True)) if a != b), 0)
        raise ImportedModelError(
            f"feature_names_in_: column {wrong} of X is {found[wrong]!r}, but the model has "
            f"{str(names[wrong])!r} there. Pass the columns that it was trained on, in their order."
        )
    return X


def read_rows(X: Any, device: Device, estimator: Any, known: KnownCategories | None) -> Array:
    """Return the rows as numbers, categories by the codes of the source."""
    X = with_features(X, estimator)
    coded = not _may_hold_values(X) and not (known is not None and known.of_numbers)
    lists = {} if known is None or coded else known.columns_in(X)
    categorical = {*np.flatnonzero(estimator.forest_.n_categories).tolist(), *lists}
    if not categorical or coded:
        return read_table(X, device, estimator=estimator, reset=False)
    source = source_of(X, device, estimator, False, "X")
    codes: dict[int, Callable[[], Any]] = {}
    for f in sorted(categorical):
        column = source.column(f)
        holds_values = isinstance(column, DictionaryColumn)
        if known is not None and f in lists and (holds_values or known.of_numbers):
            if isinstance(column, DictionaryColumn) and known.unknown is None:
                column = names_of_xgboost(column, X, f, known.values[lists[f]])
            codes[f] = partial(known.encode, column, lists[f])
        elif isinstance(column, DictionaryColumn) and is_frame(X):
            codes[f] = partial(_own_codes, column)
    return on_device(source.table(codes), device)


def _may_hold_values(X: Any) -> bool:
    """Return whether a table can hold other than numbers."""
    return is_frame(X) or getattr(getattr(X, "dtype", None), "kind", "O") in "OUT"


def _own_codes(column: DictionaryColumn) -> np.ndarray:
    """Return the codes that the data frame gives to its categories; missing ones as NaN."""
    return np.where(column.codes < 0, np.nan, column.codes).astype(np.float32)
