"""The library of this checkout has every kernel that a model needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuens.kernels.runtime import native

PROGRAM = """
import json

from gpuens.kernels.runtime import native
from tests.support.fingerprints import fingerprints

found = fingerprints()
library = native.source()
print(json.dumps([len(found), sorted(library.used), sorted(library.missed)]))
"""


def test_no_model_misses_a_kernel():
    """Custom losses are no kernels of the library, and compile without a miss."""
    try:
        native.open_library()
    except native.Unusable as error:
        pytest.skip(f"no library to test, `make library` builds it: {error}")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=root, capture_output=True, text=True, check=True,
        env={**os.environ, "GPUENS_KERNELS": "native"},
    )  # fmt: skip
    n, used, missed = json.loads(done.stdout.splitlines()[-1])
    assert n > 300 and len(used) > 30
    assert missed == []
