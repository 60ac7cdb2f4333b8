"""Fits while the interpreter is ending, when it starts no threads."""

import subprocess
import sys
from textwrap import dedent

import pytest

from tests.support.lanes import few

PROGRAM = dedent(
    """
    import atexit, threading, time
    import numpy as np
    import gpuens

    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 10))
    y = (X[:, 0] > 0).astype(int)
    models = [
        gpuens.GradientBoostingClassifier(n_estimators=2, n_jobs=2),
        gpuens.DecisionTreeClassifier(max_depth=3),
        gpuens.QuantileForestRegressor(n_estimators=2, max_depth=3, n_jobs=2),
    ]

    def fingerprint():
        fitted = [model.fit(X, y) for model in models]
        fitted += gpuens.fit_many(models[0], X[:500], y[:500], param_grid={"max_depth": [1, 2]},
                                  n_jobs=2)[0]
        return [model.predict(X).sum() for model in fitted]

    expected = fingerprint()

    def fit_again():
        while threading.main_thread().is_alive():
            time.sleep(0.01)
        print("same" if fingerprint() == expected else "other", flush=True)

    """
)
ENDINGS = {
    "thread": "threading.Thread(target=fit_again).start()",
    "atexit": "atexit.register(fit_again)",
}


@pytest.mark.parametrize("ending", few(ENDINGS, "atexit"))
def test_models_are_the_same_while_the_interpreter_ends(ending):
    program = [sys.executable, "-c", PROGRAM + ENDINGS[ending]]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr) == ("same\n", "")
