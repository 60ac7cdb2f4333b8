"""``gpu_check`` without a GPU: its plan, and its processes."""

from __future__ import annotations

import json
import signal
import sys
from importlib.util import find_spec

import pytest

from benchmarks.gpu import gpu_check, processes
from benchmarks.gpu import plan as gpu_plan
from benchmarks.gpu.plan import PARTS, Case, Part, chosen
from benchmarks.gpu.results import Results


class TestPlan:
    def test_the_shares_fit_into_the_time(self):
        shares = sum(part.seconds for part in PARTS.values())
        assert shares <= 1.05 * (gpu_check.BUDGET - gpu_check.LAST) and gpu_check.BUDGET <= 540

    def test_every_case_fits_into_its_part(self):
        for part in PARTS.values():
            assert all(case.seconds <= part.seconds for case in part.cases.values())

    def test_the_largest_table_is_last(self):
        names = list(PARTS["fit"].cases)
        assert names[-1] == gpu_plan.HUNDRED == "100M × 28, 20 trees"
        case = PARTS["fit"].cases[gpu_plan.HUNDRED]
        assert case.bytes > 100_000_000 * (28 * 7 + 40)

    def test_parts_by_name(self):
        assert chosen([]) == list(PARTS)
        launches = [name for name in PARTS if name.startswith("launches, ")]
        assert chosen(["launches", "fit"]) == ["fit", *launches] and len(launches) == 4
        environments = [PARTS[name].environment for name in launches]
        assert environments[-1] == {"GPUENS_CUDA_LAUNCHER": "direct", "GPUENS_CUDA_GRAPHS": "1"}

    def test_what_is_left_over_goes_to_the_next_part(self):
        names = ["fit", "predict", "kernels"]
        found = gpu_check.deadlines(names, 1000.0)
        assert list(found) == names
        last = 1000 - gpu_check.LAST
        behind = PARTS["predict"].seconds + PARTS["kernels"].seconds
        assert found == {
            "fit": last - behind, "predict": last - PARTS["kernels"].seconds, "kernels": last,
        }  # fmt: skip
        total = behind + PARTS["fit"].seconds
        scarce = gpu_check.deadlines(names, gpu_check.LAST + total / 2)
        assert scarce["fit"] == pytest.approx(PARTS["fit"].seconds / 2)


def test_without_a_gpu_it_says_what_it_would_have_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(gpu_check, "gpu_problem", lambda: "no NVIDIA driver was found")
    monkeypatch.setattr(gpu_check, "simulated", lambda: False)
    assert gpu_check.main(["--output", str(tmp_path), "--part", "fit", "sanitizer"]) == 0
    out = capsys.readouterr().out
    assert "gradient boosting\n    100k × 28; 500k × 54, 7 classes; 11M × 28, depth 8" in out
    assert "memcheck; racecheck" in out and "identity" not in out
    assert out.endswith("skipped: no GPU: no NVIDIA driver was found.\n")
    assert not list(tmp_path.iterdir())


def script(text):
    """A command that runs a program instead of the worker; it finds FILE and CASES."""

    def command(part, path, cases, seconds):
        head = f"import json, os, sys, time\nCASES = {list(cases)!r}\n"
        head += f"file = open({str(path)!r}, 'a')\n"
        head += (
            "def tell(case, event, **more):\n"
            "    file.write(json.dumps({'case': case, 'event': event, **more}) + '\\n')\n"
            "    file.flush()\n"
        )
        return [sys.executable, "-S", "-c", head + text]

    return command


@pytest.fixture
def part(monkeypatch):
    """A part of three cases, which hang after a moment."""
    cases = {name: Case(lambda bench: {}, 0.0) for name in "abc"}
    monkeypatch.setitem(PARTS, "test", Part("test", 30, cases))
    monkeypatch.setattr(Case, "limit", 0.4)
    monkeypatch.setattr(processes, "GRACE", 0.4)
    monkeypatch.setattr(processes, "LEAST", 0.5)


def events_of(text, seconds=20.0, cases="abc"):
    told = []
    processes.run_part(
        "test", list(cases), seconds, script(text), lambda case, event: told.append((case, event))
    )
    return dict(told), [case for case, _ in told]


EACH = """
for case in CASES:
    tell(case, "begin")
    {}
    tell(case, "done", result={{"pid": os.getpid()}}, seconds=1)
"""


