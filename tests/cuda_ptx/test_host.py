"""From the words of a launch to the parameters of a kernel, and the arrays that are watched."""

from __future__ import annotations

import ctypes
import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numba import config

if config.ENABLE_CUDASIM:
    pytest.skip("needs a process without the simulator", allow_module_level=True)
pytest.importorskip("numba_cuda")

from gpuens.kernels.runtime.cuda import launching, target
from gpuens.kernels.runtime.cuda.target import cuda, kernel
from gpuens.kernels.runtime.dtypes import NodeValues
from gpuens.kernels.statistics.cuda.add_leaf_values import add_leaf_values
from tests.ptx import checks, driver
from tests.ptx import host as hosts
from tests.support.ptx_option import Gpu

N = 700


@kernel
def add_one(values, shift):
    i = cuda.grid(1)
    if i < values.shape[0]:
        values[i] += shift


@kernel
def write_beyond(values, neighbour):
    i = cuda.grid(1)
    if i == 0:
        values[values.shape[0] + neighbour.shape[0] - 1] = 1


@kernel
def copy_columns(table, out):
    i = cuda.grid(1)
    if i < table.shape[0]:
        for k in range(table.shape[1]):
            out[i, k] = table[i, k]


def test_parameters_are_read_through_their_addresses():
    """As many bytes of each as the kernel has."""
    words = np.array([-2, 2**40 + 7, np.float64(0.5).view(np.int64)])
    table = words.ctypes.data + 8 * np.arange(3)[[0, 2, 1]]
    places = [(0, 8), (8, 8), (16, 4)]
    block = driver.parameter_block(places, table.ctypes.data)
    assert block == struct.pack("<qdi", -2, 0.5, 7)
    assert driver.words_in(places, block) == [-2, words[2], 7]


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a, lambda a: a.T, lambda a: a[::2, 1:], lambda a: a[::-1], lambda a: a[:, ::-2],
        lambda a: a[:0], lambda a: np.broadcast_to(a[1], a.shape),
    ],
)  # fmt: skip
def test_the_extent_of_views(view):
    whole = np.arange(30.0).reshape(5, 6)
    array = view(whole)
    first, size = driver.extent(array.ctypes.data, 8, array.shape, array.strides)
    found = np.frombuffer((ctypes.c_char * size).from_address(first)) if size else np.empty(0)
    assert found[[0, -1]].tolist() == [array.min(), array.max()] if size else array.size == 0


def test_launches_in_a_row(host):
    """Numba compiles the kernel once; every launch has the arguments that it was called with."""
    cupy = host.cupy
    values = cupy.asarray(np.arange(N))
    for shift in (1, 10, 100):
        target.launch(add_one, 128, 32, values, shift)
    others = [cupy.asarray(np.arange(n)) for n in (N, 5)]
    for other in others:
        target.launch(add_one, 128, 32, other, 1000)
    np.testing.assert_array_equal(values.get(), np.arange(N) + 111)
    for other in others:
        np.testing.assert_array_equal(other.get(), np.arange(other.size) + 1000)
    assert [launch.name for launch in host.launches] == ["add_one"] * 5
    assert len(launching._kernels) == 1


def test_threads_launch_at_the_same_time(host):
    """Each from parameters of its own."""

    def work(k):
        values = host.cupy.zeros(20 + k, np.int64)
        for _ in range(20):
            target.launch(add_one, 1, 32, values, k)
        return values.get()

    with ThreadPoolExecutor(8) as pool:
        for k, values in enumerate(pool.map(work, range(8))):
            assert values.tolist() == [20 * k] * (20 + k)
    assert len(launching._kernels) == 1


def test_an_overrun_into_a_neighbour_is_seen(host):
    """Arrays are watched one by one: the byte behind one is there, but of another array."""
    both = host.cupy.zeros(2 * N, np.int64)
    with pytest.raises(checks.MachineFault, match="out of bounds at byte .* of values"):
        target.launch(write_beyond, 128, 32, both[:N], both[N:])


def test_rubbish_is_not_to_be_read(host):
    values = host.cupy.empty(N, np.float32)
    values[: N - 1] = 0.0
    with pytest.raises(checks.MachineFault, match=f"uninitialised read at byte {4 * (N - 1)} of"):
        target.launch(add_one, 128, 32, values, np.float32(1))
    values[N - 1] = 0.0
    target.launch(add_one, 128, 32, values, np.float32(1))
    assert values[N - 1].item() == 1.0


@pytest.mark.parametrize("step", [1, -1])
def test_views_with_gaps(host, step):
    table = np.arange(120.0).reshape(20, 6)[::step, 1:4]
    there = host.cupy.asarray(np.arange(120.0).reshape(20, 6))[::step, 1:4]
    out = host.cupy.empty((20, 3), np.float64)
    target.launch(copy_columns, 128, 32, there, out)
    np.testing.assert_array_equal(out.get(), table)


def test_unwatched_launches(rng):
    gpus = [Gpu((8, 0)), Gpu((12, 0), multiprocessors=132)]
    raw, values = rng.normal(size=N), rng.normal(size=5)
    leaf = rng.integers(0, 5, N).astype(np.int32)
    with hosts.installed(gpus, watched=[]) as host:
        for index, gpu in enumerate(gpus):
            with host.cupy.cuda.Device(index):
                there = host.cupy.asarray(raw)
                add_leaf_values(there, host.cupy.asarray(leaf), NodeValues(values, values), 0.1)
                assert target.multiprocessors() == gpu.multiprocessors
                np.testing.assert_array_equal(there.get(), raw + 0.1 * values[leaf])
        assert [launch.gpu for launch in host.launches] == gpus


def test_harmless_faults_are_forgiven_and_others_are_not():
    race = checks.Fault("a race", 1, "st", 0, 0, array="nodes")
    other = checks.Fault("out of bounds", 1, "st", 0, 0, array="nodes")
    with hosts._harmless_faults_dropped("number_leaves"):
        raise checks.MachineFault("kernel", [race])
    for name, faults in (("number_leaves", [race, other]), ("open_nodes", [race])):
        with pytest.raises(checks.MachineFault) as raised:
            with hosts._harmless_faults_dropped(name):
                raise checks.MachineFault("kernel", faults)
        assert len(raised.value.faults) == 1


def test_gpus_of_the_same_number_have_kernels_of_their_own():
    for gpu in (Gpu((8, 0)), Gpu((9, 0)), Gpu((7, 5)), Gpu((9, 0))):
        started = []
        with hosts.installed([gpu]) as host:
            host.run = lambda config, kernel, pointers, to=started: to.append(kernel)
            target.launch(add_one, 128, 32, host.cupy.zeros(N, np.int64), 1)
        (kernel_,) = started
        suffix = "a" if gpu.capability == (9, 0) else ""
        assert f".target {gpu.name}{suffix}" in kernel_.ptx
