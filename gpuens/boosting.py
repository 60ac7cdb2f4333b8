"""The boosting loop: rounds, evaluation, early stopping, callbacks, Ctrl-C."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .callbacks import Callback, TrainingState
from .early_stopping import EarlyStopping
from .forest import Forest, ForestBuilder
from .growth import Grower, TrainingRows

Metric = Callable[[TrainingRows], float]


@dataclass
class Evaluation:
    """A metric on a set of rows, computed after every round.

    ``rows`` whose raw predictions the rounds update; ``data`` and ``metric`` name it.
    """

    data: str
    metric: str
    rows: TrainingRows
    compute: Metric


@dataclass
class BoostingResult:
    """What the loop leaves behind.

    ``n_iter`` counts the rounds in ``forest``, those of a warm start included; ``stopped``
    says why the loop ended: "finished", "early stopping", "callback" or "interrupted".
    """

    forest: Forest
    n_iter: int
    evals: dict[str, dict[str, list[float]]]
    stopped: str


def boost(
    grower: Grower,
    builder: ForestBuilder,
    n_iterations: int,
    first: int,
    evaluations: Sequence[Evaluation],
    stopping: EarlyStopping | None,
    callbacks: Sequence[Callback],
    model: Callable[[Forest, int], Any],
) -> BoostingResult:
    """Run rounds ``first … n_iterations - 1``.

    Parameters
    ----------
    grower, builder
        Grow the trees and collect them; ``builder`` holds those of the rounds before.
    evaluations : sequence of Evaluation
        The first one decides about stopping.
    stopping : EarlyStopping or None
        When it stops the loop, trees after the best round are dropped.
    model : callable
        Makes a fitted estimator from a forest and its number of rounds, for callbacks.
    """
    n_outputs = grower.loss.n_outputs
    others = _distinct([e.rows for e in evaluations if e.rows is not grower.rows])
    evals: dict[str, dict[str, list[float]]] = {}
    _evaluate(evaluations, evals)
    if stopping is not None:
        stopping.update(0, _watched(evaluations, evals))
    done = first
    stopped = "finished"

    def current_model() -> Any:
        return model(builder.freeze(), done)

    state = TrainingState(done, n_iterations, evals, builder.freeze, current_model)
    try:
        for index in range(first, n_iterations):
            grower.grow_round(index, builder, others)
            done = index + 1
            _evaluate(evaluations, evals)
            state.iteration = done
            stop = [callback.after_iteration(state) for callback in callbacks]
            if any(stop):
                stopped = "callback"
                break
            if stopping is not None and stopping.update(done - first, _watched(evaluations, evals)):
                stopped = "early stopping"
                break
    except KeyboardInterrupt:
        stopped = "interrupted"
        warnings.warn(
            f"Training was interrupted: the model keeps the {done} rounds that were finished.",
            RuntimeWarning,
            stacklevel=4,
        )
        builder.drop_last(len(builder) - done * n_outputs)
    if stopping is not None and stopped in ("early stopping", "finished"):
        done = max(first + stopping.best_iteration, min(done, 1))
        builder.drop_last(len(builder) - done * n_outputs)
    return BoostingResult(builder.freeze(), done, evals, stopped)


def _evaluate(
    evaluations: Sequence[Evaluation], evals: dict[str, dict[str, list[float]]]
) -> None:
    for e in evaluations:
        evals.setdefault(e.data, {}).setdefault(e.metric, []).append(e.compute(e.rows))


def _watched(
    evaluations: Sequence[Evaluation], evals: dict[str, dict[str, list[float]]]
) -> float:
    return evals[evaluations[0].data][evaluations[0].metric][-1]


def _distinct(rows: list[TrainingRows]) -> list[TrainingRows]:
    return list({id(r): r for r in rows}.values())
