"""Models of CatBoost, from its JSON.

Sources: CatBoost's document "JSON model tutorial", and its predictions.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from .estimators import ImportedClassifier, ImportedRegressor, Parts, imported, labels_of_each
from .matching import KnownCategories
from .reading.assembly import (
    MOST_FEATURES,
    MOST_OUTPUTS,
    NUMBERS_OF_NODES,
    CategorySets,
    SourceTrees,
    assemble,
    joined,
)
from .reading.fields import Field, parse_json
from .reading.files import ImportedModelError, bytes_of
from .rules import Finish, Reading

LINKS = {
    **dict.fromkeys(
        ("RMSE", "MAE", "Quantile", "MultiQuantile", "LogLinQuantile", "MAPE", "Lq", "Huber",
         "Expectile", "LogCosh", "MultiRMSE", "MultiRMSEWithMissingValues", "YetiRank",
         "YetiRankPairwise", "PairLogit", "PairLogitPairwise", "QueryRMSE", "QuerySoftMax",
         "QueryCrossEntropy", "StochasticRank", "StochasticFilter", "LambdaMart", "Cox",
         "SurvivalAft"),
        "identity",
    ),
    "Poisson": "exp",
    "Tweedie": "exp",
    "RMSEWithUncertainty": "mean_and_variance",
    "Logloss": "logistic",
    "CrossEntropy": "logistic",
    "MultiLogloss": "logistic",
    "MultiCrossEntropy": "logistic",
    "MultiClass": "softmax",
    "MultiClassOneVsAll": "one_vs_all",
}  # fmt: skip
COLUMNS = ("feature", "threshold", "missing_left", "left", "right", "cover")
DEEPEST = 16
"""The deepest oblivious trees of CatBoost."""
NAMES = {"value": "leaf_values", "cover": "leaf_weights", "threshold": "border",
         "sets": "value"}  # fmt: skip


def from_catboost(
    model: str | os.PathLike[str] | dict[str, Any] | Any,
) -> ImportedClassifier | ImportedRegressor:
    """Import a model of CatBoost of any grow policy.

    Files are read without CatBoost. Raw scores are CatBoost's bit for bit.

    Parameters
    ----------
    model : path, dict, or model of CatBoost
        A file that ``save_model(path, format="json", pool=pool)`` wrote, its content, or a
        ``CatBoost`` object. Models with categorical features need the pool: it names the
        categories.

    Returns
    -------
    ImportedClassifier or ImportedRegressor
        By the loss function. Ranking and survival models are regressors, models of several labels
        classifiers of as many outputs.

    Raises
    ------
    ImportedModelError (a ValueError)
        The model is damaged or holds something that cannot be imported, such as statistics of
        categories (CTR); the message names the field.
    TypeError, OSError
        ``model`` is something else, or its file cannot be read.

    References
    ----------
    Prokhorenkova et al., "CatBoost: unbiased boosting with categorical features", NeurIPS 2018.
    """
    classes = None
    if hasattr(model, "save_model"):
        classes = getattr(model, "classes_", None)
        model = _saved(model)
    if isinstance(model, dict):
        return imported(_read(Field(model, ""), classes))
    data = bytes_of(model, "model", "a path, a dict or a model of CatBoost")
    return imported(_read(parse_json(data, "The model"), classes))


def _saved(model: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        return path.read_bytes()


def _read(document: Field, classes: Any) -> Parts:
    info = document["features_info"]
    columns, n_features = _columns_of(info)
    trees = _Trees(document, columns)
    bias, scale = _scale_and_bias(document, trees)
    loss = document["model_info"]["params"]["loss_function"]["type"]
    objective = loss.one_of(tuple(LINKS))
    rounds = np.arange(len(trees.sizes) + 1)
    return Parts(
        forest=assemble(trees.joined(n_features, bias)),
        reading=Reading(True, np.nan, np.empty(0, np.int64), True),
        finish=Finish(False, True, scale, "nothing", rounds, LINKS[objective], 1.0),
        source={"library": "catboost", "objective": objective},
        names=_names_of(info, columns, n_features),
        classes=_classes_of(document["model_info"], objective, bias.size, classes),
        known=trees.categories.known(info),
    )


Columns = dict[tuple[str, int], tuple[int, bool]]
"""Column of each feature, by its kind and number, and whether its NaN goes left."""


def _columns_of(info: Field) -> tuple[Columns, int]:
    columns: Columns = {}
    for kind in ("float", "categorical"):
        if f"{kind}_features" not in info:
            continue
        for feature in info[f"{kind}_features"].items():
            number = feature["feature_index"].integer(0, MOST_FEATURES)
            column = feature["flat_feature_index"].integer(0, MOST_FEATURES - 1)
            nan_left = True
            if kind == "float" and "nan_value_treatment" in feature:
                treatment = feature["nan_value_treatment"].one_of(("AsIs", "AsFalse", "AsTrue"))
                nan_left = treatment != "AsTrue"
            columns[kind, number] = column, nan_left
    for kind in ("text_features", "embedding_features"):
        if kind in info and info[kind].value:
            raise info[kind].fail("cannot be imported: train on numbers and categories")
    if not columns:
        raise info.fail("has no features")
    return columns, max(column for column, _ in columns.values()) + 1


def _names_of(info: Field, columns: Columns, n_features: int) -> list[str] | None:
    """Return the names of the features, where all have one: ``feature_id`` where the file was saved
    without the training data."""
    names: dict[int, str] = {}
    for kind in ("float", "categorical"):
        if f"{kind}_features" in info:
            for feature in info[f"{kind}_features"].items():
                number = feature["feature_index"].integer(0, MOST_FEATURES)
                for name in ("feature_id", "feature_name"):
                    if name in feature:
                        names[columns[kind, number][0]] = feature[name].text()
    found = [names.get(f, "") for f in range(n_features)] if len(names) == n_features else []
    made_up = found == [str(f) for f in range(n_features)]
    return found if found and not made_up and len(set(found)) == n_features else None


def _scale_and_bias(document: Field, trees: _Trees) -> tuple[np.ndarray, float]:
    width = trees.width
    if "scale_and_bias" not in document:
        return np.zeros(width), 1.0
    pair = list(document["scale_and_bias"].items())
    if len(pair) != 2:
        raise document["scale_and_bias"].fail(f"must have 2 entries, got {len(pair)}")
    bias = pair[1].floats() if isinstance(pair[1].value, list) else np.array([pair[1].number()])
    if bias.size != width and not trees.sizes:
        width = bias.size
    if bias.size == 0:
        bias = np.zeros(width)
    if bias.size not in (1, width):
        raise pair[1].fail(f"must have {width} entries, got {bias.size}")
    return np.resize(bias, width), pair[0].number()


def _classes_of(
    info: Field, objective: str, n_outputs: int, classes: Any
) -> np.ndarray | list[np.ndarray] | None:
    if objective in ("MultiLogloss", "MultiCrossEntropy"):
        return labels_of_each(n_outputs)
    n_classes = {"Logloss": 2, "CrossEntropy": 2}.get(objective, n_outputs)
    if objective not in ("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll"):
        return None
    if classes is not None and len(classes) == n_classes:
        return np.array(classes)
    names: list[Any] = []
    if "class_params" in info and "class_names" in info["class_params"]:
        names = [name.value for name in info["class_params"]["class_names"].items()]
    if len(names) != n_classes:
        return np.arange(n_classes)
    if all(isinstance(name, str) for name in names):
        return np.array(names, object)
    numbers = Field(names, "class_names").floats()
    whole = not any(isinstance(name, float) for name in names)
    return numbers.astype(np.int64) if whole else numbers


class _Categories:
    """The categories that splits compare with, by the hashes of their texts."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.hashes: dict[int, dict[int, int]] = {
            column: {} for (kind, _), (column, _) in columns.items() if kind == "categorical"
        }

    def code(self, column: int, value: int) -> int:
        """Return the code of a category, a new one where it comes up for the first time."""
        own = self.hashes[column]
        return own.setdefault(value & 0xFFFFFFFF, len(own))

    def known(self, info: Field) -> KnownCategories | None:
        """Return the categories by their texts. Raises an ImportedModelError if the file lacks
        one."""
        if not self.hashes:
            return None
        texts: dict[int, str] = {}
        if "cat_features_hash" in info:
            for pair in info["cat_features_hash"].items():
                texts[pair["hash"].integer(0, 2**32 - 1)] = pair["value"].text()
        for column, own in self.hashes.items():
            for value in own:
                if value not in texts:
                    raise ImportedModelError(
                        f"features_info.cat_features_hash lacks the category {value} of feature "
                        f"{column}: save the model as JSON with pool=, the training data."
                    )
        listed = [[texts[value] for value in own] for own in self.hashes.values()]
        return KnownCategories.of(listed, list(self.hashes), unknown=-1.0, of_numbers=True)


