"""Whole kernels on the machine: parameters, blocks, barriers, orders, and what a launch refuses."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx import machine, native
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


def test_blocks_may_be_chosen():
    source = np.arange(1, 257, dtype=np.uint64)
    result = np.zeros_like(source)
    words = parameters_of(source.ctypes.data, result.ctypes.data, source.size)
    machine.load(REVERSE).launch((4, 1, 1), (64, 1, 1), words, blocks=[1, 3])
    np.testing.assert_array_equal(result.reshape(4, 64).any(axis=1), [False, True, False, True])


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"grid": (0, 1, 1)}, "grid"),
        ({"block": (32, 33, 1)}, "block"),
        ({"parameters": bytes(8)}, "parameters"),
        ({"shared": 1 << 20}, "shared"),
        ({"order": "sorted"}, "order"),
        ({"trace": machine.Trace()}, "trace"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_launch_that_is_not_possible_is_refused(changes, named):
    call = {"grid": (1, 1, 1), "block": (32, 1, 1), "parameters": bytes(20), **changes}
    with pytest.raises(ValueError, match=named):
        machine.load(REVERSE).launch(**call)


def test_a_module_without_the_kernel():
    with pytest.raises(PtxError, match="reverse"):
        machine.load(REVERSE, "forward")
