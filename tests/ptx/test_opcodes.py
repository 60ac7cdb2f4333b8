"""Every opcode, type and rounding that the machine supports, against exact arithmetic."""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.ptx import machine, opcodes
from tests.ptx.parse import BITS, PtxError
from tests.ptx.single import AMOUNTS, expected, kernel_of, nearest, run, values_of

SIGNED, UNSIGNED = ("s16", "s32", "s64"), ("u16", "u32", "u64")
PLAIN = ("b16", "b32", "b64")
FLOATS = ("f32", "f64")
NARROW = ("s8", "u8", *SIGNED, *UNSIGNED)


class Case(NamedTuple):
    """An instruction with its operands' types, and its meaning in decoded values."""

    instruction: str
    kinds: tuple[str, ...]
    result: str
    meaning: Callable[..., Any]


CASES: dict[str, Case] = {}


def case(opcode: str, kinds: str, result: str, meaning: Callable[..., Any], more: str = "") -> None:
    """Add an opcode with as many operands as types, and perhaps ``more``."""
    of = tuple(kinds.split())
    operands = ", ".join(["%d", *(f"%{k}" for k in range(len(of)))])
    CASES[opcode + more] = Case(f"{opcode} {operands}{more};", of, result, meaning)


def quotient(a: int, b: int) -> int:
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * quotient(a, b)


RELATIONS = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip

for kind in (*SIGNED, *UNSIGNED):
    two, width = f"{kind} {kind}", BITS[kind]
    case(f"add.{kind}", two, kind, operator.add)
    case(f"sub.{kind}", two, kind, operator.sub)
    case(f"mul.lo.{kind}", two, kind, operator.mul)
    case(f"mul.hi.{kind}", two, kind, lambda a, b, width=width: a * b >> width)
    case(f"mad.lo.{kind}", f"{two} {kind}", kind, lambda a, b, c: a * b + c)
    case(
        f"mad.hi.{kind}", f"{two} {kind}", kind,
        lambda a, b, c, width=width: (a * b >> width) + c,
    )  # fmt: skip
    case(f"div.{kind}", two, kind, quotient)
    case(f"rem.{kind}", two, kind, remainder)
    case(f"min.{kind}", two, kind, min)
    case(f"max.{kind}", two, kind, max)
    case(f"shr.{kind}", f"{kind} u32", kind, lambda a, b: a >> b)
    case(f"selp.{kind}", f"{two} pred", kind, lambda a, b, p: a if p else b)
    case(f"mov.{kind}", kind, kind, lambda a: a)
    for name, relation in RELATIONS.items():
        case(f"setp.{name}.{kind}", two, "pred", relation)
    if width < 64:
        wide = f"{kind[0]}{2 * width}"
        case(f"mul.wide.{kind}", two, wide, operator.mul)
        case(f"mad.wide.{kind}", f"{two} {wide}", wide, lambda a, b, c: a * b + c)
for kind in ("b32", "b64"):
    case(f"popc.{kind}", kind, "u32", int.bit_count)
for kind in SIGNED:
    case(f"neg.{kind}", kind, kind, operator.neg)
    case(f"abs.{kind}", kind, kind, abs)
for kind in UNSIGNED:
    for name, relation in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")):
        case(f"setp.{name}.{kind}", f"{kind} {kind}", "pred", RELATIONS[relation])
for kind in PLAIN:
    two = f"{kind} {kind}"
    case(f"shl.{kind}", f"{kind} u32", kind, lambda a, b: a << min(b, 64))
    case(f"shr.{kind}", f"{kind} u32", kind, lambda a, b: a >> b)
    case(f"selp.{kind}", f"{two} pred", kind, lambda a, b, p: a if p else b)
    case(f"mov.{kind}", kind, kind, lambda a: a)
    case(f"setp.eq.{kind}", two, "pred", operator.eq)
    case(f"setp.ne.{kind}", two, "pred", operator.ne)
