"""What a new process imports until its first models have predicted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIRST_MODELS = """
import json, sys
import sklearn.base
theirs = set(sys.modules)
import numpy as np
import gpuens
X = np.random.default_rng(0).normal(size=(300, 4))
models = [getattr(gpuens, name)(device="cpu", **few) for name, few in json.loads(sys.argv[1])]
made = set(sys.modules) - theirs
for model in models:
    model.fit(X, X[:, 0] > 0.0).predict(X)
print(json.dumps([sorted(made), sorted(set(sys.modules) - theirs)]))
"""
"""Prints the modules beyond those of scikit-learn's base class: once models are made, and once they
have predicted."""
HEAVY = {
    "matplotlib", "onnx", "pandas", "polars", "pyarrow", "safetensors", "scipy.optimize",
    "scipy.stats", "shap", "skops", "sklearn.ensemble", "sklearn.inspection",
    "sklearn.linear_model", "sklearn.metrics", "sklearn.model_selection", "sklearn.pipeline",
    "sklearn.preprocessing", "sklearn.tree", "torch", "tqdm",
}  # fmt: skip
"""Modules that a first model does not need, and that take long to import."""


def test_a_first_model_imports_nothing_that_it_does_not_use():
    few = {"n_estimators": 2}
    models = [("DecisionTreeClassifier", {})] + [
        (name, few)
        for name in ("GradientBoostingClassifier", "RandomForestClassifier", "AdaBoostClassifier",
                     "IsolationForest")
    ]  # fmt: skip
    env = {name: os.environ[name] for name in os.environ if name != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_MODELS, json.dumps(models)],
        cwd=ROOT, capture_output=True, text=True, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made, predicted = map(set, json.loads(done.stdout))
    assert {"gpuens.boosting.estimator", "gpuens.kernels.cart.cpu.grow_cart"} <= predicted
    assert made & (HEAVY | {"numba", "llvmlite"}) == set()
    assert predicted & HEAVY == set()
