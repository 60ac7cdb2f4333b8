"""One object of every public estimator, small enough to be checked often."""

from __future__ import annotations

from inspect import isclass
from typing import Any

from sklearn.base import BaseEstimator, is_classifier, is_regressor

import gpuens

ROUNDS = 5
"""Trees or members, of those that have any."""


def members(regression: bool) -> list[tuple[str, Any]]:
    """For voting and stacking."""
    tree = gpuens.DecisionTreeRegressor if regression else gpuens.DecisionTreeClassifier
    return [("deep", tree()), ("shallow", tree(max_depth=2))]


def made(cls: type[BaseEstimator]) -> BaseEstimator:
    """An estimator with the parameters that it must have, and few rounds."""
    if cls.__name__.startswith(("Voting", "Stacking")):
        return cls(members(cls.__name__.endswith("Regressor")))
    if cls.__name__.endswith("SearchCV"):
        grid = {"learning_rate": [0.1, 0.3]}
        few = {} if cls.__name__.startswith("Grid") else {"n_iter": 2}
        return cls(gpuens.GradientBoostingRegressor(n_estimators=ROUNDS), grid, **few)
    if cls.__name__.startswith("Tuned"):
        quick = getattr(gpuens, cls.__name__.replace("Tuned", "GradientBoosting"))
        return cls(quick(learning_rate=0.5, max_leaf_nodes=3), budget=1, cv=2)
    has_rounds = "n_estimators" in cls._get_param_names()
    return cls(**({"n_estimators": ROUNDS} if has_rounds else {}))


def name_of(estimator: BaseEstimator) -> str:
    return type(estimator).__name__


PUBLIC = [getattr(gpuens, name) for name in sorted(gpuens.__all__)]
LEFT_OUT = ("Imported", "GradientBoostingRanker")
"""Those that are not trained, and the one that needs the queries of its rows, which checks that fit
an estimator to X and y do not pass."""
TRAINED = [cls for cls in PUBLIC if isclass(cls) and not cls.__name__.startswith(LEFT_OUT)]
ESTIMATORS = [made(cls) for cls in TRAINED if issubclass(cls, BaseEstimator)]
OF_TIMES = ("RandomSurvivalForest", "ExtraSurvivalTrees")
"""Their targets are times that may be censored, which checks that fit numbers do not pass."""
OF_NUMBERS = [e for e in ESTIMATORS if name_of(e) not in OF_TIMES]
PREDICTORS = [e for e in OF_NUMBERS if is_classifier(e) or is_regressor(e)]
