"""Losses of gradient boosting on real data, beside published values and the other libraries.

huber
    California housing, 80/20, 800 rounds of 6 leaves at rate 0.1: mean absolute error (Hastie,
    Tibshirani and Friedman 2009, 10.14.1, report 0.31).
spambase
    Test error on the official split, 1000 rounds of 5 leaves at rate 0.05, the mean over seeds
    (their 10.8 reports 4.5 %).
exposure
    Car insurance claims per year of exposure, weighted by the exposure: Poisson deviance beside
    LightGBM's with the same settings, which include ``max_delta_step``: once its default of 0.7,
    once (almost) none.
same_settings
    Every loss that LightGBM has, on California housing: its own deviance, beside LightGBM's and
    HistGB's with the same settings.

A ratio divides means over the splits; below 1 gpuens is better. A table that is missing is named
and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
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

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.losses import Poisson, Tweedie

from ..common import peers
from ..common.goals import Goal, measured
from ..common.markdown import pivot
from ..common.peers import OURS, GapError
from ..common.program import Content, Options, Program, Results
from ..common.tables import DATA, load

AT_MOST = {"huber": 0.313, "spambase": 4.9, "exposure": 1.005}
"""Mean absolute error, percent, and ratio to LightGBM."""


def huber(options: Options) -> Results:
    """Measure the mean absolute error of the Huber loss on California housing."""
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


def spambase(options: Options) -> Results:
    """Measure the test error on spambase's official split, in percent."""
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


def exposure(options: Options) -> Results:
    """Measure the Poisson deviance of claims per exposure, beside LightGBM's."""
    if not peers.installed(["LightGBM"]):
        raise GapError("LightGBM is not installed")
    table = load(options.data, "datacar")
    weight = table["exposure"].astype(np.float64)
    ratios: dict[str, float] = {}
    losses: dict[str, dict[str, list[float]]] = {}
    for step in (0.7, 1e-9):  # LightGBM wants more than 0
        runs: dict[str, list[float]] = {OURS: [], "LightGBM": []}
        for seed in range(options.splits):
            X, X_test, y, y_test, w, w_test = train_test_split(
                table["X"], table["y"] / weight, weight, test_size=0.25, random_state=seed
            )
            settings = settings_of(options, seed)
            more = {"objective": "poisson", "poisson_max_delta_step": step}
            models = {
                OURS: peers.estimator(
                    OURS, "regression", settings, loss=Poisson(max_delta_step=step)
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


def settings_of(options: Options, seed: int) -> peers.Settings:
    """Return 31 leaves, at least 20 rows a leaf, no regularisation, rate 0.1."""
    return peers.Settings(options.rounds or 100, 31, threads=options.threads, seed=seed)


def ratio(runs: dict[str, list[float]], peer: str) -> float:
    return float(np.mean(runs[OURS]) / np.mean(runs[peer]))


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


def same_settings(options: Options) -> Results:
    """Measure every loss on California housing, beside LightGBM and HistGB."""
    table = load(options.data, "california_housing")
    libraries = peers.installed([OURS, "LightGBM", "HistGB"])
    results: dict[str, Any] = {}
    for name, (ours, lightgbm, hist, metric) in LOSSES.items():
        parameters = {OURS: ours, "LightGBM": lightgbm, "HistGB": hist}
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
                    prediction = model.fit(X, y).predict(X_test)
                    runs.setdefault(library, []).append(float(metric(y_test, prediction)))
        ratios = {peer: ratio(runs, peer) for peer in runs if peer != OURS}
        results[name] = {"losses": runs, "ratios": ratios}
    return results


def show(content: Content) -> Iterator[str]:
    """Yield every loss at the same settings."""
    part = measured(content["results"]).get("same_settings", {})
    yield pivot("loss on California housing", {
        name: {OURS: f"{np.mean(row['losses'][OURS]):.4g}"}
        | {f"÷ {peer}": f"{value:.4f}" for peer, value in row["ratios"].items()}
        for name, row in part.items() if name != "gaps"
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    results = measured(content["results"])
    if "huber" in results:
        what = "the mean absolute error of the Huber loss on California housing"
        yield Goal(what, AT_MOST["huber"], results["huber"]["mean"])
    if "spambase" in results:
        what = "the test error of gradient boosting on spambase"
        yield Goal(what, AT_MOST["spambase"], results["spambase"]["mean"], "%")
    for name, value in results.get("exposure", {}).get("ratios", {}).items():
        what = f"the Poisson deviance of claims per exposure ({name}), relative to LightGBM"
        yield Goal(what, AT_MOST["exposure"], value)


PROGRAM = Program(
    "losses", __doc__,
    {
        "huber": huber, "spambase": spambase, "exposure": exposure,
        "same_settings": same_settings,
    },
    {
        "data": (DATA, "folder of the real tables"),
        "splits": (5, "splits or seeds"),
        "rounds": (None, "rounds, to try the program"),
        "threads": (2, "threads"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
