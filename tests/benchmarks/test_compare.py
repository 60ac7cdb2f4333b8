"""``python -m benchmarks compare`` and the checks of result files."""

from __future__ import annotations

import copy
import json
import math

import pytest

from benchmarks.common import records
from benchmarks.common.records import RESULTS, WRITERS, read_record
from benchmarks.report import compare
from benchmarks.report.compare import series_of

MACHINE = {"cpu": "A processor", "cores": 2, "ram_gib": 23.5, "gpus": [], "load_before": [0.1]}
VERSIONS = {"gpuens": "1.0", "numpy": "2.4", "lightgbm": "4.7", "xgboost-cpu": "3.2",
            "scikit-learn": "1.9"}  # fmt: skip


def record_of(benchmark, results, **more):
    return {
        "format": 1, "benchmark": benchmark, "date": "2026-01-01T00:00:00+00:00",
        "machine": MACHINE, "versions": VERSIONS, "settings": {"trees": 100}, "results": results,
        **more,
    }  # fmt: skip


def fit(ours, **peers):
    """Results of ``fit``: three runs of each library, 1 % apart."""
    seconds = {"gpuens": ours, **peers}
    rows = {name: {"seconds": [0.99 * s, s, 1.01 * s], "median": s} for name, s in seconds.items()}
    return record_of("fit", {"1m": {"title": "1M", "n_rows": 10**6, "libraries": rows}})


@pytest.fixture
def run(tmp_path, capsys):
    """Compare two records, or texts; returns the exit status and what was printed."""

    def run(old, new, *options):
        paths = []
        for name, content in (("old.json", old), ("new.json", new)):
            path = tmp_path / name
            path.write_text(content if isinstance(content, str) else json.dumps(content))
            paths.append(str(path))
        status = compare.main([*paths, *options])
        return status, capsys.readouterr().out

    return run


def test_a_slower_machine_is_not_a_slower_gpuens(run):
    status, out = run(fit(1.0, LightGBM=2.0), fit(1.5, LightGBM=3.0))
    assert status == 0
    assert "1 measurements of gpuens: 0 worse, 0 better, 1 within their spread" in out


def test_a_slower_gpuens_is_found_on_a_faster_machine(run):
    status, out = run(fit(1.0, LightGBM=2.0, XGBoost=4.0), fit(0.9, LightGBM=1.5, XGBoost=3.0))
    assert status == 1
    (line,) = [line for line in out.splitlines() if line.startswith("| 1m · gpuens (time)")]
    old, new, others, ratio, _ = (float(cell) for cell in line.split("|")[2:-1])
    assert (old, new, others) == (1.0, 0.9, 0.75) and ratio == pytest.approx(1.2)


def test_a_faster_gpuens_is_told(run):
    status, out = run(fit(1.0, LightGBM=2.0), fit(0.8, LightGBM=2.0))
    assert status == 0 and "Better:" in out and "0 worse, 1 better" in out


def test_the_spread_of_the_runs_decides(run):
    """A tenth slower: much where runs are 1 % apart, nothing where they are 40 % apart."""
    old, new = fit(1.0, LightGBM=2.0), fit(1.1, LightGBM=2.0)
    assert run(old, new)[0] == 1
    for name in ("gpuens", "LightGBM"):
        wide = copy.deepcopy(new)
        row = wide["results"]["1m"]["libraries"][name]
        row["seconds"] = [0.7 * row["median"], row["median"], 1.4 * row["median"]]
        assert run(old, wide)[0] == 0
    assert run(old, new, "--tolerance", "0.2")[0] == 0


def test_limit_and_ratio_are_those_of_the_formulas():
    old, new = fit(1.0, LightGBM=2.0), fit(1.3, LightGBM=2.2)
    (change,) = compare.compare(old, new, 0.0).changes
    apart = 0.5 * math.log(1 / 0.99) + 0.5 * math.log(1.01)  # quartiles of three runs
    assert change.ratio == pytest.approx(1.3 / 1.1)
    assert change.limit == pytest.approx(math.exp(math.sqrt(4 * apart**2)))
    assert change.yardstick == pytest.approx(1.1)


