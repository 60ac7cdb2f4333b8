"""Models of Treelite, from its JSON dump.

Sources: Treelite's document "Model builder", and the predictions of its GTIL.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .estimators import ImportedClassifier, ImportedRegressor, Parts, imported, labels_of_each
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
from .rules import Finish, Reading

LINKS = {
    "identity": "identity",
    "identity_multiclass": "shares",
    "sigmoid": "logistic",
    "exponential": "exp",
    "softmax": "softmax",
    "multiclass_ova": "one_vs_all",
    "signed_square": "signed_square",
    "hinge": "step",
    "logarithm_one_plus_exp": "softplus",
}
TASKS = ("kBinaryClf", "kRegressor", "kMultiClf", "kLearningToRank")
TYPES = ("float32", "float64")
KINDS = ("numerical_test_node", "categorical_test_node")
COMPARISONS = ("<", "<=", ">", ">=")
LARGEST_INT = 2**31 - 1
NO_NUMBER, NULL = '"threshold":,', '"threshold":null,'
"""Infinite thresholds as Treelite dumps them, and as JSON can hold them."""
NAMES = {"left": "left_child", "right": "right_child", "value": "leaf_value",
         "cover": "sum_hess or data_count", "sets": "category_list"}  # fmt: skip


def from_treelite(model: Any) -> ImportedClassifier | ImportedRegressor:
    """Import a model of Treelite.

    Raw scores are those of Treelite's GTIL bit for bit, in the type of its thresholds.

    Parameters
    ----------
    model : treelite.Model or str
        A model of Treelite 4, or what its ``dump_as_json`` returns.

    Returns
    -------
    ImportedClassifier or ImportedRegressor
        By the task. Ranking models are regressors, models of several labels classifiers of as many
        outputs.

    Raises
    ------
    ImportedModelError (a ValueError)
        The model holds something that cannot be imported; the message names the field.
    TypeError
        ``model`` is something else.

    References
    ----------
    Cho and Li, "Treelite: toolbox for decision tree deployment", SysML 2018.
    """
    text = model.dump_as_json(pretty_print=False) if hasattr(model, "dump_as_json") else model
    if not isinstance(text, str):
        raise TypeError(
            f"model must be a treelite.Model or its JSON dump, got {type(model).__name__}."
        )
    document = parse_json(text.replace(NO_NUMBER, NULL), "The model")
    if text is not model and NO_NUMBER in text:
        _fill_thresholds(document, model)
    return imported(_read(document))


def _fill_thresholds(document: Field, model: Any) -> None:
    """Take the thresholds that the dump leaves out, which are infinite, from the model."""
    for number, tree in enumerate(document["trees"].items()):
        thresholds = model.get_tree_accessor(number).get_field("threshold")
        for place, node in enumerate(tree["nodes"].items()):
            if "threshold" in node and node["threshold"].value is None:
                node.value["threshold"] = float(thresholds[place])


def _read(document: Field) -> Parts:
    n_features = document["num_feature"].integer(1, MOST_FEATURES)
    n_targets = document["num_target"].integer(1, MOST_OUTPUTS)
    n_classes = document["num_class"].integers(1, MOST_OUTPUTS, n_targets)
    most = int(n_classes.max())
    single = document["threshold_type"].one_of(TYPES) == "float32"
    document["leaf_output_type"].one_of(TYPES)
    task = document["task_type"].one_of(TASKS)
    link = document["postprocessor"].one_of(tuple(LINKS))
    n_outputs = n_targets * most
    if n_outputs > MOST_OUTPUTS:
        raise document["num_class"].fail(f"and num_target make {n_outputs} outputs")
    base = document["base_scores"].floats(n_outputs)
    trees, rounds = _trees_of(document, n_features, (n_targets, most), base, single)
    averages = document["average_tree_output"].value is True
    if averages and rounds.size != trees.output.size * trees.value.shape[1] // n_outputs + 1:
        raise document["average_tree_output"].fail("is true, but outputs differ in their trees")
    slope = document["sigmoid_alpha"].number() if link in ("sigmoid", "multiclass_ova") else 1.0
    return Parts(
        forest=assemble(trees),
        reading=Reading(single, np.nan, np.empty(0, np.int64), True),
        finish=Finish(
            single, True, 1.0, "scores" if averages else "nothing", rounds, LINKS[link], slope
        ),
        source={"library": "treelite", "objective": link},
        classes=_classes_of(document, task, n_targets, most),
    )


def _classes_of(
    document: Field, task: str, n_targets: int, n_classes: int
) -> np.ndarray | list[np.ndarray] | None:
    if task not in ("kMultiClf", "kBinaryClf"):
        return None
    if n_targets == 1:
        return np.arange(max(2, n_classes))
    if n_classes > 1 or task == "kMultiClf":
        raise document["num_target"].fail(
            f"is {n_targets}: classifiers of several outputs can only be imported if each is a "
            "label, 0 or 1. Train a model for each output"
        )
    return labels_of_each(n_targets)


def _trees_of(
    document: Field, n_features: int, shape: tuple[int, int], base: np.ndarray, single: bool
) -> tuple[SourceTrees, np.ndarray]:
    trees = [_tree_of(field, n_features, single) for field in document["trees"].items()]
    n_targets, n_classes = shape
    rows, columns = document["leaf_vector_shape"].integers(1, MOST_OUTPUTS, 2).tolist()
    target = document["target_id"].integers(-1, n_targets - 1, len(trees))
    of_class = document["class_id"].integers(-1, n_classes - 1, len(trees))
    if (rows, columns) not in ((1, 1), (1, n_classes), shape) and n_classes > 1:
        raise document["leaf_vector_shape"].fail(f"is {[rows, columns]}, for outputs {shape}")
    output = np.maximum(target, 0) * n_classes + np.maximum(of_class, 0)
    width = rows * columns
    if any(tree.value.shape[1] != width for tree in trees):
        raise document["leaf_vector_shape"].fail(f"is {[rows, columns]}, unlike the leaves")
    if (output + width > base.size).any():
        raise document["class_id"].fail("has outputs that do not exist")
    found = joined_trees(trees, n_features, base, output, width, NAMES)
    return found, _rounds_of(output, base.size // width)


def _rounds_of(output: np.ndarray, n_turns: int) -> np.ndarray:
    """Return where rounds begin: in each every output has its turn, or there is one round."""
    n_rounds, rest = divmod(output.size, n_turns)
    first = output[:n_turns]
    if rest == 0 and np.array_equal(output, np.tile(first, n_rounds)):
        if np.unique(first).size == first.size:
            return np.arange(0, output.size + 1, n_turns)
    return np.array([0, output.size])


def _tree_of(field: Field, n_features: int, single: bool) -> SourceTree:
    """Return the arrays of one tree, whose nodes come in any order."""
    nodes = list(field["nodes"].items())
    n = field["num_nodes"].integer(1, LARGEST_INT)
    if len(nodes) != n:
        raise field["nodes"].fail(f"must have {n} entries (num_nodes), got {len(nodes)}")
    feature, left, right = (np.full(n, -1) for _ in range(3))
    threshold, gain, cover = (np.zeros(n) for _ in range(3))
    missing_left, n_samples = np.zeros(n, bool), np.zeros(n, np.int64)
    sets: dict[int, tuple[np.ndarray, bool]] = {}
    leaves: dict[int, np.ndarray] = {}
    for place, node in enumerate(nodes):
        if node["node_id"].integer(0, n - 1) != place:
            raise node["node_id"].fail(f"must be {place}, got {node['node_id'].value!r:.20}")
        n_samples[place], cover[place], gain[place] = _counts_of(node)
        if "leaf_value" in node:
            leaf = node["leaf_value"]
            listed = leaf if isinstance(leaf.value, list) else Field([leaf.value], leaf.path)
            leaves[place] = listed.singles() if single else listed.floats()
            continue
        feature[place] = node["split_feature_id"].integer(0, n_features - 1)
        children = [node[name].integer(0, n - 1) for name in ("left_child", "right_child")]
        default_left = node["default_left"].value is True
        if node["node_type"].one_of(KINDS) == KINDS[1]:
            members = np.unique(node["category_list"].integers(0, MOST_CATEGORIES))
            sets[place] = members, node["category_list_right_child"].value is not True
        else:
            comparison = node["comparison_op"].one_of(COMPARISONS)
            threshold[place] = _threshold_of(node, comparison, single)
            if comparison in (">", ">="):
                children, default_left = children[::-1], not default_left
        left[place], right[place] = children
        missing_left[place] = default_left
    return SourceTree(
        feature=feature, threshold=threshold, missing_left=missing_left, left=left, right=right,
        value=_values_of(leaves, nodes), gain=gain, cover=cover, n_samples=n_samples,
        sets=CategorySets.of(
            np.array([*sets], np.int64),
            [of_node for of_node, _ in sets.values()],
            np.array([goes_left for _, goes_left in sets.values()], bool),
        ),
    )  # fmt: skip


def _counts_of(node: Field) -> tuple[int, float, float]:
    """Return the training rows of a node, their weight, and the gain of its split."""
    n_samples = node["data_count"].integer(0, LARGEST_INT) if "data_count" in node else 0
    weight = next((name for name in ("sum_hess", "data_count") if name in node), None)
    cover = 0.0 if weight is None else node[weight].number()
    return n_samples, cover, node["gain"].number() if "gain" in node else 0.0


def _threshold_of(node: Field, comparison: str, single: bool) -> float:
    """Return the largest value that goes to the side of the smaller ones."""
    field = Field([node["threshold"].value], node["threshold"].path)
    threshold = field.numbers()[0]
    if single and np.isfinite(threshold):
        threshold = field.singles()[0]
    if comparison in ("<", ">="):
        kind = np.float32 if single else np.float64
        threshold = np.float64(np.nextafter(kind(threshold), kind(-np.inf)))
    return float(threshold)


def _values_of(leaves: dict[int, np.ndarray], nodes: list[Field]) -> np.ndarray:
    """Return the values of all nodes, which have as many entries as those of the largest leaf."""
    value = np.zeros((len(nodes), max((1, *(leaf.size for leaf in leaves.values())))))
    for place, leaf in leaves.items():
        if leaf.size != value.shape[1]:
            raise nodes[place]["leaf_value"].fail(f"must have {value.shape[1]} entries")
        value[place] = leaf
    return value
