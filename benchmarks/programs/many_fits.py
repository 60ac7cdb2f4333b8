"""Time of many small fits at once (``gpuens.fit_many``), beside the other libraries one by one.

Ten settings (five numbers of leaves, two rates) on five folds of one table, each of which leaves
2000 rows to train on. The other libraries have all threads for every fit, as their users run them;
so has "gpuens, one by one". All have trained before, and take turns. The mean log
loss on the rows that a fit has not seen is measured too. With ``--device cuda`` gpuens and XGBoost
train on a GPU; the table is the host's, as small ones are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from gpuens import fit_many
from gpuens.datasets import make_higgs_like

from ..common import peers
from ..common.goals import Goal
from ..common.markdown import pivot, seconds
from ..common.peers import OURS, settings_for
from ..common.places import DEVICE, Host, place_of
from ..common.program import Content, Options, Program, Results, timing
from ..common.tables import title
from ..common.timing import take_turns
from .fit import peers_on

LEAVES, RATES, FOLDS = (7, 15, 31, 63, 127), (0.05, 0.2), 5
ONE_BY_ONE = "gpuens, one by one"
OTHERS = ("LightGBM", "XGBoost")

Fold = tuple[np.ndarray, np.ndarray]
Models = list[list[Any]]
"""By setting and fold."""


def actions(
    X: np.ndarray, y: np.ndarray, folds: Sequence[Fold], trees: int, options: Options, place: Host
) -> dict[str, Callable[[], Models]]:
    """Return all fits of each library."""
    threads, on_gpu = options.threads, place.device != "cpu"
    devices = {OURS: place.device, **peers_on(type(place))[0]} if on_gpu else {}
    shared = peers.Settings(n_trees=trees, min_samples_leaf=10, threads=threads)
    grid = [
        replace(shared, max_leaf_nodes=leaves, learning_rate=rate)
        for leaves, rate in product(LEAVES, RATES)
    ][: options.settings]

    def estimator(library: str, settings: peers.Settings) -> Any:
        further = {"device": devices[library]} if library in devices else {}
        return peers.estimator(library, "binary", settings_for(library, settings), **further)

    def one_by_one(library: str) -> Models:
        return [
            [estimator(library, settings).fit(X[train], y[train]) for train, _ in folds]
            for settings in grid
        ]

    def at_once() -> Models:
        models = [estimator(OURS, settings) for settings in grid]
        return fit_many(models, X, y, folds=folds, n_jobs=threads)

    others = [name for name in devices if name != OURS] if on_gpu else peers.installed(OTHERS)
    return {
        OURS: at_once,
        ONE_BY_ONE: partial(one_by_one, OURS),
        **{library: partial(one_by_one, library) for library in others},
    }


def mean_loss(models: Models, X: np.ndarray, y: np.ndarray, folds: Sequence[Fold]) -> float:
    """Return the log loss on the rows that each model has not seen."""
    return float(np.mean([
        log_loss(y[test], peers.probabilities(model, X[test]))
        for by_fold in models
        for model, (_, test) in zip(by_fold, folds, strict=True)
    ]))  # fmt: skip


def measure(options: Options) -> Results:
    place = place_of(options.device)
    X, y = make_higgs_like(options.rows, 20)
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y))
    for fit in actions(X, y, folds[:1], 2, options, place).values():
        fit()
    fits = actions(X, y, folds, options.trees, options, place)
    libraries, models = take_turns(fits, options)
    for library, fitted in models.items():
        libraries[library]["quality"] = {"log_loss": mean_loss(fitted, X, y, folds)}
    return {
        "title": title(y[folds[0][0]], X.shape[1]),
        "n_fits": options.settings * len(folds),
        "n_trees": options.trees, "libraries": libraries,
    }  # fmt: skip


def show(content: Content) -> Iterator[str]:
    """Yield times and losses."""
    results = content["results"]
    yield pivot(f"{results['n_fits']} fits of {results['title']}", {
        library: {
            "median time": seconds(row["median"]),
            "log loss": f"{row['quality']['log_loss']:.4f}" if "quality" in row else "",
        }
        for library, row in results["libraries"].items()
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    results = content["results"]
    if "LightGBM" in results["libraries"]:
        fits = f"{results['n_fits']} fits of {results['title']}"
        what = f"the time of {fits} at once, relative to LightGBM one by one"
        yield Goal(what, 0.25, results["libraries"]["LightGBM"]["ratio"])


PROGRAM = Program(
    "many_fits", __doc__, measure,
    {
        **timing(3), **DEVICE,
        "settings": (len(LEAVES) * len(RATES), "settings, the first of all"),
        "rows": (2500, "rows of the table"),
        "trees": (100, "rounds of boosting"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
