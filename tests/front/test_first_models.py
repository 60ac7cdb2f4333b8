"""What a new process imports until its first models have predicted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.lanes import few

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


def first_models(program: str) -> tuple[set[str], set[str]]:
    """Return the modules of a new process once models are made, and once they have predicted."""
    few = {"n_estimators": 2}
    models = [("DecisionTreeClassifier", {})] + [
        (name, few)
        for name in ("GradientBoostingClassifier", "RandomForestClassifier", "AdaBoostClassifier",
                     "IsolationForest")
    ]  # fmt: skip
    env = {name: os.environ[name] for name in os.environ if name != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(models)],
        cwd=ROOT, capture_output=True, text=True, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made, predicted = map(set, json.loads(done.stdout))
    return made, predicted


def test_a_first_model_imports_nothing_that_it_does_not_use():
    made, predicted = first_models(FIRST_MODELS)
    assert {"gpuens.boosting.estimator", "gpuens.kernels.cart.cpu.grow_cart"} <= predicted
    assert made & (HEAVY | {"numba", "llvmlite"}) == set()
    assert predicted & HEAVY == set()


def test_a_first_model_imports_less_than_scikit_learn_does():
    made, predicted = first_models(FIRST_MODELS.replace("import sklearn.base\n", ""))
    assert "sklearn.base" in made
    assert predicted & {"scipy.stats", "scipy.optimize"} == set()


FIRST = """
import sys
import gpuens
gpuens.GradientBoostingClassifier
assert "sklearn" in sys.modules and "scipy.stats" not in sys.modules
"""
WITHIN = """
import sys
from gpuens.sklearn_import import Placeholder, lean_sklearn
with lean_sklearn():
    import sklearn.base
    assert isinstance(sys.modules["scipy.stats"], Placeholder)
"""
"""The modules of other people that ask for ``scipy.stats`` meanwhile."""


ASKING = (
    f"{FIRST}from sklearn.utils.fixes import _mode\nassert _mode([1, 2, 2])[0] == 2",
    f"{WITHIN}    from scipy.stats import norm\nassert norm.cdf(0.0) == 0.5",
    f"{FIRST}import scipy.stats\nassert scipy.stats.norm.cdf(0.0) == 0.5",
    f"{WITHIN}    import scipy.stats as early\nassert early.norm.cdf(0.0) == 0.5",
    f"{WITHIN}assert 'scipy.stats' not in sys.modules",
    "import sys, scipy.stats, gpuens\ntheirs = scipy.stats\ngpuens.IsolationForest\n"
    "assert sys.modules['scipy.stats'] is theirs",
)


@pytest.mark.parametrize("program", few(ASKING, ASKING[0]))
def test_scipy_stats_is_there_for_whoever_asks(program):
    left = "\nimport scipy.stats, sys\nassert sys.modules['scipy.stats'].__file__"
    done = subprocess.run(
        [sys.executable, "-c", program + left], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
