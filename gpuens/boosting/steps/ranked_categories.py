"""Categories beyond ``max_bins`` in the order of their mean gradients: ``cat_hash_groups="auto"``.

Where a feature has more categories than bins, a bin holds categories of similar mean gradients
before the first tree, and trees split the bins as those of a number. A mean is shrunk towards that
of all rows, the more the fewer rows it has (credibility, see ``rare_categories``). A row of a rare
category must not take part in the choice of its own bin: such categories would seem to explain
everything. So the rows are dealt into four parts, and its bin is that of the mean over the other
three. Frequent categories have one bin for all rows: the means of three parts would be so exact
that trees could tell the parts from each other, and with them the means that were left out.
Evaluation sets and predictions take the mean over all rows. Missing values are one more category,
and one that was not in the training data has their mean; without them, the mean of all. A split is
stored as the set of categories that go to the left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...devices.placement import Device, to_numpy
from ...inputs.binning import Binner, cut_points, sample_rows
from ...inputs.category_bins import CategoryBinner
from ...kernels.runtime.collective import Workers
from ...kernels.scalars.primitives import vectorise
from ...kernels.scalars.rng import draw, subkey
from ...losses import Loss
from ..data.auto_values import AUTO
from ..round_data import RawRows, RoundSettings, Training, TrainingRows
from .pieces import PieceGradients
from .plain import Gradients
from .rare_categories import credible_rows

N_PARTS = 4
FREQUENT = 30
"""Rows from which on a category has one bin."""
LEAST_CREDIBLE = 2.0
"""Features are ranked if a mean becomes as credible as that of all by so many times the rows of an
average category at most. Else the order is mostly noise."""
PURPOSE_PARTS = 0x203
"""Purpose of the draw of a row's part, different from those in ``rng``, ``category_bins`` and
``dropout``."""
_draw, _subkey = vectorise(draw), vectorise(subkey)

OwnBins = Mapping[int, np.ndarray]
"""The bins of this worker's training rows, uint8, for each feature whose categories are ranked."""
NO_BINS: OwnBins = {}


def rank_categories(
    model: Any, rows: RawRows, is_new: bool, loss: Loss, base: np.ndarray, binner: Binner,
    settings: RoundSettings, device: Device,
) -> tuple[Binner, RoundSettings, OwnBins]:  # fmt: skip
    """Return the bins and settings with which features of too many categories are split as numbers,
    and the bins of the training rows.

    Gradients are those at the raw prediction ``base``. Unless ``is_new``, features and cuts are
    those of the trees before. Every worker of those that share a table gets the same bins.
    """
    own_bins: dict[int, np.ndarray] = {}
    features = _features_to_rank(model, rows, binner, loss, is_new)
    if not (features and isinstance(binner, CategoryBinner)):
        return binner, settings, own_bins
    thresholds, bins = list(binner.thresholds), list(binner.bins)
    means = MeanGradients(_at_base(rows, base, binner, loss, settings, device))
    n_categories = model._n_categories()
    for f in features:
        n = int(n_categories[f])
        of_rows, cuts = _categories(rows, f, n), None if is_new else thresholds[f]
        found = means.ranked(of_rows, n + 1, int(model.max_bins), cuts)
        if found is not None and found[0].size:
            thresholds[f], bins[f], own_bins[f] = found
    categorical = settings.rules.categorical.copy()
    categorical[list(own_bins)] = False
    settings = replace(settings, rules=settings.rules._replace(categorical=categorical))
    return CategoryBinner(tuple(thresholds), tuple(bins)), settings, own_bins


def _at_base(
    rows: RawRows, base: np.ndarray, binner: Binner, loss: Loss, settings: RoundSettings,
    device: Device,
) -> Training:  # fmt: skip
    """Return a training without codes whose raw predictions are the same for all rows."""
    target = rows.target
    raw = device.asarray(np.repeat(base[:, None], target.shape[-1], axis=1))
    codes: Any = None
    own = TrainingRows(codes, target, rows.weight, raw, workers=rows.table.workers)
    return Training(own, binner, loss, settings, device)


