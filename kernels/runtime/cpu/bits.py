"""Sets of up to 64 positions as the bits of a word."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 64


@intrinsic
def nonzero_bits(typingctx, array, first):
    """Which of the 64 entries of an int64 array from ``first`` on are not zero."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        lanes = ir.VectorType(ir.IntType(64), LANES)
        pointer = builder.bitcast(builder.gep(data, [args[1]]), lanes.as_pointer())
        values = builder.load(pointer, align=8)
        nonzero = builder.icmp_signed("!=", values, ir.Constant(lanes, None))
        return builder.bitcast(nonzero, ir.IntType(LANES))

    return types.uint64(array, types.int64), codegen


@intrinsic
def lowest_bit(typingctx, bits):
    """The position of the lowest bit that is set; there is one."""

    def codegen(context, builder, signature, args):
        word, flag = ir.IntType(64), ir.IntType(1)
        function = ir.FunctionType(word, [word, flag])
        declared = cgutils.get_or_insert_function(builder.module, function, "llvm.cttz.i64")
        return builder.call(declared, [args[0], ir.Constant(flag, 1)])

    return types.uint64(types.uint64), codegen
