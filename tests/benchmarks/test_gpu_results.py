"""What ``gpu_check`` writes: a line a case in its processes, and one file of all of them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from benchmarks.common.records import Record
from benchmarks.gpu import (
    gpu_check,
)
from benchmarks.gpu import (
    results as gpu_results,
)
from benchmarks.gpu import (
    runner as gpu_runner,
)
from benchmarks.gpu import (
    worker as gpu_worker,
)
from benchmarks.gpu.card import Rehearsal
from benchmarks.gpu.plan import PARTS, Case, Part
from benchmarks.gpu.results import Results


def read_events(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class TestWorker:
    OPTIONS = SimpleNamespace(until=2e9 * 10, repeats=1, threads=1, rehearse=False)

    def run(self, monkeypatch, tmp_path, cases, card=None, **more):
        monkeypatch.setitem(PARTS, "test", Part("test", 30, cases))
        options = SimpleNamespace(**{**vars(self.OPTIONS), **more})
        with open(tmp_path / "events", "a") as file:
            status = gpu_worker.run_cases("test", list(cases), card or Rehearsal(), options, file)
        return status, read_events(tmp_path / "events")

    def test_results_and_errors_are_told(self, monkeypatch, tmp_path, capsys):
        def missing(bench):
            bench.gaps["cuML"] = "cuml is not installed"
            return {"value": float("nan"), "pair": (1, 2)}

        def fails(bench):
            raise ValueError("the\nreason")

        cases = {"a": Case(missing, 1), "b": Case(fails, 1), "c": Case(lambda bench: {}, 1)}
        status, events = self.run(monkeypatch, tmp_path, cases)
        assert status == 0
        kinds = [(event["case"], event["event"]) for event in events]
        assert kinds == [
            ("a", "begin"), ("a", "done"), ("b", "begin"), ("b", "failed"), ("c", "begin"),
            ("c", "done"),
        ]  # fmt: skip
        gaps = ["cuML: cuml is not installed"]
        assert events[1]["result"] == {"value": None, "pair": [1, 2], "gaps": gaps}
        assert events[3]["error"] == "ValueError: the reason"
        assert events[3]["at"][-1].endswith(" fails")

    def test_what_does_not_fit_is_dropped(self, monkeypatch, tmp_path):
        import time

        cases = {"slow": Case(dict, 100), "large": Case(lambda b: {}, 1, 2**40)}
        _, events = self.run(monkeypatch, tmp_path, cases, until=time.time() + 20)
        assert [event["event"] for event in events] == ["dropped", "dropped"]
        assert events[0]["reason"].startswith("no time: takes about 100 s, ")
        assert events[1]["reason"] == "no memory: wants 1024 GiB, 16 GiB are free"

    def test_it_ends_when_the_card_is_lost(self, monkeypatch, tmp_path):
        card = Rehearsal()
        card.is_alive = lambda: False
        cases = {"a": Case(lambda bench: {}, 1), "b": Case(lambda bench: {}, 1)}
        status, events = self.run(monkeypatch, tmp_path, cases, card)
        assert status == gpu_runner.BROKEN
        assert [event["event"] for event in events] == ["begin", "done", "broken"]

    def test_a_card_that_cannot_be_used_fails_every_case(self, monkeypatch, tmp_path):
        def broken(rehearsal):
            raise ImportError("libcuda.so")

        monkeypatch.setattr(gpu_worker, "the_card", broken)
        path = tmp_path / "events"
        options = ["kernels", str(path), "--until", "1", "--cases", "1M", "100k"]
        assert gpu_worker.main(options) == 1
        assert [(e["case"], e["error"]) for e in read_events(path)] == [
            ("1M", "ImportError: libcuda.so"), ("100k", "ImportError: libcuda.so")
        ]  # fmt: skip


@pytest.fixture
def record(tmp_path):
    options = SimpleNamespace(output=tmp_path, repeats=3, threads=2, budget=540.0, part=[],
                              resume=None, rehearse=True)  # fmt: skip
    return Record("gpu_check", options, "rehearsal")


DONE = {"event": "done", "seconds": 1.0}


class TestResults:
    def test_they_are_written_after_every_case(self, record):
        results = Results(record)
        results.take("kernels", "1M", {**DONE, "result": {"ops": {}}})
        results.take("kernels", "100k", {"event": "dropped", "reason": "no time"})
        results.take("fit", "10k × 28", {"event": "failed", "error": "ValueError: no"})
        results.take("tests", "pytest", {**DONE, "result": {"failed": "2 tests failed"}})
        content = json.loads(record.path.read_text())["results"]
        assert content["parts"]["kernels"]["cases"]["1M"] == {"ops": {}, "case_seconds": 1.0}
        assert content["dropped"] == {"kernels: 100k": "no time"}
        assert content["failed"] == {
            "fit: 10k × 28": "ValueError: no", "tests: pytest": "2 tests failed"
        }  # fmt: skip
        assert content["complete"] is False
        cut = {"cut_off": "not all tests ran", "counts": {"passed": 9}}
        results.take("tests", "pytest", {**DONE, "result": cut})
        assert results.content["dropped"]["tests: pytest"] == "not all tests ran"
        assert results.part("tests")["cut_off"]["pytest"]["counts"] == {"passed": 9}
        assert "tests: pytest" not in results.content["failed"]
        assert results.missing("kernels") == ["100k"] and results.missing("tests") == ["pytest"]
        assert list(record.path.parent.iterdir()) == [record.path]

    def test_what_differs_is_named(self, record):
        results = Results(record)
        same = {"same_model": True, "same_predictions": True}
        results.take("identity", "tree", {**DONE, "result": same})
        results.take("identity", "forest", {**DONE, "result": same | {"same_predictions": False}})
        row = {"libraries": {}, "identical_to_cpu": False}
        results.take("cores", "1,000 × 28", {**DONE, "result": row})
        assert results.differ() == ["identity: forest", "cores: 1,000 × 28"]
        for variant, mark in (("stock", "a"), ("graphs", "b")):
            row = {"variant": variant, "ms_a_tree": 1.0, "fingerprint": mark}
            results.take(f"launches, {variant}", "10k", {**DONE, "result": row})
        assert results.differ()[0] == "launches: 10k"
        assert results.content["figures"]["different_models"] == 1

    def refuse(self, record, file, capsys):
        _, parser = gpu_check.options_for([])
        with pytest.raises(SystemExit):
            gpu_results.take_over(record, file, parser)
        return capsys.readouterr().err

    def test_a_file_is_gone_on_with(self, record, capsys):
        first = Results(record)
        first.take("kernels", "1M", {**DONE, "result": {"ops": {}}})
        first.take("kernels", "100k", {"event": "dropped", "reason": "no time"})
        again = gpu_results.take_over(record, "", gpu_check.options_for([])[1])
        assert again.missing("kernels") == ["100k"]
        again.take("kernels", "100k", {**DONE, "result": {}})
        content = json.loads(record.path.read_text())["results"]
        assert content["dropped"] == {} and set(content["parts"]["kernels"]["cases"]) == {
            "1M", "100k"
        }  # fmt: skip

    @pytest.mark.parametrize(
        "kind, key, value", [("versions", "xgboost", "0.1"), ("machine", "cpu", "another"),
                             ("settings", "repeats", 9)]
    )  # fmt: skip
    def test_a_file_of_something_else_is_refused(self, record, capsys, kind, key, value):
        Results(record).write()
        content = json.loads(record.path.read_text())
        content[kind][key] = value
        record.path.write_text(json.dumps(content))
        error = self.refuse(record, "", capsys)
        assert f"was measured otherwise ({kind}: {key}: {value} → " in error.replace("\n", " ")
        assert str(record.path) in error.replace("\n", "")

    def test_a_file_that_is_none_is_refused(self, record, tmp_path, capsys):
        assert "no gpu_check-rehearsal-*.json in" in self.refuse(record, "", capsys)
        (tmp_path / "x.json").write_text("{")
        assert "is damaged" in self.refuse(record, str(tmp_path / "x.json"), capsys)
        Results(record).write()
        content = json.loads(record.path.read_text())
        content["benchmark"] = "fit"
        record.path.write_text(json.dumps(content))
        assert "is of 'fit', not of this program" in self.refuse(record, str(record.path), capsys)