class MeanGradients:
    """The mean gradients of categories before the first tree.

    Parameters
    ----------
    training : Training
        Whose raw predictions are the same for all rows.
    """

    def __init__(self, training: Training) -> None:
        rows, self._workers = training.rows, training.rows.workers
        of = PieceGradients(training) if training.settings.in_pieces else Gradients(training, 1)
        weight = to_numpy(rows.weight)
        self._used = np.flatnonzero(weight > 0) if weight.size else np.arange(training.n_rows)
        ((gradient,),) = of.of_rows([self._used])
        self._weight = None
        if weight.size:
            gradient = gradient / weight[self._used]
            self._weight = np.concatenate(_gather(weight[self._used], self._workers))
        gradients = _gather(gradient, self._workers)
        rank = self._workers.collective.rank
        first = sum(of_worker.size for of_worker in gradients[:rank])
        self._own = slice(first, first + self._used.size)
        self._gradient = np.concatenate(gradients)
        self._seed = int(training.settings.seed)
        key = _subkey(np.array([self._seed]), PURPOSE_PARTS, 0)
        part = _draw(key, np.arange(self._gradient.size)) % N_PARTS
        self._part = part.astype(np.int64)

    def ranked(
        self, of_rows: np.ndarray, n_categories: int, max_bins: int, cuts: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return the cuts between mean gradients, float64, and the bins of the categories and of
        this worker's rows, uint8. None where the means say too little.

        Parameters
        ----------
        of_rows : int64, shape (n_rows,)
            The categories of this worker's rows; the last one stands for missing values.
        n_categories : int
            That one included.
        max_bins : int
        cuts : float64 array or None
            Those of the trees before.
        """
        category = np.concatenate(_gather(of_rows[self._used], self._workers))
        if cuts is None:
            typical = category.size / np.unique(category).size
            if credible_rows(category, self._gradient[None]) > LEAST_CREDIBLE * typical:
                return None
        means, of_others = self._means(category, n_categories)
        if cuts is None:
            cuts = self._cuts(of_others, max_bins)
        bins = np.searchsorted(cuts, means).astype(np.uint8)
        own = bins[of_rows]  # rows of weight zero see the categories as predictions do
        own[self._used] = np.searchsorted(cuts, of_others[self._own])
        return cuts, bins, own

    def _means(self, category: np.ndarray, n_categories: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the shrunk mean of each category, less that of all, and for each row what decides
        its bin."""
        gradient, n = self._gradient, self._gradient.size
        weight = np.ones(n) if self._weight is None else self._weight
        weight = weight * (n / math.fsum(weight))
        sums = weight * (gradient - math.fsum(weight * gradient) / n)
        credible = credible_rows(category, gradient[None], None)
        place = category * N_PARTS + self._part
        of_part = [np.bincount(place, w, n_categories * N_PARTS) for w in (sums, weight)]
        total, mass = (own.reshape(n_categories, N_PARTS).sum(axis=1) for own in of_part)
        means = _quotients(total, mass + credible)
        others = total[category] - of_part[0][place], mass[category] - of_part[1][place]
        of_others = _quotients(others[0], others[1] + credible)
        is_frequent = np.bincount(category, minlength=n_categories) >= FREQUENT
        return means, np.where(is_frequent[category], means[category], of_others)

    def _cuts(self, values: np.ndarray, max_bins: int) -> np.ndarray:
        weight = self._weight
        sampled = sample_rows(values.size, self._seed)
        if sampled is not None:
            values, weight = values[sampled], None if weight is None else weight[sampled]
        return cut_points(values, weight, max_bins)


def _quotients(sums: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Return means, zero without any mass: there only the mean of all rows is known."""
    return np.divide(sums, masses, out=np.zeros_like(sums), where=masses > 0)


def _features_to_rank(
    model: Any, rows: RawRows, binner: Binner, loss: Loss, is_new: bool
) -> list[int]:
    if not isinstance(binner, CategoryBinner):
        return []
    if not is_new:
        if binner.is_ranked.any():
            _require_continuable(model, rows)
        return np.flatnonzero(binner.is_ranked).tolist()
    has_values = not (rows.table.is_binned or rows.table.is_sparse)
    can_rank = has_values and loss.n_outputs == 1 and not (model.dropout or model.linear_leaves)
    if not (model.cat_hash_groups == AUTO and can_rank):
        return []
    return np.flatnonzero(model._n_categories() > int(model.max_bins)).tolist()


def _require_continuable(model: Any, rows: RawRows) -> None:
    """Refuse what cannot go on after trees on features whose categories are ranked."""
    of_features = f"features of more categories than max_bins={model.max_bins}"
    if model.dropout:
        raise ValueError(
            f"dropout={model.dropout} cannot leave out trees that were trained without it on "
            f"{of_features}: set dropout=0.0, or warm_start=False."
        )
    if model.linear_leaves:
        raise ValueError(
            f"linear_leaves=True cannot continue trees that were trained without it on "
            f"{of_features}: set linear_leaves=False, or warm_start=False."
        )
    if rows.table.is_binned:
        raise ValueError(
            f"X is a BinnedTable, whose bins are not those of a model that was trained on "
            f"{of_features}: pass the rows as an array or a data frame, or train a new model."
        )


def _categories(rows: RawRows, feature: int, missing: int) -> np.ndarray:
    """Return the categories of this worker's rows, int64, with a number for missing values."""
    column = to_numpy(rows.table.values[:, feature])
    return np.where(np.isnan(column), missing, column).astype(np.int64)


def _gather(values: np.ndarray, workers: Workers) -> list[np.ndarray]:
    return workers.collective.gather(np.ascontiguousarray(values))
