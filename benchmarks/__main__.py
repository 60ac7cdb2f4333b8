"""``python -m benchmarks [NAME [options]]``: one measurement, or the standard set."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib import import_module
from types import ModuleType

PROGRAMS = {
    "identity": "the same model with any number of threads and in every implementation",
    "fit": "time to train, beside LightGBM, XGBoost and scikit-learn",
    "many_fits": "time of fifty small fits at once, beside LightGBM and XGBoost one by one",
    "predict": "time to predict a table and a single row",
    "accuracy": "errors of all estimators on real data, beside the other libraries",
    "kernels": "time of every operation beside its floor on this machine",
    "categories": "log loss with categorical features, beside LightGBM and scikit-learn",
    "forests": "time to train and use trees and forests, beside scikit-learn",
    "adaboost": "time to train AdaBoost and its test errors, beside scikit-learn",
    "losses": "losses of gradient boosting on real data, beside LightGBM and scikit-learn",
    "inspection": "time of partial dependence beside scikit-learn, and of measures of diversity",
    "published": "error rates of trees, bagging and forests beside published ones",
    "stacking": "log loss of stacks and votes, beside their members and scikit-learn's stack",
    "startup": "a new process: import, first fit, first prediction",
    "memory": "peak memory of training",
    "scaling": "time and memory against rows, features, depth, trees and threads",
    "compare": "what became slower between two result files",
    "report": "the results in README.md, and their picture",
    "gpu_check": "tests and times on this machine's NVIDIA GPU",
}
ROOMS = {"accuracy": "accuracy", "kernels": "kernels", "scaling": "scaling", "compare": "report",
         "report": "report", "gpu_check": "gpu"}  # fmt: skip
"""Folders of the programs that have one of their own; the others are in ``programs``."""
STANDARD = [name for name in PROGRAMS if name not in ("compare", "gpu_check", "scaling")]


def main(argv: list[str] | None = None) -> int:
    listing = "\n".join(f"  {name:<11}{text}" for name, text in PROGRAMS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure gpuens. Without NAME: everything but compare, gpu_check and scaling, "
        "each in a process of its own.",
        epilog=f"programs:\n{listing}\n\n`python -m benchmarks NAME --help` lists the options.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", choices=PROGRAMS, metavar="NAME")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options of the program")
    options = parser.parse_args(argv)
    if options.name:
        return program(options.name).main(options.options)
    return max([_run(name) for name in STANDARD])


def program(name: str) -> ModuleType:
    """Import and return the module of a program."""
    return import_module(f"benchmarks.{ROOMS.get(name, 'programs')}.{name}")


def _run(name: str) -> int:
    print(f"== {name}: {PROGRAMS[name]}", flush=True)
    return subprocess.run([sys.executable, "-m", "benchmarks", name]).returncode


if __name__ == "__main__":
    sys.exit(main())
