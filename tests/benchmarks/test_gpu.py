"""``gpu_check`` without a GPU: its plan, and its processes."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from importlib.util import find_spec

import pytest

from benchmarks.__main__ import program
from benchmarks.gpu import gpu_check, processes
from benchmarks.gpu.plan import CALLS, PARTS, Part, chosen
from benchmarks.gpu.results import Results

STARTING = 120
"""Seconds that a machine takes to start, of fifteen minutes."""


class TestPlan:
    def test_the_shares_fit_into_the_time(self):
        for call, seconds in CALLS.items():
            shares = sum(part.seconds for part in PARTS.values() if part.call == call)
            assert shares <= seconds - gpu_check.LAST and seconds <= 540
        assert gpu_check.BUDGET == sum(CALLS.values()) <= 900 - STARTING

    def test_the_calls_share_the_parts(self):
        first, second = (chosen([], call) for call in (1, 2))
        assert first + second == list(PARTS)
        assert chosen(["fit", "models"], 1) == ["models"]

    def test_kernels_are_loaded_before_they_are_needed(self):
        """And compiled, where they did not come compiled."""
        assert list(PARTS)[0] == "machine code" and PARTS["machine code"].cases[0] == "load"

    @pytest.mark.parametrize("name", PARTS)
    def test_the_programs_have_what_is_planned(self, name):
        part = PARTS[name]
        made = program(part.program).PROGRAM
        only = ["--only", *part.cases, "--seconds", "9"] if part.has_parts else []
        for rehearse in (False, True):
            options = made.parser().parse_args([*part.arguments(3, rehearse), *only])
            assert getattr(options, "threads", 3) == 3
            assert getattr(options, "device", "cuda") == "cuda"
        if part.has_parts:
            assert set(part.cases) <= {*made.measure, *made.rare}

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
    monkeypatch.setattr(gpu_check, "driver_version", lambda: None)
    monkeypatch.setattr(gpu_check, "simulated", lambda: False)
    assert gpu_check.main(["--output", str(tmp_path), "--part", "fit", "sanitizer"]) == 0
    out = capsys.readouterr().out
    assert "gradient boosting, depth 8\n    11m; 1m; 10k narrow" in out
    assert "memcheck; racecheck" in out and "crossover" not in out
    assert out.endswith("skipped: no GPU: no NVIDIA driver was found.\n")
    assert not list(tmp_path.iterdir())


def test_a_gpu_that_cannot_be_used_fails(tmp_path, capsys, monkeypatch):
    """Its problem is not that there is none."""
    monkeypatch.setattr(gpu_check, "gpu_problem", lambda: "libNVVM was not found")
    monkeypatch.setattr(gpu_check, "driver_version", lambda: (13, 0))
    monkeypatch.setattr(gpu_check, "simulated", lambda: False)
    assert gpu_check.main(["--output", str(tmp_path), "--call", "2"]) == 1
    out = capsys.readouterr().out
    assert out.endswith("not run: the GPU cannot be used: libNVVM was not found.\n")
    assert "memcheck; racecheck" in out and "machine code" not in out


def test_a_rehearsal_without_the_stub_says_what_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(gpu_check.stub, "problem", lambda: "no C compiler was found")
    monkeypatch.setattr(gpu_check, "simulated", lambda: False)
    assert gpu_check.main(["--output", str(tmp_path), "--rehearse"]) == 1
    assert "not rehearsed: no C compiler was found. NUMBA_E" in capsys.readouterr().out


HEAD = """
import json, os, sys, time
results = {{}}
def write(case, **result):
    results[case] = result or {{"pid": os.getpid()}}
    record = dict.fromkeys(("machine", "versions", "settings"), {{}})
    record |= {{"benchmark": "fit", "date": "now", "results": results}}
    with open({beside!r}, "w") as file:
        json.dump(record, file)
    os.replace({beside!r}, {path!r})