@pytest.mark.usefixtures("part")
class TestProcesses:
    def test_one_process_runs_all(self):
        found, order = events_of(EACH.format("pass"))
        assert order == ["a", "b", "c"]
        assert {event["event"] for event in found.values()} == {"done"}
        assert len({event["result"]["pid"] for event in found.values()}) == 1

    def test_one_that_crashes_is_a_gap(self):
        found, _ = events_of(EACH.format("if case == 'b': os.abort()"))
        assert found["a"]["event"] == found["c"]["event"] == "done"
        assert found["b"] == {
            "event": "failed", "error": f"its process ended with {-signal.SIGABRT}"
        }  # fmt: skip
        assert found["a"]["result"] != found["c"]["result"]

    def test_one_that_hangs_is_ended(self):
        found, _ = events_of(EACH.format("if case == 'b': time.sleep(60)"))
        assert found["a"]["event"] == found["c"]["event"] == "done"
        assert found["b"] == {"event": "failed", "error": "it hung: it was ended after 0 s"}

    def test_a_lost_card_gets_a_new_process(self):
        text = EACH.format(
            "if case == 'a':\n"
            "        tell(case, 'failed', error='illegal address')\n"
            "        tell(case, 'broken')\n"
            "        sys.exit(3)"
        )
        found, _ = events_of(text)
        assert found["a"]["error"] == "illegal address"
        assert found["b"]["event"] == found["c"]["event"] == "done"

    def test_a_part_whose_time_is_over_is_cut_off(self, monkeypatch):
        monkeypatch.setattr(Case, "limit", 60.0)
        found, _ = events_of(EACH.format("if case == 'b': time.sleep(60)"), seconds=1.0)
        assert found["a"]["event"] == "done"
        assert found["b"] == {
            "event": "dropped", "reason": "cut off: the 1 s of its part were over"
        }  # fmt: skip
        assert found["c"] == {"event": "dropped", "reason": "no time was left for its part"}

    def test_a_process_that_comes_to_nothing_is_not_started_again(self):
        found, _ = events_of("sys.exit(7)")
        assert [event["error"] for event in found.values()] == [
            "its process ended with 7, before it began"
        ] * 3

    def test_a_half_line_is_not_read(self):
        text = """
tell("a", "begin")
file.write('{"case": "a", "eve'); file.flush(); time.sleep(0.2)
file.write('nt": "done", "result": {}, "seconds": 1}\\n'); file.flush()
"""
        found, _ = events_of(text, cases="a")
        assert found["a"]["event"] == "done"

    def test_their_children_are_ended_too(self, tmp_path):
        mark = tmp_path / "mark"
        beside = f"import time; time.sleep(2); open({str(mark)!r}, 'w')"
        text = "import subprocess\ntell('a', 'begin')\n"
        text += f"subprocess.run([sys.executable, '-S', '-c', {beside!r}])"
        found, _ = events_of(text, cases="a")
        assert found["a"]["event"] == "failed"
        import time

        time.sleep(1.5)
        assert not mark.exists()

    def test_the_environment_says_how_kernels_are_started(self, monkeypatch):
        monkeypatch.setenv("GPUENS_CUDA_GRAPHS", "1")
        monkeypatch.setenv("SOMETHING", "else")
        assert processes.environment(PARTS["fit"], False)["GPUENS_CUDA_GRAPHS"] == "1"
        stock = processes.environment(PARTS["launches, stock"], False)
        assert "GPUENS_CUDA_GRAPHS" not in stock and stock["SOMETHING"] == "else"
        graphs = processes.environment(PARTS["launches, graphs"], True)
        assert graphs["GPUENS_CUDA_GRAPHS"] == graphs["NUMBA_ENABLE_CUDASIM"] == "1"


def check(tmp_path, text, *options):
    arguments = ["--rehearse", "--output", str(tmp_path), *options]
    status = gpu_check.main(arguments, command=script(text))
    (path,) = tmp_path.glob("*.json")
    return status, json.loads(path.read_text())["results"]


