"""Checks of what estimators in a model file have learned: types, and parts that must match."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from ..boosting.round_data import DropoutState
from ..conformal.classifier import SCORES
from ..exchange.rules import Finish, Reading
from ..forest.forest import Forest
from ..forest.oblique import ObliqueForest
from ..forests.hazards import LeafHazards
from ..forests.isolation_trees import IsolationScores
from ..forests.quantile import TargetsInLeaves
from ..inputs.binning import Binner
from ..inputs.categories import Categories
from ..inputs.category_bins import CategoryBinner
from ..losses.base import Loss
from ..numerics.sampling import SamplingPlan
from ..trees.trees import SingleTree
from .records import require

DEVICE = re.compile("auto|cpu|array|cuda(:[0-9]{1,4})?")

Check = Callable[[Any], bool]


def _is(*kinds: type) -> Check:
    return lambda value: isinstance(value, kinds) and not (bool not in kinds and value is True)


def _number(low: int) -> Check:
    return lambda value: type(value) is int and value >= low


def _list_of(check: Check) -> Check:
    return lambda value: type(value) is list and len(value) > 0 and all(map(check, value))


def _floats(*n_dimensions: int) -> Check:
    def check(value: Any) -> bool:
        is_array = isinstance(value, np.ndarray) and value.dtype == np.float64
        return is_array and value.ndim in n_dimensions

    return check


def _are_classes(value: Any) -> bool:
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.size == 0:
        return False
    plain = value.dtype.kind in "biufU" or all(
        isinstance(label, (str, bool, int, float)) for label in value.tolist()
    )
    return plain and len(set(value.tolist())) == value.size


def _are_columns(value: Any) -> bool:
    is_array = isinstance(value, np.ndarray) and value.dtype.kind in "iu"
    return is_array and value.ndim == 1 and value.size > 0 and value.min() >= 0


def _is_flags(value: Any) -> bool:
    is_array = isinstance(value, np.ndarray) and value.dtype == np.uint8
    return is_array and value.ndim == 2 and value.size > 0 and value.max() <= 1


def _either(*checks: Check) -> Check:
    return lambda value: any(check(value) for check in checks)


_predicts: Check = lambda value: callable(getattr(value, "predict", None))  # noqa: E731
_positive, _natural = _number(1), _number(0)

LEARNED: dict[str, Check] = {
    "_base_score": _floats(1),
    "_binner": _is(Binner, CategoryBinner),
    "_category_smoothing": _floats(1),
    "_categories": _is(Categories, type(None)),
    "_dropout": _is(DropoutState),
    "_fitted_loss": _is(Loss),
    "_hazards": _is(LeafHazards),
    "_max_samples": _positive,
    "_member_names": _list_of(_is(str)),
    "_outside": _is_flags,
    "_n_columns": _list_of(_positive),
    "_n_draws": _natural,
    "_n_rows": _positive,
    "_n_targets": _natural,
    "_plans": _list_of(_is(SamplingPlan)),
    "_scores": _is(IsolationScores),
    "_seed": _natural,
    "_targets": _is(TargetsInLeaves),
    "_trees": _is(Forest),
    "baseline_cumulative_hazard_": _floats(1),
    "classes_": _either(_are_classes, _list_of(_are_classes)),
    "coef_": _floats(1, 2),
    "conformity_score_": lambda value: isinstance(value, str) and value in SCORES,
    "do_early_stopping_": _is(bool),
    "estimator_": _is(BaseEstimator),
    "estimator_errors_": _floats(1),
    "estimator_weights_": _floats(1),
    "estimators_": _list_of(_predicts),
    "estimators_features_": _list_of(_are_columns),
    "evals_result_": _is(dict),
    "feature_combinations_": lambda value: type(value) is float and 1.0 <= value < math.inf,
    "final_estimator_": _predicts,
    "fold_estimators_": _list_of(_predicts),
    "forest_": _is(Forest),
    "init_": _predicts,
    "intercept_": _either(_is(float, np.floating), _floats(0, 1)),
    "learning_rates_": _floats(1),
    "max_features_": _positive,
    "max_samples_": _positive,
    "n_classes_": _either(_positive, _list_of(_positive)),
    "n_features_in_": _positive,
    "n_iter_": _natural,
    "n_outputs_": _positive,
    "n_calibration_": _positive,
    "offset_": _is(float, np.floating),
    "scores_": _list_of(_floats(1)),
    "stack_method_": _list_of(_is(str)),
    "stopped_": _is(str),
    "unique_times_": _floats(1),
    "weights_": _floats(1),
}
"""Checks of each attribute, whichever estimator has it. Results that nothing reads, as
out-of-bag scores, may be anything."""
NEEDED = {
    "AdaBoost": ("_trees", "forest_", "estimator_weights_"),
    "Bagging": ("estimators_", "estimators_features_"),
    "Conformal": ("estimator_", "scores_", "n_calibration_"),
    "ConformalClassifier": ("estimator_", "classes_", "conformity_score_", "_seed"),
    "DecisionTree": ("forest_", "n_outputs_"),
    "ExtraSurvivalTrees": ("forest_", "n_outputs_", "_hazards", "unique_times_"),
    "ExtraTree": ("forest_", "n_outputs_"),
    "GradientBoosting": ("forest_", "_fitted_loss"),
    "IsolationForest": ("_plans", "_scores", "max_samples_", "offset_"),
    "LogisticRegression": ("coef_", "intercept_"),
    "ObliqueRandomForest": ("forest_", "n_outputs_", "feature_combinations_"),
    "QuantileForest": ("forest_", "n_outputs_", "_targets"),
    "RidgeRegression": ("coef_", "intercept_"),
    "RandomForest": ("forest_", "n_outputs_"),
    "RandomSurvivalForest": ("forest_", "n_outputs_", "_hazards", "unique_times_"),
    "Stacking": ("estimators_", "_member_names", "final_estimator_", "stack_method_"),
    "Stagewise": (
        "estimators_",
        "estimator_weights_",
        "learning_rates_",
        "_base_score",
        "_fitted_loss",
    ),
    "Voting": ("estimators_", "_member_names", "weights_"),
}
"""For classes whose name begins so: where the first of the attributes is, all must be."""
PER_MEMBER = (
    "estimator_weights_", "estimators_features_", "weights_", "_plans", "stack_method_",
    "_member_names",
)  # fmt: skip
"""Attributes with an entry for each of ``estimators_``."""


def check_learned(model: Any) -> None:
    """Check a decoded estimator of this package. Raises a ModelFileError naming the attribute."""
    learned = {name: value for name, value in vars(model).items() if name in LEARNED}
    for name, value in learned.items():
        require(LEARNED[name](value), f"{name} is {value!r:.60}")
    device = getattr(model, "device", "auto")
    require(isinstance(device, str) and DEVICE.fullmatch(device), f"device is {device!r:.60}")
    _check_complete(model, learned)
    _check_forests(learned)
    _check_dropout(learned)
    _check_imported(model)
    _check_classes(model, learned)
    _check_members(learned)
    _check_coefficients(model, learned)
    if "n_calibration_" in learned:
        _check_errors(model, learned)
    times = learned.get("unique_times_", np.empty(0))
    require((np.diff(times) > 0).all(), "unique_times_ do not ascend")
    baseline = learned.get("baseline_cumulative_hazard_", times)
    require(baseline.size == times.size, f"unique_times_ has {times.size} entries")


def _check_complete(model: Any, learned: dict[str, Any]) -> None:
    """Check that nothing that predictions need is missing."""
    for prefix, (first, *others) in NEEDED.items():
        if type(model).__name__.startswith(prefix) and first in learned:
            missing = sorted(set(others) - set(learned))
            require(not missing, f"{', '.join(missing)} is missing")


def _check_forests(learned: dict[str, Any]) -> None:
    n_features = learned.get("n_features_in_")
    forests = [value for value in learned.values() if isinstance(value, Forest)]
    forests += [v.forest for v in learned.values() if isinstance(v, IsolationScores)]
    categories = learned.get("_categories")
    if "feature_combinations_" in learned:
        require(isinstance(learned.get("forest_"), ObliqueForest), "its trees are not oblique")
    for forest in forests:
        require(forest.n_features == n_features, "n_features_in_ is not that of its trees")
        if categories is not None:
            same = np.array_equal(categories.n_categories, forest.categories_of_features)
            require(same, "_categories are not those of its trees")
    own: Any = learned.get("forest_")
    loss = learned.get("_fitted_loss")
    if loss is not None:
        n = own.n_outputs if own is not None else learned.get("_base_score", np.empty(0)).size
        require(loss.n_outputs == n, f"its loss has {loss.n_outputs} outputs, its trees have {n}")
    for value in learned.values():
        if isinstance(value, LeafHazards):
            require(own is not None, "it has hazards in leaves, but no trees")
            require(np.array_equal(value.offset, own.offset), "offset differs from its trees'")
        if isinstance(value, TargetsInLeaves):
            require(own is not None, "it has targets in leaves, but no trees")
            require(np.array_equal(value.offset, own.offset), "offset differs from its trees'")
            is_leaf = own.feature < 0
            filled = value.segment[is_leaf, 1] > value.segment[is_leaf, 0]
            require(filled.all(), "segment leaves a leaf without targets")


def _check_dropout(learned: dict[str, Any]) -> None:
    """Check that what dropout knows is about the trees of the model."""
    state = learned.get("_dropout")
    if state is None:
        return
    forest: Any = learned.get("forest_")
    require(forest is not None, "it has dropout, but no trees")
    n = forest.n_outputs
    require(state.quantum.size == n, f"quantum has {state.quantum.size} entries")
    require((state.first + state.rate.size) * n == forest.n_trees, "rate is not of its trees")
    begin = state.undo[:, 1] * n
    n_values = (forest.offset[begin + n] - forest.offset[begin]).sum()
    require(state.undo_value.size == n_values, "undo_value is not of its trees")


def _check_imported(model: Any) -> None:
    """Check how an imported model reads its features and combines its trees."""
    learned = vars(model)
    for value in learned.values():
        if isinstance(value, Finish):
            require("forest_" in learned, "it has rounds, but no trees")
            n_trees = learned["forest_"].n_trees
            require(value.rounds[-1] == n_trees, "rounds do not end with the last tree")
        if isinstance(value, Reading):
            inside = value.zero_missing < learned.get("n_features_in_", 0)
            require(inside.all(), "zero_missing has columns beyond X")


def _check_classes(model: Any, learned: dict[str, Any]) -> None:
    """Check that the number of classes is the same everywhere."""
    classes = learned.get("classes_")
    has_trees = "forest_" in learned or "estimators_" in learned
    require(classes is not None or not (is_classifier(model) and has_trees), "classes_ is missing")
    if classes is None:
        return
    several = isinstance(classes, list)
    sizes = [labels.size for labels in classes] if several else [classes.size]
    stated = learned.get("n_classes_", sizes if several else sizes[0])
    require(stated == (sizes if several else sizes[0]), "n_classes_ does not fit classes_")
    require(learned.get("n_outputs_", len(sizes)) == len(sizes), "n_outputs_ does not fit classes_")
    require("_fitted_loss" not in learned or sizes[0] > 1, "classes_ has a single class")
    for name in ("forest_", "_trees"):
        forest = learned.get(name)
        if forest is not None:
            fits = forest.n_outputs == sum(sizes) or sizes == [2] * forest.n_outputs
            require(fits, f"{name} has {forest.n_outputs} outputs for {sizes} classes")
    known = getattr(learned.get("final_estimator_"), "classes_", None)
    if not several and isinstance(known, np.ndarray):
        inside = known.dtype.kind in "iu" and 0 <= known.min() and known.max() < sizes[0]
        require(inside, f"final_estimator_ knows the classes {known.tolist()!r:.60}")


def _check_members(learned: dict[str, Any]) -> None:
    """Check that each member has its weight and its features."""
    members = learned.get("estimators_")
    if "_trees" in learned:
        n_trees, n_weights = learned["_trees"].n_trees, learned["estimator_weights_"].size
        require(n_trees == n_weights, f"{n_weights} weights for {n_trees} trees")
    if members is None:
        return
    for name in PER_MEMBER:
        n = len(learned[name]) if name in learned else len(members)
        require(n == len(members), f"{name} has {n} entries for {len(members)} members")
    if "learning_rates_" in learned:  # those of stagewise models
        n_rounds, n_outputs = learned["learning_rates_"].size, learned["_base_score"].size
        n_members = n_rounds * n_outputs
        require(len(members) == n_members, f"{n_rounds} rounds have {len(members)} learners")
        require(learned.get("n_iter_") == n_rounds, "n_iter_ does not fit learning_rates_")
    n_features = learned.get("n_features_in_")
    columns = learned.get("estimators_features_")
    trees = [m.forest_ for m in members if isinstance(m, SingleTree) and hasattr(m, "forest_")]
    if columns is not None and len(trees) == len(members):
        same = all(np.array_equal(tree.base, trees[0].base) for tree in trees)
        require(same, "estimators_ are trees with different bases")
    for k, member in enumerate(members):
        of_member = getattr(member, "n_features_in_", n_features)
        expected = n_features if columns is None else columns[k].size
        require(of_member == expected, f"estimators_[{k}] has {of_member!r:.20} features")
        for prefix, (first, *_) in NEEDED.items():
            unfitted = type(member).__name__.startswith(prefix) and first not in vars(member)
            require(not unfitted, f"estimators_[{k}] has no {first}")
        if columns is not None:
            inside = columns[k].max() < (n_features or 0)
            require(inside, f"estimators_features_[{k}] has columns beyond X")


def _check_coefficients(model: Any, learned: dict[str, Any]) -> None:
    """Check that a linear model has a coefficient for each feature that it reads."""
    if "coef_" not in learned:
        return
    coef, log_odds = learned["coef_"], getattr(model, "log_odds", None)
    n_read = learned.get("n_features_in_", 0) + (0 if log_odds is None else np.size(log_odds))
    require(coef.shape[-1] == n_read, f"coef_ has the shape {coef.shape} for {n_read} features")
    n_outputs = np.size(learned["intercept_"])
    require(
        coef.size == n_outputs * n_read, f"coef_ has the shape {coef.shape} for {n_outputs} outputs"
    )
    if is_classifier(model):
        n_classes = np.size(learned.get("classes_", ()))
        fits = n_outputs == (1 if n_classes == 2 else n_classes)
        require(fits, f"coef_ has the shape {coef.shape} for {n_classes} classes")


def _check_errors(model: Any, learned: dict[str, Any]) -> None:
    """Check what the intervals or sets of a conformal model are made of."""
    errors, method = learned["scores_"], model.method
    n = sum(of_fold.size for of_fold in errors)
    require(n == learned["n_calibration_"], f"scores_ has {n} entries")
    ascend = all(bool((np.diff(of_fold) >= 0).all()) for of_fold in errors)
    require(ascend, "scores_ do not ascend")
    if method == "cv+":
        n_folds = len(learned.get("fold_estimators_", ()))
        require(n_folds == len(errors), f"{n_folds} models of folds for {len(errors)} scores_")
        return
    require(len(errors) == 1, f"scores_ has {len(errors)} folds")
    if method == "bag":
        outside = learned.get("_outside", np.empty((0, 0)))
        members = getattr(learned["estimator_"], "estimators_", ())
        require(outside.shape == (n, len(members)), f"_outside has the shape {outside.shape}")
        require(bool(outside.any(axis=1).all()), "_outside has rows without a member")
