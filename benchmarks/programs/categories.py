"""Log loss with categorical features, beside LightGBM and scikit-learn.

31 leaves, at least 20 rows and a hessian of 1e-3 a leaf, lambda = 0, rate 0.1, 255 bins, 100
trees, one category against the others for at most 4, smoothing 10, over several stratified 75/25
splits. LightGBM has three further regularisations of categorical splits: it appears as it comes
("LightGBM": cat_l2 = 10, at least 100 rows a group of categories, at most 32 categories a side)
and without them ("LightGBM, same settings"), which is what gpuens and scikit-learn do. "numbers"
is gpuens with the codes of the categories as numbers.

A ratio divides the means over the splits; below 1 gpuens is better.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from ..common import peers
from ..common.machine import ROOT
from ..common.records import Record, options_of, positive

TABLES = ("adult", "airlines_allyears2k")
SAME = {"cat_l2": 0.0, "cat_smooth": 10.0, "min_data_per_group": 1, "max_cat_threshold": 255}


class Table(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    categorical: list[int]


def load(folder: Path, name: str, max_rows: int | None) -> Table:
    """One ``.npz`` file with X, y and is_categorical."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        X, y, is_categorical = file["X"], file["y"], file["is_categorical"]
    if max_rows is not None:
        rows = np.random.default_rng(0).permutation(len(y))[:max_rows]
        X, y = X[rows], y[rows]
    return Table(X, y, np.flatnonzero(is_categorical).tolist())


def models(table: Table, trees: int, threads: int, seed: int) -> dict[str, tuple[Any, dict]]:
    """Estimators and what their ``fit`` takes beside the data."""
    settings = peers.Settings(trees, 31, threads=threads, seed=seed)
    columns = {"categorical_features": table.categorical}
    lightgbm = {"categorical_feature": table.categorical}

    def build(library: str, **more: Any) -> Any:
        return peers.estimator(library, "binary", settings, **more)

    found: dict[str, tuple[Any, dict]] = {
        peers.OURS: (build(peers.OURS, **columns), {}),
        "numbers": (build(peers.OURS, categorical_features=None), {}),
    }
    present = peers.installed(["LightGBM"])
    if present:
        found["LightGBM"] = (build("LightGBM"), lightgbm)
        found["LightGBM, same settings"] = (build("LightGBM", **SAME), lightgbm)
    widest = max((len(np.unique(table.X[:, f])) for f in table.categorical), default=0)
    if widest <= 255:  # scikit-learn takes no more
        found["HistGB"] = (build("HistGB", **columns), {})
    return found


def measure(table: Table, options: argparse.Namespace) -> dict[str, list[float]]:
    """The losses of every model, one for each split."""
    losses: dict[str, list[float]] = {}
    for seed in range(options.seeds):
        X, X_test, y, y_test = train_test_split(
            table.X, table.y, test_size=0.25, random_state=seed, stratify=table.y
        )
        for name, (model, more) in models(table, options.trees, options.threads, seed).items():
            p = peers.probabilities(model.fit(X, y, **more), X_test)
            losses.setdefault(name, []).append(float(log_loss(y_test, p)))
    return losses


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("categories", __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--data",
        type=Path,
        default=ROOT.parent / "shared" / "data",
        help="folder of the tables, NAME.npz (default: ../shared/data)",
    )
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES), help="tables")
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
    record = Record("categories", options)
    results: dict[str, Any] = {"losses": {}, "ratios": {}}
    for name in there:
        losses = measure(load(options.data, name, options.rows), options)
        means = {model: float(np.mean(values)) for model, values in losses.items()}
        ratios = {m: means[peers.OURS] / mean for m, mean in means.items() if m != peers.OURS}
        results["losses"][name], results["ratios"][name] = losses, ratios
        print(f"{name}: log loss {means[peers.OURS]:.4f}")
        for model, ratio in ratios.items():
            print(f"  gpuens ÷ {model:<24} {ratio:.4f}")
    record.write(results)
    return 0
