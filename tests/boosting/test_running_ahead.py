"""Rounds that are settled while the next one grows, as on a GPU: the model, the metrics and how
training ends are those of one round after the other.

The operations are the CPU's, which are done when they return; only the order is that of a GPU.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import numpy as np
import pytest

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.boosting.steps import plain as steps
from gpuens.boosting.steps.plain import Gradients, LeafValues
from gpuens.devices.placement import Device
from gpuens.kernels.runtime.dtypes import Totals
from gpuens.numerics import sampling

N = 200
SMALL = {"n_estimators": 6, "max_leaf_nodes": 5, "max_bins": 16, "min_samples_leaf": 3}
STOPPING = {
    "early_stopping": True, "n_estimators": 60, "learning_rate": 0.6, "n_iter_no_change": 2,
}  # fmt: skip


@functools.cache
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features with ties and missing values, a positive target, weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 1] = rng.integers(0, 5, N)
    y = np.nan_to_num(X[:, 0]) + X[:, 1] * (np.nan_to_num(X[:, 2]) > 0) + 5.0
    return X, y + 0.3 * rng.normal(size=N), rng.random(N) * (np.arange(N) % 5 > 0)


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: operations may return before their work is done."""
    always = property(lambda device: True, lambda device, value: None)  # before that of a device
    monkeypatch.setattr(Device, "runs_ahead", always, raising=False)
    monkeypatch.setattr(Totals, "is_here", False)


class Watcher:
    """Keeps what a callback sees; ``action`` decides how training goes on after a round."""

    def __init__(self, iteration: int = -1, action: Any = None) -> None:
        self.iteration, self.action, self.seen = iteration, action, []
        self.warns = False

    def after_iteration(self, state: Any) -> Any:
        metrics = {data: {m: v[:] for m, v in e.items()} for data, e in state.evals.items()}
        snapshot = state.model().forest_.fingerprint(), state.forest().fingerprint()
        self.seen.append((state.iteration, metrics, *snapshot))
        return self.action() if state.iteration == self.iteration else None

    def after_training(self, state: Any) -> None:
        self.seen.append(state.iteration)


def raised(error: BaseException) -> Any:
    def action() -> None:
        raise error

    return action


def trained(n_classes: int, settings: dict[str, Any], data: str, watcher: Watcher) -> Any:
    X, y, weight = table()
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    elif settings.get("loss") != "poisson" and "targets" in data:
        y = np.stack([y, -y + X[:, 1]], axis=1)
    if "far apart" in data:
        y, weight = y * [1e-28, 1e7], 1e5 * weight
    cls = GradientBoostingClassifier if n_classes else GradientBoostingRegressor
    model = cls(**SMALL | settings, callbacks=[watcher])
    more: dict[str, Any] = {"sample_weight": weight} if "weights" in data else {}
    sets = [(X[:40], y[:40])] if "rows" in data else []
    sets += [(X, y)] if "training rows" in data else []
    more |= {"eval_set": sets} if sets else {}
    if "goes on" in data:
        model.set_params(warm_start=True, n_estimators=2).fit(X, y, **more)
        model.set_params(n_estimators=5)
    if "init" in data:
        more["init"] = cls(**SMALL | settings | {"n_estimators": 2}).fit(X, y, **more)
    return model.fit(X, y, **more)


def course(*args: Any) -> tuple[Any, ...]:
    """All that a training leaves behind."""
    watcher = Watcher()
    model = trained(*args, watcher)
    return (
        model.forest_.fingerprint(), model.n_iter_, model.stopped_, model.evals_result_,
        watcher.seen,
    )  # fmt: skip


CASES: dict[str, tuple[int, dict[str, Any], str]] = {
    "plain": (0, {}, ""),
    "weights": (0, {}, "weights"),
    "metrics of the training rows": (0, {}, "training rows"),
    "one round": (0, {"n_estimators": 1}, "rows"),
    "rates": (0, {"learning_rate": lambda r: 0.5 / (r + 1)}, "rows"),
    "subsample": (0, {"subsample": 0.5}, "weights, rows"),
    "huber": (0, {"loss": "huber"}, ""),
    "huber, sample": (0, {"loss": "huber", "subsample": 0.6}, "weights, rows"),
    "huber, goes on": (0, {"loss": "huber"}, "goes on"),
    "quantile": (0, {"loss": "quantile", "quantile": 0.3}, "rows"),
    "absolute error": (0, {"loss": "absolute_error"}, "weights"),
    "poisson, line search": (0, {"loss": "poisson", "line_search": True}, "rows"),
    "monotone": (0, {"monotonic_cst": [1, 0, -1, 0]}, "rows"),
    "two targets": (0, {}, "targets, rows"),
    "two classes": (2, {}, ""),
    "three classes": (3, {}, "weights"),
    "goss": (2, {"sampling": "goss", "learning_rate": 0.9}, ""),
    "mvs": (0, {"sampling": "mvs", "subsample": 0.5}, ""),
    "balanced": (3, {"sampling": "balanced", "subsample": 0.5}, "rows"),
    "stops": (0, STOPPING, "rows, training rows"),
    "stops, keeps all": (0, STOPPING | {"keep_best": False}, "rows"),
    "stops, tolerance": (3, STOPPING | {"tol": 0.05}, "rows"),
    "stops by a scorer": (3, STOPPING | {"scoring": ["accuracy", "loss"]}, "rows"),
    "stops at once": (0, STOPPING | {"n_estimators": 1}, "rows"),
    "dropout": (0, {"dropout": 0.6}, "goes on, rows"),
    "linear leaves": (0, {"linear_leaves": True}, "goes on, rows"),
    "linear leaves, stops": (3, STOPPING | {"linear_leaves": True}, "rows"),
    "goes on": (3, {}, "goes on, training rows"),
    "goes on, stops": (0, STOPPING, "goes on, rows"),
    "init": (0, {}, "init, rows"),
}


