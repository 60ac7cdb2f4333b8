"""Every kernel with the types of its arguments, to compile them ahead and to check them.

``registers`` is a budget, not a measurement: with 64 registers a thread, 1024 threads fit on
a multiprocessor. A kernel that outgrows its budget should be looked at. A block of ``threads`` with
as many registers as its kernel takes must fit on a multiprocessor, or no launch succeeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import from_dtype, types

from .binning.cuda.bin_values import number_bins
from .binning.cuda.project import add_features
from .boosting.cuda.many_models import scale_sampled
from .cart.cuda import rows as cart_rows
from .cart.cuda.control import choose_best, count_splits, list_splits, make_children, plant
from .cart.cuda.cut_tiles import find_ranges, search_cuts, sum_cuts, sum_sides
from .cart.cuda.search import SIZES, items_kernel, nodes_kernel, settle_items
from .cart.cuda.tiles import clear_lines, sum_tiles
from .cart.cuda.writing import cut_writing_kernel, writing_kernel
from .cart.problem import NODE as CART_NODE
from .explanation.cuda.contributions import add_groups, walk_trees
from .explanation.cuda.interventional import compare_rows, find_patterns
from .growth import frontier as fr
from .growth.cuda.block import BLOCK as GROWTH_BLOCK
from .growth.cuda.choosing import choosing_kernel
from .growth.cuda.control import draw_allowed, number_leaves, open_nodes, open_roots
from .growth.cuda.histogram import BLOCK_ALONE, add_tiles
from .growth.cuda.partition import move_apart, scatter_closed
from .growth.cuda.passes import find_chunks, gather_rows, name_leaves, plan_lines, route_rows
from .growth.cuda.search import search_kernel
from .growth.cuda.tables import LIMITS, PARAMS, PLAN
from .growth.streamed_codes import ROUTE
from .leaves.cuda.linear_sums import add_products
from .leaves.cuda.newton_steps import sum_in_global, sum_in_shared, take_steps
from .leaves.cuda.quantiles import count_digits, find_ranks, find_shares, pick_digits, sum_weights
from .prediction.cuda.deep import kernels as deep_kernels
from .prediction.cuda.deep import packing_kernel
from .prediction.cuda.linear_leaves import add_functions, find_largest, write_sizes
from .prediction.cuda.perfect_trees import kernels as perfect_kernels
from .prediction.cuda.probabilities import logistic, softmax, sum_of_exps
from .prediction.cuda.traverse import add_trees_of_rows, find_leaves_of_rows, walk_codes
from .ranking.cuda.gradients import compare, gather, receive, spread
from .ranking.cuda.lists import compare_lists
from .ranking.cuda.measures import add_gains, add_precisions
from .ranking.cuda.order import rank_rows
from .runtime.cuda import launching, target
from .runtime.cuda.blocks import TILE
from .runtime.cuda.compiling import kinds_of
from .scalars.losses import LINKS, LOSSES
from .statistics.cuda.add_leaf_values import add_values
from .statistics.cuda.gradients import gradients_kernel, row_values_kernel
from .statistics.cuda.ordered_sums import sum_lines
from .statistics.cuda.out_of_bag import add_chunks, add_trees
from .statistics.cuda.quantise import make_records
from .statistics.cuda.row_draws import count_drawn, find_least, list_drawn
from .statistics.cuda.samples import count_hits, count_rows, list_rows
from .survival.cuda.intervals import gradients_of_intervals, values_of_intervals
from .survival.cuda.running_sums import add_totals, sum_blocks

u8, u16, i32, u32 = types.uint8, types.uint16, types.int32, types.uint32
i64, u64 = types.int64, types.uint64
f32, f64 = types.float32, types.float64


class Entry(NamedTuple):
    """One specialisation of a kernel.

    Parameters
    ----------
    name : str
    kernel : object
    arguments : tuple of types of Numba
    registers : int
        Of a thread at most, on every architecture.
    threads : int
        Of a block at most, in every launch.
    spilled : int
        Bytes of registers that a thread keeps in memory at most, where ``bounds`` ask for it and
        Numba compiles the kernel for a launch; the machine code of a wheel keeps none there.
    """

    name: str
    kernel: Any
    arguments: tuple[types.Type, ...]
    registers: int
    threads: int = 256
    spilled: int = 0


def compile_ahead(entry: Entry) -> None:
    """Load a specialisation on the current device as a launch does: as it was compiled ahead, from
    the disk, or compiled now."""
    device = target.current_device()
    launching.enter(device)
    launching.kernel_for(entry.kernel, device, kinds_of(entry.arguments))


def array(dtype: types.Type, ndim: int = 1, layout: str = "C") -> types.Array:
    """Return the type of a device array."""
    return types.Array(dtype, ndim, layout)


def records(dtype: np.dtype) -> types.Array:
    """Return the type of a table of records on the device."""
    return array(from_dtype(dtype))


TREES = (array(i64), array(i32), array(f64), array(u8), *(array(i32),) * 2, array(u32), array(i32))
STATISTICS = (array(f32, 2), array(f32, 2))
BUFFERS = (array(u64), array(u64))
TILES = (records(TILE), array(i64))
ROWS, TABLE = array(f64), array(f64, 2)
LEAVES = {"narrow": array(u16), "wide": array(i32)}


def entries() -> Iterator[Entry]:
    """Yield all specialisations that the launchers use on contiguous arrays, and some others."""
    yield from binning()
    for dtype in (f32, f64):
        yield from prediction(dtype)
        yield from explanation(dtype)
    yield from prediction_in_float32()
    yield from trees_of_forests()
    yield from statistics()
    yield from of_leaves()
    yield from operations()
    yield from growth()
    yield from passes_over_chunks()
    yield from ranking()
    yield from survival()


def binning() -> Iterator[Entry]:
    """Yield the kernels that read tables before growth, and the update of predictions after it."""
    for kind, leaf in LEAVES.items():
        leaves = array(leaf.dtype, 2)
        arguments = (TABLE, leaves, TABLE, f64, ROWS)
        yield Entry(f"add_leaf_values_{kind}", add_values, arguments, 32)
    for dtype in (f32, f64):
        for layout in "CFA":
            X = array(dtype, 2, layout)
            name = f"{dtype}_{layout}"
            binning = (X, array(dtype, 2), array(u64, 2), array(u8, 2))
            yield Entry(f"bin_values_{name}", number_bins, binning, 64)
            entries_of = (array(i64), array(i32), array(f64))
            yield Entry(f"project_{name}", add_features, (X, *entries_of, array(f64, 2)), 64)


def statistics() -> Iterator[Entry]:
    """Yield the kernels of samples, out-of-bag sums and gradients."""
    yield Entry("count_draws", count_hits, (array(i32), i64, u64), 32)
    yield Entry("records_count_rows", count_rows, (array(i32), array(i64)), 48)
    arguments = (array(i32), array(i64), array(u64), array(i64))
    yield Entry("records_list_rows", list_rows, arguments, 48)
    arguments = (*STATISTICS, array(i32), array(f32), array(i64, 2), TABLE)
    yield Entry("scale_samples", scale_sampled, arguments, 64)
    draws = TABLE, TABLE, array(u64, 2), array(i64, 2)
    yield Entry("row_draws_least", find_least, (TABLE, array(u64, 2)), 64)
    yield Entry("row_draws_count", count_drawn, draws, 48)
    yield Entry("row_draws_list", list_drawn, (*draws, array(i32), array(f32)), 48)
    arguments = (array(i32, 2), array(f64, 2), array(f64, 2), array(i64), array(f64, 2))
    yield Entry("out_of_bag", add_trees, (*arguments, array(i32), array(f64, 2), array(i64)), 128)
    yield Entry("out_of_bag_chunks", add_chunks, (array(f64, 2), array(f64)), 64)
    yield Entry("ordered_sums", sum_lines, (TABLE, i64, array(i64), i64, TABLE), 48)
    for loss in LOSSES:
        adding = (array(u16), array(f64), f64)
        arguments = (TABLE, i64, i64, TABLE, f64, TABLE, TABLE, *adding, *STATISTICS)
        arguments = (*arguments, i64, i64, TABLE, array(f64, 3), array(f64))
        # Formulas that keep a parameter of the output's own beside much else, before sm_90.
        registers = {"Focal": 80, "LocationScale": 72}.get(loss.__name__, 64)
        yield Entry(f"gradients_{loss.__name__}", gradients_kernel(loss), arguments, registers)
    for loss in (*LOSSES, *LINKS):
        arguments = (TABLE, i64, i64, TABLE, f64, ROWS, TABLE, TABLE)
        yield Entry(f"row_values_{loss.__name__}", row_values_kernel(loss), arguments, 64)


def operations() -> Iterator[Entry]:
    """Yield the kernels that are the only specialisation of an operation."""
    arguments = (array(u8), i64, *BUFFERS, *TILES, i64, array(i32, 4))
    yield Entry("histogram", add_tiles, arguments, 64, BLOCK_ALONE)
    arguments = (array(i32), array(f64, 3), i64, array(f64, 3))
    yield Entry("explain_add_groups", add_groups, arguments, 48)
    yield Entry("leaf_quantiles_share", find_shares, (array(i64, 2), ROWS, array(i64, 3)), 48)
    arguments = (array(i64, 4), array(i64, 2), array(i64, 3), u64, array(u64, 3))
    yield Entry("leaf_quantiles_pick", pick_digits, arguments, 64)
    steps = (array(i64, 3), TABLE, f64, f64, f64, TABLE, TABLE)
    yield Entry("newton_steps", take_steps, steps, 56)
    yield Entry("log_sum_exp", sum_of_exps, (array(f64, 3), TABLE), 64)
    tables = (records(fr.NODE), array(u32, 2), records(fr.EXPANSION))
    arguments = (array(u8, 2), *BUFFERS, *tables, *TILES, array(i64))
    yield Entry("partition_move", move_apart, arguments, 64)
    yield Entry("probabilities_two", logistic, (ROWS, array(f64, 2)), 64)
    yield Entry("probabilities_many", softmax, (array(f64, 2), ROWS, array(f64, 2)), 64)
    arguments = (array(i64), array(i64), array(i32, 2), array(i64), array(i32, 2), array(i64))
    yield Entry("quantile_of_leaves", find_ranks, (*arguments, i64, array(i32, 2)), 64)
    samples = array(i32), array(i64, 2)
    arguments = (*STATISTICS, *samples, i64, u64, i64, TABLE, array(u64, 2), array(i64, 2))
    yield Entry("quantise", make_records, arguments, 48)


def of_leaves() -> Iterator[Entry]:
    """Yield the kernels that read or write the leaves of rows."""
    for kind, leaf in LEAVES.items():
        leaves, weight = array(leaf.dtype, 2), array(i64, 2)
        arguments = (leaves, weight, array(i64, 2))
        yield Entry(f"leaf_quantiles_total_{kind}", sum_weights, arguments, 32)
        arguments = (leaves, array(u64, 2), weight, array(u64, 3), u64, array(i64, 4))
        yield Entry(f"leaf_quantiles_count_{kind}", count_digits, arguments, 48)
        summing = (leaves, *STATISTICS, TABLE)
        arguments = (*summing, f64, f64, f64, TABLE, i64, i64, array(i64, 3), TABLE)
        yield Entry(f"leaf_sums_shared_{kind}", sum_in_shared, arguments, 88)
        arguments = (*summing, array(i64, 3))
        yield Entry(f"leaf_sums_global_{kind}", sum_in_global, arguments, 48)
        own_trees = array(i64, 2)
        arguments = (*BUFFERS, records(fr.NODE), array(i64), *TILES, own_trees, leaves)
        yield Entry(f"scatter_closed_{kind}", scatter_closed, arguments, 48)
        yield Entry(f"linear_largest_{kind}", find_largest, (leaf, array(i64), array(i64)), 32)
        for dtype in (f32, f64):
            cells = array(dtype), i64, i64
            features = (array(i64), array(i32), array(f64), array(f64))
            arguments = (leaf, array(f32), array(f32), *cells, *features, array(i64), f64, f64)
            entry = Entry(f"linear_sums_{dtype}_{kind}", add_products, (*arguments, array(i64)), 64)
            yield entry
            arguments = (*features, *cells, leaf, array(f64))
            yield Entry(f"linear_sizes_{dtype}_{kind}", write_sizes, arguments, 48)
        nodes = array(i32), array(i32), array(u8), array(i32), array(i32), array(u32, 2)
        arguments = (array(u8, 2), array(i64), *nodes, own_trees, leaves)
        yield Entry(f"traverse_codes_{kind}", walk_codes, arguments, 32)


def ranking() -> Iterator[Entry]:
    """Yield the kernels of rankings."""
    begin = of_row = order = array(i32)
    table = array(f64, 2)
    yield Entry("rank_rows", rank_rows, (ROWS, begin, of_row, order), 64)
    yield Entry("rank_gather", gather, (ROWS, ROWS, order, table), 32)
    arguments = (table, begin, of_row, ROWS, ROWS, f64, u32, f64, f64, table)
    yield Entry("rank_receive", receive, arguments, 96)
    yield Entry("rank_compare", compare, arguments, 96)
    yield Entry("rank_spread", spread, (table, begin, order, f64, table), 64)
    yield Entry("rank_lists", compare_lists, (ROWS, ROWS, begin, u64, table), 96)
    yield Entry("rank_gains", add_gains, (ROWS, order, begin, ROWS, i64, ROWS), 48)
    yield Entry("rank_precisions", add_precisions, (ROWS, order, begin, i64, ROWS), 48)


def survival() -> Iterator[Entry]:
    """Yield the kernels of survival analysis."""
    bounds = (ROWS, ROWS, ROWS, f64, u32)
    arguments = (*bounds, array(f64, 2))
    yield Entry("interval_gradients", gradients_of_intervals, arguments, 96)
    yield Entry("interval_values", values_of_intervals, (*bounds, ROWS), 96)
    yield Entry("running_sums_blocks", sum_blocks, (ROWS, ROWS, ROWS), 48)
    yield Entry("running_sums_add", add_totals, (ROWS, ROWS), 32)


def growth() -> Iterator[Entry]:
    """Yield the kernels of a round of growth."""
    nodes, pairs, rules = records(fr.NODE), records(fr.PAIR), records(fr.RULE)
    integers, reals, state = array(i64), array(f64), array(i64)
    frontier = (nodes, records(fr.TREE), records(fr.EXPANSION), pairs, *(integers,) * 4, rules)
    frontier = (*frontier, records(fr.MEMBER), array(u32, 2), state)
    plan = (records(PARAMS), records(TILE), *(integers,) * 3, records(LIMITS), *(integers,) * 3)
    control = (*frontier, *plan, records(PLAN), integers)
    arguments = (array(i64, 2), i64, f64, i64)
    roots = (*control, integers, reals, *arguments)
    yield Entry("grow_open_roots", open_roots, roots, 128, GROWTH_BLOCK)
    yield Entry("grow_open_nodes", open_nodes, (*control, *arguments), 128, GROWTH_BLOCK)
    results = (reals, array(i32), integers, array(u32, 2))
    arguments = (*control, *results, i64, i64)
    for in_order in (False, True):
        name = "grow_choose_in_order" if in_order else "grow_choose_nodes"
        yield Entry(name, choosing_kernel(in_order), arguments, 128, GROWTH_BLOCK)
    yield Entry("grow_number_leaves", number_leaves, (*control, i64, f64), 128, GROWTH_BLOCK)
    arguments = (*frontier, records(PARAMS), integers, integers, array(i64, 2), array(u64, 2))
    yield Entry("grow_draw_allowed", draw_allowed, (*arguments, array(u8, 2)), 128, GROWTH_BLOCK)
    rows = (array(u8, 2), *BUFFERS, array(i32), array(i32, 4))
    tables = (nodes, pairs, rules, state, integers, records(LIMITS), array(u8, 2))
    for with_rules in (False, True):
        name = "grow_search_by_rules" if with_rules else "grow_search"
        yield Entry(name, search_kernel(with_rules), (*rows, *tables, *results), 192)


def passes_over_chunks() -> Iterator[Entry]:
    """Yield the kernels of growth on tables that are larger than the memory of a GPU."""
    integers = array(i64)
    yield Entry("stream_find_chunks", find_chunks, (array(u64), i64, integers), 48)
    tables = (array(i32), array(i32), records(ROUTE), array(u32, 2))
    part = (array(u64), i64, i64, i64)
    for kind, leaf in LEAVES.items():
        of_part = (array(u8), i64, i64, array(u64), i64, i64, i64)
        arguments = (*of_part, *tables, leaf, integers, array(i32))
        yield Entry(f"stream_route_rows_{kind}", route_rows, arguments, 64)
        arguments = (*part, array(i32), leaf, integers, array(u64))
        yield Entry(f"stream_gather_rows_{kind}", gather_rows, arguments, 72)
        yield Entry(f"stream_name_leaves_{kind}", name_leaves, (leaf, array(i32)), 32)
    tiles = (integers, records(TILE), integers)
    arguments = (array(i32), records(fr.NODE), integers, i64, integers, *tiles, i64, f64)
    yield Entry("stream_plan_lines", plan_lines, arguments, 96, GROWTH_BLOCK)


def trees_of_forests() -> Iterator[Entry]:
    """Yield the specialisations that grow classification and regression trees."""
    targets = (array(i32, 2), array(i64, 2), array(i64))
    arguments = (*targets, array(u64), records(TILE), array(i64, 3))
    yield Entry("cart_roots", cart_rows.add_up_roots, arguments, 64)
    nodes = records(CART_NODE)
    state = (array(i64, 2), i64)
    limits = (array(f64, 2), array(i64, 2))
    arguments = (array(i64), array(i64), array(u64), array(i64, 3), array(i64), nodes)
    large = (array(i64, 2), array(i64, 2), array(i64))
    arguments += (array(i64, 2), *limits, array(i64, 2), *large, *(i64,) * 4, f64, f64)
    yield Entry("cart_plant", plant, arguments, 64)
    of_nodes = (nodes, array(i64, 2), array(i64, 2))
    yield Entry("cart_count_splits", count_splits, (nodes, *state, array(i64)), 48)
    arguments = (nodes, *state, array(i64), array(i64), i64)
    yield Entry("cart_list_splits", list_splits, arguments, 48)
    arguments = (nodes, array(i64, 2), array(i64, 2), *state, i64, array(i64))
    yield Entry("cart_choose_best", choose_best, arguments, 64)
    arguments = (*of_nodes, *limits, array(i64), array(i64, 2), array(i64), *state)
    arguments += (*large, array(i64), *(i64,) * 5)
    yield Entry("cart_make_children", make_children, arguments, 96)
    summed = array(i64, 3)
    arguments = (*state, i64, array(i64, 2), summed)
    yield Entry("cart_clear_lines", clear_lines, arguments, 48)
    lists = (array(u64, 2), array(u64, 2))
    arguments = (*lists, nodes, array(i64), *state, i64, array(i64, 2))
    yield Entry("cart_join_tiles", cart_rows.join_tiles, arguments, 64)
    arguments = (array(u64, 2), array(i64, 2), array(i64, 2), array(i64), nodes, *state)
    items = (summed, array(i64, 2), array(f64), array(i64))
    yield Entry("cart_settle_items", settle_items, (*arguments, i64, i64, *items), 64)
    yield from searches_of_forests(u8, False)
    yield from searches_of_forests(u32, True)


def searches_of_forests(code: types.Type, with_cuts: bool) -> Iterator[Entry]:
    """Yield the kernels that read codes of a type, on tables where some features may have many
    bins, or none."""
    targets = (array(i32, 2), array(i64, 2), array(i64))
    nodes, state = records(CART_NODE), (array(i64, 2), i64)
    bins = (array(i64, 2), array(f64), array(f64), array(i64))
    before = (array(code, 2), array(u64, 2), *targets, *bins, nodes, array(i64, 2))
    lines = (array(i64, 3), array(i64, 3), array(i64, 3), array(i64, 2))
    arguments = (array(code, 2), array(u64, 2), *targets, array(i64, 2), array(i64), nodes, *state)
    huge = (array(i64, 2), array(i64), i64)
    arguments += (i64, i64, *huge, array(i64, 3))
    yield Entry(f"cart_sum_tiles_{code}", sum_tiles, arguments, 64)
    searching = (*before, array(f64, 2), *state, *(i64,) * 6, *lines)
    arguments = (*searching, array(f64), array(i64), array(i64, 2), i64, array(f64), array(i64))
    yield Entry(f"cart_search_items_{code}", items_kernel(with_cuts), arguments, 168, 128, 240)
    writing = (*before, array(i64, 2), array(u32, 2), array(f64, 2), *state, i64, i64, *lines)
    for size in SIZES:
        name = f"{size[0]}_{code}"
        yield Entry(f"cart_search_nodes_{name}", nodes_kernel(*size, with_cuts), searching, 255)
        yield Entry(f"cart_write_{name}", writing_kernel(*size), writing, 255)
        if with_cuts:
            arguments = (*writing, array(i64), array(i64, 2))
            yield Entry(f"cart_write_cuts_{name}", cut_writing_kernel(*size), arguments, 255)
    if with_cuts:
        before = (array(code, 2), array(u64, 2), *targets, array(i64, 2))
        arguments = (*before, nodes, *state, i64, i64, *huge, array(i64, 3), array(i64, 2))
        yield Entry(f"cart_sum_cuts_{code}", sum_cuts, arguments, 96)
        arguments = (*before, nodes, *state, i64, i64, *huge, array(i64, 3))
        yield Entry(f"cart_find_ranges_{code}", find_ranges, arguments, 64)
        arguments = (*before, array(f64), array(f64), nodes, *state, i64, i64, *huge)
        yield Entry(f"cart_sum_sides_{code}", sum_sides, (*arguments, *(array(i64, 3),) * 3), 96)
        arguments = (*before, array(i64), nodes, array(i64, 2), array(f64, 2), *state)
        arguments += (*(i64,) * 5, *huge, array(i64, 3), array(i64, 3), array(i64, 2), array(f64))
        arguments += (array(i64), array(i64), array(i64, 2))
        yield Entry(f"cart_search_cuts_{code}", search_cuts, arguments, 255)
    lists = (array(u64, 2), array(u64, 2))
    arguments = (array(code, 2), *lists, array(i64, 2), nodes, array(u32, 2), array(i64))
    tiles = (*arguments, *state, i64, array(i64, 2))
    yield Entry(f"cart_split_tiles_{code}", cart_rows.split_tiles, tiles, 64)
    for block, own in cart_rows.PARTITIONS:
        kernel = cart_rows.partition_kernel(block, own)
        yield Entry(f"cart_partition_{block}_{code}", kernel, (*arguments, *state, i64, i64), 64)


def prediction(dtype: types.Type) -> Iterator[Entry]:
    """Yield the kernels that predict tables of a type."""
    wide = dtype == f64
    cells = (array(dtype), i64, i64)
    value, raw, leaves = array(f64, 2), array(f64, 2), array(i32, 2)
    adding = (value, array(i32), *cells, raw)
    yield Entry(f"predict_few_{dtype}", add_trees_of_rows, (*TREES, *adding), 64)
    functions = (array(i64), array(i32), array(f64), array(f64), array(f64))
    arguments = (array(i64), array(i32), *functions, *cells, leaves, raw)
    yield Entry(f"linear_values_{dtype}", add_functions, arguments, 64)
    yield Entry(f"leaves_few_{dtype}", find_leaves_of_rows, (*TREES, *cells, leaves), 64)
    nodes = (array(i32), array(f64), array(u8), array(i32), array(i32))
    yield Entry(f"pack_nodes_{dtype}", packing_kernel(wide), (*nodes, u32, array(u64)), 32)
    packed = (array(u64), u32, array(u32), array(i32), array(i64))
    for tiled in (False, True):
        kernels = deep_kernels(wide, tiled)
        name = f"{dtype}_{'tile' if tiled else 'in_place'}"
        yield Entry(f"predict_deep_{name}", kernels.add_values, (*packed, *adding), 64)
        yield Entry(f"predict_deep_vectors_{name}", kernels.add_vectors, (*packed, *adding), 64)
        yield Entry(f"leaves_deep_{name}", kernels.find, (*packed, *cells, leaves), 64)
    of_nodes = (array(i64), array(i32), array(f64), array(u8), array(i32))
    arguments = (*of_nodes, value, i64, array(u64))
    yield Entry(f"perfect_fill_{dtype}", perfect_kernels(wide, True).fill, arguments, 48)
    arguments = (array(u64), i64, array(i32), i64, *cells, raw)
    for single in (False, True):
        name = f"predict_perfect_{dtype}" + ("_single" if single else "")
        yield Entry(name, perfect_kernels(wide, single).add, arguments, 64)


def prediction_in_float32() -> Iterator[Entry]:
    """Yield the kernels whose sums are float32 numbers."""
    cells, raw = (array(f32), i64, i64), array(f32, 2)
    adding = (array(f64, 2), array(i32), *cells, raw)
    yield Entry("predict_few_single", add_trees_of_rows, (*TREES, *adding), 64)
    packed = (array(u64), u32, array(u32), array(i32), array(i64))
    for tiled in (False, True):
        kernels = deep_kernels(False, tiled)
        name = f"single_{'tile' if tiled else 'in_place'}"
        yield Entry(f"predict_deep_{name}", kernels.add_values, (*packed, *adding), 64)
        yield Entry(f"predict_deep_vectors_{name}", kernels.add_vectors, (*packed, *adding), 64)
    arguments = (array(u64), i64, array(i32), i64, *cells, raw)
    for single in (False, True):
        name = "predict_perfect_sums" + ("_single" if single else "")
        yield Entry(name, perfect_kernels(False, single).add, arguments, 64)


def explanation(dtype: types.Type) -> Iterator[Entry]:
    """Yield the kernels that explain predictions for tables of a type."""
    integers, reals, wide = array(i32), array(f64), array(i64)
    cells, value, sums = (array(dtype), i64, i64), array(f64, 2), array(f64, 3)
    categories = (array(u32), integers)
    splits = (integers, reals, array(u8), integers, reals, integers, integers, reals)
    walks = (integers, wide, wide, integers, integers, wide, integers)
    arguments = (*splits, *(integers,) * 5, *walks, *categories, value, integers, reals, reals)
    arguments = (*arguments, *cells, i64, i64, i64, array(f64, 2), sums, sums)
    yield Entry(f"explain_walk_{dtype}", walk_trees, arguments, 128)
    common = (integers, reals, array(u8), *(integers,) * 7, wide, integers, *categories, *cells)
    patterns = (i64, wide, array(u64, 2), array(u64, 2))
    yield Entry(f"explain_patterns_{dtype}", find_patterns, (*common, *patterns), 64)
    groups = (integers, wide, integers, integers, value, value, i64, array(f64, 2), sums)
    yield Entry(f"explain_compare_{dtype}", compare_rows, (*common, *patterns, *groups), 96)
