"""The contestants of ``scaling``: for every kind of estimator the libraries that have it.

Gradient boosting has 63 leaves, 255 bins, rate 0.1 and at least 20 rows a leaf everywhere; with a
depth it has that depth and no other limit of leaves. Trees and forests have every library's own
defaults but the depth, AdaBoost has stumps. Libraries that train on a GPU get their table in its
memory where they take it there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Literal

from ..common import peers
from ..common.peers import OURS, THEIRS, Settings, Task, settings_for

Build = Callable[[Task, Settings], Any]
LEAST_DEPTH = 14
"""Of trees and forests without ``--depth``: trees to purity grow with the rows by themselves."""


@dataclass(frozen=True)
class Library:
    """One contestant."""

    name: str
    module: str
    build: Build
    """Returns an estimator that is not fitted."""
    device: Literal["cpu", "cuda"] = "cpu"
    own_arrays: bool = True
    """Whether it takes the table as a CuPy array, on a GPU."""
    trains: bool = True
    """Whether its training is measured; what only predicts is trained by another."""
    bin: Callable[[Any, Any, Settings], Any] | None = None
    """Bins X, y and does nothing else."""

    def problem(self) -> str | None:
        """Return why it cannot take part, None if nothing is known."""
        if find_spec(self.module) is None:
            return f"{self.module} is not installed"
        if self.device == "cpu":
            return None
        from gpuens.devices.placement import gpu_problem

        problem = gpu_problem()
        if problem is None and self.module == "xgboost":
            import xgboost

            if not xgboost.build_info().get("USE_CUDA"):
                return "this XGBoost is built without CUDA (pip install xgboost)"
        return problem


def boosting(library: str, **more: Any) -> Build:
    """Gradient boosting of the shared registry of libraries."""

    def build(task: Task, settings: Settings) -> Any:
        shared, own = settings_for(library, settings), dict(more)
        if shared.max_depth is not None:
            # The depth alone leaves LightGBM at 31 leaves, and us and HistGB at the default.
            leaves = 2**shared.max_depth if library == "LightGBM" else None
            shared = replace(shared, max_leaf_nodes=leaves)
            own |= {"max_leaf_nodes": None} if library in (OURS, "HistGB") else {}
        return peers.estimator(library, task, shared, **own)

    return build


def catboost(**more: Any) -> Build:
    """CatBoost with its own symmetric trees."""

    def build(task: Task, settings: Settings) -> Any:
        depth = {"depth": settings.max_depth} if settings.max_depth else {}
        return peers.estimator("CatBoost", task, settings, **depth, **more)

    return build


def py_boost(task: Task, settings: Settings) -> Any:
    """Py-Boost, which grows by depth alone, by default 6."""
    from py_boost import GradientBoosting

    loss = {"binary": "bce", "multiclass": "crossentropy", "regression": "mse"}[task]
    return GradientBoosting(
        loss, ntrees=settings.n_trees, lr=settings.learning_rate, verbose=-1,
        max_depth=settings.max_depth or 6, max_bin=settings.max_bins, lambda_l2=settings.l2,
    )  # fmt: skip


def trees(library: str, kind: str, device: str = "cpu", **more: Any) -> Build:
    """Trees and forests of gpuens and scikit-learn, by the stem of their class."""

    def build(task: Task, settings: Settings) -> Any:
        name = f"{kind}{'Regressor' if task == 'regression' else 'Classifier'}"
        parameters = dict(more, random_state=settings.seed)
        if not kind.endswith("Tree"):
            parameters["n_estimators"] = settings.n_trees
        if kind != "AdaBoost":
            parameters["max_depth"] = settings.max_depth or LEAST_DEPTH
        model = peers.build(library, name, settings.threads, **parameters)
        return model.set_params(device=device) if library == OURS else model

    return build


def xgboost_forest(task: Task, settings: Settings) -> Any:
    """XGBoost's random forest: rows without replacement, the usual number of columns a node."""
    from xgboost import XGBRFClassifier, XGBRFRegressor

    cls = XGBRFRegressor if task == "regression" else XGBRFClassifier
    return cls(
        n_estimators=settings.n_trees, n_jobs=settings.threads, random_state=settings.seed,
        max_depth=settings.max_depth or LEAST_DEPTH, tree_method="hist", verbosity=0,
        subsample=0.632, colsample_bynode=1.0 if task == "regression" else 0.2,
    )  # fmt: skip


