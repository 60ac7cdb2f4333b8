"""Losses of gradient boosting on real data, beside published values and the other libraries.

huber
    California housing, 80/20, 800 rounds of 6 leaves at rate 0.1: mean absolute error (Hastie,
    Tibshirani and Friedman 2009, 10.14.1, report 0.31).
spambase
    Test error on the official split, 1000 rounds of 5 leaves at rate 0.05, the mean over seeds
    (their 10.8 reports 4.5 %).
exposure
    Car insurance claims per year of exposure, weighted by the exposure: Poisson deviance beside
    LightGBM's with the same settings, which include ``max_delta_step``: once the 0.7 that it has
    unless told otherwise, once (almost) none.
same_settings
    Every loss that LightGBM has, on California housing: its own deviance, beside LightGBM's and
    HistGB's with the same settings.

A ratio divides means over the splits; below 1 gpuens is better. A table that is missing is named
and left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import (
    mean_absolute_error,
    mean_gamma_deviance,
    mean_pinball_loss,
    mean_poisson_deviance,
    mean_tweedie_deviance,
)
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.losses import Poisson, Tweedie

from ..common import peers
from ..common.counterparts import DATA, GapError, say_skipped
from ..common.records import Record, options_of, positive

LIMITS = {"huber": 0.313, "spambase": 4.9, "exposure": 1.005}
"""At most: mean absolute error, percent, ratio to LightGBM."""

Part = dict[str, Any]
Arrays = dict[str, np.ndarray]


def load(folder: Path, name: str) -> Arrays:
    """All arrays of one ``.npz`` file, the target in float64.

    Raises
    ------
    GapError
        If the file is not there.
    """
    path = folder / f"{name}.npz"
    if not path.is_file():
        raise GapError(f"{name}.npz is not in {folder}")
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    if arrays["y"].dtype.kind in "fiu":
        arrays["y"] = arrays["y"].astype(np.float64)
    return arrays


def huber(options: argparse.Namespace) -> Part:
    """Mean absolute error of the Huber loss on California housing."""
    table = load(options.data, "california_housing")
    errors, constant = [], []
    for seed in range(options.splits):
        X, X_test, y, y_test = train_test_split(
            table["X"], table["y"], test_size=0.2, random_state=seed
        )
        model = GradientBoostingRegressor(
            "huber", n_estimators=options.rounds or 800, max_leaf_nodes=6, n_jobs=options.threads
        )
        errors.append(float(mean_absolute_error(y_test, model.fit(X, y).predict(X_test))))
        constant.append(float(np.abs(y_test - np.median(y)).mean()))
    return {"mean": float(np.mean(errors)), "splits": errors, "constant": float(np.mean(constant))}


def spambase(options: argparse.Namespace) -> Part:
    """Test error on spambase's official split, in percent."""
    table = load(options.data, "spambase")
    X, y, test = table["X"], table["y"], table["is_test"].astype(bool)
    errors = []
    for seed in range(options.splits):
        model = GradientBoostingClassifier(
            n_estimators=options.rounds or 1000, learning_rate=0.05, max_leaf_nodes=5,
            random_state=seed, n_jobs=options.threads,
        )  # fmt: skip
        errors.append(100 * (1 - model.fit(X[~test], y[~test]).score(X[test], y[test])))
    return {"mean": float(np.mean(errors)), "seeds": errors}


def exposure(options: argparse.Namespace) -> Part:
    """Poisson deviance of claims per exposure, beside LightGBM's."""
    if not peers.installed(["LightGBM"]):
        raise GapError("LightGBM is not installed")
    table = load(options.data, "datacar")
    weight = table["exposure"].astype(np.float64)
    ratios: dict[str, float] = {}
    losses: dict[str, dict[str, list[float]]] = {}
    for step in (0.7, 1e-9):  # LightGBM wants more than 0
        runs: dict[str, list[float]] = {peers.OURS: [], "LightGBM": []}
        for seed in range(options.splits):
            X, X_test, y, y_test, w, w_test = train_test_split(
                table["X"], table["y"] / weight, weight, test_size=0.25, random_state=seed
            )
            settings = settings_of(options, seed)
            more = {"objective": "poisson", "poisson_max_delta_step": step}
            models = {
                peers.OURS: peers.estimator(
                    peers.OURS, "regression", settings, loss=Poisson(max_delta_step=step)
                ),
                "LightGBM": peers.estimator("LightGBM", "regression", settings, **more),
            }
            for name, model in models.items():
                prediction = model.fit(X, y, sample_weight=w).predict(X_test)
                deviance = mean_poisson_deviance(y_test, prediction, sample_weight=w_test)
                runs[name].append(float(deviance))
        losses[f"max_delta_step={step:g}"] = runs
        ratios[f"max_delta_step={step:g}"] = ratio(runs, "LightGBM")
    return {"ratios": ratios, "losses": losses, "worst": max(ratios.values())}


