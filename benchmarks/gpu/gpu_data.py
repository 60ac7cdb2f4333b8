"""The cost of data on its way into a GPU, and of a small prediction on the host.

``into_gpu``: a table of the host that is copied by ``cupy.asarray`` and in pieces, its cut points
found on either device, its bins, and the most memory of the GPU that training takes beside what is
planned. ``by_chunks``: training on a binned table that stays on the host in part or as a whole,
because CuPy's pool is given a limit. ``small_predictions``: calls for batches that a card hardly
notices.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any
from unittest import mock

import numpy as np

from gpuens import BinnedTable, GradientBoostingRegressor, memory_plan
from gpuens.datasets import make_higgs_like
from gpuens.devices.memory_plan import WORKING_SHARE, row_bytes
from gpuens.devices.placement import CPU, Device
from gpuens.inputs.binning import Binner
from gpuens.kernels.growth import streamed_codes

from ..common.peers import GapError
from ..common.places import Card, place_of
from ..common.program import Options, Results

SMALL = (1, 100, 10_000)
"""Rows of small predictions."""
CALLS = 100
SMALL_TREES = 100
STREAMED_TREES = 4
CHUNKS = 8
"""Chunks of the table that is streamed; they are smaller than usual."""
MOST_REPEATS = 3
"""Repetitions of what takes the host up to a second, at most."""


def seconds_of(action: Callable[[], Any], repeats: int) -> float:
    """Return the median of some runs, after one that compiles."""
    runs = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        action()
        runs.append(time.perf_counter() - begin)
    return median(runs[1:])


def into_gpu(options: Options) -> Results:
    """Measure the ways of a table into a GPU, and compare the bins with the host's."""
    place = place_of("cuda")
    if not isinstance(place, Card):
        raise GapError("copies from the host need a GPU")
    device = Device("cuda", int(place.cupy.cuda.runtime.getDevice()))
    X, y = make_higgs_like(options.rows, 28)
    binner = Binner.fit(X, None, 255, 0, CPU)
    there = Binner.fit(X, None, 255, 0, device)
    codes = binner.transform(X, device)
    ways: dict[str, Callable[[], Any]] = {
        "copied by cupy.asarray": lambda: place.cupy.asarray(X),
        "copied in pieces": lambda: device.asarray(X),
        "binned in pieces": lambda: binner.transform(X, device),
        "cut points by the host": lambda: Binner.fit(X, None, 255, 0, CPU),
        "cut points by the GPU": lambda: Binner.fit(X, None, 255, 0, device),
    }
    repeats = min(options.repeats, MOST_REPEATS)
    seconds = {name: seconds_of(place.waiting(way), repeats) for name, way in ways.items()}
    model = GradientBoostingRegressor(n_estimators=2, device="cuda", early_stopping=False)
    peak = place.peak_bytes(lambda: model.fit(X, y))
    return {
        "ms": {name: 1e3 * value for name, value in seconds.items()},
        "mb": {"planned": memory_plan(model, X, y).total / 1e6, "peak": (peak or 0) / 1e6,
               "three bytes a cell, forty a row": (3 * X.size + 40 * len(X)) / 1e6},
        "equal": {
            "cut points": all(map(np.array_equal, binner.thresholds, there.thresholds)),
            "bins": np.array_equal(place.get(codes.columns), binner.transform(X, CPU).columns),
        },
    }  # fmt: skip


def by_chunks(options: Options) -> Results:
    """Measure trainings of which all, half and none of the chunks of a table stay on the GPU, whose
    models are those of the CPU."""
    place = place_of("cuda")
    if not isinstance(place, Card):
        raise GapError("a table that is larger than a GPU needs one")
    X, y = make_higgs_like(options.rows, 28)
    table = BinnedTable.from_batches(lambda: iter([(X, y)]))
    settings = {"n_estimators": STREAMED_TREES, "max_leaf_nodes": 63, "early_stopping": False}
    expected = GradientBoostingRegressor(**settings, device="cpu").fit(table).forest_.fingerprint()
    model = GradientBoostingRegressor(**settings, device="cuda")
    row = row_bytes(28)
    repeats = min(options.repeats, MOST_REPEATS)
    found: Results = {"ms": {"as a whole": 1e3 * seconds_of(lambda: model.fit(table), repeats)}}
    found["equal"] = {"as a whole": model.forest_.fingerprint() == expected}
    with mock.patch.object(streamed_codes, "CHUNK_BYTES", -(-options.rows // CHUNKS) * row):
        with _free(place, 1):
            least = memory_plan(model, table).total
        for name, share in (("all chunks stay", 1.0), ("half", 0.5), ("none", 0.0)):
            n_bytes = row * (share * options.rows + 2)
            with _free(place, int(least + (1 + WORKING_SHARE) * n_bytes)):
                plan = memory_plan(model, table)
                name += f" ({plan.n_resident:,} rows, streamed: {plan.streams})"
                found["ms"][name] = 1e3 * seconds_of(lambda: model.fit(table), repeats)
            found["equal"][name] = model.forest_.fingerprint() == expected
    return found


@contextmanager
def _free(place: Card, size: int) -> Iterator[None]:
    """Let so many bytes of the GPU be free."""
    gc.collect()
    pool = place.cupy.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=pool.used_bytes() + size)
    try:
        yield
    finally:
        pool.set_limit(size=0)


def small_predictions(options: Options) -> Results:
    """Measure microseconds of a call of ``predict``: until it returns, and until it is done."""
    place = place_of("cuda")
    if not isinstance(place, Card):
        raise GapError("the time of a call needs a GPU")
    X, y = make_higgs_like(max(SMALL), 10)
    model = GradientBoostingRegressor(n_estimators=SMALL_TREES, device="cpu").fit(X, y)
    model.set_params(device="cuda")
    found = {}
    for n in SMALL:
        rows = place.put(X[:n])
        model.predict(rows)
        place.wait()
        begin = time.perf_counter()
        for _ in range(CALLS):
            model.predict(rows)
        returned = time.perf_counter()
        place.wait()
        done = time.perf_counter()
        found[f"{n:,} rows"] = {
            "returned": 1e6 * (returned - begin) / CALLS, "done": 1e6 * (done - begin) / CALLS
        }  # fmt: skip
    return {"microseconds": found}
