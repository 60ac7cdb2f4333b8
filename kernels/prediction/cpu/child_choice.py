"""Choices between the children of a node for a block of rows, in vector instructions.

Numba makes vector instructions of a loop only where it stands alone in a function, and a call of
one takes longer than the work on 256 bytes. So the instructions are written here, and become part
of the caller.
"""

from __future__ import annotations

from typing import Any

from ...scalars.lazy_jit import Intrinsic

BLOCK = 256
"""Rows evaluated together."""
LANES = 64
"""Rows in a vector; a processor with shorter ones takes several."""


@Intrinsic
def choose(typingctx, codes, column, shift, limit, reached, left, right, target):
    """Write ``reached[target + i] = reached[right + i] if codes[column + i] + shift > limit else
    reached[left + i]`` for the rows i of a block, in 8 bits."""
    return _choice(codes, reached, False, False)


@Intrinsic
def choose_left_leaf(typingctx, codes, column, shift, limit, reached, left, right, target):
    """Choose as ``choose`` does, with leaf number ``left`` in the place of ``reached[left +
    i]``."""
    return _choice(codes, reached, True, False)


@Intrinsic
def choose_right_leaf(typingctx, codes, column, shift, limit, reached, left, right, target):
    """Choose as ``choose`` does, with leaf number ``right`` in place of ``reached[right + i]``."""
    return _choice(codes, reached, False, True)


@Intrinsic
def choose_leaves(typingctx, codes, column, shift, limit, reached, left, right, target):
    """Choose between the leaves of numbers ``left`` and ``right``."""
    return _choice(codes, reached, True, True)


def _choice(codes: Any, reached: Any, left_is_leaf: bool, right_is_leaf: bool) -> Any:
    """Return the signature and the instructions of a choice."""
    from llvmlite import ir
    from numba import types

    byte, word = ir.IntType(8), ir.IntType(64)
    lanes = ir.VectorType(byte, LANES)

    def codegen(context, builder, signature, args):
        def lines_of(argument):
            data = context.make_array(signature.args[argument])(context, builder, args[argument])

            def pointer(start, first):
                at = builder.add(start, ir.Constant(word, first))
                return builder.bitcast(builder.gep(data.data, [at]), lanes.as_pointer())

            return pointer

        def everywhere(value):
            first = ir.Constant(ir.IntType(32), 0)
            one = builder.insert_element(ir.Constant(lanes, ir.Undefined), value, first)
            order = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            return builder.shuffle_vector(one, ir.Constant(lanes, ir.Undefined), order)

        def child(argument, is_leaf):
            if is_leaf:
                leaf = everywhere(builder.trunc(args[argument], byte))
                return lambda first: leaf
            return lambda first: builder.load(line(args[argument], first), align=1)

        # This loop runs while code is generated: LLVM sees the vectors of a block one after the
        # other.
        code, line = lines_of(0), lines_of(4)
        shift, limit = everywhere(args[2]), everywhere(args[3])
        left, right = child(5, left_is_leaf), child(6, right_is_leaf)
        for first in range(0, BLOCK, LANES):
            shifted = builder.add(builder.load(code(args[1], first), align=1), shift)
            goes_right = builder.icmp_unsigned(">", shifted, limit)
            chosen = builder.select(goes_right, right(first), left(first))
            builder.store(chosen, line(args[7], first), align=1)
        return context.get_dummy_value()

    number = types.int64
    return types.void(
        codes, number, types.uint8, types.uint8, reached, number, number, number
    ), codegen
