"""Names of other libraries: each is answered with the name here."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

import gpuens
from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.losses import names as losses
from gpuens.other_names import EQUIVALENTS, VALUES, meant
from tests.support import names_table

ESTIMATORS = [
    kind
    for name in gpuens.__all__
    if isinstance(kind := getattr(gpuens, name), type) and issubclass(kind, BaseEstimator)
]
OWN = {kind.__name__: set(kind._get_param_names()) for kind in ESTIMATORS}
BOOSTING = OWN["GradientBoostingClassifier"] | {"quantile"}
NAMES = [name for row in EQUIVALENTS for name in row.names.split()]


def test_the_table_is_consistent():
    assert len(NAMES) == len(set(NAMES)) >= 80
    known = set().union(*OWN.values())
    assert {name for row in EQUIVALENTS for name in row.here.split()} <= known
    assert all(row.here or row.note for row in EQUIVALENTS)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_answered(name):
    kind = GradientBoostingRegressor
    if name in OWN[kind.__name__]:
        kind = gpuens.RandomForestClassifier
    answer = meant(name, OWN[kind.__name__])
    pattern = "Did you mean|It has no equivalent here"
    if not answer:  # a parameter of ensembles of other estimators
        kind = gpuens.StackingRegressor if "meta" in name else gpuens.BaggingRegressor
    with pytest.raises(TypeError, match=f"argument '{name}'. ({pattern})"):
        kind(**{name: 1})


@pytest.mark.parametrize("name, here", [
    ("eta", "learning_rate"), ("num_leaves", "max_leaf_nodes"), ("max_iter", "n_estimators"),
    ("reg_lambda", "l2_regularization"), ("early_stopping_rounds", "n_iter_no_change"),
    ("objective", "loss"), ("scale_pos_weight", "class_weight"), ("n_estimator", "n_estimators"),
    ("Seed", "random_state"),
])  # fmt: skip
def test_answers(name, here):
    with pytest.raises(TypeError, match=f"'{name}'. Did you mean {here}\\?"):
        GradientBoostingClassifier(**{name: 1})
    model = GradientBoostingClassifier()
    with pytest.raises(ValueError, match=f"Did you mean {here}\\?"):
        model.set_params(**{name: 1})
    with pytest.raises(TypeError, match=f"argument '{name}'"):
        GradientBoostingClassifier(n_estimators=3, **{name: 1})


@pytest.mark.parametrize("library, kind", [
    ("xgboost", "XGBClassifier"), ("xgboost", "XGBRanker"), ("lightgbm", "LGBMClassifier"),
    ("lightgbm", "LGBMRegressor"), ("sklearn.ensemble", "HistGradientBoostingRegressor"),
    ("sklearn.ensemble", "GradientBoostingClassifier"),
])  # fmt: skip
def test_parameters_of_the_installed_libraries_are_known(library, kind):
    module = pytest.importorskip(library)
    unanswered = {n for n in getattr(module, kind)().get_params() if not meant(n, BOOSTING)}
    assert unanswered - BOOSTING == set()


def answered(names: list[str]) -> float:
    """Return the share that the table, not the likeness of letters, answers."""
    return sum(name in NAMES or name in BOOSTING for name in names) / len(names)


def test_parameters_of_catboost_are_known():
    """Its ``get_params`` returns what is set."""
    catboost = pytest.importorskip("catboost")
    names = inspect.signature(catboost.CatBoostClassifier.__init__).parameters
    assert answered([name for name in names if name not in ("self", "kwargs")]) >= 0.9


def test_parameters_of_lightgbm_s_training_are_known():
    """Its functions take more than its estimators, and each by several names."""
    basic = pytest.importorskip("lightgbm.basic")
    names = basic._ConfigAliases._get_all_param_aliases()
    assert answered([*names, *(other for others in names.values() for other in others)]) >= 0.9


def test_values_mean_values_that_exist():
    known = {cls.name for group in ("OF_NUMBERS", "OF_CLASSES", "OF_TIMES", "OF_RANKINGS")
             for cls in getattr(losses, group)}  # fmt: skip
    assert set(VALUES["loss"].values()) <= known
    assert not set(VALUES["loss"]) & known
    X, y = np.arange(20.0)[:, None], np.arange(20.0)
    for parameter, value, here, kind in [
        ("loss", "mse", "squared_error", GradientBoostingRegressor),
        ("loss", "binary:logistic", "log_loss", GradientBoostingClassifier),
        ("loss", "rank:ndcg", "lambdarank", gpuens.GradientBoostingRanker),
        ("device", "gpu", "cuda", GradientBoostingRegressor),
        ("criterion", "mse", "squared_error", gpuens.RandomForestRegressor),
        ("sampling", "GOSS", "goss", GradientBoostingRegressor),
        ("class_weight", "auto", "balanced", GradientBoostingClassifier),
    ]:
        extra = {"group": [20]} if kind is gpuens.GradientBoostingRanker else {}
        with pytest.raises(ValueError, match=f"{parameter} must be .*Did you mean '{here}'\\?"):
            kind(**{parameter: value}).fit(X, y > 9 if "Class" in kind.__name__ else y, **extra)


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_signatures_are_those_of_init(kind):
    assert set(inspect.signature(kind).parameters) >= OWN[kind.__name__]
    assert "self" not in inspect.signature(kind).parameters


class Further(GradientBoostingRegressor):
    def __init__(self, further=1, **parameters):
        super().__init__(**parameters)
        self.further = further


def test_subclasses_and_copies():
    model = Further(further=3, max_depth=2)
    assert (model.further, model.max_depth) == (3, 2)
    with pytest.raises(TypeError, match="'eta'"):
        Further(eta=1)
    plain = GradientBoostingRegressor("poisson", max_depth=3)
    for other in (clone(plain), copy.deepcopy(plain), pickle.loads(pickle.dumps(plain))):
        assert other.get_params() == plain.get_params()


def test_the_page_has_the_table():
    page = Path(__file__).parents[2] / "docs/guide/other_names.md"
    text = page.read_text(encoding="utf-8")
    missing = "run `python -m tests.support.names_table` and put its tables into the page"
    assert names_table.parameters() in text, missing
    assert names_table.values() in text, missing


def test_modules_of_the_table_exist():
    for row in EQUIVALENTS:
        for word in row.note.replace("(", " ").split():
            if word.startswith("gpuens."):
                module, _, name = word.rpartition(".")
                assert hasattr(importlib.import_module(module), name.rstrip(",;"))
