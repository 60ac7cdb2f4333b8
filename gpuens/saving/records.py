"""Classes that a model file may hold besides numbers, texts, containers and estimators.

Each has a check of its fields before they are used: files may be damaged, or made to do harm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..boosting.round_data import DropoutState
from ..exchange.matching import KnownCategories
from ..exchange.rules import AVERAGES, LINKS, Finish, Reading
from ..forest.forest import NODE_ARRAYS, Forest
from ..forest.linear import LinearForest
from ..forest.oblique import ObliqueForest
from ..forests.hazards import LeafHazards
from ..forests.isolation_trees import IsolationScores
from ..forests.quantile import TargetsInLeaves
from ..inputs.binning import Binner
from ..inputs.categories import Categories
from ..inputs.category_bins import CategoryBinner
from ..kernels.runtime.dtypes import MAX_BINS
from ..losses import classes as loss_classes
from ..losses import distributions as loss_distributions
from ..losses import gains
from ..losses import ranking as loss_ranking
from ..losses import regression as loss_regression
from ..losses import survival as loss_survival
from ..losses.base import Loss
from ..numerics.sampling import SamplingPlan
from .file import ModelFileError

MOST_COLUMNS = 2**31 - 1


def require(condition: Any, text: str) -> None:
    """Refuse a file unless a condition holds. Raises a ModelFileError."""
    if not condition:
        raise ModelFileError(text)


def require_array(value: Any, dtype: Any, n_dimensions: int, name: str) -> np.ndarray:
    """Return the value, if it is an array of a type and number of dimensions."""
    if not isinstance(value, np.ndarray) or value.dtype != np.dtype(dtype):
        raise ModelFileError(f"{name} is not an array of {np.dtype(dtype)}")
    require(value.ndim == n_dimensions, f"{name} has {value.ndim} dimensions")
    return value


def require_int(value: Any, low: int, high: int, name: str) -> int:
    """Return the value, if it is an int within bounds."""
    require(type(value) is int and low <= value <= high, f"{name} is {value!r:.40}")
    return int(value)


def _check_forest(fields: dict[str, Any]) -> None:
    n_features = require_int(fields["n_features"], 1, MOST_COLUMNS, "n_features")
    _check_trees(fields, n_features)


def _check_trees(fields: dict[str, Any], n_columns: int) -> None:
    """Check trees whose splits are of so many columns."""
    for name, dtype in (NODE_ARRAYS | {"base": "f8", "output": "i4", "categories": "u4"}).items():
        require_array(fields[name], dtype, 2 if name == "value" else 1, name)
    offset = require_array(fields["offset"], np.int64, 1, "offset")
    n_categories = require_array(fields["n_categories"], np.int32, 1, "n_categories")
    n_nodes, n_trees = fields["feature"].size, fields["output"].size
    for name in NODE_ARRAYS:
        n = len(fields[name])
        require(n == n_nodes or (name == "impurity" and n == 0), f"{name} has {n} entries")
    require(offset.size == n_trees + 1, f"offset has {offset.size} entries")
    require(offset[0] == 0 and offset[-1] == n_nodes, "offset does not cover the nodes")
    require((np.diff(offset) > 0).all(), "offset does not ascend")
    require(n_categories.size == n_columns, f"n_categories has {n_categories.size} entries")
    require((n_categories >= 0).all(), "n_categories has negative entries")
    width = fields["value"].shape[1]
    require(width >= 1, "value has no columns")
    output = fields["output"].astype(np.int64)
    n_outputs = fields["base"].size
    require(n_outputs >= 1, "base is empty")
    inside = (output >= 0) & (output + width <= n_outputs)
    require(inside.all(), "output has columns that do not exist")
    if n_nodes:
        _check_nodes(fields, offset, n_columns)


def _check_linear_forest(fields: dict[str, Any]) -> None:
    _check_forest(fields)
    require(fields["value"].shape[1] == 1, "value has several columns")
    begin = require_array(fields["linear_begin"], np.int64, 1, "linear_begin")
    feature = require_array(fields["linear_feature"], np.int32, 1, "linear_feature")
    coefficient = require_array(fields["coefficient"], np.float64, 1, "coefficient")
    intercept = require_array(fields["intercept"], np.float64, 1, "intercept")
    n_nodes = fields["feature"].size
    require(begin.size == n_nodes + 1, f"linear_begin has {begin.size} entries")
    require(begin[0] == 0 and (np.diff(begin) >= 0).all(), "linear_begin does not ascend")
    require(begin[-1] == feature.size, "linear_begin does not cover the coefficients")
    require(feature.size == coefficient.size, "coefficient and linear_feature differ in length")
    inside = (feature >= 0) & (feature < fields["n_features"])
    require(inside.all(), "linear_feature has columns beyond X")
    require(intercept.size == n_nodes, f"intercept has {intercept.size} entries")
    for name, values in (("coefficient", coefficient), ("intercept", intercept)):
        require(np.isfinite(values).all(), f"{name} is not finite")


def _check_oblique_forest(fields: dict[str, Any]) -> None:
    n_features = require_int(fields["n_features"], 1, MOST_COLUMNS, "n_features")
    begin = require_array(fields["begin"], np.int64, 1, "begin")
    member = require_array(fields["member"], np.int32, 1, "member")
    weight = require_array(fields["weight"], np.float64, 1, "weight")
    require(begin.size > 1 and begin[0] == 0, "begin does not begin with 0")
    require((np.diff(begin) > 0).all(), "begin does not ascend")
    require(begin[-1] == member.size == weight.size, "begin does not cover its entries")
    require(((member >= 0) & (member < n_features)).all(), "member has columns beyond X")
    starts = np.isin(np.arange(1, member.size), begin)
    require(((np.diff(member) > 0) | starts).all(), "member does not ascend")
    require((abs(np.frexp(weight)[0]) == 0.5).all(), "weight is not a power of two")
    _check_trees(fields, begin.size - 1)
    by_category = fields["n_categories"] > 0
    require((np.diff(begin)[by_category] == 1).all(), "a sum of features has categories")
    require((weight[begin[:-1]][by_category] == 1).all(), "weight changes categories")


def _check_nodes(fields: dict[str, Any], offset: np.ndarray, n_columns: int) -> None:
    feature, left, right = fields["feature"], fields["left"], fields["right"]
    size = np.diff(offset)
    number = np.arange(feature.size) - np.repeat(offset[:-1], size)
    is_split = feature >= 0
    require((feature >= -1).all() and (feature < n_columns).all(), "feature has columns beyond X")
    is_leaf = ~is_split
    require((left[is_leaf] == -1).all() and (right[is_leaf] == -1).all(), "a leaf has children")
    first = left[is_split].astype(np.int64)
    require((first > number[is_split]).all(), "left has a child that comes before its parent")
    require((first + 1 < np.repeat(size, size)[is_split]).all(), "left has a child beyond its tree")
    require((right[is_split] == first + 1).all(), "right is not left + 1")
    require(
        np.unique(first + offset_of(offset, is_split)).size == first.size, "left repeats a child"
    )
    require(not np.isnan(fields["threshold"]).any(), "threshold has NaN")
    require((fields["missing_left"] <= 1).all(), "missing_left is neither 0 nor 1")
    require(np.isfinite(fields["value"]).all(), "value is not finite")
    begin = fields["category_begin"].astype(np.int64)
    by_category = begin >= 0
    require((begin >= -1).all() and (is_split | ~by_category).all(), "category_begin at a leaf")
    n_words = (fields["n_categories"][feature[by_category]].astype(np.int64) + 31) // 32
    require((n_words > 0).all(), "category_begin at a numeric feature")
    end = begin[by_category] + n_words
    require((end <= fields["categories"].size).all(), "category_begin points beyond categories")


def offset_of(offset: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return where the tree of each chosen node begins."""
    return np.repeat(offset[:-1], np.diff(offset))[chosen]


