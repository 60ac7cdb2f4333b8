"""Whole kernels on the machine: parameters, blocks, barriers, orders, and what a launch refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.ptx import checks, machine, native
from tests.ptx.parse import PtxError

REVERSE = """
.version 8.0
.target sm_80
.address_size 64
.visible .shared .align 8 .b8 held[512];
.visible .entry reverse(.param .u64 source, .param .u64 result, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<10>;
    ld.param.u64 %rd1, [source];
    ld.param.u64 %rd2, [result];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mad.lo.s32 %r5, %r3, %r4, %r2;
    setp.ge.u32 %p1, %r5, %r1;
    mul.wide.u32 %rd3, %r5, 8;
    add.s64 %rd4, %rd1, %rd3;
    mov.u64 %rd5, held;
    mul.wide.u32 %rd6, %r2, 8;
    add.s64 %rd6, %rd5, %rd6;
    @%p1 bra $wait;
    ld.global.u64 %rd7, [%rd4];
    st.shared.u64 [%rd6], %rd7;
$wait:
    bar.sync 0;
    @%p1 ret;
    not.b32 %r6, %r2;
    add.s32 %r6, %r6, %r4;
    mul.wide.u32 %rd8, %r6, 8;
    add.s64 %rd8, %rd5, %rd8;
    ld.shared.u64 %rd9, [%rd8];
    add.s64 %rd2, %rd2, %rd3;
    st.global.u64 [%rd2], %rd9;
    ret;
}
"""


def parameters_of(*words: int) -> bytes:
    *pointers, n = words
    return np.array(pointers, np.uint64).tobytes() + np.uint32(n).tobytes()


@pytest.mark.parametrize("order", native.ORDERS)
def test_threads_wait_for_each_other(order):
    kernel = machine.load(REVERSE)
    source = np.random.default_rng(0).integers(0, 2**63, 256).astype(np.uint64)
    result = np.zeros_like(source)
    words = parameters_of(source.ctypes.data, result.ctypes.data, source.size)
    kernel.launch((4, 1, 1), (64, 1, 1), words, order=order, seed=5)
    np.testing.assert_array_equal(result, source.reshape(4, 64)[:, ::-1].ravel())
    assert kernel.shared_bytes == 512
    assert [(v.name, v.offset, v.size) for v in kernel.parameters] == [
        ("source", 0, 8), ("result", 8, 8), ("n", 16, 4)
    ]  # fmt: skip


def test_a_launch_adds_shared_memory():
    """Behind the kernel's own; the kernel can see how much."""
    text = REVERSE.replace("mov.u64 %rd5, held;", "mov.u64 %rd5, more;")
    text = text.replace("ld.shared.u64 %rd9, [%rd8];", "mov.u32 %r7, %dynamic_smem_size;\n"
                        "    cvt.u64.u32 %rd9, %r7;")  # fmt: skip
    text = text.replace(".visible .entry", ".extern .shared .align 8 .b8 more[];\n.visible .entry")
    source, result = np.ones(64, np.uint64), np.zeros(64, np.uint64)
    words = parameters_of(source.ctypes.data, result.ctypes.data, source.size)
    kernel = machine.load(text)
    kernel.launch((1, 1, 1), (64, 1, 1), words, shared=64 * 8)
    assert kernel.shared_bytes == 512
    assert set(result.tolist()) == {64 * 8}


def test_blocks_may_be_chosen():
    source = np.arange(1, 257, dtype=np.uint64)
    result = np.zeros_like(source)
    words = parameters_of(source.ctypes.data, result.ctypes.data, source.size)
    machine.load(REVERSE).launch((4, 1, 1), (64, 1, 1), words, blocks=[1, 3])
    np.testing.assert_array_equal(result.reshape(4, 64).any(axis=1), [False, True, False, True])


