"""A forest laid out for walks: one load of 8 bytes a node (16 for float64), instead of one from
each of five arrays.

::

    63 (narrow)              32 31                        0
    +--------------------------+--------------------------+
    | child | c | m |  column  | threshold, or first word |
    +--------------------------+--------------------------+

``child`` is the left one, counted from the root (a leaf's own number: 0 where nobody asks);
``c`` marks a split by categories, which has the first word of its set in the place of the
threshold; ``m`` is set if missing values go left; ``column`` is the feature plus one, 0 at a leaf.
Nodes of float64 tables are two words: the threshold, then the upper half with 64 bits.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ...runtime.cuda.target import (
    block_size,
    blocks_for_rows,
    cuda,
    device_function,
    empty,
    kernel,
    launch,
    settled,
)
from ...runtime.derived import derived

i64, u32, u64, f32, f64 = np.int64, np.uint32, np.uint64, np.float32, np.float64
BLOCK = block_size(256)
FLAGS = 2
LARGEST = 3.4028234663852886e38
"""The largest float32."""
NARROW_BITS = 32
"""What child, flags and column may take together in nodes of 8 bytes."""


class Nodes(NamedTuple):
    """``words`` (uint64) as above; ``shift`` (uint32) is the number of bits below ``child``."""

    words: Any
    shift: np.uint32


@device_function
def pack_meta(child, by_categories, missing_left, column, shift):
    """Child, flags and column in one word."""
    meta = (u64(child) << u64(shift)) | u64(column)
    meta |= u64(missing_left != 0) << (u64(shift) - u64(2))
    return meta | (u64(by_categories) << (u64(shift) - u64(1)))


@device_function
def rounded_down(threshold):
    """The largest float32 not above a threshold: for x of that type ``x <= rounded`` says the
    same as ``x <= threshold``."""
    if threshold > LARGEST:
        return f32(np.inf) if threshold == np.inf else f32(LARGEST)
    if threshold < -LARGEST:
        return f32(-np.inf)
    rounded = f32(threshold)
    if f64(rounded) > threshold:
        bits = rounded.view(np.int32)
        if rounded > f32(0.0):
            bits = np.int32(bits - np.int32(1))
        elif rounded < f32(0.0):
            bits = np.int32(bits + np.int32(1))
        else:
            bits = np.int32(-2147483647)  # the number before zero
        rounded = bits.view(f32)
    return rounded


@functools.cache
def packing_kernel(wide: bool) -> Any:
    """The kernel for nodes of float64 tables, or of float32 tables."""

    @kernel
    def pack_nodes(feature, threshold, missing_left, left, category_begin, shift, words):
        """One node a thread."""
        n = u32(feature.shape[0])
        at = u32(cuda.grid(1))
        while at < n:
            meta, low = u64(0), u64(0)
            if feature[at] >= 0:
                begin = category_begin[at]
                column = u32(feature[at] + 1)
                meta = pack_meta(u32(left[at]), begin >= 0, missing_left[at], column, shift)
                if begin >= 0:
                    low = u64(begin)
                elif wide:
                    low = threshold[at].view(u64)
                else:
                    low = u64(rounded_down(threshold[at]).view(u32))
            if wide:
                words[u64(2) * u64(at)] = low
                words[u64(2) * u64(at) + u64(1)] = meta
            else:
                words[at] = (meta << u64(32)) | low
            at = u32(at + cuda.gridsize(1))

    return pack_nodes


def nodes_of(trees: Any, X: Any, n_largest: int) -> Nodes | None:
    """The layout for rows of the type of X, kept as long as the forest's arrays; None where a
    child and a column do not fit a word together.

    ``n_largest`` is the number of nodes of the largest tree.
    """
    wide = X.dtype == np.float64
    shift = int(X.shape[1]).bit_length() + FLAGS
    if not wide and shift + n_largest.bit_length() > NARROW_BITS:
        return None
    return derived(trees, ("nodes", wide, shift), lambda: settled(_pack(trees, wide, shift)))


def _pack(trees: Any, wide: bool, shift: int) -> Nodes:
    n_nodes = trees.feature.shape[0]
    words = empty(n_nodes * (2 if wide else 1), np.uint64)
    columns = trees.feature, trees.threshold, trees.missing_left, trees.left, trees.category_begin
    blocks = blocks_for_rows(n_nodes, BLOCK)
    launch(packing_kernel(wide), blocks, BLOCK, *columns, u32(shift), words)
    return Nodes(words, u32(shift))
