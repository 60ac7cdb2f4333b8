"""Try what is uncertain on a new GPU before anything is measured; each result decides something.

``zero_size``: arrays without entries as arguments of a kernel. ``launch``: what one launch costs,
with the arguments of the one before and with others. ``atomics``: additions in shared
memory with g and h in two planes, as histograms have them, and beside each other, on uniform and on
skewed bins. ``shared_memory``: how much a block can have beyond 48 KB. ``kernels_of_a_tree``:
the time of every kernel of boosting, those of one block among them. ``into_gpu``, ``by_chunks``
and ``small_predictions``: see ``gpu_data``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from statistics import median
from typing import Any

import numpy as np

from gpuens import GradientBoostingClassifier
from gpuens.datasets import make_higgs_like
from gpuens.kernels.runtime.cuda import target
from gpuens.kernels.runtime.cuda.target import cuda, kernel
from gpuens.kernels.runtime.dtypes import N_SLOTS

from ..common.markdown import number, pivot
from ..common.peers import GapError
from ..common.places import Card, Host, place_of
from ..common.program import Content, Options, Program, Results, short
from .gpu_data import by_chunks, into_gpu, small_predictions

BINS = {"uniform": 255, "eight bins": 7, "one bin": 0}
"""The bits of a code that vary."""
LAYOUTS = {"two planes": (1, 4 * N_SLOTS), "side by side": (2, 1)}
"""Places of a bin's two sums: the step from bin to bin, and from g to h."""
SIZES = (48, 64, 96, 128, 160, 192, 227)
"""Kilobytes of shared memory; a block has 227 at most on an H100 or H200."""
SPIN = 2**20
"""Rounds of a thread that keeps the GPU busy for some ten milliseconds."""


@cache
def sizes_kernel() -> Any:
    """Write the lengths of two arrays and the sum of the first."""

    @kernel
    def write_sizes(a, b, out):
        if cuda.grid(1) == 0:
            total = 0.0
            for i in range(a.shape[0]):
                total += a[i]
            out[0] = a.shape[0]
            out[1] = b.shape[0] * 10 + b.shape[1]
            out[2] = total

    return write_sizes


def zero_size(options: Options) -> Results:
    """Launch kernels with arrays that have no entries."""
    place = place_of("cuda")
    found = {}
    for shapes, expected in (((0, (0, 3)), [0, 3, 0]), ((2, (4, 0)), [2, 40, 2])):
        arrays = [place.put(np.ones(shape)) for shape in shapes]
        out = place.put(np.full(3, -1.0))
        target.launch(sizes_kernel(), 64, 32, *arrays, out)
        found[f"{shapes}"] = place.get(out).tolist() == expected
    return {"equal": found}


@cache
def empty_kernel(n_arrays: int) -> Any:
    """Do nothing with two arrays, or with as many as the kernels of growth take."""
    if n_arrays == 2:

        @kernel
        def with_two(a, b):
            if cuda.grid(1) < 0:
                a[0] = b[0]

        return with_two

    @kernel
    def with_twenty(
        a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r, s, t, u
    ):  # fmt: skip
        if cuda.grid(1) < 0:
            a[0] = b[0] + c[0] + d[0] + e[0] + f[0] + g[0] + h[0] + i[0] + j[0] + k[0] + m[0]
            b[0] = n[0] + o[0] + p[0] + q[0] + r[0] + s[0] + t[0] + u[0]

    return with_twenty


def launch(options: Options) -> Results:
    """Measure microseconds of a launch: of Python and the driver's call, and until it is done,
    by how many arguments are not those of the launch before."""
    place = place_of("cuda")
    found: Results = {}
    for n_arrays in (2, 20):
        empty = empty_kernel(n_arrays)
        args = [place.put(np.ones(4)) for _ in range(n_arrays)]
        others = [place.put(np.ones(4)) for _ in range(n_arrays)]
        for name, turns in {"the same": [args], "two others": [args, others[:2] + args[2:]],
                            "all others": [args, others]}.items():  # fmt: skip
            runs = []
            for _ in range(options.repeats + 1):  # the first one compiles
                place.wait()
                begin = time.perf_counter()
                for k in range(options.launches):
                    target.launch(empty, 64, 32, *turns[k % len(turns)])
                issued = time.perf_counter()
                place.wait()
                done = time.perf_counter()
                runs.append([issued - begin, done - begin])
            python, whole = (1e6 * median(run) for run in zip(*runs[1:], strict=True))
            found[f"{n_arrays} arrays, {name}"] = {
                "issued": python / options.launches, "done": whole / options.launches
            }  # fmt: skip
    return {"microseconds": found}


