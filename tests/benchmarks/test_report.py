"""The report: goals, tables, their order, and results that are missing or damaged."""

from __future__ import annotations

import json
from copy import deepcopy
from importlib.util import find_spec

import pytest

from benchmarks.__main__ import program
from benchmarks.common.records import RESULTS as RESULTS_FOLDER
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


RESULTS = {
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
    "first_model": {
        "processes": {
            "medians": {
                "boosting": {"total": 1.5, "CPU": 1.0}, "tree": {"total": 1.0, "CPU": 1.0},
                "XGBoost": {"total": 1.5, "CPU": 1.0}, "LightGBM": {"total": 1.25, "CPU": 1.0}},
            "imports": {"tree": {"scipy": 500.0, "lzma": 3.0, "gpuens.kernels": 20.0}},
        },
        "compiling": {"medians": {"boosting": {"total": 30.0, "CPU": 28.0}}},
    },
    "memory": {"gpuens": {"relative": 0.5, "bytes": [4e6]}},
    "defaults": {
        "adult": {"losses": {"gpuens": [3.0], "CatBoost": [2.0]}, "rows": 100,
                  "fit": {"gpuens": [1.0], "CatBoost": [4.0]},
                  "predict": {"gpuens": [1.0], "CatBoost": [0.5]}},
        "ames": {"gaps": ["no ames"]}},
    "accuracy": {
        "LightGBM's settings": {
            "adult": {"metric": "log loss", "losses": {"gpuens": [1.01], "LightGBM": [1.0]}},
            "bike": {"metric": "RMSE", "losses": {"gpuens": [1.0], "LightGBM": [1.0]}}},
        "random forest": {
            "spambase": {"metric": "error in %",
                         "losses": {"gpuens": [4.0, 8.0], "scikit-learn": [2.0, 4.0]}},
            "bike": {"metric": "RMSE", "losses": {"gpuens": [1.0], "scikit-learn": [2.0]}}},
        "stacking": {"bike": {"metric": "RMSE", "losses": {}, "gaps": ["no stack"]}},
        "gaps": ["higgs_lightgbm.npz is not there"],
    },
    "forests": {
        "depth_14": {"title": "100k × 28", "n_trees": 40, "libraries": {
            "gpuens": {"median": 1.0, "quality": {"auc": 0.81}},
            "scikit-learn": {"median": 10.0, "ratio": 0.1, "quality": {"auc": 0.8125}}}},
        "stumps": {"n_trees": 400, "title": "100k × 28",
                   "libraries": timed(gpuens=1.0, **{"scikit-learn": 50.0})},
        "predict": {"gaps": ["no memory"]}},
    "learners": {
        "ranking": {
            "five folds": {"gpuens": {"NDCG@5": [0.5, 0.75]}, "XGBoost": {"NDCG@5": [0.75, 0.75]},
                           "LightGBM": {"NDCG@5": [0.5, 0.5]}},
            "generated documents": {"gpuens": {"cpu": [1.0]}, "LightGBM": {"cpu": [4.0, 2.0, 1.0]}},
        },
        "survival": {"Cox, gbsg2": {"gpuens": {"concordance": [0.75]},
                                    "XGBoost": {"concordance": [0.5]}},
                     "forest, gbsg2": {"gpuens": {"concordance": [0.75]}}},
        "distributions": {"bike": {"gpuens": {"nll": [-2.0], "cpu": [1.0]},
                                   "NGBoost": {"nll": [-2.5], "cpu": [20.0]}}},
        "intervals": {"split": {"coverage": 0.875, "width": 2.0, "spread": 0.01}},
        "oblique": {
            "parity, 1,000 rows": {
                "gpuens": {"error": [0.125, 0.25], "cpu": [4.0, 4.0]},
                "scikit-learn": {"error": [0.25, 0.5], "cpu": [1.0, 1.0]},
                "the best rule": {"error": [0.0]}},
            "ames": {"gpuens": {"error": [25000.0], "cpu": [4.0]},
                     "scikit-learn": {"error": [30000.0], "cpu": [1.0]}},
            "sonar": {"gaps": ["no sonar"]},
        },
    },
    "cluster": {
        "workers": {"rows": 10, "libraries": {
            "two workers": {"median": 2.5}, "one process": {"median": 2.0, "ratio": 1.25}}},
        "peers": {"rows": 10, "libraries": {
            "gpuens": {"median": 2.0}, "LightGBM": {"median": 4.0, "ratio": 0.5},
            "XGBoost": {"median": 2.0, "ratio": 1.0}}},
    },
    "batches": {
        "ratio": 1.25, "limit": 3.5,
        "from batches": {"rows": 10, "binning": 1.0, "fit": 2.0,
                         "binning_bytes": 0.25e9 + 2 * 4 * 28 * 1000 + 10,
                         "fit_bytes": 1e9, "file_bytes": 1e9, "most_bytes": 4e9},
        "in memory": {"rows": 10, "fit": 2.0},
    },
    "kernels": {
        "cpu": {"title": "9 × 2, 3 trees", "models": {"boosting": {
            "fit": {"all": [0.1, 1], "growth.grow": [0.05, 3], "leaves.sums": [0.0001, 3]},
            "predict": {"all": [0.01, 1]}}}},
        "gpu": {"gaps": ["a GPU: none is here"]},
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
        ("first_model", [(1.5, False), (1.0, True), (28.0, False)]),
        ("memory", [(0.5, True)]),
        ("accuracy", [(pytest.approx(1.01**0.5), False), (1.01, True)]),
        ("defaults", [(1.5, False), (1.5, False), (0.25, False)]),
        ("forests", [(0.1, True), (pytest.approx(0.0025), False), (0.02, True)]),
        (
            "learners",
            [(0.125, False), (0.5, True), (-0.25, True), (0.5, False), (0.05, True),
             (pytest.approx(0.025), False), (0.5, True)],
        ),
        ("cluster", [(1.25, True), (1.0, False)]),  # the larger ratio is to the faster library
        ("batches", [(1.25, True), (0.25, True), (4.0, False)]),
    ],
)  # fmt: skip
def test_goals(records, name, found):
    assert measured(name, records) == found


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
    reached = [found for name in RESULTS if name != "kernels"
               for _, found in measured(name, records)]  # fmt: skip
    assert len(missed) == reached.count(False)
    assert "- The time to train 15k × 16, 26 classes, relative to the fastest other library " in (
        "\n".join(missed)
    )
    assert f"**{reached.count(True)} of {len(reached) + 14} goals are reached" in text