def settings_of(options: argparse.Namespace, seed: int) -> peers.Settings:
    """31 leaves, at least 20 rows a leaf, no regularisation, rate 0.1."""
    return peers.Settings(options.rounds or 100, 31, threads=options.threads, seed=seed)


def ratio(runs: dict[str, list[float]], peer: str) -> float:
    return float(np.mean(runs[peers.OURS]) / np.mean(runs[peer]))


Metric = Callable[[Any, Any], float]
LOSSES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None, Metric]] = {
    "absolute": (
        {"loss": "absolute_error"}, {"objective": "mae"}, {"loss": "absolute_error"},
        mean_absolute_error,
    ),
    "quantile 0.1": (
        {"loss": "quantile", "quantile": 0.1}, {"objective": "quantile", "alpha": 0.1},
        {"loss": "quantile", "quantile": 0.1}, partial(mean_pinball_loss, alpha=0.1),
    ),
    "quantile 0.9": (
        {"loss": "quantile", "quantile": 0.9}, {"objective": "quantile", "alpha": 0.9},
        {"loss": "quantile", "quantile": 0.9}, partial(mean_pinball_loss, alpha=0.9),
    ),
    "poisson": (
        {"loss": "poisson"}, {"objective": "poisson", "poisson_max_delta_step": 1e-9},
        {"loss": "poisson"}, mean_poisson_deviance,
    ),
    "gamma": ({"loss": "gamma"}, {"objective": "gamma"}, {"loss": "gamma"}, mean_gamma_deviance),
    "tweedie 1.5": (
        {"loss": Tweedie(1.5)}, {"objective": "tweedie", "tweedie_variance_power": 1.5}, None,
        partial(mean_tweedie_deviance, power=1.5),
    ),
}  # fmt: skip
"""Parameters of gpuens, LightGBM and HistGB (None: it has no such loss), and the metric."""


def same_settings(options: argparse.Namespace) -> Part:
    """Every loss on California housing, beside LightGBM and HistGB."""
    table = load(options.data, "california_housing")
    libraries = peers.installed([peers.OURS, "LightGBM", "HistGB"])
    results: dict[str, Any] = {}
    for name, (ours, lightgbm, hist, metric) in LOSSES.items():
        parameters = {peers.OURS: ours, "LightGBM": lightgbm, "HistGB": hist}
        runs: dict[str, list[float]] = {}
        for seed in range(options.splits):
            X, X_test, y, y_test = train_test_split(
                table["X"], table["y"], test_size=0.25, random_state=seed
            )
            for library in libraries:
                own = parameters[library]
                if own is not None:
                    settings = settings_of(options, seed)
                    model = peers.estimator(library, "regression", settings, **own)
                    with threadpool_limits(options.threads):
                        prediction = model.fit(X, y).predict(X_test)
                    runs.setdefault(library, []).append(float(metric(y_test, prediction)))
        ratios = {peer: ratio(runs, peer) for peer in runs if peer != peers.OURS}
        results[name] = {"losses": runs, "ratios": ratios}
    return results


PARTS: dict[str, Callable[[argparse.Namespace], Part]] = {
    "huber": huber,
    "spambase": spambase,
    "exposure": exposure,
    "same_settings": same_settings,
}


def show(name: str, part: Part) -> None:
    """The figures of a part."""
    if "mean" in part:
        print(f"  {part['mean']:.4f} (at most {LIMITS[name]})")
    for peer, value in part.get("ratios", {}).items():
        print(f"  gpuens ÷ LightGBM, {peer}: {value:.4f} (at most {LIMITS[name]})")
    for loss, row in part.items():
        if isinstance(row, dict) and "losses" in row:
            text = "  ".join(f"÷ {peer} {value:.4f}" for peer, value in row["ratios"].items())
            print(f"  {loss:<14}{np.mean(row['losses'][peers.OURS]):.5f}  {text}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("losses", __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the real tables")
    parser.add_argument("--splits", type=positive, default=5, help="splits or seeds (5)")
    parser.add_argument("--rounds", type=positive, help="rounds, to try the program")
    parser.add_argument("--threads", type=positive, default=2, help="threads (2)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts")
    options = parser.parse_args(argv)
    peers.silence()
    record = Record("losses", options)
    results: dict[str, Part] = {}
    for name in options.only:
        print(f"{name}: {PARTS[name].__doc__}", flush=True)
        try:
            results[name] = PARTS[name](options)
            show(name, results[name])
        except GapError as gap:
            results[name] = {"gaps": [say_skipped(gap)]}
    record.write(results)
    return 0
