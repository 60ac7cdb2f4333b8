"""The processes of ``scaling``: one for every library on every rung.

A library that is killed because memory runs out, crashes or hangs takes nothing with it but its
process. The processes of a rung wait for their turn, so that runs of the libraries alternate as
in the other programs; the memory of one does not count for the others.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from ..common.peers import OURS, GapError, Settings, Task, silence
from ..common.timing import seconds_of
from ..programs.memory import HighWaterMark, Sampler, best_meter, give_back
from .plan import Point
from .tables import Table

WARM_UP_ROWS = 2000
WARM_UP_TREES = 3
START_LIMIT = 600.0
"""Seconds until a process has loaded and compiled everything, at most."""
OOM_SCORE = Path("/proc/self/oom_score_adj")
"""Which process Linux ends when memory runs out: the one with the highest score."""


@dataclass(frozen=True)
class Job:
    """The task of a process. ``registry`` is the module whose ``ESTIMATORS`` names libraries."""

    registry: str
    estimator: str
    library: str
    task: Task
    point: Point
    table: Table

    @property
    def settings(self) -> Settings:
        point = self.point
        return Settings(n_trees=point.n_trees, threads=point.threads, max_depth=point.depth)

    def find(self) -> Any:
        """The library's entry in the registry."""
        libraries = import_module(self.registry).ESTIMATORS[self.estimator]
        return next(entry for entry in libraries if entry.name == self.library)


class Worker:
    """A process that measures one library, seen from the program."""

    def __init__(self, job: Job, limit: float) -> None:
        self.job, self.limit = job, limit
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, job), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, turn: int) -> dict[str, Any]:
        """Run one turn, of which -1 is the warm-up; raises GapError if it fails, ends, or takes
        longer than the limit."""
        try:
            self.connection.send(turn)
            if not self.connection.poll(START_LIMIT if turn < 0 else self.limit):
                late = f"took longer than {self.limit:g} s (--run-limit)"
                raise GapError(f"was not ready after {START_LIMIT:g} s" if turn < 0 else late)
            answer = self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join(10)
            raise GapError(reason_of(self.process.exitcode)) from None
        if "error" in answer:
            raise GapError(answer["error"])
        return answer

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def reason_of(exitcode: int | None) -> str:
    """Return why a process ended unexpectedly."""
    if exitcode is None or exitcode >= 0:
        return f"its process ended with code {exitcode}"
    name = signal.Signals(-exitcode).name
    why = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"its process was killed by {name}{why}"


def serve(connection: Connection, job: Job) -> None:
    """Answer turns until the connection is closed. Runs in the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program, which ends us
    threading.Thread(target=_end_with_parent, daemon=True).start()
    measured = None
    while True:
        try:
            turn = connection.recv()
        except (EOFError, ConnectionError):
            return
        try:
            with _first_to_be_ended():
                measured = measured or Measured(job)
                answer = measured.turn(turn) if turn >= 0 else {"ready": True}
        except BaseException as error:
            answer = {"error": _one_line(error)}
        connection.send(answer)


def _end_with_parent() -> None:
    """End this process with the program, whose next run must not have it beside itself."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextlib.contextmanager
def _first_to_be_ended() -> Any:
    """While it measures, this process is the one that the system ends for want of memory: not
    the program, nor the processes that wait."""
    for score in (1000, 500):
        with contextlib.suppress(OSError):
            OOM_SCORE.write_text(str(score))
        if score == 1000:
            yield


def _one_line(error: BaseException) -> str:
    kind = type(error).__name__
    text = " ".join(str(error).split())
    return f"failed: {kind}: {text[:300]}" if text else f"failed: {kind}"