@pytest.mark.parametrize("changes, named", [
    ({"grid": (0, 1, 1)}, "grid"), ({"block": (32, 33, 1)}, "block"),
    ({"parameters": bytes(8)}, "parameters"), ({"shared": 1 << 20}, "shared"),
    ({"order": "sorted"}, "order"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_a_launch_that_is_not_possible_is_refused(changes, named):
    call = {"grid": (1, 1, 1), "block": (32, 1, 1), "parameters": bytes(20), **changes}
    with pytest.raises(ValueError, match=named):
        machine.load(REVERSE).launch(**call)


def test_a_module_without_the_kernel():
    with pytest.raises(PtxError, match="reverse"):
        machine.load(REVERSE, "forward")


def memory_of(source, result, changed):
    regions = [
        checks.Region(source.ctypes.data, source.nbytes, "source", 0, writable=False),
        checks.Region(result.ctypes.data, result.nbytes, "result", 8),
    ]
    return checks.Memory([replace(region, **changed.get(region.name, {})) for region in regions])


def faults_of(ptx, n_blocks=4, n=None, **changed):
    """Run the kernel watched on 256 entries, and return what it is reported for."""
    source = np.arange(1, 257, dtype=np.uint64)
    result = np.zeros_like(source)
    words = parameters_of(source.ctypes.data, result.ctypes.data, source.size if n is None else n)
    kernel = machine.load(ptx, watch=True)
    try:
        kernel.launch(
            (n_blocks, 1, 1), (64, 1, 1), words, memory=memory_of(source, result, changed)
        )
    except checks.MachineFault as error:
        assert "reverse" in str(error)
        return error.faults
    np.testing.assert_array_equal(result, source.reshape(4, 64)[:, ::-1].ravel())
    return []


def kinds_of(faults):
    return {(fault.kind, fault.array) for fault in faults}


def test_a_kernel_without_faults():
    assert faults_of(REVERSE) == []


def test_an_access_behind_an_array():
    (fault,) = faults_of(REVERSE, source={"size": 255 * 8})
    assert (fault.kind, fault.array, fault.offset) == ("out of bounds", "source", 255 * 8)
    assert (fault.block, fault.thread, fault.times) == (3, 63, 1)
    assert fault.instruction == "ld.global.u64 %rd7, [%rd4];"
    assert REVERSE.splitlines()[fault.line - 1].strip() == fault.instruction


def test_an_overrun_into_another_array_is_one():
    both = np.arange(512, dtype=np.uint64)
    words = parameters_of(both.ctypes.data, both.ctypes.data + 2048, 512)
    memory = memory_of(both[:256], both[256:], {})
    kernel = machine.load(REVERSE, watch=True)
    with pytest.raises(checks.MachineFault) as caught:
        kernel.launch((8, 1, 1), (64, 1, 1), words, memory=memory)
    assert kinds_of(caught.value.faults) == {
        ("out of bounds", "source"),
        ("out of bounds", "result"),
    }


def test_a_write_to_a_read_only_array():
    faults = faults_of(REVERSE, result={"writable": False})
    assert kinds_of(faults) == {("a write to a read-only array", "result")}


def test_a_misaligned_access():
    faults = faults_of(REVERSE.replace("[%rd4]", "[%rd4+-4]"), source={"size": 4096})
    assert ("misaligned", "source") in kinds_of(faults)


def test_an_address_of_nothing():
    faults = faults_of(REVERSE.replace("ld.param.u64 %rd1, [source];", "mov.u64 %rd1, 64;"))
    assert kinds_of(faults) == {("an address outside of all arrays", "")}


def test_a_missing_barrier_is_a_race_in_every_order():
    assert ("a race", "held") in kinds_of(faults_of(REVERSE.replace("bar.sync 0;", "")))


def test_reading_shared_memory_that_nobody_wrote():
    faults = faults_of(REVERSE.replace("@%p1 ret;", ""), n=250)
    assert kinds_of(faults) == {("an uninitialised read", "held")}


@pytest.mark.parametrize("missing", [0, 13, 255])
def test_reading_an_array_that_nobody_wrote(missing):
    initialised = np.ones(2048, np.uint8)
    initialised[8 * missing + 3] = 0
    (fault,) = faults_of(REVERSE, source={"initialised": initialised})
    assert (fault.kind, fault.offset) == ("an uninitialised read", 8 * missing)


def test_what_is_written_is_initialised():
    initialised = np.zeros(2048, np.uint8)
    assert faults_of(REVERSE, result={"initialised": initialised}) == []
    assert initialised.all()


def test_blocks_that_write_the_same_entry_race():
    faults = faults_of(REVERSE.replace("mov.u32 %r3, %ctaid.x;", "mov.u32 %r3, 0;"))
    assert kinds_of(faults) == {("a race", "result")}


def test_threads_that_wait_at_different_barriers():
    apart = REVERSE.replace("@%p1 bra $wait;", "@%p1 bra $wait;\n    bar.sync 0;")
    faults = faults_of(apart, n=250)
    assert [fault.kind for fault in faults] == [checks.UNORDERED] * 2
    assert [fault.times for fault in faults] == [58, 6]


def test_a_loop_without_an_end_is_stopped():
    kernel = machine.load(REVERSE.replace("$wait:\n", "$wait:\n    bra $wait;\n"), count=True)
    source, result = np.zeros((2, 256), np.uint64)
    words = parameters_of(source.ctypes.data, result.ctypes.data, 256)
    with pytest.raises(checks.MachineFault, match=checks.ENDLESS):
        kernel.launch((4, 1, 1), (64, 1, 1), words, fuel=10_000)


def test_blocks_of_instructions_are_counted():
    """Of 256 threads, 250 load an entry, all wait, and six return after the barrier."""
    kernel = machine.load(REVERSE, count=True)
    source, result = np.zeros((2, 256), np.uint64)
    words = parameters_of(source.ctypes.data, result.ctypes.data, 250)
    kernel.launch((4, 1, 1), (64, 1, 1), words)
    np.testing.assert_array_equal(kernel.counts, [256, 250, 256, 256, 250])
    first = kernel.program.blocks[0]
    assert kernel.program.instructions[first.end - 1].opcode == "bra"


def test_what_a_launch_has_touched():
    source, result = np.zeros((2, 256), np.uint64)
    words = parameters_of(source.ctypes.data, result.ctypes.data, 256)
    memory = replace(memory_of(source, result, {}), measured=True)
    machine.load(REVERSE, watch=True).launch(
        (4, 1, 1), (64, 1, 1), words, memory=memory, blocks=[0, 2]
    )
    assert [region.touched for region in memory.regions] == [8 * 192] * 2


def test_a_pointer_that_does_not_lead_into_its_array():
    source, result = np.zeros((2, 256), np.uint64)
    words = parameters_of(source.ctypes.data, result.ctypes.data, 0)
    memory = memory_of(source, result, {"source": {"address": source.ctypes.data + 8}})
    with pytest.raises(ValueError, match="byte 0 .* source"):
        machine.load(REVERSE, watch=True).launch((1, 1, 1), (64, 1, 1), words, memory=memory)


def test_a_pointer_may_lead_to_the_end_of_an_array():
    """As that of a view whose rows go backwards."""
    backwards = REVERSE.replace("mul.wide.u32 %rd3, %r5, 8;", "mul.wide.s32 %rd3, %r5, -8;")
    backwards = backwards.replace("add.s64 %rd2, %rd2, %rd3;", "sub.s64 %rd2, %rd2, %rd3;")
    source, result = np.arange(512, dtype=np.uint64).reshape(2, 256)
    last = source.ctypes.data + 255 * 8
    words = parameters_of(last, result.ctypes.data, 256)
    memory = memory_of(source, result, {})
    machine.load(backwards, watch=True).launch((4, 1, 1), (64, 1, 1), words, memory=memory)
    np.testing.assert_array_equal(result, source[::-1].reshape(4, 64)[:, ::-1].ravel())
