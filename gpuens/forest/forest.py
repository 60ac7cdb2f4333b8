"""The frozen model of grown trees, which is predicted with, saved, inspected and exported."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from ..devices.placement import CPU, Device, is_streamed
from ..devices.sparse_tables import SparseTable
from ..devices.transfer import in_pieces
from ..kernels.prediction.traverse import Trees, leaf_indices, traverse
from ..kernels.runtime.arrays import Array
from ..kernels.scalars.lazy_jit import lazy_property


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees as flat arrays (NumPy, read-only), nodes of each tree breadth first.

    A tree adds ``value[leaf, j]`` to column ``output + j`` of the raw prediction, for every j
    below its width. Boosting grows trees of width 1, one for each output. The trees of a random
    forest are as wide as the raw prediction: a classification tree holds the shares of the
    classes, of all outputs side by side, a regression tree the mean of each output. Their base is
    zero, and the estimator divides the sum by the number of trees.

    A feature with ``n_categories > 0`` may be split by categories. They are the numbers
    0, 1, … ``n_categories - 1``; any other number in such a feature counts as missing.

    Parameters
    ----------
    n_features : int
    base : float64, shape (n_outputs,)
        Raw prediction before the first tree.
    offset : int64, shape (n_trees + 1,)
        Tree t owns entries ``offset[t]:offset[t + 1]`` of the node arrays.
    output : int32, shape (n_trees,)
        The first column of the raw prediction that a tree adds to.
    feature : int32, shape (n_nodes,)
        -1 at a leaf.
    threshold : float64, shape (n_nodes,)
        ``x <= threshold`` goes left; raw feature values, never bin numbers.
    missing_left : uint8, shape (n_nodes,)
        Whether a missing value goes left.
    left, right : int32, shape (n_nodes,)
        Children, counted from the root of their tree, ``right == left + 1``; -1 at a leaf.
    category_begin : int32, shape (n_nodes,)
        The first word in ``categories`` of a split by categories; -1 elsewhere.
    value : float64, shape (n_nodes, width)
        What a leaf adds to the raw prediction; at an inner node what it would add as a leaf, or
        the mean of its children for losses whose leaf values are quantiles.
    gain : float64, shape (n_nodes,)
        Boosting: improvement of the loss's second-order model by the split. Otherwise its
        decrease of the impurity, times the weight of the node's training rows. 0 at a leaf.
    impurity : float64, shape (n_nodes,) or (0,)
        Empty for boosting.
    n_samples : int32, shape (n_nodes,)
        Training rows, each counted once.
    cover : float64, shape (n_nodes,)
        Weight of the training rows; boosting: sum of their hessians.
    categories : uint32, shape (n_words,)
        Category c of a split of feature f goes left if bit ``c % 32`` of word
        ``category_begin + c // 32`` is set; a split has ``(n_categories[f] + 31) // 32`` words.
        In the order of the trees.
    n_categories : int32, shape (n_features,)
        0 for a numeric feature.
    """

    n_features: int
    base: np.ndarray
    offset: np.ndarray
    output: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    left: np.ndarray
    right: np.ndarray
    category_begin: np.ndarray
    value: np.ndarray
    gain: np.ndarray
    impurity: np.ndarray
    n_samples: np.ndarray
    cover: np.ndarray
    categories: np.ndarray
    n_categories: np.ndarray

    def __post_init__(self) -> None:
        for _, array in self._arrays():
            array.flags.writeable = False

    def _arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                yield field.name, value

    @classmethod
    def empty(
        cls, n_features: int, base: np.ndarray, width: int = 1, n_categories: Any = None
    ) -> Forest:
        """Return a forest without trees; ``n_categories`` may be left out if all features are
        numeric."""
        if n_categories is None:
            n_categories = np.zeros(n_features, np.int32)
        nodes: dict[str, Any] = {name: np.empty(0, dtype) for name, dtype in NODE_ARRAYS.items()}
        return cls(
            n_features=n_features,
            base=np.array(base, np.float64),
            offset=np.zeros(1, np.int64),
            output=np.empty(0, np.int32),
            categories=np.empty(0, np.uint32),
            n_categories=np.array(n_categories, np.int32),
            **nodes | {"value": np.empty((0, width))},
        )

    @classmethod
    def concatenate(cls, forests: Sequence[Forest]) -> Forest:
        """Return the trees of several forests (at least one), one forest after the other.

        Raises
        ------
        ValueError
            If they differ in their features, base, width or categories, or if only some have
            impurities.
        """
        if not all(_joinable(forests[0], forest) for forest in forests):
            raise ValueError(
                "The forests to concatenate differ in n_features, base, n_categories, or the "
                "width of value: train them on the same features and outputs."
            )
        nodes = {
            name: np.concatenate([getattr(forest, name) for forest in forests])
            for name in NODE_ARRAYS
        }
        if nodes["impurity"].size not in (0, nodes["feature"].size):
            raise ValueError(
                "Some of the forests to concatenate have impurities, others do not: train them "
                "with the same kind of estimator."
            )
        return _joined(forests, nodes)

    @property
    def n_trees(self) -> int:
        return self.output.size

    @property
    def n_outputs(self) -> int:
        return self.base.size

    @property
    def width(self) -> int:
        """The number of values of a leaf."""
        return self.value.shape[1]

    @property
    def n_columns(self) -> int:
        """The number of columns that splits can be of: the features."""
        return self.n_features

    @property
    def used_features(self) -> np.ndarray:
        """The features that the trees use, ascending."""
        return np.unique(self.feature[self.feature >= 0])

    @property
    def categories_of_features(self) -> np.ndarray:
        """The number of categories of each feature, int32, 0 for a numeric one."""
        return self.n_categories

    def by_feature(self, of_columns: np.ndarray) -> np.ndarray:
        """Return values of the columns, which are on the last axis, as values of the features."""
        return of_columns

    @property
    def n_leaves(self) -> np.ndarray:
        """The number of leaves of each tree, int64."""
        return np.add.reduceat((self.feature < 0).astype(np.int64), self.offset[:-1])

    def fingerprint(self) -> str:
        """Return the SHA-256 of all arrays: equal for equal models on all devices."""
        digest = hashlib.sha256(str(self.n_features).encode())
        for name, array in self._arrays():
            digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
            digest.update(array.astype(array.dtype.newbyteorder("<"), order="C", copy=False).data)
        return digest.hexdigest()

    def raw_predict(self, X: Array, device: Device = CPU) -> Array:
        """Return the sum of the trees' values.

        Parameters
        ----------
        X : float32 or float64, shape (n_rows, n_features)
            On ``device``, or in host memory, from where it comes to a GPU in pieces; or a
            ``SparseTable``. NaN is missing.

        Returns
        -------
        float64, shape (n_outputs, n_rows), on ``device``
        """
        with device.active():
            xp = device.xp
            raw = xp.empty((self.n_outputs, X.shape[0]), dtype=xp.float64)
            if not self.n_trees:
                raw[...] = device.asarray(self.base)[:, None]
                return raw
            raw[...] = self._on(device)[1]
            if not is_streamed(X, device):
                self._add_rows(raw, X, device)
                return raw
            self._add_pieces(raw, X, device)
        return raw

    def add_to(self, raw: Array, X: Array, device: Device = CPU) -> None:
        """Add the sum of the trees' values to raw predictions, in place; X as in
        ``raw_predict``."""
        if self.n_trees == 0:  # before training; X is not even looked at
            return
        with device.active():
            if is_streamed(X, device):
                self._add_pieces(raw, X, device)
            else:
                self._add_rows(raw, X, device)

    def _add_rows(self, raw: Array, X: Array, device: Device) -> None:
        """Add the sum of the trees' values of rows that are on the device."""
        traverse(self._trees_on(device), X, raw)

    def _add_pieces(self, raw: Array, X: Array, device: Device) -> None:
        for rows, forest, piece in self._pieces(X, device):
            part = raw[:, rows].copy()
            forest._add_rows(part, piece, device)
            raw[:, rows] = part

    def _pieces(self, X: Any, device: Device) -> Iterator[tuple[slice, Forest, Array]]:
        """Yield the rows of a table that is not on the device, in pieces, with the trees that read
        them: of a sparse table only the columns that they use become dense."""
        if not isinstance(X, SparseTable):
            for rows, piece in in_pieces(X, device.xp):
                yield rows, self, piece
            return
        features, forest = self._narrow
        for rows, block in X.blocks(features):
            yield rows, forest, device.asarray(block)

    @lazy_property
    def _narrow(self) -> tuple[np.ndarray, Forest]:
        """The features that the trees use, at least one, and the same trees on these alone."""
        used = self.used_features
        features = used if used.size else np.zeros(1, self.feature.dtype)
        return features, self._with_features(features)

    def _with_features(self, features: np.ndarray) -> Self:
        """Return the same trees on a table of some features, ascending, that include all theirs."""
        place = np.searchsorted(features, self.feature).astype(self.feature.dtype)
        return replace(
            self,
            n_features=features.size,
            feature=np.where(self.feature >= 0, place, self.feature),
            n_categories=self.n_categories[features],
        )

    def tree_predict(self, X: Array, device: Device = CPU) -> Array:
        """Return the values that each tree adds.

        Returns
        -------
        float64, shape (n_rows, n_trees), on ``device``
            With leaves of several values (n_rows, n_trees, width).
        """
        value = self._trees_on(device).value
        with device.active():
            added = value[self.apply(X, device) + device.asarray(self.offset[:-1])]
        return added[..., 0] if self.width == 1 else added

    def apply(self, X: Array, device: Device = CPU) -> Array:
        """Return the leaf that each row ends in; X as in ``raw_predict``.

        Returns
        -------
        int32, shape (n_rows, n_trees), on ``device``
            Node numbers counted from the root of each tree.
        """
        with device.active():
            if not is_streamed(X, device):
                return self._leaves(X, device)
            leaf = device.xp.empty((X.shape[0], self.n_trees), dtype=device.xp.int32)
            for rows, forest, piece in self._pieces(X, device):
                leaf[rows] = forest._leaves(piece, device)
        return leaf

    def _leaves(self, X: Array, device: Device) -> Array:
        """Return the leaves of rows that are on the device."""
        return leaf_indices(self._trees_on(device), X)

    def slice(self, first: int, last: int) -> Self:
        """Return the forest of trees ``first … last - 1``, as views where possible."""
        start, stop = int(self.offset[first]), int(self.offset[last])
        nodes = {name: getattr(self, name)[start:stop] for name in NODE_ARRAYS}
        first_word, last_word = self._words_of(start, stop)
        if first_word > 0:
            begin = nodes["category_begin"]
            nodes["category_begin"] = np.where(begin >= 0, begin - np.int32(first_word), begin)
        return replace(
            self,
            offset=self.offset[first : last + 1] - start,
            output=self.output[first:last],
            categories=self.categories[first_word:last_word],
            **nodes,
        )

    def _words_of(self, start: int, stop: int) -> tuple[int, int]:
        """Return the range of ``categories`` that belongs to a range of the nodes."""
        splits = start + np.flatnonzero(self.category_begin[start:stop] >= 0)
        if splits.size == 0:
            return 0, 0
        begin = self.category_begin[splits]
        end = begin + (self.n_categories[self.feature[splits]] + 31) // 32
        return int(begin.min()), int(end.max())

    def _trees_on(self, device: Device) -> Trees:
        """Return the arrays that prediction reads."""
        return self._on(device)[0]

    def _on(self, device: Device) -> tuple[Trees, Array]:
        """Return the arrays that prediction reads, and ``base`` as a column, copied to a device
        once."""
        kept: dict[Device, tuple[Trees, Array]] = self.__dict__.setdefault("_kept", {})
        if device not in kept:
            trees = Trees(*(device.asarray(getattr(self, f)) for f in Trees._fields))
            kept[device] = device.settled((trees, device.asarray(self.base)[:, None]))
        return kept[device]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is derived, including everything on a GPU."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()


