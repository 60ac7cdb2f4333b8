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

from collections.abc import Iterator
from statistics import median
from typing import Any

from gpuens.devices.placement import gpu_problem, simulated

from ..common.markdown import pivot
from ..common.peers import GapError, say_skipped
from ..common.program import Content, Options, Program, Results, timing
from .cases import Case, cases
from .devices import MOST_COPIED, OnCpu, OnGpu

WARM_UP = 2


def measure(case: Case, device: OnCpu | OnGpu, rate: float, repeats: int) -> dict[str, Any]:
    """Measure one operation, and its floor."""
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


def measure_device(device: OnCpu | OnGpu, options: Options) -> dict[str, Any]:
    """Measure all operations on all sizes; one that fails is named."""
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
                    print(f"  {name}: {milliseconds(ops[name]['median'])} ms", flush=True)
                except Exception as error:
                    gaps.append(say_skipped(GapError(f"{name} on the {device.name}: {error}")))
    floors = {"copied_bytes_per_second": copied, "updates_per_second": rate}
    return {"floors": floors, "ops": ops, "gaps": gaps}


def gpu() -> OnGpu:
    """Return the GPU of this machine; raises GapError if there is none that can be used."""
    problem = "NUMBA_ENABLE_CUDASIM=1 is set" if simulated() else gpu_problem()
    if problem is not None:
        raise GapError(f"kernels on a GPU: {problem}")
    import cupy

    return OnGpu(cupy)


def on_cpu(options: Options) -> Results:
    """Measure all operations on the CPU."""
    return measure_device(OnCpu(options.threads), options)


def on_gpu(options: Options) -> Results:
    """Measure all operations on a GPU."""
    return measure_device(gpu(), options)


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"


def cells_of(row: dict[str, Any]) -> dict[str, str]:
    """Return the cells of one operation."""
    least, most = row["spread"]
    return {
        "ms": milliseconds(row["median"]),
        "least … most": f"{milliseconds(least)} … {milliseconds(most)}",
        "MB": f"{row['bytes'] / 1e6:.4g}",
        "M additions": f"{row['updates'] / 1e6:.4g}" if row["updates"] else "",
        "floor in ms": milliseconds(row["floor"]),
        "floor ÷ time": f"{row['share']:.0%}",
    }


def show(content: Content) -> Iterator[str]:
    """Yield operations beside their floors, by device."""
    for name, part in content["results"].items():
        if part.get("ops"):
            floors = part["floors"]
            yield (
                f"{name.upper()}: a copy moves {floors['copied_bytes_per_second'] / 1e9:.3g} GB/s, "
                f"histograms take {floors['updates_per_second'] / 1e9:.3g} additions a ns. "
                "The floor of an operation is the time of a copy of its bytes, or of its additions."
            )
            yield pivot("operation", {
                f"{row['op']}; {row['size']}": cells_of(row) for row in part["ops"].values()
            })  # fmt: skip


PROGRAM = Program(
    "kernels", __doc__, {"cpu": on_cpu, "gpu": on_gpu},
    {
        **timing(15),
        "rows": ([100_000, 1_000_000], "rows of the tables"),
        "features": (28, "features"),
        "trees": (100, "trees that predict"),
    },
    show,
)  # fmt: skip
main = PROGRAM.main
