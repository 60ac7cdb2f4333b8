"""The simulator itself: barriers, shared arrays, errors."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.runtime.cuda.target import cuda, device_function, kernel

N = 16


@device_function
def neighbour(shared, t):
    return shared[(t + 1) % N]


@kernel
def rotate(values, out):
    shared = cuda.shared.array(N, np.int64)
    t = cuda.threadIdx.x
    shared[t] = values[cuda.blockIdx.x, t]
    cuda.syncthreads()
    out[cuda.blockIdx.x, t] = neighbour(shared, t)


@kernel
def rotate_without_barrier(values, out):
    shared = cuda.shared.array(N, np.int64)
    t = cuda.threadIdx.x
    for turn in range(values.shape[0]):
        shared[t] = values[turn, t]
        out[turn, t] = neighbour(shared, t)
        cuda.syncthreads()


@kernel
def count_odd(out):
    t = cuda.threadIdx.x + cuda.blockDim.x * cuda.threadIdx.y
    odd = cuda.syncthreads_count(t & 1)
    out[cuda.threadIdx.y, cuda.threadIdx.x] = 100 * t + odd


@kernel
def leave_early(out):
    t = cuda.threadIdx.x
    if t >= N // 2:
        return
    cuda.syncthreads()
    cuda.atomic.add(out, 0, 1)


@kernel
def fail_at(which, out):
    t = cuda.threadIdx.x
    if t == which:
        raise ValueError("so it goes")
    cuda.syncthreads()
    out[t] = 1


@pytest.fixture
def values(rng):
    return rng.integers(0, 10**6, (3, N))


def test_threads_of_a_block_share_an_array(values):
    out = np.zeros_like(values)
    rotate[3, N](values, out)
    np.testing.assert_array_equal(out, np.roll(values, -1, axis=1))


def test_a_missing_barrier_is_seen_in_every_run(values):
    found = []
    for _ in range(3):
        out = np.zeros_like(values)
        rotate_without_barrier[1, N](values, out)
        found.append(out)
    wrong = found[0] != np.roll(values, -1, axis=1)
    assert wrong[1:].any(axis=1).all()
    np.testing.assert_array_equal(found[0][1:], found[1][1:])
    np.testing.assert_array_equal(found[0][1:], found[2][1:])


def test_threads_of_two_dimensions_vote():
    out = np.zeros((2, 3), np.int64)
    count_odd[1, (3, 2)](out)
    np.testing.assert_array_equal(out, 100 * np.arange(6).reshape(2, 3) + 3)


def test_threads_may_leave_before_a_barrier():
    out = np.zeros(1, np.int64)
    leave_early[1, N](out)
    assert out[0] == N // 2


def test_an_error_arrives_and_the_next_launch_works(values):
    out = np.zeros(N, np.int64)
    with pytest.raises(ValueError, match="so it goes") as raised:
        fail_at[1, N](5, out)
    assert "threadIdx=(5, 0, 0) blockIdx=(0, 0, 0)" in raised.value.__notes__[0]
    assert not out.any()
    fail_at[1, N](-1, out)
    assert out.all()
