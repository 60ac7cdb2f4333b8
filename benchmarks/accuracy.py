"""Log loss and RMSE on real tables, beside the other libraries.

Three comparisons, each over several 75/25 splits, stratified for classes:

same settings as LightGBM
    31 leaves, at least 20 rows and a hessian of 1e-3 a leaf, lambda = 0, rate 0.1, 100 trees.
same settings as XGBoost
    Leaf-wise to 31 leaves, lambda = 1, hessian of 1 a leaf, no least number of rows, rate 0.1,
    100 trees, 255 bins. With K > 2 classes XGBoost's hessian is 2 p (1 - p), that of gpuens (and
    LightGBM) K / (K - 1) p (1 - p). The least hessian, lambda and the rate of gpuens are therefore
    multiplied by K / (K - 1) / 2, which makes the two models the same in exact arithmetic.
defaults
    100 trees, everything else as each library has it; no early stopping anywhere.

A table's ratio divides the means over the splits; below 1 gpuens is better.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.model_selection import train_test_split

from . import drawing, peers
from .machine import ROOT
from .records import Record, options_of, positive

TASKS: dict[str, peers.Task] = {
    "spambase": "binary",
    "adult": "binary",
    "higgs_lightgbm": "binary",
    "covtype_first20k": "multiclass",
    "california_housing": "regression",
    "bike": "regression",
}
"""The tables; categories are used as numbers."""

Fit = tuple[str, peers.Settings]


@dataclass(frozen=True)
class Table:
    name: str
    X: np.ndarray
    y: np.ndarray
    task: peers.Task

    @property
    def n_classes(self) -> int:
        return 0 if self.task == "regression" else int(np.unique(self.y).size)


def load(folder: Path, name: str, max_rows: int | None) -> Table:
    """One ``.npz`` file with the arrays X and y."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        X, y = file["X"], file["y"]
    if max_rows is not None:
        rows = np.random.default_rng(0).permutation(len(y))[:max_rows]
        X, y = X[rows], y[rows]
    if TASKS[name] == "regression":
        return Table(name, X, y.astype(np.float64), TASKS[name])
    return Table(name, X, np.unique(y, return_inverse=True)[1], TASKS[name])


def comparisons(table: Table, n_trees: int, threads: int, seed: int) -> dict[str, dict[str, Fit]]:
    """Who is trained with which settings, for each comparison."""
    k = table.n_classes
    lgb = peers.Settings(n_trees, 31, threads=threads, seed=seed)
    xgb = replace(lgb, min_samples_leaf=1, min_sum_hessian=1.0, l2=1.0)
    half = k / (k - 1) / 2 if k > 2 else 1.0
    ours = replace(xgb, min_sum_hessian=half, l2=half, learning_rate=0.1 * half)
    own = replace(peers.defaults(threads, seed), n_trees=n_trees)
    everyone = (peers.OURS, "LightGBM", "XGBoost", "HistGB", "CatBoost")
    return {
        "same as LightGBM": {peers.OURS: (peers.OURS, lgb), "LightGBM": ("LightGBM", lgb)},
        "same as XGBoost": {peers.OURS: (peers.OURS, ours), "XGBoost": ("XGBoost", xgb)},
        "defaults": {library: (library, own) for library in everyone},
    }


def loss_of(table: Table, fit: Fit, seed: int) -> float:
    """Log loss or RMSE on the held-out quarter."""
    stratify = None if table.task == "regression" else table.y
    parts = train_test_split(table.X, table.y, test_size=0.25, random_state=seed, stratify=stratify)
    X, X_test, y, y_test = parts
    model = peers.estimator(fit[0], table.task, fit[1]).fit(X, y)
    if table.task == "regression":
        return float(root_mean_squared_error(y_test, model.predict(X_test)))
    p = peers.probabilities(model, X_test)
    return float(log_loss(y_test, p, labels=np.arange(table.n_classes)))


def measure(table: Table, options: argparse.Namespace, libraries: Sequence[str]) -> dict[str, Any]:
    """All losses on one table: comparison, library, one value for each seed."""
    losses: dict[str, dict[str, list[float]]] = {}
    for seed in range(options.seeds):
        plan = comparisons(table, options.trees, options.threads, seed)
        for comparison, fits in plan.items():
            for name, fit in fits.items():
                if name in libraries:
                    runs = losses.setdefault(comparison, {}).setdefault(name, [])
                    runs.append(loss_of(table, fit, seed))
    return losses


def summary(losses: dict[str, dict[str, dict[str, list[float]]]]) -> dict[str, Any]:
    """For each comparison and peer: our loss by its, table by table, and taken together."""
    together: dict[str, Any] = {}
    for table, by_comparison in losses.items():
        for comparison, runs in by_comparison.items():
            for peer in [name for name in runs if name != peers.OURS]:
                ratio = float(np.mean(runs[peers.OURS]) / np.mean(runs[peer]))
                entry = together.setdefault(comparison, {}).setdefault(peer, {"ratios": {}})
                entry["ratios"][table] = ratio
    for by_peer in together.values():
        for entry in by_peer.values():
            ratios = list(entry["ratios"].values())
            entry["geometric_mean"] = math.exp(sum(map(math.log, ratios)) / len(ratios))
            entry["worst"] = max(ratios)
    return together


def show(results: dict[str, Any]) -> None:
    for comparison, by_peer in results["summary"].items():
        print(comparison)
        for peer, entry in by_peer.items():
            tables = "  ".join(f"{name} {ratio:.4f}" for name, ratio in entry["ratios"].items())
            print(
                f"  gpuens ÷ {peer:<10} geometric mean {entry['geometric_mean']:.4f}  "
                f"worst {entry['worst']:.4f}  ({tables})"
            )


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("accuracy", __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--data",
        type=Path,
        default=ROOT.parent / "shared" / "data",
        help="folder of the tables, NAME.npz with X and y (default: ../shared/data)",
    )
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS), help="tables")
    parser.add_argument("--seeds", type=positive, default=5, help="number of splits (5)")
    parser.add_argument("--trees", type=positive, default=100, help="rounds of boosting (100)")
    parser.add_argument("--threads", type=positive, default=2, help="threads (2)")
    parser.add_argument("--rows", type=positive, help="use only so many rows of each table")
    options = parser.parse_args(argv)
    there = [name for name in options.only if (options.data / f"{name}.npz").is_file()]
    for name in sorted(set(options.only) - set(there)):
        print(f"skipped: {name}.npz is not in {options.data}")
    if not there:
        return 0
    peers.silence()
    record = Record("accuracy", options)
    libraries = peers.installed([peers.OURS, "LightGBM", "XGBoost", "HistGB", "CatBoost"])
    losses = {}
    for name in there:
        print(name, flush=True)
        losses[name] = measure(load(options.data, name, options.rows), options, libraries)
    results = {"losses": losses, "summary": summary(losses)}
    show(results)
    drawing.draw(drawing.accuracy, record.write(results), record.path.with_suffix(".png"))
    return 0
