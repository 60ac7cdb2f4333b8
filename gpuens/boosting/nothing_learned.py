"""The warning of boosting none of whose trees has a split."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ..devices.placement import to_numpy
from ..estimators.nothing_learned import Seen, warn_if_no_split
from ..forest.forest import Forest
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import Workers, count_of_all, largest_of_each
from ..losses.ranking import RankingLoss
from .rounds import BoostingRounds


def warn_if_nothing_was_learned(model: Any, forest: Forest, rounds: BoostingRounds) -> None:
    """Warn if no tree has a split, with the reason."""
    training, rows = rounds.training, rounds.training.rows

    def seen() -> Seen:
        has_weight = rows.weight > 0
        y = rows.y[..., has_weight] if rows.weight.size else rows.y
        n = count_of_all(int(y.shape[-1]), rows.workers)
        y = y[:1] if isinstance(training.loss, RankingLoss) else y
        n_bins = model._binner.n_bins
        n_seen = round(n * training.settings.sampling.share)
        return Seen(n_seen, ends(y, rows.workers), lambda: bool((n_bins > 1).any()))

    def reason() -> str:
        gradient, hessian = rounds.gradients.sizes()
        if gradient == 0.0:
            return (
                "in float32, in which trees see them, all gradients are zero. Multiply y by a "
                "power of two, such as 2.0**100, and divide the predictions by it."
            )
        if hessian < 2.0 * model.min_sum_hessian:
            return (
                f"the hessians of all rows add up to {hessian:.3g}, and each child needs "
                f"min_sum_hessian={model.min_sum_hessian:g}. Multiply sample_weight by a power of "
                "two, or, where the hessian depends on y (as of Poisson), y."
            )
        return ""

    if training.settings.ridge is None and not hasattr(
        model, "init_"
    ):  # which may leave nothing to learn
        settings = copy.copy(model)
        settings.min_samples_leaf = training.settings.params.min_samples_leaf  # of "auto", too
        warn_if_no_split(settings, [forest], seen, reason)


def ends(y: Array, workers: Workers) -> np.ndarray:
    """Return the smallest and the largest value of each target, those of other workers included:
    float64, shape (n_targets, 2)."""
    targets = to_numpy(y.reshape(-1, y.shape[-1]))
    own = [(-float(t.min()), float(t.max())) if t.size else (-np.inf, -np.inf) for t in targets]
    return largest_of_each(np.array(own), workers) * [-1.0, 1.0]
