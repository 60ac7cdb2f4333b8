"""Tests and times on this machine's NVIDIA GPU: ``make gpu-check``.

Runs the parity tests on the real device, then trains and predicts on tables that are in the
GPU's memory already, beside XGBoost with ``device="cuda"`` where that is installed, and beside
gpuens on the CPU, whose model must be the same. Without a usable GPU it says what is missing and
exits with 0.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from gpuens.datasets import make_higgs_like
from gpuens.devices import gpu_problem, simulated

from . import drawing, peers
from .fit import quality, settings_for
from .machine import ROOT, describe_machine, slug
from .records import Record, add_timing_options, options_of, positive
from .timing import compare, interleaved

ON_GPU, ON_CPU, XGBOOST = "gpuens", "gpuens on the CPU", "XGBoost"


def run_tests() -> dict[str, Any]:
    """pytest on what can run on a GPU; the last line is its summary."""
    command = [sys.executable, "-m", "pytest", "-q", "tests/gpu", "tests/kernels"]
    child = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    print(child.stdout)
    lines = child.stdout.strip().splitlines() or ["no output"]
    return {"passed": child.returncode == 0, "summary": lines[-1]}


def xgboost_has_cuda() -> bool:
    """Whether the installed XGBoost was built for GPUs."""
    if find_spec("xgboost") is None:
        print("skipped: XGBoost is not installed (pip install xgboost)")
        return False
    import xgboost

    if not xgboost.build_info().get("USE_CUDA"):
        print("skipped: this XGBoost is built without CUDA (pip install xgboost)")
        return False
    return True


def estimators(settings: peers.Settings, with_cpu: bool) -> dict[str, Any]:
    """What is compared, not yet fitted."""
    found = {ON_GPU: peers.estimator(peers.OURS, "binary", settings, device="cuda")}
    if xgboost_has_cuda():
        xgb = settings_for("XGBoost", settings)
        found[XGBOOST] = peers.estimator("XGBoost", "binary", xgb, device="cuda")
        depth_wise = replace(xgb, max_leaf_nodes=None)
        found[f"{XGBOOST}, depth 6"] = peers.estimator(
            "XGBoost", "binary", depth_wise, device="cuda", max_depth=6
        )
    if with_cpu:
        found[ON_CPU] = peers.estimator(peers.OURS, "binary", settings)
    return found


def waiting(call: Callable[[], Any]) -> Callable[[], Any]:
    """The same call, done when the GPU is."""
    import cupy

    def wait() -> Any:
        result = call()
        cupy.cuda.get_current_stream().synchronize()
        return result

    return wait


def measure(n_rows: int, options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Training and prediction times on one table."""
    import cupy
    from sklearn.base import clone

    host = make_higgs_like(n_rows)
    tables = {True: tuple(map(cupy.asarray, host)), False: host}
    settings = peers.Settings(n_trees=options.trees, threads=options.threads)
    models = estimators(settings, n_rows <= options.cpu_rows)

    def table_of(name: str) -> Any:
        return tables[name != ON_CPU]

    for name, model in models.items():
        X, y = table_of(name)
        clone(model).fit(X[:5000], y[:5000]).predict_proba(X[:5000])
    actions = {
        name: waiting(lambda name=name, model=model: clone(model).fit(*table_of(name)))
        for name, model in models.items()
    }
    seconds, fitted = interleaved(actions, options.repeats, options.threads, options.budget)
    shape = {"n_rows": n_rows, "n_features": 28, "n_trees": options.trees}
    fit = {**shape, "libraries": compare(seconds, ON_GPU)}
    test = make_higgs_like(min(n_rows, 200_000), random_state=1)
    for name, model in fitted.items():
        rows = (cupy.asarray(test[0]) if name != ON_CPU else test[0]), test[1]
        fit["libraries"][name]["quality"] = quality(model, rows, "binary")
    if ON_CPU in fitted:
        hashes = [fitted[name].forest_.fingerprint() for name in (ON_GPU, ON_CPU)]
        fit["identical_to_cpu"] = hashes[0] == hashes[1]
    calls = {
        name: waiting(lambda name=name, model=model: model.predict_proba(table_of(name)[0]))
        for name, model in fitted.items()
    }
    seconds, _ = interleaved(calls, options.repeats, options.threads, options.budget)
    return fit, {**shape, "libraries": compare(seconds, ON_GPU)}


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("gpu_check", __doc__)
    add_timing_options(parser, repeats=3)
    parser.add_argument("--rows", type=positive, nargs="+", default=[10_000, 100_000, 1_000_000],
                        help="numbers of rows")  # fmt: skip
    parser.add_argument("--trees", type=positive, default=100, help="rounds of boosting")
    parser.add_argument(
        "--cpu-rows", type=int, default=1_000_000, help="largest table for the CPU beside it"
    )
    parser.add_argument("--no-tests", action="store_true", help="measure only")
    options = parser.parse_args(argv)
    problem = "NUMBA_ENABLE_CUDASIM=1 is set" if simulated() else gpu_problem()
    if problem is not None:
        print(f"skipped: no GPU: {problem}.")
        return 0
    peers.silence()
    record = Record("gpu", options, slug(describe_machine()["gpus"][0]))
    results: dict[str, Any] = {"tests": None if options.no_tests else run_tests()}
    measured = [measure(n_rows, options) for n_rows in options.rows]
    results["fit"], results["predict"] = map(list, zip(*measured, strict=True))
    drawing.draw(drawing.gpu_times, record.write(results), record.path.with_suffix(".png"))
    identical = all(part.get("identical_to_cpu", True) for part in results["fit"])
    passed = results["tests"] is None or results["tests"]["passed"]
    print("tests:", "passed" if passed else "FAILED")
    print("models:", "identical to the CPU's" if identical else "DIFFERENT from the CPU's")
    return 0 if passed and identical else 1


if __name__ == "__main__":
    sys.exit(main())
