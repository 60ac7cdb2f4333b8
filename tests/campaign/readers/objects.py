"""Estimators of scikit-learn whose attributes are damaged, as those of other versions may be."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn import ensemble, tree
from sklearn.exceptions import NotFittedError

import gpuens
from tests.exchange.mutations import SPECIAL

from ..attack import Attack, FoundError, unnamed
from .exchange import use
from .fuzzing import refused

TREE = ("node_count", "n_outputs", "max_n_classes", "n_features", "value", "impurity", "threshold",
        "weighted_n_node_samples", "n_node_samples", "children_left", "children_right", "feature",
        "missing_go_to_left", "max_depth")  # fmt: skip
ODD = (*SPECIAL, np.empty(0), np.arange(3), np.array(["a", "b"]), np.full((2, 2), np.nan))
FEW = {"n_estimators": 3, "max_depth": 2, "random_state": 0}


def estimators() -> list[Any]:
    """Return fitted estimators of every kind that is imported."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 3
    X[:, 2] = np.arange(40) % 4
    histograms = {"max_iter": 2, "max_leaf_nodes": 4, "categorical_features": [2]}
    made = [
        tree.DecisionTreeClassifier(max_depth=3),
        tree.DecisionTreeRegressor(max_depth=3),
        ensemble.RandomForestClassifier(**FEW),
        ensemble.ExtraTreesRegressor(**FEW),
        ensemble.GradientBoostingClassifier(**FEW),
        ensemble.GradientBoostingRegressor(**FEW),
        ensemble.HistGradientBoostingClassifier(**histograms),
        ensemble.HistGradientBoostingRegressor(**histograms),
    ]
    return [model.fit(X, y) for model in made]


def odd(value: Any, rng: np.random.Generator) -> Any:
    """Return another value in the place of one: of another shape, type or content."""
    if not isinstance(value, np.ndarray) or rng.random() < 0.2:
        return ODD[int(rng.integers(len(ODD)))]
    changed = value.copy()
    match rng.integers(4):
        case 0:
            return changed[: rng.integers(len(changed) + 1)] if changed.ndim else changed
        case 1:
            return changed.reshape(-1, 1)
        case _ if changed.dtype.names and changed.size:
            name = changed.dtype.names[rng.integers(len(changed.dtype.names))]
            return _with_a_number(changed, changed[name], rng)
        case _ if changed.size and changed.dtype.kind in "biuf":
            return _with_a_number(changed, changed, rng)
    return changed


def _with_a_number(whole: Any, part: np.ndarray, rng: np.random.Generator) -> Any:
    number = np.float64(rng.choice([0, 1, -1, -2, 7, 2**31 - 1, 2**53, np.nan, np.inf, 0.5]))
    with np.errstate(all="ignore"):
        part.flat[rng.integers(part.size)] = number.astype(part.dtype)
    return whole


def damaged(model: Any, rng: np.random.Generator) -> tuple[Any, str]:
    """Return a copy with one attribute, or one of its trees', that is odd or missing."""
    model = copy.deepcopy(model)
    holder, owner = model, "estimator"
    if hasattr(model, "_predictors") and rng.random() < 0.6:
        of_round = model._predictors[rng.integers(len(model._predictors))]
        holder, owner = of_round[rng.integers(len(of_round))], "predictor"
    elif not hasattr(model, "_predictors") and rng.random() < 0.7:
        members = getattr(model, "estimators_", None)
        member = model if members is None else np.ravel(np.array(members, object))[0]
        member.tree_ = SimpleNamespace(**{name: getattr(member.tree_, name) for name in TREE})
        holder, owner = member.tree_, "tree_"
    names = [name for name in vars(holder) if owner != "estimator" or name.endswith("_")]
    name = names[int(rng.integers(len(names)))]
    if rng.random() < 0.1:
        delattr(holder, name)
        return model, f"without {owner}.{name}"
    value = odd(getattr(holder, name), rng)
    setattr(holder, name, value)
    return model, f"{owner}.{name} = {value!r:.100}"


class SklearnObjects(Attack):
    """``from_sklearn`` of damaged estimators."""

    def __init__(self, seed: int, folder: Path, known: set[str]) -> None:
        super().__init__(seed, folder, known)
        self.models = estimators()

    def trial(self, number: int) -> None:
        rng = np.random.default_rng([self.seed, number])
        model, words = damaged(self.models[number % len(self.models)], rng)
        words = f"{type(model).__name__}, {words}"
        try:
            try:
                imported = gpuens.from_sklearn(model)
            except NotFittedError:
                return
            except Exception as error:
                refused(error, gpuens.ImportedModelError)
                return
            use(imported)
        except FoundError as found:
            raise FoundError(found.kind, found.text, found.place, words) from found
        except Exception as error:
            raise unnamed(error, "predict", words) from error