def _check_binner(fields: dict[str, Any]) -> None:
    thresholds = fields["thresholds"]
    require(isinstance(thresholds, tuple), "thresholds is not a tuple")
    for f, cuts in enumerate(thresholds):
        require_array(cuts, np.float64, 1, f"thresholds[{f}]")
        require(cuts.size < MAX_BINS, f"thresholds[{f}] has {cuts.size} entries")
        require(not np.isnan(cuts).any(), f"thresholds[{f}] has NaN")
        require((np.diff(cuts[np.isfinite(cuts)]) > 0).all(), f"thresholds[{f}] does not ascend")


def _check_category_binner(fields: dict[str, Any]) -> None:
    _check_binner(fields)
    bins = fields["bins"]
    require(isinstance(bins, tuple), "bins is not a tuple")
    require(len(bins) == len(fields["thresholds"]), f"bins has {len(bins)} entries")
    for f, of_feature in enumerate(bins):
        if of_feature is not None:
            require_array(of_feature, np.uint8, 1, f"bins[{f}]")
            require(of_feature.size > 0, f"bins[{f}] is empty")
            require(int(of_feature.max()) < MAX_BINS, f"bins[{f}] has bins beyond the last")


def _check_categories(fields: dict[str, Any]) -> None:
    values = fields["values"]
    require(isinstance(values, tuple), "values is not a tuple")
    for f, known in enumerate(values):
        if known is not None:
            require(
                isinstance(known, np.ndarray) and known.ndim == 1, f"values[{f}] is not an array"
            )
            texts = known.dtype == object and all(type(v) is str for v in known.tolist())
            require(texts or known.dtype.kind in "biuf", f"values[{f}] are not categories")
            require((known[1:] > known[:-1]).all(), f"values[{f}] do not ascend")