@pytest.fixture
def kept_handler():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("kept_handler")
class TestWhole:
    def test_a_part_that_passes(self, tmp_path, capsys):
        status, results = check(tmp_path, EACH.format("pass"), "--part", "kernels")
        assert status == 0 and list(results["parts"]) == ["kernels"]
        assert results["parts"]["kernels"]["seconds"] > 0
        out = capsys.readouterr().out
        assert "|  | goal, at most | measured | reached |" in out
        assert ": no case has two libraries" in out
        assert out.endswith("gpu_check: passed (not all of it: --resume goes on)\n")

    def test_a_case_that_fails_fails_in_the_end(self, tmp_path, capsys):
        text = EACH.format("if case == '1M': sys.exit(5)")
        status, results = check(tmp_path, text, "--part", "kernels", "sanitizer")
        assert status == 1
        assert results["failed"] == {"kernels: 1M": "its process ended with 5"}
        assert set(results["parts"]["kernels"]["cases"]) == {"100k"}
        assert len(results["parts"]["sanitizer"]["cases"]) == 2
        assert "failed: kernels: 1M: its process ended with 5" in capsys.readouterr().out

    def test_what_was_dropped_does_not_fail(self, tmp_path, capsys):
        status, results = check(tmp_path, "", "--part", "kernels", "--budget", "1")
        assert status == 0 and set(results["dropped"]) == {"kernels: 1M", "kernels: 100k"}
        assert "dropped: kernels: 1M: no time was left for its part" in capsys.readouterr().out

    def test_resume_runs_what_is_missing(self, tmp_path, capsys):
        check(tmp_path, EACH.format("if case == '100k': sys.exit(5)"), "--part", "kernels")
        text = f"assert CASES == ['100k'], CASES\n{EACH.format('pass')}"
        status, results = check(tmp_path, text, "--part", "kernels", "--resume")
        assert status == 0 and results["failed"] == {}

    def test_ctrl_c_keeps_what_is_measured(self, tmp_path, capsys, monkeypatch):
        take = Results.take

        def interrupted(self, name, case, event):
            take(self, name, case, event)
            if case == "1M":
                raise KeyboardInterrupt

        monkeypatch.setattr(Results, "take", interrupted)
        status, results = check(tmp_path, EACH.format("pass"), "--part", "kernels")
        assert status == 130 and set(results["parts"]["kernels"]["cases"]) == {"1M"}
        assert "interrupted: what was measured is kept" in capsys.readouterr().out

    def test_on_a_card_the_result_says_which(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(gpu_check, "gpu_problem", lambda: None)
        monkeypatch.setattr(gpu_check, "simulated", lambda: False)
        monkeypatch.setattr(gpu_check, "describe_machine", lambda: {"gpus": ["NVIDIA H200"]})
        monkeypatch.setattr(gpu_check, "describe_card", lambda: {"driver_version": "580.1"})
        monkeypatch.setenv("GPUENS_CUDA_GRAPHS", "1")
        options = ["--output", str(tmp_path), "--part", "kernels"]
        assert gpu_check.main(options, command=script(EACH.format("pass"))) == 0
        (path,) = tmp_path.glob("gpu-nvidia-h200-*.json")
        content = json.loads(path.read_text())
        assert content["benchmark"] == "gpu" and content["date"] and content["versions"]["numba"]
        assert content["machine"]["card"] == {"driver_version": "580.1"}
        assert content["settings"]["environment"] == {"GPUENS_CUDA_GRAPHS": "1"}

    @pytest.mark.slow
    @pytest.mark.skipif(find_spec("xgboost") is None, reason="XGBoost is not installed")
    def test_a_rehearsal(self, tmp_path, capfd):
        """The cases themselves, in CUDA's simulator."""
        options = ["--part", "predict", "small", "sanitizer", "--repeats", "1"]
        status = gpu_check.main(["--rehearse", "--output", str(tmp_path), *options])
        (path,) = tmp_path.glob("*.json")
        results = json.loads(path.read_text())["results"]
        assert status == 0 and not results["dropped"]
        (fits,) = results["parts"]["small"]["cases"].values()
        assert fits["same_as_alone"] and fits["libraries"]["XGBoost"]["ratio"] > 0
        assert {"predict_1m_xgboost", "many_fits"} <= set(results["figures"])
        memcheck = results["parts"]["sanitizer"]["cases"]["memcheck"]
        assert memcheck["skipped"].startswith("compute-sanitizer is not installed")
        assert len(list(tmp_path.glob("*.png"))) == 1
