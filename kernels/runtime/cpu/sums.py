"""Sums of rows in the order of their codes, and the question which of them are worth a closer look,
eight lanes at a time (see ``lanes``)."""

from __future__ import annotations

from ...scalars.lazy_jit import Intrinsic
from .lanes import HIGH_HALVES, LANES, LOW_HALVES, bits_of_lanes, in_all_lanes, shuffled

WORDS_AT_ONCE = 16
"""``some_sum_is_above`` reads multiples of this."""


@Intrinsic
def some_sum_is_above(typingctx, source, n, extra, form, l2, least, most):
    """Return whether ``p g**2 + y (q y + r g + s)`` is above zero, or not a number, for some
    running sum of n words plus ``extra``: g is its high half, h its low half, int32 both, and y is
    h + l2. Only those with ``least <= h <= most`` count.

    ``form`` is (p, q, r, s), and the arithmetic float32, with or without fused operations. n is a
    multiple of ``WORDS_AT_ONCE``. Each of four lanes sums up a quarter of the words, which takes
    half the instructions of ``running_sums``; what comes before a quarter is added up first::

        word   0 ... m - 1 | m ... 2m - 1 | 2m ... 3m - 1 | 3m ... 4m - 1
        lane   0             1              2               3
    """
    from numba import types

    def codegen(context, builder, signature, args):
        def hessian(low):
            return low, _between(builder, low, *args[5:])

        return _is_any_above(context, builder, signature, args, hessian)

    half = types.int32
    return types.boolean(source, types.int64, types.int64, form, types.float32, half, half), codegen


@Intrinsic
def some_sum_of_rows_is_above(
    typingctx, source, n, extra, form, l2, least, most, least_rows, most_rows
):
    """Do the same where a low half holds h above its lowest byte, and there a number of rows, which
    is within limits, too."""
    from llvmlite import ir
    from numba import types

    def codegen(context, builder, signature, args):
        def hessian(low):
            h = builder.lshr(low, ir.Constant(low.type, [8] * LANES))
            rows = builder.and_(low, ir.Constant(low.type, [255] * LANES))
            is_enough = _between(builder, rows, *args[7:])
            return h, builder.and_(_between(builder, h, *args[5:7]), is_enough)

        return _is_any_above(context, builder, signature, args, hessian)

    half = types.int32
    return types.boolean(
        source, types.int64, types.int64, form, types.float32, half, half, half, half
    ), codegen


def _between(builder, lanes, least, most):
    """Return which lanes are from ``least`` to ``most``: both differences are without a sign."""
    width = in_all_lanes(builder, builder.sub(most, least), lanes.type)
    return builder.icmp_unsigned(
        "<=", builder.sub(lanes, in_all_lanes(builder, least, lanes.type)), width
    )


def _is_any_above(context, builder, signature, args, hessian):
    """Write ``some_sum_is_above``; ``hessian`` returns h of low halves, and which of them count."""
    from llvmlite import ir
    from numba.core import cgutils

    word, eight = ir.IntType(64), ir.VectorType(ir.IntType(32), LANES)
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    form = [*cgutils.unpack_tuple(builder, args[3]), args[4]]
    quarter = builder.lshr(args[1], word(2))
    begins = [builder.gep(data, [builder.mul(quarter, word(k))]) for k in range(4)]
    before = _sums_before(builder, begins, quarter, args[2])
    carry = cgutils.alloca_once_value(builder, before)
    found = cgutils.alloca_once_value(builder, ir.Constant(eight, None))
    with cgutils.for_range_slice(builder, word(0), quarter, word(4), inc=True) as (i, _):
        for offset in (0, 2):
            steps = _next_two(builder, begins, builder.add(i, word(offset)))
            first = builder.add(builder.load(carry), steps[0])
            second = builder.add(first, steps[1])
            builder.store(second, carry)
            parts = [builder.bitcast(sums, eight) for sums in (first, second)]
            g, low = (shuffled(builder, *parts, *order) for order in (HIGH_HALVES, LOW_HALVES))
            h, counts = hessian(low)
            hits = builder.and_(_is_above(builder, g, h, form), counts)
            builder.store(builder.or_(builder.load(found), builder.sext(hits, eight)), found)
    whole = ir.IntType(32 * LANES)
    return builder.icmp_unsigned("!=", builder.bitcast(builder.load(found), whole), whole(0))


def _sums_before(builder, begins, n, extra):
    """Return a vector of the sums of what comes before each quarter of n words."""
    from llvmlite import ir
    from numba.core import cgutils

    word, four = ir.IntType(64), ir.VectorType(ir.IntType(64), 4)
    zeros = ir.Constant(four, None)
    totals = [cgutils.alloca_once_value(builder, zeros) for _ in range(3)]
    with cgutils.for_range_slice(builder, word(0), n, word(4), inc=True) as (i, _):
        for begin, total in zip(begins, totals, strict=False):
            loaded = _load(builder, builder.gep(begin, [i]), four)
            builder.store(builder.add(builder.load(total), loaded), total)
    before, lanes = extra, builder.insert_element(zeros, extra, ir.IntType(32)(0))
    for k, total in enumerate(totals):
        sums = builder.load(total)
        sums = builder.add(sums, shuffled(builder, sums, sums, 2, 3, 0, 1))
        sums = builder.add(sums, shuffled(builder, sums, sums, 1, 0, 3, 2))
        before = builder.add(before, builder.extract_element(sums, ir.IntType(32)(0)))
        lanes = builder.insert_element(lanes, before, ir.IntType(32)(k + 1))
    return lanes


