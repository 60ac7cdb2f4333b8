"""The measurements of trees and forests run, and what they write can be read."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from benchmarks.common import counterparts, same_tree
from benchmarks.programs import forests, published
from benchmarks.report import figures, report
from gpuens.datasets import make_higgs_like

BOTH = ["gpuens", "scikit-learn"]


@pytest.fixture
def run(tmp_path):
    """Run a program with a folder of its own; returns the JSON file that it wrote."""

    def run(program, *options, code=0):
        folder = tmp_path / "results"
        assert program.main(["--output", str(folder), *map(str, options)]) == code
        (path,) = folder.glob("*.json")
        return json.loads(path.read_text())

    return run


@pytest.fixture
def tables(tmp_path):
    """A folder with small tables under the names of some real ones."""
    folder = tmp_path / "tables"
    folder.mkdir()
    X, y = make_higgs_like(240, 5)
    y = np.where(np.random.default_rng(0).random(240) < 0.1, y, X[:, 0] > 0)
    for name in ("covtype_first20k", "spambase", "glass", "letter"):
        np.savez(folder / f"{name}.npz", X=X, y=y.astype("U1"), is_test=np.arange(240) % 3 == 0)
    return folder


SMALL = "--rows 300 --trees 10 --splits 2 --predict-rows 400 --repeats 2 --threads 1".split()


@pytest.mark.slow
def test_forests(run, tables):
    results = run(forests, "--data", tables, *SMALL)["results"]
    assert list(results) == list(forests.PARTS)
    for name in ("depth_14", "to_purity", "predict", "single_tree"):
        libraries = results[name]["libraries"]
        assert list(libraries) == BOTH
        assert all(len(row["seconds"]) == 2 for row in libraries.values())
    assert results["depth_14"]["title"] == "300 × 28, 2 classes"
    assert results["depth_14"]["n_trees"] == 4
    assert results["predict"]["title"] == "400 × 28, 2 classes"
    for name, key in (("depth_14", "auc"), ("to_purity", "accuracy")):
        assert all(0.4 < r["quality"][key] < 1 for r in results[name]["libraries"].values())
    same = results["single_tree"]["same"]
    assert same["nodes"] == same["equal"] + same["ties"] + same["close"] + same["below"]
    assert all(results["identity"]["equal"].values())
    assert list(figures.forests({"results": results}))


@pytest.mark.slow
def test_one_seed_a_round():
    X, y = make_higgs_like(200, 4)
    options = forests_options("--repeats", "2", "--threads", "1")
    _, models = forests.time_fits("RandomForestClassifier", X, y, options, n_estimators=3)
    for fitted in models.values():
        assert [model.random_state for model in fitted] == [0, 1]


def forests_options(*argv):
    """The options that the program reads."""
    seen = []

    def stop(names, options):
        seen.append(options)
        raise SystemExit

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(forests, "measure", stop)
        forests.main(list(argv))
    return seen[0]


def test_a_missing_table_is_a_named_gap(run, tmp_path, capsys):
    record = run(forests, "--data", tmp_path, *SMALL, "--only", "to_purity")
    gap = f"covtype_first20k.npz is not in {tmp_path}"
    assert record["results"] == {"to_purity": {"gaps": [gap]}}
    assert f"skipped: {gap}\n" in capsys.readouterr().out
    assert list(figures.forests(record)) == []


def test_a_missing_class_is_a_named_gap(run, tables, monkeypatch):
    monkeypatch.setitem(counterparts.MODULES, "gpuens", ("gpuens.datasets", "gpuens.nothing"))
    results = run(forests, "--data", tables, *SMALL, "--only", "depth_14", "identity")["results"]
    assert results["depth_14"] == {"gaps": ["gpuens has no RandomForestClassifier"]}
    assert results["identity"]["gaps"] == [f"gpuens has no {name}" for name in forests.IDENTITY]
    assert len(list(report.gaps_of(results))) == 1 + len(forests.IDENTITY)


def test_different_fingerprints_fail(run, monkeypatch):
    numbers = iter(range(100))
    monkeypatch.setattr(forests, "fingerprint", lambda *args: str(next(numbers)))
    record = run(forests, *SMALL, "--only", "identity", code=1)
    (figure,) = figures.forests(record)
    assert figure.measured == len(forests.IDENTITY) and not figure.reached


def trees_of(*models):
    return [same_tree.nodes_of_theirs(model) for model in models]


def test_trees_that_differ_by_ties():
    X, y = make_higgs_like(2000, 6)
    fitted = [DecisionTreeClassifier(random_state=seed).fit(X, y) for seed in (0, 1)]
    counts = same_tree.compare(*trees_of(*fitted), X, y)
    assert counts["nodes"] == fitted[0].tree_.node_count
    assert counts["ties"] > 0 and counts["different"] == counts["close"] == 0
    assert sum(counts.values()) == 2 * counts["nodes"]
    itself = same_tree.compare(*trees_of(fitted[0], fitted[0]), X, y)
    assert itself["equal"] == itself["nodes"]


def test_trees_that_differ_for_other_reasons():
    X, y = make_higgs_like(2000, 6)
    fitted = [DecisionTreeClassifier(random_state=0, min_samples_leaf=n).fit(X, y) for n in (1, 3)]
    counts = same_tree.compare(*trees_of(*fitted), X, y)
    assert counts["different"] > 0
    assert sum(counts.values()) == 2 * counts["nodes"]


def test_mirrored_splits_are_ties_and_their_children_are_compared():
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], np.float32)
    y = np.array([0, 0, 0, 1, 1, 0])
    X = np.column_stack([x, -x])
    a, b = (DecisionTreeClassifier().fit(X[:, [i]], y) for i in (0, 1))
    a, b = trees_of(a, b)
    b = b._replace(feature=np.where(b.feature == 0, 1, b.feature))
    counts = same_tree.compare(a, b, X, y)
    assert counts == {"nodes": 5, "equal": 3, "ties": 2, "close": 0, "different": 0, "below": 0}


def test_close_values():
    """A better split between values that scikit-learn does not tell apart."""
    x = np.array([0.0, 0.25, 0.25 + 2.0**-25, 1.0], np.float32)
    y = np.array([0, 0, 1, 1])
    leaf = {"left": np.array([1, -1, -1]), "right": np.array([2, -1, -1])}
    a = same_tree.Nodes(np.array([0, -1, -1]), np.array([0.25, 0, 0]), n_samples=np.array(
        [4, 2, 2]), **leaf)  # fmt: skip
    b = a._replace(threshold=np.array([0.6, 0, 0]), n_samples=np.array([4, 3, 1]))
    counts = same_tree.compare(a, b, x[:, None], y)
    assert counts["close"] == 1 and counts["different"] == 0 and counts["below"] == 2
    assert same_tree.compare(b, a, x[:, None], y)["different"] == 1


def test_gini_score():
    y = np.array([0, 0, 1, 2, 2])
    left = np.array([True, True, True, False, False])
    assert same_tree.gini_score(y, left) == Fraction(5, 3) + 2


@pytest.mark.slow
def test_published(run, tables, capsys):
    options = "--seeds 1 --repeats 2 --trees 40 --threads 1 --tables glass sonar".split()
    record = run(published, "--data", tables, *options)
    out = capsys.readouterr().out
    assert "skipped: sonar.npz" in out and "skipped: satimage.npz" in out
    results = record["results"]
    assert list(results["spambase"]) == ["random forest", "bagging", "pruned tree"]
    assert all(0 <= np.mean(row["errors"]["gpuens"]) < 40 for row in results["spambase"].values())
    glass = results["protocol"]["glass"]
    assert list(glass) == ["selection", "single"]
    assert list(glass["single"]["errors"]) == BOTH
    assert len(glass["single"]["errors"]["gpuens"]) == 2
    assert set(results["out_of_bag"]["letter"]) == {"out of bag", "test"}
    named = [figure.what for figure in figures.published(record)]
    assert len(named) == 5 and not any("sonar" in what or "satimage" in what for what in named)


def test_pruning_takes_the_smallest_of_equally_good_trees(monkeypatch):
    """Noise on top of one split: every alpha keeps that split, large ones nothing else."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)).astype(np.float32)
    y = np.where(rng.random(400) < 0.1, 0, X[:, 0] > 0).astype(int)
    model = published.pruned_tree("scikit-learn", X, y, 0, 1)
    full = DecisionTreeClassifier(random_state=0).fit(X, y)
    assert model.get_n_leaves() < full.get_n_leaves() / 4
    monkeypatch.setattr(published, "cross_val_score", lambda *args, **settings: np.zeros(10))
    assert published.pruned_tree("scikit-learn", X, y, 0, 1).get_n_leaves() == 1


