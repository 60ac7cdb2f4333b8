"""Tables of fewer than 2**31 entries, which kernels of few threads index with 32 bits.

Numba asks of each index whether it is negative, and then multiplies and adds 64 bits, in halves:
about nine instructions of machine code for the address of a record. The kernels that control growth
are chains of such steps that one block takes once, so that what they wait for is their own code.
Here an address is one instruction.
"""

from __future__ import annotations

from typing import Any

from .compiling import declaration_for_cuda
from .target import is_simulated


def narrow(table: Any) -> Any:
    """Return an array of one axis, whose entries lie beside each other, as a table that is never
    indexed from its end. It has the array's ``shape`` and ``size``; atomic operations take the
    array."""
    return table


def _declare() -> None:
    """Register the CUDA version of ``narrow``: the address of an array, and its size."""
    import operator

    from llvmlite import ir
    from numba.core import types
    from numba.cuda import cgutils
    from numba.cuda.extending import intrinsic, models, overload, overload_attribute, register_model

    class Narrow(types.Type):
        def __init__(self, dtype: Any) -> None:
            self.dtype = dtype
            super().__init__(f"narrow({dtype})")

    @register_model(Narrow)
    class NarrowModel(models.StructModel):
        def __init__(self, manager: Any, kind: Narrow) -> None:
            members = [("data", types.CPointer(kind.dtype)), ("size", types.intp)]
            super().__init__(manager, kind, members)

    def proxy(kind: Any, context: Any, builder: Any, value: Any = None) -> Any:
        return cgutils.create_struct_proxy(kind)(context, builder, value)

    def address(context: Any, builder: Any, kind: Any, table: Any, index: Any, of: Any) -> Any:
        """Return the address of an entry. The upper half of the index is cut off behind the
        compiler's back, which would see a mask and 64 bits otherwise."""
        data = proxy(kind, context, builder, table).data
        if isinstance(of, types.IntegerLiteral):
            return builder.gep(data, [ir.IntType(32)(of.literal_value)])
        if index.type.width == 64:
            half = ir.FunctionType(ir.IntType(32), [index.type])
            index = builder.asm(half, "cvt.u32.u64 $0, $1;", "=r,l", [index], False)
            index.attributes.add("readnone")
        offset = builder.zext(index, ir.IntType(64))
        return builder.gep(data, [offset])

    @intrinsic
    def made(typing_context, array):
        def write(context, builder, signature, arguments):
            source = proxy(signature.args[0], context, builder, arguments[0])
            table = proxy(signature.return_type, context, builder)
            table.data, table.size = source.data, source.nitems
            return table._getvalue()

        return Narrow(array.dtype)(array), write

    @intrinsic
    def entry(typing_context, table, index):
        def write(context, builder, signature, arguments):
            place = address(context, builder, table, *arguments, index)
            return context.unpack_value(builder, table.dtype, place)

        return table.dtype(table, index), write

    @intrinsic
    def put(typing_context, table, index, value):
        def write(context, builder, signature, arguments):
            place = address(context, builder, table, *arguments[:2], index)
            new = context.cast(builder, arguments[2], value, table.dtype)
            context.pack_value(builder, table.dtype, new, place)
            return context.get_dummy_value()

        return types.none(table, index, value), write

    @intrinsic
    def size_of(typing_context, table):
        def write(context, builder, signature, arguments):
            return proxy(table, context, builder, arguments[0]).size

        return types.intp(table), write

    overload(narrow, target="cuda")(lambda table: lambda table: made(table))

    @overload(operator.getitem, target="cuda", prefer_literal=True)
    def _entry(table, index):
        if isinstance(table, Narrow):
            return lambda table, index: entry(table, index)

    @overload(operator.setitem, target="cuda", prefer_literal=True)
    def _put(table, index, value):
        if isinstance(table, Narrow):
            return lambda table, index, value: put(table, index, value)

    overload_attribute(Narrow, "size", target="cuda")(lambda table: lambda table: size_of(table))
    overload_attribute(Narrow, "shape", target="cuda")(
        lambda table: lambda table: (size_of(table),)
    )


if not is_simulated():
    declaration_for_cuda(_declare)
