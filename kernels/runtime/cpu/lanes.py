"""Instructions that Numba cannot express: bits of a word, and running sums of integers, eight at a
time.

Each running sum waits for the one before, which takes a step an entry. Eight lanes need three
steps::

    a b c d e f g h      +  the lane one to the left   ->  sums of 2
                         +  the lane two to the left   ->  sums of 4
                         +  the lane four to the left  ->  all sums
"""

from __future__ import annotations

from ...scalars.deferred import Intrinsic
from ..compilation import inner

LANES = 8


@Intrinsic
def lowest_bit(typingctx, word):
    """Return the number of the lowest bit that is set in a uint64 other than zero."""
    from llvmlite import ir
    from numba import types

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


@Intrinsic
def count_bits(typingctx, word):
    """Return how many bits of a uint64 are set."""
    from numba import types

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


@Intrinsic
def _sum_lanes(typingctx, source, first, high, low, carry):
    """Write the halves of the running sums of eight entries from ``first`` on, plus ``carry``;
    return the sum of the eight entries."""
    from llvmlite import ir
    from numba import types

    def codegen(context, builder, signature, args):
        word, half = ir.IntType(64), ir.IntType(32)
        lanes, halves = ir.VectorType(word, LANES), ir.VectorType(half, LANES)

        def pointer(argument, vector):
            data = context.make_array(signature.args[argument])(context, builder, args[argument])
            return builder.bitcast(builder.gep(data.data, [args[1]]), vector.as_pointer())

        def shuffled(values, order):
            mask = ir.Constant(ir.VectorType(half, len(order)), order)
            return builder.shuffle_vector(values, ir.Constant(values.type, None), mask)

        sums = builder.load(pointer(0, lanes), align=8)
        for step in (1, 2, 4):
            order = [LANES] * step + list(range(LANES - step))  # lane LANES is the first zero
            sums = builder.add(sums, shuffled(sums, order))
        carried = builder.insert_element(ir.Constant(lanes, ir.Undefined), args[4], half(0))
        running = builder.add(sums, shuffled(carried, [0] * LANES))
        parts = builder.bitcast(running, ir.VectorType(half, 2 * LANES))
        for argument, begin in ((3, 0), (2, 1)):
            part = shuffled(parts, list(range(begin, 2 * LANES, 2)))
            builder.store(part, pointer(argument, halves), align=4)
        return builder.extract_element(sums, half(LANES - 1))

    return types.int64(source, types.int64, high, low, types.int64), codegen


@inner
def running_sums(source, n, high, low):
    """Write the halves of ``source[0] + ... + source[i]`` to ``high[i]`` and ``low[i]``, int32, for
    i < n, a multiple of eight; return the last sum."""
    total = 0
    for first in range(0, n, LANES):
        total += _sum_lanes(source, first, high, low, total)
    return total
