"""Models of LightGBM, from its text.

Sources: LightGBM's ``Booster.save_model`` and ``Booster.dump_model``, and its predictions.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from .estimators import (
    ImportedClassifier,
    ImportedRegressor,
    Parts,
    imported,
    kind_of,
    refuse_classifier,
)
from .matching import KnownCategories
from .reading.assembly import (
    MOST_CATEGORIES,
    MOST_FEATURES,
    MOST_OUTPUTS,
    CategorySets,
    SourceTree,
    assemble,
    joined,
    joined_trees,
)
from .reading.fields import Field
from .reading.files import ImportedModelError, bytes_of
from .rules import TINY, Finish, Reading

IDENTITY = (
    "regression", "regression_l2", "l2", "mean_squared_error", "mse", "rmse", "regression_l1",
    "l1", "mae", "mean_absolute_error", "huber", "fair", "quantile", "mape", "lambdarank",
    "rank_xendcg",
)  # fmt: skip
EXPONENTIAL = ("poisson", "gamma", "tweedie")
LINKS = {
    **dict.fromkeys(IDENTITY, "identity"),
    **dict.fromkeys(EXPONENTIAL, "exp"),
    "binary": "logistic",
    "multiclass": "softmax",
    "multiclassova": "one_vs_all",
    "cross_entropy": "logistic",
    "cross_entropy_lambda": "softplus",
    "none": "identity",
}
VERSIONS = ("v2", "v3", "v4")
ENDS = ("\nend of trees", "\nfeature importances:")
"""Lines behind the last tree, in the second version of the text and in others."""
MOST_NODES = 2**31 - 1
IS_CATEGORY, DEFAULT_LEFT, NO_MISSING, ZERO_MISSING = 1, 2, 0, 1
NAMES = {"left": "left_child", "right": "right_child", "value": "leaf_value",
         "cover": "leaf_count and internal_count", "sets": "cat_threshold"}  # fmt: skip


def from_lightgbm(
    model: str | os.PathLike[str] | Any, num_iteration: int | None = None
) -> ImportedClassifier | ImportedRegressor:
    """Import a model of LightGBM, all boosting types included.

    Text is read without LightGBM. Raw scores are LightGBM's bit for bit.

    Parameters
    ----------
    model : path, str, Booster or LGBMModel
        A file as ``save_model`` writes, its text, or a model of LightGBM 2.1 or newer.
    num_iteration : int, default=None
        Rounds to import, the first ones. None: those in the text, for models that stopped early
        those up to the best one.

    Returns
    -------
    ImportedClassifier or ImportedRegressor
        By the kind of an ``LGBMModel``, otherwise by the objective. Models that rank, or of an
        objective of the user's own, are regressors.

    Raises
    ------
    ImportedModelError (a ValueError)
        The model is damaged, of a future version, or holds something that cannot be imported, such
        as linear leaves; the message names the field.
    TypeError, OSError
        ``model`` is something else, or its file cannot be read.

    References
    ----------
    Ke et al., "LightGBM: A Highly Efficient Gradient Boosting Decision Tree", NIPS 2017.
    """
    kind = kind_of(model)
    classes = getattr(model, "classes_", None) if hasattr(model, "booster_") else None
    model = model.booster_ if hasattr(model, "booster_") else model
    if hasattr(model, "model_to_string"):
        model = model.model_to_string()
    if isinstance(model, str) and model.lstrip()[:5] == "tree\n":
        model = model.encode()
    data = bytes_of(model, "model", "a path, the text of a model, a Booster or an LGBMModel")
    return imported(_read(data, num_iteration, classes, kind))


class _Lines:
    """Lines ``name=value`` of a part of the text."""

    def __init__(self, text: str, path: str) -> None:
        self.path = path
        pairs = (line.partition("=") for line in text.split("\n"))
        self.values = {name.strip(): value.strip(" ") for name, _, value in pairs if name.strip()}

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def field(self, name: str) -> Field:
        if name not in self.values:
            raise ImportedModelError(
                f"{self.path}{name} is missing: the text is cut short or not a model."
            )
        return Field(self.values[name], self.path + name)

    def numbers(self, name: str) -> Field:
        """Return the numbers between blanks, as a field."""
        field = self.field(name)
        try:
            values = np.array(field.value.split(), dtype=np.bytes_).astype(np.float64)
        except (ValueError, UnicodeEncodeError):
            raise field.fail("must be numbers") from None
        return Field(values, field.path)


def _read(data: bytes, num_iteration: int | None, classes: Any, kind: str | None) -> Parts:
    try:
        text = data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ImportedModelError(f"The model is not text: {error}.") from None
    if not text.lstrip().startswith("tree\n"):
        raise ImportedModelError(f"The model must begin with the line 'tree', got {text[:20]!r}.")
    ends = [at for mark in ENDS if (at := text.find(mark)) >= 0]
    if not ends:
        raise ImportedModelError("'end of trees' is missing: the text is cut short.")
    body, rest = text[: min(ends)], text[min(ends) :]
    blocks = body.split("\nTree=")
    head = _Lines(blocks[0], "")
    head.field("version").one_of(VERSIONS)
    n_features = head.field("max_feature_idx").integer(0, MOST_FEATURES - 1) + 1
    n_outputs = head.field("num_tree_per_iteration").integer(1, MOST_OUTPUTS)
    n_rounds = _n_rounds(len(blocks) - 1, n_outputs, num_iteration)
    zeros: list[np.ndarray] = []
    not_zeros: list[np.ndarray] = []
    trees = [
        _tree_of(_Lines(block, f"Tree={k}, "), n_features, zeros, not_zeros)
        for k, block in enumerate(blocks[1 : 1 + n_rounds * n_outputs])
    ]
    output = np.arange(len(trees)) % n_outputs
    one_table = joined_trees(trees, n_features, np.zeros(n_outputs), output, 1, NAMES)
    link, slope, objective = _link_of(head)
    rounds = np.arange(0, len(trees) + 1, n_outputs)
    averages = "predictions" if "average_output" in head else "nothing"
    return Parts(
        forest=assemble(one_table),
        reading=Reading(False, np.nan, _zero_missing(zeros, not_zeros), False),
        finish=Finish(False, False, 1.0, averages, rounds, link, slope),
        source={"library": "lightgbm", "version": head.values["version"], "objective": objective},
        names=_names_of(head, n_features),
        classes=_classes_of(objective, n_outputs, classes, kind),
        known=_known_of(rest),
    )


def _n_rounds(n_trees: int, n_outputs: int, wanted: int | None) -> int:
    if n_trees % n_outputs:
        raise ImportedModelError(
            f"Tree= must occur {n_outputs} times for every round (num_tree_per_iteration), got "
            f"{n_trees} trees."
        )
    n_rounds = n_trees // n_outputs
    if wanted is None or wanted <= 0:
        return n_rounds
    if wanted > n_rounds:
        raise ValueError(f"num_iteration must be at most {n_rounds}, got {wanted}.")
    return int(wanted)


def _names_of(head: _Lines, n_features: int) -> list[str] | None:
    """Return the names of the features, unless LightGBM made them up. Blanks divide them; all other
    white space may be part of one."""
    if "feature_names" not in head:
        return None
    names = head.values["feature_names"].split(" ")
    if len(names) != n_features:
        raise head.field("feature_names").fail(
            f"must have {n_features} entries (max_feature_idx + 1), got {len(names)}"
        )
    return None if names == [f"Column_{f}" for f in range(n_features)] else names


def _link_of(head: _Lines) -> tuple[str, float, str]:
    """Return the link, the slope of the logistic function, and the objective's name."""
    if "objective" not in head:
        return "identity", 1.0, "none"
    field = head.field("objective")
    name, *options = field.text().split() or [""]
    if name not in LINKS:
        Field(name, field.path).one_of(tuple(LINKS))
    slope = 1.0
    for option in options:
        key, _, value = option.partition(":")
        if key == "sigmoid" and name in ("binary", "multiclassova"):
            slope = Field(value, f"{field.path} sigmoid").number()
    link = "signed_square" if name in IDENTITY and "sqrt" in options else LINKS[name]
    return link, slope, name


