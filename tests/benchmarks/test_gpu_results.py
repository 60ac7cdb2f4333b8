"""What ``gpu_check`` writes: events of its processes, one file, goals, tables and pictures."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

from benchmarks.common.records import Record
from benchmarks.gpu import gpu_check, processes
from benchmarks.gpu import results as gpu_results
from benchmarks.gpu.bench import ON_CPU, OURS, XGBOOST, Rehearsal
from benchmarks.gpu.plan import HUNDRED, PARTS, Case, Part
from benchmarks.gpu.results import Results


def read_events(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class TestWorker:
    OPTIONS = SimpleNamespace(until=2e9 * 10, repeats=1, threads=1, rehearse=False)

    def run(self, monkeypatch, tmp_path, cases, card=None, **more):
        monkeypatch.setitem(PARTS, "test", Part("test", 30, cases))
        options = SimpleNamespace(**{**vars(self.OPTIONS), **more})
        with open(tmp_path / "events", "a") as file:
            status = processes.run_cases("test", list(cases), card or Rehearsal(), options, file)
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
        assert events[1]["reason"] == "no memory: needs 1024 GiB, 16 GiB are free"

    def test_it_ends_when_the_card_is_lost(self, monkeypatch, tmp_path):
        card = Rehearsal()
        card.is_alive = lambda: False
        cases = {"a": Case(lambda bench: {}, 1), "b": Case(lambda bench: {}, 1)}
        status, events = self.run(monkeypatch, tmp_path, cases, card)
        assert status == processes.BROKEN
        assert [event["event"] for event in events] == ["begin", "done", "broken"]

    def test_a_card_that_cannot_be_used_fails_every_case(self, monkeypatch, tmp_path):
        def broken(rehearsal):
            raise ImportError("libcuda.so")

        monkeypatch.setattr(processes, "the_card", broken)
        path = tmp_path / "events"
        options = ["kernels", str(path), "--until", "1", "--cases", "1M", "100k"]
        assert processes.main(options) == 1
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


def parts():
    """Made-up results."""
    fits = {
        f"{name}, 20 trees": {"n_rows": n, "libraries": {OURS: library(s)}}
        for name, n, s in (("1M × 28", 10**6, 0.1), ("10M × 28", 10**7, 1.0),
                           ("100M × 28", 10**8, 10.0))
    }  # fmt: skip
    fits["11M × 28, depth 8"] = {
        "n_rows": 11_000_000,
        "libraries": {
            OURS: library(2.0, quality={"auc": 0.801}),
            XGBOOST: library(4.0, ratio=0.5, quality={"auc": 0.8012}),
        },
    }
    fits["100k × 28"] = {"n_rows": 10**5, "ms_a_tree": 1.25, "libraries": {OURS: library(0.1)}}
    fits["memory, 11M × 28"] = {"ratio": 0.9}
    cores = {
        f"{n:,} × 28": {
            "n_rows": n, "identical_to_cpu": True,
            "libraries": {OURS: library(1.0), ON_CPU: library(1 / r, ratio=r)},
        }
        for n, r in ((10**6, 0.25), (10**4, 4.0), (1000, 9.0))
    }  # fmt: skip
    same = {"same_model": True, "same_predictions": True, "table": "adult", "source": "real",
            "n_rows": 5, "fingerprints": {"cuda": "0123456789abcdef"}}  # fmt: skip
    launched = {
        f"launches, {variant}": {
            "100k": {"variant": variant, "ms_a_tree": ms, "fingerprint": "same"},
            "10k": {"variant": variant, "ms_a_tree": ms / 2, "fingerprint": mark},
        }
        for variant, ms, mark in (("stock", 3.0, "a"), ("graphs", 1.0, "b"))
    }
    found = {"fit": fits, "cores": cores, "identity": {"tree": same}, **launched}
    return {name: {"cases": cases} for name, cases in found.items()}


class TestFigures:
    def test_they_are_computed(self):
        figures, told = gpu_results.figures_of(parts())
        assert figures == {
            "fit_11m": 0.5, "fit_11m_auc": pytest.approx(0.0002), "fit_100k_tree": 1.25,
            "exponent": pytest.approx(1.0), "memory": 0.9, "different_models": 0,
            "cores_16": 0.25, "pays_from": pytest.approx(10**5),
        }  # fmt: skip
        assert told["launches"] == {
            "ms_a_tree": {"stock": {"100k": 3.0, "10k": 1.5}, "graphs": {"100k": 1.0, "10k": 0.5}},
            "same_models": {"100k": True, "10k": False},
        }

    def test_an_exponent_needs_the_largest_table(self):
        made = parts()
        del made["fit"]["cases"][HUNDRED]
        figures, told = gpu_results.figures_of(made)
        assert "exponent" not in figures
        assert told["exponent_of_what_was_measured"] == pytest.approx(1.0)

    @pytest.mark.parametrize(
        "ratios, rows", [([0.5, 0.4], 10.0), ([3.0, 2.0], None), ([], None),
                         ([2.0, 0.5], math.sqrt(1000))]
    )  # fmt: skip
    def test_from_where_the_card_pays(self, ratios, rows, monkeypatch):
        points = [(10 ** (k + 1), r) for k, r in enumerate(ratios)]
        monkeypatch.setattr(gpu_results, "by_cores", lambda parts: points)
        assert gpu_results.pays_from({}) == (rows if rows is None else pytest.approx(rows))

    def test_all_are_listed_whether_measured_or_not(self):
        goals = list(gpu_results.goals({"results": {"figures": {"fit_11m": 0.6}}}))
        assert len(goals) == len(gpu_results.ASKED) == 16
        assert goals[0].reached is False and goals[1].instead == "not run on hardware"
        same = [{"identical_to_cpu": True}, {}]
        found = {"figures": {"fit_11m": 0.4, "fit_100k_tree": 2.0}, "fit": same}
        measured = [g for g in gpu_results.goals({"results": found}) if g.measured is not None]
        assert [(g.measured, g.reached) for g in measured] == [
            (0.4, True), (2.0, False), (0, True)]  # fmt: skip

    def test_cases_that_figures_name_are_planned(self):
        for part, case in (
            ("fit", "11M × 28, depth 8"), ("fit", "100k × 28"), ("fit", "500k × 54, 7 classes"),
            ("fit", "memory, 11M × 28"), ("predict", "10M × 28"), ("predict", "1M × 28"),
            ("small", "50 × 10k × 20"), ("cores", "1,000,000 × 28"),
            ("forests", "465k × 54, 100 trees, depth 30"),
        ):  # fmt: skip
            assert case in PARTS[part].cases


def made_up():
    made = parts()
    figures, told = gpu_results.figures_of(made)
    return {"parts": made, "figures": figures, "others": told}


def test_tables():
    text = "\n".join(gpu_results.show({"results": made_up()}))
    for line in (
        "| tree | adult (real) | 5 | same | same | 0123456789ab |",
        "| fit: 11M × 28, depth 8: XGBoost | 4.0000 | 0.500 | auc 0.80120 |",
        "| milliseconds a tree, by the way kernels are started | 100k × 28, depth 6 |"
        " 10k × 28, depth 6 |",
        "| stock | 3.000 | 1.500 |",
        "| graphs | 1.000 | 0.500 |",
    ):
        assert line in text
    empty = {"parts": {}, "others": {"launches": {"ms_a_tree": {}}}}
    assert not any(gpu_results.show({"results": empty}))


class TestPictures:
    @pytest.mark.parametrize("picture", gpu_results.PICTURES.values())
    def test_they_are_drawn(self, picture, tmp_path):
        figure = Figure(layout="constrained")
        picture(figure, {"results": made_up()})
        figure.savefig(tmp_path / "picture.png")
        assert figure.axes[0].get_xlabel()

    def test_bars_are_the_ratios(self):
        figure = Figure()
        gpu_results.draw_libraries(figure, {"results": made_up()})
        assert [bar.get_width() for bar in figure.axes[0].patches] == [1.0, 2.0]

    @pytest.mark.parametrize("picture", gpu_results.PICTURES.values())
    def test_nothing_to_draw_is_said(self, picture):
        nothing = {"ladder": {OURS: []}, "launches": {"ms_a_tree": {}}}
        with pytest.raises(gpu_results.NothingToDraw):
            picture(Figure(), {"results": {"parts": {}, "others": nothing}})