@pytest.mark.parametrize("n_classes, settings, data", CASES.values(), ids=CASES)
def test_the_course_is_that_of_one_round_after_the_other(n_classes, settings, data, request):
    expected = course(n_classes, settings, data)
    request.getfixturevalue("ahead")
    assert course(n_classes, settings, data) == expected


def test_rows_with_a_weight_are_looked_for_once(monkeypatch):
    """Where they are looked for, a GPU is waited for."""
    calls = []
    monkeypatch.setattr(
        steps, "draw_rows", lambda *args: calls.append(args) or sampling.draw_rows(*args)
    )
    for settings in ({}, {"sampling": "goss", "learning_rate": 0.5, "n_estimators": 2}):
        model = trained(0, settings, "weights", Watcher())
        assert model.forest_.n_samples[0] == 160
    assert len(calls) == 2


ENDS: dict[str, Any] = {
    "callback": lambda: True,
    "error": raised(RuntimeError("of a callback")),
    "interrupted": raised(KeyboardInterrupt()),
}


def ended(model_settings: dict[str, Any], data: str, watcher: Watcher) -> tuple[Any, ...]:
    """How a training ends that may fail: the message of its error or warning, and its course."""
    message, left = "", ()
    try:
        with pytest.warns(RuntimeWarning) if watcher.warns else contextlib.nullcontext() as caught:
            model = trained(0, model_settings, data, watcher)
    except (RuntimeError, ValueError, KeyboardInterrupt) as error:
        message = f"{type(error).__name__}: {error}"
    else:
        message = str(caught[0].message) if watcher.warns else ""
        left = model.forest_.fingerprint(), model.n_iter_, model.stopped_, model.evals_result_
    return message, left, watcher.seen


@pytest.mark.parametrize("iteration", [1, 2, 6])
@pytest.mark.parametrize("how", ENDS)
def test_what_a_callback_ends(how, iteration, request):
    def end() -> tuple[Any, ...]:
        watcher = Watcher(iteration, ENDS[how])
        watcher.warns = how == "interrupted"
        return ended({}, "rows", watcher)

    expected = end()
    assert [*range(1, iteration + 1), iteration] == [
        seen if isinstance(seen, int) else seen[0] for seen in expected[-1]
    ]
    request.getfixturevalue("ahead")
    assert end() == expected


@pytest.mark.parametrize("step", [(Gradients, "compute"), (LeafValues, "trees")])
@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("index", [0, 1, 3])
@pytest.mark.parametrize("last", [0, 1, 3])
def test_a_round_that_fails(step, failure, index, last, monkeypatch, request):
    """It fails if, and only if, the callback of the round before lets it be the next one."""
    whole = getattr(*step)

    def fail(self: Any, round_: Any, *more: Any) -> Any:
        if round_.index == index:
            raise failure("of growth")
        return whole(self, round_, *more)

    monkeypatch.setattr(*step, fail)

    def end() -> tuple[Any, ...]:
        watcher = Watcher(last, ENDS["callback"])
        watcher.warns = failure is KeyboardInterrupt and (last > index or last == 0) and index > 0
        return ended({}, "rows", watcher)

    expected = end()
    assert ("of growth" in expected[0]) == (
        (last > index or last == 0) and (failure is ValueError or index == 0)
    )
    request.getfixturevalue("ahead")
    assert end() == expected


DIVERGING = {"learning_rate": 1e5, "n_estimators": 9}
OVERFLOWS: dict[str, tuple[str, dict[str, Any], str]] = {
    "plain": ("round 4", {}, ""),
    "a scorer that takes no infinity": ("round 4", {"scoring": "r2"}, "rows"),
    "huber": ("round 4", {"loss": "huber"}, ""),
    "two targets": ("round 4", {}, "targets"),
    "one tree, one target": (
        "round 1", {"multi_strategy": "multi_output_tree"}, "targets far apart, weights",
    ),
    "goss": ("round 3", {"sampling": "goss", "top_rate": 0.1, "other_rate": 0.05}, ""),
    "mvs": ("round 3", {"sampling": "mvs", "subsample": 0.3}, ""),
    "stops before": (
        "", {"early_stopping": True, "n_iter_no_change": 3, "validation_fraction": None}, "",
    ),
    "ends before": ("", {"n_estimators": 3}, "training rows"),
}  # fmt: skip


@pytest.mark.parametrize("where, settings, data", OVERFLOWS.values(), ids=OVERFLOWS)
def test_gradients_that_overflow(where, settings, data, monkeypatch, request):
    X, y, weight = table()
    monkeypatch.setitem(globals(), "table", lambda: (X, 1e28 * y, weight))
    expected = ended(DIVERGING | settings, data, Watcher())
    assert expected[0].startswith(f"ValueError: The gradients of {where}" if where else "")
    assert bool(expected[0]) == bool(where)
    request.getfixturevalue("ahead")
    assert ended(DIVERGING | settings, data, Watcher()) == expected