class _Trees:
    """The trees of a file; ``sizes`` are their numbers of nodes."""

    def __init__(self, document: Field, columns: Columns) -> None:
        self.columns, self.categories = columns, _Categories(columns)
        self.sizes: list[int] = []
        self.parts: dict[str, list[np.ndarray]] = {name: [] for name in COLUMNS}
        self.values: list[np.ndarray] = []
        self.members: list[tuple[int, int]] = []
        self.width = 1
        first = 0
        name = "oblivious_trees" if "oblivious_trees" in document else "trees"
        for tree in document[name].items():
            read = self._oblivious if name == "oblivious_trees" else self._nested
            first += read(tree, first)
        if len({value.shape[1] for value in self.values}) > 1:
            raise document[name].fail("has leaves of different numbers of values")

    def _split(self, split: Field, node: int) -> tuple[int, float, bool]:
        """Return column, threshold and side of NaN of a split; record those by categories."""
        kind = split["split_type"].text()
        if kind == "FloatFeature":
            number = split["float_feature_index"].integer(0, MOST_FEATURES)
            place = self.columns.get(("float", number))
            border = float(Field([split["border"].number()], split.path + ".border").singles()[0])
            if place is None:
                raise split["float_feature_index"].fail(f"is {number}, which is not a feature")
            return place[0], border, place[1]
        if kind != "OneHotFeature":
            raise split["split_type"].fail(
                f"is {kind!r:.40}: statistics of categories (CTR) cannot be imported. Train with "
                "one_hot_max_size above the number of categories, or encode them"
            )
        number = split["cat_feature_index"].integer(0, MOST_FEATURES)
        place = self.columns.get(("categorical", number))
        if place is None:
            raise split["cat_feature_index"].fail(f"is {number}, which is not a feature")
        value = split["value"].integer(-(2**31), 2**32 - 1)
        self.members.append((node, self.categories.code(place[0], value)))
        return place[0], 0.0, True

    def _add(self, value: np.ndarray, **columns: np.ndarray) -> int:
        n = columns["feature"].size
        self.sizes.append(n)
        self.values.append(value)
        self.width = value.shape[1]
        for name, column in columns.items():
            self.parts[name].append(column)
        return n

    def _oblivious(self, tree: Field, first: int) -> int:
        """Read a tree whose levels have one split each; split 0 is the lowest bit of a leaf's
        number, and its level the last one."""
        splits = list(tree["splits"].items()) if tree["splits"].value else []
        depth = len(splits)
        if depth > DEEPEST:
            raise tree["splits"].fail(f"has {depth} splits; at most {DEEPEST} are known")
        values = tree["leaf_values"].floats()
        n_leaves = 1 << depth
        if values.size % n_leaves or not values.size or values.size // n_leaves > MOST_OUTPUTS:
            raise tree["leaf_values"].fail(f"must have {n_leaves} leaves, got {values.size} values")
        n = 2 * n_leaves - 1
        feature, threshold, nan_left = np.full(n, -1), np.zeros(n), np.zeros(n, bool)
        for level in range(depth):
            low = (1 << level) - 1
            nodes = slice(low, 2 * low + 1)
            split = splits[depth - 1 - level]
            feature[nodes], threshold[nodes], nan_left[nodes] = self._split(split, first + low)
            if split["split_type"].value == "OneHotFeature":
                code = self.members[-1][1]
                self.members += [(first + node, code) for node in range(low + 1, 2 * low + 1)]
        cover = np.zeros(n)
        if "leaf_weights" in tree:
            cover[n_leaves - 1 :] = tree["leaf_weights"].floats(n_leaves)
            for level in range(depth - 1, -1, -1):
                low, high = (1 << level) - 1, (2 << level) - 1
                below = cover[high : 2 * high + 1]
                cover[low:high] = below[::2] + below[1::2]
        value = np.zeros((n, values.size // n_leaves))
        value[n_leaves - 1 :] = values.reshape(n_leaves, -1)
        left = np.where(feature >= 0, 2 * np.arange(n) + 1, -1)
        right = np.where(feature >= 0, left + 1, -1)
        return self._add(value, feature=feature, threshold=threshold, missing_left=nan_left,
                         left=left, right=right, cover=cover)  # fmt: skip

    def _nested(self, tree: Field, first: int) -> int:
        """Read a tree whose nodes contain their children."""
        nodes = [tree]
        rows: list[list[float]] = []
        values: list[np.ndarray] = []
        for node in nodes:  # which grows
            if "split" in node:
                split = self._split(node["split"], first + len(rows))
                rows.append([*split, len(nodes), len(nodes) + 1, 0.0])
                nodes += [node["left"], node["right"]]
                values.append(np.zeros(0))
                continue
            leaf = node["value"]
            found = leaf.floats() if isinstance(leaf.value, list) else np.array([leaf.number()])
            weight = node["weight"].number() if "weight" in node else 0.0
            rows.append([-1, 0.0, 0.0, -1, -1, weight])
            values.append(found)
        width = max(value.size for value in values)
        value = np.zeros((len(rows), width))
        table = np.array(rows)
        for row, (found, node) in enumerate(zip(values, nodes, strict=True)):
            if table[row, 0] < 0:
                if found.size != width:
                    raise node["value"].fail(f"must have {width} entries, got {found.size}")
                value[row] = found
        cover = table[:, 5].copy()
        for row in range(len(rows) - 1, -1, -1):
            if table[row, 0] >= 0:
                cover[row] = cover[int(table[row, 3])] + cover[int(table[row, 4])]
        feature, left, right = (table[:, k].astype(np.int64) for k in (0, 3, 4))
        nan_left = table[:, 2] != 0
        return self._add(value, feature=feature, threshold=table[:, 1], missing_left=nan_left,
                         left=left, right=right, cover=cover)  # fmt: skip

    def joined(self, n_features: int, bias: np.ndarray) -> SourceTrees:
        """Return all trees as one table."""
        offset = np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)])
        members = np.array(sorted(self.members), np.int64).reshape(-1, 2)
        sets = CategorySets(
            members[:, 0], np.arange(len(members) + 1), members[:, 1], np.zeros(len(members), bool)
        )
        n = int(offset[-1])
        return SourceTrees(
            n_features=n_features,
            base=bias,
            offset=offset,
            output=np.zeros(len(self.sizes), np.int64),
            value=np.concatenate([np.empty((0, self.width)), *self.values]),
            gain=np.zeros(n),
            n_samples=np.zeros(n, np.int64),
            sets=sets,
            names=NAMES,
            may_be_empty=True,
            **{name: joined(parts, NUMBERS_OF_NODES[name]) for name, parts in self.parts.items()},
        )