NODE_ARRAYS: dict[str, Any] = {
    "feature": np.int32,
    "threshold": np.float64,
    "missing_left": np.uint8,
    "left": np.int32,
    "right": np.int32,
    "category_begin": np.int32,
    "value": np.float64,
    "gain": np.float64,
    "impurity": np.float64,
    "n_samples": np.int32,
    "cover": np.float64,
}
"""The fields with one entry a node."""
NOTHING = np.empty(0)


def _joinable(a: Forest, b: Forest) -> bool:
    return (
        a.n_features == b.n_features
        and a.width == b.width
        and np.array_equal(a.base, b.base)
        and np.array_equal(a.n_categories, b.n_categories)
    )


def _joined(forests: Sequence[Forest], nodes: dict[str, Any]) -> Forest:
    """Return the trees of several forests, whose nodes are in ``nodes`` one behind the other."""
    first_node = np.cumsum([0] + [int(forest.offset[-1]) for forest in forests])
    n_words = np.cumsum([0] + [forest.categories.size for forest in forests]).astype(np.int32)
    if n_words[-1]:
        before = np.repeat(n_words[:-1], np.diff(first_node))
        begin = nodes["category_begin"]
        nodes["category_begin"] = begin + before * (begin >= 0)
    offsets = [f.offset[1:] + n for f, n in zip(forests, first_node[:-1], strict=True)]
    joined: dict[str, Any] = {
        "offset": np.concatenate([np.zeros(1, np.int64), *offsets]),
        **{
            name: np.concatenate([getattr(forest, name) for forest in forests])
            for name in ("output", "categories")
        },
    }
    return replace(forests[0], **nodes, **joined)


