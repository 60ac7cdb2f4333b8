"""``python -m benchmarks categories`` runs, and what it writes can be read."""

from __future__ import annotations

import json

import numpy as np

from benchmarks.common import peers
from benchmarks.programs import categories


def test_categories(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "installed", lambda names: [])
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(0, 9, 400), rng.normal(size=400)], axis=1).astype(np.float32)
    y = ((X[:, 0] % 2 == 0) ^ (rng.random(400) < 0.1)).astype(np.int32)
    np.savez(tmp_path / "adult.npz", X=X, y=y, is_categorical=np.array([True, False]))
    options = f"--data {tmp_path} --output {tmp_path} --seeds 2 --trees 20 --rows 300 --threads 1"
    assert categories.main(options.split()) == 0
    (path,) = tmp_path.glob("categories-*.json")
    results = json.loads(path.read_text())["results"]
    assert set(results["losses"]["adult"]) == {"gpuens", "numbers", "HistGB"}
    assert all(len(losses) == 2 for losses in results["losses"]["adult"].values())
    assert results["ratios"]["adult"]["HistGB"] < 1.2
    assert "airlines_allyears2k" not in results["losses"]
