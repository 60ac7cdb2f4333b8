"""Time of many small fits at once (``gpuens.fit_many``), beside the other libraries one by one.

Ten settings (five numbers of leaves, two rates) on five folds of one table, each of which leaves
2000 rows to train on. The other libraries have all threads for every fit, as their users run them;
so has "gpuens, one by one". All have trained before, and take turns. Beside the times stands the
mean log loss on the rows that a fit has not seen.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
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
from ..common.records import Record, add_timing_options, options_of, positive
from ..common.timing import compare, interleaved
from .fit import settings_for, title

LEAVES, RATES, FOLDS = (7, 15, 31, 63, 127), (0.05, 0.2), 5
ONE_BY_ONE = "gpuens, one by one"
OTHERS = ("LightGBM", "XGBoost")

Fold = tuple[np.ndarray, np.ndarray]
Models = list[list[Any]]
"""By setting and fold."""


def actions(
    X: np.ndarray, y: np.ndarray, folds: Sequence[Fold], options: argparse.Namespace
) -> dict[str, Callable[[], Models]]:
    """All fits of each library."""
    shared = peers.Settings(n_trees=options.trees, min_samples_leaf=10, threads=options.threads)
    grid = [
        replace(shared, max_leaf_nodes=leaves, learning_rate=rate)
        for leaves, rate in product(LEAVES, RATES)
    ]

    def estimator(library: str, settings: peers.Settings) -> Any:
        return peers.estimator(library, "binary", settings_for(library, settings))

    def one_by_one(library: str) -> Models:
        return [
            [estimator(library, settings).fit(X[train], y[train]) for train, _ in folds]
            for settings in grid
        ]

    def at_once() -> Models:
        models = [estimator(peers.OURS, settings) for settings in grid]
        return fit_many(models, X, y, folds=folds, n_jobs=options.threads)

    others = peers.installed(OTHERS)
    return {
        peers.OURS: at_once,
        ONE_BY_ONE: partial(one_by_one, peers.OURS),
        **{library: partial(one_by_one, library) for library in others},
    }


def mean_loss(models: Models, X: np.ndarray, y: np.ndarray, folds: Sequence[Fold]) -> float:
    """Log loss on the rows that each model has not seen."""
    return float(np.mean([
        log_loss(y[test], peers.probabilities(model, X[test]))
        for by_fold in models
        for model, (_, test) in zip(by_fold, folds, strict=True)
    ]))  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("many_fits", __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_timing_options(parser, repeats=3)
    parser.add_argument("--rows", type=positive, default=2500, help="rows of the table (2500)")
    parser.add_argument("--trees", type=positive, default=100, help="rounds of boosting (100)")
    options = parser.parse_args(argv)
    peers.silence()
    record = Record("many_fits", options)
    X, y = make_higgs_like(options.rows, 20)
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y))
    fits = actions(X, y, folds, options)
    warm = actions(X, y, folds[:1], argparse.Namespace(**{**vars(options), "trees": 2}))
    for fit in warm.values():
        fit()
    seconds, models = interleaved(fits, options.repeats, options.threads, options.budget)
    libraries = compare(seconds, peers.OURS)
    for library, fitted in models.items():
        libraries[library]["quality"] = {"log_loss": mean_loss(fitted, X, y, folds)}
    for library, row in libraries.items():
        ratio = f"gpuens ÷ it {row['ratio']:.3f}" if "ratio" in row else ""
        loss = f"log loss {row['quality']['log_loss']:.5f}"
        print(f"  {library:<20}{row['median']:>10.3f} s  {loss}  {ratio}")
    train = folds[0][0]
    record.write({
        "title": title(y[train], X.shape[1]), "n_fits": len(LEAVES) * len(RATES) * len(folds),
        "n_trees": options.trees, "libraries": libraries,
    })  # fmt: skip
    return 0