@pytest.mark.parametrize(
    "line",
    [
        "![a](fit.png)",
        "| 1,000,000 rows, 100 trees | 0.2 s | 1.0000 s |",
        "| one row, 400 trees | 50 µs | 25 µs |",
        "| LightGBM, LightGBM's settings | 1.0050 | 1.0100 (adult) | 2 |",
        "| random forest | 1.000 | 2.000 ± 0.000 (spambase) | 2 |",
        "| stacking | not measured |  |  |",
        "| random forest: spambase, error in % | 6.0 ± 2.0 | 3.0 ± 1.0 | 2 ± 0 "
        "| 4.88 (Hastie et al. 2009) |",
        "| random forest: bike, RMSE | 1 | 2 | 0.5 |  |",
        "| train a forest of depth 14, 100k × 28 | 1.00 s | 10.0 s |",
        "| CatBoost | 1.500 | 1.500 (adult) | 1 | 0.25 | 2.00 |",
        "| adult, 100 rows | 3 | 2 |",
        "| train AdaBoost with 400 stumps, 100k × 28 | 1.00 s | 50.0 s |",
        "| five folds: NDCG@5 | 0.625 | 0.75 | 0.5 |",
        "| generated documents | 1.00 | 2.00 |",
        "| forest, gbsg2: concordance | 0.75 |  |",
        "| split | 0.8750 | 2.000 | 0.0100 |",
        "| parity, 1,000 rows: error | 0.1875 | 0.375 | 0 |",
        "| boosting | 1.50 | 1.00 |", "| boosting | 30.00 | 28.00 |",
        "| tree | 500 | 0 | 0 | 0 | 0 | 0 | 0 | 20 | 3 | 523 |",
        "| growth.grow | 50 (3 calls) |",
        "- no stack", "- no memory", "- no sonar", "- a GPU: none is here",
        "- higgs_lightgbm.npz is not there",
        "- `python -m benchmarks fit --only words` has no result",
    ],
)  # fmt: skip
def test_what_is_shown(records, line):
    assert line in report.text_of(records, {"fit": "![a](fit.png)"})


@pytest.mark.parametrize("results", [{}, {"n": 3}, {"1m": {"libraries": None}}, {"rows": []}])
@pytest.mark.parametrize("name", [*RESULTS, "gpu", "conformance"])
def test_a_damaged_result_hides_nothing_else(records, name, results):
    text = report.text_of({**records, name: record_of(name, results)})
    headings = {"accuracy": "Accuracy", "forests": "Trees, forests and AdaBoost"}
    assert all(f"## {heading}" in text for of, heading in headings.items() if of != name)
    assert "## On a GPU" in text and "is not run on hardware" in text
    if not results and name == "memory":
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


def test_each_part_is_of_the_newest_file_that_has_it(records, tmp_path):
    """What failed later, or was measured on a GPU, does not hide it."""

    def write(day, results, **change):
        record = {**records["forests"], "date": f"2026-01-{day}", "results": results, **change}
        (tmp_path / f"forests-{day}.json").write_text(json.dumps(record))

    parts = records["forests"]["results"]
    write("01", {"stumps": {"n": 1}, "depth_14": {"n": 2}})
    write("02", {"stumps": parts["stumps"], "depth_14": {"failed": "MemoryError"}})
    write("03", {"stumps": {"n": 3}}, settings={"device": "cuda"})
    found, problems = report.read_all(tmp_path)
    assert problems == []
    assert found["forests"]["results"] == {"stumps": parts["stumps"], "depth_14": {"n": 2}}
    assert [source["date"][-2:] for source in found["forests"]["sources"]] == ["01", "02"]
    places = report.origins_of(found["forests"])
    assert [place[-10:] for place in places] == ["2026-01-01", "2026-01-02"]


def test_the_results_of_this_repository_can_be_shown():
    found, problems = report.read_all(RESULTS_FOLDER)
    assert problems == [] and {"fit", "predict", "accuracy", "host_time"} <= set(found)
    assert "damaged" not in report.text_of(found)


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
    "many_fits": "--rows 200 --trees 2 --repeats 1 --threads 1",
    "learners": "--seeds 1 --rounds 2 --rows 300 --repeats 1 --threads 1 --only survival",
    "kernels": "--rows 200 --features 3 --trees 2 --repeats 1 --threads 1",
    "memory": "--repeats 1 --threads 1 --rows 500 --trees 2",
}


@pytest.mark.slow
def test_what_the_programs_write_can_be_shown(tmp_path, only_libraries):
    only_libraries("gpuens")
    for name, options in PROGRAMS.items():
        assert program(name).main(["--output", str(tmp_path), *options.split()]) == 0
    records, problems = report.read_all(tmp_path)
    assert problems == [] and list(records) == [n for n in report.PROGRAMS if n in PROGRAMS]
    assert "damaged" not in report.text_of(records)
