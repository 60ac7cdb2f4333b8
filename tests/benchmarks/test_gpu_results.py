"""What ``gpu_check`` writes: one file, goals, tables and a picture."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from benchmarks.common.peers import ON_CPU, OURS
from benchmarks.common.records import Record
from benchmarks.gpu import gpu_check
from benchmarks.gpu import results as gpu_results
from benchmarks.gpu.plan import PARTS
from benchmarks.gpu.results import XGBOOST, Results


@pytest.fixture
def record(tmp_path):
    options = SimpleNamespace(output=tmp_path, threads=2, budget=540.0, part=[], resume=None,
                              rehearse=True)  # fmt: skip
    return Record("gpu_check", options, "rehearsal")


class TestResults:
    def test_they_are_written_after_every_case(self, record):
        results = Results(record)
        results.take("fit", "11m", {"libraries": {}})
        results.take("fit", "1m", {"dropped": "no time"})
        results.take("fit", "10k narrow", {"failed": "ValueError: no"})
        results.take("tests", "tests", {"failed": "2 tests failed", "counts": {"passed": 9}})
        content = json.loads(record.path.read_text())["results"]
        assert content["parts"]["fit"]["cases"] == {"11m": {"libraries": {}}}
        assert content["dropped"] == {"fit: 1m": "no time"}
        assert content["failed"] == {
            "fit: 10k narrow": "ValueError: no", "tests: tests": "2 tests failed"
        }  # fmt: skip
        assert content["complete"] is False
        assert results.part("tests")["details"]["tests"] == {"counts": {"passed": 9}}
        results.take("tests", "tests", {"cut_off": "not all ran", "counts": {"passed": 9}})
        assert results.content["dropped"]["tests: tests"] == "not all ran"
        assert "tests: tests" not in results.content["failed"]
        assert results.part("tests")["details"] == {}
        assert results.missing("fit") == ["1m", "10k narrow"]
        assert results.missing("tests") == ["tests"]
        assert list(record.path.parent.iterdir()) == [record.path]

    def test_what_differs_is_named(self, record):
        results = Results(record)
        results.take("models", "tree", {"equal": {"model": True, "predictions": True}})
        results.take("models", "forest", {"equal": {"model": True, "predictions": False}})
        results.take("fit, depth 6", "100k narrow", {"equal": {"CPU and GPU": False}})
        assert results.differ() == [
            "models: forest: predictions", "fit, depth 6: 100k narrow: CPU and GPU"
        ]  # fmt: skip
        assert results.content["figures"]["different_models"] == 2

    def refuse(self, record, file, capsys):
        _, parser = gpu_check.options_for([])
        with pytest.raises(SystemExit):
            gpu_results.take_over(record, file, parser)
        return capsys.readouterr().err

    def test_a_file_is_gone_on_with(self, record):
        first = Results(record)
        first.take("fit", "1m", {"libraries": {}})
        first.take("fit", "11m", {"dropped": "no time"})
        again = gpu_results.take_over(record, "", gpu_check.options_for([])[1])
        assert again.missing("fit") == ["11m", "10k narrow"]
        again.take("fit", "11m", {})
        content = json.loads(record.path.read_text())["results"]
        assert content["dropped"] == {} and set(content["parts"]["fit"]["cases"]) == {"11m", "1m"}

    @pytest.mark.parametrize(
        "kind, key, value", [("versions", "xgboost", "0.1"), ("machine", "cpu", "another"),
                             ("settings", "threads", 9)]
    )  # fmt: skip
    def test_a_file_of_something_else_is_refused(self, record, capsys, kind, key, value):
        Results(record).write()
        content = json.loads(record.path.read_text())
        content[kind][key] = value
        record.path.write_text(json.dumps(content))
        error = self.refuse(record, "", capsys)
        assert f"was measured under other conditions ({kind}: {key}: {value} → " in error.replace(
            "\n", " "
        )
        assert str(record.path) in error.replace("\n", "")

    def test_a_file_that_is_none_is_refused(self, record, tmp_path, capsys):
        assert "no gpu_check-rehearsal-*.json in" in self.refuse(record, "", capsys)
        (tmp_path / "x.json").write_text("{")
        assert "is damaged" in self.refuse(record, str(tmp_path / "x.json"), capsys)
        Results(record).write()
        content = json.loads(record.path.read_text())
        content["benchmark"] = "fit"
        record.path.write_text(json.dumps(content))
        assert "is of 'fit', not of 'gpu_check'" in self.refuse(record, str(record.path), capsys)


def library(median, **more):
    return {"median": median, "seconds": [median], **more}


def fitted(n, libraries, **more):
    return {"title": f"{n} rows", "n_rows": n, "n_trees": 100, "libraries": libraries, **more}


def parts():
    """Made-up results."""
    first = {
        OURS: library(2.0, quality={"auc": 0.801, "log_loss": 0.5}),
        XGBOOST: library(4.0, ratio=0.5, quality={"auc": 0.8012, "log_loss": 0.6}),
    }
    fits = {
        "11m": fitted(10**7, first, memory={"ratio": 0.9}),
        "1m": fitted(10**6, {OURS: library(0.2)}),
    }
    depth_6 = {"100k narrow": fitted(
        10**5, {OURS: library(0.125), ON_CPU: library(1.0, ratio=0.125)},
        equal={"CPU and GPU": True},
    )}  # fmt: skip
    same = {"equal": {"model": True, "predictions": True}, "table": "adult", "source": "real",
            "n_rows": 5}  # fmt: skip
    launched = {"ms_a_tree": {"ms": {"100k": 3.0, "10k": 1.5}, "fingerprints": {}}}
    crossover = {"boosting": {"fit pays from": 5e4, "predict pays from": None, "fit": {},
                              "predict": {}, "n_trees": 100}}  # fmt: skip
    found = {"fit": fits, "fit, depth 6": depth_6, "models": {"tree": same},
             "crossover": crossover, "forests": {"gpu": {"gaps": ["a GPU: none"]}},
             "launches": launched}  # fmt: skip
    return {name: {"title": PARTS[name].title, "cases": cases} for name, cases in found.items()}


class TestFigures:
    def test_they_are_computed(self, record):
        results = Results(record, {"parts": {
            name: {**dict.fromkeys(gpu_results.KINDS, {}), **part, "seconds": 1.0}
            for name, part in parts().items()
        }})  # fmt: skip
        assert results.write()["results"]["figures"] == {
            "fit_11m": 0.5, "fit_11m_auc": pytest.approx(0.0002), "fit_100k_tree": 1.25,
            "exponent": pytest.approx(1.0), "memory": 0.9, "different_models": 0,
            "fit_pays_from": 5e4,
        }  # fmt: skip

    def test_all_are_listed_whether_measured_or_not(self):
        goals = list(gpu_results.goals({"results": {"figures": {"fit_11m": 0.6}}}))
        assert len(goals) == len(gpu_results.ASKED) == len(list(gpu_results.goals(None)))
        assert goals[0].reached is False and goals[1].instead == "not run on hardware"

    def test_cases_that_figures_name_are_planned(self, monkeypatch):
        asked = []
        monkeypatch.setattr(
            gpu_results, "cases_of",
            lambda parts, name: SimpleNamespace(get=lambda case: asked.append((name, case))),
        )  # fmt: skip
        for key, figure in gpu_results.ASKED.items():
            if key != "different_models":
                figure.compute({})
        assert len(asked) >= len(gpu_results.ASKED)
        for part, case in asked:
            assert case in PARTS[part].cases


def test_tables():
    text = "\n".join(gpu_results.show({"results": {"parts": parts()}, "settings": {}}))
    for line in (
        "| tree | adult (real) | 5 | same | same |",
        "gradient boosting, depth 8\n\n| median time to train | gpuens | XGBoost |",
        "| 10000000 rows | 2.00 s | 4.00 s |",
        "milliseconds a tree of small tables\n\n| ms_a_tree |",
        "missing: a GPU: none",
    ):
        assert line in text
    assert not any(gpu_results.show({"results": {"parts": {}}}))
