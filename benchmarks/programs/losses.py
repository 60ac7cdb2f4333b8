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
from statistics import fmean
from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.model_selection import train_test_split

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.losses import Poisson, Tweedie

from ..common import peers
from ..common.goals import Goal, measured
from ..common.markdown import pivot
from ..common.peers import OURS, GapError
from ..common.program import Content, Options, Program, Results
from ..common.tables import DATA, by_split, load, official_split, ratios_of

AT_MOST = {"huber": 0.313, "spambase": 4.9, "exposure": 1.005}
"""Mean absolute error, percent, and ratio to LightGBM."""


def huber(options: Options) -> Results:
    """Measure the mean absolute error of the Huber loss on California housing."""
    table = load(options.data, "california_housing")
    model = GradientBoostingRegressor(
        "huber", n_estimators=options.rounds or 800, max_leaf_nodes=6, n_jobs=options.threads
    )

    def errors(seed: int) -> dict[str, float]:
        X, X_test, y, y_test = halves(table, 0.2, seed)
        error = metrics.mean_absolute_error(y_test, model.fit(X, y).predict(X_test))
        return {"splits": error, "constant": np.abs(y_test - np.median(y)).mean()}

    found = by_split(options.splits, errors)
    means = {name: fmean(runs) for name, runs in found.items()}
    return {"mean": means["splits"], "splits": found["splits"], "constant": means["constant"]}


def halves(table: dict[str, np.ndarray], test_size: float, seed: int) -> list[np.ndarray]:
    """Return X to train on, X to predict, and their targets."""
    return train_test_split(table["X"], table["y"], test_size=test_size, random_state=seed)


def spambase(options: Options) -> Results:
    """Measure the test error on spambase's official split, in percent."""
    X, X_test, y, y_test = official_split(load(options.data, "spambase"))
    model = GradientBoostingClassifier(
        n_estimators=options.rounds or 1000, learning_rate=0.05, max_leaf_nodes=5,
        n_jobs=options.threads,
    )  # fmt: skip
    errors = [
        100 * (1 - model.set_params(random_state=seed).fit(X, y).score(X_test, y_test))
        for seed in range(options.splits)
    ]
    return {"mean": fmean(errors), "seeds": errors}


def exposure(options: Options) -> Results:
    """Measure the Poisson deviance of claims per exposure, beside LightGBM's."""
    if not peers.installed(["LightGBM"]):
        raise GapError("LightGBM is not installed")
    table = load(options.data, "datacar")
    weight = table["exposure"].astype(np.float64)

    def deviances(step: float, seed: int) -> dict[str, float]:
        X, X_test, y, y_test, w, w_test = train_test_split(
            table["X"], table["y"] / weight, weight, test_size=0.25, random_state=seed
        )
        own: dict[str, dict[str, Any]] = {
            OURS: {"loss": Poisson(max_delta_step=step)},
            "LightGBM": {"objective": "poisson", "poisson_max_delta_step": step},
        }
        found = {}
        for name, more in own.items():
            model = peers.estimator(name, "regression", settings_of(options, seed), **more)
            p = model.fit(X, y, sample_weight=w).predict(X_test)
            found[name] = metrics.mean_poisson_deviance(y_test, p, sample_weight=w_test)
        return found

    losses = {
        f"max_delta_step={step:g}": by_split(options.splits, partial(deviances, step))
        for step in (0.7, 1e-9)  # LightGBM wants more than 0
    }
    ratios = {name: ratios_of(runs)["LightGBM"] for name, runs in losses.items()}
    return {"ratios": ratios, "losses": losses, "worst": max(ratios.values())}


def settings_of(options: Options, seed: int) -> peers.Settings:
    """Return 31 leaves, at least 20 rows a leaf, no regularisation, rate 0.1."""
    return peers.Settings(options.rounds or 100, 31, threads=options.threads, seed=seed)


Metric = Callable[[Any, Any], float]
LOSSES: dict[str, tuple[dict[str, Any], dict[str, Any], Metric]] = {
    "absolute": (
        {"loss": "absolute_error"}, {"objective": "mae"}, metrics.mean_absolute_error,
    ),
    **{
        f"quantile {q}": (
            {"loss": "quantile", "quantile": q}, {"objective": "quantile", "alpha": q},
            partial(metrics.mean_pinball_loss, alpha=q),
        ) for q in (0.1, 0.9)
    },
    "poisson": (
        {"loss": "poisson"}, {"objective": "poisson", "poisson_max_delta_step": 1e-9},
        metrics.mean_poisson_deviance,
    ),
    "gamma": ({"loss": "gamma"}, {"objective": "gamma"}, metrics.mean_gamma_deviance),
    "tweedie 1.5": (
        {"loss": Tweedie(1.5)}, {"objective": "tweedie", "tweedie_variance_power": 1.5},
        partial(metrics.mean_tweedie_deviance, power=1.5),
    ),
}  # fmt: skip
"""Parameters of gpuens (and of HistGB, where the loss has a name) and LightGBM, and the metric."""


def same_settings(options: Options) -> Results:
    """Measure every loss on California housing, beside LightGBM and HistGB."""
    table = load(options.data, "california_housing")
    libraries = peers.installed([OURS, "LightGBM", "HistGB"])

    def losses_of(loss: str, seed: int) -> dict[str, float]:
        X, X_test, y, y_test = halves(table, 0.25, seed)
        ours, lightgbm, metric = LOSSES[loss]
        found = {}
        for library in libraries:
            own = lightgbm if library == "LightGBM" else ours
            if library != "HistGB" or isinstance(ours["loss"], str):
                model = peers.estimator(library, "regression", settings_of(options, seed), **own)
                found[library] = metric(y_test, model.fit(X, y).predict(X_test))
        return found

    losses = {loss: by_split(options.splits, partial(losses_of, loss)) for loss in LOSSES}
    return {loss: {"losses": runs, "ratios": ratios_of(runs)} for loss, runs in losses.items()}


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
