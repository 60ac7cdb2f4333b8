"""Models in ONNX: the operator TreeEnsemble of float64, raw scores bit for bit."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .additive import Additive, Tree, described, refuse_rounding, write

TREE_ENSEMBLE = 5
"""The first version of the operators ``ai.onnx.ml`` with TreeEnsemble."""
LESS_OR_EQUAL, MEMBER = 0, 6
"""Modes of its nodes."""
DEFAULT_OPSETS = {"": 21, "ai.onnx.ml": TREE_ENSEMBLE}
OLDEST_OPSETS = {"": 13, "ai.onnx.ml": 3}
SUM = 1


def to_onnx(
    model: Any,
    path: str | os.PathLike[str],
    *,
    target_opset: int | dict[str, int] | None = None,
    dtype: str = "float64",
    allow_rounding: bool = False,
) -> None:
    """Write a model that ONNX runtimes read.

    The input is "X", of shape (n_rows, n_features). A regression has the output "predictions"; a
    classification "labels" and "probabilities"; an isolation forest "scores". All have
    "raw_scores", of shape (n_rows, n_outputs): those of this package to the last bit in a runtime
    that adds trees in their order (ONNX Runtime with one thread).

    Parameters
    ----------
    model : fitted estimator
        Gradient boosting, a tree, a forest, bagging of trees, AdaBoost for classification, or an
        isolation forest.
    path : str or path
        Replaced if it exists, once the new file is complete.
    target_opset : int, dict or None, default=None
        The version of the operators, or versions by domain as in ``{"": 21, "ai.onnx.ml": 3}``.
        ``ai.onnx.ml`` before 5 knows sums of float32 only, and no sets of categories.
    dtype : {"float64", "float32"}, default="float64"
        Of the input, thresholds, leaves and sums. With "float32", rows of float32 reach the
        leaves that they reach here.
    allow_rounding : bool, default=False
        Whether the model may be rounded to float32.

    Raises
    ------
    ImportError
        The package onnx is not installed.
    sklearn.exceptions.NotFittedError
    ValueError
        A parameter is unknown; the model would be rounded, which ``allow_rounding`` does not
        accept, or has categories that ``target_opset`` cannot hold; it is not a sum of trees.
    OSError
        The file cannot be written.
    """
    if dtype not in ("float64", "float32"):
        raise ValueError(f'dtype must be "float64" or "float32", got {dtype!r}.')
    opsets = _opsets(target_opset)
    additive = described(model).single_valued()
    single = dtype == "float32"
    old = opsets["ai.onnx.ml"] < TREE_ENSEMBLE
    if old and additive.has_categories:
        raise ValueError(
            f"target_opset={target_opset!r} has no sets of categories, on which this model splits. "
            "Pass None, or fit it without categorical_features."
        )
    losses = ["its sums, leaves and thresholds are float32"] if single else []
    if old and not single:
        losses = ["sums of ai.onnx.ml before version 5 are float32"]
    refuse_rounding(allow_rounding, losses, "ONNX as chosen")
    try:
        import onnx
    except ImportError as error:
        raise ImportError("to_onnx needs the package onnx: pip install onnx.") from error
    made = _Graph(onnx, additive, np.dtype(dtype), old).model(opsets)
    onnx.checker.check_model(made)
    write(path, made.SerializeToString())


def _opsets(target: int | dict[str, int] | None) -> dict[str, int]:
    chosen = {"": target} if isinstance(target, int) else dict(target or {})
    if unknown := set(chosen) - set(DEFAULT_OPSETS):
        raise ValueError(
            f"target_opset has the domains {sorted(unknown)}; known are {sorted(DEFAULT_OPSETS)}."
        )
    opsets = DEFAULT_OPSETS | {domain: n for domain, n in chosen.items() if n is not None}
    for domain, oldest in OLDEST_OPSETS.items():
        if opsets[domain] < oldest:
            raise ValueError(
                f"target_opset must be at least {oldest} for the domain {domain!r}, got "
                f"{opsets[domain]}."
            )
    return opsets


OF_NODES = (
    "nodes_featureids", "nodes_splits", "nodes_modes", "nodes_truenodeids", "nodes_trueleafs",
    "nodes_falsenodeids", "nodes_falseleafs", "nodes_missing_value_tracks_true",
)  # fmt: skip
"""Attributes of TreeEnsemble with an entry for each node."""


class _Graph:
    """The graph of a model: the sum of the trees, and what follows it."""

    def __init__(self, onnx: Any, model: Additive, dtype: np.dtype, old: bool) -> None:
        self.onnx, self.source, self.dtype, self.old = onnx, model, dtype, old
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def model(self, opsets: dict[str, int]) -> Any:
        """Return the model with these versions of the operators."""
        helper = self.onnx.helper
        outputs = self._outputs()
        graph = helper.make_graph(
            self.nodes,
            self.source.kind,
            [self._value("X", self.dtype, self.source.forest.n_features)],
            outputs,
            self.constants,
        )
        versions = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        return helper.make_model(
            graph,
            opset_imports=versions,
            producer_name="gpuens",
            ir_version=helper.find_min_ir_version_for(versions),
        )

    def _outputs(self) -> list[Any]:
        model = self.source
        sums = self._sums()
        if model.n_averaged > 1:
            sums = self._op("Div", sums, self._constant(float(model.n_averaged)))
        raw = self._op("Identity", sums, name="raw_scores")
        outputs = [self._value(raw, self._sum_type, model.n_outputs)]
        scaled = raw if model.slope == 1.0 else self._op("Mul", raw, self._constant(model.slope))
        if model.classes is not None:
            return self._classes(raw, scaled) + outputs
        if model.link == "isolation":
            power = self._op("Exp", self._op("Mul", scaled, self._constant(np.log(2.0))))
            name = self._op("Neg", power, name="scores")
        elif model.link == "sorted":
            name = self._sorted(scaled)
        else:
            name = self._op(
                "Exp" if model.link == "exp" else "Identity", scaled, name="predictions"
            )
        return [self._value(name, self._sum_type, model.n_outputs), *outputs]

    def _sorted(self, scores: str) -> str:
        """Return the scores of each row in ascending order."""
        n = self._constant(self.source.n_outputs, np.int64, shape=(1,))
        outputs = ["predictions", "order"]
        given = {"axis": 1, "largest": 0, "sorted": 1}
        self.nodes.append(self.onnx.helper.make_node("TopK", [scores, n], outputs, **given))
        return outputs[0]

    def _classes(self, raw: str, scaled: str) -> list[Any]:
        model = self.source
        classes = np.asarray(model.classes)
        if model.n_outputs > 1:
            number = self._op("ArgMax", raw, axis=1, keepdims=0)
            apply = "Softmax" if model.link == "softmax" else "Identity"
            shares = self._op(apply, scaled, name="probabilities")
        elif len(classes) == 1:
            number = self._op("ArgMax", raw, axis=1, keepdims=0)
            shares = self._op("Identity", raw, name="probabilities")
        else:
            positive = self._op("Greater", raw, self._constant(0.0))
            column = self._op("Cast", positive, to=self.onnx.TensorProto.INT64)
            number = self._op("Squeeze", column, self._constant(1, np.int64, shape=(1,)))
            second = self._op("Sigmoid", scaled)
            first = self._op("Sub", self._constant(1.0), second)
            shares = self._op("Concat", first, second, name="probabilities", axis=1)
        named = classes if classes.dtype.kind in "iuf" else classes.astype(str).astype(object)
        if classes.dtype.kind in "bui":
            named = classes.astype(np.int64)
        labels = self._op("Gather", self._tensor(named), number, name="labels", axis=0)
        kind = self.onnx.TensorProto.STRING if named.dtype == object else named.dtype
        return [self._value(labels, kind), self._value(shares, self._sum_type, len(classes))]

    @property
    def _sum_type(self) -> np.dtype:
        return np.dtype(np.float32) if self.old else self.dtype

    def _sums(self) -> str:
        trees = list(self.source.trees())
        make = self._old_attributes if self.old else self._attributes
        operator = "TreeEnsembleRegressor" if self.old else "TreeEnsemble"
        n_outputs = self.source.n_outputs
        return self._op(operator, "X", domain="ai.onnx.ml", n_targets=n_outputs, **make(trees))

    def _attributes(self, trees: list[Tree]) -> dict[str, Any]:
        """Return the attributes of TreeEnsemble: nodes and leaves are numbered apart, over all
        trees. A tree that is a leaf becomes a node with that leaf on both sides."""
        columns = _columns_of(trees, self._rounded)
        dtypes: dict[str, Any] = {"nodes_splits": self.dtype, "nodes_modes": np.uint8}
        dtypes["leaf_weights"] = self.dtype
        if columns["membership_values"]:
            dtypes["membership_values"] = self.dtype
        else:
            del columns["membership_values"]
        tensors = {
            name: self._tensor_of(name, np.array(columns.pop(name), dtype))
            for name, dtype in dtypes.items()
        }
        return {**tensors, **columns, "aggregate_function": SUM, "post_transform": 0}

    def _old_attributes(self, trees: list[Tree]) -> dict[str, Any]:
        """Return the attributes of TreeEnsembleRegressor."""
        sizes = [tree.feature.size for tree in trees]
        leaf = np.concatenate([tree.is_leaf for tree in trees])
        tree_ids = np.repeat(np.arange(len(trees)), sizes)
        node_ids = np.concatenate([np.arange(n) for n in sizes])
        outputs = np.repeat([tree.output for tree in trees], sizes)
        thresholds = np.concatenate([self._rounded(tree.threshold) for tree in trees])
        values = np.concatenate([tree.value[:, 0] for tree in trees])

        def joined(name: str) -> np.ndarray:
            return np.maximum(np.concatenate([getattr(tree, name) for tree in trees]), 0)

        suffix = "_as_tensor" if self.dtype == np.float64 else ""
        splits, weights = np.where(leaf, 0.0, thresholds), values[leaf]
        numbers: dict[str, Any] = {"nodes_values": splits, "target_weights": weights}
        for name, array in numbers.items():
            array = array.astype(self.dtype)
            numbers[name] = self._tensor_of(name, array) if suffix else array.tolist()
        return {
            **{name + suffix: array for name, array in numbers.items()},
            "nodes_treeids": tree_ids.tolist(),
            "nodes_nodeids": node_ids.tolist(),
            "nodes_featureids": joined("feature").tolist(),
            "nodes_modes": ["LEAF" if is_leaf else "BRANCH_LEQ" for is_leaf in leaf.tolist()],
            "nodes_truenodeids": joined("left").tolist(),
            "nodes_falsenodeids": joined("right").tolist(),
            "nodes_missing_value_tracks_true": joined("missing_left").tolist(),
            "target_treeids": tree_ids[leaf].tolist(),
            "target_nodeids": node_ids[leaf].tolist(),
            "target_ids": outputs[leaf].tolist(),
            "aggregate_function": "SUM",
            "post_transform": "NONE",
        }

    def _rounded(self, threshold: np.ndarray) -> np.ndarray:
        """Return thresholds that part rows of the input's type as those of float64 do."""
        if self.dtype == np.float64:
            return threshold
        with np.errstate(over="ignore"):
            rounded = threshold.astype(np.float32)
        return np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)

    def _op(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        name = name or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def _constant(self, value: float, dtype: Any = None, shape: tuple[int, ...] = ()) -> str:
        return self._tensor(np.full(shape, value, dtype or self._sum_type))

    def _tensor(self, array: np.ndarray) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(self._tensor_of(name, array))
        return name

    def _tensor_of(self, name: str, array: np.ndarray) -> Any:
        if array.dtype == object:
            text = [_utf8(value) for value in array]
            kind = self.onnx.TensorProto.STRING
            return self.onnx.helper.make_tensor(name, kind, array.shape, text)
        return self.onnx.numpy_helper.from_array(array, name)

    def _value(self, name: str, kind: Any, *columns: int) -> Any:
        helper = self.onnx.helper
        if not isinstance(kind, int):
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        return helper.make_tensor_value_info(name, kind, [None, *columns])


def _columns_of(trees: list[Tree], rounded: Any) -> dict[str, list[Any]]:
    """Return the attributes of TreeEnsemble, tree after tree; ``rounded`` changes thresholds."""
    of_leaves = ("leaf_weights", "leaf_targetids", "tree_roots", "membership_values")
    found: dict[str, list[Any]] = {name: [] for name in (*OF_NODES, *of_leaves)}
    for tree in trees:
        leaf = tree.is_leaf
        first_node, first_leaf = len(found["nodes_modes"]), len(found["leaf_weights"])
        found["tree_roots"].append(first_node)
        found["leaf_weights"] += tree.value[leaf, 0].tolist()
        found["leaf_targetids"] += [tree.output] * int(leaf.sum())
        number = np.where(leaf, np.cumsum(leaf) - 1 + first_leaf, np.cumsum(~leaf) - 1 + first_node)
        child = list(zip(number.tolist(), leaf.astype(int).tolist(), strict=True))
        threshold, missing = rounded(tree.threshold).tolist(), tree.missing_left.tolist()
        nodes = [(0, 0.0, LESS_OR_EQUAL, *child[0], *child[0], 0)] if leaf.size == 1 else []
        for node in np.flatnonzero(~leaf).tolist():
            left, right = child[tree.left[node]], child[tree.right[node]]
            split, mode, missing_true = threshold[node], LESS_OR_EQUAL, missing[node]
            if node in tree.members:  # the list is the true branch; NaN is in no list
                members, goes_left = tree.members[node]
                left, right = (left, right) if goes_left else (right, left)
                split, mode, missing_true = 0.0, MEMBER, 0
                found["membership_values"] += [*members.tolist(), float("nan")]
            nodes.append((int(tree.feature[node]), split, mode, *left, *right, missing_true))
        for name, column in zip(OF_NODES, zip(*nodes, strict=True), strict=True):
            found[name] += column
    return found


def _utf8(label: str) -> bytes:
    try:
        return label.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"ONNX holds labels in UTF-8, which the class {label!r:.60} has none of: it contains "
            "half a surrogate pair. Give it another name and train again."
        ) from None
