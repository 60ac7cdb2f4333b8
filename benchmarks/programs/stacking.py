"""Log loss of stacks and votes on fresh rows, beside their members and scikit-learn's stack.

The members are a random forest and gradient boosting of gpuens, and scikit-learn's logistic
regression on scaled features. Categories are categories for the forest, numbers for boosting and
columns of zeros and ones for the regression. Every other setting has its default. Adult has an
official split, of which every round draws three quarters of the training rows; other tables are
split 75/25. A table that is missing is named and left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
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

import gpuens

from ..common.goals import Goal, measured
from ..common.markdown import pivot
from ..common.peers import OURS, build, probabilities
from ..common.program import Content, Options, Program, Results
from ..common.tables import DATA, load, official_split

TABLES = ("adult", "covtype_first20k")

Members = list[tuple[str, Any]]


def members_of(categorical: np.ndarray, options: Options) -> Members:
    """Return the three members, not fitted."""
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


def ensembles_of(members: Members) -> dict[str, Any]:
    """Return what is compared with the members, by name, not fitted."""
    stack = partial(gpuens.StackingClassifier, members, device="cpu")
    vote = partial(gpuens.VotingClassifier, members, voting="soft", device="cpu")
    regression = LogisticRegression(max_iter=1000)
    return {
        "stack": stack(),
        "stack, holdout": stack(cv="holdout"),
        "vote, optimal": vote(weights="optimal"),
        "vote, greedy": vote(weights="greedy"),
        "vote, equal": vote(),
        "scikit-learn's stack": sklearn.ensemble.StackingClassifier(members, regression),
    }


def split(arrays: dict[str, np.ndarray], seed: int) -> list[np.ndarray]:
    """Return X to train on, X to predict, and their labels."""
    if "is_test" not in arrays:
        X, y = arrays["X"], arrays["y"]
        return train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
    X, X_test, y, y_test = official_split(arrays)
    seen = train_test_split(np.arange(len(y)), train_size=0.75, random_state=seed)[0]
    return [X[seen], X_test, y[seen], y_test]


def measure(of: str, options: Options) -> Results:
    """Measure losses on fresh rows and times of training, for each split of a table."""
    arrays = load(options.data, of, options.rows)
    none = np.zeros(arrays["X"].shape[1], bool)
    categorical = arrays.get("is_categorical", none)
    losses: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    weights: dict[str, list[list[float]]] = {}
    for seed in range(options.splits):
        X, X_test, y, y_test = split(arrays, seed)
        members = members_of(categorical, options)
        for what, model in ensembles_of(members).items():
            start = time.perf_counter()
            model.fit(X, y)
            seconds.setdefault(what, []).append(time.perf_counter() - start)
            of_members = model.named_estimators_ if what == "stack" else {}
            for name, fitted in {what: model, **of_members}.items():
                loss = float(log_loss(y_test, probabilities(fitted, X_test)))
                losses.setdefault(name, []).append(loss)
            if hasattr(model, "weights_"):
                weights.setdefault(what, []).append(model.weights_.tolist())
    names = [member for member, _ in members]
    best = min(names, key=lambda member: fmean(losses[member]))
    shape = f"{len(y)} × {X.shape[1]}, {int(arrays['y'].max()) + 1} classes"
    means = {what: fmean(found) for what, found in losses.items()}
    ratios = {what: mean / means[best] for what, mean in means.items()}
    return {
        "title": f"{of}: {shape}", "members": names, "best": best, "losses": losses,
        "ratios": ratios, "seconds": seconds, "weights": weights,
    }  # fmt: skip


def show(content: Content) -> Iterator[str]:
    """Yield log losses and times of members and of what combines them."""
    for part in measured(content["results"]).values():
        yield pivot(part["title"], {
            what: {
                "log loss": f"{fmean(losses):.4f}",
                "÷ the best member": f"{part['ratios'].get(what, 1.0):.4f}",
                "seconds": f"{fmean(part['seconds'][what]):.1f}" if what in part["seconds"] else "",
            }
            for what, losses in part["losses"].items()
        })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    for table, part in measured(content["results"]).items():
        what = f"the log loss of a stack on {table}, relative to its best member ({part['best']})"
        yield Goal(what, 1.0, part["ratios"]["stack"], below=True)


PROGRAM = Program(
    "stacking", __doc__, {name: partial(measure, name) for name in TABLES},
    {
        "data": (DATA, "folder of the real tables"),
        "rows": (None, "use only so many rows of each table"),
        "trees": (100, "trees of a forest, rounds"),
        "splits": (3, "splits of a table"),
        "threads": (2, "threads"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
