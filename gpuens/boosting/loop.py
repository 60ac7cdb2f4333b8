"""The rounds of gradient boosting, as the driver of training runs them, and the warning where none
of them found a split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..estimators.nothing_learned import warn
from ..estimators.training import Rounds, TrainingPlan, TrainingResult, train
from ..forest.forest import Forest
from ..kernels.runtime.collective import current_share
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


def warn_if_nothing_was_learned(forest: Forest, grower: Grower, min_sum_hessian: float) -> None:
    """Warn if no tree has a split, and the size of the target or of the weights is the reason.

    Parameters
    ----------
    forest : Forest
    grower : Grower
        Has grown the trees.
    min_sum_hessian : float
        Of a child.
    """
    if current_share() is not None:  # a worker does not know the targets of the others
        return
    y, weight = grower.rows.y, grower.rows.weight
    if forest.n_trees == 0 or forest.feature.size > forest.n_trees:
        return
    seen = y[..., weight > 0] if weight.size else y
    if bool((seen.min(axis=-1) == seen.max(axis=-1)).all()):
        return
    gradient, hessian = grower.sizes()
    if gradient == 0.0:
        warn(
            "No tree has a split: in float32, in which trees see them, all gradients are zero. "
            "Multiply y by a power of two, such as 2.0**100, and divide the predictions by it."
        )
    elif hessian < 2.0 * min_sum_hessian:
        warn(
            f"No tree has a split: the hessians of all rows add up to {hessian:.3g}, and each "
            f"child needs min_sum_hessian={min_sum_hessian:g}. Multiply sample_weight by a power "
            "of two, or, where the hessian depends on y (as of Poisson), y."
        )
