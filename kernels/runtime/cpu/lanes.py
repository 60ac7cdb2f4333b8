"""Instructions that Numba cannot express: bits of a word, bytes of an array of words, and running
sums of integers, eight at a time.

Each running sum waits for the one before, which takes a step an entry. Eight lanes need three
steps. A shuffle within half a vector of four lanes takes a cycle, one across the halves several, so
the eight entries are dealt out such that only the last step needs those::

    a b | e f     c d | g h      two vectors of two halves
    a ab| e ef    c cd| g gh     each lane of a half adds the one to its left
    a ab| e ef  abc ad| efg eh   the second vector adds the ends of the first one's halves
    all sums                     the second halves add the end of the first half, a ... d
"""

from __future__ import annotations

from ...scalars.lazy_jit import Intrinsic

LANES = 8
HIGH_HALVES, LOW_HALVES = (1, 3, 9, 11, 5, 7, 13, 15), (0, 2, 8, 10, 4, 6, 12, 14)
"""Where the halves of running sums are in the vectors of ``_sums_of_eight``, in the order of these.
"""


@Intrinsic
def lowest_bit(typingctx, word):
    """Return the number of the lowest bit that is set in a uint64 other than zero."""
    from llvmlite import ir
    from numba import types

    def codegen(context, builder, signature, args):
        # The 1 says that the word is not zero, which spares a test.
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
def chosen(typingctx, condition, value, other):
    """Return one of two int64, without a branch on the condition: the processor cannot guess it."""
    from numba import types

    def codegen(context, builder, signature, args):
        found = builder.select(*args)
        found.set_metadata("unpredictable", builder.module.add_metadata([]))
        return found

    return types.int64(types.boolean, types.int64, types.int64), codegen


@Intrinsic
def byte_of(typingctx, words, index):
    """Read a byte of an array of words, which are taken for one line of bytes."""
    from llvmlite import ir
    from numba import types

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        first = builder.bitcast(data, ir.IntType(8).as_pointer())
        return builder.zext(builder.load(builder.gep(first, [args[1]])), ir.IntType(64))

    return types.uint64(words, types.uint64), codegen


@Intrinsic
def flags_set(typingctx, flags, first):
    """Return a bit for each of the 64 bytes from entry ``first`` on that is not zero."""
    from llvmlite import ir
    from numba import types

    vector = ir.VectorType(ir.IntType(8), 64)

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        place = builder.bitcast(builder.gep(data, [args[1]]), vector.as_pointer())
        is_set = builder.icmp_unsigned(
            "!=", builder.load(place, align=1), ir.Constant(vector, None)
        )
        return builder.bitcast(is_set, ir.IntType(64))

    return types.uint64(flags, types.uint64), codegen


@Intrinsic
def lanes_left(typingctx, line, first, limit, other):
    """Return a bit for each of the 64 entries of a line from entry ``first`` on that is at most
    ``limit``, or equal to ``other``."""
    from llvmlite import ir
    from numba import types

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        vector = ir.VectorType(data.type.pointee, 64)
        place = builder.bitcast(builder.gep(data, [args[1]]), vector.as_pointer())
        lanes = builder.load(place, align=1)
        limit, other = (
            in_all_lanes(builder, builder.trunc(value, vector.element), vector)
            for value in args[2:]
        )
        found = builder.or_(
            builder.icmp_unsigned("<=", lanes, limit), builder.icmp_unsigned("==", lanes, other)
        )
        return builder.bitcast(found, ir.IntType(64))

    return types.uint64(line, types.uint64, types.uint64, types.uint64), codegen


@Intrinsic
def lanes_equal(typingctx, line, value):
    """Return a bit for each of the first 32 entries of a line that has this value."""
    from numba import types

    def codegen(context, builder, signature, args):
        lanes = _lanes_of(context, builder, signature, args)
        value = builder.trunc(args[1], lanes.type.element)
        found = builder.icmp_unsigned("==", lanes, in_all_lanes(builder, value, lanes.type))
        return bits_of_lanes(builder, found)

    return types.uint64(line, types.uint64), codegen


@Intrinsic
def range_of_lanes(typingctx, line, first, which):
    """Return the lowest and, 32 bits higher, the highest of the 64 entries of a line from entry
    ``first`` on that have a bit in ``which``, other than zero."""
    from llvmlite import ir
    from numba import types

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        number = data.type.pointee
        vector = ir.VectorType(number, 64)
        place = builder.bitcast(builder.gep(data, [args[1]]), vector.as_pointer())
        lanes = builder.load(place, align=1)
        is_used = builder.bitcast(args[2], ir.VectorType(ir.IntType(1), 64))
        lowest = builder.select(is_used, lanes, ir.Constant(vector, [2**number.width - 1] * 64))
        highest = builder.select(is_used, lanes, ir.Constant(vector, None))
        low, high = (
            builder.zext(builder.call(_of_all_lanes(builder, name, vector), [value]), args[2].type)
            for name, value in (("umin", lowest), ("umax", highest))
        )
        return builder.or_(low, builder.shl(high, ir.Constant(high.type, 32)))

    return types.uint64(line, types.uint64, types.uint64), codegen


