"""The programs under ``benchmarks/`` run, and what they write can be read."""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks import __main__
from benchmarks.common import peers, timing
from benchmarks.common.counterparts import GapError
from benchmarks.programs import fit, identity, memory, predict, startup, startup_forests
from benchmarks.report import figures, report
from gpuens.datasets import make_higgs_like

PEERS = ["LightGBM", "LightGBM quantised", "XGBoost", "HistGB", "CatBoost"]


@pytest.fixture
def run(tmp_path):
    """Run a program with a folder of its own; returns the JSON file that it wrote."""

    def run(program, *options):
        assert program.main(["--output", str(tmp_path), *map(str, options)]) == 0
        (path,) = tmp_path.glob("*.json")
        return json.loads(path.read_text())

    return run


def present(libraries):
    return [name for name in libraries if find_spec(peers._BUILD[name][0])]


@pytest.fixture
def without_others(monkeypatch):
    """Pretend that only gpuens and scikit-learn are installed, to save time."""
    monkeypatch.setattr(peers, "installed", lambda names: [n for n in names if n in (
        peers.OURS, "HistGB")])  # fmt: skip


def test_fit(run, tmp_path):
    options = "--rows 600 --trees 2 --repeats 2 --threads 1 --only 1m covtype"
    record = run(fit, *options.split())
    assert record["settings"]["threads"] == 1
    assert {"cpu", "cores", "ram_gib", "gpus"} <= record["machine"].keys()
    assert {"python", "numpy", "scikit-learn"} <= record["versions"].keys()
    workload = record["results"]["1m"]
    assert workload["title"] == "600 × 28, 2 classes"
    assert list(workload["libraries"]) == ["gpuens", *present(fit.ALL)]
    for row in workload["libraries"].values():
        assert len(row["seconds"]) == 2
        assert 0.4 < row["quality"]["auc"] < 1
    if find_spec("matplotlib"):
        assert len(list(tmp_path.glob("fit-*.png"))) == 1


def test_predict(run, without_others):
    record = run(predict, *"--rows 500 --trees 2 --repeats 1 --batches 1 --threads 1".split())
    for part in ("table", "row"):
        assert list(record["results"][part]["libraries"]) == ["gpuens", "HistGB"]
    assert record["results"]["row"]["n_trees"] == 8


@pytest.mark.parametrize("library", ["XGBoost", "LightGBM"])
def test_predict_beside(run, monkeypatch, library):
    if library not in present(PEERS):
        pytest.skip(f"{library} is not installed")
    monkeypatch.setattr(peers, "installed", lambda names: [peers.OURS, library])
    record = run(predict, *"--rows 500 --trees 2 --repeats 1 --batches 1 --threads 1".split())
    names = list(record["results"]["row"]["libraries"])
    assert names[:2] == ["gpuens", library]
    assert ("XGBoost inplace_predict" in names) == (library == "XGBoost")


@pytest.mark.slow
def test_startup(run, without_others):
    record = run(startup, *"--repeats 1 --threads 1 --rows 300 --trees 2 --warm-only".split())
    medians = record["results"]["medians"]
    assert list(medians) == ["gpuens, warm cache", "HistGB"]
    ours = medians["gpuens, warm cache"]
    assert ours["import + first fit"] == ours["import"] + ours["first fit"]
    loaded = record["results"]["loaded"]["medians"]
    assert list(loaded) == ["gpuens, warm cache", "scikit-learn"]
    parts = ("import", "load", "first predict")
    for seconds in loaded.values():
        assert seconds["import to first predict"] == pytest.approx(sum(seconds[p] for p in parts))


@pytest.mark.slow
@pytest.mark.parametrize("library", ["LightGBM", "XGBoost", "scikit-learn", "gpuens"])
def test_a_forest_from_a_file_knows_what_it_learned(tmp_path, monkeypatch, capsys, library):
    """The program of a process that serves, run in this one."""
    if library in PEERS and library not in present(PEERS):
        pytest.skip(f"{library} is not installed")
    X, y = make_higgs_like(400, 20)
    path = startup_forests.save(library, X, y, tmp_path, argparse.Namespace(trees=9, threads=1))
    np.savez(tmp_path / "table.npz", X=X)
    monkeypatch.setattr("sys.argv", ["", str(tmp_path / "table.npz"), str(path), "1"])
    names = {}
    exec(startup_forests.code(library), names)
    seconds = json.loads(capsys.readouterr().out)
    assert seconds.keys() == {"import", "load", "first predict", "first table"}
    model = names["model"]
    p = model.predict(X) if library == "LightGBM" else model.predict_proba(X)[:, 1]
    assert roc_auc_score(y, p) > 0.75


def test_a_process_that_fails_is_a_gap():
    with pytest.raises(GapError, match="ended with 1: ValueError: no such thing"):
        startup.run_new_process("raise ValueError('no such thing')", None)


