"""The report: goals, tables, their order, and results that are missing or damaged."""

from __future__ import annotations

import json
from copy import deepcopy
from importlib.util import find_spec

import numpy as np
import pytest

from benchmarks.__main__ import program
from benchmarks.report import conformance, report

MACHINE = {"cpu": "A processor", "cores": 2, "ram_gib": 23.4, "gpus": []}
COMMON = {
    "machine": MACHINE, "versions": {"gpuens": "1.0", "python": "3.12"},
    "date": "2026-01-01T00:00:00+00:00",
    "settings": {"rows": 1000, "trees": 100, "batch_rows": 1000},
}  # fmt: skip


def timed(**medians):
    """Libraries with medians, and gpuens' ratio to each of the others."""
    ours = medians["gpuens"]
    return {
        name: {"median": value} | ({} if name == "gpuens" else {"ratio": ours / value})
        for name, value in medians.items()
    }


def rung(n_rows, seconds, relative):
    def timed(median):
        return {"median": median, "seconds": [median], "spread": 0.0}

    ours = {"fit": timed(seconds), "memory": {"peak": 4e6, "relative": relative}}
    return {"n_rows": n_rows, "libraries": {"gpuens": ours, "XGBoost": {"fit": timed(9.0)}}}


LINE = {"exponent": 1.01, "r2": 0.999, "worst": 1.1, "from": 1e5, "to": 1e7}
RESULTS = {
    "identity": {"equal": {"threads": {"a": True}, "simulator": {"b": True}}},
    "fit": {
        "1m": {"title": "1M × 28", "libraries": timed(gpuens=1.0, LightGBM=4.0)},
        "letter": {
            "title": "15k × 16, 26 classes",
            "libraries": {
                "gpuens": {"median": 3.0, "quality": {"log_loss": 0.2}},
                "LightGBM": {"median": 6.0, "ratio": 0.5, "quality": {"log_loss": 0.25}},
                "XGBoost": {"median": 4.0, "ratio": 0.75, "quality": {"log_loss": 0.5}},
            },
        },
    },
    "predict": {
        "table": {"n_rows": 10**6, "n_trees": 100, "libraries": timed(gpuens=0.2, XGBoost=1.0)},
        "row": {"n_rows": 1, "n_trees": 400, "libraries": timed(gpuens=50.0, XGBoost=25.0)},
    },
    "many_fits": {"title": "2k × 20", "n_fits": 50, "libraries": timed(gpuens=1.0, LightGBM=4.0)},
    "startup": {
        "medians": {"gpuens, warm cache": {
            "import": 0.5, "first fit": 0.75, "first predict": 0.1, "import + first fit": 1.25}},
        "loaded": {"medians": {"scikit-learn": {
            "import": 1.5, "load": 0.25, "first predict": 0.5, "import to first predict": 2.25}}},
    },
    "first_model": {
        "medians": {
            "boosting, empty cache": {"total": 30.0, "CPU": 28.0},
            "boosting, warm cache": {"total": 1.5, "CPU": 1.0},
            "tree, warm cache": {"total": 1.0, "CPU": 1.0},
            "XGBoost": {"total": 1.5, "CPU": 1.0}, "LightGBM": {"total": 1.25, "CPU": 1.0}},
        "imports": {"tree": {"scipy": 500.0, "lzma": 3.0, "gpuens.kernels": 20.0}},
        "environment": {"python": "3.12", "numpy": "2.0"},
    },
    "native": {"1M × 28, 10 trees": {"native": 2.0, "compiled": 2.5, "ratio": 0.8}},
    "memory": {"gpuens": {"relative": 0.5, "runs": [{"bytes": 4e6}]}},
    "accuracy": {
        "summary": {"same as LightGBM": {"LightGBM": {
            "ratios": {"adult": 1.01, "bike": 0.99}, "geometric_mean": 1.0, "worst": 1.01}}},
        "estimators": {
            "random forest": {
                "adult": {"metric": "error in %", "ratio": 2.0, "ratio_standard_error": 0.25,
                          "losses": {"gpuens": [4.0, 8.0], "scikit-learn": [2.0, 4.0]},
                          "published": {"value": 3.5, "source": "A. Author 1999"}},
                "bike": {"metric": "RMSE", "ratio": 0.5, "ratio_standard_error": None,
                         "losses": {"gpuens": [1.0], "scikit-learn": [2.0]}},
            },
            "stacking": {"bike": {"metric": "RMSE", "losses": {}, "gaps": ["no stack"]}},
        },
        "gaps": ["higgs_lightgbm.npz is not there"],
    },
    "forests": {
        "depth_14": {"title": "100k × 28", "n_trees": 40, "libraries": {
            "gpuens": {"median": 1.0, "quality": {"auc": 0.81}},
            "scikit-learn": {"median": 10.0, "ratio": 0.1, "quality": {"auc": 0.8125}}}},
        "identity": {"equal": {"a": True, "b": False}, "gaps": []},
        "predict": {"gaps": ["no memory"]}},
    "published": {
        "spambase": {"bagging": {"errors": {"gpuens": [5.0, 6.0]}, "published": 5.4, "asked": 6.0}},
        "protocol": {
            "glass": {"single": {"errors": {"gpuens": [24.0]}, "published": [21.2, 22.6]},
                      "selection": {"errors": {"gpuens": [21.0]}, "published": [20.6, 22.5]}},
            "sonar": {"gaps": ["no sonar"]}},
        "out_of_bag": {"letter": {
            "out of bag": {"errors": {"gpuens": [4.0]}}, "test": {"errors": {"gpuens": [3.0]}}}},
    },
    "adaboost": {
        "stumps": {"n_rounds": 400, "title": "100k × 28",
                   "libraries": timed(gpuens=1.0, **{"scikit-learn": 50.0})},
        "spambase": {"errors": {"stumps": {"gpuens": 6.25, "scikit-learn": 6.0},
                                "trees of 16 leaves": {"gpuens": 5.5}}},
        "chi_squared": {"means": {"gpuens": 11.0, "scikit-learn": 11.75}},
        "identity": {"equal": {"stumps": True}},
    },
    "losses": {
        "huber": {"mean": 0.31}, "spambase": {"mean": 5.0},
        "exposure": {"ratios": {"max_delta_step=0.7": 1.004}, "worst": 1.004},
        "same_settings": {"gamma": {"losses": {"gpuens": [0.25]}, "ratios": {"LightGBM": 0.99}}},
    },
    "categories": {"losses": {"adult": {"gpuens": [0.25]}},
                   "ratios": {"adult": {"LightGBM": 1.005, "numbers": 0.98}}},
    "ranking": {
        "quality": {"gpuens": {"ndcg": [0.5, 0.5, 0.75, 0.75], "mean": 0.625, "spread": 0.0,
                               "standard_errors": [0.0] * 5},
                    "XGBoost": {"ndcg": [0.5, 0.75, 0.75, 0.5], "mean": 0.625, "spread": 0.1,
                                "standard_errors": [0.25] * 5}},
        "speed": {"gpuens": {"seconds": [1.0], "ratio": 1.0, "ndcg": 0.5},
                  "LightGBM": {"seconds": [2.0], "ratio": 0.5, "ndcg": 0.5}},
    },
    "distributions": {
        "quality": {"bike": {"gpuens": {"nll": [-2.0], "seconds": [1.0], "rounds": [5]},
                             "NGBoost": {"nll": [-2.5], "seconds": [20.0], "rounds": [5]}}},
        "coverage": {"split": {"coverage": 0.875, "width": 2.0, "spread": 0.01}},
    },
    "oblique": {
        "generated": {"parity, 1,000 rows": {"least": 0.0, "forests": {
            "gpuens": {"errors": [0.125, 0.25], "seconds": [4.0, 4.0], "combinations": [3.0, 3.0]},
            "scikit-learn": {"errors": [0.25, 0.5], "seconds": [1.0, 1.0]}}}},
        "tables": {"sonar": {"forests": {
            "gpuens": {"errors": [0.25], "seconds": [4.0], "combinations": [1.0]},
            "scikit-learn": {"errors": [0.25], "seconds": [1.0]}}}},
        "numbers": {"ames": {"forests": {
            "gpuens": {"errors": [25000.0], "seconds": [4.0], "combinations": [3.0],
                       "looked_at": [300]},
            "scikit-learn": {"errors": [30000.0], "seconds": [1.0]}}}},
    },
    "cluster": {
        "workers": {"rows": 10, "libraries": {
            "two workers": {"seconds": [2.5]}, "one process": {"seconds": [2.0], "ratio": 1.25}}},
        "peers": {"rows": 10, "libraries": {
            "gpuens": {"seconds": [2.0]}, "LightGBM": {"seconds": [4.0], "ratio": 0.5},
            "XGBoost": {"seconds": [2.0], "ratio": 1.0}}},
    },
    "cluster_faults": {
        "killed": {"waits": [1.0, 6.0], "identical": 2, "left": 0},
        "stopped": {"waits": [1.0, 6.0], "identical": 1, "left": 0},
    },
    "batches": {
        "ratio": 1.25, "limit": 3.5,
        "from batches": {"rows": 10, "binning": 1.0, "fit": 2.0,
                         "binning_bytes": 0.25e9 + 2 * 4 * 28 * 1000 + 10,
                         "fit_bytes": 1e9, "file_bytes": 1e9, "most_bytes": 4e9},
        "in memory": {"rows": 10, "fit": 2.0},
    },
    "sparse": {"counts": {
        "gpuens": {"runs": [{"cpu": 1.0, "wall": 1.0, "mb": 350.0, "accuracy": 0.9}], "ratio": 1.0},
        "LightGBM": {"runs": [{"cpu": 2.0, "wall": 1.0, "mb": 9.0, "accuracy": 0.9}], "ratio": 0.5},
    }},
    "stacking": {"adult": {"title": "adult: 9 × 2", "best": "boosting", "ratios": {"stack": 1.0},
                           "losses": {"stack": [0.25], "boosting": [0.25]},
                           "seconds": {"stack": [2.0]}}},
    "inspection": {
        "partial_dependence": {"n_trees": 40, **{
            name: {"libraries": timed(gpuens=1.0, **{"scikit-learn, brute force": 40.0})}
            for name in ("one feature", "two features")}},
        "diversity": {"n_models": 200, "n_rows": 100_000, "median": 2.5},
    },
    "explain": {
        "values": {"n_trees": 1000, "n_rows": 1000, "additivity": {"gpuens": 1e-15},
                   "libraries": timed(gpuens=1.0, XGBoost=20.0)},
        "interactions": {"n_trees": 100, "n_rows": 300,
                         "libraries": timed(gpuens=1.0, XGBoost=10.0)},
        "background": {"gaps": ["shap is not installed"]},
    },
    "scaling": {"gaps": [], "axes": {"rows": {
        "title": "28 features", "exponents": {"gpuens": {"fit": LINE}},
        "rungs": [rung(10**5, 1.0, 2.0), rung(10**7, 90.0, 0.75)]}}},
    "kernels": {
        "cpu": {"floors": {"copied_bytes_per_second": 2e10, "updates_per_second": 4e9},
                "ops": {"quantise; 9": {
                    "op": "quantise", "size": "9 × 2", "median": 0.002, "spread": [0.001, 0.004],
                    "bytes": 16e6, "updates": 0, "floor": 0.001, "share": 0.5}}},
        "gpu": {"gaps": ["kernels on a GPU: none is here"]},
    },
}  # fmt: skip