@cache
def adding_kernel() -> tuple[Any, int]:
    """Add to pairs of sums in shared memory; and its block's size."""
    block = target.block_size(512)
    entries = 8 * N_SLOTS
    u32 = np.uint32

    @kernel
    def add_pairs(rounds, varying, step, to_h, out):
        sums = cuda.shared.array(entries, np.int32)
        t = cuda.threadIdx.x
        for entry in range(t, entries, block):
            sums[u32(entry)] = 0
        cuda.syncthreads()
        state = u32(cuda.blockIdx.x * block + t + 1)
        for _ in range(rounds):  # xorshift
            state = u32(state ^ u32(state << u32(13)))
            state = u32(state ^ u32(state >> u32(17)))
            state = u32(state ^ u32(state << u32(5)))
            for k in range(4):
                code = u32(u32(state >> u32(8 * k)) & varying)
                at = u32(u32(u32(k * N_SLOTS) + code) * step)
                cuda.atomic.add(sums, at, 1)
                cuda.atomic.add(sums, u32(at + to_h), 2)
        cuda.syncthreads()
        for entry in range(t, entries, block):
            if sums[u32(entry)] != 0:
                cuda.atomic.add(out, 0, sums[u32(entry)])

    return add_pairs, block


def atomics(options: Options) -> Results:
    """Measure additions a nanosecond of all multiprocessors together."""
    place = place_of("cuda")
    add_pairs, block = adding_kernel()
    blocks = target.blocks_for(2**20, 4)
    found: Results = {}
    equal = {}
    for layout, (step, to_h) in LAYOUTS.items():
        for bins, varying in BINS.items():
            out = place.put(np.zeros(1, np.int64))
            numbers = tuple(map(np.uint32, (varying, step, to_h)))

            def add(numbers: Any = numbers, out: Any = out) -> None:
                target.launch(add_pairs, blocks, block, options.rounds, *numbers, out)

            add()
            additions = 8 * options.rounds * blocks * block
            equal[f"{layout}, {bins}"] = int(place.get(out)[0]) * 2 == 3 * additions
            taken = median(place.seconds(add) for _ in range(options.repeats))
            found[f"{layout}, {bins}"] = additions / taken / 1e9
    return {"additions_per_ns": found, "equal": equal}


@cache
def filling_kernel() -> Any:
    """Fill a block's dynamic shared memory and add it up."""

    @kernel
    def fill(n, out):
        words = cuda.shared.array(0, np.int32)
        t = cuda.threadIdx.x
        for i in range(t, n, cuda.blockDim.x):
            words[i] = i
        cuda.syncthreads()
        if t == 0:
            total = 0
            for i in range(n):
                total += words[i]
            out[cuda.blockIdx.x] = total

    return fill