def test_others_that_disagree_widen_the_limit():
    old = fit(1.0, LightGBM=2.0, XGBoost=2.0)
    (calm,) = compare.compare(old, fit(1.0, LightGBM=2.0, XGBoost=2.0), 0.0).changes
    (torn,) = compare.compare(old, fit(1.0, LightGBM=1.6, XGBoost=2.5), 0.0).changes
    assert calm.limit < 1.05
    assert torn.limit > math.sqrt(2.5 / 1.6)
    assert torn.ratio == pytest.approx(1.0)


def test_a_library_of_another_version_is_no_yardstick(run):
    new = fit(1.5, LightGBM=3.0)
    new["versions"] = VERSIONS | {"lightgbm": "5.0"}
    status, out = run(fit(1.0, LightGBM=2.0), new)
    assert status == 1 and "another version: lightgbm: 4.7 → 5.0" in out
    assert "1 times have no other library" in out


def test_without_another_library_the_times_themselves_count(run):
    assert run(fit(1.0), fit(1.03))[0] == 0
    assert run(fit(1.0), fit(1.5))[0] == 1


def test_another_machine(run):
    """Compared by the other library where there is one, not at all where there is none."""
    machine = MACHINE | {"cpu": "Another", "load_before": [3.0]}
    status, out = run(fit(1.0, LightGBM=2.0), fit(3.0, LightGBM=6.0) | {"machine": machine})
    assert status == 0 and "another machine: cpu: A processor → Another" in out
    assert "load_before" not in out
    status, out = run(fit(1.0), fit(3.0) | {"machine": machine})
    assert status == 0 and "not compared, of another machine" in out
    status, _ = run(fit(1.0, LightGBM=2.0), fit(3.0, LightGBM=3.0) | {"machine": machine})
    assert status == 1


def test_what_is_no_longer_measured_is_worse(run):
    old, new = fit(1.0, LightGBM=2.0), fit(1.0, LightGBM=2.0)
    old["results"]["10k"] = old["results"]["1m"]
    status, out = run(old, new)
    assert status == 1 and "no longer measured: 10k · gpuens" in out
    assert run(new, old)[0] == 0
    new["settings"] = {"trees": 100, "only": ["1m"]}  # it was not asked for
    assert run(old, new)[0] == 0


def test_accuracy_is_compared_split_by_split(run):
    """The splits differ by far more than the models do."""
    losses = [0.10, 0.20, 0.30, 0.40]

    def accuracy(values):
        runs = {"gpuens": values, "LightGBM": losses}
        return record_of("accuracy", {"losses": {"adult": {"same as LightGBM": runs}}})

    assert run(accuracy(losses), accuracy([1.01 * v for v in losses]))[0] == 1
    assert run(accuracy(losses), accuracy([1.0005 * v for v in losses]))[0] == 0  # below 0.1 %
    up_and_down = [v * f for v, f in zip(losses, (1.04, 0.97, 1.03, 0.98), strict=True)]
    assert run(accuracy(losses), accuracy(up_and_down))[0] == 0
    assert run(accuracy(losses), accuracy([0.9 * v for v in losses]))[0] == 0
    # The machine's speed is nothing to a loss.
    worse = accuracy([1.01 * v for v in losses])
    worse["results"]["losses"]["adult"]["same as LightGBM"]["LightGBM"] = [v * 2 for v in losses]
    assert run(accuracy(losses), worse)[0] == 1


def test_scores_are_better_when_they_are_larger(run):
    def with_auc(value):
        record = fit(1.0, LightGBM=2.0)
        record["results"]["1m"]["libraries"]["gpuens"]["quality"] = {"auc": value}
        return record

    status, out = run(with_auc(0.80), with_auc(0.79))
    assert status == 1 and "| 1m · gpuens · auc (loss) | 0.2 | 0.21 |" in out
    assert run(with_auc(0.80), with_auc(0.81))[0] == 0


