"""``python -m benchmarks [NAME [options]]``: list the programs, or run one of them."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib import import_module
from types import ModuleType

PROGRAMS = {
    "fit": "time to train, beside LightGBM, XGBoost and scikit-learn",
    "many_fits": "time of fifty small fits at once, beside LightGBM and XGBoost one by one",
    "predict": "time to predict a table and a single row",
    "accuracy": "errors of all estimators on real data, beside the other libraries",
    "defaults": "errors of gradient boosting with nothing set, beside the other libraries",
    "choices": "errors and time of shapes of trees and of bags with nothing set",
    "forests": "time to train and use trees, forests and AdaBoost, beside scikit-learn",
    "learners": "quality and CPU time of rankings, survival, distributions and oblique forests",
    "memory": "peak memory of training",
    "first_model": "a new process until its first model, and what it imports",
    "batches": "time and memory to train on a table that is larger than memory",
    "cluster": "time of two workers beside one process, and beside the other libraries on Dask",
    "kernels": "time of the kernels' operations inside whole fits and predictions",
    "host_time": "time of the host for launches and predictions on a GPU, which needs none",
    "report": "write the results into benchmarks/RESULTS.md, and draw their pictures",
    "crossover": "the sizes from which a GPU is faster than the CPU",
    "gpu_check": "tests and times on this machine's NVIDIA GPU: all that follows, and more",
    "gpu_unknowns": "launches, atomics and shared memory of a GPU, and the time of every kernel",
    "gpu_models": "models of a GPU and of the CPU, which must be the same",
    "gpu_tests": "kernels compiled, tests with a GPU, and compute-sanitizer",
}
OF_GPUS = ("gpu_check", "gpu_unknowns", "gpu_models", "gpu_tests", "crossover")
ROOMS = {**dict.fromkeys(("accuracy", "defaults", "choices"), "accuracy"),
         "learners": "learners", "report": "report",
         **dict.fromkeys((*OF_GPUS, "host_time"), "gpu")}  # fmt: skip
"""Folders of the programs that have one of their own; the others are in ``programs``."""
STANDARD = [name for name in PROGRAMS if name not in OF_GPUS]
ALL = "all"


def main(argv: list[str] | None = None) -> int:
    listing = "\n".join(f"  {name:<13}{text}" for name, text in PROGRAMS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure gpuens.",
        epilog=f"programs:\n{listing}\n  {ALL:<13}everything but {', '.join(OF_GPUS)}, each "
        "in a process of its own\n\n`python -m benchmarks NAME --help` lists the options.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", choices=[*PROGRAMS, ALL], metavar="NAME")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options of the program")
    options = parser.parse_args(argv)
    if options.name is None:
        parser.print_help()
        return 0
    if options.name == ALL:
        return max([_run(name) for name in STANDARD])
    try:
        return program(options.name).main(options.options)
    except ModuleNotFoundError as error:
        if str(error.name).startswith(("benchmarks", "gpuens")):
            raise
        print(f"{options.name} needs {error.name}, which is not installed", file=sys.stderr)
        return 2


def program(name: str) -> ModuleType:
    """Import and return the module of a program."""
    return import_module(f"benchmarks.{ROOMS.get(name, 'programs')}.{name}")


def _run(name: str) -> int:
    print(f"== {name}: {PROGRAMS[name]}", flush=True)
    return subprocess.run([sys.executable, "-m", "benchmarks", name]).returncode


if __name__ == "__main__":
    sys.exit(main())
