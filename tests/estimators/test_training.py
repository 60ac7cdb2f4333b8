"""Every way in which training in rounds ends, for all ensembles that are trained so."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from gpuens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    StagewiseClassifier,
    StagewiseRegressor,
)
from gpuens.adaboost.rounds import AdaBoostRounds
from gpuens.boosting.rounds import BoostingRounds
from gpuens.stagewise.rounds import StagewiseRounds

ROUNDS = {
    AdaBoostClassifier: AdaBoostRounds,
    AdaBoostRegressor: AdaBoostRounds,
    GradientBoostingClassifier: BoostingRounds,
    GradientBoostingRegressor: BoostingRounds,
    StagewiseClassifier: StagewiseRounds,
    StagewiseRegressor: StagewiseRounds,
}
every = pytest.mark.parametrize("cls", ROUNDS, ids=lambda cls: cls.__name__)
N = 6
"""Rounds of a whole training."""


@functools.cache
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, a noisy target, and which half it is in."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.5 * rng.normal(size=200)
    return X, y, (y > 0).astype(int)


def trained(model: Any, **settings: Any) -> Any:
    X, y, classes = table()
    return model.set_params(**settings).fit(X, classes if hasattr(model, "predict_proba") else y)


def n_rounds(model: Any) -> int:
    return getattr(model, "n_iter_", None) or len(model)


def same(model: Any, other: Any) -> bool:
    X = table()[0]
    method = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    return n_rounds(model) == n_rounds(other) and np.array_equal(
        *(getattr(m, method)(X) for m in (model, other))
    )


def is_whole_after_warm_start(model: Any) -> bool:
    """Whether training that goes on gives the model of one training."""
    whole = trained(clone(model), callbacks=None, n_estimators=N)
    return same(trained(model, callbacks=None, n_estimators=N, warm_start=True), whole)


class After:
    """Call a function after one round, and another one at the end."""

    def __init__(self, iteration: int, action: Any, at_end: Any = lambda: None) -> None:
        self.iteration, self.action, self.at_end = iteration, action, at_end
        self.seen: list[int] = []

    def after_iteration(self, state: Any) -> Any:
        self.seen.append(state.iteration)
        return self.action() if state.iteration == self.iteration else None

    def after_training(self, state: Any) -> None:
        self.seen.append(-state.iteration)
        self.at_end()


def interrupt() -> None:
    raise KeyboardInterrupt


@every
def test_a_callback_that_raises(cls):
    callback = After(3, lambda: 1 / 0)
    model = cls()
    with pytest.raises(ZeroDivisionError):
        trained(model, n_estimators=N, callbacks=[callback])
    assert callback.seen == [1, 2, 3, -3]
    assert model.stopped_ == "error" and n_rounds(model) == 3
    assert same(model, trained(cls(n_estimators=3)))
    assert is_whole_after_warm_start(model)


@every
def test_a_callback_that_raises_at_the_end(cls):
    model = cls()
    with pytest.raises(ZeroDivisionError):
        trained(model, n_estimators=N, callbacks=[After(0, None, lambda: 1 / 0)])
    assert model.stopped_ == "finished" and same(model, trained(cls(n_estimators=N)))


@every
def test_a_callback_that_stops(cls):
    callback = After(2, lambda: np.True_)
    model = trained(cls(), n_estimators=N, callbacks=[callback])
    assert callback.seen == [1, 2, -2] and model.stopped_ == "callback"
    assert same(model, trained(cls(n_estimators=2)))
    assert is_whole_after_warm_start(model)


@every
def test_a_function_as_callback(cls):
    seen = []

    def callback(state: Any) -> bool:
        seen.append(n_rounds(state.model()))
        return state.iteration == 2

    model = trained(cls(), n_estimators=N, callbacks=[callback])
    assert seen == [1, 2] and model.stopped_ == "callback" and n_rounds(model) == 2


@every
def test_ctrl_c_in_a_callback(cls):
    model = cls()
    with pytest.warns(RuntimeWarning, match="keeps the 3 rounds") as caught:
        trained(model, n_estimators=N, callbacks=[After(3, interrupt)])
    assert caught[0].filename == __file__
    assert model.stopped_ == "interrupted" and same(model, trained(cls(n_estimators=3)))
    assert is_whole_after_warm_start(model)


@every
@pytest.mark.parametrize("method", ["start", "finish", "settle"])
def test_ctrl_c_in_a_round(cls, method, monkeypatch):
    rounds = ROUNDS[cls]
    original, calls = getattr(rounds, method), []

    def pressed(self: Any, argument: Any) -> Any:
        calls.append(original(self, argument))
        return calls[-1] if len(calls) % N != 3 else interrupt()

    model = cls()
    with monkeypatch.context() as patch:
        patch.setattr(rounds, method, pressed)
        with pytest.warns(RuntimeWarning, match="keeps the 2 rounds") as caught:
            trained(model, n_estimators=N)
    assert caught[0].filename == __file__
    assert model.stopped_ == "interrupted" and same(model, trained(cls(n_estimators=2)))
    assert is_whole_after_warm_start(model)


@every
def test_ctrl_c_before_the_first_round(cls, monkeypatch):
    monkeypatch.setattr(ROUNDS[cls], "finish", lambda self, started: interrupt())
    model = cls()
    with pytest.raises(KeyboardInterrupt):
        trained(model)
    assert not hasattr(model, "stopped_") and not hasattr(model, "forest_")


@every
def test_early_stopping(cls):
    if not hasattr(cls(), "early_stopping"):
        pytest.skip("AdaBoost has no early stopping")
    settings = {"n_estimators": 200, "early_stopping": True, "n_iter_no_change": 3}
    model = trained(cls(), **settings, learning_rate=0.5)
    values = model.evals_result_["validation"]["loss"]
    assert model.stopped_ == "early stopping"
    assert n_rounds(model) == int(np.argmin(values)) == len(values) - 4
    again = trained(clone(model), warm_start=True)
    assert same(trained(again), model) and again.stopped_ == "early stopping"


def test_adaboost_stops_at_a_perfect_learner():
    X, _, classes = table()
    seen = After(0, None)
    model = AdaBoostClassifier(n_estimators=N, callbacks=[seen], warm_start=True)
    model.fit(np.c_[X, classes], classes)
    assert model.stopped_ == "perfect learner" and seen.seen == [1, -1]
    assert len(model.fit(np.c_[X, classes], classes)) == 1 and seen.seen == [1, -1, -1]
