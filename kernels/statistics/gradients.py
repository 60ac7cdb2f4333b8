"""Formulas of a loss for every row: gradients, hessians and values at the raw predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..runtime.arrays import Array
from ..runtime.collective import ONE_WORKER, Workers
from ..runtime.dispatch import composed, implementation
from ..runtime.dtypes import Totals, Update
from .add_leaf_values import add_leaf_values

NO_CLASS = -1
"""In place of the first class: the targets are given."""


def gradients(
    loss: Any,
    y: Array,
    raw: Array,
    shift: Array,
    weight: Array,
    g: Array,
    h: Array,
    workers: Workers = ONE_WORKER,
    update: Update | None = None,
) -> Totals:
    """Fill ``g`` and ``h`` and measure them.

    ``g[i], h[i] = weight[i] * gradient(loss, y[i], raw[i] - shift[i])``, computed in float64
    and rounded to float32 once.

    Parameters
    ----------
    loss : a named tuple from ``scalars.losses``
    y : float64, shape (n,)
        On the CPU also uint8.
    raw : float64, shape (n,), contiguous
    shift : float64, shape (n,) or (0,)
        Empty: nothing is subtracted.
    weight : float64, shape (n,) or (0,)
        Empty: every weight is 1.
    g, h : float32, shape (n,)
        Written.
    workers : Workers
    update : Update or None
        Applied to ``raw`` first (see ``add_leaf_values``); on CUDA by the same kernel, where leaves
        are uint16.

    Returns
    -------
    Totals
        Of the float32 values, as Python floats (on CUDA they are fetched when they are read). The
        sums are taken in a fixed order so that every implementation rounds alike: each chunk of
        ``SUM_CHUNK`` rows (the last one filled up with zeros) is halved by adding its upper half to
        its lower half until one value is left; the chunk sums, filled up with zeros to a power of
        two, likewise. Of the rows of all workers.
    """
    if workers is ONE_WORKER:
        return implementation(__name__, raw).gradients(loss, y, raw, shift, weight, g, h, update)
    if update is not None:
        add_leaf_values(raw, *update)
    return _totals_of_workers(gradients_of_piece(loss, y, raw, shift, weight, g, h), workers)


def gradients_of_outputs(
    loss: Any,
    y: Array,
    raw: Array,
    shift: Array,
    weight: Array,
    g: Array,
    h: Array,
    first_class: int = NO_CLASS,
    workers: Workers = ONE_WORKER,
) -> Sequence[Totals]:
    """Compute the gradients of several outputs; on CUDA they share a launch.

    Parameters
    ----------
    loss : a named tuple from ``scalars.losses``
        Of all outputs.
    y : float64, shape (n,) or (n_outputs, n)
        The target of all outputs, or of each; on the CPU also uint8.
    raw : float64, shape (n_outputs, n), contiguous
        Of at most ``MOST_OUTPUTS`` outputs.
    shift, weight : float64, shape (n,) or (0,)
    g, h : float32, shape (n_outputs, n), contiguous
        Written.
    first_class : int
        Not ``NO_CLASS``: ``y`` of shape (n,) holds numbers of classes, and the target of output i
        is 1 in the rows of class ``first_class + i``, else 0.
    workers : Workers

    Returns
    -------
    sequence of Totals
    """
    if workers is ONE_WORKER:
        op = implementation(__name__, raw)
        return op.gradients_of_outputs(loss, y, raw, shift, weight, g, h, first_class)
    op = composed(__name__)
    return op.gradients_of_outputs(loss, y, raw, shift, weight, g, h, first_class, workers)


class PieceTotals(NamedTuple):
    """Largest values and sums of \\|g\\| and h over a piece of the rows.

    largest : float64, shape (2,)
    sums : float64, shape (2, chunks)
    """

    largest: np.ndarray
    sums: np.ndarray


def gradients_of_piece(
    loss: Any, y: Array, raw: Array, shift: Array, weight: Array, g: Array, h: Array
) -> PieceTotals:
    """Compute the gradients of neighbouring rows, which begin with a chunk."""
    found: PieceTotals = implementation(__name__, raw).gradients_of_piece(
        loss, y, raw, shift, weight, g, h
    )
    return found


def totals_of_pieces(pieces: Sequence[PieceTotals]) -> Totals:
    """Return the totals of all rows from those of their pieces, all but the last of whole chunks:
    the same as those of ``gradients``."""
    sums = np.concatenate([piece.sums for piece in pieces], axis=1)
    padding = (1 << (sums.shape[1] - 1).bit_length()) - sums.shape[1]
    sums = np.pad(sums, ((0, 0), (0, padding)))
    while sums.shape[1] > 1:
        half = sums.shape[1] // 2
        sums = sums[:, :half] + sums[:, half:]
    largest = np.max([piece.largest for piece in pieces], axis=0)
    (sum_g, sum_h), (max_g, max_h) = sums[:, 0].tolist(), largest.tolist()
    return Totals(max_g, sum_g, max_h, sum_h)


def _totals_of_workers(own: PieceTotals, workers: Workers) -> Totals:
    """Return the totals of all workers' rows from those of this one's."""
    # One message: the largest magnitudes in the first line, then the sums of the chunks.
    lines = np.concatenate([own.largest[None], own.sums.T])
    found = workers.collective.gather(lines)
    return totals_of_pieces([PieceTotals(each[0], each[1:].T) for each in found])


def row_values(loss: Any, y: Array, raw: Array, shift: Array) -> Array:
    """Return ``value(loss, y[i], raw[i] - shift[i])`` for every row i, in float64.

    Parameters
    ----------
    loss : a named tuple from ``scalars.losses``
        A loss, or a link, whose value is a prediction.
    y : float64, shape (n,)
        On the CPU also uint8.
    raw : float64, shape (n,), contiguous
    shift : float64, shape (n,) or (0,)
        Empty: nothing is subtracted.

    Returns
    -------
    float64, shape (n,), on the device of ``raw``
    """
    return implementation(__name__, raw).row_values(loss, y, raw, shift)
