"""The report: goals, tables, their order, and results that are missing or damaged."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from benchmarks.__main__ import program
from benchmarks.common.records import RESULTS as RESULTS_FOLDER
from benchmarks.report import report

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


def record_of(name, results):
    return {**COMMON, "benchmark": name, "results": results}


@pytest.fixture
def records():
    """Those of this repository."""
    return report.read_all(RESULTS_FOLDER)[0]


@pytest.mark.parametrize("results", [{}, {"n": 3}, {"1m": {"libraries": None}}, {"rows": []}])
@pytest.mark.parametrize("name", [*report.PROGRAMS, "conformance"])
def test_a_damaged_result_hides_nothing_else(records, name, results):
    text = report.text_of({**records, name: record_of(name, results)})
    headings = {"accuracy": "Accuracy", "forests": "Trees, forests and AdaBoost"}
    assert all(f"## {heading}" in text for of, heading in headings.items() if of != name)
    assert "## On a GPU" in text and "is not run on hardware" in text


def test_files_that_cannot_be_read_are_named(records, tmp_path, capsys):
    for name, record in records.items():
        (tmp_path / f"{name}-a.json").write_text(json.dumps({**record, "format": 1}))
    (tmp_path / "memory-b.json").write_text('{"benchmark": "memory", "da')
    (tmp_path / "nobody-c.json").write_text(json.dumps(record_of("nobody", {})))
    (tmp_path / "conformance-x.json").write_text("[]")
    text = written(tmp_path)
    assert "- memory-b.json is damaged" in text and "as float32 is 0." in text
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


def test_each_part_is_of_the_newest_file_that_has_it(tmp_path):
    """What failed later, or was measured on a GPU, does not hide it."""

    def write(day, results, **change):
        record = record_of("forests", results) | {"date": f"2026-01-{day}", **change}
        (tmp_path / f"forests-{day}.json").write_text(json.dumps(record))

    parts = {"stumps": {"n_trees": 400, "title": "100k × 28", "libraries": timed(gpuens=1.0)}}
    write("01", {"stumps": {"n": 1}, "depth_14": {"n": 2}})
    write("02", {"stumps": parts["stumps"], "depth_14": {"failed": "MemoryError"}})
    write("03", {"stumps": {"n": 3}}, settings={"device": "cuda"})
    found, problems = report.read_all(tmp_path)
    assert problems == []
    assert found["forests"]["results"] == {"stumps": parts["stumps"], "depth_14": {"n": 2}}
    assert [source["date"][-2:] for source in found["forests"]["sources"]] == ["01", "02"]
    places = report.origins_of(found["forests"])
    assert [place[-10:] for place in places] == ["2026-01-01", "2026-01-02"]
    runs = [{**COMMON, "of": "the stumps of all"}, {**COMMON, "of": "gpuens"}]
    write("04", parts, sources=runs)
    places = report.origins_of(report.read_all(tmp_path)[0]["forests"])
    assert [place.rpartition("; ")[2] for place in places] == [
        "2026-01-01", "2026-01-01, the stumps of all", "2026-01-01, gpuens"
    ]  # fmt: skip


def test_the_results_of_this_repository_can_be_shown():
    found, problems = report.read_all(RESULTS_FOLDER)
    assert problems == [] and {"fit", "predict", "accuracy", "host_time"} <= set(found)
    assert "damaged" not in report.text_of(found)


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
