"""Every operation with arguments as training and prediction give them, and the least that any
implementation must do for them: bytes read or written once, and additions to a histogram.

A row that is gathered counts as a whole line of the device's cache, whatever its width: memory
moves no less. Codes of a column that many rows are gathered from count once at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from gpuens.kernels.binning.bin_values import bin_values
from gpuens.kernels.cart.grow_cart import grow_cart
from gpuens.kernels.cart.problem import GINI, CartParams, CartTable, CartTarget
from gpuens.kernels.growth.histogram import histogram
from gpuens.kernels.growth.params import UNLIMITED
from gpuens.kernels.growth.partition import partition, scatter_leaves
from gpuens.kernels.growth.split import split
from gpuens.kernels.leaves.linear_sums import PathFeatures, linear_sums
from gpuens.kernels.leaves.newton_steps import leaf_sums
from gpuens.kernels.prediction.linear_leaves import LinearLeaves, add_linear_values
from gpuens.kernels.prediction.probabilities import probabilities
from gpuens.kernels.prediction.traverse import Trees, traverse, traverse_codes
from gpuens.kernels.runtime.dtypes import MAX_BINS, N_SLOTS, Codes, NodeValues, Scales
from gpuens.kernels.scalars.losses import BinomialLogLoss
from gpuens.kernels.statistics.add_leaf_values import add_leaf_values
from gpuens.kernels.statistics.gradients import gradients
from gpuens.kernels.statistics.quantise import quantise

NODES = 64
"""Nodes of a level whose rows are gathered, and of a tree's last level."""
DEPTH = 6
PATH = 5
"""Features of the linear function of a leaf."""
HISTOGRAM = 2 * N_SLOTS * 4
"""Bytes of one feature and node."""


class Place(Protocol):
    """The properties of a device that the cases need."""

    line: int
    """Bytes of a cache line."""
    blocks: int
    """Parts in which a table's histogram is computed: one for each thread of a CPU."""
    planes: int
    """Additions for one row and feature: one of a packed pair on the CPU, two on a GPU."""

    def put(self, array: np.ndarray) -> Any:
        """The array on the device."""


class Case(NamedTuple):
    """One operation on data of one size."""

    op: str
    call: Callable[[], Any]
    bytes: int
    updates: int = 0
    prepare: Callable[[], Any] | None = None
    """Run before each call, off the clock."""