def _classes_of(
    objective: str, n_outputs: int, classes: Any, kind: str | None
) -> np.ndarray | None:
    """Return the classes, None where predictions are those of the objective."""
    of_two = ("binary", "cross_entropy") if kind == "classifier" else ("binary",)
    if kind == "other":
        return None
    if objective in of_two and n_outputs == 1:
        return np.arange(2) if classes is None else np.array(classes)
    if objective in ("multiclass", "multiclassova"):
        return np.arange(max(2, n_outputs)) if classes is None else np.array(classes)
    if kind == "classifier" and objective != "none":
        raise refuse_classifier("LightGBM", objective, "its booster_")
    return None


def _tree_of(
    lines: _Lines, n_features: int, zeros: list[np.ndarray], not_zeros: list[np.ndarray]
) -> SourceTree:
    """Return the arrays of one tree: splits first, then leaves, which children name as
    ``-1 - leaf``. Appends the features whose zeros are missing in it, and are not."""
    n_leaves = lines.field("num_leaves").integer(1, MOST_NODES)
    if "is_linear" in lines and lines.field("is_linear").integer(0, 1):
        raise lines.field("is_linear").fail("is 1: linear leaves cannot be imported")
    n = n_leaves - 1
    leaves = lines.numbers("leaf_value").floats(n_leaves)  # before anything of that size
    n_samples, none = _counts(lines, n_leaves), np.full(n_leaves, -1)
    columns: dict[str, Any] = {
        "value": np.concatenate([np.zeros(n), leaves])[:, None],
        "n_samples": n_samples,
        "cover": n_samples.astype(np.float64),
        "sets": CategorySets(),
    }
    if n == 0:
        columns |= {"feature": none, "left": none, "right": none, "threshold": np.zeros(1)}
        columns |= {"gain": np.zeros(1), "missing_left": np.zeros(1, bool)}
        return SourceTree(**columns)
    feature = lines.numbers("split_feature").integers(0, n_features - 1, n)
    columns["feature"] = np.concatenate([feature, none])
    for side in ("left", "right"):
        child = lines.numbers(f"{side}_child").integers(-n_leaves, n - 1, n)
        columns[side] = np.concatenate([np.where(child < 0, n - 1 - child, child), none])
    gain = lines.numbers("split_gain").numbers(n) if "split_gain" in lines else np.zeros(n)
    columns["gain"] = np.concatenate([gain, np.zeros(n_leaves)])
    threshold = lines.numbers("threshold").numbers(n)
    kind = lines.numbers("decision_type").integers(0, 15, n)
    by_set, of_numbers = (kind & IS_CATEGORY) != 0, kind & IS_CATEGORY == 0
    columns |= _decisions(lines, threshold, kind, n_leaves)
    zeros.append(np.unique(feature[of_numbers & (kind >> 2 == ZERO_MISSING)]))
    not_zeros.append(np.unique(feature[of_numbers & (kind >> 2 > ZERO_MISSING)]))
    nodes = np.flatnonzero(by_set)
    if nodes.size:
        members = _sets_of(lines, threshold[nodes])
        columns["sets"] = CategorySets.of(nodes, members, np.ones(nodes.size, bool))
    return SourceTree(**columns)