@Intrinsic
def place_in_line(typingctx, line, i, which):
    """Return how many of the first 32 entries of a line are lower than entry i, or equal and before
    it, of those that have a bit in ``which``."""
    from llvmlite import ir
    from numba import types

    def codegen(context, builder, signature, args):
        lanes = _lanes_of(context, builder, signature, args)
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        value = builder.load(builder.gep(data, [args[1]]))
        own = in_all_lanes(builder, value, lanes.type)
        lower = bits_of_lanes(builder, builder.icmp_unsigned("<", lanes, own))
        equal = bits_of_lanes(builder, builder.icmp_unsigned("==", lanes, own))
        one = ir.Constant(ir.IntType(64), 1)
        # The bits below bit i: the entries before it.
        before = builder.sub(builder.shl(one, args[1]), one)
        found = builder.or_(lower, builder.and_(equal, before))
        return builder.ctpop(builder.and_(found, args[2]))

    return types.uint64(line, types.uint64, types.uint64), codegen


@Intrinsic
def largest_score(typingctx, left, right, weights, mask, weight, n):
    """Return the largest ``left[k] / w + right[k] / (weight - w)``, float64, for k < n, a multiple
    of eight, where w is ``weights[k] & mask``, below 2**52; NaN counts as none."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils

    word = ir.IntType(64)
    words, numbers = ir.VectorType(word, LANES), ir.VectorType(ir.DoubleType(), LANES)
    lowest = ir.Constant(numbers, [float("-inf")] * LANES)

    def codegen(context, builder, signature, args):
        lines = [
            context.make_array(signature.args[k])(context, builder, args[k]).data for k in range(3)
        ]
        mask, total = (
            in_all_lanes(builder, args[3], words),
            in_all_lanes(builder, args[4], numbers),
        )

        def at(k, line, vector):
            return builder.load(
                builder.bitcast(builder.gep(line, [k]), vector.as_pointer()), align=8
            )

        best = cgutils.alloca_once_value(builder, lowest)
        start, step = ir.Constant(word, 0), ir.Constant(word, LANES)
        with cgutils.for_range_slice(builder, start, args[5], step, inc=True) as (k, _):
            # Divisions are the slow part: a vector does several at once.
            on_left = _as_numbers(builder, builder.and_(at(k, lines[2], words), mask))
            on_right = builder.fsub(total, on_left)
            score = builder.fdiv(at(k, lines[0], numbers), on_left)
            score = builder.fadd(score, builder.fdiv(at(k, lines[1], numbers), on_right))
            before = builder.load(best)
            # An ordered comparison is false for NaN, which so never becomes the best.
            is_larger = builder.fcmp_ordered(">", score, before)
            builder.store(builder.select(is_larger, score, before), best)
        return _largest_lane(builder, builder.load(best))

    return types.float64(left, right, weights, mask, types.float64, types.int64), codegen


def _as_numbers(builder, words):
    """Return integers from 0 to 2**52 as float64, without AVX-512: as mantissas of 2**52 ..."""
    from llvmlite import ir

    numbers = ir.VectorType(ir.DoubleType(), words.type.count)
    # The bits of 2**52: integers below it are its mantissa, and the difference is exact.
    exponent = ir.Constant(words.type, [0x433 << 52] * words.type.count)
    shifted = builder.bitcast(builder.or_(words, exponent), numbers)
    return builder.fsub(shifted, ir.Constant(numbers, [2.0**52] * words.type.count))


def _largest_lane(builder, lanes):
    from llvmlite import ir

    half = lanes.type.count
    while half > 1:
        half //= 2
        other = shuffled(builder, lanes, lanes, *range(half, 2 * half))
        lanes = shuffled(builder, lanes, lanes, *range(half))
        lanes = builder.select(builder.fcmp_ordered(">", other, lanes), other, lanes)
    return builder.extract_element(lanes, ir.IntType(32)(0))


def _lanes_of(context, builder, signature, args):
    """Load 32 entries of a line."""
    from llvmlite import ir

    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    vector = ir.VectorType(data.type.pointee, 32)
    return builder.load(builder.bitcast(data, vector.as_pointer()), align=1)


def _of_all_lanes(builder, name, vector):
    """Declare LLVM's reduction of a vector."""
    from llvmlite import ir
    from numba.core import cgutils

    width = vector.element.width
    function = ir.FunctionType(vector.element, [vector])
    full = f"llvm.vector.reduce.{name}.v{vector.count}i{width}"
    return cgutils.get_or_insert_function(builder.module, function, full)


def in_all_lanes(builder, value, vector):
    from llvmlite import ir

    first = builder.insert_element(ir.Constant(vector, None), value, ir.IntType(32)(0))
    return shuffled(builder, first, first, *[0] * vector.count)


def bits_of_lanes(builder, lanes):
    """Return a uint64 with a bit for each of 32 lanes of one bit."""
    from llvmlite import ir

    return builder.zext(builder.bitcast(lanes, ir.IntType(32)), ir.IntType(64))