def shared_memory(options: Options) -> Results:
    """Launch blocks with more and more dynamic shared memory."""
    place = place_of("cuda")
    if not isinstance(place, Card):
        raise GapError("shared memory beyond 48 KB needs a GPU")
    fill = filling_kernel()
    out = place.put(np.zeros(4, np.int64))
    found = {}
    for kilobytes in SIZES:
        size, n = 1024 * kilobytes, 256 * kilobytes
        try:
            target.launch(fill, 4, 64, n, out, shared=size)
            right = place.get(out).tolist() == [n * (n - 1) // 2] * 4
            found[f"{kilobytes} KB"] = "works" if right else "wrong sums"
        except Exception as error:
            found[f"{kilobytes} KB"] = f"fails: {short(error, 120)}"
            break
    return {"dynamic": found}


@cache
def spinning_kernel() -> Any:
    """Keep one thread busy, so that what is launched meanwhile waits in line."""

    @kernel
    def spin(rounds, out):
        if cuda.grid(1) == 0:
            state = np.uint32(1)
            for _ in range(rounds):
                state = np.uint32(state ^ np.uint32(state << np.uint32(13)))
                state = np.uint32(state ^ np.uint32(state >> np.uint32(17)))
                state = np.uint32(state ^ np.uint32(state << np.uint32(5)))
            out[0] = state

    return spin


@contextmanager
def timed_launches(place: Host) -> Iterator[list[tuple[str, Any, Any]]]:
    """Collect the name and two events of every launch. Where a tree begins, the GPU is kept busy
    until its launches have been issued: the events are then apart by the time of the kernel."""
    launch, found = target.launch, []
    out = place.put(np.zeros(1, np.uint32))
    modules = [
        module for name, module in list(sys.modules.items())
        if name.startswith("gpuens.kernels") and getattr(module, "launch", None) is launch
    ]  # fmt: skip

    def event() -> Any:
        if not isinstance(place, Card):
            return time.perf_counter()
        made = place.cupy.cuda.Event()
        made.record()
        return made

    def timed(function: Any, blocks: Any, threads: int, *args: Any, shared: int = 0) -> None:
        own = getattr(function, "py_func", function)
        name = getattr(own, "__name__", None) or own.fn.__name__
        if name == "gradients_of_chunks":
            launch(spinning_kernel(), 64, 32, 8 if target.is_simulated() else SPIN, out)
        before = event()
        launch(function, blocks, threads, *args, shared=shared)
        found.append((name, before, event()))

    for module in modules:
        module.launch = timed
    try:
        yield found
    finally:
        for module in modules:
            module.launch = launch


def kernels_of_a_tree(options: Options) -> Results:
    """Measure milliseconds of a tree in every kernel of boosting."""
    place = place_of("cuda")
    n_features = min(28, options.rows)
    X, y = place.table(make_higgs_like, options.rows, n_features, 0)
    shape = {"max_leaf_nodes": None, "max_depth": options.depth}
    model = GradientBoostingClassifier(
        n_estimators=options.trees, device=place.device, random_state=0, **shape
    )
    model.fit(X, y)
    with timed_launches(place) as launches:
        model.fit(X, y)
        place.wait()
    total: dict[str, list[float]] = {}
    for name, before, after in launches:
        taken = after - before if isinstance(before, float) else elapsed(place, before, after)
        total.setdefault(name, []).append(taken)
    kernels = {
        name: {"launches": len(times) / options.trees, "ms": 1e3 * sum(times) / options.trees}
        for name, times in sorted(total.items(), key=lambda item: -sum(item[1]))
    }
    shape = {"n_rows": X.shape[0], "n_features": n_features, "depth": options.depth}
    return {**shape, "n_trees": options.trees, "kernels": kernels}


def elapsed(place: Any, before: Any, after: Any) -> float:
    """Return the seconds between two events."""
    return float(place.cupy.cuda.get_elapsed_time(before, after)) / 1e3


def ms_a_tree(options: Options) -> Results:
    """Measure milliseconds of a tree: a long training less a short one, so that neither binning
    nor the first launches count."""
    place = place_of("cuda")
    counts = (options.trees, 4 * options.trees)
    found: Results = {}
    marks = {}
    for n in (options.rows // 100, options.rows // 10):
        X, y = place.table(make_higgs_like, n, 28, 0)
        taken = {}
        for k in counts:
            model = GradientBoostingClassifier(
                n_estimators=k, device=place.device, random_state=0, max_depth=6,
                max_leaf_nodes=None,
            )  # fmt: skip
            fit = place.waiting(lambda model=model, X=X, y=y: model.fit(X, y))
            fit()
            runs = []
            for _ in range(options.repeats):
                begin = time.perf_counter()
                fit()
                runs.append(time.perf_counter() - begin)
            taken[k] = median(runs)
            marks[f"{n:,} rows, {k} trees"] = model.forest_.fingerprint()
        found[f"{n:,} × 28"] = 1e3 * (taken[counts[1]] - taken[counts[0]]) / (3 * counts[0])
    return {"ms": found, "fingerprints": marks}


def show(content: Content) -> Iterator[str]:
    """Yield what was found."""
    results = content["results"]
    for part, kind, unit in (
        ("atomics", "additions_per_ns", "additions a ns"), ("shared_memory", "dynamic", ""),
        ("ms_a_tree", "ms", "ms a tree"), ("zero_size", "equal", ""),
        ("into_gpu", "ms", "ms"), ("into_gpu", "mb", "MB"), ("into_gpu", "equal", ""),
        ("by_chunks", "ms", "ms a fit"), ("by_chunks", "equal", ""),
    ):  # fmt: skip
        rows = results.get(part, {}).get(kind, {})
        yield pivot(part, {
            name: {"": number(value, unit) if isinstance(value, float) else str(value)}
            for name, value in rows.items()
        })  # fmt: skip
    for part, title in (("launch", "a launch"), ("small_predictions", "a small prediction")):
        yield pivot(f"µs of {title}", {
            name: {what: number(value, "µs") for what, value in row.items()}
            for name, row in results.get(part, {}).get("microseconds", {}).items()
        })  # fmt: skip
    tree = results.get("kernels_of_a_tree", {})
    if "kernels" in tree:
        yield pivot(f"kernels of a tree, {tree['n_rows']:,} rows, depth {tree['depth']}", {
            name: {"launches": f"{row['launches']:.1f}", "ms": f"{row['ms']:.3f}"}
            for name, row in tree["kernels"].items()
        })  # fmt: skip


PROGRAM = Program(
    "gpu_unknowns", __doc__,
    {
        part.__name__: part
        for part in (
            zero_size, launch, atomics, shared_memory, kernels_of_a_tree, into_gpu, by_chunks,
            small_predictions,
        )
    },
    {
        "repeats": (5, "runs of what is short"),
        "launches": (300, "launches in a row"),
        "rounds": (4096, "additions of a thread, divided by eight"),
        "rows": (1_000_000, "rows of tables: of kernels of a tree, into a GPU, by chunks"),
        "depth": (8, "depth of its trees"),
        "trees": (10, "its trees"),
    },
    show,
    rare={"ms_a_tree": ms_a_tree},
    on_gpu=True,
)  # fmt: skip
main = PROGRAM.main
