"""Times of the operations that gradient boosting is made of, called as its first tree calls them.

The root of a tree of binary log loss: cut points, bins, gradients, integers, the histogram of all
rows, its best split, and the partition by that split. ``kernels`` compares each with its floor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuens.devices.placement import Device, resolve_device
from gpuens.inputs.binning import Binner
from gpuens.kernels.growth.histogram import histogram
from gpuens.kernels.growth.partition import partition
from gpuens.kernels.growth.split import split
from gpuens.kernels.runtime.cpu.team import using_threads
from gpuens.kernels.scalars.losses import BinomialLogLoss
from gpuens.kernels.statistics.gradients import gradients
from gpuens.kernels.statistics.quantise import quantise, scales_for

from ..common.peers import Settings

KEY = 7
NO_COUNTS = np.zeros((0, 0, 0), np.int32)


def stage_seconds(X: Any, y: Any, settings: Settings, device: str = "cpu") -> dict[str, float]:
    """Return the seconds of every stage, with X in float32 on the device; of y it only matters
    whether a value is above the first one."""
    place = resolve_device(device, X)
    clock = Clock(place)
    with place.active(), using_threads(settings.threads):
        _run_stages(clock, X, y, settings, place)
    return clock.seconds


class Clock:
    """Seconds by name; on a GPU a call is done when the GPU is."""

    def __init__(self, place: Device) -> None:
        self.place = place
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, call: Callable[[], Any]) -> Any:
        self._finish()
        start = time.perf_counter()
        result = call()
        self._finish()
        self.seconds[name] = time.perf_counter() - start
        return result

    def _finish(self) -> None:
        if self.place.kind == "cuda":
            self.place.xp.cuda.Device(self.place.index).synchronize()


def _run_stages(clock: Clock, X: Any, y: Any, settings: Settings, place: Device) -> None:
    n, xp = X.shape[0], place.xp
    threads, bins = settings.threads, settings.max_bins or 255
    binner = clock("cut points", lambda: Binner.fit(X, None, bins, 0, place, threads))
    codes = clock("bin_values", lambda: binner.transform(X, place))
    target = (y > y[0]).astype(xp.float64)
    raw, none = xp.zeros(n, dtype=xp.float64), xp.empty(0, dtype=xp.float64)
    g, h = xp.empty(n, dtype=xp.float32), xp.empty(n, dtype=xp.float32)
    loss = BinomialLogLoss()
    totals = clock("gradients", lambda: gradients(loss, target, raw, none, none, g, h))
    scales, everything = scales_for(totals, n), xp.empty(0, dtype=xp.int32)
    statistics = g[None], h[None], everything
    records = clock("quantise", lambda: quantise(*statistics, KEY, 0, [scales])).words[0]
    begin, end = np.array([0]), np.array([n])
    table = clock("histogram", lambda: histogram(codes, records, begin, end))
    sums = table[:, :, 0].sum(axis=-1, dtype=xp.int64)
    whole = np.asarray(sums.get() if hasattr(sums, "get") else sums)
    limits = np.array([1]), np.zeros(1), np.ones((1, X.shape[1]), np.uint8)
    counts = place.asarray(NO_COUNTS)
    best = clock("split", lambda: split(table, binner.n_bins, whole, *limits, counts, 1))
    if best.feature[0] >= 0:
        cut = best.feature, best.bin, best.missing_left
        clock("partition", lambda: partition(codes, records, begin, end, *cut))
