"""The benchmark of losses runs on any tables, and names what is missing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.common import peers
from benchmarks.programs import losses


@pytest.fixture
def tables(tmp_path):
    """Small files under the names of the real ones."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)).astype(np.float32)
    more = {
        "california_housing": {"y": np.exp(X[:, 0])},
        "spambase": {"y": X[:, 0] > 0, "is_test": np.arange(200) % 3 == 0},
        "datacar": {"y": rng.poisson(1.0, 200), "exposure": rng.random(200) + 0.1},
    }
    for name, arrays in more.items():
        np.savez(tmp_path / f"{name}.npz", X=X, **arrays)
    return tmp_path


def run(folder, *options):
    arguments = ["--data", folder, "--output", folder / "out", "--splits", 1, "--rounds", 3]
    assert losses.main([*map(str, arguments), *options]) == 0
    (path,) = (folder / "out").glob("losses-*.json")
    return json.loads(path.read_text())["results"]


def test_all_parts(tables, monkeypatch, capsys):
    monkeypatch.setattr(peers, "installed", lambda names: [n for n in names if n != "LightGBM"])
    results = run(tables)
    assert 0 < results["huber"]["mean"] < results["huber"]["constant"]
    assert 0 <= results["spambase"]["mean"] < 50
    assert results["exposure"] == {"gaps": ["LightGBM is not installed"]}
    for name, part in results["same_settings"].items():
        peer = {"HistGB"} - ({"HistGB"} if name.startswith("tweedie") else set())
        assert part["ratios"].keys() == peer
        assert all(0.9 < ratio < 1.1 for ratio in part["ratios"].values())
    assert "(at most 0.313)" in capsys.readouterr().out


def test_beside_lightgbm(tables):
    pytest.importorskip("lightgbm")
    results = run(tables, "--only", "exposure")
    assert results["exposure"]["ratios"].keys() == {"max_delta_step=0.7", "max_delta_step=1e-09"}
    assert 0.9 < results["exposure"]["worst"] < 1.1


def test_missing_tables(tmp_path, capsys):
    results = run(tmp_path, "--only", "huber", "spambase")
    assert results["huber"] == {"gaps": [f"california_housing.npz is not in {tmp_path}"]}
    assert "skipped: spambase.npz is not in" in capsys.readouterr().out
