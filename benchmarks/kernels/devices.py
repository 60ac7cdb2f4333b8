"""The clock of a device, and its floors: how fast it copies, and how fast it adds to histograms."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from statistics import median
from typing import Any

import numpy as np
from numba import njit

from gpuens.kernels.runtime.cpu import team
from gpuens.kernels.runtime.dispatch import Implementation, using
from gpuens.kernels.runtime.dtypes import N_SLOTS

MOST_COPIED = 2**28
"""Bytes of the largest copy that is timed; more take proportionally longer."""
FLOOR_REPEATS = 5
WORDS = 512
"""Words of eight codes that stay in the first-level cache."""


@cache
def adding() -> Any:
    """A compiled loop of additions to packed histograms of eight features."""

    @njit(nogil=True)
    def add(words, rounds, histogram):
        byte = np.uint64(255)
        for r in range(rounds):
            for i in range(words.size):
                w = words[i]
                for k in range(8):
                    code = (w >> np.uint64(8 * k)) & byte
                    histogram[np.uint64(k * (N_SLOTS + 8)) + code] += r

    return add


class OnCpu:
    """NumPy, and threads of the team that the operations use."""

    name, line, planes = "CPU", 64, 1

    def __init__(self, threads: int) -> None:
        self.threads = self.blocks = threads

    def put(self, array: np.ndarray) -> np.ndarray:
        return array

    @contextmanager
    def active(self) -> Iterator[None]:
        """Operations inside run here."""
        with using(Implementation.CPU), team.using_threads(self.threads):
            yield

    def seconds(self, call: Callable[[], Any]) -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    def copy_seconds(self, n_bytes: int) -> float:
        """Return the time of a copy that reads and writes so many bytes together, by one thread or
        by all, whichever is faster."""
        size = max(1, min(n_bytes, MOST_COPIED) // 2)
        source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
        cuts = np.linspace(0, size, self.threads + 1).astype(int)
        parts = [slice(a, b) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]

        def copy(part: slice) -> None:
            np.copyto(target[part], source[part])

        with ThreadPoolExecutor(self.threads) as pool:
            ways = (lambda: copy(slice(None)), lambda: list(pool.map(copy, parts)))
            fastest = min(median(self.seconds(way) for _ in range(FLOOR_REPEATS)) for way in ways)
        return fastest * max(1.0, n_bytes / (2 * size))

    def updates_per_second(self, rounds: int = 2000) -> float:
        """Additions of all threads together, each to histograms in its own cache."""
        words = np.random.default_rng(0).integers(0, 2**63, WORDS, np.uint64)
        histograms = np.zeros((self.threads, 8 * (N_SLOTS + 8)), np.int64)
        add = adding()
        add(words, 1, histograms[0])
        with ThreadPoolExecutor(self.threads) as pool:

            def everyone() -> None:
                list(pool.map(lambda own: add(words, rounds, own), histograms))

            taken = median(self.seconds(everyone) for _ in range(FLOOR_REPEATS))
        return self.threads * rounds * WORDS * 8 / taken


@cache
def shared_memory_kernel() -> tuple[Any, int]:
    """Additions to sums in shared memory, as the histogram makes them: every thread of a warp to
    those of its lane. Returns the block's size too."""
    from gpuens.kernels.runtime.cuda.target import block_size, cuda, kernel

    block = block_size(512)
    u32 = np.uint32
    entries = 8 * N_SLOTS

    @kernel
    def add(rounds, out):
        sums = cuda.shared.array(entries, np.int32)  # Numba takes a name here, and no product
        t = cuda.threadIdx.x
        for entry in range(t, entries, block):
            sums[u32(entry)] = 0
        cuda.syncthreads()
        lane = u32(t) & u32(31)
        state = u32(cuda.blockIdx.x * block + t + 1)
        for _ in range(rounds):  # xorshift: other bins every time, as in a table
            state = u32(state ^ u32(state << u32(13)))
            state = u32(state ^ u32(state >> u32(17)))
            state = u32(state ^ u32(state << u32(5)))
            for k in range(4):
                bin_ = u32(state >> u32(8 * k)) & u32(31)
                entry = u32(u32(bin_ << u32(5)) | lane)
                cuda.atomic.add(sums, entry, 1)
                cuda.atomic.add(sums, u32(entry + u32(4 * N_SLOTS)), 1)
        cuda.syncthreads()
        if t == 0:
            out[cuda.blockIdx.x] = sums[0]

    return add, block


class OnGpu:
    """CuPy and its events."""

    name, line, blocks, planes = "GPU", 32, 1, 2

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy

    def put(self, array: np.ndarray) -> Any:
        return self.cupy.asarray(array)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Operations inside run here."""
        with using(Implementation.CUDA):
            yield

    def seconds(self, call: Callable[[], Any]) -> float:
        """Between two events of the current stream, what the host does in between included."""
        before, after = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        before.record()
        call()
        after.record()
        after.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(before, after)) / 1e3

    def copy_seconds(self, n_bytes: int) -> float:
        """Return the time of a copy that reads and writes so many bytes together."""
        size = max(1, min(n_bytes, 4 * MOST_COPIED) // 2)
        source, target = (self.cupy.zeros(size, np.uint8) for _ in range(2))

        def copy() -> None:
            target[...] = source

        copy()
        taken = median(self.seconds(copy) for _ in range(FLOOR_REPEATS))
        return taken * max(1.0, n_bytes / (2 * size))

    def updates_per_second(self, rounds: int = 4096) -> float:
        """Additions of all multiprocessors together, in shared memory."""
        from gpuens.kernels.runtime.cuda.target import blocks_for, launch

        add, block = shared_memory_kernel()
        blocks = blocks_for(2**20, 4)
        out = self.cupy.zeros(blocks, np.int32)

        def everyone() -> None:
            launch(add, blocks, block, rounds, out)

        everyone()
        taken = median(self.seconds(everyone) for _ in range(FLOOR_REPEATS))
        return blocks * block * rounds * 8 / taken
