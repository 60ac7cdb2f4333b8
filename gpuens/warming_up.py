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
from .boosting.regressor import GradientBoostingRegressor
from .devices.placement import Device, resolve_device
from .forests.forests import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from .trees.trees import DecisionTreeClassifier, DecisionTreeRegressor

N_ROWS = 1500
"""Rows of the tables, enough to use every method of prediction: forests of a regression get more
different leaf values than a lookup table holds, those of a classification fewer."""
Step = tuple[str, Callable[[], Any]]


def warmup(device: str = "auto", *, verbose: bool = True) -> dict[str, float]:
    """Compile the kernels that usual fits and predictions need, and cache them on disk.

    Kernels are compiled at their first use and loaded from disk afterwards. Call this once in a
    service or a container image, so that the first request does not wait for the compiler. Loading
    kernels that were compiled before takes a few seconds.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda", "cuda:<number>"}
        The device to compile for; "auto" is the GPU if there is a usable one. For a GPU, all CUDA
        kernels are compiled for its architecture, and the host's part of its fits.
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


def _nothing(place: Device) -> list[Step]:
    """Return no steps: on the CPU the fits compile all kernels that they need."""
    return []


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
    "cpu": _nothing,
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
    yield "boosting, many classes", models(three, y=classes)
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
