"""Other programs on a GPU: the compiler of the kernels, pytest, and compute-sanitizer.

Tests whose packages are not installed are left out, and the packages are named.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from typing import Any

from gpuens.devices.placement import simulated
from gpuens.kernels.runtime.cuda.compiling import kinds_of
from tests.driver import stub

from ..common.machine import ROOT
from ..common.peers import GapError, say_skipped
from ..common.program import Options, Program, Results
from . import needs

MOST_COMPILERS = 8
"""Processes that compile at the same time."""
ON_A_GPU = (
    "tests/gpu", "tests/kernels", "tests/inputs/test_arrays.py", "tests/inputs/test_categories.py",
    "tests/datasets/test_datasets.py", "tests/devices/test_devices.py",
)  # fmt: skip
"""Tests that run, or run more, with a GPU, what matters most first."""
SUMMARY = re.compile(r"(\d+) (passed|failed|error|errors|skipped|xfailed|deselected)\b")

NOTHING_FOUND = re.compile(r"=+ *(COMPUTE-SANITIZER|(ERROR|RACECHECK) SUMMARY: 0 |$)")
"""A line of compute-sanitizer that reports no error."""
IN_COLLECTION = re.compile(r"ERROR \S+\.py( |$)")
"""A file whose tests could not be collected."""
NO_CARD = re.compile(r"SKIPPED .*(needs an? (real |NVIDIA )?GPU|CUDA needs)")
"""A test that was skipped for want of a GPU."""


def run(command: Sequence[str], seconds: float) -> tuple[int | None, str]:
    """Run a program; returns its exit status, None if its time was over, and its output."""
    child = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace",
    )  # fmt: skip
    try:
        output, _ = child.communicate(timeout=max(1.0, seconds))
        return child.returncode, output
    except subprocess.TimeoutExpired:
        child.send_signal(2)  # pytest then reports its failures
        try:
            output, _ = child.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            child.kill()
            output, _ = child.communicate()
        return None, output


def last_lines(output: str, n: int = 15) -> list[str]:
    return [line[:400] for line in output.strip().splitlines()[-n:]]


def load_all(options: Options) -> Results:
    """Load all kernels that came compiled; what the driver says of them, and which are missing."""
    if simulated():
        raise GapError("nothing is loaded in the simulator")
    from gpuens.devices.placement import resolve_device
    from gpuens.kernels import catalogue
    from gpuens.kernels.runtime.cuda import launching, precompiled, target

    if not list(precompiled.FOLDER.glob("cuda-*.xz")):
        raise GapError(
            f"no machine code is in {precompiled.FOLDER} (python -m building cubins makes it)"
        )
    found: dict[str, tuple[int, ...]] = {}
    missing, more = [], {}
    started = time.perf_counter()
    with resolve_device("cuda").active():
        device = target.current_device()
        launching.enter(device)
        for entry in catalogue.entries():
            kernel = precompiled.find(entry.kernel, device, kinds_of(entry.arguments))
            if kernel is None:
                missing.append(entry.name)
                continue
            of = kernel.attributes
            found[entry.name] = of.num_regs, of.local_size_bytes, of.shared_size_bytes
            if of.num_regs > entry.registers or of.local_size_bytes > entry.spilled:
                more[entry.name] = found[entry.name]
    return {
        "kernels": len(found), "seconds": time.perf_counter() - started, "missing": missing,
        "registers, local and shared bytes": found, "more than planned": more,
    }  # fmt: skip


def compile_all(options: Options) -> Results:
    """Fill the cache of compiled kernels: one process for the CPU's, several for the GPU's."""
    if simulated():
        raise GapError("nothing is compiled for the simulator")
    n = max(1, min(MOST_COMPILERS, options.threads - 1))
    own = [sys.executable, "-m", "benchmarks.gpu.gpu_tests"]
    tasks = [["cpu"], *([str(k), str(n)] for k in range(n))]
    started = time.perf_counter()
    with ThreadPoolExecutor(len(tasks)) as pool:
        ended = list(pool.map(lambda task: run([*own, *task], left(options)), tasks))
    errors = [
        {"task": task, "error": last_lines(text if status else f"{text}\nended at its time", 4)}
        for task, (status, text) in zip(tasks, ended, strict=True) if status != 0
    ]  # fmt: skip
    result = {"processes": len(tasks), "seconds": time.perf_counter() - started, "errors": errors}
    if errors:
        result["failed"] = f"{len(errors)} of {len(tasks)} processes failed: {errors[0]['error']}"
    return result


def left(options: Options) -> float:
    """Return the seconds that are left for a program, with some to report in."""
    return float(options.started + options.seconds - time.monotonic() - 5)


def warm_up(options: Options) -> Results:
    """Run ``gpuens.warmup("cuda")`` in a process that finds most kernels compiled."""
    if simulated():
        raise GapError("nothing is compiled for the simulator")
    import gpuens

    steps = gpuens.warmup("cuda")
    slowest = sorted(steps.items(), key=lambda step: -step[1])[:10]
    return {"seconds": sum(steps.values()), "steps": len(steps), "slowest": dict(slowest)}


def which_tests() -> tuple[list[str], list[str]]:
    """Return the files of tests that can start, and what is missing for the others."""
    files = [
        file
        for place in ON_A_GPU
        for file in (
            [ROOT / place] if place.endswith(".py") else sorted((ROOT / place).rglob("test_*.py"))
        )
    ]
    lacks = {file.relative_to(ROOT).as_posix(): needs.missing(file) for file in files}
    gaps = [f"{path} needs {', '.join(names)}" for path, names in lacks.items() if names]
    return [path for path, names in lacks.items() if not names], gaps


def tests(options: Options) -> Results:
    """Run pytest on what runs on a GPU."""
    if find_spec("pytest") is None:
        raise GapError("pytest is not installed: no test was run")
    where, gaps = which_tests()
    for gap in gaps:
        say_skipped(GapError(gap))
    if simulated():
        where = where and ["tests/kernels/statistics/test_quantise.py"]
    command = [
        sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=short", "-p", "no:cacheprovider",
        "--continue-on-collection-errors", "-k", "cuda or gpu", *where,
    ]  # fmt: skip
    if stub.is_in_place():
        command += ["-p", "tests.driver.first_of_each"]
    status, output = run(command, left(options))
    print(output[-6000:], flush=True)
    found = outcome(status, output) | {"gaps": gaps}
    if stub.is_in_place() and status == 1 and not found["counts"]["not collected"]:
        del found["failed"]  # of tests whose kernels did not run
    return found


def outcome(status: int | None, output: str) -> Results:
    """Return what pytest has found; a status of None means that its time was over."""
    counts = {name: int(n) for n, name in SUMMARY.findall(output[-2000:])}
    counts["not collected"] = len(list(filter(IN_COLLECTION.match, output.splitlines())))
    failures = [line[:400] for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    result: Results = {
        "passed": status == 0, "counts": counts, "failures": failures[:60],
        "summary": (last_lines(output, 1) or ["no output"])[0],
    }  # fmt: skip
    without = [line for line in output.splitlines() if NO_CARD.match(line)]
    if without and not simulated():
        result["failed"] = f"tests did not find the GPU: {without[0][:300]}"
    if status is None:
        result["cut_off"] = "its time was over: not all tests ran"
    if status not in (0, None) or failures:
        crashed = f"pytest ended with {status}"  # before it has named any test
        result["failed"] = f"{len(failures)} failed: {failures[:3]}" if failures else crashed
        result["output"] = last_lines(output, 80)
    return result


def sanitize(options: Options, tool: str) -> Results:
    """Run compute-sanitizer on small fits, each array of which is an allocation of its own."""
    places = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/local/cuda/bin"
    program = shutil.which("compute-sanitizer", path=places)
    if simulated() or stub.is_in_place() or program is None:
        raise GapError("compute-sanitizer is not installed (it comes with the CUDA toolkit)")
    command = [program, "--tool", tool, "--error-exitcode", "9", "--print-limit", "20",
               sys.executable, "-m", "benchmarks.gpu.gpu_tests", "fit"]  # fmt: skip
    return findings(*run(command, left(options)))


def findings(status: int | None, output: str) -> Results:
    """Return what compute-sanitizer has found, also of a program whose time was over."""
    lines = [line for line in output.splitlines() if line.startswith("=========")]
    found = [line for line in lines if not NOTHING_FOUND.match(line)]
    result: Results = {"errors": bool(found), "report": lines[-60:], "status": status}
    if found:
        result["failed"] = " ".join(found[:6])
    elif status is None:
        result["cut_off"] = "its time was over"
    elif status != 0:
        result["failed"] = " ".join(lines[:6]) or " ".join(last_lines(output, 3))
    return result


def compile_part(part: int, n_parts: int) -> None:
    """Compile every n-th kernel with all its specialisations.

    Kernels that are made by one function share an index in the cache, which only one process may
    write: two would take the same name for different kernels.
    """
    from gpuens.devices.placement import resolve_device
    from gpuens.kernels import catalogue

    groups: dict[tuple[str, int], list[Any]] = {}
    for entry in catalogue.entries():
        code = entry.kernel.py_func.__code__
        groups.setdefault((code.co_filename, code.co_firstlineno), []).append(entry)
    with resolve_device("cuda").active():
        for group in list(groups.values())[part::n_parts]:
            for entry in group:
                catalogue.compile_ahead(entry)


def small_fits() -> None:
    """Fit what a sanitizer checks: boosting of all kinds, a forest, and predictions."""
    import cupy
    import numpy as np

    import gpuens
    from gpuens.datasets import make_higgs_like

    cupy.cuda.set_allocator(None)  # the pool's blocks would hide what is beyond an array
    X, y = make_higgs_like(700, 11)
    X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    X[:, 7] = np.arange(700) % 9
    there, labels = cupy.asarray(X), cupy.asarray(y)
    few = {"n_estimators": 2, "device": "cuda", "random_state": 0}
    boosting = {**few, "max_depth": 4}
    by_categories = {**boosting, "categorical_features": [7], "colsample_bynode": 0.5}
    three = labels + (there[:, 7] > 4)
    models: list[tuple[Any, Any]] = [
        (gpuens.GradientBoostingClassifier(**few, max_leaf_nodes=15), labels),
        (gpuens.GradientBoostingClassifier(**boosting, subsample=0.7), three),
        (gpuens.GradientBoostingRegressor("absolute_error", **by_categories), labels + 0.5),
        (gpuens.RandomForestClassifier(**few, max_depth=6), labels),
        (gpuens.AdaBoostClassifier(**few), labels),
    ]
    for model, target in models:
        model.fit(there, target).predict(there)
    cupy.cuda.runtime.deviceSynchronize()


PROGRAM = Program(
    "gpu_tests", __doc__,
    {
        "load": load_all, "compile": compile_all, "warm up": warm_up, "tests": tests,
        "memcheck": partial(sanitize, tool="memcheck"),
        "racecheck": partial(sanitize, tool="racecheck"),
    },
    {"threads": (2, "processes that compile, and one more")},
)  # fmt: skip
main = PROGRAM.main


def child(argv: Sequence[str]) -> None:
    """``cpu``, ``fit``, or the number of a part and how many there are."""
    parser = argparse.ArgumentParser(description=child.__doc__)
    parser.add_argument("what", nargs="+")
    what = parser.parse_args(argv).what
    if what == ["fit"]:
        small_fits()
    elif what == ["cpu"]:
        import gpuens

        gpuens.warmup("cpu", verbose=False)
    else:
        compile_part(*map(int, what))


if __name__ == "__main__":
    child(sys.argv[1:])
