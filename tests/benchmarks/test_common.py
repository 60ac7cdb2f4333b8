"""What programs share: turns, records, processes, memory, goals, and tables in Markdown."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

import numpy as np
import pytest

from benchmarks.common import goals, memory, processes, records, tables, timing
from benchmarks.common.peers import GapError
from benchmarks.common.program import all_equal, anything


class TestTurns:
    def test_the_order_rotates(self):
        order = []
        actions = {name: (lambda name=name: order.append(name)) for name in "abc"}
        seconds, _ = timing.interleaved(actions, 3, threads=1)
        assert "".join(order) == "abcbcacab"
        assert [len(runs) for runs in seconds.values()] == [3, 3, 3]

    def test_a_budget_ends_the_rounds(self):
        seconds, _ = timing.interleaved({"a": dict, "b": dict}, 5, threads=1, budget=-1)
        assert [len(runs) for runs in seconds.values()] == [1, 1]

    def test_ratios_are_of_medians(self):
        runs = {"gpuens": [1.0, 2.0, 9.0], "peer": [4.0, 8.0, 6.0]}
        peer = timing.compare(runs, "gpuens")["peer"]
        assert peer == {"median": 6.0, "range": [4.0, 8.0], "runs": 3, "ratio": 2.0 / 6.0}


class TestRecords:
    RECORD = {
        "format": 1, "benchmark": "fit", "date": "2026-01-01T00:00:00+00:00", "machine": {},
        "versions": {}, "settings": {}, "results": {},
    }  # fmt: skip

    @pytest.mark.parametrize("change, text", [
        ('{"benchmark": "fit", "res', "is damaged: not valid JSON"),
        ("[1]", "is not a result file: it holds a list"),
        ({"format": 2}, "has format 2, this program reads format 1"),
        ({"benchmark": "knit"}, "unknown program, 'knit'. Known are fit,"),
        ({"results": [1]}, "'results' must be a dict, it holds a list"),
        ({"date": None}, "is damaged: 'date' must be a str"),
    ])  # fmt: skip
    def test_bad_files_are_refused_by_name(self, tmp_path, change, text):
        path = tmp_path / "a.json"
        path.write_text(change if isinstance(change, str) else json.dumps(self.RECORD | change))
        with pytest.raises(records.RecordError) as refused:
            records.read_record(path)
        assert str(path) in str(refused.value) and text in str(refused.value)

    def test_a_file_is_replaced_at_once(self, tmp_path, monkeypatch):
        path = tmp_path / "a.json"
        records.replace_text(path, "old")

        def full(*args):
            raise OSError("disk full")

        monkeypatch.setattr(records.os, "fsync", full)
        with pytest.raises(OSError, match="disk full"):
            records.replace_text(path, "new")
        assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["a.json"]


class TestMemory:
    def test_the_peak_of_a_call(self):
        if sys.platform != "linux":
            pytest.skip("memory is read from /proc")
        peak, found = memory.peak_of(lambda: np.ones(2**22).sum())
        assert found == 2**22 and 0.9 * 2**25 < peak < 2**26  # the kernel counts in batches

    def test_allocated_memory_is_watched(self):
        if sys.platform != "linux":
            pytest.skip("memory is read from /proc")
        with memory.Allocated() as watched:
            kept = np.ones(2**23)
            while watched.most < watched.before + kept.nbytes // 2:
                threading.Event().wait(memory.PAUSE)
        assert watched.most - watched.before < 2 * kept.nbytes

    def test_without_proc_it_is_a_gap(self, monkeypatch, tmp_path):
        monkeypatch.setattr(memory, "PROC", tmp_path)
        with pytest.raises(GapError, match="is read from"):
            memory.field("VmRSS")


class TestProcesses:
    def test_a_function_is_called_in_a_process(self):
        assert processes.call(os.getpid) != os.getpid()

    def test_a_process_that_fails_or_hangs_is_a_gap(self):
        with pytest.raises(GapError, match="ended with 1: ValueError: no such thing"):
            processes.run_python("raise ValueError('no such thing')")
        with pytest.raises(GapError, match="took longer than 0.5 s"):
            processes.call(time.sleep, 60, limit=0.5)


def test_results_are_searched_at_any_depth():
    assert all_equal({"equal": {"a": {"b": True}}, "reached": False})
    assert not all_equal({"part": {"equal": {"a": {"b": True, "c": False}}}})
    assert not anything({"gaps": ["a"], "part": {"gaps": ["b"]}, "losses": {}})
    assert anything({"part": {"n": 1}})


def test_targets_are_numbers_or_classes(tmp_path):
    """Prices are not ranks."""
    y = np.array([250.0, 100.0, 100.0], np.float32)
    for name in ("ames", "spambase"):
        np.savez(tmp_path / f"{name}.npz", X=np.zeros((3, 1)), y=y)
    assert tables.load(tmp_path, "ames")["y"].tolist() == [250.0, 100.0, 100.0]
    assert tables.load(tmp_path, "spambase")["y"].tolist() == [1, 0, 0]


def test_goals():
    assert not goals.Goal("a", 1.0, 1.01).reached and goals.Goal("a", 1.0, 1.0).reached
    assert goals.Goal("a", None, 1.0).reached is None
    sentence = goals.Goal("the time", 2, 3.0, "s").sentence()
    assert sentence == "the time is 3 s; the goal is at most 2 s."
