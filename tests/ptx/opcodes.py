"""What every supported PTX instruction does, as LLVM IR.

A function below the pattern of an opcode emits its instructions. PTX ISA 9.0, chapters 9.7.1 to
9.7.9, defines the meaning, and where it leaves a value open (integer division by zero, the bits of
a NaN) the one that NVIDIA's hardware gives is taken. No fast-math flag is ever set, and products
are not contracted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from .parse import BITS, Instruction, PtxError

if TYPE_CHECKING:
    from .lower import Emitter

Handler = Callable[..., None]
HANDLERS: list[tuple[re.Pattern[str], Handler]] = []

INTEGER = r"([su](?:16|32|64))"
ANY_BITS = r"([bsu](?:16|32|64)|f32|f64)"
FLOAT = r"(f32|f64)"
CANONICAL_NAN = 0x7FFFFFFF
"""The bits of every NaN that arithmetic in single precision gives."""


def opcode(pattern: str) -> Callable[[Handler], Handler]:
    """Register a function for the opcodes that match; it gets the groups of the pattern."""

    def register(handler: Handler) -> Handler:
        HANDLERS.append((re.compile(pattern.replace(" ", "") + "$"), handler))
        return handler

    return register


def emit(e: Emitter, instruction: Instruction) -> None:
    """Emit one instruction.

    Raises
    ------
    PtxError
        The machine does not know the opcode.
    """
    for pattern, handler in HANDLERS:
        match = pattern.match(instruction.opcode)
        if match:
            handler(e, *instruction.operands, *match.groups())
            return
    raise PtxError(
        f"line {instruction.line}: the machine does not know {instruction.opcode!r}: {instruction}"
    )


def llvm_type(kind: str) -> str:
    """Return LLVM's name of a PTX type."""
    return {"f32": "float", "f64": "double"}.get(kind, f"i{BITS[kind]}")


def is_signed(kind: str) -> bool:
    return kind.startswith("s")


def set_result(e: Emitter, target: str, kind: str, value: str) -> None:
    """Write the result of arithmetic: in single precision, every NaN is the canonical one."""
    if kind != "f32":
        e.set(target, kind, value)
        return
    # As integers: LLVM may take one NaN for another.
    bits, nan = e(f"bitcast float {value} to i32"), e(f"fcmp uno float {value}, {value}")
    e.set_bits(target, kind, e(f"select i1 {nan}, i32 {CANONICAL_NAN}, i32 {bits}"))


# Arithmetic.


@opcode(rf"(add|sub)\.{INTEGER}")
@opcode(r"(and|or|xor)\.(pred|b16|b32|b64)")
def integer_arithmetic(e: Emitter, d: str, a: str, b: str, name: str, kind: str) -> None:
    e.set(d, kind, e(f"{name} {llvm_type(kind)} {e.get(a, kind)}, {e.get(b, kind)}"))


@opcode(r"popc\.(b32|b64)")
def count_ones(e: Emitter, d: str, a: str, kind: str) -> None:
    of = llvm_type(kind)
    count = e(f"call {of} @llvm.ctpop.{of}({of} {e.get(a, kind)})")
    e.set(d, "b32", count if kind == "b32" else e(f"trunc {of} {count} to i32"))


@opcode(rf"(add|sub|mul)(?:\.rn)?\.{FLOAT}")
@opcode(rf"(div)\.rn\.{FLOAT}")
def float_arithmetic(e: Emitter, d: str, a: str, b: str, name: str, kind: str) -> None:
    value = e(f"f{name} {llvm_type(kind)} {e.get(a, kind)}, {e.get(b, kind)}")
    set_result(e, d, kind, value)


@opcode(rf"fma\.rn\.{FLOAT}")
def fused(e: Emitter, d: str, a: str, b: str, c: str, kind: str) -> None:
    arguments = ", ".join(f"{llvm_type(kind)} {e.get(x, kind)}" for x in (a, b, c))
    value = e(f"call {llvm_type(kind)} @llvm.fma.{kind}({arguments})")
    set_result(e, d, kind, value)


@opcode(rf"rcp\.rn\.{FLOAT}")
def reciprocal(e: Emitter, d: str, a: str, kind: str) -> None:
    value = e(f"fdiv {llvm_type(kind)} 1.0, {e.get(a, kind)}")
    set_result(e, d, kind, value)


