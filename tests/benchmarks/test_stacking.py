"""The measurement of stacks runs, and what it writes can be read."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import __main__
from benchmarks.programs import stacking
from gpuens.datasets import make_higgs_like


@pytest.fixture
def run(tmp_path):
    """Run the program on small tables; returns the results that it wrote."""
    X, y = make_higgs_like(260, 5)
    X[:, 4] = np.arange(260) % 3
    X[::9, 0] = np.nan
    categorical = np.arange(5) == 4
    more = {"is_categorical": categorical, "is_test": np.arange(260) % 4 == 0}
    np.savez(tmp_path / "adult.npz", X=X, y=np.array(["a", "b"])[y], **more)

    def run(*options):
        folder = tmp_path / "results"
        settings = ["--data", tmp_path, "--output", folder, "--trees", 5, "--splits", 2]
        assert stacking.main([str(option) for option in [*settings, *options]]) == 0
        (path,) = folder.glob("stacking-*.json")
        return json.loads(path.read_text())["results"]

    return run


@pytest.mark.slow
def test_stacking(run, capsys):
    results = run()
    part = results["adult"]
    members = ["forest", "boosting", "logistic regression"]
    assert part["members"] == members and part["best"] in members
    assert set(part["losses"]) == {*members, *part["seconds"]}
    assert all(len(found) == 2 for found in part["losses"].values())
    means = {what: np.mean(found) for what, found in part["losses"].items()}
    assert means[part["best"]] == min(means[member] for member in members)
    for what, ratio in part["ratios"].items():
        assert ratio == pytest.approx(means[what] / means[part["best"]])
    assert np.allclose(np.sum(part["weights"]["vote, optimal"], axis=1), 1)
    assert "covtype_first20k.npz is not in" in results["covtype_first20k"]["gaps"][0]
    assert "the best member is" in capsys.readouterr().out


def test_it_is_registered():
    assert "stacking" in __main__.PROGRAMS


def test_the_official_split_is_kept():
    arrays = {"X": np.arange(80.0).reshape(40, 2), "y": np.arange(40) % 2}
    official = arrays | {"is_test": np.arange(40) < 10}
    X, X_test, y, y_test = stacking.split(official, 0)
    assert X_test[:, 0].tolist() == list(range(0, 20, 2)) and len(X) == len(y) == 22
    X, X_test, y, y_test = stacking.split(arrays, 0)
    assert len(y_test) == 10 and len(X) == 30
