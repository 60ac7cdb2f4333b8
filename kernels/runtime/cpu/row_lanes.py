"""Rows of codes of one byte, 32 features at a time: a row's codes lie side by side, so that one
vector has them all, and a row costs one load from memory whatever the number of features.

    row 7    17   5  17   3   9 ...          a lane for each feature
    row 9    20   5   1   8   2 ...
    lowest   17   5   1   3   2 ...

Rows are the low halves of records. ``range_of_lanes`` looks at one feature, with a lane for each of
some rows.
"""

from __future__ import annotations

from contextlib import contextmanager

from ...scalars.lazy_jit import Intrinsic

FEATURES = 32
MOST_COUNTED = 255
"""Rows that counters of one byte can count."""


@Intrinsic
def range_of_rows(typingctx, codes, first, stride, records, n, low, high):
    """Write the lowest and the highest codes of n rows, at least one, to ``low`` and ``high``.

    The codes of a row begin ``row * stride`` places behind entry ``first``.
    """
    from llvmlite import ir
    from numba import types

    def codegen(context, builder, signature, args):
        vector = _vector(context, builder, signature, args)
        lowest = _variable(builder, ir.Constant(vector, [255] * FEATURES))
        highest = _variable(builder, ir.Constant(vector, None))
        with _each_row(context, builder, signature, args, vector) as (_, _, lanes):
            for place, order in ((lowest, "<"), (highest, ">")):
                before = builder.load(place)
                is_further = builder.icmp_unsigned(order, lanes, before)
                builder.store(builder.select(is_further, lanes, before), place)
        for k, place in ((5, lowest), (6, highest)):
            target = _data(context, builder, signature, args, k)
            builder.store(
                builder.load(place), builder.bitcast(target, vector.as_pointer()), align=1
            )
        return context.get_dummy_value()

    signature = types.void(codes, types.uint64, types.uint64, records, types.uint64, low, high)
    return signature, codegen


@Intrinsic
def count_rows(typingctx, codes, first, stride, records, n, limits, others, counts, marked):
    """Write how many of n rows, at most ``MOST_COUNTED``, have a code up to the feature's entry of
    ``limits``, or that of ``others``, to ``counts``, and how many of these have a record whose
    highest bit is set to ``marked``. Rows are as in ``range_of_rows``."""
    from llvmlite import ir
    from numba import types

    def codegen(context, builder, signature, args):
        vector = _vector(context, builder, signature, args)
        none = ir.Constant(vector, None)
        n_left, n_marked = _variable(builder, none), _variable(builder, none)
        bounds = [_lanes(context, builder, signature, args, k, vector) for k in (5, 6)]
        with _each_row(context, builder, signature, args, vector) as (_, record, lanes):
            left = _flags_left(builder, lanes, *bounds)
            sign = builder.ashr(record, ir.Constant(record.type, 63))
            mark = _in_all_lanes(builder, builder.trunc(sign, vector.element), vector)
            builder.store(builder.sub(builder.load(n_left), left), n_left)
            both = builder.and_(left, mark)
            builder.store(builder.sub(builder.load(n_marked), both), n_marked)
        for k, place in ((7, n_left), (8, n_marked)):
            target = _data(context, builder, signature, args, k)
            builder.store(
                builder.load(place), builder.bitcast(target, vector.as_pointer()), align=1
            )
        return context.get_dummy_value()

    signature = types.void(
        codes, types.uint64, types.uint64, records, types.uint64, limits, others, counts, marked
    )
    return signature, codegen


@Intrinsic
def sum_rows(typingctx, codes, first, stride, records, n, limits, others, values, sums):
    """Write the sums of the ``values`` (int64, one for each of n rows) of the rows that
    ``count_rows`` counts to ``sums``."""
    from llvmlite import ir
    from numba import types

    word = ir.IntType(64)
    four = ir.VectorType(word, 4)

    def codegen(context, builder, signature, args):
        vector = _vector(context, builder, signature, args)
        totals = [_variable(builder, ir.Constant(four, None)) for _ in range(FEATURES // 4)]
        bounds = [_lanes(context, builder, signature, args, k, vector) for k in (5, 6)]
        line = _data(context, builder, signature, args, 7)
        with _each_row(context, builder, signature, args, vector) as (i, _, lanes):
            left = _flags_left(builder, lanes, *bounds)
            value = _in_all_lanes(builder, builder.load(builder.gep(line, [i])), four)
            for k, total in enumerate(totals):
                some = ir.Constant(
                    ir.VectorType(ir.IntType(32), 4), [4 * k + lane for lane in range(4)]
                )
                mask = builder.sext(builder.shuffle_vector(left, left, some), four)
                added = builder.add(builder.load(total), builder.and_(mask, value))
                builder.store(added, total)
        target = _data(context, builder, signature, args, 8)
        for k, total in enumerate(totals):
            place = builder.gep(target, [ir.Constant(word, 4 * k)])
            builder.store(builder.load(total), builder.bitcast(place, four.as_pointer()), align=8)
        return context.get_dummy_value()

    signature = types.void(
        codes, types.uint64, types.uint64, records, types.uint64, limits, others, values, sums
    )
    return signature, codegen


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


def _of_all_lanes(builder, name, vector):
    """Declare LLVM's reduction of a vector."""
    from llvmlite import ir
    from numba.core import cgutils

    width = vector.element.width
    function = ir.FunctionType(vector.element, [vector])
    full = f"llvm.vector.reduce.{name}.v{vector.count}i{width}"
    return cgutils.get_or_insert_function(builder.module, function, full)


def _data(context, builder, signature, args, k):
    return context.make_array(signature.args[k])(context, builder, args[k]).data


def _vector(context, builder, signature, args):
    from llvmlite import ir

    return ir.VectorType(_data(context, builder, signature, args, 0).type.pointee, FEATURES)


def _variable(builder, value):
    from numba.core import cgutils

    return cgutils.alloca_once_value(builder, value)


def _lanes(context, builder, signature, args, k, vector):
    data = _data(context, builder, signature, args, k)
    return builder.load(builder.bitcast(data, vector.as_pointer()), align=1)


def _in_all_lanes(builder, value, vector):
    from llvmlite import ir

    first = builder.insert_element(ir.Constant(vector, None), value, ir.IntType(32)(0))
    order = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None)
    return builder.shuffle_vector(first, first, order)


def _flags_left(builder, lanes, limits, others):
    """Return lanes of ones where a code is up to the limit, or is the other one, else of zeros."""
    is_left = builder.or_(
        builder.icmp_unsigned("<=", lanes, limits), builder.icmp_unsigned("==", lanes, others)
    )
    return builder.sext(is_left, lanes.type)


@contextmanager
def _each_row(context, builder, signature, args, vector):
    """Loop over the rows: yield the number of each, its record, and its codes."""
    from llvmlite import ir
    from numba.core import cgutils

    word = ir.IntType(64)
    codes, records = (_data(context, builder, signature, args, k) for k in (0, 3))
    first, stride, n = args[1], args[2], args[4]
    start, step = ir.Constant(word, 0), ir.Constant(word, 1)
    with cgutils.for_range_slice(builder, start, n, step, inc=True) as (i, _):
        record = builder.load(builder.gep(records, [i]))
        row = builder.and_(record, ir.Constant(word, 2**32 - 1))
        place = builder.gep(codes, [builder.add(builder.mul(row, stride), first)])
        lanes = builder.load(builder.bitcast(place, vector.as_pointer()), align=1)
        yield i, record, lanes
