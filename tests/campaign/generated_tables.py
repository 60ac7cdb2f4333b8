"""Fits on tables of the grammar of hard cases."""

from __future__ import annotations

import inspect
import re
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.exceptions import NotFittedError

import gpuens

from .attack import Attack, raised_by, unnamed, wrong
from .hard_tables import Case, hard_case

FEW: dict[str, Any] = {"n_estimators": 2}
CHOICES: dict[str, tuple[dict[str, Any], dict[str, tuple[Any, ...]]]] = {
    "GradientBoostingClassifier": (FEW, {"subsample": (1.0, 0.5), "max_bins": (255, 3)}),
    "GradientBoostingRegressor": (
        FEW,
        {"loss": ("squared_error", "absolute_error", "huber", "poisson", "gamma", "quantile"),
         "line_search": (False, True), "early_stopping": (False, True)},
    ),
    "DecisionTreeClassifier": ({}, {"criterion": ("gini", "entropy"), "max_bins": (None, 7)}),
    "DecisionTreeRegressor": ({}, {"criterion": ("squared_error", "absolute_error", "poisson")}),
    "ExtraTreeClassifier": ({}, {}),
    "ExtraTreeRegressor": ({}, {}),
    "RandomForestClassifier": (
        FEW, {"oob_score": (False, True), "class_weight": (None, "balanced_subsample")}),
    "RandomForestRegressor": (FEW, {"max_bins": (255, None), "bootstrap": (True, False)}),
    "ExtraTreesRegressor": (FEW, {}),
    "QuantileForestRegressor": (FEW, {}),
    "IsolationForest": (FEW, {"contamination": ("auto", 0.2)}),
    "BaggingClassifier": (FEW, {"max_features": (1.0, 0.5)}),
    "BaggingRegressor": (FEW, {"max_samples": (1.0, 1)}),
    "AdaBoostClassifier": (FEW, {}),
    "AdaBoostRegressor": (FEW, {}),
    "StagewiseRegressor": (FEW, {}),
    "StagewiseClassifier": (FEW, {}),
}  # fmt: skip
"""Estimators with their settings, and with parameters of which each trial draws values."""
NAMED = (ValueError, TypeError, MemoryError)
WORDS = ("X", "y", "sample_weight", "weight", "weights", "classes", "column", "columns", "feature",
         "features", "samples", "sample", "target", "targets", "input", "Input", "categories",
         "label", "labels", "sparse", "Sparse", "rows", "estimator")  # fmt: skip
"""Words by which an error names what is wrong, besides the names of parameters."""


def model_of(rng: np.random.Generator) -> Any:
    """Return an estimator with drawn parameters."""
    name = str(rng.choice(list(CHOICES)))
    settings, drawn = CHOICES[name]
    kind = getattr(gpuens, name)
    chosen = {p: values[int(rng.integers(len(values)))] for p, values in drawn.items()}
    known = inspect.signature(kind).parameters
    places = {"n_jobs": 1, "device": "cpu", "random_state": int(rng.integers(3))}
    return kind(**settings, **chosen, **{p: v for p, v in places.items() if p in known})


def names_something(error: BaseException, model: Any) -> bool:
    """Return whether an error says what is wrong with which argument; what scikit-learn says of
    arrays counts."""
    if "sklearn" in traceback.extract_tb(error.__traceback__)[-1].filename:
        return True
    words = set(re.findall(r"\w+", str(error)))
    return len(str(error)) >= 20 and bool(words & {*WORDS, *model.get_params()})


class GeneratedTables(Attack):
    """A fit either predicts finite values or raises an error that names the argument."""

    weight = 2.0

    def __init__(self, seed: int, folder: Path, known: set[str]) -> None:
        super().__init__(seed, folder, known)
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", category=RuntimeWarning, message=".*encountered.*")

    def trial(self, number: int) -> None:
        rng = np.random.default_rng([self.seed, number])
        model, case = model_of(rng), hard_case(rng)
        self._try(model, case, f"{model!r} on {case.words}".replace("\n", " "))

    def _try(self, model: Any, case: Case, words: str) -> None:
        arguments = {} if case.weight is None else {"sample_weight": case.weight}
        try:
            model.fit(case.X, case.y, **arguments)
        except Exception as error:
            _check_error(error, model, words)
            return
        try:
            predicted = model.predict(case.X)
            shares = model.predict_proba(case.X) if hasattr(model, "predict_proba") else None
        except Exception as error:
            raise unnamed(error, "predict of a fitted model", words) from error
        _check_predictions(model, case, np.asarray(predicted), shares, words)


def _check_error(error: Exception, model: Any, words: str) -> None:
    named = isinstance(error, NAMED) and names_something(error, model)
    innermost = traceback.extract_tb(error.__traceback__)[-1].filename
    if not named or not (raised_by(error, sklearn) or "narwhals" in innermost):
        if isinstance(error, NotFittedError):
            return
        raise unnamed(error, "fit", words) from error


def _check_predictions(
    model: Any, case: Case, predicted: np.ndarray, shares: Any, words: str
) -> None:
    name = type(model).__name__
    if predicted.dtype.kind in "fc" and not np.isfinite(predicted).all():
        raise wrong("predictions are not finite", f"{name} finite", words)
    if len(predicted) != np.shape(case.X)[0]:
        raise wrong(f"{len(predicted)} predictions", f"{name} length", words)
    classes = getattr(model, "classes_", None)
    if classes is not None and not np.isin(predicted, classes).all():
        raise wrong("predictions are not classes", f"{name} classes", words)
    if shares is not None:
        shares = np.asarray(shares)
        sums = shares.sum(axis=1)
        if not (np.isfinite(shares).all() and (shares >= 0).all() and np.allclose(sums, 1)):
            raise wrong(f"probabilities add up to {sums[:3]}", f"{name} shares", words)
