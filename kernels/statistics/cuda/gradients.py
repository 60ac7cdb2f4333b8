"""Gradients, hessians and their measures, and values of rows (contract:
``kernels.statistics.gradients``)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.blocks import arrives_last
from ...runtime.cuda.target import (
    block_size,
    blocks_for,
    blocks_for_rows,
    cuda,
    device_function,
    empty,
    kernel,
    launch,
    upload,
    zeros,
)
from ...runtime.dtypes import RAW, SUM_CHUNK, Update
from ...runtime.fetch import fetch
from ...scalars.losses import formulas_of
from ...scalars.primitives import mul, select
from ...scalars.rounding import fixed_point_bits, fixed_point_scale, quantising_scale
from ..gradients import NO_CLASS, PieceTotals
from .add_leaf_values import add_leaf_values
from .totals import (
    FIXED_POINT,
    MAX_G,
    MAX_H,
    N_VALUES,
    QUANTISING,
    SUM_G,
    SUM_H,
    DeviceTotals,
    Measured,
    values_on_device,
)

i64, u32, f32, f64 = np.int64, np.uint32, np.float32, np.float64
BLOCK = block_size(256)
MOST_LEVELS = 32
LEAF = np.dtype(np.uint16)
"""Type of the leaf numbers for which updates are joined: larger trees take long enough anyway."""
ARRIVED = SUM_H + 1
"""The line of ``measures`` that counts blocks; those before are their largest values and sums."""
N_ROWS, N_BITS, PARAMETER, N_OF_OUTPUT = range(4)
"""Columns of ``own_outputs``, see ``gradients_of_chunks``."""


@device_function
def halve(sums_g, sums_h, tops_g, tops_h, t):
    """Add the upper half of ``SUM_CHUNK`` sums to the lower one until one is left, and find the
    largest of the threads' values. The results are in the first entries."""
    half = u32(SUM_CHUNK // 2)
    while half > u32(0):
        cuda.syncthreads()  # the values, or the sums of the step before, are there
        k = t
        while k < half:
            sums_g[k] += sums_g[u32(k + half)]
            sums_h[k] += sums_h[u32(k + half)]
            k = u32(k + u32(BLOCK))
        # Of the largest there is one a thread, so that fewer steps join them.
        if half < u32(BLOCK) and t < half:
            tops_g[t] = max(tops_g[t], tops_g[u32(t + half)])
            tops_h[t] = max(tops_h[t], tops_h[u32(t + half)])
        half = u32(half >> u32(1))
    cuda.syncthreads()


@device_function
def add_up(sums, turn, value):
    """Add the value of a turn to the tree of sums of all turns, numbered from 0: first
    a pair of neighbouring turns, then a pair of pairs, and so on. Return the sum of the largest
    tree that ends here; that of the last turn is the sum of all."""
    level = u32(0)
    # As a binary counter carries: a pair of trees of the same size becomes one.
    while (turn >> level) & u32(1):
        value += sums[level]
        level = u32(level + u32(1))
    sums[level] = value
    return value


@device_function
def next_place(place, half):
    """Return what follows ``place`` where numbers count upwards from their highest bit, ``half``:
    0 4 2 6 1 5 3 7. Places that differ in this bit, which are added first, are neighbours."""
    while place & half:
        place ^= half
        half = u32(half >> u32(1))
    return u32(place | half)


@device_function
def join_blocks(measures, n, n_bits, output, totals, sums_g, sums_h, tops_g, tops_h, t):
    """Join the sums of an output's blocks, and find its scales."""
    n_blocks = u32(measures.shape[1])
    top_g = top_h = f64(0)
    k = t
    while k < u32(SUM_CHUNK):
        sum_g = sum_h = f64(0)
        if k < n_blocks:
            # Read by atomic operations, which see what other blocks have added; a plain load may be
            # stale.
            sum_g = cuda.atomic.add(measures, (SUM_G, k), 0.0)
            sum_h = cuda.atomic.add(measures, (SUM_H, k), 0.0)
            top_g = max(top_g, cuda.atomic.add(measures, (MAX_G, k), 0.0))
            top_h = max(top_h, cuda.atomic.add(measures, (MAX_H, k), 0.0))
        sums_g[k] = sum_g
        sums_h[k] = sum_h
        k = u32(k + u32(BLOCK))
    tops_g[t] = f32(top_g)
    tops_h[t] = f32(top_h)
    halve(sums_g, sums_h, tops_g, tops_h, t)
    if t == u32(0):
        # One thread finds the scales that follow: no later kernel waits for the host to know them.
        max_g, max_h = f64(tops_g[0]), f64(tops_h[0])
        n_outputs = i64(cuda.gridDim.y)
        first = output * i64(QUANTISING)
        totals[first + MAX_G] = max_g
        totals[first + SUM_G] = sums_g[0]
        totals[first + MAX_H] = max_h
        totals[first + SUM_H] = sums_h[0]
        first = n_outputs * i64(QUANTISING) + 2 * output
        totals[first] = quantising_scale(max_g, sums_g[0], n)
        totals[first + 1] = quantising_scale(max_h, sums_h[0], n)
        first = n_outputs * i64(FIXED_POINT) + 2 * output
        totals[first] = fixed_point_scale(max_g, n_bits)
        totals[first + 1] = fixed_point_scale(max_h, n_bits)


@functools.cache
def gradients_kernel(loss: type) -> Any:
    """Return the kernel that is specialised on a class of ``scalars.losses``."""
    gradient = formulas_of(loss).gradient

    @device_function
    def write_row(
        i, n, y, class_, raw, parameter, shift, weight, model, leaf, values, factor, g, h
    ):  # fmt: skip
        """Write the gradient and the hessian of row i of n, and return their sizes. ``shift`` and
        ``weight`` have a line for all models or for each."""
        if i >= n:
            return f32(0), f32(0)
        # The update of the last round, if it was left to this launch, comes first.
        f = raw[i]
        if leaf.shape[0] > 0:
            f += mul(factor, values[u32(leaf[i])])
            raw[i] = f
        if shift.shape[1] > 0:
            f -= shift[min(model, u32(shift.shape[0] - 1)), i]
        target = y[i]
        if class_ >= f64(0):
            target = select(target == class_, 1.0, 0.0)
        # In float64; rounded to float32 once, behind the weight.
        g_i, h_i = gradient(target, f, parameter)
        if weight.shape[1] > 0:
            w = weight[min(model, u32(weight.shape[0] - 1)), i]
            g_i = mul(w, g_i)
            h_i = mul(w, h_i)
        g[i] = f32(g_i)
        h[i] = f32(h_i)
        return abs(f32(g_i)), f32(h_i)

    @kernel
    def gradients_of_chunks(
        y, first_class, n_classes, raw, parameter, shift, weight, leaf, values, factor, g, h,
        n_turns, n_bits, own_outputs, measures, totals,
    ):  # fmt: skip
        """A chunk of ``SUM_CHUNK`` rows a block at a time, in ``n_turns`` turns; ``blockIdx.y`` is
        the output, one of ``n_classes`` of its model. Where models have different numbers of rows
        or parameters, ``own_outputs`` has those of each output, and ``n_bits``.

        Where there are leaves, their values are first added to the raw predictions.
        The rows' values wait in shared memory for the order-fixed sum; the largest values,
        whose order does not matter, are gathered a thread before they take part. The last block
        of an output to end joins those of all blocks, the columns of ``measures``.
        """
        sums_g = cuda.shared.array(SUM_CHUNK, np.float64)
        sums_h = cuda.shared.array(SUM_CHUNK, np.float64)
        # Turns: a block may have several chunks, whose sums it joins as the tree of all chunks
        # would.
        tops_g = cuda.shared.array(BLOCK, np.float32)
        tops_h = cuda.shared.array(BLOCK, np.float32)
        turns_g = cuda.shared.array(MOST_LEVELS, np.float64)
        turns_h = cuda.shared.array(MOST_LEVELS, np.float64)
        of_block = cuda.shared.array(ARRIVED, np.float64)  # registers are few
        is_last = cuda.shared.array(1, np.int32)
        t = u32(cuda.threadIdx.x)
        output = i64(cuda.blockIdx.y)
        model = u32(u32(output) // u32(n_classes))
        # Targets are those of all outputs, or of each model, or of each output.
        own_y = y[i64(u32(u32(output) * u32(y.shape[0])) // u32(cuda.gridDim.y))]
        own_raw, own_g, own_h, own = raw[output], g[output], h[output], measures[output]
        class_ = f64(first_class)
        if first_class >= 0:
            class_ = f64(first_class + i64(u32(output) % u32(n_classes)))
        n = u32(raw.shape[1])
        if own_outputs.shape[0] > 0:
            n = u32(own_outputs[output, N_ROWS])
            n_bits = i64(own_outputs[output, N_BITS])
            parameter = own_outputs[output, PARAMETER]
        n_chunks = u32(u32(n + u32(SUM_CHUNK - 1)) // u32(SUM_CHUNK))
        place = u32(0)
        top_g = f32(0)
        top_h = f32(0)
        for turn in range(n_turns):
            # Blocks take chunks in the order of ``next_place``, so that those which are summed
            # first follow each other.
            chunk = u32(u32(cuda.blockIdx.x) + u32(place * u32(cuda.gridDim.x)))
            # A turn beyond the last chunk adds zeros, which keeps the shape of the tree.
            sum_g = sum_h = largest_g = largest_h = f64(0)
            if chunk < n_chunks:
                k = t
                while k < u32(SUM_CHUNK):
                    # Write: gradients and hessians of the chunk's rows.
                    size_g, size_h = write_row(
                        u32(chunk * u32(SUM_CHUNK) + k), n, own_y, class_, own_raw, parameter,
                        shift, weight, model, leaf, values, factor, own_g, own_h,
                    )  # fmt: skip
                    top_g = max(top_g, size_g)
                    top_h = max(top_h, size_h)
                    sums_g[k] = f64(size_g)  # one store: libNVVM can misplace one over a zero
                    sums_h[k] = f64(size_h)
                    k = u32(k + u32(BLOCK))
                tops_g[t] = top_g
                tops_h[t] = top_h
                # Sum: the chunk's rows as a tree of fixed shape.
                halve(sums_g, sums_h, tops_g, tops_h, t)
                sum_g = sums_g[0]
                sum_h = sums_h[0]
                largest_g = f64(tops_g[0])
                largest_h = f64(tops_h[0])
            if t == u32(0):
                of_block[SUM_G] = add_up(turns_g, u32(turn), sum_g)
                of_block[SUM_H] = add_up(turns_h, u32(turn), sum_h)
                if turn == 0 or chunk < n_chunks:  # of all turns so far
                    of_block[MAX_G] = largest_g
                    of_block[MAX_H] = largest_h
            cuda.syncthreads()
            # Behind the barrier the shared sums are free for the next chunk.
            place = next_place(place, u32(n_turns >> 1))
        # Join: what the block has found, to its column; the block that is last to arrive joins all
        # columns.
        if t == u32(0):
            for k in range(ARRIVED):
                cuda.atomic.add(own, (k, cuda.blockIdx.x), of_block[k])
        if arrives_last(own, (ARRIVED, 0), is_last, t):
            join_blocks(own, n, n_bits, output, totals, sums_g, sums_h, tops_g, tops_h, t)

    return gradients_of_chunks


def gradients(
    loss: Any,
    y: Array,
    raw: Array,
    shift: Array,
    weight: Array,
    g: Array,
    h: Array,
    update: Update | None = None,
) -> DeviceTotals:
    if update is not None and update.leaf.dtype != LEAF:
        add_leaf_values(raw, *update)
        update = None
    if update is None:
        adding = nothing_to_add()
    else:
        adding = update.leaf, values_on_device(update.values), float(update.factor)
    of_one = y[None], NO_CLASS, raw[None]
    (totals,) = launch_gradients([loss], of_one, shift, weight, adding, g[None], h[None])
    return totals


def nothing_to_add() -> tuple[Array, Array, float]:
    """Return the leaves, values and factor of no update."""
    return empty(0, LEAF), empty(0, np.float64), 0.0


def all_alike() -> Array:
    """Return ``own_outputs`` where all are alike: none."""
    return empty((0, N_OF_OUTPUT), np.float64)


def gradients_of_outputs(
    loss: Any,
    y: Array,
    raw: Array,
    shift: Array,
    weight: Array,
    g: Array,
    h: Array,
    first_class: int,
) -> list[DeviceTotals]:
    rows = lines_in(y), first_class, raw
    return launch_gradients([loss], rows, shift, weight, nothing_to_add(), g, h)


def lines_in(array: Array) -> Array:
    """Return an array of lines, or the only one as such an array."""
    return array if array.ndim == 2 else array[None]


def launch_gradients(
    losses: Sequence[Any],
    rows: tuple[Array, int, Array],
    shift: Array,
    weight: Array,
    adding: tuple[Array, Array, float],
    g: Array,
    h: Array,
    n_rows: Sequence[int] = (),
) -> list[DeviceTotals]:
    """Launch the kernel of losses of one class, a loss of all outputs or one of each; ``rows`` are
    the targets, the class of the first output and the raw predictions. Of several models ``n_rows``
    has the rows of each, see ``kernels.boosting.many_models``."""
    n_outputs, n = g.shape
    n_classes = n_outputs // max(len(n_rows), 1)
    of_outputs = [own for own in n_rows or [n] for _ in range(n_classes)]
    own_outputs = all_alike()
    if min(of_outputs) < n or len(set(losses)) > 1:
        pairs = zip(of_outputs, losses * (n_outputs // len(losses)), strict=True)
        lines = [(size, fixed_point_bits(size), loss.parameter) for size, loss in pairs]
        (own_outputs,) = upload(np.array(lines, np.float64))
    chunks = -(-n // SUM_CHUNK)
    # A power of two, as are the blocks: the tree of all chunks is whole.
    n_places = 1 << (chunks - 1).bit_length()
    blocks = min(n_places, SUM_CHUNK, 1 << (blocks_for(chunks).bit_length() - 1))
    measures = zeros((n_outputs, ARRIVED + 1, blocks), np.float64)
    totals = empty(n_outputs * N_VALUES, np.float64)
    launch(
        gradients_kernel(type(losses[0])), (blocks, n_outputs), BLOCK,
        *rows[:2], n_classes, rows[2], float(losses[0].parameter),
        lines_in(shift), lines_in(weight), *adding, g, h, n_places // blocks,
        fixed_point_bits(n), own_outputs, measures, totals,
    )  # fmt: skip
    measured = Measured(totals, of_outputs)
    return [DeviceTotals(measured, output) for output in range(n_outputs)]


def measure_chunks(
    loss: Any, y: Array, raw: Array, shift: Array, weight: Array, g: Array, h: Array
) -> Array:
    """Launch the kernel of a loss with a block for each of at most ``SUM_CHUNK`` chunks.

    Returns
    -------
    float64, shape (ARRIVED + 1, n), on the device
        The largest magnitudes and the sums of each chunk, by their constants; those after the last
        chunk are 0.
    """
    blocks = 1 << (-(-raw.shape[0] // SUM_CHUNK) - 1).bit_length()
    measures = zeros((1, ARRIVED + 1, blocks), np.float64)
    launch(
        gradients_kernel(type(loss)), (blocks, 1), BLOCK,
        y[None], NO_CLASS, 1, raw[None], float(loss.parameter), shift[None], weight[None],
        *nothing_to_add(), g[None], h[None], 1, fixed_point_bits(raw.shape[0]), all_alike(),
        measures, empty(N_VALUES, np.float64),
    )  # fmt: skip
    return measures[0]


ROWS_AT_ONCE = SUM_CHUNK * SUM_CHUNK
"""Rows of a launch of ``measure_chunks``, in which each chunk has a block of its own."""


def gradients_of_piece(
    loss: Any, y: Array, raw: Array, shift: Array, weight: Array, g: Array, h: Array
) -> PieceTotals:
    found = []
    for begin in range(0, raw.shape[0], ROWS_AT_ONCE):
        rows = slice(begin, begin + ROWS_AT_ONCE)
        found.append(fetch(measure_chunks(loss, *(v[rows] for v in (y, raw, shift, weight, g, h)))))
    measures = np.concatenate([measured() for measured in found], axis=1)
    measures = measures[:, : -(-raw.shape[0] // SUM_CHUNK)]
    return PieceTotals(measures[[MAX_G, MAX_H]].max(axis=1), measures[[SUM_G, SUM_H]])


@functools.cache
def row_values_kernel(loss: type) -> Any:
    """Return the kernel that is specialised on a class of ``scalars.losses``."""
    value = formulas_of(loss).value

    @kernel
    def values_of_rows(y, first_class, n_classes, raw, parameter, parameters, shift, out):
        """One row a thread; ``blockIdx.y`` is the output, see ``gradients_of_chunks``, which has
        one of the ``parameters`` where there are some."""
        output = i64(cuda.blockIdx.y)
        model = u32(u32(output) // u32(n_classes))
        own_y = y[i64(u32(u32(output) * u32(y.shape[0])) // u32(cuda.gridDim.y))]
        own_raw, own_out = raw[output], out[output]
        class_ = f64(first_class)
        if first_class >= 0:
            class_ = f64(first_class + i64(u32(output) % u32(n_classes)))
        if parameters.shape[0] > 0:
            parameter = parameters[output]
        n = u32(raw.shape[1])
        i = u32(cuda.grid(1))
        while i < n:
            f = own_raw[i]
            if shift.shape[1] > 0:
                f -= shift[min(model, u32(shift.shape[0] - 1)), i]
            target = own_y[i]
            if class_ >= f64(0):
                target = select(target == class_, 1.0, 0.0)
            own_out[i] = value(target, f, parameter)
            i = u32(i + cuda.gridsize(1))

    return values_of_rows


def row_values(loss: Any, y: Array, raw: Array, shift: Array) -> Array:
    return values_of_lines([loss], lines_in(y), raw[None], shift, NO_CLASS, 1)[0]


def values_of_lines(
    losses: Sequence[Any], y: Array, raw: Array, shift: Array, first_class: int, n_models: int
) -> Array:
    """Return the values of the rows of all outputs, see ``values_of_models`` in
    ``kernels.boosting.many_models``."""
    out = empty(raw.shape, RAW)
    parameters = empty(0, np.float64)
    if len(set(losses)) > 1:
        (parameters,) = upload(np.array([loss.parameter for loss in losses], np.float64))
    launch(
        row_values_kernel(type(losses[0])), (blocks_for_rows(raw.shape[1], BLOCK), raw.shape[0]),
        BLOCK, lines_in(y), first_class, raw.shape[0] // n_models, raw,
        float(losses[0].parameter), parameters, lines_in(shift), out,
    )  # fmt: skip
    return out
