"""The partition of records and the leaves of their rows: the oracle of those of growth."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace, device

from ...runtime.arrays import Array
from ...runtime.dtypes import MISSING, N_SLOTS, NO_SETS, Codes
from ...runtime.reference.arrays import beside, unpack


def partition(
    codes: Codes,
    records: Array,
    begin: Array,
    end: Array,
    feature: Array,
    bin_: Array,
    missing_left: Array,
    left_codes: Array = NO_SETS,
) -> Array:
    """Reorder each segment in place so that the rows that go left come first.

    Parameters
    ----------
    codes : Codes
    records : uint64, shape (m,)
        Changed in place. The order within the two sides is not specified.
    begin, end : int64, shape (n_nodes,)
        Disjoint segments.
    feature, bin_ : int32, shape (n_nodes,)
        ``code <= bin_`` goes left. Where the bin is -1, ``left_codes`` decides.
    missing_left : uint8, shape (n_nodes,)
        Whether ``code == MISSING`` goes left.
    left_codes : uint32, shape (n_nodes, CODE_WORDS) or (0, CODE_WORDS)
        The codes that go left at splits by categories, with ``MISSING``.

    Returns
    -------
    int64, shape (n_nodes,), NumPy
        The number of rows that went left.
    """
    xp = array_namespace(records)
    n_left = np.zeros(len(begin), np.int64)
    for node in range(len(begin)):
        segment = slice(int(begin[node]), int(end[node]))
        _, _, row = unpack(records[segment])
        code = xp.take(codes.columns[int(feature[node]), :], row)
        if bin_[node] >= 0:
            right = xp.where(code == MISSING, not missing_left[node], code > int(bin_[node]))
        else:
            in_left = beside(members_of(left_codes[node]), records)
            right = xp.take(in_left, xp.astype(code, xp.int64)) == 0
        # A stable sort by side keeps the order of the rows, which no result depends on.
        right = xp.astype(right, xp.uint8)
        records[segment] = xp.take(records[segment], xp.argsort(right, stable=True))
        n_left[node] = row.shape[0] - int(xp.sum(right, dtype=xp.int64))
    return n_left


def members_of(words: np.ndarray) -> np.ndarray:
    """Return a set of codes as an array of zeros and ones: int32, (256,)."""
    code = np.arange(N_SLOTS)
    return (words[code // 32] >> (code % 32).astype(np.uint32) & 1).astype(np.int32)


def scatter_leaves(
    records: Array,
    begin: np.ndarray,
    end: np.ndarray,
    tree: np.ndarray,
    leaf: np.ndarray,
    shape: tuple[int, int],
) -> Array:
    """Give the rows of each segment its leaf.

    Parameters
    ----------
    records : uint64, shape (m,)
    begin, end : int64, shape (n_segments,), NumPy
        Disjoint segments of ``records``, ascending, which together cover it.
    tree, leaf : int32, shape (n_segments,), NumPy
        The tree that a segment belongs to, and the leaf its rows are in.
    shape : (n_trees, n_rows)

    Returns
    -------
    int32, shape (n_trees, n_rows)
        -1 for the rows that are in no segment of the tree.
    """
    xp = array_namespace(records)
    where = device(records)
    n_trees, n_rows = shape
    all_rows = xp.arange(n_rows, dtype=xp.int64, device=where)
    lines = []
    for t in range(n_trees):
        mine = tree == t
        first, last = int(begin[mine].min()), int(end[mine].max())
        leaves = np.repeat(leaf[mine], (end - begin)[mine])
        rows = xp.astype(records[first:last] & 0xFFFFFFFF, xp.int64)
        order = xp.argsort(rows)
        rows = xp.take(rows, order)
        leaves = xp.take(xp.asarray(leaves, device=where), order)
        at = xp.searchsorted(rows, all_rows)
        at = xp.where(at < last - first, at, last - first - 1)
        hit = xp.take(rows, at) == all_rows
        lines.append(xp.where(hit, xp.take(leaves, at), -1))
    return xp.stack(lines)