def _counts(lines: _Lines, n_leaves: int) -> np.ndarray:
    """Return the training rows of splits and leaves; zeros where the text has none."""
    n = n_leaves - 1
    if "leaf_count" not in lines or (n and "internal_count" not in lines):
        return np.zeros(n + n_leaves, np.int64)
    if n == 0 and not lines.values["leaf_count"]:
        return np.zeros(1, np.int64)
    leaves = lines.numbers("leaf_count").integers(0, MOST_NODES, n_leaves)
    if n == 0:
        return leaves
    inner = lines.numbers("internal_count").integers(0, MOST_NODES, n)
    return np.concatenate([inner, leaves])


def _decisions(
    lines: _Lines, threshold: np.ndarray, kind: np.ndarray, n_leaves: int
) -> dict[str, np.ndarray]:
    """Return the thresholds, and the sides of missing values."""
    missing_type, by_set = kind >> 2, (kind & IS_CATEGORY) != 0
    if (missing_type == 3).any():
        raise lines.field("decision_type").fail("has the unknown missing type 3")
    tiny = np.where(threshold < 0, np.nextafter(-TINY, -np.inf), TINY)
    moved = np.where(np.abs(threshold) <= TINY, tiny, threshold)
    left = np.where(missing_type == NO_MISSING, threshold >= 0, (kind & DEFAULT_LEFT) != 0)
    return {
        "missing_left": np.concatenate([left & ~by_set, np.zeros(n_leaves, bool)]),
        "threshold": np.concatenate([np.where(by_set, 0.0, moved), np.zeros(n_leaves)]),
    }


def _sets_of(lines: _Lines, place: np.ndarray) -> list[np.ndarray]:
    """Return the members of the sets that splits name."""
    n = lines.field("num_cat").integer(1, MOST_NODES)
    words = lines.numbers("cat_threshold").integers(0, 2**32 - 1)
    begin = lines.numbers("cat_boundaries").integers(0, words.size, n + 1)
    if (np.diff(begin) < 0).any():
        raise lines.field("cat_boundaries").fail("must ascend")
    if np.diff(begin).max() * 32 > MOST_CATEGORIES:
        raise lines.field("cat_threshold").fail("has too many entries")
    if not ((place >= 0) & (place < n) & (np.floor(place) == place)).all():
        raise lines.field("threshold").fail(f"names sets beyond the {n} of num_cat")
    own = (words[begin[k] : begin[k + 1]].astype("<u4") for k in place.astype(np.int64).tolist())
    return [np.flatnonzero(np.unpackbits(w.view(np.uint8), bitorder="little")) for w in own]


def _zero_missing(zeros: list[np.ndarray], not_zeros: list[np.ndarray]) -> np.ndarray:
    """Return the features whose zeros are missing."""
    zero, other = (np.unique(joined(features, np.int64)) for features in (zeros, not_zeros))
    if (both := np.intersect1d(zero, other)).size:
        raise ImportedModelError(
            f"decision_type makes zeros of feature {both[0]} missing in some splits, and not in "
            "others. Train all trees with the same zero_as_missing."
        )
    return zero


def _known_of(rest: str) -> KnownCategories | None:
    """Return the categories that the data frame had: a list for each column of that type."""
    _, found, after = rest.partition("\npandas_categorical:")
    if not found:
        return None
    try:
        listed = json.loads(after.partition("\n")[0])
    except (ValueError, RecursionError) as error:
        raise ImportedModelError(f"pandas_categorical is not valid JSON: {error}.") from None
    if not listed:
        return None
    if not isinstance(listed, list) or not all(isinstance(known, list) for known in listed):
        raise ImportedModelError("pandas_categorical must be a list of lists.")
    return KnownCategories.of(listed, np.full(len(listed), -1), unknown=np.nan)