@opcode(rf"sqrt\.rn\.{FLOAT}")
def square_root(e: Emitter, d: str, a: str, kind: str) -> None:
    value = e(f"call {llvm_type(kind)} @llvm.sqrt.{kind}({llvm_type(kind)} {e.get(a, kind)})")
    set_result(e, d, kind, value)


@opcode(rf"neg\.{FLOAT}")
def negate_float(e: Emitter, d: str, a: str, kind: str) -> None:
    e.set(d, kind, e(f"fneg {llvm_type(kind)} {e.get(a, kind)}"))


@opcode(rf"abs\.{FLOAT}")
def absolute_float(e: Emitter, d: str, a: str, kind: str) -> None:
    of = llvm_type(kind)
    e.set(d, kind, e(f"call {of} @llvm.fabs.{kind}({of} {e.get(a, kind)})"))


@opcode(rf"(min|max)\.{FLOAT}")
def float_extreme(e: Emitter, d: str, a: str, b: str, name: str, kind: str) -> None:
    """A number wins over NaN, and -0.0 is less than 0.0."""
    of, bits = llvm_type(kind), BITS[kind]
    x, y = e.get(a, kind), e.get(b, kind)
    first = e(f"fcmp {'olt' if name == 'min' else 'ogt'} {of} {x}, {y}")
    value = e(f"select i1 {first}, {of} {x}, {of} {y}")
    xs, ys = e(f"bitcast {of} {x} to i{bits}"), e(f"bitcast {of} {y} to i{bits}")
    zero = e(f"{'or' if name == 'min' else 'and'} i{bits} {xs}, {ys}")
    equal = e(f"fcmp oeq {of} {x}, {y}")
    signed = e(f"bitcast i{bits} {zero} to {of}")
    value = e(f"select i1 {equal}, {of} {signed}, {of} {value}")
    y_is_nan = e(f"fcmp uno {of} {y}, {y}")
    value = e(f"select i1 {y_is_nan}, {of} {x}, {of} {value}")
    set_result(e, d, kind, value)


@opcode(rf"(min|max)\.{INTEGER}")
def integer_extreme(e: Emitter, d: str, a: str, b: str, name: str, kind: str) -> None:
    of = llvm_type(kind)
    x, y = e.get(a, kind), e.get(b, kind)
    call = f"@llvm.{'s' if is_signed(kind) else 'u'}{name}.{of}({of} {x}, {of} {y})"
    e.set(d, kind, e(f"call {of} {call}"))


@opcode(r"neg\.(s16|s32|s64)")
def negate(e: Emitter, d: str, a: str, kind: str) -> None:
    e.set(d, kind, e(f"sub {llvm_type(kind)} 0, {e.get(a, kind)}"))


@opcode(r"abs\.(s16|s32|s64)")
def absolute(e: Emitter, d: str, a: str, kind: str) -> None:
    of = llvm_type(kind)
    e.set(d, kind, e(f"call {of} @llvm.abs.{of}({of} {e.get(a, kind)}, i1 false)"))


def product(e: Emitter, a: str, b: str, part: str, kind: str) -> tuple[str, str]:
    """Return a product and its type: the low or high half, or all of its bits."""
    of, bits = llvm_type(kind), BITS[kind]
    x, y = e.get(a, kind), e.get(b, kind)
    if part == "lo":
        return e(f"mul {of} {x}, {y}"), kind
    extend = "sext" if is_signed(kind) else "zext"
    x, y = (e(f"{extend} {of} {value} to i{2 * bits}") for value in (x, y))
    value = e(f"mul i{2 * bits} {x}, {y}")
    if part == "wide":
        return value, f"{kind[0]}{2 * bits}"
    high = e(f"lshr i{2 * bits} {value}, {bits}")
    return e(f"trunc i{2 * bits} {high} to {of}"), kind


@opcode(rf"mul\.(lo|hi)\.{INTEGER}")
@opcode(r"mul\.(wide)\.([su](?:16|32))")
def multiply(e: Emitter, d: str, a: str, b: str, part: str, kind: str) -> None:
    value, result = product(e, a, b, part, kind)
    e.set(d, result, value)


