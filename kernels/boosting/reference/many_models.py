"""Steps of several models (contract: ``kernels.boosting.many_models``), one after the other."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from ...growth.grow import GrownTrees, grow, records_for
from ...growth.params import NO_RULES, FeatureRules
from ...leaves.newton_steps import leaf_sums, newton_steps
from ...leaves.quantiles import leaf_quantiles
from ...prediction.traverse import traverse_codes
from ...runtime.arrays import Array
from ...runtime.collective import ONE_WORKER, Workers
from ...runtime.dtypes import Codes, NodeValues, Scales, Totals
from ...scalars.primitives import vectorise
from ...scalars.rng import draw
from ...statistics.add_leaf_values import add_values_of_trees
from ...statistics.gradients import gradients, gradients_of_outputs, row_values
from ...statistics.ordered_sums import ordered_sums
from ...statistics.quantise import scales_for
from ..many_models import ModelTrees, StackedTables, StepLimits, lines_of

_draw = vectorise(draw)


def tree_keys(model: ModelTrees) -> list[int]:
    """Return the key of each tree of a model."""
    _, tree, first = model.draws
    return [_draw(int(tree), int(first) + i) for i in range(len(model.totals))]


def stack_tables(tables: Sequence[Codes], n_bins: Sequence[np.ndarray]) -> StackedTables:
    return StackedTables(tuple(tables), None, tuple(n_bins))


def grow_models(
    stack: StackedTables,
    g: Array,
    h: Array,
    models: Sequence[ModelTrees],
    rules: FeatureRules = NO_RULES,
    owner: Hashable = None,
) -> list[GrownTrees]:
    grown = []
    for model, own in zip(models, lines_of([len(each.totals) for each in models]), strict=True):
        codes, n_bins = stack.tables[model.table], stack.n_bins[model.table]
        n = codes.rows.shape[0]
        scales = [scales_for(each, n) for each in model.totals]
        records = records_for(
            codes, g[own, :n], h[own, :n],
            model.rows, model.draws.rounding, model.draws.first, scales,
        )  # fmt: skip
        keys = np.array(tree_keys(model), np.uint64)
        grown.append(grow(codes, n_bins, records, keys, model.params, rules))
    return grown


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
) -> list[Totals]:
    totals: list[Totals] = []
    n_models = len(n_rows)
    for k, own in enumerate(lines_of([raw.shape[0] // n_models] * n_models)):
        n = n_rows[k]
        of_rows = (_of_model(each, k, n_models) for each in (y, shift, weight))
        of_rows = (each[..., : min(n, each.shape[-1])] for each in of_rows)
        own_y, own_shift, own_weight = of_rows
        of_model = losses if len(losses) == 1 else losses[own]
        if len(set(of_model)) == 1:
            totals += gradients_of_outputs(
                of_model[0], own_y, raw[own, :n], own_shift, own_weight, g[own, :n], h[own, :n],
                first_class,
            )  # fmt: skip
            continue
        for i, loss in zip(range(own.start, own.stop), of_model, strict=True):
            target = own_y if own_y.ndim == 1 else own_y[i - own.start, ...]
            own_raw, own_g, own_h = (each[i, :n] for each in (raw, g, h))
            totals.append(gradients(loss, target, own_raw, own_shift, own_weight, own_g, own_h))
    return totals


def _of_model(array: Array, k: int, n_models: int) -> Array:
    """Return the lines of model k, or the only one of all, or of the model, without its axis."""
    if array.ndim == 1:
        return array
    size = array.shape[0] // n_models
    return array[k, ...] if size == 1 else array[k * size : (k + 1) * size, ...]


def newton_steps_of_models(
    trees: Sequence[GrownTrees],
    g: Array,
    h: Array,
    models: Sequence[ModelTrees],
    limits: Sequence[StepLimits],
) -> list[Sequence[NodeValues]]:
    lines = lines_of([len(model.totals) for model in models])
    return [
        newton_steps(grown, *_own_rows(g, h, own, grown), model.totals, *how)
        for grown, own, model, how in zip(trees, lines, models, limits, strict=True)
    ]


def _own_rows(g: Array, h: Array, own: slice, grown: GrownTrees) -> tuple[Array, Array]:
    """Return the lines of a model's trees as long as the model has rows."""
    n = grown.leaf.shape[1]
    return g[own, :n], h[own, :n]


def leaf_quantiles_of_models(
    leaf: Array,
    values: Array,
    weight: Array,
    quantiles: Sequence[float],
    n_nodes: int,
    workers: Workers = ONE_WORKER,
) -> np.ndarray:
    found = [
        leaf_quantiles(
            leaf[i, ...], values[i, ...], _of_model(weight, i, len(quantiles)), quantile, n_nodes,
            workers,
        )
        for i, quantile in enumerate(quantiles)
    ]  # fmt: skip
    return np.stack(found)