def record_of(name, results):
    return {**COMMON, "benchmark": name, "results": results}


@pytest.fixture
def records():
    return {name: record_of(name, deepcopy(results)) for name, results in RESULTS.items()}


def measured(name, records):
    """The measured values of a program's goals, and whether they are reached."""
    goals = report.part_of(name, "goals")(records[name])
    return [(goal.measured, goal.reached) for goal in goals]


@pytest.mark.parametrize(
    "name, found",
    [
        ("fit", [(0.25, True), (0.75, False), (0.8, True)]),
        ("predict", [(0.2, False), (2.0, False)]),
        ("many_fits", [(0.25, True)]),
        ("startup", [(1.25, True)]),
        ("first_model", [(30.0, False), (20.0, False), (1.5, False), (1.0, True), (28.0, False)]),
        ("native", [(0.8, True)]),
        ("memory", [(0.5, True)]),
        ("accuracy", [(1.0, True), (1.01, True)]),
        ("scaling", [(1.01, True), (0.75, True)]),
        ("forests", [(0.1, True), (pytest.approx(0.0025), False), (1, False)]),
        ("published", [(5.5, True), (pytest.approx(1.4), True), (1.0, True)]),
        ("adaboost", [(0.02, True), (6.25, True), (5.5, False), (0.75, False), (0, True)]),
        ("losses", [(0.31, True), (5.0, False), (1.004, True)]),
        ("categories", [(1.005, True)]),
        ("ranking", [(0, True), (0.25, False), (0, True), (-0.25, True), (0, True), (0.5, True)]),
        ("distributions", [(0.5, False), (0.05, True), (pytest.approx(0.025), False)]),
        ("oblique", [(0.5, True)]),
        ("cluster", [(1.25, True), (1.0, False)]),  # the larger ratio is to the faster library
        (
            "cluster_faults",
            [(0, True), (6.0, False), (0, True), (1, False), (6.0, True), (0, True)],
        ),
        ("batches", [(1.25, True), (0.25, True), (4.0, False)]),
        ("sparse", [(0.5, True), (350.0, False)]),
        ("stacking", [(1.0, False)]),  # it must be below
        ("inspection", [(0.025, True), (0.025, True), (2.5, False)]),
        ("explain", [(0.05, True), (0.1, False), (1e-15, True)]),
    ],
)
def test_goals(records, name, found):
    assert measured(name, records) == found


