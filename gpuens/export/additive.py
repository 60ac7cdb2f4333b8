"""The form in which a model is exported: a sum of trees, and the function of the sum.

All formats hold trees whose leaves are added up, and a function of the sum. They differ in how a
split treats values that no category of its set names, in the type of their sums, and in whether
there is a number to start from. Here the three are brought into one form:

- The base of the raw prediction is added to the leaves of each output's first tree. Sums that
  begin with zero then pass through the same float64 numbers as those that begin with the base.
- A split by categories is turned so that one child gets the categories of a list and the other
  one everything else, missing values included.
- Trees whose leaves hold several values can be taken apart into trees of one value.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ..files import replacing
from ..forest import sum_of_trees
from ..forest.forest import NODE_ARRAYS, Forest
from ..forest.plain import require_plain_trees
from ..forest.sum_of_trees import Link, NotASumOfTreesError, SumOfTrees


class Tree(NamedTuple):
    """The nodes of one tree; children are counted from its root. See ``Forest``."""

    output: int
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    gain: np.ndarray
    n_samples: np.ndarray
    cover: np.ndarray
    members: dict[int, tuple[np.ndarray, bool]]
    """For each split by categories: the categories of its list, ascending, and whether they go
    left. All other values, missing ones included, go to the other child."""

    @property
    def is_leaf(self) -> np.ndarray:
        return self.feature < 0


@dataclass(frozen=True, eq=False)
class Additive:
    """A model as a sum of trees.

    ``forest`` has a base of zero, ``kind`` is the name of the estimator's class. The sum is divided
    by ``n_averaged``, the trees of a forest or 1. ``link`` leads from raw scores, times ``slope``,
    to predictions: "identity", "exp", "logistic", "softmax", "sorted" (ascending in each row) or
    "isolation" (``-2 ** score``). ``classes`` are ascending labels, None for regression."""

    kind: str
    forest: Forest
    n_averaged: int
    link: str
    slope: float
    names: list[str]
    classes: np.ndarray | None

    @property
    def n_outputs(self) -> int:
        return self.forest.n_outputs

    @property
    def name(self) -> str:
        """The name of the model in error messages."""
        return f"{self.kind} with several quantiles" if self.link == "sorted" else self.kind

    @property
    def has_categories(self) -> bool:
        return bool((self.forest.category_begin >= 0).any())

    def trees(self) -> Iterator[Tree]:
        """Iterate over the trees as they are."""
        return map(self._tree, range(self.forest.n_trees))

    def single_valued(self) -> Additive:
        """Return the same sums by trees whose leaves hold one value each: a tree of several
        values becomes as many trees."""
        forest = self.forest
        if forest.width == 1:
            return self
        parts = []
        for t in range(forest.n_trees):
            tree = forest.slice(t, t + 1)
            for j in range(forest.width):
                column = np.ascontiguousarray(tree.value[:, j : j + 1])
                parts.append(replace(tree, value=column, output=tree.output + np.int32(j)))
        return replace(self, forest=Forest.concatenate(parts))

    def by_rounds(self) -> list[list[Tree]]:
        """Return trees of one value by rounds: in every round one tree for each output, with a
        leaf of zero where an output has fewer trees."""
        of_output: list[list[Tree]] = [[] for _ in range(self.n_outputs)]
        for tree in self.single_valued().trees():
            of_output[tree.output].append(tree)
        n_rounds = max(map(len, of_output))
        for output, trees in enumerate(of_output):
            trees += [_leaf(output, 0.0)] * (n_rounds - len(trees))
        return [list(round_) for round_ in zip(*of_output, strict=True)]

    def _tree(self, t: int) -> Tree:
        forest = self.forest
        nodes = slice(int(forest.offset[t]), int(forest.offset[t + 1]))
        fields = {
            name: getattr(forest, name)[nodes] for name in Tree._fields if name in NODE_ARRAYS
        }
        splits = np.flatnonzero(forest.category_begin[nodes] >= 0).tolist()
        members = {node: self._members(nodes.start + node) for node in splits}
        return Tree(output=int(forest.output[t]), members=members, **fields)

    def _members(self, node: int) -> tuple[np.ndarray, bool]:
        forest = self.forest
        n = int(forest.n_categories[forest.feature[node]])
        begin = int(forest.category_begin[node])
        words = forest.categories[begin : begin + (n + 31) // 32].astype("<u4")
        goes_left = np.unpackbits(words.view(np.uint8), bitorder="little")[:n] != 0
        others_left = bool(forest.missing_left[node])
        return np.flatnonzero(goes_left != others_left), not others_left


def _leaf(output: int, value: float) -> Tree:
    one = {name: np.zeros(1, dtype) for name, dtype in NODE_ARRAYS.items() if name in Tree._fields}
    child = np.full(1, -1, np.int32)
    one |= {"feature": child, "left": child, "right": child, "value": np.full((1, 1), value)}
    return Tree(output=output, members={}, **one)


def described(model: Any) -> Additive:
    """Return the sum of trees that a fitted model is. Raises a NotFittedError, or a ValueError if
    it is not a sum of trees of this package, or has several outputs of classes."""
    check_is_fitted(model)
    trees, link = _linked(model)
    instead = "use model.save and gpuens.load, or "
    require_plain_trees(trees.forest, "An export for other libraries", instead)
    classes = model.classes_ if is_classifier(model) else None
    if isinstance(classes, list):
        raise ValueError(
            f"model must predict one output of classes, this one predicts {len(classes)}. Fit and "
            "export one model for each output."
        )
    _warn_of_codes(trees.categories)
    names = getattr(model, "feature_names_in_", None)
    n_features = trees.forest.n_features
    return Additive(
        kind=type(model).__name__,
        forest=_without_base(trees.forest),
        n_averaged=trees.n_averaged,
        link=link.name,
        slope=link.slope,
        names=[f"f{i}" for i in range(n_features)] if names is None else names.tolist(),
        classes=classes,
    )


def _linked(model: Any) -> tuple[SumOfTrees, Link]:
    try:
        trees = sum_of_trees.described(model)
    except NotASumOfTreesError as error:
        reason = str(error)
    else:
        if trees is not None and trees.link is not None:
            return trees, trees.link
        only = "only gradient boosting, trees, forests, bagging and AdaBoost can be"
        reason = only if trees is None else trees.unlinked
    raise ValueError(
        f"{type(model).__name__} cannot be exported as a sum of trees: {reason}. Save it with "
        "model.save(path)."
    )


def _warn_of_codes(categories: Sequence[np.ndarray | None]) -> None:
    """Warn of categories that other libraries see as their numbers."""
    renamed = [
        f
        for f, of_feature in enumerate(categories)
        if of_feature is not None and of_feature.tolist() != list(range(len(of_feature)))
    ]
    if renamed:
        warnings.warn(
            f"The features {renamed} hold categories that the exported model knows by their "
            "numbers alone: 0, 1, ... in ascending order of the training values. Encode them so "
            "before predicting elsewhere.",
            UserWarning,
            stacklevel=5,
        )


def _without_base(forest: Forest) -> Forest:
    """Return a forest of base zero: the base moves to the leaves of each output's first tree."""
    base = forest.base
    value = forest.value.copy()
    parts = []
    for output in np.flatnonzero(base):
        trees = np.flatnonzero((forest.output <= output) & (output < forest.output + forest.width))
        if trees.size == 0:
            parts.append(_constant(forest, int(output), float(base[output])))
            continue
        nodes = slice(int(forest.offset[trees[0]]), int(forest.offset[trees[0] + 1]))
        value[nodes, output - forest.output[trees[0]]] += base[output]
    zero = np.zeros_like(base)
    changed = replace(forest, base=zero, value=value)
    return Forest.concatenate([*(replace(p, base=zero) for p in parts), changed])