class Measured:
    """A library, ready to run on its table."""

    def __init__(self, job: Job) -> None:
        silence()
        self.job, self.library = job, job.find()
        self.settings = job.settings
        self.X, self.y = job.table.open()
        few = min(WARM_UP_ROWS, len(self.y))
        small = Settings(WARM_UP_TREES, threads=self.settings.threads)
        self.X = self._there(self.X)
        model = self.library.build(job.task, small).fit(self.X[:few], self.y[:few])
        self._predict(model, self.X[:few])
        if self.library.bin is not None:
            self.library.bin(self.X[:few], self.y[:few], self.settings)
        self._stages(few)
        self.meter = best_meter()

    def _there(self, array: np.ndarray) -> Any:
        """Return an array where the library takes it: in a GPU's memory, or as it is."""
        if self.library.device == "cpu" or not self.library.own_arrays:
            return array
        import cupy

        return cupy.asarray(array)

    def turn(self, number: int) -> dict[str, Any]:
        """Every part once: seconds, and bytes of the fit."""
        found: dict[str, Any] = {}
        give_back()
        model = self.library.build(self.job.task, self.settings)
        meters: dict[str, HighWaterMark | Sampler] = {"memory": self.meter}
        if self.library.device == "cuda":
            meters["device_memory"] = DeviceMeter()
        before = {name: meter.start() for name, meter in reversed(meters.items())}
        if self.library.trains:
            found["fit"], model = self._clock(lambda: model.fit(self.X, self.y))
            found["memory_method"] = self.meter.method
        else:
            model = model.fit(self.X, self.y)
        for name, meter in meters.items():
            used = max(0, meter.peak() - before[name])
            found |= {name: used} if self.library.trains or name == "device_memory" else {}
        found["predict"], _ = self._clock(lambda: self._predict(model, self.X))
        if number == 0:
            found["quality"] = self._quality(model)
        model = None  # its memory is the next part's
        if self.library.bin is not None:
            give_back()
            found["bin"], _ = self._clock(lambda: self.library.bin(self.X, self.y, self.settings))
        return found | {"stages": self._stages(len(self.y))}

    def _clock(self, call: Any) -> tuple[float, Any]:
        def whole() -> Any:
            result = call()
            if self.library.device == "cuda":
                import cupy

                cupy.cuda.Device().synchronize()
            return result

        return seconds_of(whole, self.settings.threads)

    def _predict(self, model: Any, X: Any) -> Any:
        by_class = self.job.task != "regression" and hasattr(model, "predict_proba")
        return model.predict_proba(X) if by_class else model.predict(X)

    def _stages(self, n_rows: int) -> dict[str, float]:
        """Seconds of gpuens' operations, for its gradient boosting of two classes."""
        ours = self.job.library.split(" ")[0] == OURS
        if not ours or self.job.estimator != "gradient_boosting" or self.job.task != "binary":
            return {}
        from .stages import stage_seconds

        give_back()
        y = self._there(self.y[:n_rows])
        return stage_seconds(self.X[:n_rows], y, self.settings, self.library.device)

    def _quality(self, model: Any) -> dict[str, float]:
        """Log loss or root mean squared error on rows that were not trained on."""
        from sklearn.metrics import log_loss, root_mean_squared_error

        X, y = self.job.table.test()
        predicted = self._predict(model, self._there(X))
        values = predicted.get() if hasattr(predicted, "get") else np.asarray(predicted)
        if self.job.task == "regression":
            return {"rmse": float(root_mean_squared_error(y, values.reshape(-1)))}
        p = values.astype(np.float64).reshape(len(y), -1)
        p = np.column_stack([1 - p, p]) if p.shape[1] == 1 else p
        classes = np.asarray(getattr(model, "classes_", np.arange(p.shape[1])))
        known = np.isin(y, classes)  # a short table may lack a rare class
        p = p[known] / p[known].sum(axis=1, keepdims=True)
        return {"log_loss": float(log_loss(y[known], p, labels=classes))}


class DeviceMeter(Sampler):
    """The use of a GPU's memory, read every few milliseconds."""

    seconds = 0.005

    def start(self) -> int:
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()
        return super().start()

    def _read(self) -> int:
        import cupy

        free, total = cupy.cuda.runtime.memGetInfo()
        return int(total - free)
