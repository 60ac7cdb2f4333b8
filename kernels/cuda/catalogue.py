"""Every kernel with the types of its arguments: what is compiled ahead to be checked.

``registers`` is a budget, not a measurement: with 64 registers a thread, 1024 threads fit on
a multiprocessor. A kernel that outgrows its budget should be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from numba import types

from ..scalars.losses import LINKS, LOSSES
from .add_leaf_values import add_values
from .bin_values import number_bins
from .cart_cuts import best_cuts
from .cart_partition import count_left, move_to_sides
from .cart_sums import add_up_bins, add_up_nodes
from .category_arrangement import arrange_codes, collect_left_codes
from .count_draws import count_hits
from .gradients import gradients_kernel, halve_measures
from .histogram import MAX_WORDS, histogram_kernel
from .leaf_quantiles import count_digits, find_shares, pick_digits, sum_weights
from .leaf_sums import sum_in_global, sum_in_shared
from .log_sum_exp import sum_of_exps
from .partition import copy_back, move_apart
from .probabilities import logistic, softmax
from .quantile_of_leaves import find_ranks
from .quantise import make_records
from .row_values import row_values_kernel
from .scatter_leaves import scatter
from .split import best_of_features, best_of_nodes
from .traverse import add_trees, add_vectors, find_leaves
from .traverse_codes import walk_codes

u8, i32, u32, i64, u64 = types.uint8, types.int32, types.uint32, types.int64, types.uint64
f32, f64 = types.float32, types.float64


class Entry(NamedTuple):
    """One specialisation of a kernel."""

    name: str
    kernel: Any
    arguments: tuple[types.Type, ...]
    registers: int


def array(dtype: types.Type, ndim: int = 1, layout: str = "C") -> types.Array:
    """The type of a device array."""
    return types.Array(dtype, ndim, layout)


TREES = (array(i64), array(i32), array(f64), array(u8), *(array(i32),) * 2, array(u32), array(i32))
STATISTICS = (array(f32), array(f32))
ROWS = array(f64)


def entries() -> Iterator[Entry]:
    """All specialisations that the launchers use on contiguous arrays, and some others."""
    yield Entry("add_leaf_values", add_values, (ROWS, array(i32), array(f64)), 32)
    for dtype in (f32, f64):
        for layout in "CFA":
            X = array(dtype, 2, layout)
            name = f"{dtype}_{layout}"
            binning = (X, array(dtype, 2), array(u64, 2), array(u8, 2))
            yield Entry(f"bin_values_{name}", number_bins, binning, 64)
            adding = (*TREES, array(f64, 2), array(i32), X, array(f64, 2))
            yield Entry(f"traverse_{name}", add_trees, adding, 64)
            yield Entry(f"traverse_vectors_{name}", add_vectors, adding, 64)
            yield Entry(f"leaf_indices_{name}", find_leaves, (*TREES, X, array(i32, 2)), 64)
    of_rows = (array(i32, 2), array(i64, 2), array(i64), array(u64))
    tiles = (array(i32), array(i64), array(i64))
    arguments = (*of_rows, *tiles, array(i64), array(i64, 3), array(u8))
    yield Entry("cart_nodes", add_up_nodes, arguments, 64)
    arguments = (array(u8, 2), *of_rows, *tiles, array(i32), array(i64, 3))
    yield Entry("cart_bins", add_up_bins, arguments, 64)
    nodes = (array(u64), array(i64, 2), array(f64, 2))
    bins = (array(i64, 2), array(f64), array(f64))
    arguments = (array(i64, 3), array(i32), array(i32), *nodes, *bins, array(i64), *(i64,) * 4)
    results = (array(i64, 3), array(f64, 2), array(i64, 2), array(u32, 2))
    yield Entry("cart_cuts", best_cuts, (*arguments, *results), 176)
    splits = (*(array(i32),) * 3, array(u8), array(u8), array(u32, 2))
    arguments = (array(u8, 2), array(u64), *tiles, *splits, array(u64))
    yield Entry("cart_partition_count", count_left, (*arguments, array(i64)), 64)
    arguments = (*arguments, array(i64), array(i64))
    yield Entry("cart_partition_move", move_to_sides, arguments, 64)
    yield Entry("count_draws", count_hits, (array(i32), i64, u64), 32)
    for loss in LOSSES:
        arguments = (ROWS, ROWS, f64, ROWS, ROWS, *STATISTICS, array(f64, 2))
        yield Entry(f"gradients_{loss.__name__}", gradients_kernel(loss), arguments, 64)
    for loss in (*LOSSES, *LINKS):
        arguments = (ROWS, ROWS, f64, ROWS, ROWS)
        yield Entry(f"row_values_{loss.__name__}", row_values_kernel(loss), arguments, 64)
    yield Entry("gradients_halve", halve_measures, (array(f64, 2),), 64)
    for n_words in range(1, MAX_WORDS + 1):
        tiles = (array(i32), array(i64), array(i64))
        arguments = (array(u32, 2), array(u64), *tiles, i64, array(i32, 4))
        yield Entry(f"histogram_{n_words}", histogram_kernel(n_words), arguments, 64)
    yield Entry("leaf_quantiles_total", sum_weights, (array(i32), array(i64), array(i64)), 32)
    yield Entry("leaf_quantiles_share", find_shares, (array(i64), f64, array(i64, 2)), 48)
    arguments = (array(i32), array(u64), array(i64), array(u64, 2), u64, array(i64, 3))
    yield Entry("leaf_quantiles_count", count_digits, arguments, 48)
    arguments = (array(i64, 3), array(i64), array(i64, 2), u64, array(u64, 2))
    yield Entry("leaf_quantiles_pick", pick_digits, arguments, 64)
    summing = (array(i32), *STATISTICS, f64, f64, array(i64, 2))
    yield Entry("leaf_sums_shared", sum_in_shared, summing, 88)
    yield Entry("leaf_sums_global", sum_in_global, summing, 48)
    yield Entry("log_sum_exp", sum_of_exps, (array(f64, 2), ROWS), 64)
    moving = (array(u8, 2), array(u64), array(i32), *(array(i64),) * 4)
    routing = (array(i32), array(i32), array(u8), array(u32, 2))
    arguments = (*moving, *routing, array(u64), array(i64, 2))
    yield Entry("partition_move", move_apart, arguments, 64)
    arguments = (array(u64), array(i64), array(i64), array(u64))
    yield Entry("partition_copy", copy_back, arguments, 32)
    yield Entry("probabilities_two", logistic, (ROWS, array(f64, 2)), 64)
    yield Entry("probabilities_many", softmax, (array(f64, 2), ROWS, array(f64, 2)), 64)
    arguments = (array(i64), array(i64), array(i32, 2), array(i64), array(i32, 2), array(i64))
    yield Entry("quantile_of_leaves", find_ranks, (*arguments, i64, array(i32, 2)), 64)
    arguments = (*STATISTICS, array(i32), u64, f64, f64, array(u64))
    yield Entry("quantise", make_records, arguments, 48)
    arguments = (array(u64), array(i64), array(i32), array(i32), array(i32, 2))
    yield Entry("scatter_leaves", scatter, arguments, 32)
    nodes = (array(i64, 2), array(i64), array(f64), array(u8, 2))
    results = (array(f64), array(i32), array(i64))
    rules = (array(types.int8), array(f64), array(f64), array(i32), array(f64))
    arguments = (array(i32, 4), array(i32, 2), *nodes, *rules, array(i32, 3), i64, *results)
    yield Entry("split_features", best_of_features, arguments, 128)
    arguments = (array(i32, 4), array(i32, 3), array(i32), array(i32), array(i64), array(f64))
    arranged = (array(i32, 4), array(i32, 3), array(i32, 2), array(i32, 3))
    yield Entry("split_arrange_categories", arrange_codes, (*arguments, *arranged), 104)
    arguments = (array(f64, 2), array(i32), array(i32), array(i32, 3), array(u32, 2))
    yield Entry("split_left_codes", collect_left_codes, arguments, 64)
    yield Entry("split_nodes", best_of_nodes, (*results, array(f64, 2)), 64)
    arguments = (array(u8, 2), *(array(i32), array(i32), array(u8), array(i32), array(i32)))
    yield Entry("traverse_codes", walk_codes, (*arguments, array(u32, 2), array(i32)), 32)
