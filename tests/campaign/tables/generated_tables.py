"""Fits on tables of the grammar of hard cases."""

from __future__ import annotations

import inspect
import re
import traceback
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.exceptions import NotFittedError

import gpuens
from gpuens.losses.names import OF_DISTRIBUTIONS, OF_RANKINGS, OF_TIMES

from ..answers import answers, check_answers
from ..attack import Attack, FoundError, raised_by, unnamed
from .hard_tables import COLUMNS, Case, hard_case
from .hard_targets import GENERAL, RELEVANCES, TARGETS, TIMES, Kinds

FEW: dict[str, Any] = {"n_estimators": 2}
FLAGS = (False, True)
SURVIVAL: tuple[str, ...] = tuple(kind.name for kind in OF_TIMES)
STOPPING: dict[str, tuple[Any, ...]] = {"early_stopping": FLAGS, "min_samples_leaf": (10, 1)}
LINEAR: dict[str, tuple[Any, ...]] = {
    "linear_leaves": (True,), "linear_lambda": (0.0, 1.0), "max_depth": (None, 1),
    "min_samples_leaf": (10, 1),
}  # fmt: skip
DROPOUT: dict[str, tuple[Any, ...]] = {
    "dropout": (0.5, 1.0), "n_estimators": (2, 5), "normalize_drop": ("tree", "forest"),
    "uniform_drop": FLAGS, "max_drop": (None, 1), **STOPPING,
}  # fmt: skip
CHOICES: dict[str, tuple[dict[str, Any], dict[str, tuple[Any, ...]]]] = {
    "GradientBoostingClassifier": (FEW, {"subsample": (1.0, 0.5), "max_bins": (255, 3)}),
    "GradientBoostingClassifier, linear leaves": (FEW, LINEAR),
    "GradientBoostingClassifier, dropout": (FEW, DROPOUT),
    "GradientBoostingRegressor": (
        FEW,
        {"loss": ("squared_error", "absolute_error", "huber", "poisson", "gamma", "quantile",
                  "tweedie"),
         "line_search": FLAGS, "early_stopping": FLAGS},
    ),
    "GradientBoostingRegressor, linear leaves": (
        FEW, LINEAR | {"loss": ("squared_error", "poisson", "gamma", "normal", "student_t")}),
    "GradientBoostingRegressor, dropout": (
        FEW, DROPOUT | {"loss": ("squared_error", "absolute_error", "gamma", "log_normal")}),
    "GradientBoostingRegressor, distributions": (
        FEW, {"loss": tuple(kind.name for kind in OF_DISTRIBUTIONS), **STOPPING}),
    "GradientBoostingRegressor, survival": (FEW, {"loss": SURVIVAL, **STOPPING}),
    "GradientBoostingRanker": (
        FEW, {"loss": tuple(kind.name for kind in OF_RANKINGS), **STOPPING}),
    "GradientBoostingRanker, dropout": (FEW, DROPOUT),
    "DecisionTreeClassifier": ({}, {"criterion": ("gini", "entropy"), "max_bins": (None, 7)}),
    "DecisionTreeRegressor": ({}, {"criterion": ("squared_error", "absolute_error", "poisson")}),
    "ExtraTreeClassifier": ({}, {}),
    "ExtraTreeRegressor": ({}, {}),
    "RandomForestClassifier": (
        FEW, {"oob_score": FLAGS, "class_weight": (None, "balanced_subsample")}),
    "RandomForestRegressor": (FEW, {"max_bins": (255, None), "bootstrap": FLAGS}),
    "ExtraTreesRegressor": (FEW, {}),
    "ObliqueRandomForestClassifier": (
        FEW, {"feature_combinations": ("auto", 1, 2.5), "max_bins": (255, None)}),
    "ObliqueRandomForestRegressor": (
        FEW, {"feature_combinations": ("auto", 1, 2.5), "bootstrap": FLAGS,
              "honest": FLAGS, "n_projections": ("auto", 3)}),
    "QuantileForestRegressor": (FEW, {}),
    "RandomSurvivalForest": (FEW, {"oob_score": FLAGS, "max_bins": (255, None),
                                   "min_samples_leaf": (8, 1)}),
    "ExtraSurvivalTrees": (FEW, {"bootstrap": FLAGS, "min_samples_leaf": (8, 1)}),
    "ConformalRegressor": (
        {"cv": 2},
        {"method": ("split", "cv+", "bag", "quantile"),
         "estimator": (None, gpuens.GradientBoostingRegressor(loss="absolute_error", **FEW),
                       gpuens.RandomForestRegressor(5), gpuens.QuantileForestRegressor(2))},
    ),
    "IsolationForest": (FEW, {"contamination": ("auto", 0.2)}),
    "BaggingClassifier": (FEW, {"max_features": (1.0, 0.5)}),
    "BaggingRegressor": (FEW, {"max_samples": (1.0, 1)}),
    "AdaBoostClassifier": (FEW, {}),
    "AdaBoostRegressor": (FEW, {}),
    "StagewiseRegressor": (FEW, {}),
    "StagewiseClassifier": (FEW, {}),
}  # fmt: skip
"""Estimators with their settings, and with parameters of which each trial draws values. What
follows a comma tells entries of a class apart."""
NAMED = (ValueError, TypeError, MemoryError)
WORDS = ("X", "y", "sample_weight", "weight", "weights", "classes", "column", "columns", "feature",
         "features", "samples", "sample", "target", "targets", "input", "Input", "categories",
         "label", "labels", "sparse", "Sparse", "rows", "estimator", "group", "qid")  # fmt: skip