def _check_plan(fields: dict[str, Any]) -> None:
    for name in ("n_rows", "n_features"):
        require_int(fields[name], 1, 2**48, name)
    for name in ("n_draws", "n_feature_draws"):
        require_int(fields[name], 1, 2**48, name)
    require_int(fields["seed"], 0, 2**64 - 1, "seed")
    for name in ("replace", "replace_features"):
        require(isinstance(fields[name], bool), f"{name} is not a bool")
    if fields["weight"] is not None:
        weight = require_array(fields["weight"], np.float64, 1, "weight")
        require(weight.size == fields["n_rows"], f"weight has {weight.size} entries")
        require((weight >= 0).all() and np.isfinite(weight).all(), "weight is negative or infinite")


def _check_isolation_scores(fields: dict[str, Any]) -> None:
    require(isinstance(fields["forest"], Forest), "forest is not a Forest")
    require_int(fields["n_draws"], 1, 2**48, "n_draws")


def _check_targets(fields: dict[str, Any]) -> None:
    values = require_array(fields["values"], np.float64, 1, "values")
    offset = require_array(fields["offset"], np.int64, 1, "offset")
    begin = require_array(fields["begin"], np.int64, 1, "begin")
    segment = require_array(fields["segment"], np.int32, 2, "segment").astype(np.int64)
    entries = require_array(fields["entries"], np.int64, 1, "entries")
    require(offset.size == begin.size >= 1, "begin and offset differ in length")
    for name, bounds, n in (("offset", offset, len(segment)), ("begin", begin, entries.size)):
        require(bounds[0] == 0 and bounds[-1] == n, f"{name} does not cover its entries")
        require((np.diff(bounds) >= 0).all(), f"{name} does not ascend")
    require(segment.shape[1] == 2, "segment has not two columns")
    in_tree = np.repeat(np.diff(begin), np.diff(offset))
    require((0 <= segment[:, 0]).all(), "segment begins before its tree")
    require((segment[:, 0] <= segment[:, 1]).all(), "segment ends before it begins")
    require((segment[:, 1] <= in_tree).all(), "segment points beyond its tree")
    rank = entries >> 32
    require(((rank >= 0) & (rank < values.size)).all(), "entries have ranks that do not exist")


def _check_hazards(fields: dict[str, Any]) -> None:
    offset = require_array(fields["offset"], np.int64, 1, "offset")
    begin = require_array(fields["begin"], np.int64, 1, "begin")
    time = require_array(fields["time"], np.float64, 1, "time")
    increase = require_array(fields["increase"], np.float64, 1, "increase")
    require(time.size == increase.size, "time and increase differ in length")
    for name, bounds, n in (("offset", offset, begin.size - 1), ("begin", begin, time.size)):
        require(bounds.size > 0 and bounds[0] == 0, f"{name} does not begin with 0")
        require(bounds[-1] == n and (np.diff(bounds) >= 0).all(), f"{name} does not ascend to {n}")
    require((increase > 0).all() and np.isfinite(increase).all(), "increase is not positive")
    require((time >= 0).all() and np.isfinite(time).all(), "time is negative or infinite")


def _check_dropout(fields: dict[str, Any]) -> None:
    first = require_int(fields["first"], 0, MOST_COLUMNS, "first")
    quantum = require_array(fields["quantum"], np.float64, 1, "quantum")
    require(np.isin(np.frexp(quantum)[0], (0.0, 0.5)).all(), "quantum is not a power of two")
    rate = require_array(fields["rate"], np.float64, 1, "rate")
    undo_rate = require_array(fields["undo_rate"], np.float64, 1, "undo_rate")
    for name, values in (("rate", rate), ("undo_rate", undo_rate)):
        require((values > 0).all() and np.isfinite(values).all(), f"{name} is not positive")
    undo = require_array(fields["undo"], np.int64, 2, "undo")
    require(undo.shape == (undo_rate.size, 2), "undo and undo_rate differ in length")
    by, changed = undo.T
    require((np.diff(by) >= 0).all(), "undo does not ascend")
    inside = (first <= changed) & (changed < by) & (by < first + rate.size)
    require(inside.all(), "undo has rounds that do not exist")
    value = require_array(fields["undo_value"], np.float64, 1, "undo_value")
    require(np.isfinite(value).all(), "undo_value is not finite")


def _check_reading(fields: dict[str, Any]) -> None:
    for name in ("single", "below_zero"):
        require(isinstance(fields[name], bool), f"{name} is not a bool")
    require(isinstance(fields["missing"], float), "missing is not a float")
    zero_missing = require_array(fields["zero_missing"], np.int64, 1, "zero_missing")
    require((zero_missing >= 0).all(), "zero_missing has negative entries")