@pytest.mark.slow
def test_memory(run, monkeypatch):
    monkeypatch.setattr(peers, "installed", lambda names: [peers.OURS])
    record = run(memory, *"--repeats 1 --threads 1 --rows 2000 --trees 2".split())
    ours = record["results"]["gpuens"]
    assert ours["runs"][0]["input_bytes"] == 2000 * 28 * 4
    assert ours["relative"] == ours["runs"][0]["bytes"] / (2000 * 28 * 4)


def test_both_memory_meters_see_an_allocation():
    meters = [memory.best_meter()]
    if find_spec("psutil"):
        meters.append(memory.Sampler())
    for meter in meters:
        memory.give_back()  # or the block would take the place of what other tests have freed
        before = meter.start()
        block = np.ones(30_000_000, np.uint8)
        assert meter.peak() - before > 20_000_000, meter.method
        del block


def test_identity(run):
    options = "--rows 500 --trees 2 --small-rows 100 --only binary sampled --no-simulator"
    record = run(identity, *options.split())
    assert record["results"]["identical"]
    assert set(record["results"]["equal"]) == {"threads", "reference", "histogram over blocks"}


def test_identity_fails_when_models_differ(tmp_path, monkeypatch):
    numbers = iter(range(100))
    monkeypatch.setattr(identity, "fingerprint", lambda *a, **k: str(next(numbers)))
    options = ["--output", str(tmp_path), "--rows", "300", "--no-simulator"]
    assert identity.main(options) == 1


def test_runs_take_turns():
    order = []
    actions = {name: (lambda name=name: order.append(name)) for name in "abc"}
    seconds, _ = timing.interleaved(actions, 3, threads=1)
    assert "".join(order) == "abcbcacab"
    assert [len(runs) for runs in seconds.values()] == [3, 3, 3]


def test_a_budget_ends_the_rounds():
    seconds, _ = timing.interleaved({"a": dict, "b": dict}, 5, threads=1, budget=-1)
    assert [len(runs) for runs in seconds.values()] == [1, 1]


def test_ratios_are_of_medians():
    table = timing.compare({"gpuens": [1.0, 2.0, 9.0], "peer": [4.0, 8.0, 6.0]}, "gpuens")
    assert table["peer"]["ratio"] == 2.0 / 6.0
    assert table["peer"]["ratio_range"] == [0.25, 1.5]


@pytest.fixture
def results(tmp_path):
    """A folder with results of two days."""
    machine = {"cpu": "A processor", "cores": 2, "ram_gib": 23.4, "gpus": []}
    for day, ours in (("2026-01-01", 9.0), ("2026-01-02", 1.0)):
        row = {"seconds": [1], "median": ours}
        peer = {"seconds": [2], "median": 3.0, "ratio": ours / 3.0, "ratio_range": [0, 1]}
        workload = {"title": "1M × 28, 2 classes", "libraries": {"gpuens": row, "LightGBM": peer}}
        record = {
            "benchmark": "fit", "date": f"{day}T00:00:00+00:00", "machine": machine,
            "versions": {"gpuens": "1.0", "python": "3.12", "lightgbm": "4.7"},
            "settings": {}, "results": {"1m": workload},
        }  # fmt: skip
        (tmp_path / f"fit-a-processor-{day}.json").write_text(json.dumps(record))
    readme = tmp_path / "README.md"
    readme.write_text(f"# Title\n\n{report.START}\nold\n{report.END}\n\nThe end.\n")
    return tmp_path


def test_report_is_reproducible_and_takes_the_newest(results):
    readme = results / "README.md"
    options = ["--output", str(results), "--readme", str(readme)]
    assert report.main(options) == 0
    first = readme.read_text()
    assert "| 1M × 28, 2 classes | 1.00 s | 3.00 s |" in first
    assert "| train 1M × 28, 2 classes ÷ LightGBM | 0.5 | 0.333 | yes |" in first
    assert "A processor, 2 cores, 23 GiB" in first
    assert first.startswith("# Title\n") and first.endswith("\nThe end.\n")
    assert "old" not in first
    picture = results / "docs" / "images" / "fit.png"
    drawn = picture.read_bytes() if find_spec("matplotlib") else b""
    assert report.main(options) == 0
    assert readme.read_text() == first
    if drawn:
        assert picture.read_bytes() == drawn


def test_report_needs_its_markers(results):
    (results / "README.md").write_text("nothing here")
    with pytest.raises(SystemExit, match="must hold <!-- results --> once"):
        report.main(["--output", str(results), "--readme", str(results / "README.md")])


def test_report_names_a_figure_that_is_not_reached():
    assert not figures.Figure("a", 1.0, 1.01).reached
    assert figures.Figure("a", 1.0, 1.0).reached


def test_the_command_lists_every_program(capsys):
    with pytest.raises(SystemExit, match="0"):
        __main__.main(["--help"])
    out = capsys.readouterr().out
    assert all(name in out for name in __main__.PROGRAMS)


@pytest.mark.parametrize("name", __main__.PROGRAMS)
def test_every_program_has_help(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        __main__.main([name, "--help"])
    assert f"usage: python -m benchmarks {name}" in capsys.readouterr().out
