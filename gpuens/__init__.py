"""Tree ensembles on NVIDIA GPUs and on the CPU, with scikit-learn's API."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "AdaBoostClassifier": "adaboost",
    "AdaBoostRegressor": "adaboost_regressor",
    "BaggingClassifier": "bagging",
    "BaggingRegressor": "bagging",
    "DecisionTreeClassifier": "trees",
    "DecisionTreeRegressor": "trees",
    "ExtraTreeClassifier": "trees",
    "ExtraTreeRegressor": "trees",
    "ExtraTreesClassifier": "forests",
    "ExtraTreesRegressor": "forests",
    "GradientBoostingClassifier": "boosting_classifier",
    "GradientBoostingRegressor": "boosting_regressor",
    "GridSearchCV": "many_fits",
    "IsolationForest": "isolation_forest",
    "QuantileForestRegressor": "quantile_forest",
    "RandomForestClassifier": "forests",
    "RandomForestRegressor": "forests",
    "RandomizedSearchCV": "many_fits",
    "StackingClassifier": "stacking",
    "StackingRegressor": "stacking",
    "StagewiseClassifier": "stagewise_classifier",
    "StagewiseRegressor": "stagewise_regressor",
    "ThreeLearnerBoostingClassifier": "three_learner",
    "VotingClassifier": "voting",
    "VotingRegressor": "voting",
    "export_graphviz": "tree_export",
    "export_text": "tree_export",
    "fit_many": "many_fits",
    "load": "saving",
    "memory_plan": "memory_plans",
    "plot_tree": "tree_export",
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
