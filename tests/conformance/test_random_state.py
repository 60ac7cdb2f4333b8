"""``random_state=None`` is a fixed seed: two calls give the same."""

from __future__ import annotations

from inspect import isclass, isfunction, signature
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.base import clone

import gpuens
from gpuens import bias_variance, datasets, distributions, inspection, plotting
from tests.conformance.estimators import ESTIMATORS, OF_TIMES, made, name_of

N = 80
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).round(1)
Y = (X[:, 0] + RNG.normal(scale=0.5, size=N) > 0).astype(np.int64)
TIMES = (Y == 1, np.abs(X[:, 1]) + 0.1)
FOREST = gpuens.RandomForestClassifier(n_estimators=5).fit(X, Y)


def random_state_of(function: Any) -> Any:
    return signature(function).parameters.get("random_state")


def twice(function: Any) -> None:
    """Require the same of two calls."""
    first, second = function(), function()
    plt.close("all")
    np.testing.assert_equal(first, second)


def fitted(estimator: Any) -> Any:
    if name_of(estimator) == "GradientBoostingRanker":
        return estimator.fit(X, Y, qid=np.repeat(np.arange(N // 8), 8))
    return estimator.fit(X, TIMES if name_of(estimator) in OF_TIMES else Y)


DRAW = [e for e in ESTIMATORS if "random_state" in e.get_params()]
DRAW += [made(gpuens.GradientBoostingRanker)]
SETTINGS = {
    "GradientBoosting": {"subsample": 0.5, "colsample_bynode": 0.5, "early_stopping": True},
    "Stacking": {"cv": "holdout"}, "Voting": {"weights": "greedy"},
}  # fmt: skip
DRAW += [
    clone(e).set_params(**SETTINGS[start])
    for e in DRAW
    for start in SETTINGS
    if name_of(e).startswith(start) and not name_of(e).endswith("Ranker")
]
DRAW += [
    gpuens.ConformalRegressor(gpuens.DecisionTreeRegressor(), method="cv+"),
    gpuens.ConformalRegressor(gpuens.RandomForestRegressor(n_estimators=20), method="bag"),
    gpuens.ConformalClassifier(
        gpuens.DecisionTreeClassifier(max_depth=2), method="cv+", conformity_score="aps"
    ),
    gpuens.RandomizedSearchCV(
        gpuens.DecisionTreeRegressor(), {"max_depth": list(range(1, 30))}, n_iter=2, cv=2
    ),
]


@pytest.mark.parametrize("estimator", DRAW, ids=name_of)
def test_estimators(estimator):
    assert estimator.random_state is None

    def predictions():
        model = fitted(clone(estimator))
        if isinstance(model, gpuens.ConformalRegressor):
            return model.predict_interval(X, 0.5)
        if isinstance(model, gpuens.ConformalClassifier):
            return model.predict_set(X, 0.5)
        return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)

    twice(predictions)


FUNCTIONS: dict[str, Any] = {
    "h_statistic": lambda **s: inspection.h_statistic(FOREST, X, max_samples=20, **s),
    "permutation_importance": lambda **s: dict(
        inspection.permutation_importance(FOREST, X, Y, max_samples=0.5, **s)
    ),
    "bias_variance": lambda **s: bias_variance.bias_variance(
        gpuens.DecisionTreeClassifier(), X, Y, rounds=5, **s
    ).error_of_rows,
    "PartialDependenceDisplay": lambda **s: [
        line.get_ydata()
        for line in plotting.PartialDependenceDisplay.from_estimator(
            FOREST, X, [0], kind="individual", subsample=10, **s
        ).ax_.lines
    ],
    "oob_permutation_importance": lambda **s: dict(FOREST.oob_permutation_importance(X, Y, **s)),
    "from_batches": lambda **s: gpuens.BinnedTable.from_batches(X, y=Y, **s)._codes.columns,
    "sample": lambda **s: distributions.Normal(np.zeros(3), np.ones(3)).sample(4, **s),
}  # fmt: skip


def drawing() -> list[str]:
    """Names of the public functions and methods of classes that take a random state."""
    names = set()
    for room in (gpuens, inspection, datasets, plotting, bias_variance, distributions):
        public = getattr(room, "__all__", [name for name in dir(room) if name[0] != "_"])
        for name in public:
            thing = getattr(room, name)
            if isfunction(thing) and random_state_of(thing):
                names.add(name)
            for method in vars(thing) if isclass(thing) else ():
                called = getattr(thing, method)
                if method[0] != "_" and callable(called) and random_state_of(called):
                    names.add(name if method == "from_estimator" else method)
    return sorted(names)


@pytest.mark.parametrize("name", drawing())
def test_functions(name):
    function = made_table(name) if name.startswith("make_") else FUNCTIONS[name]
    twice(lambda: function(random_state=None))


def made_table(name: str) -> Any:
    return lambda **s: [to_dense(array) for array in getattr(datasets, name)(20, **s)]


def to_dense(array: Any) -> Any:
    return array.toarray() if hasattr(array, "toarray") else array
