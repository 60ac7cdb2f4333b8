"""The bytes that histograms are added up from: features share them where they can.

A histogram costs one addition for each row and byte, whatever the byte holds.

Features that are never away from their most common bin in the same row, such as the columns of a
one-hot encoding, share a *digit* (Ke et al. 2017, "LightGBM: A highly efficient gradient boosting
decision tree", section 4; here no row may break the rule, so that no model changes):

    digit    0            1 ... 4             5                ...
             all common   bins of feature 7   bin of feature 9

The histogram of such a feature is read off; its most common bin holds the rest of the node. A
feature of few bins is a digit of its own. Several digits make a byte:

    code = d0 + d1 * n0 + d2 * n0 * n1 + ...        (stride of digit k: n0 * ... * n(k-1))

and their histograms are sums over the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...runtime.arrays import derived, empty_on_line
from ...runtime.collective import ONE_WORKER, Workers, count_of_all, rows_of_all, sum_of_each
from ...runtime.dtypes import MISSING, N_SLOTS, Codes
from .histogram import SLOT_ALIGNMENT

FEWEST_ROWS = 5_000
"""Tables with fewer rows do not repay the expansion."""
MOST_BINS = 16
"""A feature with more bins is not a digit of its own beside others."""
MOST_BINS_TOGETHER = N_SLOTS // 2
"""A feature with more bins does not share a digit."""
SAMPLED_ROWS = 4096
"""Rows that show which features cannot share a digit; all rows confirm that others can."""
MOST_TRIALS = 4
"""Digits in which a feature is confirmed on all rows before it gets one of its own."""

_I = np.int64
FEATURE = np.dtype(
    [
        ("column", _I),  # the byte that holds it
        ("stride", _I),  # of its digit in the code of the byte; 0: the byte is its own
        ("n_bins", _I),
        ("product", _I),  # number of codes of the byte
        ("n_values", _I),  # of its digit
        ("first", _I),  # value of the digit that is its first bin; 0: the digit is its own
        ("common", _I),  # its most common bin, which no value stands for; if it shares the digit
    ]
)


class Layout(NamedTuple):
    """The codes that histograms are added up from.

    words : uint64, flat
        Row-major, eight bytes a word.
    features : FEATURE, one entry a feature
    column_begin, column_features : int64
        ``column_features[column_begin[c]:column_begin[c + 1]]`` share byte c.
    column_slots : int64
        The histogram of byte c uses its first ``column_slots[c]`` entries, and MISSING.
    """

    words: np.ndarray
    features: np.ndarray
    column_begin: np.ndarray
    column_features: np.ndarray
    column_slots: np.ndarray


class Digit:
    """Features that share a digit.

    Parameters
    ----------
    codes : Codes
    feature : int
        The first one.
    n_bins : int
        Its bins.
    common : int
        Its most common bin.
    workers : Workers
    """

    def __init__(
        self, codes: Codes, feature: int, n_bins: int, common: int, workers: Workers
    ) -> None:
        self._codes, self._workers = codes, workers
        self.features, self.common = [feature], [common]
        self.n_values = n_bins
        self._taken: np.ndarray | None = None

    def takes(self, feature: int, n_bins: int, common: int) -> bool:
        """Add a feature, if in no row it and another one are away from their common bins."""
        if self._taken is None:
            self._taken = self._away(self.features[0], self.common[0])
        away = self._away(feature, common)
        if count_of_all(int((self._taken & away).any()), self._workers):
            return False
        self._taken |= away
        self.features.append(feature)
        self.common.append(common)
        self.n_values += n_bins - 1
        return True

    def _away(self, feature: int, common: int) -> np.ndarray:
        away: np.ndarray = self._codes.columns[feature] != common
        return away


def layout(codes: Codes, n_bins: np.ndarray, workers: Workers = ONE_WORKER) -> Layout:
    """Return the layout of a table, made once."""
    return derived(codes.rows, "layout", lambda: _layout(codes, n_bins, workers))


def plain_layout(codes: Codes, n_bins: np.ndarray) -> Layout:
    """Return the layout in which every feature has a byte of its own, whatever the rows hold."""
    return _arranged(codes, n_bins, list(range(n_bins.size)), [])


def _layout(codes: Codes, n_bins: np.ndarray, workers: Workers) -> Layout:
    return _arranged(codes, n_bins, *_digits(codes, n_bins, workers))


def _arranged(codes: Codes, n_bins: np.ndarray, own: list[int], digits: list[Digit]) -> Layout:
    shared = _bytes(digits)
    n_features, n_rows = codes.columns.shape
    features = np.zeros(n_features, FEATURE)
    features["n_bins"] = features["n_values"] = n_bins
    groups = [[f] for f in own]
    features["product"] = n_bins
    for digits_of_byte in shared:
        product = 1
        for digit in digits_of_byte:
            _place(features, digit, product)
            product *= digit.n_values
        groups.append([f for digit in digits_of_byte for f in digit.features])
        features["product"][groups[-1]] = product
        if len(groups[-1]) == 1:
            features["stride"][groups[-1]] = 0
    groups.sort(key=lambda group: (len(group) > 1, group[0]))  # all alone: as in ``codes``
    slots = [int(features["product"][group[0]]) for group in groups]
    begin = np.cumsum([0, *map(len, groups)])
    for column, group in enumerate(groups):
        features["column"][group] = column
    used = np.minimum(-(-np.array(slots) // SLOT_ALIGNMENT) * SLOT_ALIGNMENT, N_SLOTS)
    words = codes.rows if len(groups) == n_features else _words(codes, features, len(groups))
    return Layout(words.reshape(-1).view(np.uint64), features, begin, np.concatenate(groups), used)


def _place(features: np.ndarray, digit: Digit, stride: int) -> None:
    """Fill in the features of a digit."""
    features["stride"][digit.features] = stride
    if len(digit.features) == 1:
        return
    first = 1
    for feature, common in zip(digit.features, digit.common, strict=True):
        entry = features[feature : feature + 1]
        entry["first"], entry["common"], entry["n_values"] = first, common, digit.n_values
        first += int(entry["n_bins"][0]) - 1


def _words(codes: Codes, features: np.ndarray, n_columns: int) -> np.ndarray:
    """Return the bytes of all rows, padded to words."""
    words = empty_on_line((codes.columns.shape[1], -(-n_columns // 8) * 8), np.uint8)
    words[:, n_columns:] = 0
    for column in range(n_columns):
        total = np.zeros(len(words), np.uint8)
        for f in np.flatnonzero(features["column"] == column):
            total += _parts(codes.columns[f], features[f])
        words[:, column] = total
    return words


def _parts(column: np.ndarray, feature: np.void) -> np.ndarray:
    """Return what a feature adds to the code of its byte, for every row."""
    stride = np.uint8(max(feature["stride"], 1))
    if feature["first"] == 0:
        return column * stride
    common = feature["common"]
    if feature["n_bins"] == 2:
        return (column != common) * np.uint8(feature["first"] * stride)
    bins = np.arange(feature["n_bins"])
    digits = np.where(bins == common, 0, feature["first"] + bins - (bins > common))
    return (digits * stride).astype(np.uint8)[column]


def _digits(codes: Codes, n_bins: np.ndarray, workers: Workers) -> tuple[list[int], list[Digit]]:
    """Decide which features keep a byte, and which digits the others make. Those with missing
    values keep theirs. Where workers share the rows, those of all decide."""
    n_features, n_rows = codes.columns.shape[0], rows_of_all(codes.columns.shape[1], workers)
    if n_rows < FEWEST_ROWS:
        return list(range(n_features)), []
    step = -(-n_rows // SAMPLED_ROWS)
    sample = codes.columns[:, -workers.first % step :: step]
    taken = np.zeros((n_features, -(-sample.shape[1] // 8)), np.uint8)
    own: list[int] = []
    digits: list[Digit] = []
    for f, n in enumerate(n_bins.tolist()):
        has_missing = int(codes.columns[f].max() == MISSING)
        if n > MOST_BINS_TOGETHER or count_of_all(has_missing, workers):
            own.append(f)
            continue
        common = int(sum_of_each(np.bincount(sample[f], minlength=n), workers).argmax())
        away = np.packbits(sample[f] != common)
        conflicts = (taken[: len(digits)] & away).any(axis=1).astype(np.int64)
        at = _digit_for(f, n, common, digits, sum_of_each(conflicts, workers) == 0)
        if at == len(digits):
            digits.append(Digit(codes, f, n, common, workers))
        taken[at] |= away
    alone = [d for d in digits if len(d.features) == 1 and d.n_values > MOST_BINS]
    own += [digit.features[0] for digit in alone]
    return sorted(own), [digit for digit in digits if digit not in alone]


def _digit_for(
    feature: int, n_bins: int, common: int, digits: list[Digit], may_fit: np.ndarray
) -> int:
    """Return the number of the digit that takes a feature, ``len(digits)`` if none does."""
    n_trials = 0
    for at in np.flatnonzero(may_fit).tolist():
        if digits[at].n_values + n_bins - 1 > N_SLOTS:
            continue
        if digits[at].takes(feature, n_bins, common):
            return at
        n_trials += 1
        if n_trials == MOST_TRIALS:
            break
    return len(digits)


def _bytes(digits: list[Digit]) -> list[list[Digit]]:
    """Put digits into bytes: shared ones first, the largest first, then the others in their
    order, each into the first byte that has room."""
    found: list[list[Digit]] = []
    products: list[int] = []
    for digit in sorted(digits, key=lambda d: -d.n_values if len(d.features) > 1 else 0):
        room = (k for k, size in enumerate(products) if size * digit.n_values <= N_SLOTS)
        at = next(room, len(found))
        if at == len(found):
            found.append([])
            products.append(1)
        found[at].append(digit)
        products[at] *= digit.n_values
    return found
