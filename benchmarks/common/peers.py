"""gpuens and the libraries beside it, each through its scikit-learn estimator.

The names of the settings are those of gpuens; where a library has no such setting, the
function that builds its estimator says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

Task = Literal["binary", "multiclass", "regression"]


@dataclass(frozen=True)
class Settings:
    """Settings that every library shares. ``None`` leaves one to the library's default."""

    n_trees: int = 100
    max_leaf_nodes: int | None = 63
    learning_rate: float | None = 0.1
    max_bins: int | None = 255
    min_samples_leaf: int | None = 20
    min_sum_hessian: float | None = 1e-3
    l2: float | None = 0.0
    threads: int = 2
    seed: int = 0
    max_depth: int | None = None


def defaults(threads: int, seed: int) -> Settings:
    """A hundred trees and every library's own defaults."""
    return Settings(100, None, None, None, None, None, None, threads, seed)


def _given(**parameters: Any) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _gpuens(task: Task, s: Settings, **more: Any) -> Any:
    from gpuens import GradientBoostingClassifier, GradientBoostingRegressor

    cls = GradientBoostingRegressor if task == "regression" else GradientBoostingClassifier
    parameters = _given(
        learning_rate=s.learning_rate,
        max_leaf_nodes=s.max_leaf_nodes,
        max_bins=s.max_bins,
        min_samples_leaf=s.min_samples_leaf,
        min_sum_hessian=s.min_sum_hessian,
        l2_regularization=s.l2,
        max_depth=s.max_depth,
    )
    fixed = {"n_estimators": s.n_trees, "n_jobs": s.threads, "random_state": s.seed}
    return cls(**{"device": "cpu", **fixed, **parameters, **more})


def _lightgbm(task: Task, s: Settings, **more: Any) -> Any:
    from lightgbm import LGBMClassifier, LGBMRegressor

    cls = LGBMRegressor if task == "regression" else LGBMClassifier
    parameters = _given(
        learning_rate=s.learning_rate,
        num_leaves=s.max_leaf_nodes,
        max_bin=s.max_bins,
        min_child_samples=s.min_samples_leaf,
        min_child_weight=s.min_sum_hessian,
        reg_lambda=s.l2,
        max_depth=s.max_depth,
    )
    fixed = {"n_estimators": s.n_trees, "n_jobs": s.threads, "random_state": s.seed}
    return cls(verbose=-1, **fixed, **parameters, **more)


def _lightgbm_quantised(task: Task, s: Settings, **more: Any) -> Any:
    """LightGBM's own integer gradients."""
    return _lightgbm(task, s, use_quantized_grad=True, **more)


def _xgboost(task: Task, s: Settings, **more: Any) -> Any:
    """Leaf-wise where leaves are limited. It has no least number of rows a leaf."""
    from xgboost import XGBClassifier, XGBRegressor

    cls = XGBRegressor if task == "regression" else XGBClassifier
    leaf_wise = {"grow_policy": "lossguide", "max_leaves": s.max_leaf_nodes, "max_depth": 0}
    depth = {"max_depth": s.max_depth} if s.max_depth else {}
    parameters = _given(
        learning_rate=s.learning_rate,
        max_bin=s.max_bins,
        min_child_weight=s.min_sum_hessian,
        reg_lambda=s.l2,
        **({**leaf_wise, **depth} if s.max_leaf_nodes else depth),
    )
    fixed = {"n_estimators": s.n_trees, "n_jobs": s.threads, "random_state": s.seed}
    return cls(tree_method="hist", verbosity=0, **fixed, **parameters, **more)


def _hist_gradient_boosting(task: Task, s: Settings, **more: Any) -> Any:
    """scikit-learn's. Its least hessian is fixed at 1e-3; see ``timing`` for its threads."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    regression = task == "regression"
    cls = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    parameters = _given(
        learning_rate=s.learning_rate,
        max_leaf_nodes=s.max_leaf_nodes,
        max_bins=s.max_bins,
        min_samples_leaf=s.min_samples_leaf,
        l2_regularization=s.l2,
        max_depth=s.max_depth,
    )
    fixed = {"max_iter": s.n_trees, "early_stopping": False, "random_state": s.seed}
    return cls(**fixed, **parameters, **more)


def _catboost(task: Task, s: Settings, **more: Any) -> Any:
    """With its own defaults only: its symmetric trees share no settings of growth."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    cls = CatBoostRegressor if task == "regression" else CatBoostClassifier
    fixed = {"iterations": s.n_trees, "thread_count": s.threads, "random_seed": s.seed}
    return cls(verbose=0, allow_writing_files=False, **fixed, **more)


OURS = "gpuens"
_BUILD: dict[str, tuple[str, Callable[..., Any]]] = {
    OURS: ("gpuens", _gpuens),
    "LightGBM": ("lightgbm", _lightgbm),
    "LightGBM quantised": ("lightgbm", _lightgbm_quantised),
    "XGBoost": ("xgboost", _xgboost),
    "HistGB": ("sklearn", _hist_gradient_boosting),
    "CatBoost": ("catboost", _catboost),
}
LIBRARIES = tuple(_BUILD)


def estimator(library: str, task: Task, settings: Settings, **more: Any) -> Any:
    """An estimator that has not been fitted; ``more`` are parameters of that library alone."""
    return _BUILD[library][1](task, settings, **more)


def installed(libraries: Iterable[str]) -> list[str]:
    """Those of the libraries that are there; says which are not."""
    found = []
    for library in libraries:
        if find_spec(_BUILD[library][0]) is None:
            print(f"skipped: {library} is not installed (pip install {_BUILD[library][0]})")
        else:
            found.append(library)
    return found


def probabilities(model: Any, X: Any) -> np.ndarray:
    """Class probabilities as float64 that sum to one (those in float32 do so roughly)."""
    p = model.predict_proba(X)
    p = (p.get() if hasattr(p, "get") else np.asarray(p)).astype(np.float64)
    return p / p.sum(axis=1, keepdims=True)


def silence() -> None:
    """LightGBM's estimators warn at every prediction from an array."""
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