def test_letters_that_are_missing_are_goals_without_a_measurement(records):
    del records["fit"]["results"]["letter"]
    assert measured("fit", records) == [(0.25, True), (None, None), (None, None)]


def test_goals_for_gpus_are_listed_before_they_are_measured():
    text = report.text_of({})
    assert "**0 of 14 goals are reached, 0 are missed, 14 are not measured.**" in text
    assert text.count("is not run on hardware") == 17
    assert "`make gpu-check` measures one" in text


def test_the_order_is_a_readers(records):
    text = report.text_of(records, {"fit": "![a](fit.png)"})
    heads = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert heads == [
        *(title for title in report.SECTIONS if title != "scikit-learn's own tests"),
        "Goals", "Machines, versions, and what is missing",
    ]  # fmt: skip
    assert "damaged" not in text
    assert text.count("<details>") == text.count("</details>") == text.count("<summary>")
    missed = text[text.index("### Missed") : text.index("### Reached")].strip().splitlines()[2:]
    reached = [found for name in RESULTS if name not in ("identity", "kernels")
               for _, found in measured(name, records)]  # fmt: skip
    assert len(missed) == reached.count(False)
    assert (
        "- The test error of gradient boosting on spambase is 5 %; the goal is at most 4.9 %."
        in (missed)
    )
    assert f"**{reached.count(True)} of {len(reached) + 14} goals are reached" in text


