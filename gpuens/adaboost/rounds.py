"""The loop of AdaBoost: a learner, its judgement, new weights of the rows, and again."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..callbacks import Callback, TrainingState
from .rules import INFINITE, PERFECT, WEAK, Judgement, Rule
from .weights import RowWeights

FRAMES_BELOW_FIT = 5
"""Calls between ``fit`` and a warning in ``_warn``, so that it shows the user's line."""
DATA, METRIC = "training", "learner_error"
"""What callbacks see the errors of the learners as."""


class Learners(Protocol):
    """The learners of a model, as many as there were rounds."""

    def fit(self, t: int, rows: RowWeights) -> Any:
        """Fit learner t; what it predicts for the training rows."""

    def predictions(self, t: int) -> Any:
        """What learner t predicts for the training rows."""

    def keep(self, n: int) -> None:
        """Forget all but the first n learners."""

    def forest(self, weights: np.ndarray) -> Any:
        """All of them as one ``Forest``."""


@dataclass(frozen=True)
class Rounds:
    """What the loop leaves behind, beside the learners.

    weights, errors : float64, shape (n_rounds,)
        Of the learners.
    stopped : str
        "finished", "perfect learner", "weak learner", "infinite weights", "callback" or
        "interrupted".
    """

    weights: np.ndarray
    errors: np.ndarray
    stopped: str = "finished"

    @classmethod
    def of(cls, learners: list[Judgement], stopped: str) -> Rounds:
        """Of the learners that a model keeps."""
        weights = np.array([learner.weight for learner in learners], np.float64)
        return cls(weights, np.array([learner.error for learner in learners], np.float64), stopped)


def boost(
    learners: Learners,
    rule: Rule,
    rows: RowWeights,
    n_rounds: int,
    before: Rounds,
    callbacks: Sequence[Callback],
    model: Callable[[Rounds], Any],
) -> Rounds:
    """Run rounds until there are ``n_rounds``, or the rule ends them.

    Parameters
    ----------
    learners : Learners
        Holds those of the rounds before.
    rule : Rule
    rows : RowWeights
        The weights before the first round of all.
    n_rounds : int
    before : Rounds
        The rounds that are there already.
    callbacks : sequence
    model : callable
        Makes a fitted estimator of rounds, for callbacks.

    Raises
    ------
    KeyboardInterrupt
        Before a single round was finished.
    ValueError
        The first learner is too weak for the rule.
    """
    run = _Run(learners, rule, rows, n_rounds, before, model)
    stopped = _ended_by_rule(before, rule)
    try:
        if stopped == "finished" and len(run.done) < n_rounds:
            run.replay()
        while stopped == "finished" and len(run.done) < n_rounds:
            stopped = run.round(callbacks)
    except KeyboardInterrupt:
        if not run.done:
            raise
        stopped = "interrupted"
        _warn(
            f"Training was interrupted: the model keeps the {len(run.done)} rounds that were "
            "finished.",
            RuntimeWarning,
        )
    if stopped == INFINITE:
        _warn(
            f"Sample weights have reached infinite values in round {len(run.done)}, so boosting "
            "ends there. Try a lower learning_rate.",
            UserWarning,
        )
    for callback in callbacks:
        if hasattr(callback, "after_training"):
            callback.after_training(run.state)
    learners.keep(len(run.done))
    return Rounds.of(run.done, stopped)


def _warn(text: str, category: type[Warning]) -> None:
    warnings.warn(text, category, stacklevel=FRAMES_BELOW_FIT)


def _ended_by_rule(before: Rounds, rule: Rule) -> str:
    """Why no round can follow those that are there; "finished" if some can."""
    if before.errors.size and before.errors[-1] == 0:
        return PERFECT
    if before.errors.size and before.errors[-1] >= rule.chance:
        return WEAK
    return INFINITE if before.stopped == INFINITE else "finished"


class _Run:
    """The rounds so far; the parameters are those of ``boost``.

    Attributes
    ----------
    done : list of Judgement
        Of the learners that belong to the model.
    state : TrainingState
        What callbacks see.
    """

    def __init__(
        self,
        learners: Learners,
        rule: Rule,
        rows: RowWeights,
        n_rounds: int,
        before: Rounds,
        model: Callable[[Rounds], Any],
    ) -> None:
        pairs = zip(before.errors.tolist(), before.weights.tolist(), strict=True)
        self.done = done = [Judgement(error, weight) for error, weight in pairs]
        self._learners, self._rule, self._rows, self._n_rounds = learners, rule, rows, n_rounds
        self._history = [rule.chance, *before.errors.tolist()]
        self.state = TrainingState(
            len(done), n_rounds, len(done), {DATA: {METRIC: self._history}},
            lambda: learners.forest(Rounds.of(done, "checkpoint").weights),
            lambda: model(Rounds.of(done, "checkpoint")),
        )  # fmt: skip

    def replay(self) -> None:
        """Give the rows the weights that the rounds so far have left."""
        for t, learner in enumerate(self.done):
            self._rule.reweight(self._learners.predictions(t), learner.weight, self._rows)

    def round(self, callbacks: Sequence[Callback]) -> str:
        """One more round; why it is the last one, or "finished"."""
        t = len(self.done)
        predicted = self._learners.fit(t, self._rows)
        learner = self._rule.judge(predicted, self._rows)
        if learner.ends == WEAK:
            if t > 0:
                return WEAK
            alone = self._rule.weight_alone(learner.error)
            learner = Judgement(learner.error, alone, WEAK)
        self.done.append(learner)
        self._history.append(learner.error)
        self.state.iteration = t + 1
        stop = [callback.after_iteration(self.state) for callback in callbacks]
        if learner.ends:
            return learner.ends
        if any(stop):
            return "callback"
        if t + 1 < self._n_rounds:
            self._rule.reweight(predicted, learner.weight, self._rows)
        return "finished"
