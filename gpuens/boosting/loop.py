"""The rounds of gradient boosting, as the driver of training runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..estimators.training import Evaluations, Rounds, TrainingPlan, TrainingResult, train
from ..forest.forest import Forest
from .round import Grower, StartedRound, TrainingRows
from .trees import ForestBuilder, GrownRound


@dataclass
class BoostingResult:
    """A trained model: its forest, rounds and metrics, and why the training ended.

    ``n_iter`` counts the rounds in ``forest``, those of a warm start included; ``error`` is that
    of a callback.
    """

    forest: Forest
    n_iter: int
    evals: Evaluations
    stopped: str
    error: Exception | None = None


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
        # Several metrics may share their rows, whose raw predictions are updated once.
        others = {id(rows): rows for rows in watched if rows is not grower.rows}
        self._others = list(others.values())
        self._watches_training = any(rows is grower.rows for rows in watched)

    def start(self, index: int) -> StartedRound:
        return self._grower.start_round(index)

    def finish(self, started: StartedRound) -> GrownRound:
        return self._grower.finish_round(started, self._others, self._watches_training)

    def settle(self, finished: GrownRound) -> None:
        finished.append_to(self._builder, self._grower.binner)

    def keep(self, n_rounds: int) -> None:
        self._builder.keep(n_rounds * self._grower.loss.n_outputs)

    def forest(self) -> Forest:
        return self._builder.freeze()

    def model(self, result: TrainingResult) -> Any:
        return self._model(self.result(result))

    def result(self, result: TrainingResult) -> BoostingResult:
        """Return the forest with the rest of a result."""
        forest = self._builder.freeze()
        return BoostingResult(forest, result.n_rounds, result.evals, result.stopped, result.error)
