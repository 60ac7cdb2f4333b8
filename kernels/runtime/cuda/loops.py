"""Loops that compilers leave as they are.

libNVVM writes the body of a loop without branches and barriers up to seven times: four times for
four steps at once, and once more for each of three steps that may be left over. In a loop over
rows it pays, whose loads then wait for memory together. In most others it only makes kernels twice
as large, which the wheel carries for each architecture.

It unrolls loops whose steps it can count. Here it cannot: the counter goes through a piece of
assembly code, a comment. The assembler could, and ``building.cubins`` forbids it where it finds
that comment.
"""

from __future__ import annotations

from typing import Any

from .compiling import declaration_for_cuda
from .target import is_simulated

COMMENT = "// not unrolled"


def rolled(numbers: Any) -> Any:
    """Return a ``range`` of ascending numbers from 0 on, for a loop that is not unrolled."""
    return numbers


def unknown(number: Any) -> Any:
    """Return an integer as one that the compiler does not know."""
    return number


def _hidden(builder: Any, value: Any) -> Any:
    """Write code after which the compiler knows nothing of an integer."""
    from llvmlite import ir

    same = ir.FunctionType(value.type, [value.type])
    # Input and output share a register, so that the assembly code is empty but for the comment.
    place = "l" if value.type.width == 64 else "r"
    return builder.asm(same, COMMENT, f"={place},0", [value], False)


def _declare_unknown() -> None:
    """Register the CUDA version of ``unknown``."""
    from numba.core import types
    from numba.cuda.extending import intrinsic, overload

    @intrinsic
    def hidden(typing_context, number):
        def write(context, builder, signature, arguments):
            return _hidden(builder, arguments[0])

        kind = types.unliteral(number)
        return kind(kind), write

    overload(unknown, target="cuda")(lambda number: lambda number: hidden(number))


def _declare_rolled() -> None:
    """Register the CUDA version of ``rolled``: a type that holds a ``range``, and its iterator."""
    from numba.core import types
    from numba.cuda import cgutils
    from numba.cuda.core.imputils import RefType, iternext_impl
    from numba.cuda.extending import intrinsic, lower_builtin, models, overload, register_model

    class Rolled(types.SimpleIterableType):
        def __init__(self, numbers: Any) -> None:
            self.dtype = numbers.dtype
            super().__init__(f"rolled({numbers})", Iterator(numbers.dtype))

    class Iterator(types.SimpleIteratorType):
        def __init__(self, dtype: Any) -> None:
            super().__init__(f"iterator(rolled({dtype}))", dtype)

    @register_model(Rolled)
    class RolledModel(models.StructModel):
        def __init__(self, manager: Any, kind: Rolled) -> None:
            members = [(name, kind.dtype) for name in ("start", "stop", "step")]
            super().__init__(manager, kind, members)

    @register_model(Iterator)
    class IteratorModel(models.StructModel):
        def __init__(self, manager: Any, kind: Iterator) -> None:
            at = types.EphemeralPointer(kind.yield_type)
            members = [("at", at), ("stop", kind.yield_type), ("step", kind.yield_type)]
            super().__init__(manager, kind, members)

    def proxy(kind: Any, context: Any, builder: Any, value: Any = None) -> Any:
        return cgutils.create_struct_proxy(kind)(context, builder, value)

    @intrinsic
    def held(typing_context, numbers):
        def write(context, builder, signature, arguments):
            made = proxy(signature.return_type, context, builder)
            made.start, made.stop, made.step = cgutils.unpack_tuple(builder, arguments[0], 3)
            return made._getvalue()

        return Rolled(numbers)(numbers), write

    @lower_builtin("getiter", Rolled)
    def begin(context, builder, signature, arguments):
        numbers = proxy(signature.args[0], context, builder, arguments[0])
        made = proxy(signature.return_type, context, builder)
        made.at = cgutils.alloca_once_value(builder, numbers.start)
        made.stop, made.step = numbers.stop, numbers.step
        return made._getvalue()

    @lower_builtin("iternext", Iterator)
    @iternext_impl(RefType.UNTRACKED)
    def go_on(context, builder, signature, arguments, result):
        """Without a branch, as Numba's own ``range`` has: what is stored at the end is never read.
        That no number is negative spares the question where they are indices."""
        iterator = proxy(signature.args[0], context, builder, arguments[0])
        number = _hidden(builder, builder.load(iterator.at))
        builder.assume(builder.icmp_signed(">=", number, number.type(0)))
        result.set_valid(builder.icmp_signed("<", number, iterator.stop))
        result.yield_(number)
        builder.store(builder.add(number, iterator.step), iterator.at)

    overload(rolled, target="cuda")(lambda numbers: lambda numbers: held(numbers))


if not is_simulated():
    declaration_for_cuda(_declare_unknown)
    declaration_for_cuda(_declare_rolled)