for kind in (*PLAIN, "pred"):
    case(f"and.{kind}", f"{kind} {kind}", kind, operator.and_)
    case(f"or.{kind}", f"{kind} {kind}", kind, operator.or_)
    case(f"xor.{kind}", f"{kind} {kind}", kind, operator.xor)
    case(f"not.{kind}", kind, kind, operator.invert)
case("mov.pred", "pred", "pred", lambda a: a)
for kind in ("b32", "b64"):
    for begin, length in ((0, 0), (0, 64), (1, 31), (2, 62), (5, 7), (31, 1), (40, 200), (90, 3)):

        def insert(a: int, b: int, begin: int = begin, length: int = length) -> int:
            mask = ((1 << length) - 1) << begin
            return a << begin & mask | b & ~mask

        case(f"bfi.{kind}", f"{kind} {kind}", kind, insert, f", {begin}, {length}")

# Conversions between integers, and of floats.


def rounded(value: Any, how: str) -> int:
    if how == "n":
        below = math.floor(value)
        rest = Fraction(float(value)) - below
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1)
        return below + up
    return {"z": math.trunc, "m": math.floor, "p": math.ceil}[how](value)


def to_integer(how: str, to: str, of: str) -> Callable[[Any], int]:
    bits = BITS[to]
    least, largest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if to[0] == "s" else (0, 2**bits - 1)

    def convert(value: Any) -> int:
        if np.isnan(value):
            return 2 ** (bits - 1) if of == "f64" or bits == 64 else 0
        if np.isinf(value):
            return largest if value > 0 else least
        return min(max(rounded(float(value), how), least), largest)

    return convert


def to_whole(how: str, kind: str) -> Callable[[Any], Any]:
    function = {"n": np.rint, "z": np.trunc, "m": np.floor, "p": np.ceil}[how]
    return lambda value: function(value)


for to, of in itertools.product(NARROW, NARROW):
    case(f"cvt.{to}.{of}", of, to, lambda a: a)
for to, of, how in itertools.product(NARROW, FLOATS, "nzmp"):
    case(f"cvt.r{how}i.{to}.{of}", of, to, to_integer(how, to, of))
for to, of in itertools.product(FLOATS, NARROW):
    case(f"cvt.rn.{to}.{of}", of, to, lambda a, to=to: nearest(Fraction(a), to))
for kind, how in itertools.product(FLOATS, "nzmp"):
    case(f"cvt.r{how}i.{kind}.{kind}", kind, kind, to_whole(how, kind))
case("cvt.rn.f32.f64", "f64", "f32", np.float32)
case("cvt.f64.f32", "f32", "f64", np.float64)

# Arithmetic in floats.


def fused(kind: str) -> Callable[..., Any]:
    def function(a: Any, b: Any, c: Any) -> Any:
        if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
            # Infinities and NaN: the product does not overflow where a and b are small.
            return np.sign(a) * np.sign(b) + c if np.isfinite(a) and np.isfinite(b) else a * b + c
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        if exact == 0:
            of = type(a)
            product = of(math.copysign(0, a) * math.copysign(1, b))
            return of(0) if a != 0 and b != 0 else product + c
        value = nearest(exact, kind)
        return math.copysign(0, exact) if value == 0 else value

    return function


def extreme(name: str) -> Callable[[Any, Any], Any]:
    def function(a: Any, b: Any) -> Any:
        if np.isnan(a) or np.isnan(b):
            return b if np.isnan(a) else a
        key = lambda value: (value, math.copysign(1, value))  # noqa: E731
        return (min if name == "min" else max)(a, b, key=key)

    return function


