"""Gradients of a share of the rows (contract: ``kernels.statistics.gradients``). The totals are
those of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.arrays import Array
from ...runtime.collective import current_share, halved
from ...runtime.compilation import kernel
from ...runtime.cpu.team import CACHE_LINE, run, threads_for
from ...runtime.dtypes import SUM_CHUNK, Totals, Update
from ..cpu.add_leaf_values import add_leaf_values
from ..cpu.gradients import compiled_for, fill_chunks, row_values
from ..gradients import NO_CLASS
from ..reference.gradients import gradients_of_outputs

__all__ = ["gradients", "gradients_of_outputs", "row_values"]


@kernel
def _chunks_worker(
    thread, n_threads, barrier, loss, y, raw, shift, weight, g, h, largest, sums
):  # fmt: skip
    magnitudes = np.empty(SUM_CHUNK, np.float64)
    scratch = np.empty((4, SUM_CHUNK), np.float64)
    of_rows = y, np.int64(NO_CLASS), raw, shift, weight, g, h
    fill_chunks(thread, n_threads, loss, *of_rows, magnitudes, scratch, largest, sums)


def gradients(
    loss: Any,
    y: Array,
    raw: Array,
    shift: Array,
    weight: Array,
    g: Array,
    h: Array,
    update: Update | None = None,
) -> Totals:
    if update is not None:
        add_leaf_values(raw, *update)
    n_threads = threads_for(raw.size)
    largest = np.zeros((n_threads, 1, CACHE_LINE), np.int64)
    sums = np.zeros((1, 2, -(-raw.size // SUM_CHUNK)))
    of_rows = y[None], raw[None], shift, weight, g[None], h[None]
    run(compiled_for(_chunks_worker, loss), n_threads, loss, *of_rows, largest, sums)
    return totals_of_all(largest[:, 0, :2].max(axis=0).view(np.float64), sums[0].T)


def totals_of_all(largest: np.ndarray, sums: np.ndarray) -> Totals:
    """Return the totals of all workers' rows.

    Parameters
    ----------
    largest : float64, shape (2,)
        The largest magnitudes of this worker's g and h.
    sums : float64, shape (n_chunks, 2)
        Those of its chunks.
    """
    share = current_share()
    assert share is not None
    # One message: the largest magnitudes in the first line, then the sums of the chunks.
    lines = np.empty((1 + len(sums), 2))
    lines[0], lines[1:] = largest, sums
    found = share.collective.gather(lines)
    max_g, max_h = np.max([of_worker[0] for of_worker in found], axis=0).tolist()
    chunks = np.concatenate([of_worker[1:] for of_worker in found])
    sum_g, sum_h = halved(chunks).tolist()
    return Totals(max_g, sum_g, max_h, sum_h)
