"""Progress in a terminal and in a file, logs of metrics, and callbacks as parameters."""

from __future__ import annotations

import copy
import io
import pickle
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from sklearn.base import clone

from gpuens import GradientBoostingRegressor
from gpuens.callbacks import ProgressBar, TrainingState
from gpuens.callbacks import _in_notebook as in_notebook


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: Any, n: int, first: int = 0, last: int | None = None, **metrics: float) -> str:
    """Run a bar through a training, and return what it wrote."""
    evals = {"validation": {name: [value] for name, value in metrics.items()}}
    unused: Any = None
    state = TrainingState(first, n, first, evals, unused, unused)
    bar = ProgressBar(stream, interval=0)
    for iteration in range(first + 1, (n if last is None else last) + 1):
        state.iteration = iteration
        bar.after_iteration(state)
    bar.after_training(state)
    return stream.getvalue()


class TestLogFile:
    @pytest.mark.parametrize("n", [1, 2, 7, 100, 3000])
    def test_a_few_whole_lines(self, n):
        text = shown(io.StringIO(), n, loss=0.25)
        lines = text.splitlines()
        assert text.endswith("\n") and "\r" not in text and len(lines) <= 9
        assert lines[-1].startswith(f"100 % {n}/{n} ") and lines[-1].endswith(
            "validation loss 0.25"
        )
        assert len(set(lines)) == len(lines)

    def test_when(self):
        lines = shown(io.StringIO(), 1000).splitlines()
        at = [int(line.split("/")[0].split()[-1]) for line in lines]
        assert at == [10, 20, 50, 100, 200, 400, 600, 800, 1000]

    def test_after_a_warm_start(self):
        lines = shown(io.StringIO(), 100, first=50).splitlines()
        assert [line[:3] for line in lines] == [" 60", " 80", "100"]

    def test_without_further_rounds(self):
        assert shown(io.StringIO(), 5, first=5).startswith("100 % 5/5 ")

    def test_stopped(self):
        lines = shown(io.StringIO(), 100, last=33).splitlines()
        assert lines[-1].startswith(" 33 % 33/100 ") and len(lines) == 6

    def test_the_first_round_is_left_out_of_the_time_left(self, monkeypatch):
        unused: Any = None
        stream, state = io.StringIO(), TrainingState(1, 100, 0, {}, unused, unused, started=100.0)
        bar = ProgressBar(stream)
        for state.iteration, now in {1: 130.0, 2: 131.0, 5: 134.0}.items():
            clock = SimpleNamespace(perf_counter=partial(float, now))
            monkeypatch.setattr("gpuens.callbacks.time", clock)
            bar.after_iteration(state)
        assert [line.strip() for line in stream.getvalue().splitlines()] == [
            "1 % 1/100 30.0 s", "2 % 2/100 31.0 s, 98.0 s left", "5 % 5/100 34.0 s, 95.0 s left",
        ]  # fmt: skip

    def test_many_metrics_are_cut_off(self):
        metrics = {f"a_metric_with_a_long_name_{i}": 0.1 for i in range(20)}
        assert max(map(len, shown(io.StringIO(), 100, **metrics).splitlines())) == 119


class TestTerminal:
    def test_one_line(self):
        text = shown(Terminal(), 50, loss=0.25)
        assert text.count("\r") > 10 and text.count("\n") == 1 and text.endswith("\n")
        last = text.split("\r")[-1]
        assert " 50/50 [" in last and "validation loss 0.25" in last

    def test_stopped(self):
        last = shown(Terminal(), 100, first=10, last=12).split("\r")[-1]
        assert " 12/100 [" in last and last.endswith("\n")


class TestParameter:
    def test_bars_can_be_copied_in_the_middle(self):
        bar = ProgressBar(Terminal())
        unused: Any = None
        bar.after_iteration(TrainingState(1, 3, 0, {}, unused, unused))
        assert copy.copy(bar)._bar is None and bar._bar is not None
        bar.file = None
        assert pickle.loads(pickle.dumps(bar)).width == 30
        bar._bar.close()

    def test_models_with_streams_can_be_cloned(self):
        model = GradientBoostingRegressor(callbacks=[ProgressBar(io.StringIO())])
        assert clone(model).callbacks[0].file is model.callbacks[0].file

    @pytest.mark.parametrize("app, expected", [("IPKernelApp", True), ("TerminalApp", False)])
    def test_notebooks_are_recognised(self, app, expected, monkeypatch):
        assert not in_notebook()
        shell = SimpleNamespace(config={app: {}})
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
        assert in_notebook() is expected
