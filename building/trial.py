"""Tries a wheel in an environment of its own: the first models must come from its library."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PROGRAM = """
import sys
import time

started = time.perf_counter()
import numpy as np

import gpuens

rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 28)).astype(np.float32)
y = X[:, 0] + rng.normal(size=20_000) > 0
before = started
for name in sys.argv[1:]:
    settings = {} if "Tree" in name else {"n_estimators": 10}
    if "AdaBoost" not in name:
        settings["device"] = "cpu"
    model = getattr(gpuens, name)(**settings).fit(X, y)
    model.predict(X)
    print(f"{name}: {time.perf_counter() - before:.1f} s")
    before = time.perf_counter()
kernels = gpuens.show_config()["kernels"]
if not kernels["source"].startswith("native library") or kernels["missed"]:
    sys.exit("Kernels of the wheel were not used.")
"""
ESTIMATORS = (
    "GradientBoostingClassifier", "RandomForestClassifier", "DecisionTreeClassifier",
    "AdaBoostClassifier", "IsolationForest",
)  # fmt: skip


def run(wheel: Path) -> None:
    """Install a wheel with what it needs, and fit a model of each kind."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder, "Scripts" if os.name == "nt" else "bin", "python"))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        environment["NUMBA_CACHE_DIR"] = str(Path(folder, "cache"))
        install = [python, "-m", "pip", "install", "--quiet", str(wheel.resolve())]
        for command in (install, [python, "-c", PROGRAM, *ESTIMATORS]):
            done = subprocess.run(command, cwd=folder, env=environment)
            if done.returncode:
                sys.exit(f"{wheel.name} failed in an environment of its own.")
