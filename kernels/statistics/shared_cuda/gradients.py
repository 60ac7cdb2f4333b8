"""Gradients of a share of the rows on a GPU (contract: ``kernels.statistics.gradients``). The
totals are those of all rows, and on the host, where the workers join them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.arrays import Array
from ...runtime.dtypes import SUM_CHUNK, Totals, Update
from ...runtime.fetch import fetch
from ..cuda.add_leaf_values import add_leaf_values
from ..cuda.gradients import measure_chunks, row_values
from ..cuda.totals import MAX_G, MAX_H, SUM_G, SUM_H
from ..reference.gradients import gradients_of_outputs
from ..shared.gradients import totals_of_all

__all__ = ["gradients", "gradients_of_outputs", "row_values"]

ROWS_AT_ONCE = SUM_CHUNK * SUM_CHUNK
"""Of a launch, in which each chunk has a block of its own."""


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
    found = []
    for begin in range(0, raw.shape[0], ROWS_AT_ONCE):
        rows = slice(begin, begin + ROWS_AT_ONCE)
        found.append(fetch(measure_chunks(loss, *(v[rows] for v in (y, raw, shift, weight, g, h)))))
    measures = np.concatenate([measured() for measured in found], axis=1)
    measures = measures[:, : -(-raw.shape[0] // SUM_CHUNK)]
    largest = measures[[MAX_G, MAX_H]].max(axis=1)
    return totals_of_all(largest, measures[[SUM_G, SUM_H]].T)
