"""Log loss of stacks and votes on fresh rows, beside their members and scikit-learn's stack.

The members are a random forest and gradient boosting of gpuens, and scikit-learn's logistic
regression on scaled features. Categories are categories for the forest, numbers for boosting and
columns of zeros and ones for the regression. Every other setting has its default. Adult has an
official split, of which every round draws three quarters of the training rows; other tables are
split 75/25. A table that is missing is named and left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import sklearn.ensemble
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

import gpuens

from ..common import counterparts
from ..common.counterparts import DATA, OURS, GapError, build, say_skipped
from ..common.records import Record, options_of, positive

TABLES = ("adult", "covtype_first20k")

Part = dict[str, Any]
Members = list[tuple[str, Any]]


def members_of(categorical: np.ndarray, options: argparse.Namespace) -> Members:
    """The three members, not fitted."""
    columns = np.flatnonzero(categorical).tolist()
    settings = {"n_estimators": options.trees, "random_state": 0}
    by_category = {"categorical_features": columns or None}
    numeric = make_pipeline(SimpleImputer(), StandardScaler())
    one_hot = OneHotEncoder(handle_unknown="ignore")
    scaled = make_column_transformer((one_hot, columns), remainder=numeric)
    return [
        ("forest", build(OURS, "RandomForestClassifier", options.threads, **by_category,
                         **settings)),
        ("boosting", build(OURS, "GradientBoostingClassifier", options.threads, **settings)),
        ("logistic regression", make_pipeline(scaled, LogisticRegression(max_iter=1000))),
    ]  # fmt: skip


def ensembles_of(members: Members) -> dict[str, Callable[[], Any]]:
    """What is compared with the members, by name."""
    return {
        "stack": lambda: gpuens.StackingClassifier(members, device="cpu"),
        "stack, holdout": lambda: gpuens.StackingClassifier(members, cv="holdout", device="cpu"),
        "vote, optimal": lambda: gpuens.VotingClassifier(
            members, voting="soft", weights="optimal", device="cpu"
        ),
        "vote, greedy": lambda: gpuens.VotingClassifier(
            members, voting="soft", weights="greedy", device="cpu"
        ),
        "vote, equal": lambda: gpuens.VotingClassifier(members, voting="soft", device="cpu"),
        "scikit-learn's stack": lambda: sklearn.ensemble.StackingClassifier(
            members, LogisticRegression(max_iter=1000)
        ),
    }


def load(folder: Path, name: str, max_rows: int | None) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Arrays of a table, and which of its features are categories."""
    arrays = counterparts.load(folder, name)
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        n_features = arrays["X"].shape[1]
        known = "is_categorical" in file.files
        categorical = file["is_categorical"] if known else np.zeros(n_features, bool)
    if max_rows is not None:
        rows = np.random.default_rng(0).permutation(len(arrays["y"]))[:max_rows]
        arrays = {key: values[rows] for key, values in arrays.items()}
    return arrays, categorical


def split(arrays: dict[str, np.ndarray], seed: int) -> list[np.ndarray]:
    """X to train on, X to predict, and their labels."""
    X, y, test = arrays["X"], arrays["y"], arrays.get("is_test")
    if test is None:
        return train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
    seen = train_test_split(np.flatnonzero(~test), train_size=0.75, random_state=seed)[0]
    return [X[seen], X[test], y[seen], y[test]]


def loss_of(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Log loss; probabilities in float32 do not sum to one closely enough for the metric."""
    shares = model.predict_proba(X).astype(np.float64)
    return float(log_loss(y, shares / shares.sum(axis=1, keepdims=True)))


def compare(name: str, options: argparse.Namespace) -> Part:
    """Losses on fresh rows and times of training, for each split of a table."""
    arrays, categorical = load(options.data, name, options.rows)
    losses: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    weights: dict[str, list[list[float]]] = {}
    for seed in range(options.splits):
        X, X_test, y, y_test = split(arrays, seed)
        members = members_of(categorical, options)
        for what, make in ensembles_of(members).items():
            start = time.perf_counter()
            model = make().fit(X, y)
            seconds.setdefault(what, []).append(time.perf_counter() - start)
            losses.setdefault(what, []).append(loss_of(model, X_test, y_test))
            if what == "stack":
                for member, fitted in model.named_estimators_.items():
                    losses.setdefault(member, []).append(loss_of(fitted, X_test, y_test))
            if hasattr(model, "weights_"):
                weights.setdefault(what, []).append(model.weights_.tolist())
    names = [member for member, _ in members]
    best = min(names, key=lambda member: fmean(losses[member]))
    shape = f"{len(y)} × {X.shape[1]}, {int(arrays['y'].max()) + 1} classes"
    means = {what: fmean(found) for what, found in losses.items()}
    ratios = {what: mean / means[best] for what, mean in means.items()}
    return {
        "title": f"{name}: {shape}", "members": names, "best": best, "losses": losses,
        "ratios": ratios, "seconds": seconds, "weights": weights,
    }  # fmt: skip


def show(part: Part) -> None:
    """One line for each model."""
    print(f"  {part['title']}; the best member is {part['best']}")
    for what, found in part["losses"].items():
        spent = f"{fmean(part['seconds'][what]):8.1f} s" if what in part["seconds"] else ""
        ratio = f"÷ the best member {part['ratios'][what]:.4f}"
        print(f"  {what:<22}log loss {fmean(found):.5f}  {ratio}  {spent}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("stacking", __doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the real tables")
    parser.add_argument("--rows", type=positive, default=None, help="most rows of a table")
    parser.add_argument("--trees", type=positive, default=100, help="trees of a forest, rounds")
    parser.add_argument("--splits", type=positive, default=3, help="splits of a table")
    parser.add_argument("--threads", type=positive, default=2, help="threads")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES), help="tables")
    options = parser.parse_args(argv)
    record = Record("stacking", options)
    results: dict[str, Part] = {}
    with threadpool_limits(options.threads):
        for name in options.only:
            try:
                results[name] = compare(name, options)
                show(results[name])
            except GapError as gap:
                results[name] = {"gaps": [say_skipped(gap)]}
    record.write(results)
    return 0
