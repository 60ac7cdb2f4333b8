"""Fits and predictions on the PTX machine, with what each of their launches costs."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpuens.devices.cards import Card
from gpuens.kernels.runtime.cuda import target
from gpuens.kernels.runtime.cuda.fetch import Fetched
from tests.ptx import driver, host, machine
from tests.ptx.counts import count
from tests.ptx.warps import WARP, traces_of
from tests.support import strict_cupy
from tests.support.cuda_modules import cuda_modules

from .cards import LATENCIES
from .launches import Launch, Work

CAPABILITY = (8, 0)
"""Of the PTX. The linker makes the machine code of each card from it, as a driver does."""
SHARED_MEMORY = 228 * 1024
"""Bytes of a multiprocessor: those of the cards in data centers."""
SAMPLED = 2
"""Blocks whose warps are replayed, along an axis of a launch's grid."""
FEW = 8
"""Up to so many along the second axis all are replayed: these work on other trees."""
WARPS_SAMPLED = 4
"""Warps that are replayed of each of these blocks; all warps of a block share its work evenly, and
the first does what is not shared."""
ROOM = 1 << 25
"""Events that they may have together."""
MEMORY = 80 * 2**30
"""Bytes of the card."""


class Recorder:
    """The launches of a host, counted while they are ``wanted``.

    Parameters
    ----------
    wanted : callable
        Is told the name of each kernel before it runs.
    run : callable
        Runs a launch without counting.
    """

    def __init__(self, wanted: Callable[[str], bool], run: Callable[..., None]) -> None:
        self.wanted, self.run = wanted, run
        self.work = Work([], Counter())
        self.recording = False
        self._seen = 0

    def __call__(self, config: driver.Configuration, kernel: driver.Kernel, pointers: int) -> None:
        self.note_waits()
        self.recording = self.wanted(kernel.name)
        if self.recording:
            self.work.launches.append(self._counted(config, kernel, pointers))
        else:
            self.run(config, kernel, pointers)

    def note_waits(self) -> None:
        """Count the waits of the host since the launch before."""
        seen = len(strict_cupy.state.log.waits)
        if self.recording:
            self.work = replace(self.work, waits=self.work.waits + seen - self._seen)
        self._seen = seen

    def _counted(
        self, config: driver.Configuration, kernel: driver.Kernel, pointers: int
    ) -> Launch:
        """Run a launch and count it."""
        code = _counting(kernel)
        n_blocks, n_threads = int(np.prod(config.grid)), int(np.prod(config.block))
        warps = evenly(-(-n_threads // WARP), WARPS_SAMPLED)
        trace = machine.Trace(room=ROOM, blocks=sampled(config.grid), warps=warps)
        code.counts[:] = 0
        places = [(place.offset, place.size) for place in code.parameters]
        block = driver.parameter_block(places, pointers)
        code.launch(config.grid, config.block, block, shared=config.shared, trace=trace)
        regions = kernel.regions(driver.words_in(places, block))
        ends = [(each.first, each.first + each.size) for each in regions]
        arrays = np.array(ends, np.int64).reshape(-1, 2)
        traces = traces_of(code.program, trace, n_threads)
        found = {
            name: count(code.program, code.counts[0], traces, n_blocks, arrays, latency)
            for name, latency in LATENCIES.items()
        }
        first = next(iter(found.values()))
        sectors = zip(regions, first.to_memory[:-1].tolist(), strict=True)
        return Launch(
            kernel.name, kernel.ptx, n_blocks, n_threads, code.shared_bytes + config.shared,
            first.counts, {each.name: (float(each.size), own) for each, own in sectors},
            {name: each.cycles for name, each in found.items()},
            {name: each.longest for name, each in found.items()}, first.code,
        )  # fmt: skip


@functools.cache
def _counting(kernel: driver.Kernel) -> machine.Kernel:
    return machine.load(kernel.ptx, kernel.entry, count=True)


def sampled(grid: Sequence[int]) -> list[int]:
    """Return the blocks whose warps are replayed: the first of a row, and one from its middle."""
    n_columns, n_rows = grid[0], int(np.prod(grid[1:]))
    columns, rows = evenly(n_columns, SAMPLED), evenly(n_rows, n_rows if n_rows <= FEW else SAMPLED)
    return [row * n_columns + column for row in rows for column in columns]


def evenly(n: int, most: int) -> list[int]:
    """Return at most so many of n numbers, from 0 on, at equal distances."""
    return sorted({k * n // most for k in range(most)})


@contextlib.contextmanager
def recorded(
    multiprocessors: int, wanted: Callable[[str], bool], card: Card | None = None
) -> Iterator[Recorder]:
    """Let ``device="cuda"`` be the machine, with so many multiprocessors of a card, by default of
    one in a data center."""
    is_old = card is not None and card.architecture == "sm_75"
    shared = SHARED_MEMORY if card is None else card.shared_kb * 1024
    gpu = driver.Gpu((7, 5) if is_old else CAPABILITY, multiprocessors, shared)
    with pytest.MonkeyPatch.context() as patch, host.installed([gpu], watched=[]) as gpus:
        recorder = Recorder(wanted, gpus.run)
        patch.setattr(gpus, "run", recorder)
        patch.setattr(strict_cupy.state, "memory", (MEMORY, MEMORY))
        _count_others(patch, recorder)
        yield recorder
        recorder.note_waits()


def _count_others(patch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    """Count work on the stream that is not a launch."""

    def counting(inner: Any, kind: str) -> Any:
        @functools.wraps(inner)
        def call(*args: Any, **more: Any) -> Any:
            found = inner(*args, **more)
            if recorder.recording:
                recorder.work.others[kind] += 1
                if kind == "wait":
                    more_bytes = recorder.work.downloaded + found.nbytes
                    recorder.work = replace(recorder.work, downloaded=more_bytes)
            return found

        return call

    kinds = {"zeros": "fill", "write": "upload", "upload": "upload", "download": "wait"}
    for name, kind in kinds.items():
        inner = getattr(target, name)
        for module in cuda_modules():
            if getattr(module, name, None) is inner:
                patch.setattr(module, name, counting(inner, kind))
    patch.setattr(Fetched, "__init__", counting(Fetched.__init__, "fetch"))


def rounds(first: int, last: int, begins: str) -> Callable[[str], bool]:
    """Return what records the rounds from ``first`` up to ``last``, counted from 0; each begins
    with a launch of a kernel."""
    n = -1

    def wanted(kernel: str) -> bool:
        nonlocal n
        n += kernel == begins
        return first <= n < last

    return wanted
