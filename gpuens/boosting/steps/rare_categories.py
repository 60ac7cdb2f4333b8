"""The smoothing of features with rare categories, learned from the gradients before the first tree.

A category with fewer rows than ``cat_smooth`` goes with the missing values: its mean says little,
and splits that trust it overfit. Not so where the means of rare categories differ by far more than
their rows do: then such a feature may be all there is to learn. Credibility theory says how many
rows a mean needs to be worth as much as the mean of all: the variance within categories divided by
that between them (Bühlmann 1967). A feature gets that number, divided by the share of its rows
whose categories are rare, where it is certainly smaller than ``cat_smooth``: where these rows are
few, little is lost without them, and frequent categories, which are rare in small nodes, would lose
their smoothing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import fdtri

from ...devices.array_functions import occurrences
from ...devices.placement import module_of, to_numpy
from ...kernels.growth.sparse_codes import SparseCodes
from ...kernels.runtime.arrays import Array
from ...kernels.runtime.collective import Workers, sum_of_each
from ...kernels.runtime.dtypes import N_SLOTS
from ..parameters import AUTO_SMOOTHING
from ..round_data import Training
from .pieces import PieceGradients
from .plain import Gradients

CERTAINTY = 0.95
STEPS = 64.0
"""Smoothing is a multiple of 1 / STEPS, so that it does not depend on the last bits of a sum."""
PIECE_ROWS = 1 << 22
"""Rows whose categories are counted at once, with 9 bytes each."""


def smooth_categories(model: Any, training: Training, is_new: bool) -> Training:
    """Return a training that smooths features with rare categories, for ``cat_smooth="auto"``, as
    learned from its rows, or, unless ``is_new``, as the trees before were."""
    if is_new:
        vars(model).pop("_category_smoothing", None)
    if model.cat_smooth != "auto":
        return training
    if is_new and (smoothing := smoothing_of_features(training)).size:
        model._category_smoothing = smoothing
    if (own := getattr(model, "_category_smoothing", None)) is None:
        return training
    rules = training.settings.rules._replace(cat_smooth=own)
    return replace(training, settings=replace(training.settings, rules=rules))


def smoothing_of_features(training: Training) -> np.ndarray:
    """Return the smoothing of each feature, float64 of shape (n_features,), or (0,) where
    ``AUTO_SMOOTHING`` is right for all.

    Every worker of those that share a table gets the same.
    """
    smoothing = np.full(training.n_bins.size, AUTO_SMOOTHING)
    share = training.settings.sampling.share
    rare, share_of_rare = {}, {}
    for f in np.flatnonzero(training.settings.rules.categorical).tolist():
        counts = _count(training, f)
        bins = counts[: training.n_bins[f]]
        is_rare = (bins >= 2) & (bins * share < AUTO_SMOOTHING)
        if is_rare.sum() >= 2:
            rare[f] = is_rare
            share_of_rare[f] = bins[is_rare].sum() / counts.sum()
    if not rare:
        return np.empty(0)
    found = [_rows_of_bins(training, f, is_rare) for f, is_rare in rare.items()]
    of = PieceGradients(training) if training.settings.in_pieces else Gradients(training, 1)
    gradients = of.of_rows([at for at, _ in found])
    for f, (_, bins), g in zip(rare, found, gradients, strict=True):
        rows = credible_rows(*_of_all_workers(bins, g, training.rows.workers)) / share_of_rare[f]
        smoothing[f] = math.ceil(STEPS * min(AUTO_SMOOTHING, rows)) / STEPS
    return smoothing if (smoothing < AUTO_SMOOTHING).any() else np.empty(0)


def credible_rows(
    groups: np.ndarray, values: np.ndarray, certainty: float | None = CERTAINTY
) -> float:
    """Return how many rows of a group make its mean as credible as the mean of all: the largest
    number that the values do not contradict, infinity where they do not contradict equal means.

    The ratio of the variance between groups to that within has an exact lower confidence limit
    where both are normal and groups are of equal size, otherwise nearly so (Searle, Casella and
    McCulloch 1992, section 3.6).

    Parameters
    ----------
    groups : integers, shape (n,)
    values : float64, shape (n_outputs, n)
        The variances of all outputs, which may differ in scale, are added up.
    certainty : float or None
        None for the number itself (the estimate of an analysis of variance) in place of a limit.
    """
    _, groups = np.unique(groups, return_inverse=True)
    n, sizes = groups.size, np.bincount(groups)
    k = sizes.size
    if k < 2 or n == k:
        return math.inf
    between, within = [], []
    for own in values:
        own = own - math.fsum(own) / n
        means = np.bincount(groups, own) / sizes
        among, inside = math.fsum(sizes * means**2), math.fsum((own - means[groups]) ** 2)
        if among + inside > 0.0:
            between.append(among / (among + inside))
            within.append(inside / (among + inside))
    least = 1.0 if certainty is None else float(fdtri(k - 1, n - k, certainty))
    ratio = math.fsum(between) / (k - 1)
    limit = math.fsum(within) / (n - k) * least
    if ratio <= limit:
        return math.inf
    typical_size = (n - math.fsum(sizes**2) / n) / (k - 1)
    return typical_size * limit / (ratio - limit)


def _count(training: Training, feature: int) -> np.ndarray:
    """Count the rows of positive weight of each bin, those of other workers included."""
    rows, counts = training.rows, np.zeros(N_SLOTS, np.int64)
    column = _column(training, feature)
    for begin in range(0, column.shape[0], PIECE_ROWS):
        codes = column[begin : begin + PIECE_ROWS]
        if rows.weight.size:
            codes = codes[_like(codes, rows.weight[begin : begin + PIECE_ROWS] > 0)]
        counts += to_numpy(occurrences(codes, N_SLOTS))
    return sum_of_each(counts, rows.workers)


def _rows_of_bins(training: Training, feature: int, wanted: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return this worker's rows of positive weight in some bins, ascending, and their bins."""
    rows, at, bins = training.rows, [], []
    column = _column(training, feature)
    is_wanted = np.zeros(N_SLOTS, bool)
    is_wanted[: wanted.size] = wanted
    for begin in range(0, column.shape[0], PIECE_ROWS):
        codes = column[begin : begin + PIECE_ROWS]
        chosen = module_of(codes).asarray(is_wanted)[codes]
        if rows.weight.size:
            chosen &= _like(codes, rows.weight[begin : begin + PIECE_ROWS] > 0)
        inside = module_of(codes).nonzero(chosen)[0]
        at.append(to_numpy(inside) + begin)
        bins.append(to_numpy(codes[inside]))
    return np.concatenate(at), np.concatenate(bins)


def _column(training: Training, feature: int) -> Array:
    codes = training.rows.codes
    assert not isinstance(codes, SparseCodes), "sparse tables have no categories"
    return codes.columns[feature]


def _like(codes: Array, values: Array) -> Array:
    """Return values where the codes are: those of a table larger than a GPU are on the host."""
    xp = module_of(codes)
    return values if xp is module_of(values) else xp.asarray(to_numpy(values))


def _of_all_workers(
    bins: np.ndarray, values: np.ndarray, workers: Workers
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bins and values of all workers' rows, in the order of the rows."""
    gather = workers.collective.gather
    values = np.concatenate(gather(np.ascontiguousarray(values.T))).T
    return np.concatenate(gather(bins)), values