def cuml_forest(task: Task, settings: Settings) -> Any:
    """cuML's random forest."""
    from cuml.ensemble import RandomForestClassifier, RandomForestRegressor

    cls = RandomForestRegressor if task == "regression" else RandomForestClassifier
    depth = settings.max_depth or LEAST_DEPTH
    return cls(n_estimators=settings.n_trees, max_depth=depth, random_state=settings.seed)


class NvForest:
    """nvForest's prediction with a forest that scikit-learn has trained."""

    def __init__(self, task: Task, settings: Settings) -> None:
        self.forest = trees(THEIRS, "RandomForest")(task, settings)

    def fit(self, X: Any, y: Any) -> NvForest:
        import nvforest

        host = X.get() if hasattr(X, "get") else X
        self.forest.fit(host, y)
        self.model = nvforest.load_from_sklearn(self.forest, device="gpu")
        if hasattr(self.model, "predict_proba"):
            self.predict_proba = self.model.predict_proba
        return self

    def predict(self, X: Any) -> Any:
        return self.model.predict(X)


def bin_gpuens(X: Any, y: Any, settings: Settings) -> Any:
    from gpuens.devices.placement import CPU
    from gpuens.inputs.binning import Binner
    from gpuens.kernels.runtime.cpu.team import using_threads

    with using_threads(settings.threads):
        binner = Binner.fit(X, None, settings.max_bins or 255, 0, CPU, settings.threads)
        return binner.transform(X, CPU)


def bin_lightgbm(X: Any, y: Any, settings: Settings) -> Any:
    from lightgbm import Dataset

    parameters = {"max_bin": settings.max_bins, "num_threads": settings.threads, "verbose": -1}
    return Dataset(X, y, params=parameters).construct()


def bin_xgboost(X: Any, y: Any, settings: Settings) -> Any:
    from xgboost import QuantileDMatrix

    return QuantileDMatrix(X, y, max_bin=settings.max_bins, nthread=settings.threads)


def both(kind: str, **more: Any) -> tuple[Library, ...]:
    """gpuens on both devices, and scikit-learn."""
    cuda = trees(OURS, kind, device="cuda", **more)
    return (
        Library(OURS, "gpuens", trees(OURS, kind, **more)),
        Library(f"{OURS} CUDA", "cupy", cuda, "cuda"),
        Library("scikit-learn", "sklearn", trees(THEIRS, kind, **more)),
    )


ESTIMATORS: dict[str, tuple[Library, ...]] = {
    "gradient_boosting": (
        Library(OURS, "gpuens", boosting(OURS), bin=bin_gpuens),
        Library(f"{OURS} CUDA", "cupy", boosting(OURS, device="cuda"), "cuda"),
        Library("LightGBM", "lightgbm", boosting("LightGBM"), bin=bin_lightgbm),
        Library("XGBoost", "xgboost", boosting("XGBoost"), bin=bin_xgboost),
        Library("XGBoost CUDA", "xgboost", boosting("XGBoost", device="cuda"), "cuda"),
        Library("HistGB", "sklearn", boosting("HistGB")),
        Library("CatBoost", "catboost", catboost()),
        Library("CatBoost CUDA", "catboost", catboost(task_type="GPU"), "cuda", own_arrays=False),
        Library("Py-Boost", "py_boost", py_boost, "cuda"),
    ),
    "random_forest": (
        *both("RandomForest"),
        Library("XGBoost", "xgboost", xgboost_forest),
        Library("cuML", "cuml", cuml_forest, "cuda"),
        Library("nvForest", "nvforest", NvForest, "cuda", trains=False),
    ),
    "extra_trees": both("ExtraTrees"),
    "decision_tree": both("DecisionTree"),
    "adaboost": both("AdaBoost"),
}


def named(estimator: str, library: str) -> Library:
    """Return a library's entry for a kind of estimator."""
    return next(entry for entry in ESTIMATORS[estimator] if entry.name == library)


QUICK = (OURS, f"{OURS} CUDA", "LightGBM", "XGBoost", "XGBoost CUDA", "scikit-learn")
"""The libraries that take part by default: with all of them the ladder takes hours."""