@pytest.mark.parametrize(
    "line",
    [
        "![a](fit.png)",
        "| 1,000,000 rows, 100 trees | 0.2 s | 1.0000 s |",
        "| one row, 400 trees | 50 µs | 25 µs |",
        "| LightGBM, its settings | 1.0000 | 1.0100 (adult) | 2 |",
        "| random forest | 1.000 | 2.000 ± 0.250 (adult) | 2 |",
        "| stacking | not measured |  |  |",
        "| random forest: adult, error in % | 6.0 ± 2.0 | 3.0 ± 1.0 | 2.00 ± 0.25 "
        "| 3.5 (A. Author 1999) |",
        "| random forest: bike, RMSE | 1 | 2 | 0.5 |  |",
        "| train a forest of depth 14, 100k × 28 | 1.00 s | 10.0 s |",
        "| spambase, bagging | 5.4 | 5.50 |",
        "| glass, single | 21.2 / 22.6 | 24.00 |",
        "| letter, out of bag |  | 4.00 |",
        "| gamma | 0.25 | 0.9900 |",
        "| adult | 0.2500 | 1.0050 | 0.9800 |",
        "| stack | 0.2500 | 1.0000 | 2.0 |",
        "| 10M | 90 | 9 |",
        "| 10M | 4 (0.750) |  |",
        "| gpuens, fit | 1.010 | 0.9990 | 1.10 | 100k … 10M |",
        "| scikit-learn | 1.50 | 0.25 | 0.50 | 2.25 |",
        "| boosting, warm cache | 1.50 | 1.00 |",
        "| tree | 500 | 0 | 0 | 0 | 0 | 0 | 0 | 20 | 3 | 523 |",
        "First models were fitted with python 3.12, numpy 2.0.",
        "CPU: a copy moves 20 GB/s, histograms take 4 additions a ns. The floor",
        "| quantise; 9 × 2 | 2 | 1 … 4 | 16 |  | 1 | 50% |",
        "- no stack", "- no memory", "- no sonar", "- kernels on a GPU: none is here",
        "- higgs_lightgbm.npz is not there",
        "Identical fingerprints (compared: threads, simulator).",
    ],
)  # fmt: skip
def test_what_is_shown(records, line):
    assert line in report.text_of(records, {"fit": "![a](fit.png)"})


