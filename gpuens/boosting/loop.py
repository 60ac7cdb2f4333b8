"""The rounds of gradient boosting, as the driver of training runs them, and the warning where none
of them found a split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..devices.placement import to_numpy
from ..estimators.nothing_learned import Seen, warn_if_no_split
from ..estimators.training import Rounds, TrainingPlan, TrainingResult, train
from ..forest.forest import Forest
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import count_of_all, largest_of_all
from ..losses.ranking import RankingLoss
from .round import Grower
from .round_data import BoostingResult, StartedRound, TrainingRows
from .trees import ForestBuilder, GrownRound


def boost(
    grower: Grower,
    builder: ForestBuilder,
    plan: TrainingPlan,
    model: Callable[[BoostingResult], Any],
) -> BoostingResult:
    """Run the rounds of ``plan``.

    Parameters
    ----------
    grower, builder
        Grow the trees and collect them; ``builder`` holds those of the rounds before.
    plan : TrainingPlan
        The rows of its evaluations are ``TrainingRows``.
    model : callable
        Makes a fitted estimator from a result, for callbacks.

    Raises
    ------
    KeyboardInterrupt
        Before a single round was finished.
    """
    rounds = BoostingRounds(grower, builder, [e.rows for e in plan.evaluations], model)
    return rounds.result(train(rounds, plan))


class BoostingRounds(Rounds):
    """Rounds whose trees a ``Grower`` grows, for a ``ForestBuilder``."""

    def __init__(
        self,
        grower: Grower,
        builder: ForestBuilder,
        watched: list[TrainingRows],
        model: Callable[[BoostingResult], Any],
    ) -> None:
        self._grower, self._builder, self._model = grower, builder, model
        self._dropout = grower.dropout
        # Several metrics may share their rows, whose raw predictions are updated once.
        others = {id(rows): rows for rows in watched if rows is not grower.rows}
        self._others = list(others.values())
        self._watches_training = any(rows is grower.rows for rows in watched)

    def start(self, index: int) -> StartedRound:
        return self._grower.start_round(index)

    def finish(self, started: StartedRound) -> GrownRound:
        return self._grower.finish_round(started, self._others, self._watches_training)

    def settle(self, finished: GrownRound) -> None:
        if self._dropout is not None and finished.drop is not None:
            self._dropout.settle(finished.index, finished.drop, finished.trees, self._builder)
        finished.append_to(self._builder, self._grower.binner)

    def keep(self, n_rounds: int) -> None:
        if self._dropout is not None:
            self._dropout.keep(n_rounds, self._builder)
        self._builder.keep(n_rounds * self._grower.loss.n_outputs)

    def forest(self) -> Forest:
        return self._builder.freeze()

    def model(self, result: TrainingResult) -> Any:
        return self._model(self.result(result))

    def result(self, result: TrainingResult) -> BoostingResult:
        """Return the forest with the rest of a result."""
        forest, ended = self._builder.freeze(), (result.stopped, result.error)
        dropout = None if self._dropout is None else self._dropout.state()
        return BoostingResult(forest, result.n_rounds, result.evals, *ended, dropout)


def warn_if_nothing_was_learned(model: Any, forest: Forest, grower: Grower) -> None:
    """Warn if no tree has a split, with the reason.

    Parameters
    ----------
    model : BoostingEstimator
    forest : Forest
    grower : Grower
        Has grown the trees.
    """
    rows = grower.rows

    def seen() -> Seen:
        has_weight = rows.weight > 0
        y = rows.y[..., has_weight] if rows.weight.size else rows.y
        n = count_of_all(int(y.shape[-1]))
        y = y[:1] if isinstance(grower.loss, RankingLoss) else y
        n_bins = model._binner.n_bins
        n_seen = round(n * grower.settings.sampling.share)
        return Seen(n_seen, ends(y), lambda: bool((n_bins > 1).any()))

    def reason() -> str:
        gradient, hessian = grower.sizes()
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

    if grower.linear is None and not hasattr(model, "init_"):  # which may leave nothing to learn
        warn_if_no_split(model, [forest], seen, reason)


def ends(y: Array) -> np.ndarray:
    """Return the smallest and the largest value of each target, those of other workers included:
    float64, shape (n_targets, 2)."""
    of_targets = to_numpy(y.reshape(-1, y.shape[-1]))
    inside = of_targets.shape[1] > 0
    low = [float(own.min()) if inside else np.inf for own in of_targets]
    high = [float(own.max()) if inside else -np.inf for own in of_targets]
    return np.array(
        [(-largest_of_all(-a), largest_of_all(b)) for a, b in zip(low, high, strict=True)]
    )
