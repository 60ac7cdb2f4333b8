"""The measurement of AdaBoost runs, and what it writes can be read."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.programs import adaboost
from gpuens.datasets import make_higgs_like

SMALL = "--rows 400 --rounds 6 --scale 2 --draws 2 --repeats 2 --threads 1".split()


@pytest.mark.slow
@pytest.mark.parametrize("there", [True, False])
def test_adaboost(tmp_path, there, capsys):
    tables, folder = tmp_path / "tables", tmp_path / "results"
    tables.mkdir()
    if there:
        X, y = make_higgs_like(240, 5)
        test = np.arange(240) % 3 == 0
        np.savez(tables / "spambase.npz", X=X, y=y.astype("U1"), is_test=test)
    arguments = ["--output", str(folder), "--data", str(tables), *SMALL]
    assert adaboost.main(arguments) == 0
    (path,) = folder.glob("*.json")
    results = json.loads(path.read_text())["results"]
    assert list(results) == list(adaboost.PARTS)
    stumps = results["stumps"]
    assert stumps["rounds_done"] == {"gpuens": 6, "scikit-learn": 3}
    assert all(len(row["seconds"]) == 2 for row in stumps["libraries"].values())
    assert stumps["libraries"]["scikit-learn"]["ratio"] > 0
    if there:
        errors = results["spambase"]["errors"]
        assert errors["stumps"]["gpuens, exact thresholds"] == errors["stumps"]["scikit-learn"]
    else:
        assert "spambase.npz is not in" in results["spambase"]["gaps"][0]
        assert "skipped: spambase.npz" in capsys.readouterr().out
    means = results["chi_squared"]["means"]
    assert means["gpuens, exact thresholds"] == means["scikit-learn"]
    assert all(results["identity"]["equal"].values())


def test_half_of_the_rows_are_of_class_1():
    X, y = adaboost.chi_squared_table(20_000, 0)
    assert X.shape == (20_000, 10) and abs(y.mean() - 0.5) < 0.02