@pytest.mark.parametrize("results", [{}, {"n": 3}, {"1m": {"libraries": None}}, {"axes": []}])
@pytest.mark.parametrize("name", [*RESULTS, "gpu", "conformance"])
def test_a_damaged_result_hides_nothing_else(records, name, results):
    text = report.text_of({**records, name: record_of(name, results)})
    headings = {"accuracy": "Accuracy", "fit": "AdaBoost, losses, categories"}
    assert all(f"## {heading}" in text for of, heading in headings.items() if of != name)
    assert "## On a GPU" in text and "is not run on hardware" in text
    if not results and name in ("startup", "memory", "categories", "scaling"):
        assert f"the goals of {name} are damaged: KeyError" in text


def test_files_that_cannot_be_read_are_named(records, tmp_path, capsys):
    for name, record in records.items():
        (tmp_path / f"{name}-a.json").write_text(json.dumps({**record, "format": 1}))
    (tmp_path / "memory-b.json").write_text('{"benchmark": "memory", "da')
    (tmp_path / "nobody-c.json").write_text(json.dumps(record_of("nobody", {})))
    (tmp_path / "conformance-x.json").write_text("[]")
    text = written(tmp_path)
    assert "- memory-b.json is damaged" in text and "as float32 is 0.5;" in text
    assert "- nobody-c.json was written by an unknown program" in text
    assert "- conformance-x.json is damaged" in text
    assert str(tmp_path) not in text
    out = capsys.readouterr().out
    assert all(f"skipped: {name}" in out for name in ("memory-b", "nobody-c", "conformance-x"))


def written(folder):
    """What the program writes."""
    path = folder / "benchmarks" / "RESULTS.md"
    path.parent.mkdir(exist_ok=True)
    assert report.main(["--output", str(folder), "--file", str(path)]) == 0
    return path.read_text()


