"""Tree ensembles on NVIDIA GPUs and on the CPU, with scikit-learn's API."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "AdaBoostClassifier": "adaboost.classifier",
    "AdaBoostRegressor": "adaboost.regressor",
    "BaggingClassifier": "bagging.bagging",
    "BaggingRegressor": "bagging.bagging",
    "DecisionTreeClassifier": "trees.trees",
    "DecisionTreeRegressor": "trees.trees",
    "ExtraTreeClassifier": "trees.trees",
    "ExtraTreeRegressor": "trees.trees",
    "ExtraTreesClassifier": "forests.forests",
    "ExtraTreesRegressor": "forests.forests",
    "GradientBoostingClassifier": "boosting.classifier",
    "GradientBoostingRegressor": "boosting.regressor",
    "GridSearchCV": "boosting.many_fits",
    "IsolationForest": "forests.isolation",
    "QuantileForestRegressor": "forests.quantile",
    "RandomForestClassifier": "forests.forests",
    "RandomForestRegressor": "forests.forests",
    "RandomizedSearchCV": "boosting.many_fits",
    "StackingClassifier": "combining.stacking",
    "StackingRegressor": "combining.stacking",
    "StagewiseClassifier": "stagewise.classifier",
    "StagewiseRegressor": "stagewise.regressor",
    "ThreeLearnerBoostingClassifier": "adaboost.three_learner",
    "VotingClassifier": "combining.voting",
    "VotingRegressor": "combining.voting",
    "export_graphviz": "forest.export",
    "export_text": "forest.export",
    "fit_many": "boosting.many_fits",
    "load": "saving",
    "memory_plan": "memory_plans",
    "plot_tree": "forest.export",
    "save": "saving",
    "show_config": "config",
    "warmup": "warming_up",
}
"""The module of every public name; imported when the name is first used."""

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
