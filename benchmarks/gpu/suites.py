"""Programs that ``gpu_check`` runs: the compiler, pytest, and compute-sanitizer."""

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
from typing import Any

from ..common.machine import ROOT
from .bench import Bench

MOST_COMPILERS = 8
"""Processes that compile at the same time."""
ON_A_CARD = (
    "tests/kernels", "tests/inputs/test_arrays.py", "tests/inputs/test_categories.py",
    "tests/datasets/test_datasets.py",
    "tests/devices/test_devices.py", "tests/gpu",
)  # fmt: skip
"""Tests that run, or run more, with a card: operations first, what starts processes last."""
SUMMARY = re.compile(r"(\d+) (passed|failed|error|errors|skipped|xfailed|deselected)\b")

NO_CARD = re.compile(r"SKIPPED .*(needs an? (real |NVIDIA )?GPU|CUDA needs)")
"""A test that was skipped for want of a card."""


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


def compile_all(bench: Bench) -> dict[str, Any]:
    """Fill the cache of compiled kernels: one process for the host's, several for the card's."""
    if bench.rehearsal:
        return {"skipped": "nothing is compiled for the simulator"}
    n = max(1, min(MOST_COMPILERS, bench.threads - 1))
    own = [sys.executable, "-m", "benchmarks.gpu.suites"]
    tasks = [["cpu"], *([str(k), str(n)] for k in range(n))]
    started = time.perf_counter()
    with ThreadPoolExecutor(len(tasks)) as pool:
        ended = list(pool.map(lambda task: run([*own, *task], bench.left() - 7), tasks))
    errors = [
        {"task": task, "error": last_lines(text if status else f"{text}\nended at its time", 4)}
        for task, (status, text) in zip(tasks, ended, strict=True) if status != 0
    ]  # fmt: skip
    result = {"processes": len(tasks), "seconds": time.perf_counter() - started, "errors": errors}
    if errors:
        result["failed"] = f"{len(errors)} of {len(tasks)} processes failed: {errors[0]['error']}"
    return result


def warm_up(bench: Bench) -> dict[str, Any]:
    """Run ``gpuens.warmup("cuda")`` in a process that finds most kernels compiled."""
    if bench.rehearsal:
        return {"skipped": "nothing is compiled for the simulator"}
    import gpuens

    steps = gpuens.warmup("cuda")
    slowest = sorted(steps.items(), key=lambda step: -step[1])[:10]
    return {"seconds": sum(steps.values()), "steps": len(steps), "slowest": dict(slowest)}


def tests(bench: Bench) -> dict[str, Any]:
    """Run pytest on what runs on a card; returns its last lines."""
    command = [
        sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=short", "-p", "no:cacheprovider",
        "-k", "cuda or gpu",
    ]  # fmt: skip
    where = ["tests/kernels/statistics/test_quantise.py"] if bench.rehearsal else list(ON_A_CARD)
    status, output = run([*command, *where], bench.left() - 8)
    print(output[-6000:], flush=True)
    counts = {name: int(n) for n, name in SUMMARY.findall(output[-2000:])}
    failures = [line[:400] for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    result: dict[str, Any] = {
        "passed": status == 0, "counts": counts, "failures": failures[:60],
        "summary": (last_lines(output, 1) or ["no output"])[0],
    }  # fmt: skip
    without = [line for line in output.splitlines() if NO_CARD.match(line)]
    if without and not bench.rehearsal:
        result["failed"] = f"tests did not find the card: {without[0][:300]}"
    if status is None:
        result["cut_off"] = "its time was over: not all tests ran"
    if status not in (0, None) or failures:
        result["failed"] = f"{len(failures)} tests failed: {failures[:3]}"
        result["output"] = last_lines(output, 80)
    return result


def sanitize(bench: Bench, tool: str) -> dict[str, Any]:
    """Run compute-sanitizer on small fits, each array of which is an allocation of its own."""
    places = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/local/cuda/bin"
    program = shutil.which("compute-sanitizer", path=places)
    if bench.rehearsal or program is None:
        return {"skipped": "compute-sanitizer is not installed (it comes with the CUDA toolkit)"}
    command = [program, "--tool", tool, "--error-exitcode", "9", "--print-limit", "20",
               sys.executable, "-m", "benchmarks.gpu.suites", "fit"]  # fmt: skip
    status, output = run(command, bench.left() - 6)
    lines = [line for line in output.splitlines() if line.startswith("=========")]
    result: dict[str, Any] = {"errors": status == 9, "report": lines[-60:], "status": status}
    if status is None:
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


def main(argv: Sequence[str]) -> None:
    """``cpu``, ``fit``, or the number of a part and how many there are."""
    parser = argparse.ArgumentParser(description=main.__doc__)
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
    main(sys.argv[1:])