def test_memory_counts_from_five_percent(run):
    def memory(megabytes):
        runs = [{"bytes": int(m * 1e6), "input_bytes": 112, "method": "a"} for m in megabytes]
        return record_of("memory", {"gpuens": {"runs": runs, "relative": 1.0}})

    assert run(memory([100, 101]), memory([102, 105]))[0] == 0
    status, out = run(memory([100, 101]), memory([102, 108]))
    assert status == 1 and "| gpuens (memory) | 101 MB | 108 MB |" in out
    assert run(memory([1]), memory([3]))[0] == 0  # less than 4 MiB


def test_startup(run):
    def startup(ours, peer):
        rounds = [
            {"gpuens, warm cache": {"import": ours}, "LightGBM": {"import": peer * f}}
            for f in (0.99, 1.0, 1.01)
        ]
        return record_of("startup", {"medians": {}, "runs": rounds})

    assert run(startup(1.0, 1.0), startup(2.0, 2.0))[0] == 0
    status, out = run(startup(1.0, 1.0), startup(2.0, 1.0))
    assert status == 1 and "gpuens, warm cache · import (time)" in out


def test_kernels_are_compared_by_the_machines_own_speed(run):
    def kernels(seconds, floor):
        op = {"seconds": [seconds] * 3, "median": seconds, "floor": floor, "bytes": 5}
        return record_of("kernels", {"cpu": {"ops": {"histogram; 1M × 28": op}, "gaps": []}})

    assert run(kernels(1.0, 0.5), kernels(1.5, 0.75))[0] == 0
    assert run(kernels(1.0, 0.5), kernels(1.5, 0.5))[0] == 1


def scaling(ours, peer, stage=0.1, n_rows=1000):
    def timed(seconds):
        return {"seconds": [seconds] * 3, "median": seconds, "spread": 0.0}

    libraries = {
        "gpuens": {"fit": timed(ours), "stages": {"split": timed(stage)},
                   "memory": {"bytes": [10**8], "peak": 10**8}},
        "LightGBM": {"fit": timed(peer), "memory": {"bytes": [10**9], "peak": 10**9}},
    }  # fmt: skip
    rung = {"n_rows": n_rows, "n_features": 28, "n_trees": 20, "depth": None, "threads": 2,
            "libraries": libraries, "missing": {}}  # fmt: skip
    return record_of("scaling", {"axes": {"rows": {"rungs": [rung], "exponents": {}}}, "gaps": []})


def test_scaling(run):
    assert run(scaling(1.0, 2.0), scaling(2.0, 4.0, 0.2))[0] == 0
    status, out = run(scaling(1.0, 2.0), scaling(2.0, 4.0, 0.3))
    assert status == 1  # an operation has no other library beside it: that of its rung serves
    assert "rows · 1000 rows, 28 features, 20 trees, 2 threads · gpuens · stages · split" in out
    status, out = run(scaling(1.0, 2.0), scaling(2.0, 2.0))
    assert status == 1 and "gpuens · fit (time)" in out


def test_other_settings_are_refused(run):
    new = fit(1.0) | {"settings": {"trees": 20}}
    status, out = run(fit(1.0), new)
    assert status == 2 and "other settings (trees: 100 → 20). Measure again" in out
    assert run(fit(1.0), fit(1.0) | {"settings": {"trees": 100, "repeats": 9}})[0] == 0


def test_other_programs_are_refused(run):
    status, out = run(fit(1.0), record_of("memory", {}))
    assert status == 2 and "of different programs, 'fit' and 'memory'" in out


