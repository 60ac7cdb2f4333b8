"""A short slice of the campaign, and the campaign's own parts."""

from __future__ import annotations

import time
from functools import partial

import pytest

from gpuens import command
from gpuens.command import training
from tests.campaign import patience
from tests.campaign.__main__ import main
from tests.campaign.attack import Finding, findings_in
from tests.campaign.attacks import ATTACKS, attack
from tests.campaign.child import Task, known_places
from tests.campaign.planted import N_TRIALS, Planted
from tests.campaign.readers.coverage import Edges
from tests.campaign.report import Tally, report, summary
from tests.campaign.running import run_slice

SHORT = {
    "states-survival": 1, "states-conformal": 1, "states-forests": 1, "states-trees": 1,
    "tables": 15, "passes": 15, "saved-models": 40, "saved-members": 20,
    "binned-tables": 60, "xgboost-json": 150, "xgboost-ubjson": 150, "lightgbm": 150,
    "catboost": 150, "treelite": 150, "sklearn-objects": 100, "csv": 15, "odd-csv": 82,
    "parquet": 10,
    "full-disks": 2,
}  # fmt: skip
"""Trials of the attacks that take milliseconds a trial."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SHORT)
def test_a_slice(name, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "find_spec", training.find_spec)  # the attack replaces both
    monkeypatch.setattr(command, "_parser", command._parser)
    kind = attack(name)
    if name.startswith("states"):
        monkeypatch.setattr(kind, "n_runs", 1)
    one = kind(1, tmp_path, set())
    for number in range(1, SHORT[name] + 1):
        one.trial(number)
    one.end()


def test_every_planted_fault_is_found(tmp_path):
    task = Task("planted", 0, 0, 100.0, N_TRIALS, str(tmp_path))
    assert run_slice(task, Planted.limit) == N_TRIALS
    lines = task.findings.read_text().splitlines()
    found = {f.trial: f.kind for f in map(Finding.from_json, lines)}
    assert found == {
        1: "crash", 2: "unnamed error", 3: "hang", 4: "wrong result", 5: "fault of the campaign",
    }  # fmt: skip
    assert "sleep" in next(line for line in lines if '"hang"' in line) or "planted.py" in lines[2]
    assert "here" in known_places(task.findings)
    (log,) = task.own_folder.glob("hang-3.log")
    assert "process " in log.read_text() and "planted.py" in log.read_text()
    assert list(task.own_folder.glob("crash-1.log"))


def test_a_process_that_does_not_go_on_writes_where_it_is(tmp_path):
    with patience.stacks_after(0.01, tmp_path / "stacks"):
        for _ in range(1000):
            time.sleep(0.01)
            if (tmp_path / "stacks").exists():
                break
    with patience.stacks_after(1000.0, tmp_path / "none"):
        pass
    text = (tmp_path / "stacks").read_text()
    assert "test_a_process_that_does_not_go_on" in text and not (tmp_path / "none").exists()


def test_findings_whose_writing_was_cut_are_left_out(tmp_path):
    whole = Finding("csv", 0, 1, "crash", "text", "place", "")
    path = tmp_path / "findings"
    path.write_text(f"{whole.to_json()}\n{whole.to_json()[:30]}\n[]\n")
    assert findings_in(path) == [whole] and findings_in(tmp_path / "none") == []


def test_report_counts_findings_once():
    found = [Finding("csv", 0, k, "crash", "text", "here", "x" * (3 - k)) for k in range(3)]
    text = report({"csv": Tally(10, 60.0, findings=found), "cgroup": Tally(skipped="x")}, "Title")
    assert "| csv | 10 | 1.0 | 0.2 | 1 | 0 |" in text
    assert "csv: crash, 3 times" in text and "--trial 2" in text
    assert "| cgroup | skipped: x |" in text


def test_summary_names_what_was_found_and_what_did_not_run():
    found = [Finding("csv", 0, 1, "crash", "text", place, "") for place in ("a", "a", "b")]
    tallies = {"csv": Tally(10, 90.0, findings=found), "cgroup": Tally(skipped="x"), "a": Tally()}
    assert summary(tallies).splitlines() == [
        "1 attacks, 10 trials, 1.5 minutes.",
        "Not run: cgroup, x.",
        "Not run: a, no trial was finished in the time.",
        "FOUND crash: 2",
    ]
    assert summary({"a": Tally(3, 60.0)}).endswith("1.0 minutes.\nNothing was found.")


def test_edges_are_those_of_the_watched_folder():
    def sign(x):
        if x < 0:
            return "negative"
        return "positive"

    edges = Edges((__file__,))
    assert edges.run(partial(sign, 1)) > 0
    assert edges.run(partial(sign, 2)) == 0
    assert edges.run(partial(sign, -1)) > 0
    assert Edges(("/nowhere",)).run(partial(sign, 1)) == 0


def test_processes_that_hang_are_told_from_slow_ones(monkeypatch):
    clock, used = [0.0], [0.0]
    monkeypatch.setattr(patience.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(patience, "seconds_of_group", lambda group: used[0])

    def over(at, of_processor):
        clock[0], used[0] = at, of_processor
        return waits.is_over()

    waits = patience.Patience(1, 10.0)
    assert [over(9, 0), over(11, 1), over(22, 1.1)] == [False, False, True]
    clock[0] = used[0] = 0.0
    waits = patience.Patience(1, 10.0)
    assert [over(11 * k, 0.3 * k) for k in (1, 18, 19)] == [False, False, True]
    clock[0] = used[0] = 0.0
    waits = patience.Patience(1, 10.0)
    assert [over(11, 2), over(22, 4), over(33, 6), over(44, 11)] == [False, False, False, True]


def test_program_writes_a_report(tmp_path, capsys):
    options = ["--trials", "30", "--only", "treelite", "--folder", str(tmp_path)]
    assert main([*options, "--out", str(tmp_path / "report.md")]) == 0
    out = capsys.readouterr().out
    assert "| treelite | 30 |" in out and out.endswith("Nothing was found.\n")
    assert (tmp_path / "report.md").read_text().startswith("# A campaign of")


def test_attacks_exist():
    assert all(issubclass(attack(name), object) and attack(name).weight > 0 for name in ATTACKS)