CASES = {cases!r}
"""


def script(text):
    """A command that runs a text instead of the program of a part."""

    def command(part, cases, folder, seconds):
        names = {"beside": str(folder / "new"), "path": str(folder / "fit.json")}
        return [sys.executable, "-S", "-c", HEAD.format(cases=list(cases), **names) + text]

    return command


EACH = "for case in CASES:\n    {}\n    write(case)\n    time.sleep(0.15)\n"


@pytest.fixture
def part(monkeypatch):
    """A part of three cases."""

    def change(**more):
        monkeypatch.setitem(PARTS, "test", Part("test", 1, 30, "fit", ("a", "b", "c"), **more))

    monkeypatch.setattr(processes, "GRACE", 0.4)
    monkeypatch.setattr(processes, "LEAST", 0.5)
    change()
    return change


def run(text, seconds=20.0, cases="abc"):
    taken = []
    processes.run_part("test", list(cases), seconds, script(text), lambda *one: taken.append(one))
    assert [case for case, _ in taken] == sorted(cases)
    return dict(taken)


@pytest.mark.usefixtures("part")
class TestProcesses:
    def test_one_process_runs_all(self):
        found = run(EACH.format("pass"))
        assert len({result["pid"] for result in found.values()}) == 1

    def test_one_that_crashes_is_a_gap(self):
        found = run(EACH.format("if case == 'b' == CASES[0]: os.abort()"), cases="bc")
        assert found["b"] == {"failed": f"its process ended with {-signal.SIGABRT}"}
        assert found["c"]["pid"]

    def test_what_follows_a_case_that_failed_gets_a_new_process(self):
        text = EACH.format("if case == 'b': write(case, failed='illegal address'); sys.exit(1)")
        found = run(text)
        assert found["b"] == {"failed": "illegal address"}
        assert found["a"]["pid"] != found["c"]["pid"]

    def test_one_that_hangs_is_ended(self, part):
        part(limit=5.0)
        found = run(EACH.format("if case == 'b': time.sleep(60)"))
        assert found["b"] == {"failed": "it hung: it was ended after 5 s"}
        assert found["a"]["pid"] != found["c"]["pid"]

    def test_a_part_whose_time_is_over_is_cut_off(self):
        found = run(EACH.format("if case == 'b': time.sleep(60)"), seconds=5.0)
        assert found["a"]["pid"]
        assert found["b"] == found["c"] == {"dropped": "cut off: the 5 s of its part were over"}

    def test_a_process_that_leaves_cases_out_had_no_time(self):
        assert run("write('a')")["b"] == {"dropped": "no time was left for its part"}
        assert run("", seconds=0.1)["a"] == {"dropped": "no time was left for its part"}

    def test_a_program_without_parts_is_one_case(self, monkeypatch):
        monkeypatch.setitem(PARTS, "test", Part("test", 1, 30, "fit", ("fit",)))
        assert run("write('libraries', gpuens=1)", cases=["fit"]) == {
            "fit": {"libraries": {"gpuens": 1}}
        }

    def test_half_a_file_is_not_read(self):
        taken = []

        def command(part, cases, folder, seconds):
            half = f"open({str(folder / 'half.json')!r}, 'w').write('{{')\n"
            return [sys.executable, "-S", "-c", half]

        processes.run_part("test", ["a"], 9.0, command, lambda *one: taken.append(one))
        assert taken == [("a", {"dropped": "no time was left for its part"})]

    def test_their_children_are_ended_too(self, part, tmp_path):
        part(limit=1.5)
        mark = tmp_path / "mark"
        beside = f"import time; time.sleep(4.5); open({str(mark)!r}, 'w')"
        text = f"import subprocess\nsubprocess.run([sys.executable, '-S', '-c', {beside!r}])"
        assert "failed" in run(text, cases="a")["a"]
        time.sleep(3.5)
        assert not mark.exists()

    def test_one_that_is_killed_says_so(self):
        found = run("import signal\nos.kill(os.getpid(), signal.SIGKILL)", cases="a")
        assert found["a"]["failed"].startswith("its process ended with -9 (killed by the system")


def check(tmp_path, text, *options):
    arguments = ["--rehearse", "--output", str(tmp_path), *options]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_check, "simulated", lambda: True)
        status = gpu_check.main(arguments, command=script(text))
    (path,) = tmp_path.glob("*.json")
    return status, json.loads(path.read_text())["results"]


LIBRARIES = {"gpuens": {"median": 1.0, "seconds": [1.0]}}
FITTED = f"write(case, n_rows=5, n_trees=2, title='5 × 28', libraries={LIBRARIES!r})\n"


def fits(text="pass"):
    return f"for case in CASES:\n    {text}\n    {FITTED}\n"


@pytest.fixture
def kept_handler():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("kept_handler")
class TestWhole:
    def test_a_part_that_passes(self, tmp_path, capsys):
        status, results = check(tmp_path, fits(), "--part", "fit")
        assert status == 0
        assert list(results["parts"]) == [n for n in PARTS if n.startswith("fit")]
        assert results["parts"]["fit"]["seconds"] > 0
        out = capsys.readouterr().out
        assert "|  | goal, at most | measured | reached |" in out
        assert "gradient boosting, depth 8\n\n| median time to train | gpuens |" in out
        assert ": no case has two libraries" in out
        assert out.endswith("gpu_check: passed (not all of it: --resume goes on)\n")

    def test_a_case_that_fails_fails_in_the_end(self, tmp_path, capsys):
        text = fits("if case == '11m': sys.exit(5)")
        status, results = check(tmp_path, text, "--part", "fit")
        assert status == 1
        assert results["failed"] == {"fit: 11m": "its process ended with 5"}
        assert set(results["parts"]["fit"]["cases"]) == {"1m", "10k narrow"}
        assert "failed: fit: 11m: its process ended with 5" in capsys.readouterr().out

    def test_what_was_dropped_does_not_fail(self, tmp_path, capsys):
        status, results = check(tmp_path, "", "--part", "kernels", "--budget", "1")
        assert status == 0 and set(results["dropped"]) == {"kernels: gpu"}
        assert "dropped: kernels: gpu: no time was left for its part" in capsys.readouterr().out

    def test_resume_runs_what_is_missing(self, tmp_path, capsys):
        check(tmp_path, fits("if case == '1m': sys.exit(5)"), "--part", "fit")
        text = f"assert CASES == ['1m'], CASES\n{fits()}"
        status, results = check(tmp_path, text, "--part", "fit", "--resume")
        assert status == 0 and results["failed"] == {}

    def test_ctrl_c_keeps_what_is_measured(self, tmp_path, capsys, monkeypatch):
        take = Results.take

        def interrupted(self, name, case, result):
            take(self, name, case, result)
            raise KeyboardInterrupt

        monkeypatch.setattr(Results, "take", interrupted)
        text = fits("if case == '1m': time.sleep(60)")
        status, results = check(tmp_path, text, "--part", "fit")
        assert status == 130 and set(results["parts"]["fit"]["cases"]) == {"11m"}
        assert "interrupted: what was measured is kept" in capsys.readouterr().out

    def test_on_a_gpu_the_result_says_which(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(gpu_check, "gpu_problem", lambda: None)
        monkeypatch.setattr(gpu_check, "simulated", lambda: False)
        monkeypatch.setattr(gpu_check, "describe_machine", lambda: {"gpus": ["NVIDIA H200"]})
        monkeypatch.setattr(gpu_check, "describe_card", lambda: {"driver_version": "580.1"})
        monkeypatch.setenv("GPUENS_RESULTS", str(tmp_path))
        assert gpu_check.main(["--part", "fit"], command=script(fits())) == 0
        (path,) = tmp_path.glob("gpu-nvidia-h200-*.json")
        content = json.loads(path.read_text())
        assert content["benchmark"] == "gpu" and content["date"] and content["versions"]["numba"]
        assert content["machine"]["card"] == {"driver_version": "580.1"}

    @pytest.mark.slow
    @pytest.mark.skipif(find_spec("xgboost") is None, reason="XGBoost is not installed")
    def test_a_rehearsal(self, tmp_path, capfd, monkeypatch):
        """Programs of the plan, in CUDA's simulator."""
        monkeypatch.setattr(gpu_check, "simulated", lambda: True)
        status = gpu_check.main(
            ["--rehearse", "--output", str(tmp_path), "--part", "predict", "sanitizer"]
        )
        (path,) = tmp_path.glob("*.json")
        results = json.loads(path.read_text())["results"]
        assert status == 0 and not results["dropped"]
        assert {"predict_1m_xgboost", "predict_10m_xgboost"} == set(results["figures"])
        (gap,) = results["parts"]["sanitizer"]["cases"]["memcheck"]["gaps"]
        assert gap.startswith("compute-sanitizer is not installed")
        assert len(list(tmp_path.glob("*.png"))) == 1
        assert os.listdir(tmp_path)

    @pytest.mark.slow
    @pytest.mark.skipif(gpu_check.stub.problem() is not None, reason=f"{gpu_check.stub.problem()}")
    def test_a_rehearsal_with_the_stub(self, tmp_path, monkeypatch, capfd):
        """Programs start their kernels, and nothing is compiled."""
        monkeypatch.setattr(gpu_check, "simulated", lambda: False)
        options = ["--rehearse", "--output", str(tmp_path), "--part", "launches", "small"]
        status = gpu_check.main(options)
        (path,) = tmp_path.glob("*.json")
        results = json.loads(path.read_text())["results"]
        assert status == 0 and not results["dropped"] and not results["failed"]
        assert results["parts"]["launches"]["cases"]["ms_a_tree"]["fingerprints"]
        assert not results["parts"]["small"]["cases"]["many_fits"].get("gaps")