@Intrinsic
def running_sums(typingctx, source, n, high, low):
    """Write the halves of ``source[0] + ... + source[i]`` to ``high[i]`` and ``low[i]``, int32, for
    i < n, a multiple of eight; return the last sum."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils

    word, half = ir.IntType(64), ir.IntType(32)
    four, halves = ir.VectorType(word, 4), ir.VectorType(half, LANES)

    def codegen(context, builder, signature, args):
        data = [
            context.make_array(signature.args[k])(context, builder, args[k]).data for k in (0, 2, 3)
        ]

        def at(line, first, vector):
            return builder.bitcast(builder.gep(data[line], [first]), vector.as_pointer())

        carry = cgutils.alloca_once_value(builder, ir.Constant(four, None))
        start, step = ir.Constant(word, 0), ir.Constant(word, LANES)
        with cgutils.for_range_slice(builder, start, args[1], step, inc=True) as (i, _):
            middle = builder.add(i, ir.Constant(word, 4))
            begin, end = (builder.load(at(0, k, four), align=8) for k in (i, middle))
            # The only step that waits for the eight before: one addition of the carry.
            *sums, last = _sums_of_eight(builder, begin, end, builder.load(carry))
            builder.store(last, carry)
            parts = [builder.bitcast(z, halves) for z in sums]
            for line, order in ((1, HIGH_HALVES), (2, LOW_HALVES)):
                builder.store(shuffled(builder, *parts, *order), at(line, i, halves), align=4)
        return builder.extract_element(builder.load(carry), half(0))

    return types.int64(source, types.int64, high, low), codegen


@Intrinsic
def largest_ratio(typingctx, table, n, mean, total):
    """Return the largest ``s**2 / (l * (total - l))`` of the running sums of n words, a multiple of
    eight, and leave zeros in their place; -1 if no divisor is above zero.

    The high half of a running sum less ``mean * l`` is s, its low half is l, int32 both. The
    arithmetic is float32.
    """
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils

    word, half = ir.IntType(64), ir.IntType(32)
    four, eight = ir.VectorType(word, 4), ir.VectorType(half, LANES)
    numbers = ir.VectorType(ir.FloatType(), LANES)
    none = ir.Constant(numbers, [-1.0] * LANES)

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        mean, total = (in_all_lanes(builder, value, numbers) for value in args[2:])
        carry = cgutils.alloca_once_value(builder, ir.Constant(four, None))
        best = cgutils.alloca_once_value(builder, none)
        start, step = ir.Constant(word, 0), ir.Constant(word, LANES)
        with cgutils.for_range_slice(builder, start, args[1], step, inc=True) as (i, _):
            places = [
                builder.bitcast(builder.gep(data, [k]), four.as_pointer())
                for k in (i, builder.add(i, ir.Constant(word, 4)))
            ]
            begin, end = (builder.load(place, align=8) for place in places)
            for place in places:
                builder.store(ir.Constant(four, None), place, align=8)
            *sums, last = _sums_of_eight(builder, begin, end, builder.load(carry))
            builder.store(last, carry)
            parts = [builder.bitcast(z, eight) for z in sums]
            s, left = (
                builder.sitofp(shuffled(builder, *parts, *order), numbers)
                for order in (HIGH_HALVES, LOW_HALVES)
            )
            s = builder.fsub(s, builder.fmul(mean, left))
            divisor = builder.fmul(left, builder.fsub(total, left))
            ratio = builder.fdiv(builder.fmul(s, s), divisor)
            is_cut = builder.fcmp_ordered(">", divisor, ir.Constant(numbers, None))
            ratio = builder.select(is_cut, ratio, none)
            before = builder.load(best)
            is_larger = builder.fcmp_ordered(">", ratio, before)
            builder.store(builder.select(is_larger, ratio, before), best)
        return _largest_lane(builder, builder.load(best))

    return types.float32(table, types.int64, types.float32, types.float32), codegen


def _sums_of_eight(builder, begin, end, carry):
    """Return two vectors with the running sums of the entries in ``begin`` and ``end``, each plus
    ``carry``, and one with the last of them in all lanes."""
    from llvmlite import ir

    zeros = ir.Constant(begin.type, None)
    x = shuffled(builder, begin, end, 0, 1, 4, 5)
    y = shuffled(builder, begin, end, 2, 3, 6, 7)
    x, y = (builder.add(z, shuffled(builder, z, zeros, 4, 0, 4, 2)) for z in (x, y))
    y = builder.add(y, shuffled(builder, x, x, 1, 1, 3, 3))
    ends = shuffled(builder, y, y, 1, 1, 3, 3)
    before = builder.add(carry, shuffled(builder, ends, zeros, 4, 4, 0, 1))
    last = builder.add(ends, shuffled(builder, ends, ends, 2, 3, 0, 1))
    return builder.add(x, before), builder.add(y, before), builder.add(carry, last)


def shuffled(builder, first, second, *order):
    from llvmlite import ir

    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(order)), order)
    return builder.shuffle_vector(first, second, mask)