SPARE = 1.05
"""Room for nodes, relative to those that are expected."""


class ForestRoom:
    """The trees of a forest that grows, in arrays with room for those to come.

    The pages of arrays that are joined at the end would be touched twice, and memory that is
    touched for the first time costs up to a fifth of the growth of deep trees. There is room from
    the second batch on: before, the caller can refuse a forest that would be too large.

    Parameters
    ----------
    n_trees : int
        Trees that the forest will have, which are expected to be as large as those so far.
    """

    def __init__(self, n_trees: int) -> None:
        self._n_trees = n_trees
        # Each part, and the number of nodes behind its last one.
        self._parts: list[tuple[Forest, int]] = []
        self._nodes: dict[str, np.ndarray] = {}

    @property
    def is_empty(self) -> bool:
        return not self._parts

    def append(self, forest: Forest) -> None:
        """Add trees of the same features and outputs, with impurities."""
        if not self._parts:
            self._parts = [(forest, forest.feature.size)]
            return
        first, begin = self._parts[0][0], self._parts[-1][1]
        end = begin + forest.feature.size
        if not self._nodes or end > self._nodes["feature"].shape[0]:
            n_done = sum(part.n_trees for part, _ in self._parts) + forest.n_trees
            expected = int(SPARE * end * self._n_trees / n_done)
            self._make_room(begin, max(end, expected if n_done < self._n_trees else end))
        for name, room in self._nodes.items():
            room[begin:end] = getattr(forest, name)
        own = _without_nodes(forest), end
        # One step of Python each: Ctrl-C leaves the trees of before, or all of these.
        if len(self._parts) == 1:
            self._parts = [(_without_nodes(first), begin), own]
        else:
            self._parts.append(own)

    def _make_room(self, n_nodes: int, n: int) -> None:
        """Move the nodes so far, of the first part or of smaller room, to larger room."""
        before = self._nodes or vars(self._parts[0][0])
        nodes = {}
        for name in NODE_ARRAYS:
            values = before[name]
            nodes[name] = np.empty((n, *values.shape[1:]), values.dtype)
            nodes[name][:n_nodes] = values[:n_nodes]
        self._nodes = nodes

    def forest(self) -> Forest:
        """Return all trees."""
        parts = [part for part, _ in self._parts]
        if len(parts) == 1:
            return parts[0]
        n_nodes = self._parts[-1][1]
        nodes = {name: room[:n_nodes] for name, room in self._nodes.items()}
        if 2 * n_nodes < self._nodes["feature"].shape[0]:  # of a training that was ended
            nodes = {name: values.copy() for name, values in nodes.items()}
        return _joined(parts, nodes)


def _without_nodes(forest: Forest) -> Forest:
    """Return what ``_joined`` needs of a forest, which does not hold the memory of its nodes."""
    nodes: dict[str, Any] = {name: np.array(getattr(forest, name)[:0]) for name in NODE_ARRAYS}
    return replace(forest, **nodes)