def _load(builder, place, vector):
    return builder.load(builder.bitcast(place, vector.as_pointer()), align=8)


def _next_two(builder, begins, i):
    """Return vectors of the words i and i + 1 of each quarter."""
    from llvmlite import ir

    two = ir.VectorType(ir.IntType(64), 2)
    pairs = [_load(builder, builder.gep(begin, [i]), two) for begin in begins]
    # The halves of vectors are joined while they are loaded.
    even, odd = (shuffled(builder, pairs[k], pairs[k + 2], 0, 1, 2, 3) for k in range(2))
    return shuffled(builder, even, odd, 0, 4, 2, 6), shuffled(builder, even, odd, 1, 5, 3, 7)


def _is_above(builder, g, h, form):
    """Return in which lanes the form is above zero, or not a number."""
    from llvmlite import ir
    from numba.core import cgutils

    numbers = ir.VectorType(ir.FloatType(), LANES)
    p, q, r, s, l2 = (in_all_lanes(builder, value, numbers) for value in form)
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(numbers, [numbers] * 3), f"llvm.fmuladd.v{LANES}f32"
    )
    # Rounded once or twice, as the processor does it faster.
    g, y = builder.sitofp(g, numbers), builder.fadd(builder.sitofp(h, numbers), l2)
    inner = builder.call(function, [r, g, builder.call(function, [q, y, s])])
    value = builder.call(function, [builder.fmul(g, g), p, builder.fmul(y, inner)])
    return builder.fcmp_unordered(">", value, ir.Constant(numbers, None))


@Intrinsic
def add_by_rank(typingctx, words, shift, n, values, sums):
    """Add each of n values to the entry of ``sums`` whose number is that of the lower ones among n
    bytes, and return how many of the bytes are 255. Byte i begins at bit ``shift`` of ``words[i]``;
    words behind n are -1 up to a multiple of 32, and n is at most 64."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils

    word, byte = ir.IntType(64), ir.IntType(8)
    bytes_ = ir.VectorType(byte, 32)

    def codegen(context, builder, signature, args):
        words, values, sums = (
            context.make_array(signature.args[k])(context, builder, args[k]).data for k in (0, 3, 4)
        )
        kept = cgutils.alloca_once(builder, ir.ArrayType(bytes_, 2))
        own = builder.bitcast(kept, byte.as_pointer())
        found = cgutils.alloca_once(builder, word)

        def add(n_blocks):
            blocks = []
            for k in range(n_blocks):
                blocks.append(_load_bytes(builder, builder.gep(words, [word(32 * k)]), args[1]))
                builder.store(blocks[k], builder.gep(kept, [word(0), word(k)]))
            with cgutils.for_range(builder, args[2]) as loop:
                code = in_all_lanes(builder, builder.load(builder.gep(own, [loop.index])), bytes_)
                entry = builder.gep(sums, [_count(builder, "<", blocks, code)])
                value = builder.load(builder.gep(values, [loop.index]))
                builder.store(builder.add(builder.load(entry), value), entry)
            highest = _count(builder, "==", blocks, ir.Constant(bytes_, [127] * 32))
            n_behind = builder.sub(word(32 * n_blocks), args[2])
            builder.store(builder.sub(highest, n_behind), found)

        with builder.if_else(builder.icmp_signed("<=", args[2], word(32))) as (one, two):
            with one:
                add(1)
            with two:
                add(2)
        return builder.load(found)

    return types.int64(words, types.uint64, types.int64, values, sums), codegen


def _load_bytes(builder, place, shift):
    """Load the bytes at bit ``shift`` of 32 words. With another highest bit, they are in the order
    of numbers with a sign, for which all processors have a comparison."""
    from llvmlite import ir

    lanes = _load(builder, place, ir.VectorType(ir.IntType(64), 32))
    bytes_ = ir.VectorType(ir.IntType(8), 32)
    lanes = builder.trunc(builder.lshr(lanes, in_all_lanes(builder, shift, lanes.type)), bytes_)
    return builder.xor(lanes, ir.Constant(bytes_, [-128] * 32))


def _count(builder, comparison, blocks, other):
    """Return how many bytes of some blocks compare so with those of another vector."""
    from llvmlite import ir

    total = ir.IntType(64)(0)
    for lanes in blocks:
        bits = bits_of_lanes(builder, builder.icmp_signed(comparison, lanes, other))
        total = builder.add(total, builder.ctpop(bits))
    return total
