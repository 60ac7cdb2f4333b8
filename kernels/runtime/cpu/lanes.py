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
def _sum_lanes(typingctx, source, first, target, carry):
    """Write the running sums of eight entries from ``first`` on, plus ``carry``; return the sum
    of the eight entries."""
    from llvmlite import ir
    from numba import types

    def codegen(context, builder, signature, args):
        word = ir.IntType(64)
        lanes = ir.VectorType(word, LANES)

        def pointer(argument):
            data = context.make_array(signature.args[argument])(context, builder, args[argument])
            return builder.bitcast(builder.gep(data.data, [args[1]]), lanes.as_pointer())

        def shuffled(values, order):
            mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), order)
            return builder.shuffle_vector(values, ir.Constant(lanes, None), mask)

        sums = builder.load(pointer(0), align=8)
        for step in (1, 2, 4):
            order = [LANES] * step + list(range(LANES - step))  # lane LANES is the first zero
            sums = builder.add(sums, shuffled(sums, order))
        first_lane = ir.Constant(ir.IntType(32), 0)
        carried = builder.insert_element(ir.Constant(lanes, ir.Undefined), args[3], first_lane)
        builder.store(builder.add(sums, shuffled(carried, [0] * LANES)), pointer(2), align=8)
        return builder.extract_element(sums, ir.Constant(ir.IntType(32), LANES - 1))

    return types.int64(source, types.int64, target, types.int64), codegen


@inner
def running_sums(source, n, target):
    """Write ``target[i] = source[0] + ... + source[i]`` for i < n, a multiple of eight; return
    the last one."""
    total = 0
    for first in range(0, n, LANES):
        total += _sum_lanes(source, first, target, total)
    return total
