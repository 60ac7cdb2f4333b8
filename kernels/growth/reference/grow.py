"""Growth driven from the host, one operation after the other: the oracle of all loops of growth.

The control, shared with the CPU's compiled loop and the device's, is in ``kernels.growth.control``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...runtime.compilation import arguments, callable_from_python
from ...runtime.dtypes import NUMERIC, Codes, TreeRecords
from ...runtime.reference.arrays import to_host
from ...scalars import gain as formulas
from ...scalars.primitives import mul, vectorise
from .. import control as growth_control
from .. import frontier as fr
from .. import levels as growth_levels
from .. import limits as growth_limits
from ..frontier import Frontier
from ..grow import GrownTrees, finished
from ..params import NO_RULES, FeatureRules, GrowthParams
from ..sparse_codes import SparseCodes
from .histogram import histogram
from .levels import Level, split_level
from .partition import partition, scatter_leaves
from .split import CategorySplits, NodeBounds, Splits, split

(
    start,
    choose,
    commit,
    settle,
    release,
    can_split,
    least_h,
    l2_of,
    row_h,
    scale_h,
    category_l2,
    allow_features,
    take_level,
    least_h_of_level,
    allow_for_level,
) = (
    callable_from_python(function)
    for function in (
        growth_control.start,
        growth_control.choose,
        growth_control.commit,
        growth_control.settle,
        growth_control.release,
        growth_limits.can_split,
        growth_limits.least_h,
        growth_limits.l2_of,
        growth_limits.row_h,
        growth_limits.scale_h,
        growth_limits.category_l2,
        growth_limits.allow_features,
        growth_levels.take_level,
        growth_limits.least_h_of_level,
        growth_limits.allow_for_level,
    )
)

category_least_h = vectorise(formulas.category_least_h)


def grow(
    codes: Codes | SparseCodes,
    n_bins: np.ndarray,
    records: TreeRecords,
    keys: np.ndarray,
    params: GrowthParams,
    rules: FeatureRules = NO_RULES,
) -> GrownTrees:
    if isinstance(codes, SparseCodes):
        codes = codes.dense(np.arange(n_bins.size))
    n_rows = int(codes.columns.shape[1])
    n_trees, n_records = records.words.shape
    frontier = fr.allocate([n_records] * n_trees, keys, params, n_bins, rules)
    fr.set_statistics(frontier, to_host(records.sums), records.scales)
    control = arguments(frontier)
    start(control, params)
    words = array_namespace(records.words).reshape(records.words, (-1,))
    batch = _Batch(codes, n_bins, words, params, frontier)
    batch.find_splits()
    while choose(control, params, growth_control.HALF):
        batch.partition()
        commit(control, params)
        batch.find_splits()
    return batch.result(n_rows)


class _Batch:
    """The trees under construction: the tables of ``frontier`` and the kept histograms."""

    def __init__(
        self,
        codes: Codes,
        n_bins: np.ndarray,
        records: Array,
        params: GrowthParams,
        frontier: Frontier,
    ) -> None:
        self.codes = codes
        self.n_bins = n_bins
        self.records = records
        self.params = params
        self.frontier = frontier
        self.control = arguments(frontier)
        self.nodes = frontier.nodes
        self.kept: dict[int, Any] = {}
        self.xp = array_namespace(records)

    def partition(self) -> None:
        expand = self.frontier.expand[: self.frontier.state[fr.N_EXPAND]]
        nodes = self.nodes[expand["node"]]
        left_codes = self.frontier.left_codes
        expand["n_left"] = partition(
            self.codes,
            self.records,
            nodes["begin"],
            nodes["end"],
            nodes["feature"].astype(np.int32),
            nodes["bin"].astype(np.int32),
            nodes["missing_left"].astype(np.uint8),
            left_codes[expand["node"]] if left_codes.size else left_codes,
        )

    def find_splits(self) -> None:
        """Find the best splits of the round's pairs from their histograms, then those of the
        nodes to recheck."""
        frontier, params, state = self.frontier, self.params, self.frontier.state
        pairs = frontier.pairs[: state[fr.N_PAIRS]].tolist()
        for (x, sibling), sums in zip(pairs, self.sums(self.records, pairs), strict=True):
            self.kept[self.slot(x)] = sums
            if sibling >= 0:
                slot = self.slot(sibling)
                self.kept[slot] = self.kept[slot] - sums
        new = [x for pair in pairs for x in pair if x >= 0]
        if params.is_symmetric:
            self.split_levels()
            return
        splittable = [x for x in new if can_split(self.control, params, x)]
        for x in set(new).difference(splittable):
            release(self.control, x)
        self.settle(splittable, self.best_splits(splittable))
        recheck = frontier.recheck[: state[fr.N_RECHECK]].tolist()
        state[fr.N_RECHECK] = 0
        self.settle(recheck, self.best_splits_counted(recheck))

    def split_levels(self) -> None:
        """Find the best splits of the levels of all trees."""
        frontier, params, control = self.frontier, self.params, self.control
        for node in range(frontier.state[fr.N_NODES]):
            if not can_split(control, params, node):
                release(control, node)
        for t, tree in enumerate(frontier.trees):
            if tree["n_open"] <= 0:
                continue
            x = frontier.heap[tree["first"] :][: tree["n_open"]].copy()
            monotone = frontier.rules["monotone"] if frontier.rules.size else 0 * self.n_bins
            best = split_level(
                self.level(x), self.n_bins, self.allowed_for_level(t), monotone.astype(np.int8),
                self.categories_of_level(x),
            )  # fmt: skip
            if not take_level(control, params, t, best.score):
                continue
            for name in ("feature", "bin", "missing_left"):
                self.nodes[name][x] = getattr(best, name)
            self.nodes["left_g"][x], self.nodes["left_h"][x] = best.left.T
            scale_g, scale_of_h = tree["scale_g"], tree["scale_h"]
            self.nodes["gain"][x] = best.gain / scale_g / scale_g * scale_of_h
            if best.left_codes.size:
                frontier.left_codes[x] = best.left_codes

    def level(self, x: np.ndarray) -> Level:
        """Return what a search for the split of a level takes."""
        control, params, nodes = self.control, self.params, self.nodes[x]
        return Level(
            np.stack([to_host(self.kept[self.slot(k)]) for k in x]),
            np.stack([nodes["g"], nodes["h"]], axis=1),
            np.array([least_h_of_level(control, params, k) for k in x]),
            np.array([l2_of(control, params, k) for k in x]),
            np.array([category_l2(control, params, k) for k in x]),
            nodes["low"],
            nodes["high"],
        )

    def categories_of_level(self, x: np.ndarray) -> CategorySplits | None:
        """Return how a level is split by categories, whose order is that of all its nodes."""
        kind = self.frontier.rules["kind"].astype(np.int32)
        if not (kind != NUMERIC).any():
            return None
        smooth, nodes = self.frontier.rules["cat_smooth"], self.nodes[x]
        row_h_of_all = nodes["h"].sum() / (nodes["end"] - nodes["begin"]).sum()
        least_h = category_least_h(smooth, row_h_of_all)
        smoothing = mul(smooth, scale_h(self.control, x[0]))
        return CategorySplits(kind, least_h[None], smoothing[None], np.zeros(1))

    def allowed_for_level(self, t: int) -> np.ndarray:
        """Return the mask of the features that the next level of a tree may use."""
        n_features = self.n_bins.size
        mask = np.empty(n_features, np.uint8)
        features, scratch = np.empty(n_features, np.int64), np.empty(n_features, np.uint64)
        allow_for_level(self.control, self.params, t, features, scratch, mask)
        return mask

    def slot(self, x: int) -> int:
        return int(self.nodes["slot"][x])

    def sums(self, records: Array, pairs: list[tuple[int, int]]) -> list[Array]:
        """Add up the histograms of the pairs' first nodes from their rows."""
        if not pairs:
            return []
        nodes = self.nodes[[x for x, _ in pairs]]
        total = histogram(self.codes, records, nodes["begin"].copy(), nodes["end"].copy())
        return [total[k, ...] for k in range(len(pairs))]

    def best_splits(self, x: list[int], counts: Sequence[Array] = ()) -> Splits:
        """Compare the splits of nodes, with exact row counts where they are given."""
        params, xp = self.params, self.xp
        if not x:
            return Splits(*[np.empty(0)] * 6)
        none = xp.zeros((0, 0, 0), dtype=xp.int32, device=device(self.records))
        nodes = self.nodes[x]
        histograms = [
            self.kept[slot] if slot >= 0 else self.sums(self.records, [(k, -1)])[0]
            for k, slot in zip(x, nodes["slot"].tolist(), strict=True)
        ]
        return split(
            xp.stack(histograms),
            self.n_bins,
            np.stack([nodes["g"], nodes["h"]], axis=1),
            np.array([least_h(self.control, params, k) for k in x]),
            np.array([l2_of(self.control, params, k) for k in x]),
            self.allowed(x),
            xp.concat(counts) if counts else none,
            params.min_samples_leaf,
            self.bounds(x),
            self.categories(x),
        )

    def bounds(self, x: list[int]) -> NodeBounds | None:
        """Return the monotone constraints on the splits of nodes."""
        monotone = self.frontier.rules["monotone"].astype(np.int8)
        nodes = self.nodes[x]
        return NodeBounds(monotone, nodes["low"], nodes["high"]) if monotone.any() else None

    def categories(self, x: list[int]) -> CategorySplits | None:
        """Return how nodes are split by categories."""
        kind = self.frontier.rules["kind"].astype(np.int32)
        if not (kind != NUMERIC).any():
            return None
        smooth = self.frontier.rules["cat_smooth"]
        least_h = [category_least_h(smooth, row_h(self.control, k)) for k in x]
        smoothing = [mul(smooth, scale_h(self.control, k)) for k in x]
        l2 = [category_l2(self.control, self.params, k) for k in x]
        return CategorySplits(kind, *map(np.array, (least_h, smoothing, l2)))

    def best_splits_counted(self, x: list[int]) -> Splits:
        """Find the best splits of nodes that leave enough rows (see ``Frontier.recheck``)."""
        counted_records = (self.records & 0xFFFFFFFF) | 2**32  # a hessian of one counts rows
        counted = self.sums(counted_records, [(k, -1) for k in x])
        return self.best_splits(x, [sums[1:2, ...] for sums in counted])

    def settle(self, x: list[int], best: Splits) -> None:
        """Write the nodes' splits into the table."""
        for name in ("feature", "bin", "missing_left", "left_g", "left_h"):
            self.nodes[name][x] = getattr(best, name)
        if best.left_codes.size:
            self.frontier.left_codes[x] = best.left_codes
        for k, score in zip(x, best.score, strict=True):
            settle(self.control, self.params, k, score)

    def allowed(self, x: list[int]) -> np.ndarray:
        """Return the mask of the features that each node may use."""
        n_features = self.n_bins.size
        mask = np.empty((len(x), n_features), np.uint8)
        features, scratch = np.empty(n_features, np.int64), np.empty(n_features, np.uint64)
        for k, row in zip(x, mask, strict=True):
            allow_features(self.control, self.params, k, features, scratch, row)
        return mask

    def result(self, n_rows: int) -> GrownTrees:
        trees = finished(self.frontier, self.params)
        nodes = self.nodes[: self.frontier.state[fr.N_NODES]]
        ends = nodes[nodes["child"] < 0]
        ends = ends[np.argsort(ends["begin"], kind="stable")]
        leaf = scatter_leaves(
            self.records,
            ends["begin"].copy(),
            ends["end"].copy(),
            ends["tree"].astype(np.int32),
            ends["leaf"].astype(np.int32),
            (self.frontier.trees.size, n_rows),
        )
        return trees._replace(leaf=leaf)