class Data:
    """A table of n rows and what training has made of it, on a device."""

    def __init__(self, n: int, n_features: int, place: Place) -> None:
        self.n, self.n_features, self.place = n, n_features, place
        self.rng = rng = np.random.default_rng(0)
        self.stride = -(-n_features // 8) * 8
        self.X = rng.random((n, n_features), np.float32)
        columns = rng.integers(0, MAX_BINS, (n_features, n), np.uint8)
        rows = np.zeros((n, self.stride), np.uint8)
        rows[:, :n_features] = columns.T
        self.codes = Codes(place.put(rows), place.put(columns))
        packed = rng.integers(0, 2**32, n, np.uint64) << np.uint64(32)
        self.records = packed | np.arange(n, dtype=np.uint64)
        self.shuffled = packed | rng.permutation(n).astype(np.uint64)
        self.statistics = [place.put(rng.random(n, np.float32)) for _ in range(2)]
        self.raw = place.put(rng.normal(size=n))
        self.leaf = rng.integers(NODES - 1, 2 * NODES - 1, n).astype(np.int32)


def pieces(n: int, n_pieces: int) -> tuple[np.ndarray, np.ndarray]:
    """Begin and end of consecutive segments of about the same size."""
    cuts = np.linspace(0, n, n_pieces + 1).astype(np.int64)
    return cuts[:-1], cuts[1:]


def perfect_tree(rng: np.random.Generator, depth: int, n_features: int) -> dict[str, np.ndarray]:
    """A tree whose leaves all have the same depth. No feature comes twice on a path if there are
    enough of them, so that rows reach every leaf."""
    n_nodes, n_inner = 2 ** (depth + 1) - 1, 2**depth - 1
    feature = np.full(n_nodes, -1, np.int32)
    for node in range(n_inner):
        above = [feature[(node + 1 >> k) - 1] for k in range(1, (node + 1).bit_length())]
        free = np.setdiff1d(np.arange(n_features), above)
        feature[node] = rng.choice(free if free.size else n_features)
    inner = feature >= 0
    left = np.where(inner, 2 * np.arange(n_nodes) + 1, -1).astype(np.int32)
    return {
        "feature": feature,
        "threshold": np.where(inner, rng.uniform(0.3, 0.7, n_nodes), 0.0),
        "missing_left": np.zeros(n_nodes, np.uint8),
        "left": left,
        "right": np.where(inner, left + 1, -1).astype(np.int32),
    }


def preparation(data: Data) -> Iterator[Case]:
    """From values to records."""
    n, f, put = data.n, data.n_features, data.place.put
    thresholds = np.full((f, MAX_BINS), np.inf, np.float32)
    thresholds[:, :-1] = np.linspace(0, 1, MAX_BINS + 1)[1:-1]
    X, cuts = put(data.X), put(thresholds)
    yield Case("bin_values", partial(bin_values, X, cuts), n * (4 * f + data.stride + f))
    y = put((data.X[:, 0] > 0.5).astype(np.float64))
    none = put(np.zeros(0))
    g, h = data.statistics
    call = partial(gradients, BinomialLogLoss(), y, data.raw, none, none, g, h)
    yield Case("gradients, log loss", call, 24 * n)
    everyone = put(np.zeros(0, np.int32))
    scales = Scales(2.0**10, 2.0**10)
    call = partial(quantise, g[None], h[None], everyone, 1, 0, [scales])
    yield Case("quantise", call, 16 * n)


def growth(data: Data) -> Iterator[Case]:
    """Yield the operations of a level of a boosted tree."""
    n, f, place = data.n, data.n_features, data.place
    cells = n * f
    records = place.put(data.records)
    begin, end = pieces(n, place.blocks)
    yield Case(
        "histogram, a root", partial(histogram, data.codes, records, begin, end),
        n * (8 + data.stride) + place.blocks * f * HISTOGRAM, place.planes * cells,
    )  # fmt: skip
    half = place.put(data.shuffled[: n // 2])
    begin, end = pieces(n // 2, NODES // 2)
    yield Case(
        f"histogram, {NODES // 2} nodes, rows gathered",
        partial(histogram, data.codes, half, begin, end),
        n // 2 * (8 + max(data.stride, place.line)) + NODES // 2 * f * HISTOGRAM,
        place.planes * (cells // 2),
    )
    yield from splits(data)
    for name, source, n_nodes, gathered in (
        ("partition, a root", data.records, 1, n),
        (f"partition, {NODES} nodes, rows gathered", data.shuffled, NODES,
         min(n * place.line, n * min(f, NODES))),
    ):  # fmt: skip
        whole, buffer = place.put(source), place.put(source.copy())
        begin, end = pieces(n, n_nodes)
        feature = (np.arange(n_nodes) % f).astype(np.int32)
        middle, right = np.full(n_nodes, 127, np.int32), np.zeros(n_nodes, np.uint8)
        call = partial(partition, data.codes, buffer, begin, end, feature, middle, right)
        yield Case(name, call, 16 * n + gathered, prepare=partial(fill, buffer, whole))


def fill(buffer: Any, whole: Any) -> None:
    buffer[...] = whole


def splits(data: Data) -> Iterator[Case]:
    """The best split of every node of a level."""
    f, put = data.n_features, data.place.put
    planes = data.rng.integers(0, 1000, (NODES, 2, f, N_SLOTS)).astype(np.int32)
    totals = planes[:, :, 0].sum(axis=-1, dtype=np.int64)
    n_bins = np.full(f, MAX_BINS, np.int32)
    least, l2 = np.ones(NODES, np.int64), np.ones(NODES)
    allowed, counts = np.ones((NODES, f), np.uint8), put(np.zeros((0, 0, 0), np.int32))
    call = partial(split, put(planes), n_bins, totals, least, l2, allowed, counts, 1)
    yield Case(f"split, {NODES} nodes", call, NODES * f * HISTOGRAM)


def leaves(data: Data) -> Iterator[Case]:
    """From a tree that has grown to the next raw predictions."""
    n, put = data.n, data.place.put
    tree = perfect_tree(data.rng, DEPTH, data.n_features)
    empty = np.full(n, -1, np.int32)
    leaf, unknown = put(empty.copy()), put(empty)
    bins = np.full(tree["feature"].size, 127, np.int32)
    arrays = (tree["feature"], bins, tree["missing_left"], tree["left"], tree["right"])
    yield Case(f"traverse_codes, depth {DEPTH}", partial(traverse_codes, data.codes, *arrays, leaf),
               n * (8 + DEPTH), prepare=partial(fill, leaf, unknown))  # fmt: skip
    begin, end = pieces(n, NODES)
    own, at = np.zeros(NODES, np.int32), np.arange(NODES, dtype=np.int32)
    call = partial(scatter_leaves, put(data.shuffled), begin, end, own, at, (1, n))
    yield Case(f"scatter_leaves, {NODES} leaves", call, n * (8 + data.place.line))
    g, h = data.statistics
    known, n_nodes = put(data.leaf), 2 * NODES - 1
    call = partial(leaf_sums, known, g, h, Scales(2.0**20, 2.0**20), n_nodes)
    yield Case("leaf_sums", call, 12 * n, 2 * n)
    values = data.rng.normal(size=n_nodes)
    call = partial(add_leaf_values, data.raw, known, NodeValues(values, values), 0.1)
    yield Case("add_leaf_values", call, 20 * n)


def linear(data: Data) -> Iterator[Case]:
    """Linear functions in the leaves of a tree."""
    n, put, n_nodes = data.n, data.place.put, 2 * NODES - 1
    k = min(PATH, data.n_features)
    begin = np.arange(n_nodes + 1) * k
    feature = np.tile(np.arange(k, dtype=np.int32), n_nodes)
    features = PathFeatures(begin, feature, np.full(feature.size, 0.5), np.full(feature.size, 2.0))
    (g, h), X, leaf = data.statistics, put(data.X), put(data.leaf)
    gathered = n * min(k * data.place.line, data.X.itemsize * data.n_features)
    call = partial(linear_sums, leaf, g, h, X, features, Scales(2.0**20, 2.0**20))
    yield Case(f"linear_sums, {k} features", call, 12 * n + gathered, n * (k + 1) * (k + 4) // 2)
    coefficient, constant = data.rng.normal(size=feature.size), data.rng.normal(size=n_nodes)
    ends, output = np.array([0, n_nodes]), np.zeros(1, np.int32)
    functions = LinearLeaves(ends, output, begin, feature, coefficient, constant, constant)
    there, raw = LinearLeaves(*map(put, functions)), put(np.zeros((1, n)))
    call = partial(add_linear_values, there, X, leaf[:, None], raw)
    yield Case(f"add_linear_values, {k} features", call, 20 * n + gathered)


def prediction(data: Data, n_trees: int) -> Iterator[Case]:
    """On raw values."""
    n, f, put = data.n, data.n_features, data.place.put
    grown = [perfect_tree(data.rng, DEPTH, f) for _ in range(n_trees)]
    arrays = {name: np.concatenate([tree[name] for tree in grown]) for name in grown[0]}
    n_nodes = arrays["feature"].size
    trees = Trees(
        offset=np.arange(n_trees + 1) * (n_nodes // n_trees),
        **arrays,
        category_begin=np.full(n_nodes, -1, np.int32),
        categories=np.zeros(0, np.uint32),
        n_categories=np.zeros(f, np.int32),
        value=data.rng.normal(size=(n_nodes, 1)),
        output=np.zeros(n_trees, np.int32),
    )
    there = Trees(*map(put, trees))
    raw = put(np.zeros((1, n)))
    name = f"traverse, {n_trees} trees of depth {DEPTH}"
    yield Case(name, partial(traverse, there, put(data.X), raw), n * (4 * f + 16))
    yield Case("probabilities, 2 classes", partial(probabilities, raw), 24 * n)


def stump(data: Data) -> Iterator[Case]:
    """Class counts by bin, cuts and partition of a forest's root, which are one call."""
    n, f, put = data.n, data.n_features, data.place.put
    begin = np.arange(f + 1, dtype=np.int64) * MAX_BINS
    lower = np.tile(np.arange(MAX_BINS, dtype=np.float64), f)
    n_bins, none = np.full(f, MAX_BINS, np.int32), np.zeros(f, np.uint8)
    table = CartTable(data.codes.columns, n_bins, begin, lower, lower, none, none.astype(np.int8))
    classes = put(data.rng.integers(0, 2, (1, n)).astype(np.int32))
    target = CartTarget(
        classes, put(np.zeros((0, 0), np.int64)), put(np.ones(n, np.int64)), np.array([0, 2])
    )
    params = CartParams(GINI, 1, UNLIMITED, 2, 1, 0.0, 0.0, f, 0, 0)
    ones = np.uint64(2**32) | np.arange(n, dtype=np.uint64)
    whole, buffer = put(ones), put(ones.copy())
    ends = np.zeros(1, np.int64), np.full(1, n, np.int64)
    call = partial(grow_cart, table, target, buffer, *ends, np.ones(1, np.uint64), params)
    yield Case("grow_cart, a root of 2 classes", call, n * (f + 8 + 12 + 17), n * f,
               prepare=partial(fill, buffer, whole))  # fmt: skip


def cases(n: int, n_features: int, n_trees: int, place: Place) -> Iterator[Case]:
    """All of them, one after the other: each holds its arrays only while it is measured."""
    data = Data(n, n_features, place)
    yield from preparation(data)
    yield from growth(data)
    yield from leaves(data)
    yield from linear(data)
    yield from prediction(data, n_trees)
    yield from stump(data)