@opcode(rf"mad\.(lo|hi)\.{INTEGER}")
@opcode(r"mad\.(wide)\.([su](?:16|32))")
def multiply_add(e: Emitter, d: str, a: str, b: str, c: str, part: str, kind: str) -> None:
    value, result = product(e, a, b, part, kind)
    e.set(d, result, e(f"add {llvm_type(result)} {value}, {e.get(c, result)}"))


@opcode(rf"(div|rem)\.{INTEGER}")
def divide(e: Emitter, d: str, a: str, b: str, name: str, kind: str) -> None:
    """Division by zero gives all ones, its remainder the dividend; the host would trap."""
    of = llvm_type(kind)
    x, y = e.get(a, kind), e.get(b, kind)
    unsafe = by_zero = e(f"icmp eq {of} {y}, 0")
    if is_signed(kind):  # the least integer by -1 overflows
        by_minus_one = e(f"icmp eq {of} {y}, -1")
        unsafe = e(f"or i1 {by_zero}, {by_minus_one}")
    divisor = e(f"select i1 {unsafe}, {of} 1, {of} {y}")
    operation = f"{'s' if is_signed(kind) else 'u'}{name}"
    value = e(f"{operation} {of} {x}, {divisor}")
    if is_signed(kind):
        other = e(f"sub {of} 0, {x}") if name == "div" else "0"
        value = e(f"select i1 {by_minus_one}, {of} {other}, {of} {value}")
    e.set(d, kind, e(f"select i1 {by_zero}, {of} {'-1' if name == 'div' else x}, {of} {value}"))


# Bits.


@opcode(r"not\.(pred|b16|b32|b64)")
def invert(e: Emitter, d: str, a: str, kind: str) -> None:
    e.set(d, kind, e(f"xor {llvm_type(kind)} {e.get(a, kind)}, -1"))


@opcode(r"(shl)\.(b16|b32|b64)")
@opcode(r"(shr)\.([bsu](?:16|32|64))")
def shift(e: Emitter, d: str, a: str, b: str, name: str, kind: str) -> None:
    """Amounts beyond the width shift everything out."""
    of, bits = llvm_type(kind), BITS[kind]
    x, amount = e.get(a, kind), e.get(b, "u32")
    within = e(f"icmp ult i32 {amount}, {bits}")
    amount = e(f"select i1 {within}, i32 {amount}, i32 {bits - 1}")
    if bits != 32:
        amount = e(f"{'zext' if bits > 32 else 'trunc'} i32 {amount} to {of}")
    if is_signed(kind):
        e.set(d, kind, e(f"ashr {of} {x}, {amount}"))
        return
    value = e(f"{'shl' if name == 'shl' else 'lshr'} {of} {x}, {amount}")
    e.set(d, kind, e(f"select i1 {within}, {of} {value}, {of} 0"))


@opcode(r"bfi\.(b32|b64)")
def insert_bits(e: Emitter, d: str, a: str, b: str, begin: str, length: str, kind: str) -> None:
    """Write the lowest ``length`` bits of a into b, from bit ``begin`` on. Bits beyond the width
    are dropped."""
    if not (begin.isdigit() and length.isdigit()):
        raise e.error("a place or a number of bits that is not constant")
    of, first = llvm_type(kind), min(int(begin) & 255, BITS[kind])
    every = (1 << BITS[kind]) - 1
    mask = (((1 << (int(length) & 255)) - 1) << first) & every
    if mask == 0:
        e.set(d, kind, e.get(b, kind))
        return
    moved = e(f"shl {of} {e.get(a, kind)}, {first}")
    kept = e(f"and {of} {e.get(b, kind)}, {every - mask}")
    e.set(d, kind, e(f"or {of} {e(f'and {of} {moved}, {mask}')}, {kept}"))


# Comparison and choice.

ORDERED = {"eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
UNORDERED = {"equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge"}
OF_FLOATS = {**ORDERED, **UNORDERED, "num": "ord", "nan": "uno"}
OF_UNSIGNED = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}


