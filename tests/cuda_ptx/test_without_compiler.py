"""Models of all families train on kernels that came compiled, in a process without numba-cuda."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

if config.ENABLE_CUDASIM:
    pytest.skip("compiling needs a process without the simulator", allow_module_level=True)
pytest.importorskip("numba_cuda")

from tests.ptx import archive

ROOT = Path(__file__).parents[2]
FAMILIES = (
    "squared_error or huber or quantiles or log_normal or negative_binomial or exponential or "
    "focal or many or goss or categories or linear or rankings or survival or forest or extra or "
    "AdaBoost or bagging or stagewise or sparse or ones_own"
)
"""Of the tests of whole models; all of them, and the other files of tests/gpu, run in the same way
by hand."""


@pytest.mark.slow
def test_families_train_without_numba_cuda(tmp_path):
    """The bits of the CPU; the launcher finds every kernel by its key in a file like a wheel's, and
    a loss of one's own is told what it needs."""
    archive.write(tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--ptx"]
    chosen = ["tests/gpu/test_models_on_gpu.py", "-k", FAMILIES]
    done = subprocess.run(
        [*command, f"--ptx-archive={tmp_path}", *chosen], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert " skipped" not in done.stdout.splitlines()[-1]
