"""The library of this checkout has every kernel that a model needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuens.kernels.runtime import native

MODELS = """
from tests.support.fingerprints import fingerprints

n = len(fingerprints())
"""
READ_MODELS = """
import numpy as np

import gpuens
from tests.exchange.test_xgboost import SETUPS, X, train

n = len(SETUPS)
for name in SETUPS:
    model = gpuens.from_xgboost(train(name))
    for table in (X, X.astype("f4"), np.asfortranarray(X)):
        for few in (table, table[:5], table[:1]):
            model.predict(few)
"""
MISSES = """
import json

from gpuens.kernels.runtime import native

library = native.source()
print(json.dumps([n, sorted(library.used), sorted(library.missed)]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("program", "least", "kernels"), [(MODELS, 300, 30), (READ_MODELS, 20, 2)])
def test_no_model_misses_a_kernel(program, least, kernels):
    """Custom losses are no kernels of the library, and compile without a miss."""
    if program is READ_MODELS:
        pytest.importorskip("xgboost")
    try:
        native.open_library()
    except native.Unusable as error:
        pytest.skip(f"no library to test, `make library` builds it: {error}")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program + MISSES], cwd=root, capture_output=True, text=True,
        check=True, env={**os.environ, "GPUENS_KERNELS": "native"},
    )  # fmt: skip
    n, used, missed = json.loads(done.stdout.splitlines()[-1])
    assert n > least and len(used) > kernels
    assert missed == []