@opcode(rf"setp\.({'|'.join(OF_FLOATS)})\.{FLOAT}")
def compare_floats(e: Emitter, p: str, a: str, b: str, relation: str, kind: str) -> None:
    operands = f"{llvm_type(kind)} {e.get(a, kind)}, {e.get(b, kind)}"
    e.set(p, "pred", e(f"fcmp {OF_FLOATS[relation]} {operands}"))


@opcode(rf"setp\.({'|'.join(ORDERED)})\.{INTEGER}")
@opcode(r"setp\.(eq|ne)\.(b16|b32|b64)")
@opcode(rf"setp\.({'|'.join(OF_UNSIGNED)})\.(u16|u32|u64)")
def compare_integers(e: Emitter, p: str, a: str, b: str, relation: str, kind: str) -> None:
    sign = "" if relation in ("eq", "ne") else "s" if is_signed(kind) else "u"
    condition = OF_UNSIGNED.get(relation, sign + relation)
    operands = f"{llvm_type(kind)} {e.get(a, kind)}, {e.get(b, kind)}"
    e.set(p, "pred", e(f"icmp {condition} {operands}"))


@opcode(rf"selp\.{ANY_BITS}")
def choose(e: Emitter, d: str, a: str, b: str, p: str, kind: str) -> None:
    of = llvm_type(kind)
    chosen = f"{of} {e.get(a, kind)}, {of} {e.get(b, kind)}"
    e.set(d, kind, e(f"select i1 {e.get(p, 'pred')}, {chosen}"))


# Movement and conversion.


@opcode(rf"mov\.(pred|{ANY_BITS[1:-1]})")
def move(e: Emitter, d: str, a: str, kind: str) -> None:
    if d.startswith("{"):
        e.unpack(d, e.get(a, f"b{BITS[kind]}"), BITS[kind])
    elif a.startswith("{"):
        e.set(d, f"b{BITS[kind]}", e.pack(a, BITS[kind]))
    else:
        e.set(d, kind, e.get(a, kind))


@opcode(r"cvta(?:\.to)?\.(?:global|shared|local)\.u64")
def convert_address(e: Emitter, d: str, a: str) -> None:
    """All spaces share the addresses of the host."""
    e.set(d, "u64", e.get(a, "u64"))


NARROW = r"([su](?:8|16|32|64))"


@opcode(rf"cvt\.{NARROW}\.{NARROW}")
def convert_integer(e: Emitter, d: str, a: str, to: str, of: str) -> None:
    value, bits, wanted = e.get(a, of), BITS[of], BITS[to]
    if wanted > bits:
        extend = "sext" if is_signed(of) else "zext"
        value = e(f"{extend} i{bits} {value} to i{wanted}")
    elif wanted < bits:
        value = e(f"trunc i{bits} {value} to i{wanted}")
    e.set(d, to, value)


ROUNDED = {"n": "roundeven", "z": "trunc", "m": "floor", "p": "ceil"}


@opcode(rf"cvt\.r([nzmp])i\.{NARROW}\.{FLOAT}")
def convert_to_integer(e: Emitter, d: str, a: str, how: str, to: str, of: str) -> None:
    """Round, and clamp to the range. NaN gives zero, or where 64 bits take part the highest bit."""
    source, bits = llvm_type(of), BITS[to]
    value = e.get(a, of)
    rounded = e(f"call {source} @llvm.{ROUNDED[how]}.{of}({source} {value})")
    sign = "s" if is_signed(to) else "u"
    clamped = e(f"call i{bits} @llvm.fpto{sign}i.sat.i{bits}.{of}({source} {rounded})")
    if of == "f64" or bits == 64:
        nan = e(f"fcmp uno {source} {value}, {value}")
        clamped = e(f"select i1 {nan}, i{bits} {-(1 << (bits - 1))}, i{bits} {clamped}")
    e.set(d, to, clamped)


@opcode(rf"cvt\.rn\.{FLOAT}\.{NARROW}")
def convert_from_integer(e: Emitter, d: str, a: str, to: str, of: str) -> None:
    operation = "sitofp" if is_signed(of) else "uitofp"
    e.set(d, to, e(f"{operation} {llvm_type(of)} {e.get(a, of)} to {llvm_type(to)}"))