@pytest.fixture
def records():
    def errors(ours, **more):
        return {"errors": {"gpuens": [ours, ours + 1], "scikit-learn": [5.0]}, **more}

    row = {"median": 1.0, "quality": {"auc": 0.81}}
    peer = {"median": 10.0, "ratio": 0.1, "quality": {"auc": 0.8125}}
    part = {"title": "100k × 28, 2 classes", "n_trees": 40,
            "libraries": {"gpuens": row, "scikit-learn": peer}}  # fmt: skip
    forests = {"depth_14": part, "to_purity": {"gaps": ["no table"]}}
    published = {
        "spambase": {"bagging": errors(5.0, published=5.4, asked=6.0)},
        "protocol": {
            "glass": {"single": errors(23.5, published=[21.2, 22.6]),
                      "selection": errors(20.5, published=[20.6, 22.5])},
            "sonar": {"gaps": ["no sonar"]},
        },
        "out_of_bag": {"letter": {"out of bag": errors(4.0), "test": errors(3.5)}},
    }  # fmt: skip
    common = {
        "machine": {"cpu": "A processor", "cores": 2, "ram_gib": 23.4, "gpus": []},
        "versions": {"gpuens": "1.0", "python": "3.12"}, "date": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip
    return {"forests": common | {"results": forests}, "published": common | {"results": published}}


def test_figures(records):
    time, auc = figures.forests(records["forests"])
    assert time.what == "train a forest of depth 14, 100k × 28, 2 classes, 40 trees ÷ scikit-learn"
    assert time.reached
    assert auc.measured == pytest.approx(0.0025) and not auc.reached
    bagging, glass, letter = figures.published(records["published"])
    assert (bagging.measured, bagging.at_most) == (5.5, 6.0)
    assert glass.measured == pytest.approx(1.4)  # 24.0 - 22.6 of the single input
    assert letter.measured == pytest.approx(0.5)


def test_report(records):
    text = report.section(records)
    assert "| spambase, bagging: test error | 6 % | 5.5 % | yes |" in text
    assert "| bagging | 5.4 | 5.50 | 5.00 |" in text
    assert "| glass, single | 21.2 / 22.6 | 24.00 | 5.00 |" in text
    assert "| letter, out of bag |  | 4.50 | 5.00 |" in text
    assert "- no table\n- no sonar\n" in text
    assert "Trees, bagging and forests" not in report.section({})
