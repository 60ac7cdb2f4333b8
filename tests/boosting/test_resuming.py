"""Training that is killed goes on from its checkpoint to the same model."""

from __future__ import annotations

import os

import pytest

from gpuens import load
from gpuens.datasets import make_higgs_like

from ..support.resuming import kill_and_resume, model


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL on Windows")
def test_killed_training_ends_in_the_same_model(tmp_path):
    path = tmp_path / "model.gpuens"
    assert kill_and_resume(path, kills=3, seed=0) == 3
    X, y = make_higgs_like(2000, random_state=0)
    assert load(path).forest_.fingerprint() == model().fit(X, y).forest_.fingerprint()
    # A process that is killed while it writes cannot tidy up; what it leaves is never the model.
    # safetensors writes to a file ".tmp…" of its own, which then replaces the unfinished one.
    left = {p for p in tmp_path.iterdir() if p != path}
    assert all(p.suffix == ".part" or p.name.startswith(".tmp") for p in left)
