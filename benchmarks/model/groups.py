"""Launches in groups, as the rows of a table, beside estimates that were made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .launches import Launch, Work

HISTOGRAM = "add_tiles"
ROOT, LEVELS, FLUSH = "histogram, root", "histogram, levels", "of it, flush of tiles"
CODE = "of all, waiting for code"
PARTS = (FLUSH, CODE)
"""Rows that show a part of others."""
GAPS = "gaps, copies"
DOWNLOADED = "copied to the host"
GROUPS = {
    "gradients": ("gradients_of_chunks",),
    "quantise, records": ("make_records",),
    "partition": ("move_apart",),
    "search": ("best_of_features", "draw_allowed"),
    "control": ("open_roots", "open_nodes", "choose_nodes", "number_leaves"),
    "leaves of rows": ("scatter_closed",),
    "leaf sums, steps": ("sum_in_shared", "sum_in_global", "take_steps"),
    "update": ("add_values",),
    "splits of large nodes": ("search_items", "settle_items"),
    "splits of small nodes": ("search_nodes",),
    "splits written": ("write_splits", "write_cuts"),
    "nodes to open, children": (
        "plant", "count_splits", "list_splits", "choose_best", "make_children",
    ),
    "partition, in place": ("move_rows",),
    "huge nodes, shared": (
        "sum_tiles", "sum_cuts", "search_cuts", "find_ranges", "sum_sides", "split_tiles",
        "join_tiles", "clear_lines",
    ),
    "samples": ("count_hits", "count_rows", "list_rows"),
    "prediction": ("add", "add_trees_of_rows"),
}  # fmt: skip
"""Kernels by the row that they are shown in; a kernel in none is its own row."""
OVER_NODES = (
    "open_roots", "open_nodes", "choose_nodes", "number_leaves", "best_of_features", "take_steps",
    "draw_allowed",
)  # fmt: skip
"""Kernels whose work follows from the trees alone."""

ESTIMATES = {
    "gradients": (0.20, 0.25),
    "quantise, records": (0.07, 0.07),
    ROOT: (0.45, 0.65),
    LEVELS: (1.1, 1.6),
    FLUSH: (0.10, 0.15),
    "partition": (1.0, 1.2),
    "search": (0.12, 0.20),
    "control": (1.2, 1.7),
    "leaves of rows": (0.2, 0.3),
    "leaf sums, steps": (0.1, 0.1),
    GAPS: (0.2, 0.3),
}
"""Milliseconds of one round of 11M × 28, 255 bins, depth 8, on an H100, made by hand from the sizes
of arrays and published rates, before there was a model. That of the gradients includes 0.05 for
their totals, then a launch of its own.

The flush was taken to be 528 blocks × 28 × 512 additions a level, each an operation of the
second-level cache. Three blocks of 64 KB are on a multiprocessor, 396 in all; four of the columns
have three values, so that a block has 2 × (24 × 255 + 4 × 3) sums that are not zero at most; eight
neighbours are one sector, and their additions one operation of 64 bytes (read and written). Eight
levels: 4.9 million operations, 0.31 GB, 0.057 ms at 5.5 TB/s. Below the root a tile has rows in
fewer bins, which leads to the 2.7 million operations that are counted."""
CHECKED = "11M × 28, depth 8"
"""The case that the estimates are of."""
NOTES = {
    ROOT: "estimated for two groups of features, whose additions met in banks",
    LEVELS: "as at the root",
    FLUSH: "estimated as 8 million operations a level; neighbouring additions, eight to a sector, "
    "are one, and zeros are skipped: at most 0.057",
    "search": "the estimate is of 27 launches with their gaps; 18 of them are part of control now",
    "leaves of rows": "estimated for numbers of four bytes, all set to -1 first; those of two stay "
    "in the second-level cache",
    "control": "the estimate is of one thread; a block shares the work now",
}
"""By row: why the model is beyond a factor of 2 of the estimate, where that has been checked."""


def rows_of(work: Work) -> Iterator[tuple[str, Launch]]:
    """Yield every launch with its row."""
    from .launches import numbered

    of_kernel = {kernel: name for name, kernels in GROUPS.items() for kernel in kernels}
    for (kernel, occurrence), launch in numbered(work.launches).items():
        if kernel == HISTOGRAM:
            yield ROOT if occurrence == 0 else LEVELS, launch
        else:
            yield of_kernel.get(kernel, kernel), launch