for kind in FLOATS:
    two = f"{kind} {kind}"
    for suffix in ("", ".rn"):
        case(f"add{suffix}.{kind}", two, kind, operator.add)
        case(f"sub{suffix}.{kind}", two, kind, operator.sub)
        case(f"mul{suffix}.{kind}", two, kind, operator.mul)
    case(f"div.rn.{kind}", two, kind, operator.truediv)
    case(f"fma.rn.{kind}", f"{two} {kind}", kind, fused(kind))
    case(f"rcp.rn.{kind}", kind, kind, lambda a: type(a)(1) / a)
    case(f"sqrt.rn.{kind}", kind, kind, np.sqrt)
    case(f"neg.{kind}", kind, kind, operator.neg)
    case(f"abs.{kind}", kind, kind, abs)
    case(f"min.{kind}", two, kind, extreme("min"))
    case(f"max.{kind}", two, kind, extreme("max"))
    case(f"mov.{kind}", kind, kind, lambda a: a)
    case(f"selp.{kind}", f"{two} pred", kind, lambda a, b, p: a if p else b)


def ordered(relation: Callable[[Any, Any], Any], of_nan: bool) -> Callable[[Any, Any], bool]:
    """A comparison that has a value of its own where an operand is NaN."""
    return lambda a, b: of_nan if np.isnan(a) or np.isnan(b) else bool(relation(a, b))


for kind in FLOATS:
    for name, relation in RELATIONS.items():
        case(f"setp.{name}.{kind}", f"{kind} {kind}", "pred", ordered(relation, False))
        case(f"setp.{name}u.{kind}", f"{kind} {kind}", "pred", ordered(relation, True))
    case(f"setp.num.{kind}", f"{kind} {kind}", "pred", ordered(lambda a, b: True, False))
    case(f"setp.nan.{kind}", f"{kind} {kind}", "pred", ordered(lambda a, b: False, True))

HANDED_ON = re.compile(r"(neg|abs|mov|selp)\.")
"""Instructions that hand on the bits of a NaN."""


def rows_of(kinds: tuple[str, ...]) -> list[tuple[int, ...]]:
    """All pairs of values, or some of the triples."""
    columns = [values_of(kind, seed) for seed, kind in enumerate(kinds)]
    if len(kinds) > 1 and kinds[1] == "u32" and kinds[0] != "u32":
        columns[1] = AMOUNTS
    every = list(itertools.product(*columns))
    if len(every) <= 10_000:
        return every
    chosen = np.random.default_rng(0).choice(len(every), 3_000, replace=False)
    return [every[k] for k in chosen]


def is_nan(bits: int, kind: str) -> bool:
    return bits & (2**63 - 1) > 0x7FF << 52 if kind == "f64" else bits & (2**31 - 1) > 0xFF << 23


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    instruction, kinds, result, meaning = CASES[name]
    rows = rows_of(kinds)
    found, wanted = run(instruction, kinds, result, rows), expected(meaning, kinds, result, rows)
    narrow = 2 ** BITS[result] - 1
    for row, one, other in zip(rows, found, wanted, strict=True):
        if result in FLOATS and is_nan(other, result):
            assert is_nan(one, result), (list(map(hex, row)), hex(one))
            if result == "f32" and not HANDED_ON.match(name):
                assert one == opcodes.CANONICAL_NAN, (list(map(hex, row)), hex(one))
        else:
            assert one & narrow == other, (list(map(hex, row)), hex(one), hex(other))


LOADS = {
    f"ld{space}.{kind}": kind
    for space in (".global", ".global.nc", "")
    for kind in (*NARROW, "b8", *PLAIN, *FLOATS)
}


@pytest.mark.parametrize("opcode", LOADS)
def test_loads(opcode):
    """A register that is wider than the type is filled up by the type's sign."""
    kind = LOADS[opcode]
    register = f"f{BITS[kind]}" if kind in FLOATS else f"b{max(BITS[kind], 32)}"
    signed = {"b32": "s32", "b64": "s64"}.get(register, register) if kind[0] == "s" else register
    values = values_of("b64")
    found = run(f"{opcode} %d, [%row];", ("b64",), register, [(value,) for value in values])
    wanted = expected(lambda bits: bits, (kind,), signed, [(value,) for value in values])
    assert found == wanted


