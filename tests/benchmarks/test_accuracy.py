"""The measurement of errors: its arithmetic, its peers, and what it writes."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.accuracy import accuracy, choices, defaults, lines
from benchmarks.common import peers
from benchmarks.common.peers import BOTH
from benchmarks.common.tables import Table
from gpuens.datasets import make_higgs_like


@pytest.fixture
def measured(run, write_table):
    """Run the program on small tables; returns its results."""
    X, y = make_higgs_like(400, 5)
    targets = {
        "spambase": y, "bike": X[:, 0] + y, "covtype_first20k": y + (X[:, 0] > 0),
        "ionosphere": (X[:, 0] + X[:, 1] * X[:, 2] > 2).astype(int),
    }  # fmt: skip
    for name, target in targets.items():
        write_table(name, X=X, y=target)
    settings = ["--data", write_table.folder, "--seeds", 2, "--threads", 1]
    return lambda *options: run(accuracy, *settings, *options)["results"]


def test_comparisons_of_boosting(measured, capsys):
    results = measured("--trees", 3, "--lines", *lines.BOOSTING)
    assert "skipped: adult.npz" in capsys.readouterr().out
    for name, line in lines.BOOSTING.items():
        assert list(results[name]) == ["spambase", "covtype_first20k", "bike"]
        for entry in results[name].values():
            assert list(entry["losses"]) == ["gpuens", *filter(peers.present, line.libraries[1:])]
            assert all(len(runs) == 2 and min(runs) > 0 for runs in entry["losses"].values())


@pytest.mark.slow
def test_every_estimator(measured, capsys):
    results = measured("--trees", 8, "--lines", *lines.ESTIMATORS)
    for name, line in lines.ESTIMATORS.items():
        there = [of for of in line.tables if of in ("spambase", "bike", "ionosphere")]
        assert list(results[name]) == there
        for entry in results[name].values():
            ours, theirs = (entry["losses"][library] for library in BOTH)
            assert len(ours) == len(theirs) == 2 and 0.2 < sum(ours) / sum(theirs) < 5
    assert {gap.split(" is not in")[0] for gap in results["gaps"]} >= {"adult.npz", "letter.npz"}
    out = capsys.readouterr().out
    assert "| mean ± standard error | gpuens | scikit-learn | ratio | published |" in out
    assert (
        "| random forest: spambase, error in % |" in out and "| 4.88 (Hastie et al. 2009) |" in out
    )


def test_a_library_that_fails_is_a_gap(measured, monkeypatch):
    def fail(library, setup):
        if library != "gpuens":
            raise MemoryError("too little of it\nand more")
        return lines.single("DecisionTree")(library, setup)

    monkeypatch.setitem(lines.LINES, "decision tree", lines.Line(fail, ("spambase",)))
    entry = measured("--lines", "decision tree")["decision tree"]["spambase"]
    assert list(entry["losses"]) == ["gpuens"]
    assert entry["gaps"] == ["decision tree of scikit-learn on spambase: too little of it"]
    assert list(accuracy.cells_of("decision tree", "spambase", entry)) == ["gpuens"]


def test_without_tables_it_says_so(tmp_path, capsys):
    assert accuracy.main(["--data", str(tmp_path / "none"), "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert all(f"skipped: {name}.npz" in out for name in accuracy.TABLES)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not peers.present("XGBoost"), reason="XGBoost is not installed")
def test_multiclass_settings_equal_those_of_xgboost():
    """Like with like: at p = 1/2 a leaf of both takes the same step from the same rows."""
    table = Table("covtype_first20k", np.zeros((4, 1)), np.arange(4))
    setup = lines.Setup(table.task, 10, 1, 0, table.n_classes)
    models = (lines.at_xgboost(library, setup).get_params() for library in ("gpuens", "XGBoost"))
    ours, xgb = (SimpleNamespace(**parameters) for parameters in models)
    g, n = 0.3, 50
    h_ours, h_xgb = n * 0.25 * 4 / 3, n * 0.25 * 2
    step = ours.learning_rate * g / (h_ours + ours.l2_regularization)
    assert step == pytest.approx(xgb.learning_rate * g / (h_xgb + xgb.reg_lambda))
    assert ours.min_sum_hessian / h_ours == pytest.approx(xgb.min_child_weight / h_xgb)


def test_multiclass_boosting_takes_the_same_first_step_as_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, (2000, 1)).astype(np.float32)  # every value is a leaf
    y = np.minimum(X[:, 0] // 3, rng.integers(0, 3, 2000)).astype(np.int64)
    setup = lines.Setup("multiclass", 1, 1, 0, n_classes=3)
    shares = [lines.boosting(library, setup).fit(X, y).predict_proba(X) for library in BOTH]
    np.testing.assert_allclose(*shares, rtol=1e-4)


def test_the_ratio_and_its_error_are_exact():
    ours, theirs = [3, 5, 4], [2, 6, 4]
    ratio = Fraction(sum(ours), sum(theirs))
    off = [a - ratio * b for a, b in zip(ours, theirs, strict=True)]  # their mean is zero
    variance = sum(value**2 for value in off) / 2 / 3
    found = accuracy.paired_ratio(ours, theirs)
    assert found == (float(ratio), pytest.approx(math.sqrt(variance) / 4))
    assert accuracy.paired_ratio([2.0, 4.0], [1.0, 2.0]) == (2.0, 0.0)
    assert accuracy.paired_ratio([2.0], [1.0]) == (2.0, None)
    assert accuracy.paired_ratio([1.0, 2.0], [0.0, 0.0]) == (None, None)


def test_nothing_set(run, write_table, capsys):
    """Categories reach every library as it takes them, and nothing else is set."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (200, 3)).astype(np.float32)
    X[::9, 0] = np.nan
    is_categorical = np.array([True, False, False])
    write_table("glass", X=X, y=rng.integers(0, 3, 200), is_categorical=is_categorical)
    write_table("ames", X=X, y=X[:, 1] + rng.random(200), is_categorical=is_categorical)
    settings = [
        "--data",
        write_table.folder,
        "--seeds",
        2,
        "--rows",
        120,
        "--only",
        "glass",
        "ames",
    ]
    results = run(defaults, *settings)["results"]
    for entry in results.values():
        assert entry["rows"] == 120 and "gaps" not in entry
        for key in ("losses", "fit", "predict"):
            assert list(entry[key]) == list(filter(peers.present, defaults.LIBRARIES))
            assert all(len(runs) == 2 and min(runs) > 0 for runs in entry[key].values())
    out = capsys.readouterr().out
    assert "| LightGBM | " in out and "the loss relative to LightGBM's" in out


@pytest.mark.slow
def test_choices(run, write_table, capsys):
    rng = np.random.default_rng(0)
    X = rng.random((150, 3)).astype(np.float32)
    shared = {"X": X, "is_categorical": np.zeros(3, dtype=bool)}
    write_table("glass", y=rng.integers(0, 3, 150) + (X[:, 0] > 0.5), **shared)
    write_table("ames", y=X[:, 1] + rng.random(150), **shared)
    options = ["--tables", "glass", "ames", "--seeds", 1, "--members", 2, "--budget", 1]
    only = ["--only", *choices.MAKERS]
    results = run(choices, "--data", write_table.folder, *options, *only)["results"]
    for part, makers in choices.MAKERS.items():
        for entry in results[part].values():
            assert set(makers) - set(entry["losses"]) <= {"LightGBM with Optuna"}
            assert all(math.isfinite(runs[0]) for runs in entry["losses"].values())
    assert "| tuned: tuned | " in capsys.readouterr().out
