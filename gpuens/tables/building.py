"""From batches to bins: the rows are read two or three times, and never kept."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..devices.placement import CPU, to_numpy
from ..inputs.arrays import MOST_ROWS
from ..inputs.binning import SAMPLE_SIZE, Binner, sample_rows
from ..inputs.categories import MAX_CATEGORIES, Categories, read_features
from ..inputs.category_bins import bins_by_count, with_categories
from ..inputs.few_values import Collected, FewValues
from ..inputs.frames import kind_of
from ..inputs.targets import array_of, read_sample_weight
from ..kernels.runtime.dtypes import Codes
from .extremes import Extremes, ExtremesOfBatches
from .parts import Features
from .prefetch import write_behind
from .sources import BatchSource, RowBatch


@dataclass
class Survey:
    """The result of reading all rows once. ``lengths`` and ``checksums`` have an entry for each
    batch (0 where files tell whether they have been changed); ``counts[f]`` holds the rows of each
    value of a categorical feature f that have a positive weight."""

    features: Features
    lengths: list[int]
    checksums: list[int]
    y: np.ndarray | FewValues | None
    weight: np.ndarray | None
    counts: dict[int, np.ndarray]
    sample: np.ndarray | None

    @property
    def n_rows(self) -> int:
        return sum(self.lengths)

    @property
    def n_used(self) -> int:
        """The number of rows of positive weight."""
        return self.n_rows if self.weight is None else int(np.count_nonzero(self.weight))


@dataclass
class Reader:
    """Reads a source and shows how far it is."""

    source: BatchSource
    categorical_features: Any
    seed: int
    verbose: bool
    n_rows: int | None = field(init=False)
    version: Any = field(init=False)

    def __post_init__(self) -> None:
        self.n_rows, self.version = self.source.n_rows, self.source.version()

    def batches(self, task: str) -> Iterator[RowBatch]:
        """Yield the batches, with a bar of progress if that is wanted."""
        from tqdm.auto import tqdm  # which training on arrays does not need

        with tqdm(total=self.n_rows, desc=task, unit=" rows", disable=not self.verbose) as bar:
            for batch in self.source.read():
                yield batch
                bar.update(_length(batch.X))

    def survey(self) -> Survey:
        """Read all rows for the first time."""
        first: BaseEstimator | None = None
        seen = Survey(Features(0, None, None, None), [], [], None, None, {}, None)
        target, weights = Collected(), list[Any]()
        has_target: list[bool] = []
        values_of: dict[int, np.ndarray] = {}
        sample = _CutPointSample(self.n_rows, self.seed)
        for number, batch in enumerate(self.batches("Reading")):
            told = BaseEstimator()  # receives the attributes that reading sets
            table = self._read(batch, told, number)
            if first is None:
                first = told
            _require_same(first, told, number)
            n = len(table)
            of_batch = _beside(batch.y, n, "y", number)
            has_target.append(of_batch is not None)
            weights.append(_weights(batch.weight, n, number))
            _require_throughout(has_target, "y")
            _require_throughout([weight is not None for weight in weights], "weight")
            if of_batch is not None:
                target.add(of_batch)
            _count(told, table, weights[-1], values_of, seen.counts, number)
            sample.add(table)
            seen.lengths.append(n)
            seen.checksums.append(self._checksum(table, told))
        if first is None:
            raise ValueError("batches holds no rows: at least one batch is needed.")
        if seen.n_rows > MOST_ROWS:
            raise ValueError(
                f"batches holds {seen.n_rows:,} rows, and rows are counted with 31 bits: at most "
                f"{MOST_ROWS:,} can be taken."
            )
        self.n_rows = seen.n_rows
        seen.features = _features(first, values_of)
        seen.y = target.joined() if has_target[0] else None
        seen.weight = None if weights[0] is None else np.concatenate(weights)
        seen.sample = sample.rows if self.source.n_rows == seen.n_rows else None
        return seen

    def again(self, survey: Survey, task: str) -> Iterator[tuple[slice, np.ndarray]]:
        """Read all rows again, with the categories numbered as in the whole table. Raises a
        ValueError if they are not the rows of the first time."""
        begin = number = 0
        told = BaseEstimator()
        survey.features.describe(told)
        for number, batch in enumerate(self.batches(task), 1):
            if number > len(survey.lengths):
                break
            alone = BaseEstimator()
            table = self._read(batch, alone, number - 1)
            if len(table) != survey.lengths[number - 1] or (
                self._checksum(table, alone) != survey.checksums[number - 1]
            ):
                raise ValueError(
                    f"Batch {number - 1} holds other rows than when batches was read before. It "
                    "must return the same rows in the same order each time: do not shuffle or "
                    "draw at random, or do it with a fixed seed."
                )
            if survey.features.categories is not None:
                table = to_numpy(read_features(batch.X, CPU, estimator=told, reset=False))
            yield slice(begin, begin + len(table)), table
            begin += len(table)
        if number != len(survey.lengths):
            raise ValueError(
                f"batches has {len(survey.lengths)} batches when it is read first, and "
                f"{'more' if number > len(survey.lengths) else number} later. It must return the "
                "same rows in the same order each time."
            )
        if self.source.version() != self.version:
            raise ValueError(
                "The files of batches have been changed while they were read: make the table again "
                "when nothing writes to them."
            )

    def _checksum(self, table: np.ndarray, told: Any) -> int:
        return 0 if self.version is not None else _checksum(table, told)

    def _read(self, batch: RowBatch, told: Any, number: int) -> np.ndarray:
        """Read the features of a batch by itself, and set on ``told`` what they are."""
        table = read_features(
            batch.X,
            CPU,
            estimator=told,
            categorical_features=self.categorical_features,
            name=f"Batch {number}",
        )
        return to_numpy(table)


class _CutPointSample:
    """The rows that cut points are chosen from, collected where the number of rows is known."""

    def __init__(self, n_rows: int | None, seed: int, weight: np.ndarray | None = None) -> None:
        self.wanted = None if n_rows is None else sample_rows(n_rows, seed, weight)
        self.collects = n_rows is not None
        self.begin = 0
        self._parts: list[np.ndarray] = []

    def add(self, table: np.ndarray) -> None:
        """Take rows of the next batch."""
        end = self.begin + len(table)
        if self.collects:
            if self.wanted is None:
                self._parts.append(table.copy())
            else:
                low, high = np.searchsorted(self.wanted, (self.begin, end))
                self._parts.append(table[self.wanted[low:high] - self.begin])
        self.begin = end

    @property
    def rows(self) -> np.ndarray | None:
        if not self.collects:
            return None
        joined = np.concatenate(self._parts)
        self._parts.clear()
        return joined


def fit_bins(reader: Reader, survey: Survey, max_bins: int, n_groups: int) -> Any:
    """Choose the bins: those of a fit without batches for the same rows."""
    sampled, weight = sample_rows(survey.n_rows, reader.seed, survey.weight), survey.weight
    is_other = sampled is not None and survey.n_used < survey.n_rows  # weights are known only now
    if survey.sample is None or is_other:
        survey.sample = None
        sample = _CutPointSample(survey.n_rows, reader.seed, weight)
        for _, table in reader.again(survey, "Sampling"):
            sample.add(table)
        survey.sample = sample.rows
    if weight is not None and sampled is not None:
        weight = weight[sampled]
    assert survey.sample is not None
    binner = Binner.fit(survey.sample, weight, max_bins, reader.seed, CPU)
    survey.sample = None
    bins = [
        bins_by_count(survey.counts[f], max_bins, n_groups, reader.seed) if n else None
        for f, n in enumerate(survey.features.n_categories.tolist())
    ]
    return with_categories(binner, bins) if survey.features.categories is not None else binner


def write_codes(
    reader: Reader,
    survey: Survey,
    binner: Binner,
    max_bins: int,
    store: Callable[[slice, Codes], None],
) -> Extremes:
    """Bin every row, hand the codes of each batch to ``store``, in a thread, and return the values
    in the bins."""
    is_numeric = survey.features.n_categories == 0
    extremes = ExtremesOfBatches(is_numeric, max_bins, survey.n_used > SAMPLE_SIZE)
    with write_behind(store) as store_behind:
        for rows, table in reader.again(survey, "Binning"):
            codes = binner.transform(table, CPU)
            store_behind(rows, codes)
            columns = codes.columns
            if survey.n_used < survey.n_rows:
                assert survey.weight is not None
                used = survey.weight[rows] > 0
                if not used.any():
                    continue
                table, columns = table[used], np.ascontiguousarray(columns[:, used])
            extremes.add(table, columns)
    return extremes.found


def _length(X: Any) -> int:
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X)


def _checksum(table: np.ndarray, told: Any) -> int:
    """Return a checksum of the rows of a batch, of categories by their values."""
    contiguous = table.T if table.flags.f_contiguous else np.ascontiguousarray(table)
    found = zlib.crc32(contiguous.data)
    for values in () if told._categories is None else told._categories.values:
        if values is not None:
            found = zlib.crc32(repr(values.tolist()).encode("utf-8", "backslashreplace"), found)
    return found


def _require_same(first: Any, told: Any, number: int) -> None:
    """Raise a ValueError that names what differs between the features of two batches."""
    for name, what in (
        ("n_features_in_", "number of features"),
        ("feature_names_in_", "names of features"),
        ("is_categorical_", "columns of categories"),
    ):
        known, found = getattr(first, name, None), getattr(told, name, None)
        if not np.array_equal(np.asarray(known), np.asarray(found)):
            raise ValueError(
                f"Batch {number} differs from batch 0 in the {what}: {_shown(found)} instead of "
                f"{_shown(known)}. All batches must have the same columns, in the same order and "
                "of the same types."
            )


def _shown(value: Any) -> str:
    return str(value.tolist()) if isinstance(value, np.ndarray) else str(value)


def _beside(values: Any, n: int, name: str, number: int) -> np.ndarray | None:
    """Return the target of a batch as an array."""
    if values is None:
        return None
    try:
        array = np.array(array_of(values))  # a view would keep the whole batch in memory
    except ValueError as error:
        raise ValueError(
            f"{name} of batch {number} must have a value for each of its {n} rows, got a "
            f"{type(values).__name__} whose entries differ in length ({error})."
        ) from error
    if array.ndim == 0 or len(array) != n:
        raise ValueError(
            f"{name} of batch {number} must have a value for each of its {n} rows, got shape "
            f"{array.shape}."
        )
    if array.dtype.kind == "O":
        plain = np.asarray(array.tolist())  # text, or numbers, if it holds each of them as it is
        array = plain if plain.tolist() == array.tolist() else array
    if array.dtype.kind not in "biufU":
        raise ValueError(
            f"{name} of batch {number} has dtype {array.dtype}: pass numbers, booleans or strings."
        )
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        return array.astype(np.float64)
    return array


def _weights(weight: Any, n: int, number: int) -> np.ndarray | None:
    if weight is None:
        return None
    weights = _beside(weight, n, "weight", number)
    assert weights is not None
    if weights.any():
        name = f"weight of batch {number}"
        return to_numpy(read_sample_weight(weights, n, CPU, name=name))
    return weights.astype(np.float64)


def _require_throughout(found: list[bool], name: str) -> None:
    if found[0] != found[-1]:
        with_it, without = (0, len(found) - 1) if found[0] else (len(found) - 1, 0)
        raise ValueError(
            f"Batch {with_it} has a {name}, batch {without} has none: all batches must have one, "
            "or none."
        )


def _count(
    told: Any,
    table: np.ndarray,
    weight: np.ndarray | None,
    values_of: dict[int, np.ndarray],
    counts: dict[int, np.ndarray],
    number: int,
) -> None:
    """Add the categories of a batch to those of the batches before, with their rows."""
    if told._categories is None:
        return
    for feature, values in enumerate(told._categories.values):
        if values is None:
            continue
        column = table[:, feature] if weight is None else table[weight > 0, feature]
        rows = np.bincount(column[column == column].astype(np.int64), minlength=len(values))
        before = values_of.get(feature, values[:0])
        _require_one_kind(before, values, told, feature, number)
        if len(before) == 0:
            values_of[feature], counts[feature] = values, rows
            continue
        joined, place = np.unique(np.concatenate([before, values]), return_inverse=True)
        if len(joined) > MAX_CATEGORIES:
            raise ValueError(
                f"{_name_of(told, feature)} has more than {MAX_CATEGORIES} distinct values, the "
                "most that a categorical feature can have. Leave it numeric, or merge rare values."
            )
        total = np.zeros(len(joined), np.int64)
        np.add.at(total, place, np.concatenate([counts[feature], rows]))
        values_of[feature], counts[feature] = joined, total


def _require_one_kind(
    before: np.ndarray, values: np.ndarray, told: Any, feature: int, number: int
) -> None:
    kinds = kind_of(before), kind_of(values)
    if None not in kinds and kinds[0] != kinds[1]:
        raise ValueError(
            f"{_name_of(told, feature)} holds {kinds[1]} in batch {number} and {kinds[0]} before: "
            "categories must be of one type in all batches."
        )


def _name_of(told: Any, feature: int) -> str:
    names = getattr(told, "feature_names_in_", None)
    return f"Feature {feature}" if names is None else f"Column {names[feature]!r}"


def _features(first: Any, values_of: dict[int, np.ndarray]) -> Features:
    n = int(first.n_features_in_)
    categories = None
    if first._categories is not None:
        for values in values_of.values():
            values.flags.writeable = False
        categories = Categories(tuple(values_of.get(f) for f in range(n)))
    return Features(n, getattr(first, "feature_names_in_", None), first.is_categorical_, categories)
