"""The report: its figures, its order, and results that are missing or damaged."""

from __future__ import annotations

import json
from copy import deepcopy

import numpy as np
import pytest

from benchmarks.__main__ import program
from benchmarks.report import conformance_results, figures, figures_gpu, report
from benchmarks.report.figure import Figure
from benchmarks.report.markdown import details, number, table
from gpuens.datasets import make_higgs_like

MACHINE = {"cpu": "A processor", "cores": 2, "ram_gib": 23.4, "gpus": []}
COMMON = {
    "machine": MACHINE, "versions": {"gpuens": "1.0", "python": "3.12"},
    "date": "2026-01-01T00:00:00+00:00", "settings": {"rows": 1000, "trees": 100},
}  # fmt: skip


def timed(**medians):
    """Libraries with medians, and gpuens' ratio to each of the others."""
    ours = medians["gpuens"]
    return {
        name: {"median": value} | ({} if name == "gpuens" else {"ratio": ours / value})
        for name, value in medians.items()
    }


def rung(n_rows, seconds, relative):
    ours = {"fit": {"median": seconds}, "memory": {"relative": relative}}
    return {"n_rows": n_rows, "libraries": {"gpuens": ours, "XGBoost": {"fit": {"median": 9.0}}}}


LINE = {"exponent": 1.01, "r2": 0.999, "from": 1e5, "to": 1e7}
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
    "memory": {"gpuens": {"relative": 0.5}},
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
    "forests": {"identity": {"equal": {"a": True, "b": False}}, "predict": {"gaps": ["no memory"]}},
    "published": {"out_of_bag": {"letter": {
        "out of bag": {"errors": {"gpuens": [4.0]}}, "test": {"errors": {"gpuens": [3.0]}}}}},
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
    "stacking": {"adult": {"title": "adult: 9 × 2", "best": "boosting", "ratios": {"stack": 1.0},
                           "losses": {"stack": [0.25], "boosting": [0.25]}}},
    "inspection": {
        "partial_dependence": {"n_trees": 40, **{
            name: {"libraries": timed(gpuens=1.0, **{"scikit-learn, brute force": 40.0})}
            for name in ("one feature", "two features")}},
        "diversity": {"n_models": 200, "n_rows": 100_000, "median": 2.5},
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
    """What is measured and whether that is enough, by the figure's first words."""
    return {f.what: (f.measured, f.reached) for f in figures.FIGURES[name](records[name])}


def test_every_program_with_figures_is_tried_here():
    assert set(figures.FIGURES) <= set(RESULTS)


def test_figures_of_time(records):
    assert measured("fit", records) == {
        "train 1M × 28 ÷ LightGBM": (0.25, True),
        "train 15k × 16, 26 classes ÷ the fastest (XGBoost)": (0.75, False),
        "log loss, 15k × 16, 26 classes ÷ LightGBM": (0.8, True),
    }
    del records["fit"]["results"]["letter"]
    letters = [f for f in figures.FIGURES["fit"](records["fit"]) if "letter" in f.what]
    assert [f.at_most for f in letters] == [0.60, 1.01]
    assert all(f.measured is None and f.reached is None for f in letters)
    assert measured("many_fits", records) == {
        "50 fits of 2k × 20 at once ÷ LightGBM one by one": (0.25, True)
    }
    assert list(measured("scaling", records).values()) == [(1.01, True), (0.75, True)]


def test_figures_of_variants(records):
    assert list(measured("adaboost", records).values()) == [
        (0.02, True), (6.25, True), (5.5, False), (0.75, False), (0, True)]  # fmt: skip
    assert list(measured("losses", records).values()) == [
        (0.31, True), (5.0, False), (1.004, True)]  # fmt: skip
    assert list(measured("categories", records).values()) == [(1.005, True)]
    assert list(measured("inspection", records).values()) == [
        (0.025, True), (0.025, True), (2.5, False)]  # fmt: skip


def test_a_stack_must_be_below_its_best_member(records):
    assert list(measured("stacking", records).values()) == [(1.0, False)]
    assert Figure("a", 1.0, 0.99, below=True).reached
    assert "| below 1 |" in report.section(records)


def test_figures_of_gpus_stand_there_before_they_are_measured():
    text = report.section({})
    assert text.count("| not run on hardware |") == len(figures_gpu.ASKED) == 16
    assert "0 of 14 figures asked for are reached, 0 are not, 14 are not measured" in text
    results = {"figures": {"fit_11m": 0.4, "fit_100k_tree": 2.0},
               "fit": [{"identical_to_cpu": True, "n_rows": 10, "n_features": 2, "n_trees": 3,
                        "libraries": timed(gpuens=1.0)}, {}]}  # fmt: skip
    found = [f for f in figures.gpu({"results": results}) if f.measured is not None]
    assert [(f.measured, f.reached) for f in found] == [(0.4, True), (2.0, False), (0, True)]


def test_the_order_is_a_readers(records):
    text = report.section(records, {"fit": "fit.png"})
    heads = [line[4:] for line in text.splitlines() if line.startswith("### ")]
    assert heads == [
        "Time to train and to predict", "Accuracy",
        "Trees, bagging and forests beside scikit-learn's", "AdaBoost, losses, categories",
        "Stacks, votes, inspection", "Growth with the data", "Memory and new processes",
        "On a GPU", "The same model everywhere", "Operations beside their floors",
    ]  # fmt: skip
    assert "damaged" not in text
    assert text.count("<details>") == text.count("</details>") == text.count("<summary>")
    first = text.splitlines()[0]
    everything = [f for name in figures.FIGURES for f in figures.FIGURES[name](records[name])]
    reached = [f.reached for f in everything]
    assert f"**{reached.count(True)} of {len(reached) + 14} figures" in first
    assert f"{reached.count(False)} are not, 14 are not measured.**" in first


@pytest.mark.parametrize(
    "line",
    [
        "![Time to train relative to gpuens](fit.png)",
        "| 1,000,000 rows, 100 trees | 0.2 s | 1.0000 s |",
        "| one row, 400 trees | 50 µs | 25 µs |",
        "| LightGBM, its settings | 1.0000 | 1.0100 (adult) | 2 |",
        "| random forest | 1.000 | 2.000 ± 0.250 (adult) | 2 |",
        "| stacking | not measured |  |  |",
        "| random forest: adult, error in % | 6.0 ± 2.0 | 3.0 ± 1.0 | 2.00 ± 0.25 "
        "| 3.5 (A. Author 1999) |",
        "| random forest: bike, RMSE | 1 | 2 | 0.5 |  |",
        "| gamma | 0.25 | 0.9900 |",
        "| adult | 0.2500 | 1.0050 | 0.9800 |",
        "| 10,000,000 | 90 | 9 |",
        "| gpuens, fit | 1.010 | 0.9990 |",
        "| scikit-learn | 1.50 | 0.25 | 0.50 | 2.25 |",
        "CPU: a copy moves 20 GB/s, histograms take 4 additions a ns.",
        "| quantise | 9 × 2 | 2 | 1 … 4 | 16 |  | 1 | 50% |",
        "- no stack", "- no memory", "- kernels on a GPU: none is here",
        "- higgs_lightgbm.npz is not there",
        "Identical fingerprints (compared: threads, simulator).",
    ],
)  # fmt: skip
def test_what_is_shown(records, line):
    assert line in report.section(records, {"fit": "fit.png"})


@pytest.mark.parametrize("results", [{}, {"n": 3}, {"1m": {"libraries": None}}, {"axes": []}])
@pytest.mark.parametrize("name", [*RESULTS, "gpu", "conformance"])
def test_a_damaged_result_hides_nothing_else(records, name, results):
    text = report.section({**records, name: record_of(name, results)})
    headings = {"accuracy": "Accuracy", "fit": "AdaBoost, losses, categories"}
    assert all(f"### {heading}" in text for of, heading in headings.items() if of != name)
    assert "### On a GPU" in text and "| not run on hardware |" in text
    if not results and name in ("predict", "startup", "memory", "categories", "scaling"):
        assert f"figures of {name}: its result is damaged: KeyError" in text


def test_files_that_cannot_be_read_are_named(records, tmp_path, capsys):
    readme = tmp_path / "README.md"
    readme.write_text(f"# Title\n\n{report.START}\nold\n{report.END}\n")
    for name, record in records.items():
        (tmp_path / f"{name}-a.json").write_text(json.dumps({**record, "format": 1}))
    (tmp_path / "memory-b.json").write_text('{"benchmark": "memory", "da')
    (tmp_path / "nobody-c.json").write_text(json.dumps(record_of("nobody", {})))
    (tmp_path / "conformance-x.json").write_text("[]")
    assert report.main(["--output", str(tmp_path), "--readme", str(readme)]) == 0
    text = readme.read_text()
    assert "- memory-b.json is damaged" in text and "| 0.5 | yes |" in text
    assert "- nobody-c.json was written by an unknown program" in text
    assert "- conformance-x.json is damaged" in text
    assert str(tmp_path) not in text
    out = capsys.readouterr().out
    assert all(f"skipped: {name}" in out for name in ("memory-b", "nobody-c", "conformance-x"))


def test_the_ladder_of_rows_of_boosting_is_shown(records, tmp_path):
    for day, change in (("02", {"estimator": "random_forest"}), ("01", {})):
        record = {**records["scaling"], "date": f"2026-01-{day}", "settings": change}
        (tmp_path / f"scaling-{day}.json").write_text(json.dumps(record))
    found, problems = report.read_all(tmp_path)
    assert found["scaling"]["date"] == "2026-01-01" and problems == []


def test_conformance_is_a_table_for_each_list():
    results = {"suites": [{"file": "test_tree", "passed": 0.5}, {"file": "a|b", "cases": 3}],
               "reasons": {"no sparse tables": 4}, "complete": True}  # fmt: skip
    suites, reasons = conformance_results.text({"results": results})
    assert suites.splitlines()[2:] == ["| test_tree | 50.0% |  |", "| a\\|b |  | 3 |"]
    assert reasons.splitlines()[2:] == ["| no sparse tables | 4 |"]


def test_the_cases_of_conformance_are_counted(records):
    rows = [{"test file": "a", "cases": 300, "cases passed": 0.99},
            {"test file": "b", "tests": "broke off"},
            {"test file": "c", "cases": 700, "cases passed": 0.91}]  # fmt: skip
    records["conformance"] = record_of("conformance", {"own tests": rows})
    text = report.section(records)
    assert "934 of 1,000 cases pass (93.4%)." in text
    assert "| b |  |  | broke off |" in text


def test_markdown():
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | ---: |\n| 1 | 2 |"
    assert details("s", ["x", "y"]).splitlines()[2:5] == ["", "x", ""]
    assert [number(v) for v in (1234.5, 12.345, 0.01234, 1.00049)] == [
        "1234", "12.3", "0.0123", "1.0005"]  # fmt: skip


PROGRAMS = {
    "adaboost": "--rows 400 --rounds 4 --scale 2 --draws 1 --repeats 1 --threads 1",
    "losses": "--splits 1 --rounds 3 --only huber spambase",
    "categories": "--seeds 1 --trees 2 --threads 1",
    "inspection": "--rows 200 --trees 2 --points 4 --points-of-two 2 --models 3 --repeats 1",
    "many_fits": "--rows 200 --trees 2 --repeats 1 --threads 1",
    "kernels": "--rows 200 --features 3 --trees 2 --repeats 1 --threads 1",
    "memory": "--repeats 1 --threads 1 --rows 500 --trees 2",
}


@pytest.mark.slow
def test_what_the_programs_write_can_be_shown(tmp_path, monkeypatch):
    from benchmarks.common import peers

    monkeypatch.setattr(peers, "installed", lambda names: [n for n in names if n == "gpuens"])
    X, y = make_higgs_like(300, 5)
    X[:, 4] = np.arange(300) % 3
    more = {"is_test": np.arange(300) % 3 == 0, "is_categorical": np.arange(5) == 4}
    for name in ("spambase", "adult", "california_housing"):
        np.savez(tmp_path / f"{name}.npz", X=X, y=y, **more)
    for name, options in PROGRAMS.items():
        arguments = ["--output", str(tmp_path), *options.split()]
        if name in ("adaboost", "losses", "categories"):
            arguments += ["--data", str(tmp_path)]
        assert program(name).main(arguments) == 0
    records, problems = report.read_all(tmp_path)
    assert problems == [] and list(records) == [n for n in report.PROGRAMS if n in PROGRAMS]
    text = report.section(records)
    assert "damaged" not in text
    assert "| spambase, AdaBoost with stumps: test error | 6.5 % |" in text