STORES = {
    f"st{space}.{kind}": kind
    for space in (".global", "")
    for kind in (*NARROW, "b8", *PLAIN, *FLOATS)
}


@pytest.mark.parametrize("opcode", STORES)
def test_stores(opcode):
    """Only the lowest bits of a register are stored, and nothing beside them is written."""
    kind = STORES[opcode]
    register = f"f{BITS[kind]}" if kind in FLOATS else f"b{max(BITS[kind], 32)}"
    values = values_of(register)
    ones = (1 << 64) - 1
    found = run(
        f"mov.b64 %at, -1; st.global.b64 [%out], %at; {opcode} [%out], %0; ld.b64 %d, [%out];",
        (register,), "b64", [(value,) for value in values],
    )  # fmt: skip
    mask = (1 << BITS[kind]) - 1
    assert found == [ones & ~mask | value & mask for value in values]


@pytest.mark.parametrize("space", ["shared", "local"])
def test_memory_of_a_block_and_of_a_thread(space):
    """Threads do not see each other's local memory; in shared memory they have places."""
    rows = [(value,) for value in values_of("b64")] * 9
    place = "mul.wide.u32 %at, %t, 16;" if space == "shared" else "mov.u64 %at, 16;"
    found = run(
        f".{space} .align 16 .b8 own[{16 * 256}]; .reg .b64 %own; {place} mov.u64 %own, own;"
        f"add.s64 %own, %own, %at; st.{space}.b64 [%own], %0; bar.sync 0;"
        f"ld.{space}.b64 %d, [%own+0]; cvta.to.{space}.u64 %own, %own; ld.b64 %d, [%own];",
        ("b64",), "b64", rows,
    )  # fmt: skip
    assert found == [value for (value,) in rows]


def test_an_address_may_be_a_variable():
    found = run(
        ".shared .align 4 .b8 first[4]; .shared .align 8 .b8 second[16];"
        "st.shared.b64 [second+8], %0; bar.sync 0; ld.shared.b64 %d, [second+8];",
        ("b64",), "b64", [(7,)] * 256,
    )  # fmt: skip
    assert found == [7] * 256


