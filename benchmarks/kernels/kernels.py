"""Time of every operation under ``kernels/`` beside its floor on this machine.

The floor is the longer of two times: that of a plain copy which reads and writes as many bytes as
the operation must (each input once, each output once), and that of its additions to histograms at
the rate at which the machine adds to histograms in its nearest memory: packed 64-bit integers in
the first-level cache of every thread, or 32-bit atomics in a GPU's shared memory. Both are
measured here, the copy in arrays of that size, so that it fits into the caches that the operation
fits into. An operation that must also compute (binning searches, exponentials, decisions at nodes)
stays above its floor however well it is written.

Operations run as the package calls them, twice before the clock starts; on a GPU the clock is that
of its events. Without a GPU that part is named and left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median
from typing import Any

from gpuens.devices.placement import gpu_problem, simulated

from ..common.counterparts import GapError, say_skipped
from ..common.records import Record, add_timing_options, options_of, positive
from ..report.markdown import table
from .cases import Case, cases
from .devices import MOST_COPIED, OnCpu, OnGpu

WARM_UP = 2
DEVICES = ("cpu", "gpu")


def measure(case: Case, device: OnCpu | OnGpu, rate: float, repeats: int) -> dict[str, Any]:
    """Times of one operation, and its floor."""
    seconds = []
    for i in range(WARM_UP + repeats):
        if case.prepare is not None:
            case.prepare()
        taken = device.seconds(case.call)
        if i >= WARM_UP:
            seconds.append(taken)
    floor = max(device.copy_seconds(case.bytes), case.updates / rate)
    middle = median(seconds)
    return {
        "seconds": seconds, "median": middle, "spread": [min(seconds), max(seconds)],
        "bytes": case.bytes, "updates": case.updates, "floor": floor, "share": floor / middle,
    }  # fmt: skip


def measure_device(device: OnCpu | OnGpu, options: argparse.Namespace) -> dict[str, Any]:
    """All operations on all sizes; one that fails is named."""
    ops: dict[str, Any] = {}
    gaps: list[str] = []
    with device.active():
        rate = device.updates_per_second()
        copied = MOST_COPIED / device.copy_seconds(MOST_COPIED)
        print(f"{device.name}: {copied / 1e9:.1f} GB/s copied, {rate / 1e9:.2f} G additions/s")
        for n in options.rows:
            size = f"{n:,} × {options.features}"
            found = cases(n, options.features, options.trees, device)
            for case in found:
                name = f"{case.op}; {size}"
                try:
                    ops[name] = measure(case, device, rate, options.repeats)
                    ops[name] |= {"op": case.op, "size": size}
                    print(f"  {'  '.join(row_of(ops[name]))}", flush=True)
                except Exception as error:
                    gaps.append(say_skipped(GapError(f"{name} on the {device.name}: {error}")))
    floors = {"copied_bytes_per_second": copied, "updates_per_second": rate}
    return {"floors": floors, "ops": ops, "gaps": gaps}


def row_of(row: dict[str, Any]) -> list[str]:
    """Cells of one line."""
    least, most = row["spread"]
    return [
        row["op"], row["size"], milliseconds(row["median"]),
        f"{milliseconds(least)} … {milliseconds(most)}", f"{row['bytes'] / 1e6:.4g}",
        f"{row['updates'] / 1e6:.4g}" if row["updates"] else "", milliseconds(row["floor"]),
        f"{row['share']:.0%}",
    ]  # fmt: skip


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"


HEAD = ("operation", "size", "ms", "least … most", "MB", "M additions", "floor in ms",
        "floor ÷ time")  # fmt: skip


def ops_table(part: dict[str, Any]) -> str:
    """Everything that was measured on one device, as Markdown."""
    return table(HEAD, [row_of(row) for row in part["ops"].values()])


def gpu() -> OnGpu:
    """The GPU of this machine.

    Raises
    ------
    GapError
        If there is none that can be used.
    """
    problem = "NUMBA_ENABLE_CUDASIM=1 is set" if simulated() else gpu_problem()
    if problem is not None:
        raise GapError(f"kernels on a GPU: {problem}")
    import cupy

    return OnGpu(cupy)


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("kernels", __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_timing_options(parser, repeats=15)
    parser.add_argument("--rows", type=positive, nargs="+", default=[100_000, 1_000_000],
                        help="rows of the tables (100000 1000000)")  # fmt: skip
    parser.add_argument("--features", type=positive, default=28, help="features (28)")
    parser.add_argument("--trees", type=positive, default=100, help="trees that predict (100)")
    parser.add_argument("--only", nargs="+", choices=DEVICES, default=list(DEVICES), help="devices")
    options = parser.parse_args(argv)
    record = Record("kernels", options)
    results: dict[str, Any] = {}
    for name in options.only:
        try:
            device = OnCpu(options.threads) if name == "cpu" else gpu()
            results[name] = measure_device(device, options)
            print(ops_table(results[name]))
        except GapError as gap:
            results[name] = {"gaps": [say_skipped(gap)]}
    record.write(results)
    return 0