def leaf_sums_of_models(
    leaf: Array,
    g: Array,
    h: Array,
    scales: Sequence[Scales],
    n_nodes: int,
    workers: Workers = ONE_WORKER,
) -> np.ndarray:
    of_trees = enumerate(scales)
    found = [
        leaf_sums(leaf[i, ...], g[i, ...], h[i, ...], s, n_nodes, workers) for i, s in of_trees
    ]
    return np.stack(found)


def values_of_models(
    losses: Sequence[Any], y: Array, raw: Array, shift: Array, first_class: int, n_models: int
) -> Array:
    xp, found = array_namespace(raw), []
    for k, own in enumerate(lines_of([raw.shape[0] // n_models] * n_models)):
        own_y, own_shift = (_of_model(each, k, n_models) for each in (y, shift))
        for i in range(own.start, own.stop):
            target = own_y if own_y.ndim == 1 else own_y[i - own.start, ...]
            if first_class >= 0:
                target = xp.astype(target == first_class + i - own.start, xp.float64)
            loss = losses[i % len(losses)]
            found.append(row_values(loss, target, raw[i, ...], own_shift))
    return xp.stack(found)


def scale_samples(
    g: Array, h: Array, rows: Sequence[Array], factors: Sequence[Array], lines: Sequence[slice]
) -> list[list[Totals]]:
    return [
        [
            Totals(*_scaled(g[i, ...], *of_sample), *_scaled(h[i, ...], *of_sample))
            for i in range(own.start, own.stop)
        ]
        for *of_sample, own in zip(rows, factors, lines, strict=True)
    ]


def _scaled(statistics: Array, rows: Array, factors: Array) -> tuple[float, float]:
    """Multiply one statistic of a sample by its factors; return its largest size and their sum."""
    xp, n_sampled = array_namespace(statistics), rows.shape[0]
    numbers = xp.arange(statistics.shape[0], dtype=xp.int32, device=device(statistics))
    place = xp.clip(xp.searchsorted(rows, numbers), 0, n_sampled - 1)
    one = xp.ones(1, dtype=xp.float32, device=device(statistics))
    is_sampled = xp.take(rows, place) == numbers
    with np.errstate(over="ignore"):
        statistics *= xp.where(is_sampled, xp.take(factors, place), one)
    sizes = xp.astype(xp.abs(xp.take(statistics, rows)), xp.float64)
    ((total, largest),) = ordered_sums(sizes[None, :], [n_sampled])()
    return float(largest), float(total)


def nodes_of_models(trees: Sequence[GrownTrees]) -> list[GrownTrees]:
    nothing: Any = None
    return [own._replace(leaf=nothing) for own in trees]


def leaves_of_models(trees: Sequence[GrownTrees]) -> Array:
    if len(trees) == 1:
        return trees[0].leaf
    xp, n_most = array_namespace(trees[0].leaf), max(own.leaf.shape[1] for own in trees)
    lines = []
    for own in trees:
        n_lines, n = own.leaf.shape
        missing = xp.full((n_lines, n_most - n), -1, dtype=own.leaf.dtype, device=device(own.leaf))
        lines.append(xp.concat([own.leaf, missing], axis=1))
    return xp.concat(lines)


def stack_sets(sets: Sequence[Codes]) -> StackedTables:
    return StackedTables(tuple(sets), None)


def add_to_sets(
    stack: StackedTables,
    set_of: Sequence[tuple[int, int]],
    raw: Array,
    trees: Sequence[GrownTrees],
    values: Sequence[Sequence[NodeValues]],
    factors: Sequence[float],
) -> None:
    xp, lines = array_namespace(raw), lines_of([len(of_model) for of_model in values])
    for grown, own, (number, n), of_model, factor in zip(
        trees, lines, set_of, values, factors, strict=True
    ):
        if n == 0:
            continue
        leaf = xp.full((own.stop - own.start, n), -1, dtype=xp.int32, device=device(raw))
        traverse_codes(
            stack.tables[number], grown.offset, grown.feature, grown.bin, grown.missing_left,
            grown.left, grown.right, leaf, grown.left_codes,
        )  # fmt: skip
        add_values_of_trees(raw[own, :n], leaf, of_model, [factor] * len(of_model))


def find_leaves_of_models(
    stack: StackedTables, trees: Sequence[GrownTrees], tables: Sequence[int]
) -> None:
    for grown, table in zip(trees, tables, strict=True):
        traverse_codes(
            stack.tables[table], grown.offset, grown.feature, grown.bin, grown.missing_left,
            grown.left, grown.right, grown.leaf, grown.left_codes,
        )  # fmt: skip


def add_values_of_models(
    raw: Array,
    trees: Sequence[GrownTrees],
    values: Sequence[Sequence[NodeValues]],
    factors: Sequence[float],
) -> None:
    lines = lines_of([len(of_model) for of_model in values])
    for grown, own, of_model, factor in zip(trees, lines, values, factors, strict=True):
        own_raw = raw[own, : grown.leaf.shape[1]]
        add_values_of_trees(own_raw, grown.leaf, of_model, [factor] * len(of_model))
