"""Steps of several models (contract: ``kernels.boosting.many_models``): their trees are those of
one batch, and each step of all of them is one launch, or those of one growth."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, cast

import numpy as np
from array_api_compat import array_namespace

from ...growth import frontier as fr
from ...growth.cuda.grow import GrowingTrees, start
from ...growth.frontier import Frontier
from ...growth.grow import GrownTrees
from ...growth.params import NO_RULES, FeatureRules
from ...leaves.cuda.newton_steps import steps_of_trees, sums_of_lines
from ...leaves.cuda.quantiles import quantiles_of_lines
from ...prediction.cuda.traverse import traverse_codes
from ...runtime.arrays import Array
from ...runtime.collective import ONE_WORKER, Workers, sum_of_each
from ...runtime.cuda.target import (
    block_size,
    blocks_for_rows,
    cuda,
    empty,
    kernel,
    launch,
    upload,
)
from ...runtime.dtypes import Codes, NodeValues, Scales, Totals
from ...scalars.primitives import vectorise
from ...scalars.rng import draw
from ...statistics.add_leaf_values import add_values_of_trees
from ...statistics.cuda.gradients import (
    launch_gradients,
    lines_in,
    nothing_to_add,
    values_of_lines,
)
from ...statistics.cuda.quantise import (
    FIRST_ROW,
    N_OF_TREE,
    N_ROWS,
    SIZE,
    quantise_models,
)
from ...statistics.cuda.totals import DeviceTotals
from ...statistics.ordered_sums import ordered_sums
from ...statistics.quantise import scales_for
from ..many_models import ModelTrees, StackedTables, StepLimits, lines_of

i64, u32, f32, f64 = np.int64, np.uint32, np.float32, np.float64
BLOCK = block_size(256)
_draw = vectorise(draw)
NODES = GrownTrees._fields[:-1]
"""All arrays of trees but ``leaf``."""


@kernel
def scale_sampled(g, h, rows, factors, own_lines, sizes):
    """Multiply the gradients of sampled rows, one a thread, and write their sizes; ``blockIdx.y``
    is the tree, ``own_lines`` has its line of the gradients, and where its rows begin, and how many
    they are."""
    tree = i64(cuda.blockIdx.y)
    line, begin, n = own_lines[tree, 0], own_lines[tree, 1], own_lines[tree, 2]
    i = i64(cuda.grid(1))
    while i < n:
        row, factor = u32(rows[begin + i]), factors[begin + i]
        size_g = f32(g[line, row] * factor)
        size_h = f32(h[line, row] * factor)
        g[line, row] = size_g
        h[line, row] = size_h
        sizes[2 * tree, i] = f64(abs(size_g))
        sizes[2 * tree + 1, i] = f64(abs(size_h))
        i += cuda.gridsize(1)


class TreesOfModel:
    """The ``GrownTrees`` of a model, a part of a batch that may still be growing."""

    def __init__(self, batch: GrowingTrees, lines: slice, n_rows: int) -> None:
        self.batch, self.lines, self.n_rows = batch, lines, n_rows

    @property
    def early_leaf(self) -> Array:
        return self.batch.early_leaf[self.lines, : self.n_rows]

    @property
    def leaf(self) -> Array:
        return self.batch.leaf[self.lines, : self.n_rows]

    @property
    def most_nodes(self) -> int:
        return self.batch.most_nodes

    def launch_behind(self, start: Callable[[], None]) -> None:
        self.batch.launch_behind(start)

    def settle(self) -> None:
        self.batch.settle()

    def __getattr__(self, name: str) -> Any:
        if name not in NODES:
            raise AttributeError(name)
        (nodes,) = nodes_of_models([self])
        vars(self).update(zip(NODES, nodes, strict=False))  # where they are found from now on
        return vars(self)[name]


def nodes_of_models(trees: Sequence[TreesOfModel]) -> list[GrownTrees]:
    batch, found = trees[0].batch, []
    offset, arrays = batch.offset, [getattr(batch, name) for name in NODES[1:]]
    ends = offset.tolist()
    for own in trees:
        lines = own.lines
        begin, end = ends[lines.start], ends[lines.stop]
        of_model = offset[lines.start : lines.stop + 1] - begin
        found.append(GrownTrees(of_model, *[array[begin:end] for array in arrays], leaf=None))
    return found


def stack_tables(tables: Sequence[Codes], n_bins: Sequence[np.ndarray]) -> StackedTables:
    if len(tables) == 1:
        return StackedTables(tuple(tables), tables[0], tuple(n_bins))
    xp = array_namespace(tables[0].rows)
    rows = xp.concat([own.rows for own in tables])
    columns = xp.concat([own.columns for own in tables], axis=1)
    return StackedTables(tuple(tables), Codes(rows, columns), tuple(n_bins))


def grow_models(
    stack: StackedTables,
    g: Array,
    h: Array,
    models: Sequence[ModelTrees],
    rules: FeatureRules = NO_RULES,
    owner: Hashable = None,
) -> list[TreesOfModel]:
    lines = lines_of([len(model.totals) for model in models])
    params = [model.params for model in models for _ in model.totals]
    own_trees, keys = _trees_of(stack, models)
    n_rows, samples = own_trees[:, N_ROWS].tolist(), [own.rows for own in models if own.rows.size]
    rows = array_namespace(g).concat(samples) if samples else empty(0, np.int32)
    totals = [each for model in models for each in model.totals]
    scales = [scales_for(each, n) for each, n in zip(totals, n_rows, strict=True)]
    records, on_gpu = quantise_models(g, h, rows, own_trees, scales)
    # Bins behind the last one of a table hold no rows: a split at one of them is that at the last
    # bin again, with a higher number, which loses the tie.
    n_bins = np.max(stack.n_bins, axis=0)
    frontier = _frontier_of(own_trees[:, SIZE], keys, models, n_bins, rules)
    # Whichever thread grows the batch: the models of an owner take turns.
    batch = start(
        cast(Codes, stack.codes), n_bins, records, frontier, params, ("models", owner), on_gpu,
        int(g.shape[1]),
    )  # fmt: skip
    return [TreesOfModel(batch, own, n_rows[own.start]) for own in lines]


def _trees_of(stack: StackedTables, models: Sequence[ModelTrees]) -> tuple[np.ndarray, np.ndarray]:
    """Return ``own_trees`` of ``quantise_models``, and the keys of all trees."""
    of_models = np.array([(*own.draws, own.table, own.rows.shape[0]) for own in models])
    counts = [len(own.totals) for own in models]
    n_sampled = of_models[:, -1]
    begin = np.where(n_sampled > 0, np.cumsum(n_sampled) - n_sampled, -1)
    rounding, tree, number, table, n_sampled, begin = np.repeat(
        np.column_stack([of_models, begin]), counts, axis=0
    ).T
    number = number + np.concatenate([np.arange(n) for n in counts])
    first_rows = stack.first_rows
    n_rows = np.diff(first_rows)
    size = np.where(n_sampled > 0, n_sampled, n_rows[table])
    own_trees = np.column_stack([rounding, number, size, begin, first_rows[table], n_rows[table]])
    return own_trees, _draw(tree.astype(np.uint64), number.astype(np.uint64))


def _frontier_of(
    sizes: np.ndarray,
    keys: np.ndarray,
    models: Sequence[ModelTrees],
    n_bins: np.ndarray,
    rules: FeatureRules,
) -> Frontier:
    """Return tables in which every tree has room for the largest one that a model allows."""
    params = [model.params for model in models]
    bounds = params[0]._replace(
        max_leaves=max(own.max_leaves for own in params),
        max_depth=max(own.max_depth for own in params),
        min_samples_leaf=min(own.min_samples_leaf for own in params),
    )
    frontier = fr.allocate([int(sizes.max())] * len(sizes), keys, bounds, n_bins, rules)
    frontier.trees["end"] = frontier.trees["begin"] + sizes  # a line of records may be longer
    return frontier


def gradients_of_models(
    losses: Sequence[Any],
    y: Array,
    raw: Array,
    shift: Array,
    weight: Array,
    g: Array,
    h: Array,
    first_class: int,
    n_rows: Sequence[int],
) -> list[DeviceTotals]:
    rows = lines_in(y), first_class, raw
    return launch_gradients(losses, rows, shift, weight, nothing_to_add(), g, h, n_rows)


def newton_steps_of_models(
    trees: Sequence[TreesOfModel],
    g: Array,
    h: Array,
    models: Sequence[ModelTrees],
    limits: Sequence[StepLimits],
) -> list[Sequence[NodeValues]]:
    lines = lines_of([len(model.totals) for model in models])
    totals = [own for model in models for own in model.totals]
    how = [
        (float(own.l2), float(own.min_sum_hessian), float(own.largest))
        for own, model in zip(limits, models, strict=True)
        for _ in model.totals
    ]
    pairs = zip(trees, models, strict=True)
    n_rows = [own.n_rows for own, model in pairs for _ in model.totals]
    values = steps_of_trees(trees[0].batch, g, h, totals, how, n_rows)
    return [values[own] for own in lines]


def leaf_quantiles_of_models(
    leaf: Array,
    values: Array,
    weight: Array,
    quantiles: Sequence[float],
    n_nodes: int,
    workers: Workers = ONE_WORKER,
) -> np.ndarray:
    return quantiles_of_lines(leaf, values, lines_in(weight), quantiles, n_nodes, workers)


def leaf_sums_of_models(
    leaf: Array,
    g: Array,
    h: Array,
    scales: Sequence[Scales],
    n_nodes: int,
    workers: Workers = ONE_WORKER,
) -> np.ndarray:
    return sum_of_each(sums_of_lines(leaf, g, h, scales, n_nodes), workers)


def values_of_models(
    losses: Sequence[Any], y: Array, raw: Array, shift: Array, first_class: int, n_models: int
) -> Array:
    return values_of_lines(losses, y, raw, shift, first_class, n_models)


def scale_samples(
    g: Array, h: Array, rows: Sequence[Array], factors: Sequence[Array], lines: Sequence[slice]
) -> list[list[Totals]]:
    sizes = [own.shape[0] for own in rows]
    begins = np.cumsum([0, *sizes]).tolist()
    own_lines = [
        (line, begin, size)
        for own, begin, size in zip(lines, begins, sizes, strict=False)
        for line in range(own.start, own.stop)
    ]
    xp, n_most = array_namespace(g), max(sizes)
    (on_gpu,) = upload(np.array(own_lines, np.int64))
    scaled = empty((2 * len(own_lines), n_most), np.float64)
    launch(
        scale_sampled, (blocks_for_rows(n_most, BLOCK), len(own_lines)), BLOCK,
        g, h, xp.concat(list(rows)), xp.concat(list(factors)), on_gpu, scaled,
    )  # fmt: skip
    found = ordered_sums(scaled, [size for _, _, size in own_lines for _ in range(2)])().tolist()
    pairs = zip(found[::2], found[1::2], strict=True)
    totals = [Totals(max_g, sum_g, max_h, sum_h) for (sum_g, max_g), (sum_h, max_h) in pairs]
    return [totals[own] for own in lines_of([own.stop - own.start for own in lines])]


def leaves_of_models(trees: Sequence[TreesOfModel]) -> Array:
    return trees[0].batch.leaf


def stack_sets(sets: Sequence[Codes]) -> StackedTables:
    if len(sets) == 1:
        return StackedTables(tuple(sets), sets[0])
    rows = array_namespace(sets[0].rows).concat([own.rows for own in sets])
    return StackedTables(tuple(sets), Codes(rows, sets[0].columns[:, :0]))


def add_to_sets(
    stack: StackedTables,
    set_of: Sequence[tuple[int, int]],
    raw: Array,
    trees: Sequence[TreesOfModel],
    values: Sequence[Sequence[NodeValues]],
    factors: Sequence[float],
) -> None:
    grown, counts = trees[0].batch, [len(of_model) for of_model in values]
    number, n_rows = np.repeat(np.array(set_of), counts, axis=0).T
    own_trees = np.zeros((number.size, N_OF_TREE), np.int64)
    own_trees[:, FIRST_ROW], own_trees[:, N_ROWS] = stack.first_rows[number], n_rows
    xp = array_namespace(raw)
    leaf = xp.full(raw.shape, -1, dtype=xp.int32)
    traverse_codes(
        cast(Codes, stack.codes), grown.offset, grown.feature, grown.bin, grown.missing_left,
        grown.left, grown.right, leaf, grown.left_codes, upload(own_trees)[0],
    )  # fmt: skip
    _add_values(raw, leaf, values, factors)


def find_leaves_of_models(
    stack: StackedTables, trees: Sequence[TreesOfModel], tables: Sequence[int]
) -> None:
    grown = trees[0].batch
    traverse_codes(
        cast(Codes, stack.codes), grown.offset, grown.feature, grown.bin, grown.missing_left,
        grown.left, grown.right, grown.leaf, grown.left_codes, grown.own_trees,
    )  # fmt: skip


def add_values_of_models(
    raw: Array,
    trees: Sequence[TreesOfModel],
    values: Sequence[Sequence[NodeValues]],
    factors: Sequence[float],
) -> None:
    _add_values(raw, trees[0].batch.leaf, values, factors)


def _add_values(
    raw: Array, leaf: Array, values: Sequence[Sequence[NodeValues]], factors: Sequence[float]
) -> None:
    """Add the values of the trees of each model, times its factor."""
    of_trees = [f for f, of_model in zip(factors, values, strict=True) for _ in of_model]
    add_values_of_trees(raw, leaf, [own for of_model in values for own in of_model], of_trees)
