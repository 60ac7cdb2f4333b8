"""Prove and measure this machine's NVIDIA GPU: ``make gpu-check``.

Loads all kernels, compares models of the GPU and of the CPU bit for bit, tries what is cheap and
uncertain, runs the tests that need a GPU, measures training and prediction beside XGBoost, nvForest
and cuML where they are installed, and finds the sizes from which the GPU pays. All within thirteen
minutes on one H200, or in two calls, ``--call 1`` and ``--call 2``, on a machine that is lent: what
does not fit is dropped and named. Every part is a program of these benchmarks in a process of its
own, so that one that crashes or hangs is a gap and no more; the result, one JSON file and a
picture, is written after every case, and Ctrl-C keeps it.

Without a GPU it prints what it would have run, and exits with 0; with one that cannot be used it
says why, and exits with 1. ``--rehearse`` runs everything on tiny tables, to see that the program
works: with a stub of the driver, which executes nothing, or with NUMBA_ENABLE_CUDASIM=1 in CUDA's
simulator.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuens.devices.gpu_problems import driver_version
from gpuens.devices.placement import gpu_problem, simulated
from tests.driver import headers, stub

from ..common import pictures
from ..common.goals import goals_table
from ..common.machine import describe_machine, slug
from ..common.program import add_options, parser_of
from ..common.records import Record
from .plan import CALLS, NAMES, PARTS, chosen
from .processes import Command, command_of, run_part
from .results import Results, draw_libraries, goals, show, take_over

__all__ = ["goals", "main", "show"]

QUERY = ("name", "driver_version", "memory.total", "compute_cap", "clocks.max.sm", "power.limit")
"""The fields that ``nvidia-smi`` reports."""
BUDGET = sum(CALLS.values())
"""Seconds for everything, by default."""
REHEARSALS = {"stub": 600.0, "simulator": 1800.0}
"""Seconds for a rehearsal, by default."""
NOT_COMPUTED = ("unknowns",)
"""Parts whose own kernels compute nothing in a rehearsal, where results come from the CPU."""
LAST = 12.0
"""Seconds that are kept for the pictures and the end."""


def options_for(argv: Sequence[str] | None) -> tuple[argparse.Namespace, argparse.ArgumentParser]:
    parser = parser_of("gpu_check", __doc__)
    parser.add_argument("--part", nargs="+", choices=NAMES, default=[], metavar="NAME",
                        help=f"only these parts: {', '.join(NAMES)}")  # fmt: skip
    parser.add_argument("--resume", nargs="?", const="", metavar="FILE",
                        help="go on with a result, by default the latest")  # fmt: skip
    parser.add_argument("--call", type=int, choices=CALLS, metavar="N",
                        help=f"only the parts of call 1 ({CALLS[1]:.0f} s) or 2 ({CALLS[2]:.0f} s)"
                        )  # fmt: skip
    add_options(parser, {
        "budget": (None, f"seconds for everything; {BUDGET:.0f}, or those of the call"),
        "threads": (cores(), "threads of the host"),
        "rehearse": (False, "run everything, tiny, with a stub of the driver"),
    })  # fmt: skip
    options = parser.parse_args(argv)
    usual = CALLS[options.call] if options.call else BUDGET
    if options.rehearse:
        usual = REHEARSALS["simulator" if simulated() else "stub"]
    options.budget = float(options.budget or usual)
    return options, parser


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def show_plan(names: Sequence[str], budget: float) -> None:
    """Print what there is to run, with sizes and shares of the time."""
    print(f"Parts of gpu_check, {budget:.0f} s together:")
    for name in names:
        part = PARTS[name]
        print(f"  {name:<28}{part.seconds:>4.0f} s  {part.title}")
        print(f"    {'; '.join(part.cases)}")


def deadlines(names: Sequence[str], budget: float) -> dict[str, float]:
    """Return the seconds from the start by which each part must be done: it may use what earlier
    parts have left over, and leaves later ones their shares."""
    shares = {name: PARTS[name].seconds for name in names}
    shrink = min(1.0, (budget - LAST) / sum(shares.values()))
    behind, found = 0.0, {}
    for name in reversed(names):
        found[name] = budget - LAST - behind
        behind += shares[name] * shrink
    return {name: found[name] for name in names}


def run_all(
    names: Sequence[str], results: Results, options: argparse.Namespace, command: Command,
    started: float, rehearsal: Mapping[str, str],
) -> None:  # fmt: skip
    """Run all parts that have cases without a result; ``started`` by ``time.monotonic()``."""
    for name, deadline in deadlines(names, options.budget).items():
        cases = results.missing(name)
        part = results.part(name)
        began = time.monotonic()
        left = deadline - (began - started)
        if not cases:
            continue
        print(f"== {name}: {PARTS[name].title}, at most {max(0.0, left):.0f} s", flush=True)

        def take(case: str, result: dict[str, Any], name: str = name) -> None:
            results.take(name, case, result)
            for kind in ("failed", "dropped"):
                if kind in result:
                    print(f"{name}, {case}: {kind}: {result[kind]}", flush=True)

        try:
            run_part(name, cases, left, command, take, rehearsal)
        finally:
            part["seconds"] += time.monotonic() - began


def conclude(results: Results) -> int:
    """Print what was found; returns the exit status."""
    content = results.write()
    for text in filter(None, show(content)):
        print(f"\n{text}")
    rehearsed = content["settings"]["rehearse"]
    print(f"\ngoals{' of a rehearsal, which mean nothing for a GPU' if rehearsed else ''}\n")
    print(goals_table(goals(content)))
    path = results.record.path
    pictures.draw(draw_libraries, content, path.with_suffix(".png"))
    for kind in ("dropped", "failed"):
        for case, why in content["results"][kind].items():
            print(f"{kind}: {case}: {why}")
    differ = results.differ(but=NOT_COMPUTED if rehearsed and not simulated() else ())
    for case in differ:
        print(f"DIFFERENT: {case}")
    print(f"wrote {path}")
    failed = bool(content["results"]["failed"] or differ)
    rest = "" if content["results"]["complete"] else " (not all of it: --resume goes on)"
    print(f"gpu_check: {'FAILED' if failed else 'passed'}{rest}")
    return int(failed)


def why_not(options: argparse.Namespace) -> tuple[str, int] | None:
    """Return why nothing can be run, and the exit status; None if it can be."""
    if options.rehearse:
        problem = None if simulated() else stub.problem()
        return None if problem is None else (
            f"not rehearsed: {problem}. NUMBA_ENABLE_CUDASIM=1 rehearses in the simulator", 1
        )  # fmt: skip
    if simulated():
        return "skipped: no GPU: NUMBA_ENABLE_CUDASIM=1 is set", 0
    if (problem := gpu_problem()) is None:
        return None
    if driver_version() is None:
        return f"skipped: no GPU: {problem}", 0
    return f"not run: the GPU cannot be used: {problem}", 1


def main(argv: Sequence[str] | None = None, command: Command | None = None) -> int:
    started = time.monotonic()
    options, parser = options_for(argv)
    names = chosen(options.part, options.call)
    if (found := why_not(options)) is not None:
        why, status = found
        show_plan(names, options.budget)
        print(f"{why}.")
        return status
    results = begin(options, parser)
    if hasattr(signal, "SIGTERM"):
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with rehearsal(options) as added:
            run_all(names, results, options, command or command_of(options), started, added)
    except KeyboardInterrupt:
        print("\ninterrupted: what was measured is kept", flush=True)
        conclude(results)
        return 130
    return conclude(results)


@contextmanager
def rehearsal(options: argparse.Namespace) -> Iterator[dict[str, str]]:
    """Yield what a rehearsal adds to the environment of the programs: nothing without one."""
    if not options.rehearse:
        yield {}
    elif simulated():
        yield {"NUMBA_ENABLE_CUDASIM": "1"}
    else:
        with tempfile.TemporaryDirectory() as folder:
            stub.build(Path(folder))
            headers.write(Path(folder) / stub.CODE)
            yield stub.environment(Path(folder), devices=2)


def begin(options: argparse.Namespace, parser: argparse.ArgumentParser) -> Results:
    """Return a new result, or the one to go on with."""
    if options.rehearse:
        record = Record("gpu_check", options, "rehearsal")
    else:
        gpus = describe_machine()["gpus"]
        record = Record("gpu", options, slug(gpus[0] if gpus else "unknown"))
        record.content["machine"]["card"] = describe_card()
    if options.resume is not None:
        return take_over(record, options.resume, parser)
    return Results(record)


def describe_card() -> dict[str, Any]:
    """Return name, driver, memory and limits of the card, as far as they are known."""
    found: dict[str, Any] = {}
    try:
        command = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader"]
        text = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        values = text.stdout.strip().splitlines()[0].split(",")
        found = dict(zip(QUERY, (value.strip() for value in values), strict=False))
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        found["nvidia-smi"] = f"failed: {error}"
    try:
        import cupy

        runtime = cupy.cuda.runtime
        properties = runtime.getDeviceProperties(runtime.getDevice())
        found["cuda_of_driver"] = runtime.driverGetVersion()
        found["cuda_of_cupy"] = runtime.runtimeGetVersion()
        found["multiprocessors"] = int(properties["multiProcessorCount"])
        found["bytes"] = int(properties["totalGlobalMem"])
    except Exception as error:  # a description is worth no failure
        found["cupy"] = f"failed: {type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    sys.exit(main())
