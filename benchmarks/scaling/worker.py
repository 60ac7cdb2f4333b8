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
import time
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from ..common.peers import OURS, GapError, Settings, Task, silence
from ..common.timing import seconds_of
from ..programs.memory import best_meter, give_back
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
        """Run one turn; -1 is the warm-up.

        Raises
        ------
        GapError
            If it fails, ends, or takes longer than the limit.
        """
        try:
            self.connection.send(turn)
            if not self.connection.poll(START_LIMIT if turn < 0 else self.limit):
                raise GapError(
                    f"took longer than {self.limit:g} s (--run-limit)"
                    if turn >= 0
                    else f"was not ready after {START_LIMIT:g} s"
                )
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
        if self.on_gpu:
            import cupy

            self.X = cupy.asarray(self.X)
        model = self.library.build(job.task, small).fit(self.X[:few], self.y[:few])
        self._predict(model, self.X[:few])
        if self.library.bin is not None:
            self.library.bin(self.X[:few], self.y[:few], self.settings)
        self._stages(few)
        self.meter = best_meter()

    @property
    def on_gpu(self) -> bool:
        """Whether the table is in a GPU's memory."""
        return self.library.device == "cuda" and self.library.own_arrays

    def turn(self, number: int) -> dict[str, Any]:
        """Every part once: seconds, and bytes of the fit."""
        found: dict[str, Any] = {}
        give_back()
        model = self.library.build(self.job.task, self.settings)
        device_meter = DeviceMeter() if self.library.device == "cuda" else None
        before = self.meter.start()
        if self.library.trains:
            found["fit"], model = self._clock(lambda: model.fit(self.X, self.y))
            found["memory"] = max(0, self.meter.peak() - before)
            found["memory_method"] = self.meter.method
        else:
            model = model.fit(self.X, self.y)
            self.meter.peak()
        if device_meter is not None:
            found["device_memory"] = device_meter.peak()
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
        device = self.library.device
        y = self.y[:n_rows]
        if device == "cuda":
            import cupy

            y = cupy.asarray(y)
        return stage_seconds(self.X[:n_rows], y, self.settings, device)

    def _quality(self, model: Any) -> dict[str, float]:
        """Log loss or root mean squared error on rows that were not trained on."""
        from sklearn.metrics import log_loss, root_mean_squared_error

        X, y = self.job.table.test()
        if self.on_gpu:
            import cupy

            X = cupy.asarray(X)
        predicted = self._predict(model, X)
        values = predicted.get() if hasattr(predicted, "get") else np.asarray(predicted)
        if self.job.task == "regression":
            return {"rmse": float(root_mean_squared_error(y, values.reshape(-1)))}
        p = values.astype(np.float64).reshape(len(y), -1)
        p = np.column_stack([1 - p, p]) if p.shape[1] == 1 else p
        classes = np.asarray(getattr(model, "classes_", np.arange(p.shape[1])))
        known = np.isin(y, classes)  # a short table may lack a rare class
        p = p[known] / p[known].sum(axis=1, keepdims=True)
        return {"log_loss": float(log_loss(y[known], p, labels=classes))}


class DeviceMeter:
    """The largest use of a GPU's memory beyond that at the start, read every few milliseconds."""

    seconds = 0.005

    def __init__(self) -> None:
        import cupy

        self._info = cupy.cuda.runtime.memGetInfo
        cupy.get_default_memory_pool().free_all_blocks()
        self._least = self._before = self._info()[0]
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._done.is_set():
            self._least = min(self._least, self._info()[0])
            time.sleep(self.seconds)

    def peak(self) -> int:
        self._done.set()
        self._thread.join()
        return int(self._before - min(self._least, self._info()[0]))