def _constant(forest: Forest, output: int, value: float) -> Forest:
    """Return a tree that is a leaf, with the features of a forest."""
    nodes: dict[str, Any] = {name: np.zeros(1, dtype) for name, dtype in NODE_ARRAYS.items()}
    for name in ("feature", "left", "right", "category_begin"):
        nodes[name] -= 1
    nodes["value"] = np.zeros((1, forest.width))
    nodes["value"][0, 0] = value
    if forest.impurity.size == 0:
        nodes["impurity"] = np.empty(0)
    empty = Forest.empty(forest.n_features, forest.base, forest.width, forest.n_categories)
    return replace(empty, offset=np.array([0, 1]), output=np.array([output], np.int32), **nodes)


def told_apart(names: list[str]) -> list[str]:
    """Return names of features, or their numbers where names that a format allows have become
    equal."""
    return names if len(set(names)) == len(names) else [f"f{i}" for i in range(len(names))]


def write(path: Any, content: str | bytes) -> None:
    """Write a file, whole or not at all."""
    write_all({Path(path): content})


def write_all(files: Mapping[Path, str | bytes]) -> None:
    """Write files that belong together: the first is replaced once all are complete."""
    with ExitStack() as stack:
        for path, content in files.items():
            unfinished = stack.enter_context(replacing(path))
            unfinished.write_bytes(content.encode() if isinstance(content, str) else content)


def refuse_rounding(allowed: bool, losses: Sequence[str], target: str) -> None:
    """Raise a ValueError that lists what an export would lose, unless that is allowed."""
    if losses and not allowed:
        raise ValueError(
            f"{target} cannot hold this model exactly: {'; '.join(losses)}. Pass "
            "allow_rounding=True to accept that, or use a format of float64: to_c, to_lightgbm, "
            "to_treelite or to_onnx."
        )