def _check_finish(fields: dict[str, Any]) -> None:
    for name in ("single", "base_last"):
        require(isinstance(fields[name], bool), f"{name} is not a bool")
    for name in ("scale", "slope"):
        require(isinstance(fields[name], float), f"{name} is not a float")
    require(fields["averages"] in AVERAGES, f"averages is {fields['averages']!r:.40}")
    require(fields["link"] in LINKS, f"link is {fields['link']!r:.40}")
    rounds = require_array(fields["rounds"], np.int64, 1, "rounds")
    require(rounds.size >= 1 and rounds[0] == 0, "rounds does not begin with 0")
    require((np.diff(rounds) >= 0).all(), "rounds does not ascend")


def _check_known_categories(fields: dict[str, Any]) -> None:
    values, codes = fields["values"], fields["codes"]
    require(isinstance(values, tuple) and isinstance(codes, tuple), "values is not a tuple")
    features = require_array(fields["features"], np.int64, 1, "features")
    require(len(values) == len(codes) == features.size, "values, codes and features differ")
    _check_categories({"values": values})
    for k, of_values in enumerate(codes):
        require(values[k] is not None, f"values[{k}] is not an array")
        require_array(of_values, np.int64, 1, f"codes[{k}]")
        require(of_values.size == values[k].size, f"codes[{k}] has {of_values.size} entries")
    unknown = fields["unknown"]
    require(unknown is None or isinstance(unknown, float), "unknown is not a float")
    require(isinstance(fields["of_numbers"], bool), "of_numbers is not a bool")


CHECKS: dict[type, Callable[[dict[str, Any]], None]] = {
    Binner: _check_binner,
    CategoryBinner: _check_category_binner,
    Categories: _check_categories,
    DropoutState: _check_dropout,
    Finish: _check_finish,
    Forest: _check_forest,
    IsolationScores: _check_isolation_scores,
    KnownCategories: _check_known_categories,
    LinearForest: _check_linear_forest,
    LeafHazards: _check_hazards,
    ObliqueForest: _check_oblique_forest,
    Reading: _check_reading,
    SamplingPlan: _check_plan,
    TargetsInLeaves: _check_targets,
}
"""The dataclasses whose instances files hold, and what checks the values of their fields."""
RECORDS = {kind.__name__: kind for kind in CHECKS}
FORMAT_OF_RECORD = {"LinearForest": 2, "ObliqueForest": 2}
"""The first format that has a record; all others are in the first."""


def fields_of_record(kind: Any) -> list[str]:
    """Return the names of the fields that a file has of a record."""
    return [field.name for field in fields(kind) if field.init]


INNER_ESTIMATORS = {
    "LogisticRegression": "combining.logistic",
    "RidgeRegression": "combining.linear",
}
"""Estimators that only other ones make, with their modules."""


def own_estimator(name: str) -> Any:
    """Return the class of this package of a name, None without one."""
    import gpuens

    if name in INNER_ESTIMATORS:
        return getattr(import_module(f"gpuens.{INNER_ESTIMATORS[name]}"), name)
    found = getattr(gpuens, name) if name in gpuens._HOME else None
    return found if isinstance(found, type) and issubclass(found, BaseEstimator) else None


LOSSES: dict[str, type[Loss]] = {
    name: value
    for module in (
        loss_classes,
        loss_distributions,
        loss_ranking,
        loss_regression,
        loss_survival,
    )  # fmt: skip
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, Loss) and value.__module__ == module.__name__
}
"""The losses of gradient boosting that consist of numbers; those made of functions are code."""
NAMES_IN_LOSSES = {
    "distribution": tuple(loss_survival.DISTRIBUTIONS),
    "label_gain": gains.NAMES,
    "ties": loss_survival.TIES,
}
"""The text that attributes of losses may be."""


def loss_of_file(name: Any, fields: dict[str, Any]) -> Loss:
    """Return a loss with the given attributes."""
    require(isinstance(name, str) and name in LOSSES, f"there is no loss {name!r:.60}")
    loss = object.__new__(LOSSES[name])
    for field, value in fields.items():
        known = field.isidentifier() and not field.startswith("__")
        require(known and not callable(getattr(loss, field, None)), f"{name} has no {field!r:.60}")
        is_list, names = isinstance(value, (list, tuple)), NAMES_IN_LOSSES.get(field, ())
        numbers = value if is_list else [value]
        plain = all(v is None or isinstance(v, (bool, int, float)) for v in numbers)
        named = isinstance(value, str) and value in names
        require(named or (plain and (is_list or not names)), f"{field} of {name} is not a number")
        object.__setattr__(loss, field, value)  # losses are frozen
    return loss