"""Words by which an error names what is wrong, besides the names of parameters."""


def drawn(rng: np.random.Generator, names: Collection[str] = CHOICES) -> tuple[Any, Case]:
    """Return an estimator of one of some names with drawn parameters, and data of which some suit
    it."""
    model = model_of(rng, names)
    return model, case_for(rng, model)


def case_for(rng: np.random.Generator, model: Any, columns: tuple[int, ...] = COLUMNS) -> Case:
    """Return data of which some suit an estimator."""
    return hard_case(rng, _targets_of(model), "Ranker" in type(model).__name__, columns)


def _targets_of(model: Any) -> Kinds:
    """Return the kinds of targets that an estimator is tried with."""
    name = type(model).__name__
    if "Surviv" in name or getattr(model, "loss", None) in SURVIVAL:
        return (*TIMES * 2, *TARGETS)
    return (*RELEVANCES * 8, *TARGETS) if "Ranker" in name else GENERAL


def model_of(rng: np.random.Generator, names: Collection[str]) -> Any:
    """Return an estimator of one of some names, with drawn parameters."""
    name = str(rng.choice(list(names)))
    settings, drawn = CHOICES[name]
    kind = getattr(gpuens, name.partition(",")[0])
    chosen = {p: values[int(rng.integers(len(values)))] for p, values in drawn.items()}
    known = inspect.signature(kind).parameters
    places = {"n_jobs": 1, "device": "cpu", "random_state": int(rng.integers(3))}
    return kind(**settings | chosen | {p: v for p, v in places.items() if p in known})


def names_something(error: BaseException, model: Any) -> bool:
    """Return whether an error says what is wrong with which argument; what scikit-learn says of
    arrays counts."""
    if "sklearn" in traceback.extract_tb(error.__traceback__)[-1].filename:
        return True
    words = set(re.findall(r"\w+", str(error)))
    return len(str(error)) >= 20 and bool(words & {*WORDS, *model.get_params()})


class GeneratedTables(Attack):
    """A fit, and questions about other rows, give finite answers or raise an error that names the
    argument."""

    weight = 2.0

    def __init__(self, seed: int, folder: Path, known: set[str]) -> None:
        super().__init__(seed, folder, known)
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", category=RuntimeWarning, message=".*encountered.*")

    def trial(self, number: int) -> None:
        rng = np.random.default_rng([self.seed, number])
        model, case = drawn(rng)
        words = f"{model!r} on {case.words}".replace("\n", " ")
        if self._fitted(model, case, words):
            other = case_for(rng, model, (*COLUMNS, *[model.n_features_in_] * 20))
            self._ask_about(other, model, f"{words}; then {other.words}")

    def _fitted(self, model: Any, case: Case, words: str) -> bool:
        """Fit, and check the answers for the same rows. Return whether the fit took the data."""
        try:
            model.fit(case.X, case.y, **case.arguments)
        except Exception as error:
            check_error(error, model, words)
            return False
        try:
            found = answers(model, case.X)
        except Exception as error:
            raise unnamed(error, "predict of a fitted model", words) from error
        check_answers(model, found, np.shape(case.X)[0], words)
        return True

    def _ask_about(self, case: Case, model: Any, words: str) -> None:
        """Ask for predictions and the score of rows that the model may refuse."""
        try:
            found = answers(model, case.X)
            check_answers(model, found, np.shape(case.X)[0], words)
            if hasattr(model, "score"):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of scikit-learn's metrics
                    float(model.score(case.X, case.y, **case.arguments))
        except FoundError:
            raise
        except Exception as error:
            check_error(error, model, words, "later")


def check_error(error: Exception, model: Any, words: str, what: str = "fit") -> None:
    """Check that an error is the library's and names something.

    Raises
    ------
    FoundError
    """
    named = isinstance(error, NAMED) and names_something(error, model)
    innermost = traceback.extract_tb(error.__traceback__)[-1].filename
    if not named or not (raised_by(error, sklearn) or "narwhals" in innermost):
        if isinstance(error, NotFittedError):
            return
        raise unnamed(error, what, words) from error