def test_it_is_reproducible_and_takes_the_newest(records, tmp_path):
    for day, ours in (("2026-01-01", 9.0), ("2026-01-02", 1.0)):
        workload = {"title": "1M × 28, 2 classes", "libraries": timed(gpuens=ours, LightGBM=3.0)}
        record = record_of("fit", {"1m": workload}) | {"date": f"{day}T00:00:00+00:00"}
        (tmp_path / f"fit-a-processor-{day}.json").write_text(json.dumps(record))
    first = written(tmp_path)
    assert "| 1M × 28, 2 classes | 1.00 s | 3.00 s |" in first
    assert "- The time to train 1M × 28, 2 classes, relative to LightGBM is 0.333; the" in first
    assert "A processor, 2 cores, 23 GiB" in first
    picture = tmp_path / "docs" / "images" / "fit.png"
    drawn = picture.read_bytes() if find_spec("matplotlib") else None
    assert written(tmp_path) == first
    assert drawn is None or picture.read_bytes() == drawn


def test_the_ladder_of_rows_of_boosting_is_shown(records, tmp_path):
    for day, change in (("02", {"estimator": "random_forest"}), ("01", {})):
        record = {**records["scaling"], "date": f"2026-01-{day}", "settings": change}
        (tmp_path / f"scaling-{day}.json").write_text(json.dumps(record))
    found, problems = report.read_all(tmp_path)
    assert found["scaling"]["date"] == "2026-01-01" and problems == []


def test_conformance_is_a_table_for_each_list():
    results = {"suites": [{"file": "test_tree", "passed": 0.5}, {"file": "a|b", "cases": 3}],
               "reasons": {"no sparse tables": 4}, "complete": True}  # fmt: skip
    _, suites, reasons = conformance.show({"results": results})
    assert suites.splitlines()[2:] == ["| test_tree | 50.0% |  |", "| a\\|b |  | 3 |"]
    assert reasons.splitlines()[2:] == ["| no sparse tables | 4 |"]


def test_the_cases_of_conformance_are_counted(records):
    rows = [{"test file": "a", "cases": 300, "cases passed": 0.99},
            {"test file": "b", "tests": "broke off"},
            {"test file": "c", "cases": 700, "cases passed": 0.91}]  # fmt: skip
    records["conformance"] = record_of("conformance", {"own tests": rows})
    text = report.text_of(records)
    assert "934 of 1,000 cases pass (93.4%)." in text
    assert "| b |  |  | broke off |" in text


PROGRAMS = {
    "adaboost": "--rows 400 --rounds 4 --scale 2 --draws 1 --repeats 1 --threads 1",
    "losses": "--splits 1 --rounds 3 --only huber spambase",
    "categories": "--seeds 1 --trees 2 --threads 1",
    "inspection": "--rows 200 --trees 2 --points 4 --points-of-two 2 --models 3 --repeats 1",
    "many_fits": "--rows 200 --trees 2 --repeats 1 --threads 1",
    "ranking": "--seeds 1 --rounds 2 --queries 3 --repeats 1 --threads 1 --only speed",
    "kernels": "--rows 200 --features 3 --trees 2 --repeats 1 --threads 1",
    "memory": "--repeats 1 --threads 1 --rows 500 --trees 2",
    "sparse": "--repeats 1 --rows 500 --columns 900 --fill 0.02 --trees 2 --only counts",
}


@pytest.mark.slow
def test_what_the_programs_write_can_be_shown(tmp_path, write_table, only_libraries):
    only_libraries("gpuens")
    X = write_table.X
    X[:, 4] = np.arange(len(X)) % 3
    for name in ("spambase", "adult", "california_housing"):
        write_table(name, X=X, is_categorical=np.arange(5) == 4)
    for name, options in PROGRAMS.items():
        arguments = ["--output", str(tmp_path), *options.split()]
        if name in ("adaboost", "losses", "categories"):
            arguments += ["--data", str(write_table.folder)]
        assert program(name).main(arguments) == 0
    records, problems = report.read_all(tmp_path)
    assert problems == [] and list(records) == [n for n in report.PROGRAMS if n in PROGRAMS]
    text = report.text_of(records)
    assert "damaged" not in text and "The test error of AdaBoost with stumps on spambase is" in text