def test_files_without_runs_are_refused(run):
    identity = record_of("identity", {"identical": True})
    status, out = run(identity, identity)
    assert status == 2 and "'identity' have no runs in common" in out


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('{"benchmark": "fit", "res', "is damaged: not valid JSON"),
        ("[1]", "is not a result file: it holds a list"),
        (fit(1.0) | {"format": 2}, "has format 2, this program reads format 1"),
        (fit(1.0) | {"format": None}, "has format None"),
        (fit(1.0) | {"benchmark": "knit"}, "unknown program, 'knit'. Known are identity, fit,"),
        (fit(1.0) | {"results": [1]}, "'results' must be a dict, it holds a list"),
        ({"benchmark": "fit"}, "is damaged: 'date' must be a str, it holds nothing"),
    ],
)
def test_bad_files_are_refused_by_name(run, tmp_path, content, text):
    status, out = run(fit(1.0), content)
    assert status == 2 and str(tmp_path / "new.json") in out and text in out
    status, out = run(content, fit(1.0))
    assert status == 2 and str(tmp_path / "old.json") in out and text in out


def test_a_missing_file_is_refused(tmp_path, capsys):
    path = tmp_path / "none.json"
    assert compare.main([str(path), str(path)]) == 2
    assert f"{path} cannot be read" in capsys.readouterr().out


def test_files_without_a_format_are_of_the_first():
    record = fit(1.0)
    del record["format"]
    assert compare.compare(record, fit(1.0), 0.05).changes


WITHOUT_RUNS = "batches", "cluster_faults", "distributions", "gpu_model", "identity"
"""Programs whose results ``series_of`` finds nothing in: shares, counts and scores of a kind of
their own."""
WITHOUT_SPEED = "ranking", "survival"
"""Programs of which some results have a part with such scores alone."""
WRITTEN = [path for path in sorted(RESULTS.rglob("*.json")) if path.name.startswith(WRITERS)]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_the_results_of_this_repository_can_be_read_and_are_no_worse_than_themselves(path):
    record = read_record(path)
    named = WITHOUT_RUNS if "speed" in record["results"] else WITHOUT_RUNS + WITHOUT_SPEED
    if record["benchmark"] not in named:
        found = compare.compare(record, record, 0.05)
        assert found.changes and not found.missing and not found.not_comparable
        assert all(change.ratio == pytest.approx(1) for change in found.changes)
        assert not any(change.worse or change.better for change in found.changes)
    else:
        assert not compare.series_of(record["results"])


def test_runs_are_found_in_every_form():
    results = {
        "table": {"libraries": {"gpuens": {"seconds": [1, 2]}, "XGBoost": {"seconds": [3]}}},
        "row": {"libraries": {"gpuens": {"microseconds": [5.0]}}},
        "huber": {"mean": 0.3, "splits": [0.3, 0.31]},
        "errors": {"stumps": {"gpuens": 6.0, "scikit-learn": [6.5, 6.6]}},
        "list": [{"n_rows": 10, "libraries": {"gpuens": {"seconds": [1]}}}],
        "adult": {"losses": {"stack": [0.3]}, "seconds": {"stack": [2.0]}},
        "gaps": ["nothing"],
        "empty": {"seconds": []},
    }
    found = {series.path: (series.kind, series.runs, series.peer) for series in series_of(results)}
    assert found == {
        ("table", "libraries", "gpuens"): ("time", (1, 2), None),
        ("table", "libraries", "XGBoost"): ("time", (3,), "XGBoost"),
        ("row", "libraries", "gpuens"): ("time", (5.0,), None),
        ("huber",): ("loss", (0.3, 0.31), None),
        ("stumps", "gpuens"): ("loss", (6.0,), None),
        ("stumps", "scikit-learn"): ("loss", (6.5, 6.6), "scikit-learn"),
        ("adult", "stack"): ("loss", (0.3,), None),
        ("adult", "seconds", "stack"): ("time", (2.0,), None),
        ("list", "10 rows", "libraries", "gpuens"): ("time", (1,), None),
    }


def test_a_file_is_replaced_at_once(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    records.replace_text(path, "old")

    def full(*args):
        raise OSError("disk full")

    monkeypatch.setattr(records.os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        records.replace_text(path, "new")
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["a.json"]