@pytest.mark.parametrize("n", [2, 4])
def test_vectors(n):
    rows = [tuple(values_of("b64")[k : k + 4]) for k in range(0, 60, 4)]
    names = ", ".join(f"%e{k}" for k in range(n))
    found = run(
        f".reg .b32 %e<{n}>; .local .align 16 .b8 own[32]; .reg .b32 %sum;"
        f"ld.global.v{n}.u32 {{{names}}}, [%row]; st.local.v{n}.b32 [own+16], {{{names}}};"
        f"ld.local.v{n}.b32 {{{names}}}, [own+16]; sub.s32 %d, %e0, %e{n - 1};",
        ("b64",) * 4, "b32", rows,
    )  # fmt: skip
    last = [row[n // 2 - 1] >> 32 for row in rows]
    assert found == [(row[0] - end) % 2**32 for row, end in zip(rows, last, strict=True)]


ATOMICS = {
    f"atom{order}{space}.{name}.{kind}": (name, kind)
    for order, space in (("", ".global"), (".relaxed.sys", ".global"), ("", ""))
    for name, kinds in (
        ("add", ("u32", "s32", "u64", *FLOATS)),
        ("min", ("u32", "s32", "u64", "s64")),
        ("max", ("u32", "s32", "u64", "s64")),
        ("exch", ("b32", "b64")),
        ("and", ("b32", "b64")),
        ("or", ("b32", "b64")),
        ("xor", ("b32", "b64")),
        ("cas", ("b32", "b64")),
    )
    for kind in kinds
}
CHANGES = {
    "add": operator.add, "min": min, "max": max, "exch": lambda a, b: b,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip


@pytest.mark.parametrize("opcode", ATOMICS)
def test_atomics(opcode):
    """They change the memory and return what was there."""
    name, kind = ATOMICS[opcode]
    values = [value for value in values_of(kind) if kind not in FLOATS or not is_nan(value, kind)]
    rows = list(itertools.product(values[:30], values[:30]))
    register = kind if kind in FLOATS else f"b{BITS[kind]}"
    more, meaning = "", CHANGES.get(name)
    if name == "cas":
        more, meaning = ", 77", lambda a, b: 77 if a == b else a
    change = f"{opcode} %d, [%row], %1{more};"
    kinds = (register, register)
    assert run(change, kinds, register, rows) == [a for a, _ in rows]
    found = run(f"{change} ld.global.b{BITS[kind]} %d, [%row];", kinds, register, rows)
    for row, one, other in zip(rows, found, expected(meaning, (kind, kind), kind, rows),
                               strict=True):  # fmt: skip
        if kind in FLOATS and is_nan(other, kind):
            assert is_nan(one, kind)
        else:
            assert one == other, row


FENCES = ("membar.gl", "fence.acq_rel.gpu")


@pytest.mark.parametrize("opcode", FENCES)
def test_fences_change_nothing(opcode):
    rows = [(value,) for value in values_of("u32")]
    assert run(f"{opcode}; mov.b32 %d, %0;", ("b32",), "b32", rows) == [row[0] for row in rows]


def test_parts_of_a_register():
    rows = [(value,) for value in values_of("b64")]
    turned = "{ .reg .b32 %low, %t; mov.b64 {%low, %t}, %0; mov.b64 %d, {%t, %low}; }"
    found = run(turned, ("b64",), "b64", rows)
    assert found == [(value >> 32 | value << 32) % 2**64 for (value,) in rows]
    found = run(
        ".reg .b32 %high; mov.b64 {_, %high}, %0; mov.b32 %d, %high;", ("f64",), "b32", rows
    )
    assert found == [value >> 32 for (value,) in rows]


@pytest.mark.parametrize("text, kind, bits", [
    ("0d3FF0000000000000", "f64", 0x3FF0000000000000),
    ("0d7FF8000000000001", "f64", 0x7FF8000000000001), ("0f3F800000", "f32", 0x3F800000),
    ("0f00000001", "f32", 1), ("0fFF800000", "f32", 0xFF800000), ("-1", "b64", 2**64 - 1),
    ("-9223372036854775808", "s64", 2**63), ("18446744073709551615", "u64", 2**64 - 1),
    ("0xFF", "u32", 255), ("-3", "s16", 2**16 - 3), ("1", "pred", 1), ("-1", "pred", 1),
])  # fmt: skip
def test_constants(text, kind, bits):
    assert run(f"mov.{kind} %d, {text};", ("b32",), kind, [(0,)]) == [bits]


@pytest.mark.parametrize(("guard", "chosen"), [("@%0", 1), ("@!%0", 0)])
def test_guards(guard, chosen):
    """An instruction does nothing where its predicate does not hold; nor do stores and returns."""
    rows = [(0, 5), (1, 6)]
    found = run(f"mov.u32 %d, 9; {guard} add.s32 %d, %1, %1;", ("pred", "b32"), "b32", rows)
    assert found == [2 * value if flag == chosen else 9 for flag, value in rows]
    found = run(f"mov.u32 %d, %1; {guard} ret;", ("pred", "b32"), "b32", rows)
    assert found == [0 if flag == chosen else value for flag, value in rows]
    found = run(
        f"mov.u32 %d, %1; {guard} bra $past; add.s32 %d, %d, 1; $past:"
        f"{guard} st.global.b32 [%out+4], %d;",
        ("pred", "b32"), "b32", rows,
    )  # fmt: skip
    assert found == [value << 32 | value if flag == chosen else value + 1 for flag, value in rows]


def test_places_in_the_grid():
    """Threads and blocks are counted along x first."""
    grid, block = (3, 4, 5), (4, 2, 8)
    names = [f"%{name}.{axis}" for name in ("ctaid", "tid", "nctaid", "ntid") for axis in "xyz"]
    n_threads, n_blocks = math.prod(block), math.prod(grid)
    out = np.zeros((n_blocks, n_threads, 13), np.int32)
    steps = "".join(
        f"mov.u32 %i, {name}; st.global.u32 [%out+{4 * k}], %i;"
        for k, name in enumerate([*names, "%laneid"])
    )
    place = (
        "mov.u32 %n, %nctaid.x; mov.u32 %b, %nctaid.y; mov.u32 %i, %ctaid.z;"
        "mad.lo.u32 %i, %i, %b, 0; mov.u32 %b, %ctaid.y; add.u32 %i, %i, %b;"
        "mul.lo.u32 %i, %i, %n; mov.u32 %b, %ctaid.x; add.u32 %i, %i, %b;"
        "mov.u32 %n, %ntid.z; mul.lo.u32 %i, %i, %n; mov.u32 %b, %tid.z; add.u32 %i, %i, %b;"
        "mov.u32 %n, %ntid.y; mul.lo.u32 %i, %i, %n; mov.u32 %b, %tid.y; add.u32 %i, %i, %b;"
        "mov.u32 %n, %ntid.x; mul.lo.u32 %i, %i, %n; mov.u32 %b, %tid.x; add.u32 %i, %i, %b;"
        "mul.wide.u32 %at, %i, 52; add.s64 %out, %results, %at;"
    )
    text = kernel_of(f"{place} {steps} mov.u32 %d, %ctaid.x;", (), "b32")
    parameters = np.array([0, out.ctypes.data], np.uint64).tobytes()
    machine.load(text).launch(grid, block, parameters)
    z, y, x = np.indices(grid[::-1]).reshape(3, n_blocks, 1)
    tz, ty, tx = np.indices(block[::-1]).reshape(3, 1, n_threads)
    wanted = [x, y, z, tx, ty, tz, *grid, *block, np.arange(n_threads) % 32]
    for k, value in enumerate(wanted):
        np.testing.assert_array_equal(out[..., k], np.broadcast_to(value, out.shape[:2]))


@pytest.mark.parametrize("instruction", [
    "shfl.sync.down.b32 %d, %0, 1, 31, -1;", "vote.sync.any.pred %d, %0, -1;",
    "add.ftz.f32 %d, %0, %0;", "add.rz.f64 %d, %0, %0;", "mul.s32 %d, %0, %0;",
    "cvt.rzi.f32.f64 %d, %0;", "setp.lt.and.s32 %d, %0, %0, %0;", "tex.1d.v4.f32.s32 %d, %0;",
    "bar.red.popc.u32 %d, 0, %0;", "bar.sync 0, 64;", "barrier.sync 1;", "bra.conv $there;",
    "call.uni (%d), helper, (%0);", "mov.u32 %d, %clock;", "mov.u32 %d, %warpid;",
    "mov.u32 %d, unknown;", "bfi.b32 %d, %0, %0, %0, 4;", "add.s64 %d, %0, %0;",
    "ld.global.u32 %d, [%0];", "ld.param.u32 %d, [%row];", "ld.const.u32 %d, [%row];",
])  # fmt: skip
def test_what_is_not_known_is_named_with_its_line(instruction):
    text = kernel_of(f"// here\n{instruction}\n", ("b32",), "b32")
    line = 2 + text[: text.index("// here")].count("\n")
    with pytest.raises(PtxError, match=f"line {line}\\b") as caught:
        machine.load(text)
    of = instruction.split()
    assert of[0] in str(caught.value) or of[-1].rstrip(";") in str(caught.value)


def test_every_handler_is_tested():
    names = [case.instruction.split()[0] for case in CASES.values()]
    names += [*LOADS, *STORES, *ATOMICS, *FENCES, "ld.param.u64", "cvta.to.global.u64"]
    untested = [
        pattern.pattern
        for pattern, _ in opcodes.HANDLERS
        if not any(pattern.match(name) for name in names)
    ]
    assert untested == []
