"""One PTX instruction run on many values, and the exact meaning of values for what is expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tests.ptx import machine
from tests.ptx.parse import BITS

THREADS = 256

INTEGERS = [
    0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 1000,
    *(2**bits + more for bits in (15, 16, 31, 32, 47, 53, 62, 63, 64) for more in (-1, 0, 1)),
    0x0123456789ABCDEF, 0xFEDCBA9876543210, 0x8000000080000000, 0x00FF00FF00FF00FF,
    *(2**64 - back for back in (2, 3, 7, 128, 129, 256, 32768, 32769, 2**31, 2**31 + 1)),
]  # fmt: skip
AMOUNTS = [0, 1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 2**31, 2**32 - 1]
FLOATS = [
    0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 0.1, 1 / 3, 0.5, 0.75, 0.49999999999999994, 7.25, 1e10, 1e-10,
    127.5, 255.5, 256.0, 32767.5, 65535.5, 2.0**31 - 0.5, 2.0**31, 2.0**32 - 0.5, 2.0**32,
    2.0**52 + 0.5, 2.0**53 - 1, 2.0**62, 2.0**63 - 1024, 2.0**63, 2.0**64 - 2048, 2.0**64, 1e300,
    1.7976931348623157e308, 2.2250738585072014e-308, 5e-324, 1e-320, 3.4028234663852886e38,
    1.1754943508222875e-38, 1e-45, 1e-40, np.inf, np.nan,
]  # fmt: skip


def values_of(kind: str, seed: int = 0) -> list[int]:
    """Return the bits of many values of a type, the hard ones first."""
    bits = BITS[kind]
    rng = np.random.default_rng(seed)
    if kind == "f64":
        both = np.array([*FLOATS, *(-np.array(FLOATS))])
        return [*both.view(np.uint64).tolist(), *rng.integers(0, 2**64, 12, np.uint64).tolist()]
    if kind == "f32":
        with np.errstate(over="ignore"):
            both = np.array([*FLOATS, *(-np.array(FLOATS))]).astype(np.float32)
        return [*both.view(np.uint32).tolist(), *rng.integers(0, 2**32, 12).tolist()]
    if kind == "pred":
        return [0, 1]
    every = [value % 2**bits for value in INTEGERS]
    return list(dict.fromkeys([*every, *rng.integers(0, 2**bits, 8, np.uint64, endpoint=False)
                               .tolist()] if bits < 64 else every))  # fmt: skip


def decoded(bits: int, kind: str) -> Any:
    """Return the value with these bits: a Python integer, or a NumPy float."""
    if kind == "f64":
        return np.uint64(bits).view(np.float64)
    if kind == "f32":
        return np.uint32(bits % 2**32).view(np.float32)
    bits %= 2 ** BITS[kind]
    return bits - 2 ** BITS[kind] if kind[0] == "s" and bits >> (BITS[kind] - 1) else bits


def encoded(value: Any, kind: str) -> int:
    """Return the bits of a value; integers wrap around."""
    if kind == "f64":
        return int(np.float64(value).view(np.uint64))
    if kind == "f32":
        return int(np.float32(value).view(np.uint32))
    return int(value) % 2 ** BITS[kind]


def nearest(exact: Fraction, kind: str) -> Any:
    """Round an exact number to the nearest float, ties to even."""
    if kind == "f64":
        try:
            return np.float64(exact.numerator / exact.denominator)
        except OverflowError:
            return np.float64(np.inf if exact > 0 else -np.inf)
    try:
        with np.errstate(over="ignore"):
            middle = np.float32(exact.numerator / exact.denominator)
    except OverflowError:
        return np.float32(np.inf if exact > 0 else -np.inf)
    if not np.isfinite(middle):
        return middle
    near = [np.nextafter(middle, np.float32(-np.inf)), middle,
            np.nextafter(middle, np.float32(np.inf))]  # fmt: skip
    near = [value for value in near if np.isfinite(value)]
    return min(near, key=lambda value: (abs(Fraction(float(value)) - exact),
                                        int(value.view(np.uint32)) & 1))  # fmt: skip


def register_of(kind: str) -> tuple[str, str]:
    """Return the type and the prefix of registers for values of a type."""
    if kind == "pred":
        return "pred", "%p"
    bits = max(BITS[kind], 16)
    if kind in ("f32", "f64"):
        return kind, f"%f{bits}_"
    return f"b{bits}", f"%b{bits}_"


def kernel_of(instruction: str, kinds: Sequence[str], result: str) -> str:
    """Return a kernel that runs ``instruction`` on its ``%0``, ``%1`` … and writes ``%d``."""
    names = {}
    declared, body = [], []
    for k, kind in enumerate([*kinds, result]):
        of, prefix = register_of(kind)
        name = f"{prefix}x{k}"
        names["%d" if k == len(kinds) else f"%{k}"] = name
        declared.append(f".reg .{of} {name};")
        if k == len(kinds):
            break
        if kind == "pred":
            body += [f"ld.global.b32 %raw, [%row+{8 * k}];", f"setp.ne.b32 {name}, %raw, 0;"]
        else:
            body.append(f"ld.global.b{max(BITS[kind], 16)} {name}, [%row+{8 * k}];")
    for old, new in names.items():
        instruction = instruction.replace(old, new)
    body.append(instruction)
    if result == "pred":
        body += [f"selp.b32 %raw, 1, 0, {names['%d']};", "st.global.b32 [%out], %raw;"]
    else:
        body.append(f"st.global.b{max(BITS[result], 16)} [%out], {names['%d']};")
    return f"""
    .version 8.0
    .target sm_80
    .address_size 64
    .visible .entry one(.param .u64 table, .param .u64 results)
    {{
        {" ".join(declared)}
        .reg .b32 %raw, %t, %b, %n, %i;
        .reg .b64 %table, %results, %row, %out, %at;
        ld.param.u64 %table, [table];
        ld.param.u64 %results, [results];
        mov.u32 %t, %tid.x;
        mov.u32 %b, %ctaid.x;
        mov.u32 %n, %ntid.x;
        mad.lo.u32 %i, %b, %n, %t;
        mul.wide.u32 %at, %i, {8 * len(kinds)};
        add.s64 %row, %table, %at;
        mul.wide.u32 %at, %i, 8;
        add.s64 %out, %results, %at;
        {" ".join(body)}
        ret;
    }}
    """


def run(instruction: str, kinds: Sequence[str], result: str, rows: Sequence[Any]) -> list[int]:
    """Run an instruction on rows of bits, and return the bits of the results."""
    n_blocks = -(-len(rows) // THREADS)
    table = np.zeros((n_blocks * THREADS, len(kinds)), np.uint64)
    table[: len(rows)] = np.array(rows, np.uint64)
    results = np.zeros(len(table), np.uint64)
    parameters = np.array([table.ctypes.data, results.ctypes.data], np.uint64).tobytes()
    kernel = machine.load(kernel_of(instruction, kinds, result))
    kernel.launch((n_blocks, 1, 1), (THREADS, 1, 1), parameters, order="plain")
    return results[: len(rows)].tolist()


def expected(
    function: Callable[..., Any], kinds: Sequence[str], result: str, rows: Sequence[Any]
) -> list[int]:
    """Return the bits of the results of a function of decoded values."""
    with np.errstate(all="ignore"):
        values = [
            function(*(decoded(bits, kind) for bits, kind in zip(row, kinds, strict=True)))
            for row in rows
        ]
    return [encoded(value, result) for value in values]
