"""Steps of several models (contract: ``kernels.boosting.many_models``), one after the other."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ...growth.grow import GrownTrees, grow, records_for
from ...growth.params import NO_RULES, FeatureRules
from ...leaves.newton_steps import newton_steps
from ...prediction.traverse import traverse_codes
from ...runtime.arrays import Array
from ...runtime.dtypes import Codes, NodeValues, Totals
from ...scalars.primitives import vectorise
from ...scalars.rng import draw
from ...statistics.add_leaf_values import add_values_of_trees
from ...statistics.gradients import gradients, gradients_of_outputs
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
