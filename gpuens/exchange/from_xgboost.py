"""Models of XGBoost, from JSON and UBJSON.

Sources: XGBoost's documents "Introduction to Model IO" and "Categorical Data", and its predictions.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .estimators import (
    ImportedClassifier,
    ImportedRegressor,
    Parts,
    imported,
    kind_of,
    labels_of_each,
    refuse_classifier,
    rounds_of,
)
from .matching import KnownCategories
from .reading.assembly import (
    MOST_CATEGORIES,
    MOST_FEATURES,
    MOST_OUTPUTS,
    CategorySets,
    SourceTree,
    SourceTrees,
    assemble,
    joined_trees,
)
from .reading.fields import Field, parse_json
from .reading.files import ImportedModelError, bytes_of
from .reading.ubjson import parse_ubjson
from .rules import Finish, Reading

IDENTITY = (
    "reg:squarederror", "reg:linear", "reg:squaredlogerror", "reg:pseudohubererror",
    "reg:absoluteerror", "reg:quantileerror", "reg:expectileerror", "rank:pairwise", "rank:ndcg",
    "rank:map",
)  # fmt: skip
LOGISTIC = ("binary:logistic", "reg:logistic")
RAW_LOGISTIC = "binary:logitraw"
EXPONENTIAL = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")
SOFTMAX = ("multi:softmax", "multi:softprob")
OBJECTIVES = (*IDENTITY, *LOGISTIC, RAW_LOGISTIC, *EXPONENTIAL, *SOFTMAX, "binary:hinge")
OF_TWO = ("binary:logistic", RAW_LOGISTIC, "binary:hinge")
OF_CLASSIFIERS = (*LOGISTIC, "binary:hinge")
"""Objectives of two classes, and those by which XGBClassifier predicts as they do."""
NEWEST = 3
"""The major version whose files are known."""
LARGEST_INT = 2**31 - 1
NAMES = {"left": "left_children", "right": "right_children", "threshold": "split_conditions",
         "cover": "sum_hessian", "value": "leaf weight", "sets": "categories"}  # fmt: skip


def from_xgboost(
    model: str | os.PathLike[str] | bytes | Any,
    iteration_range: tuple[int, int] | None = None,
    missing: float = np.nan,
) -> ImportedClassifier | ImportedRegressor:
    """Import a model of XGBoost: tree boosters, DART included.

    Files are read without XGBoost. Raw scores are XGBoost's bit for bit: values are rounded to
    float32 and leaf values are added in float32.

    Parameters
    ----------
    model : path, bytes, Booster or XGBModel
        A file in JSON or UBJSON, its content, or a model of XGBoost 1.7 or newer.
    iteration_range : (int, int), default=None
        Rounds to import, the second exclusive. None: all, for an ``XGBModel`` that stopped early
        those up to the best one.
    missing : float, default=nan
        A value that counts as missing, besides NaN. Files do not have it; that of an ``XGBModel``
        is taken if this is NaN.

    Returns
    -------
    ImportedClassifier or ImportedRegressor
        By the kind of an ``XGBModel``, which its files have, too; otherwise by the objective.
        Ranking and survival models are regressors. Models of several labels are classifiers of as
        many outputs.

    Raises
    ------
    ImportedModelError (a ValueError)
        The model is damaged, of a future version, or holds something that cannot be imported; the
        message names the field.
    TypeError, OSError
        ``model`` is something else, or its file cannot be read.

    References
    ----------
    Chen and Guestrin, "XGBoost: A Scalable Tree Boosting System", KDD 2016.
    """
    kind = kind_of(model)
    if hasattr(model, "get_booster"):
        missing = _missing_of(model, missing)
        model = model.get_booster()
        best = getattr(model, "best_iteration", None) if iteration_range is None else None
        iteration_range = iteration_range if best is None else (0, best + 1)
    if hasattr(model, "save_raw"):
        model = bytes(model.save_raw("ubj"))
    document = document_of(bytes_of(model, "model", "a path, bytes, a Booster or an XGBModel"))
    return imported(_read(document, iteration_range, float(missing), kind))


def _missing_of(model: Any, missing: float) -> float:
    own = getattr(model, "missing", None)
    return missing if missing == missing or own is None else own


def document_of(data: bytes) -> Field:
    """Return the document of a file. Raises an ImportedModelError if the data is of the old binary
    format, or damaged."""
    if data[:1] != b"{":
        raise ImportedModelError(
            f"The model begins with {data[:4]!r}: it is neither JSON nor UBJSON. Files of the old "
            "binary format ('binf') must be loaded by XGBoost and saved as .json or .ubj."
        )
    if data[1:2] in b'"} \n\r\t':
        return parse_json(data, "The model")
    return Field(parse_ubjson(data), "")


def _read(document: Field, iteration_range: Any, missing: float, kind: str | None) -> Parts:
    version = document["version"].integers(0, LARGEST_INT)
    if version.size != 3 or version[0] > NEWEST:
        raise document["version"].fail(
            f"is {version.tolist()}; versions up to {NEWEST}.x are known. Save the model with one "
            "of these"
        )
    learner = document["learner"]
    objective = learner["objective"]["name"].one_of(OBJECTIVES)
    kind = _kind_in(learner) if kind is None else kind
    classes = _classes_of(objective, _n_outputs(learner["learner_model_param"]), kind)
    base = _base_of(learner["learner_model_param"], objective)
    booster, drops = _booster_of(learner["gradient_booster"])
    model, n_features = booster["model"], _n_features(learner["learner_model_param"])
    trees = _trees_of(model, n_features, base, drops)
    known = _known_of(model["cats"], n_features) if "cats" in model else None
    forest, rounds = assemble(trees), _rounds_of(model, len(base))
    if iteration_range is not None:
        chosen = rounds_of(iteration_range, rounds.size - 1)
        forest = forest.slice(int(rounds[chosen.start]), int(rounds[chosen.stop]))
        rounds = rounds[chosen.start : chosen.stop + 1] - rounds[chosen.start]
    names = learner["feature_names"].texts() if "feature_names" in learner else []
    if names and len(names) != n_features:
        raise learner["feature_names"].fail(f"must have {n_features} entries, got {len(names)}")
    text = ".".join(map(str, version.tolist()))
    link = "identity" if objective == RAW_LOGISTIC and classes is None else _link_of(objective)
    return Parts(
        forest=forest,
        reading=Reading(True, missing, np.empty(0, np.int64), True),
        finish=Finish(True, False, 1.0, "nothing", rounds, link, 1.0),
        source={"library": "xgboost", "version": text, "objective": objective},
        names=names or None,
        classes=classes,
        known=known,
    )


def _n_features(parameters: Field) -> int:
    return parameters["num_feature"].integer(1, MOST_FEATURES)


def _n_outputs(parameters: Field) -> int:
    n_classes = parameters["num_class"].integer(0, MOST_OUTPUTS)
    n_targets = 1
    if "num_target" in parameters:
        n_targets = parameters["num_target"].integer(0, MOST_OUTPUTS)
    return max(n_classes, n_targets, 1)


def _kind_in(learner: Field) -> str | None:
    """Return the kind of the estimator that wrote a file, None where a Booster did."""
    if "attributes" not in learner or "scikit_learn" not in learner["attributes"]:
        return None
    field = learner["attributes"]["scikit_learn"]
    about = Field(parse_json(field.text(), field.path).value, field.path)
    if "_estimator_type" not in about:
        return None
    return "classifier" if about["_estimator_type"].text() == "classifier" else "other"


def _base_of(parameters: Field, objective: str) -> np.ndarray:
    """Return the raw score before the first tree, one for each output, of float32 numbers."""
    n_outputs = _n_outputs(parameters)
    field = parameters["base_score"]
    text = field.value
    if isinstance(text, str) and text.startswith("["):  # from 3.1 on
        field = Field(parse_json(text, field.path).value, field.path)
        scores = field.singles()
    else:
        scores = Field([field.number()], field.path).singles()
    if scores.size not in (1, n_outputs):
        raise field.fail(f"must have {n_outputs} entries, got {scores.size}")
    with np.errstate(divide="ignore", invalid="ignore"):
        if objective in LOGISTIC:
            odds = (np.float32(1) / scores.astype(np.float32) - np.float32(1)).astype(np.float64)
            scores = -np.log(odds).astype(np.float32).astype(np.float64)
        elif objective in EXPONENTIAL:
            scores = np.log(scores).astype(np.float32).astype(np.float64)
    if not np.isfinite(scores).all():
        raise field.fail(f"is {text!r:.40}, which is not a prediction of {objective}")
    return np.resize(scores, n_outputs)


def _booster_of(field: Field) -> tuple[Field, np.ndarray | None]:
    """Return the trees' part of a booster, and the weights of DART's trees."""
    name = field["name"].one_of(("gbtree", "dart"))
    if name == "gbtree":
        return field, None
    return field["gbtree"], field["weight_drop"].singles()


def _rounds_of(model: Field, n_outputs: int) -> np.ndarray:
    """Return the first tree of every round, and the number of trees."""
    n_trees = len(model["trees"].value)
    if "iteration_indptr" in model:
        field = model["iteration_indptr"]
        rounds = field.integers(0, n_trees)
        if (
            not rounds.size
            or rounds[0] != 0
            or rounds[-1] != n_trees
            or (np.diff(rounds) < 0).any()
        ):
            raise field.fail(f"must ascend from 0 to {n_trees}")
        return rounds
    parallel = model["gbtree_model_param"]["num_parallel_tree"].integer(0, LARGEST_INT)
    of_round = n_outputs * max(1, parallel)
    if n_trees % of_round:
        raise model["trees"].fail(f"must have {of_round} entries for every round, got {n_trees}")
    return np.arange(0, n_trees + 1, of_round)


def _trees_of(
    model: Field, n_features: int, base: np.ndarray, drops: np.ndarray | None
) -> SourceTrees:
    fields = list(model["trees"].items())
    trees = [_tree_of(field, n_features, base.size) for field in fields]
    output = model["tree_info"].integers(0, base.size - 1, len(trees))
    width = max((tree.value.shape[1] for tree in trees), default=1)
    if any(tree.value.shape[1] != width for tree in trees):
        raise model["trees"].fail("has leaves of one value in some trees, of several in others")
    if (output + width > base.size).any():
        raise model["tree_info"].fail("has outputs that do not exist")
    if drops is not None:
        if drops.size != len(trees):
            raise ImportedModelError(
                f"weight_drop must have {len(trees)} entries, got {drops.size}."
            )
        for tree, weight in zip(trees, drops.astype(np.float32), strict=True):
            tree.value = (tree.value.astype(np.float32) * weight).astype(np.float64)
    return joined_trees(trees, n_features, base, output, width, NAMES)


def _tree_of(field: Field, n_features: int, n_outputs: int) -> SourceTree:
    parameters = field["tree_param"]
    n = parameters["num_nodes"].integer(1, LARGEST_INT)
    left = field["left_children"].integers(-1, n - 1, n)
    is_leaf = left < 0
    right = field["right_children"].integers(-1, n - 1, n)
    features = field["split_indices"].integers(0, LARGEST_INT, n)
    if (features[~is_leaf] >= n_features).any():
        raise field["split_indices"].fail(f"has features beyond the {n_features} of the model")
    conditions = field["split_conditions"].numbers(n)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        singles = conditions.astype(np.float32)
        limits = np.nextafter(singles, np.float32(-np.inf)).astype(np.float64)
    threshold = np.where(singles == -np.inf, np.nan, limits)  # nothing is below it
    missing_left = field["default_left"].integers(0, 1, n) != 0
    # Trees of vector leaves have neither before 3.2.
    cover, gain = (
        field[name].singles(n) if name in field else np.zeros(n)
        for name in ("sum_hessian", "loss_changes")
    )
    size = parameters["size_leaf_vector"].integer(0, MOST_OUTPUTS)
    value = singles.astype(np.float64)[:, None]
    if size > 1:
        if size != n_outputs:
            raise parameters["size_leaf_vector"].fail(f"must be {n_outputs}, got {size}")
        value = _vectors(field, right, is_leaf, size)
    value[~is_leaf] = 0.0
    nodes, members = _sets_of(field, is_leaf)
    threshold[nodes] = 0.0
    return SourceTree(
        feature=np.where(is_leaf, -1, features), threshold=threshold, missing_left=missing_left,
        left=left, right=right, value=value, gain=gain, cover=cover,
        n_samples=np.zeros(n, np.int64),
        sets=CategorySets.of(nodes, members, np.zeros(nodes.size, bool)),
    )  # fmt: skip


def _vectors(field: Field, right: np.ndarray, is_leaf: np.ndarray, size: int) -> np.ndarray:
    """Return the leaves' values; from 3.2 on they have an array of their own."""
    n = is_leaf.size
    if "leaf_weights" not in field:
        return field["base_weights"].singles(n * size).reshape(n, size)
    weights = field["leaf_weights"].singles()
    place = right[is_leaf]
    if (place < 0).any() or (place.max(initial=-1) + 1) * size > weights.size:
        raise field["leaf_weights"].fail("has fewer entries than right_children counts on")
    value = np.zeros((n, size))
    value[is_leaf] = weights[: weights.size // size * size].reshape(-1, size)[place]
    return value


def _sets_of(field: Field, is_leaf: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the splits by categories, and the members of their sets, which go right."""
    nodes = field["categories_nodes"].integers(0, is_leaf.size - 1)
    n = nodes.size
    members = field["categories"].integers(0, MOST_CATEGORIES)
    first = field["categories_segments"].integers(0, members.size, n)
    sizes = field["categories_sizes"].integers(0, members.size, n)
    kind = field["split_type"].integers(0, 1, is_leaf.size)
    of_split = np.zeros(is_leaf.size, bool)
    of_split[nodes] = True
    if (np.diff(nodes) <= 0).any() or ((kind == 1) & ~is_leaf != of_split & ~is_leaf).any():
        raise field["categories_nodes"].fail("does not list the splits by categories")
    if (first != np.cumsum(sizes) - sizes).any() or sizes.sum() != members.size:
        raise field["categories_segments"].fail("does not divide the categories")
    if is_leaf[nodes].any():
        raise field["categories_nodes"].fail("has a leaf")
    return nodes, [members[a : a + size] for a, size in zip(first, sizes, strict=True)]


def _known_of(cats: Field, n_features: int) -> KnownCategories | None:
    """Return the categories by value, which files have from 3.1 on."""
    encoders = list(cats["enc"].items())
    if not encoders:
        return None
    if len(encoders) != n_features:
        raise cats["enc"].fail(f"must have {n_features} entries, got {len(encoders)}")
    listed: list[list[Any]] = []
    for encoder in encoders:
        values = encoder["values"]
        if "offsets" in encoder:
            listed.append(_texts_of(values, encoder["offsets"]))
        else:
            listed.append(values.whole_numbers())
    features = [f for f, known in enumerate(listed) if known]
    return KnownCategories.of([listed[f] for f in features], features, unknown=None)


def _texts_of(values: Field, offsets: Field) -> list[str]:
    """Return the texts between offsets into their bytes, which may be cut within a character: bytes
    that are not UTF-8 become lone surrogates."""
    raw = (values.integers(-128, 255) & 255).astype(np.uint8).tobytes()
    ends = offsets.integers(0, len(raw))
    if (np.diff(ends) < 0).any():
        raise offsets.fail("must ascend")
    return [
        raw[a:b].decode(errors="surrogateescape") for a, b in zip(ends[:-1], ends[1:], strict=True)
    ]


def _link_of(objective: str) -> str:
    if objective in (*LOGISTIC, RAW_LOGISTIC):
        return "logistic"
    if objective in EXPONENTIAL:
        return "exp"
    if objective == "binary:hinge":
        return "step"
    return "softmax" if objective in SOFTMAX else "identity"


def _classes_of(
    objective: str, n_outputs: int, kind: str | None
) -> np.ndarray | list[np.ndarray] | None:
    """Return the classes, None where predictions are those of the objective."""
    if objective in SOFTMAX and (kind != "other" or objective == "multi:softmax"):
        return np.arange(max(2, n_outputs))
    if kind == "classifier" and objective not in OF_CLASSIFIERS:
        raise refuse_classifier(
            "XGBoost",
            objective,
            "its get_booster(), or of a file a Booster without the attribute 'scikit_learn',",
        )
    of_two = OF_CLASSIFIERS if kind == "classifier" else OF_TWO
    if kind == "other" or objective not in of_two:
        return None
    return np.arange(2) if n_outputs == 1 else labels_of_each(n_outputs)
