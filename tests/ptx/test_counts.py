"""Counts of small kernels, known by hand: sectors, bank conflicts, lockstep, atomic operations."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx import machine
from tests.ptx.costs import CONVERT, FLOAT64, INTEGER, MEMORY, Latency, linked, slots_of
from tests.ptx.counts import count
from tests.ptx.warps import code_of, meetings, replay, traces_of

LATENCY = Latency(
    integer=4, float64=8, convert=14, special=20, shared=30, atomic=60, near=40, far=260, barrier=20
)
HEAD = """
.version 8.0
.target sm_80
.address_size 64
.visible .shared .align 8 .b8 held[8192];
.visible .entry tried(.param .u64 array)
{
    .reg .pred %p<4>;
    .reg .b32 %r<12>;
    .reg .f32 %f<4>;
    .reg .f64 %fd<4>;
    .reg .b64 %rd<12>;
    ld.param.u64 %rd1, [array];
    mov.u32 %r1, %tid.x;
    mov.u64 %rd2, held;
"""


def launched(body, threads=32, blocks=1, traced=(0,), offset=0, **of_trace):
    """Run a kernel on an array of 64 KB, and return its counts and those of the replayed warps."""
    memory = np.zeros((1 << 16) + 256, np.uint8)
    array = memory[-memory.ctypes.data % 128 + offset :][: 1 << 16]
    kernel = machine.load(f"{HEAD}{body}\n    ret;\n}}", count=True)
    trace = machine.Trace(blocks=traced, **of_trace)
    address = np.uint64(array.ctypes.data).tobytes()
    kernel.launch((blocks, 1, 1), (threads, 1, 1), address, trace=trace)
    traces = traces_of(kernel.program, trace, threads)
    arrays = np.array([[array.ctypes.data, array.ctypes.data + array.nbytes]])
    found = count(kernel.program, kernel.counts[0], traces, blocks, arrays, LATENCY)
    return found, replay(code_of(kernel.program, LATENCY), traces, arrays, LATENCY)


def counts_of(body, **launch):
    return launched(body, **launch)[0].counts


def at_stride(step, opcode, base="%rd1"):
    """An access of each thread, ``step`` bytes from the next thread's."""
    operands = {
        "ld.global.f32": "%f1, [%rd4]", "ld.shared.f32": "%f1, [%rd4]",
        "ld.shared.u64": "%rd5, [%rd4]", "st.shared.u32": "[%rd4], %r1",
        "st.global.u32": "[%rd4], %r1", "atom.shared.add.u32": "%r3, [%rd4], %r1",
        "atom.shared.add.u64": "%rd5, [%rd4], 1", "atom.global.add.u32": "%r3, [%rd4], %r1",
    }  # fmt: skip
    return f"""
    mul.wide.u32 %rd3, %r1, {step};
    add.s64 %rd4, {base}, %rd3;
    {opcode} {operands[opcode]};"""


@pytest.mark.parametrize("opcode", ["ld.global.f32", "st.global.u32"])
@pytest.mark.parametrize(
    ("step", "sectors", "lines"), [(0, 1, 1), (4, 4, 1), (8, 8, 2), (32, 32, 8), (128, 32, 32)]
)
def test_sectors_of_a_warp(opcode, step, sectors, lines):
    counts = counts_of(at_stride(step, opcode))
    assert (counts.accesses, counts.sectors, counts.lines) == (1, sectors, lines)
    assert counts.l2_sectors == sectors


def test_arrays_begin_with_a_sector():
    """As on a card, wherever NumPy has put them."""
    aside = counts_of(at_stride(4, "ld.global.f32"), offset=16)
    assert aside == counts_of(at_stride(4, "ld.global.f32"))


@pytest.mark.parametrize("opcode", ["ld.shared.f32", "st.shared.u32"])
@pytest.mark.parametrize(
    ("step", "passes"), [(0, 1), (4, 1), (8, 2), (16, 4), (64, 16), (128, 32), (132, 1)]
)
def test_banks_of_words(opcode, step, passes):
    assert counts_of(at_stride(step, opcode, "%rd2")).shared_passes == passes


@pytest.mark.parametrize(("step", "passes"), [(8, 2), (16, 4), (256, 32), (264, 2)])
def test_banks_of_double_words(step, passes):
    """Half a warp at a time."""
    assert counts_of(at_stride(step, "ld.shared.u64", "%rd2")).shared_passes == passes


@pytest.mark.parametrize(("step", "passes"), [(0, 32), (4, 1), (8, 2), (128, 32)])
def test_atomics_in_shared_memory(step, passes):
    counts = counts_of(at_stride(step, "atom.shared.add.u32", "%rd2"))
    assert counts.atomic_passes == passes
    assert counts.shared_passes == 0


def test_atomics_of_64_bits_in_shared_memory_are_repeated():
    together, found = launched(at_stride(0, "atom.shared.add.u64", "%rd2"))
    apart, alone = launched(at_stride(8, "atom.shared.add.u64", "%rd2"))
    assert (found.rounds.sum(), alone.rounds.sum()) == (32, 1)
    assert together.counts.issued - apart.counts.issued == 31 * 6
    assert together.counts.atomic_passes > 10 * apart.counts.atomic_passes


def test_atomics_in_global_memory():
    assert counts_of(at_stride(0, "atom.global.add.u32")).atomics == 32
    assert counts_of(at_stride(32, "atom.global.add.u32")).atomics == 32
    assert counts_of(at_stride(4, "atom.global.add.u32")).atomics == 4


LOOP = """
    mov.u32 %r2, 0;
$again:
    add.s32 %r2, %r2, 1;
    setp.le.u32 %p1, %r2, %r1;
    @%p1 bra $again;
    ld.global.f32 %f1, [%rd1];"""


def test_a_warp_stays_in_a_loop_with_its_last_thread():
    found, replayed = launched(LOOP, threads=48)
    first = 4
    assert replayed.warps[first : first + 3].tolist() == [32 + 48] * 3
    assert replayed.lanes[first] == sum(range(1, 49))
    assert replayed.warps[first + 3] == 2  # together again
    assert found.counts.instructions == 3 * sum(range(1, 49)) + 48 * 6


SIDES = """
    and.b32 %r2, %r1, {mask};
    setp.eq.s32 %p1, %r2, 0;
    @%p1 bra $left;
    add.s32 %r3, %r2, 5;
    add.s32 %r3, %r2, 6;
    bra $both;
$left:
    add.s32 %r3, %r2, 7;
$both:
    add.s32 %r4, %r2, 8;"""


@pytest.mark.parametrize(("mask", "both_sides"), [(1, True), (32, False)])
def test_both_sides_of_a_branch(mask, both_sides):
    """Neighbours that part are served one side after the other; whole warps are not."""
    _, replayed = launched(SIDES.format(mask=mask), threads=64)
    n = 2 if both_sides else 1
    assert replayed.warps[6:11].tolist() == [n, n, n, n, 2]
    assert replayed.lanes[6:11].tolist() == [32, 32, 32, 32, 64]


def test_barriers_and_time():
    """A block waits for its slowest warp at a barrier."""
    alone = launched(LOOP, threads=32)[1].cycles[0]
    body = f"{LOOP}\n    bar.sync 0;\n    ld.global.f32 %f2, [%rd1];\n    add.f32 %f3, %f2, %f1;"
    found, replayed = launched(body, threads=64)
    assert found.counts.barriers == 2
    assert replayed.phases.tolist() == [2]
    assert replayed.cycles[0] > 1.5 * alone


LOADED = """
    ld.global.f32 %f1, [%rd1];
    setp.gt.f32 %p1, %f1, %f1;
    @%p1 ret;"""


def test_what_was_read_before_is_near():
    """In the first-level cache; a branch waits for the value."""
    once, _ = launched(LOADED)
    twice, _ = launched(LOADED + LOADED)
    assert once.counts.l2_sectors == twice.counts.l2_sectors == 1
    assert (once.counts.sectors, twice.counts.sectors) == (1, 2)
    assert once.longest > LATENCY.far
    assert LATENCY.near < twice.longest - once.longest < LATENCY.near + 20
    assert once.to_memory.tolist() == [1, 0]


def test_traced_blocks_stand_for_all():
    body = at_stride(4, "ld.global.f32")
    one, many = counts_of(body), counts_of(body, blocks=12, traced=(0, 4, 8))
    assert many == type(one)(*(12 * value for value in one))
    assert many.unseen == 0


def test_traced_warps_stand_for_all():
    body = at_stride(4, "ld.global.f32")
    (one, _), (many, replayed) = launched(body), launched(body, threads=128, warps=(0, 2))
    assert many.counts == type(one.counts)(*(4 * value for value in one.counts))
    assert replayed.warps.max() == 2
    assert many.longest == one.longest


def test_an_incomplete_trace_is_refused():
    body = at_stride(4, "ld.global.f32")
    with pytest.raises(ValueError, match=r"room for 63 events.* 1 more.*room=\.\.\."):
        launched(body, room=63)
    launched(body, room=64)


def test_work_that_no_traced_block_has():
    body = "    mov.u32 %r2, %ctaid.x;\n    setp.eq.s32 %p1, %r2, 0;\n    @%p1 ret;"
    counts = counts_of(body + at_stride(4, "ld.global.f32"), blocks=4)
    assert counts.unseen == pytest.approx(3 * (1 + 2 + 1 + 1))  # wide product, sum, load, ret
    assert counts.sectors == 3


def test_where_ways_join():
    assert meetings([(1, 2), (3,), (3,), ()]).tolist() == [3, 3, 3, 4]
    assert meetings([(1,), (1, 2), ()]).tolist() == [1, 2, 3]
    assert meetings([(1, 2), (), (3,), ()]).tolist() == [4, 4, 3, 4]  # one side returns


def test_slots():
    assert slots_of("add.s32")[INTEGER] == 1
    assert slots_of("add.s64")[INTEGER] == 2
    assert slots_of("mul.wide.u32")[INTEGER] == 1
    assert slots_of("fma.rn.f64")[FLOAT64] == 1
    assert slots_of("cvt.rn.f64.s32")[CONVERT] == 1
    assert slots_of("atom.shared.add.u32")[MEMORY] == 1
    assert sum(slots_of("ld.param.u64")) == sum(slots_of("mov.u64")) == 0


def test_machine_code_of_a_kernel():
    pytest.importorskip("cuda.bindings.nvjitlink")
    body = "    and.b32 %r2, %r1, 7;\n    st.global.u32 [%rd1], %r2;"
    code = linked(f"{HEAD}{body}\n    ret;\n}}", "sm_90")
    assert 4 <= code.registers <= 32
    assert 5 <= code.instructions <= 20
    assert 0 < code.integer_share < 1
