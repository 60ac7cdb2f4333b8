"""Compiling kernels ahead of time."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .boosting.classifier import GradientBoostingClassifier
from .boosting.ranker import GradientBoostingRanker
from .boosting.regressor import GradientBoostingRegressor
from .devices.placement import Device, resolve_device
from .explanation.explainer import TreeExplainer
from .forests.forests import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from .forests.oblique import ObliqueRandomForestRegressor
from .forests.quantile import QuantileForestRegressor
from .kernels.scalars.losses import LINKS, LOSSES
from .kernels.statistics.gradients import gradients, row_values
from .trees.trees import DecisionTreeClassifier, DecisionTreeRegressor

N_ROWS = 1500
"""Rows of the tables, enough to use every method of prediction: forests of a regression get more
different leaf values than a lookup table holds, those of a classification fewer."""
Step = tuple[str, Callable[[], Any]]


def warmup(device: str = "auto", *, verbose: bool = True) -> dict[str, float]:
    """Compile the kernels that fits and predictions need, and cache them on disk.

    Kernels are compiled at their first use and loaded from disk afterwards. Call this once in a
    service or a container image, so that the first request does not wait for the compiler. Loading
    kernels that were compiled before takes a few seconds.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda", "cuda:<number>", "array"}, default="auto"
        The device to compile for; "auto" is the GPU if there is a usable one. For a GPU, all CUDA
        kernels are compiled for its architecture, and the host's part of its fits. "array" has
        nothing to compile.
    verbose : bool, default=True
        Whether to print each step with its time to stderr.

    Returns
    -------
    dict of str to float
        Seconds by step.

    Raises
    ------
    ValueError
        ``device`` is not one of these.
    RuntimeError
        The GPU cannot be used; names what is missing. Or the device is the simulator, for which
        nothing is compiled.

    Notes
    -----
    ``gpuens.show_config()`` prints the folder of the cache; ``NUMBA_CACHE_DIR`` moves it. Custom
    losses and estimators with rare settings compile their kernels at their first use.

    Examples
    --------
    >>> import gpuens
    >>> seconds = gpuens.warmup("cpu", verbose=False)
    >>> "decision trees" in seconds
    True
    """
    place = resolve_device(device)
    if place.kind == "array":
        return {}
    steps = [*_BEFORE_FITS[place.kind](place), *_fits(place)]
    seconds = {}
    for k, (name, run) in enumerate(steps, 1):
        started = time.perf_counter()
        with place.active():
            run()
        seconds[name] = time.perf_counter() - started
        if verbose:
            print(f"[{k:>3}/{len(steps)}] {name}: {seconds[name]:.1f} s", file=sys.stderr)
    return seconds


def _losses(place: Device) -> list[Step]:
    """Return the step of all losses; the fits compile the other kernels that they need."""
    return [("losses", _use_losses)]


def _use_losses() -> None:
    """Compute what depends on the loss: gradients, values, and means through a link."""
    f = np.full(2, 0.5)
    g, h = np.empty(2, np.float32), np.empty(2, np.float32)
    for loss in LOSSES:
        gradients(loss(), f, f, f[:0], f[:0], g, h)
    for loss in (*LOSSES, *LINKS):
        row_values(loss(), f, f, f[:0])


def _refuse(place: Device) -> list[Step]:
    raise RuntimeError(
        "device='cuda' is the simulator while NUMBA_ENABLE_CUDASIM=1 is set, and its kernels are "
        "not compiled. Unset it, or pass device='cpu'."
    )


def _catalogue(place: Device) -> list[Step]:
    """Return a step for each CUDA kernel."""
    from .kernels import catalogue

    return [
        (f"kernel {entry.name}", partial(catalogue.compile_ahead, entry))
        for entry in catalogue.entries()
    ]


_BEFORE_FITS: dict[str, Callable[[Device], list[Step]]] = {
    "cpu": _losses,
    "simulator": _refuse,
    "cuda": _catalogue,
}


def _fits(place: Device) -> Iterator[Step]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 4))
    X[:, 3] = rng.integers(0, 5, N_ROWS)
    X[rng.random(X.shape) < 0.05] = np.nan
    y = rng.normal(size=N_ROWS)
    classes = rng.integers(0, 3, N_ROWS)
    with_categories: dict[str, Any] = {"categorical_features": [3]}
    boosting: dict[str, Any] = {"device": str(place), "n_estimators": 3, "early_stopping": True}
    forest: dict[str, Any] = {"device": str(place), "n_estimators": 3}
    tree: dict[str, Any] = {"device": str(place)}

    def models(*estimators: Any, y: Any) -> Callable[[], None]:
        return partial(_fit_and_predict, estimators, X, y)

    yield "boosting, regression", models(GradientBoostingRegressor(**boosting), y=y)
    two, three = (GradientBoostingClassifier(**boosting) for _ in range(2))
    yield "boosting, two classes", models(two, y=classes > 0)
    one_tree = GradientBoostingClassifier(**boosting, multi_strategy="multi_output_tree")
    yield "boosting, many classes", models(three, one_tree, y=classes)
    by_categories = GradientBoostingRegressor(**boosting, **with_categories, subsample=0.5)
    yield "boosting, categories", models(by_categories, y=y)
    yield (
        "decision trees",
        models(
            DecisionTreeRegressor(**tree), DecisionTreeRegressor(**tree, **with_categories), y=y
        ),
    )
    classifier = DecisionTreeClassifier(**tree, max_leaf_nodes=20)
    yield "decision trees, classes", models(classifier, y=classes)
    yield "forests", models(RandomForestRegressor(**forest), ExtraTreesRegressor(**forest), y=y)
    yield "forests, classes", models(RandomForestClassifier(**forest, oob_score=True), y=classes)
    yield from _rarer_fits(place, X, y)


def _rarer_fits(place: Device, X: np.ndarray, y: np.ndarray) -> Iterator[Step]:
    """Yield fits with settings that have kernels of their own."""
    few: dict[str, Any] = {"device": str(place), "n_estimators": 2}
    monotone: dict[str, Any] = {"monotonic_cst": [1, 0, 0, 0]}

    def models(*estimators: Any, y: np.ndarray = y, X: np.ndarray = X) -> Callable[[], None]:
        return partial(_fit_and_predict, estimators, X, y)

    absolute, huber = (
        GradientBoostingRegressor(**few, loss=loss) for loss in ("absolute_error", "huber")
    )
    yield "boosting, steps to medians", models(absolute, huber)
    yield (
        "monotone constraints",
        models(
            GradientBoostingClassifier(**few, **monotone),
            DecisionTreeClassifier(device=str(place), **monotone),
            y=y > 0,
        ),
    )
    pruned = DecisionTreeRegressor(device=str(place), ccp_alpha=1e-3)
    yield "pruned trees", models(pruned)
    yield "rankings", partial(_rank, few, X, y)
    yield "survival", partial(_survive, few, X, y)
    quantiles = QuantileForestRegressor(**few)
    yield "quantile forests", models(quantiles)
    oblique = ObliqueRandomForestRegressor(**few, feature_combinations=2, n_projections=20)
    yield "oblique forests", models(oblique)
    by_column = GradientBoostingRegressor(**few)
    yield "tables by column", models(by_column, X=np.asfortranarray(X))
    yield "explanations", partial(_explain, GradientBoostingRegressor(**few), X, y)


def _rank(settings: dict[str, Any], X: np.ndarray, y: np.ndarray) -> None:
    """Fit and evaluate rankings with both kinds of gradients."""
    relevance, group = y > 0, np.full(N_ROWS // 150, 150)
    for loss in ("lambdarank", "xendcg"):
        model = GradientBoostingRanker(**settings, loss=loss, scoring=["ndcg", "map"])
        model.fit(X, relevance, group=group, eval_set=(X, relevance), eval_group=group)


def _survive(settings: dict[str, Any], X: np.ndarray, y: np.ndarray) -> None:
    """Fit proportional hazards and failure times, with their metric and curves."""
    target = y > 0, np.exp(0.1 * y).round(1)
    for loss in ("cox", "aft"):
        model = GradientBoostingRegressor(**settings, loss=loss)
        model.fit(X, target, eval_set=(X, target))
        model.predict_survival_function(X[:20], [1.0, 2.0])


def _explain(estimator: Any, X: np.ndarray, y: np.ndarray) -> None:
    """Compute Shapley values along paths, against rows, and of pairs."""
    estimator.fit(X, y)
    for table in (X[:20], X[:20].astype(np.float32), np.asfortranarray(X[:20])):
        for background in (None, table):
            TreeExplainer(estimator, background).shap_values(table)
    TreeExplainer(estimator).shap_interaction_values(X[:4])


def _fit_and_predict(estimators: tuple[Any, ...], X: np.ndarray, y: Any) -> None:
    """Fit estimators, and predict few and many rows of both dtypes."""
    weight = np.ones(y.size)
    for estimator in estimators:
        for table in (X, X.astype(np.float32)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # three trees leave rows without an estimate
                estimator.fit(table, y, weight if table is X else None)
            for rows in (table, table[:1], np.asfortranarray(table)):
                estimator.predict(rows)
                getattr(estimator, "predict_proba", estimator.predict)(rows)
                estimator.apply(rows)
