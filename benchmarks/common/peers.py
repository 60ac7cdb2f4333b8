"""gpuens and the libraries beside it, each through its scikit-learn estimator.

Gradient boosting is built from ``Settings``, whose names are those of gpuens; trees, bagging and
forests of gpuens and scikit-learn by the name of their class, which is the same in both.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

Task = Literal["binary", "multiclass", "regression"]
OURS, THEIRS = "gpuens", "scikit-learn"
ON_CPU = "gpuens on the CPU"
"""Where gpuens itself runs on a GPU."""
IN_ARRAYS = "gpuens in the table's library"
"""By ``device="array"``, where gpuens itself runs in compiled kernels."""
BOTH = (OURS, THEIRS)
MODULES = {OURS: ("gpuens",), THEIRS: ("sklearn.tree", "sklearn.ensemble")}
"""Where the classes of ``build`` are."""


class GapError(Exception):
    """Something that a measurement needs is missing; the text names it."""


def say_skipped(gap: GapError) -> str:
    """Print what is missing, and return it for the results."""
    print(f"skipped: {gap}", flush=True)
    return str(gap)


def measure_each(names: Iterable[str], measure: Callable[[str], Any]) -> dict[str, Any]:
    """Return what is measured by name, with the gap of what cannot be."""
    results = {}
    for name in names:
        try:
            results[name] = measure(name)
        except GapError as gap:
            results[name] = {"gaps": [say_skipped(gap)]}
    return results


@dataclass(frozen=True)
class Settings:
    """Settings that every library shares. ``None`` leaves one to the library's default."""

    n_trees: int | None = 100
    max_leaf_nodes: int | None = 63
    learning_rate: float | None = 0.1
    max_bins: int | None = 255
    min_samples_leaf: int | None = 20
    min_sum_hessian: float | None = 1e-3
    l2: float | None = 0.0
    threads: int = 2
    seed: int = 0
    max_depth: int | None = None


def untouched(threads: int, seed: int) -> Settings:
    """Return a hundred trees; every other setting is the library's."""
    return Settings(100, None, None, None, None, None, None, threads, seed)


def settings_for(library: str, settings: Settings) -> Settings:
    """Return the shared settings as far as the library has them: XGBoost has no least number of
    rows and keeps its defaults of lambda = 1 and least hessian = 1."""
    return replace(settings, l2=1.0, min_sum_hessian=1.0) if library == "XGBoost" else settings


@dataclass(frozen=True)
class _Library:
    """Where a library's gradient boosting is, and its names for our settings."""

    module: str
    stem: str
    names: Mapping[str, str]
    fixed: Mapping[str, Any] = field(default_factory=dict)


_LIGHTGBM = {
    "n_trees": "n_estimators", "threads": "n_jobs", "seed": "random_state",
    "learning_rate": "learning_rate", "max_leaf_nodes": "num_leaves", "max_bins": "max_bin",
    "min_samples_leaf": "min_child_samples", "min_sum_hessian": "min_child_weight",
    "l2": "reg_lambda", "max_depth": "max_depth",
}  # fmt: skip
_XGBOOST = {name: _LIGHTGBM[name] for name in _LIGHTGBM if name != "min_samples_leaf"}
_GPUENS = {name: name for name in _LIGHTGBM} | {
    "n_trees": "n_estimators", "threads": "n_jobs", "seed": "random_state",
    "l2": "l2_regularization",
}  # fmt: skip
# The least hessian of HistGradientBoosting is fixed at 1e-3, and its threads are OpenMP's.
_HIST = {n: _GPUENS[n] for n in _GPUENS if n not in ("threads", "min_sum_hessian")} | {
    "n_trees": "max_iter"
}
# Its symmetric trees share no settings of growth with the others.
_CATBOOST = {"n_trees": "iterations", "threads": "thread_count", "seed": "random_seed"}
_LIBRARIES = {
    OURS: _Library("gpuens", "GradientBoosting", _GPUENS, {"device": "cpu"}),
    "LightGBM": _Library("lightgbm", "LGBM", _LIGHTGBM, {"verbose": -1}),
    "LightGBM quantised": _Library(
        "lightgbm", "LGBM", _LIGHTGBM, {"verbose": -1, "use_quantized_grad": True}
    ),
    "XGBoost": _Library(
        "xgboost", "XGB", _XGBOOST | {"max_leaf_nodes": "max_leaves"},
        {"tree_method": "hist", "verbosity": 0},
    ),
    "HistGB": _Library(
        "sklearn.ensemble", "HistGradientBoosting", _HIST, {"early_stopping": False}
    ),
    "CatBoost": _Library(
        "catboost", "CatBoost", _CATBOOST, {"verbose": 0, "allow_writing_files": False}
    ),
}  # fmt: skip


def estimator(library: str, task: Task, settings: Settings, **more: Any) -> Any:
    """Return gradient boosting, not fitted; ``more`` are parameters of that library alone."""
    entry = _LIBRARIES[library]
    name = f"{entry.stem}{'Regressor' if task == 'regression' else 'Classifier'}"
    given = {name: value for name, value in asdict(settings).items() if value is not None}
    found = {entry.names[name]: given[name] for name in given if name in entry.names}
    if library == "XGBoost" and settings.max_leaf_nodes:  # it grows by depth by default
        found = {"grow_policy": "lossguide", "max_depth": 0, **found}
    return getattr(import_module(entry.module), name)(**{**entry.fixed, **found, **more})


def present(library: str) -> bool:
    """Return whether a library of gradient boosting is installed."""
    return find_spec(_LIBRARIES[library].module.split(".")[0]) is not None


def installed(libraries: Iterable[str]) -> list[str]:
    """Return the libraries that are installed; print which are not."""
    found = []
    for library in libraries:
        if present(library):
            found.append(library)
        else:
            module = _LIBRARIES[library].module
            print(f"skipped: {library} is not installed (pip install {module})")
    return found


def find(library: str, name: str) -> Any:
    """Return a class of gpuens or scikit-learn by its name; raises GapError if there is none."""
    for module in MODULES[library]:
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise GapError(f"{library} has no {name}")


def build(library: str, name: str, threads: int, **parameters: Any) -> Any:
    """Return an estimator of gpuens or scikit-learn on the CPU, not fitted.

    ``threads`` is left out where the class takes none, which is scikit-learn's single tree.
    """
    made = find(library, name)(**parameters, **({"device": "cpu"} if library == OURS else {}))
    return made.set_params(n_jobs=threads) if "n_jobs" in made.get_params() else made


def warm_up(library: str, name: str, threads: int) -> None:
    """Compile and load what the measurements use, on a few rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(np.int64)
    few = {} if name.startswith("DecisionTree") else {"n_estimators": 3}
    build(library, name, threads, random_state=0, **few).fit(X, y).predict_proba(X)


def probabilities(model: Any, X: Any) -> np.ndarray:
    """Return class probabilities as float64 that sum to one (those in float32 do so roughly)."""
    p = model.predict_proba(X)
    p = (p.get() if hasattr(p, "get") else np.asarray(p)).astype(np.float64)
    return p / p.sum(axis=1, keepdims=True)


def percent_wrong(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the share of rows whose class is predicted wrongly, in percent."""
    return 100.0 * float(np.mean(np.asarray(model.predict(X)) != y))


def silence() -> None:
    """LightGBM's estimators warn at every prediction from an array, and of a parameter that has
    another name in their newest version alone."""
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    warnings.filterwarnings("ignore", message="The argument 'eval_set' is deprecated")