@opcode(r"cvt\.rn\.(f32)\.(f64)")
@opcode(r"cvt\.(f64)\.(f32)")
def convert_float(e: Emitter, d: str, a: str, to: str, of: str) -> None:
    operation = "fpext" if to == "f64" else "fptrunc"
    value = e(f"{operation} {llvm_type(of)} {e.get(a, of)} to {llvm_type(to)}")
    set_result(e, d, to, value)


@opcode(r"cvt\.r([nzmp])i\.(f32|f64)\.(f32|f64)")
def round_float(e: Emitter, d: str, a: str, how: str, to: str, of: str) -> None:
    if to != of:
        raise e.error(f"rounding {of} to an integer of type {to}")
    source = llvm_type(of)
    value = e(f"call {source} @llvm.{ROUNDED[how]}.{of}({source} {e.get(a, of)})")
    set_result(e, d, to, value)


# Memory.

PLAIN = r"([bsu](?:8|16|32|64)|f32|f64)"


@opcode(rf"ld\.param(\.v2|\.v4)?\.{PLAIN}")
@opcode(rf"ld(?:\.global|\.shared|\.local)?(?:\.nc)?(\.v2|\.v4)?\.{PLAIN}")
def load(e: Emitter, d: str, a: str, vector: str | None, kind: str) -> None:
    pointer, bits = e.pointer(a), BITS[kind]
    for k, target in enumerate(e.elements(d, vector)):
        place = e(f"getelementptr i8, ptr {pointer}, i64 {k * bits // 8}") if k else pointer
        e.set_bits(target, kind, e(f"load i{bits}, ptr {place}, align 1"))


@opcode(rf"st(?:\.global|\.shared|\.local)?(\.v2|\.v4)?\.{PLAIN}")
def store(e: Emitter, a: str, b: str, vector: str | None, kind: str) -> None:
    pointer, bits = e.pointer(a), BITS[kind]
    for k, source in enumerate(e.elements(b, vector)):
        place = e(f"getelementptr i8, ptr {pointer}, i64 {k * bits // 8}") if k else pointer
        e.line_of(f"store i{bits} {e.get(source, f'b{bits}')}, ptr {place}, align 1")


ORDER = r"(?:\.relaxed|\.acquire|\.release|\.acq_rel)?(?:\.cta|\.gpu|\.sys)?"


@opcode(rf"atom{ORDER}(?:\.global|\.shared)?{ORDER}\.(add|min|max|exch|and|or|xor)\.{PLAIN}")
def change_atomically(e: Emitter, d: str, a: str, b: str, name: str, kind: str) -> None:
    """Threads are interleaved at barriers only, so that a plain change is one that no other thread
    sees half of."""
    pointer, of = e.pointer(a), llvm_type(kind)
    old = e(f"load {of}, ptr {pointer}, align 1")
    other = e.get(b, kind)
    if name == "exch":
        new = other
    elif name == "add" and kind.startswith("f"):
        new = e(f"fadd {of} {old}, {other}")
    elif name in ("min", "max"):
        call = f"@llvm.{'s' if is_signed(kind) else 'u'}{name}.{of}({of} {old}, {of} {other})"
        new = e(f"call {of} {call}")
    else:
        new = e(f"{name} {of} {old}, {other}")
    e.line_of(f"store {of} {new}, ptr {pointer}, align 1")
    e.set(d, kind, old)


@opcode(rf"atom{ORDER}(?:\.global|\.shared)?{ORDER}\.cas\.(b32|b64)")
def compare_and_swap(e: Emitter, d: str, a: str, b: str, c: str, kind: str) -> None:
    pointer, of = e.pointer(a), llvm_type(kind)
    old = e(f"load {of}, ptr {pointer}, align 1")
    equal = e(f"icmp eq {of} {old}, {e.get(b, kind)}")
    new = e(f"select i1 {equal}, {of} {e.get(c, kind)}, {of} {old}")
    e.line_of(f"store {of} {new}, ptr {pointer}, align 1")
    e.set(d, kind, old)


@opcode(r"membar\.(?:gl|cta|sys)")
@opcode(r"fence\.(?:acq_rel|sc)\.(?:gpu|cta|sys)")
def fence(e: Emitter) -> None:
    """Blocks run one after another, and what a thread writes is there at once."""
