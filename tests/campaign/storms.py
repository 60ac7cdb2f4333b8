"""Fits on many threads, with forks and signals at random moments, in a process of their own:
``python -m tests.campaign.storms SEED``."""

from __future__ import annotations

import faulthandler
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gpuens
from gpuens.callbacks import Checkpoint
from tests.support.suited import suited

from .attack import ROOT, Attack, FoundError
from .patience import Patience

N_FITS, N_THREADS = 16, 8
LIMIT = 180.0
CHILD_LIMIT = 60.0
KINDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("GradientBoostingClassifier", {"n_estimators": 6, "early_stopping": False}),
    ("GradientBoostingRegressor", {"n_estimators": 6, "early_stopping": False}),
    ("RandomForestClassifier", {"n_estimators": 4}),
    ("QuantileForestRegressor", {"n_estimators": 4}),
    ("DecisionTreeRegressor", {"max_depth": 6}),
    ("AdaBoostClassifier", {"n_estimators": 4}),
    ("BaggingRegressor", {"n_estimators": 4}),
    ("GradientBoostingRegressor", {"n_estimators": 6, "linear_leaves": True}),
    ("GradientBoostingClassifier", {"n_estimators": 6, "dropout": 0.5}),
    ("GradientBoostingRegressor", {"n_estimators": 4, "loss": "student_t"}),
    ("GradientBoostingRegressor", {"n_estimators": 4, "loss": "cox"}),
    ("GradientBoostingRanker", {"n_estimators": 4}),
    ("ObliqueRandomForestClassifier", {"n_estimators": 4, "feature_combinations": 2}),
    ("RandomSurvivalForest", {"n_estimators": 4}),
)


class Storms(Attack):
    """Sixteen fits on eight threads, forks during fits, SIGINT and SIGTERM at random moments."""

    limit = LIMIT + 60

    def trial(self, number: int) -> None:
        seed = self.seed * 10**6 + number
        command = [sys.executable, "-m", "tests.campaign.storms", str(seed)]
        found = ended(command, LIMIT)
        if found is not None:
            kind, text = found
            place = text.splitlines()[-1][:200] if text else ""
            raise FoundError(kind, shown(kind, text), f"{kind} {place}", " ".join(command[1:]))


def shown(kind: str, text: str) -> str:
    """Return the end of the output of a program; of one that hangs with the stacks of threads."""
    return text[-20_000 if kind == "hang" else -1500 :]


def ended(command: list[str], limit: float, **settings: Any) -> tuple[str, str] | None:
    """Run a program, and return what was wrong: the kind and its text."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=out, stderr=out, start_new_session=True, **settings
        )
        patience = Patience(process.pid, limit)
        try:
            while (status := process.poll()) is None and not patience.is_over():
                time.sleep(0.1)
            if status is None:
                process.send_signal(signal.SIGABRT)  # faulthandler writes the stacks
                time.sleep(1)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        out.seek(0)
        text = out.read()
    if status == 0:
        return None
    kind = "hang" if status is None else "crash" if status < 0 else "wrong result"
    return kind, f"status {status}: {text}"


class Fits:
    """The fits of a storm, and what each must come to."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.made: list[Callable[[], Any]] = []
        n_jobs = [rng.choice([1, 2, None]) for _ in range(N_FITS)]
        for k in range(N_FITS):
            self.made.append(_fit_of(k, n_jobs[k], rng.choice([200, 2000])))
        self.expected = [fit() for fit in self.made]

    def check(self, k: int) -> None:
        found = self.made[k]()
        if not np.array_equal(found, self.expected[k]):
            raise AssertionError(f"fit {k} differs")


def _fit_of(k: int, n_jobs: int | None, n: int) -> Callable[[], Any]:
    name, settings = KINDS[k % len(KINDS)]
    rng = np.random.default_rng(k)
    X = rng.normal(size=(n, 5)).astype(np.float32)
    y = X[:, 0] + X[:, 1] ** 2
    target, given = suited(name, settings.get("loss"), y)

    def fit() -> Any:
        model = getattr(gpuens, name)(**settings, n_jobs=n_jobs, device="cpu", random_state=k)
        return model.fit(X, target, **given).predict(X[:200])

    return fit


def on_threads(fits: Fits, wrong: list[str]) -> list[threading.Thread]:
    """Start threads that do the fits."""
    todo: queue.Queue[int] = queue.Queue()
    for k in range(N_FITS):
        todo.put(k)

    def work() -> None:
        while True:
            try:
                k = todo.get_nowait()
            except queue.Empty:
                return
            try:
                fits.check(k)
            except BaseException as error:
                wrong.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work) for _ in range(N_THREADS)]
    for thread in threads:
        thread.start()
    return threads


def fork_and_fit(fits: Fits, wrong: list[str]) -> None:
    """Fit in a fork while other threads fit here."""
    k = fits.rng.randrange(N_FITS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of forks beside threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            faulthandler.dump_traceback_later(CHILD_LIMIT, exit=True)
            fits.check(k)
            status = 0
        except BaseException as error:
            print(f"in a fork: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        wrong.append(f"a fork of fit {k} ended with status {status}")


def with_forks_and_signals(rng: random.Random) -> list[str]:
    """Fits on threads, while this thread forks, fits and is interrupted."""
    fits, wrong = Fits(rng), []
    threads = on_threads(fits, wrong)
    while any(thread.is_alive() for thread in threads):
        if rng.random() < 0.5:
            fork_and_fit(fits, wrong)
        else:
            _interrupted(fits, rng, wrong)
    for thread in threads:
        thread.join()
    return wrong


def _interrupted(fits: Fits, rng: random.Random, wrong: list[str]) -> None:
    """Interrupt a fit of this thread, and do it again undisturbed."""
    k = rng.randrange(N_FITS)
    timer = threading.Timer(rng.uniform(0, 0.1), os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fits.made[k]()
        timer.join()
        time.sleep(0.01)
    except KeyboardInterrupt:
        pass
    timer.join()
    try:
        fits.check(k)
    except (AssertionError, Exception) as error:
        wrong.append(f"after an interruption: {type(error).__name__}: {error}")


def ended_by_sigterm(rng: random.Random) -> list[str]:
    """A process that writes checkpoints is ended; what it left is whole, and goes on to the same
    model."""
    X = np.random.default_rng(0).normal(size=(2000, 5))
    settings = {"n_estimators": 40, "device": "cpu", "random_state": 0, "early_stopping": False}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gpuens"
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            model = gpuens.GradientBoostingRegressor(**settings, n_jobs=1)
            model.set_params(callbacks=[Checkpoint(path, period=1)]).fit(X, X[:, 0])
            os._exit(0)
        time.sleep(rng.uniform(0.02, 0.5))
        os.kill(child, rng.choice([signal.SIGTERM, signal.SIGINT, signal.SIGKILL]))
        os.waitpid(child, 0)
        straight = gpuens.GradientBoostingRegressor(**settings).fit(X, X[:, 0])
        model = gpuens.load(path) if path.exists() else None
        if model is None:
            return []
        model.set_params(warm_start=True).fit(X, X[:, 0])
        same = model.forest_.fingerprint() == straight.forest_.fingerprint()
    return [] if same else ["a checkpoint does not go on to the same model"]


def main(seed: int) -> int:
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rng = random.Random(seed)
    wrong = with_forks_and_signals(rng) if seed % 4 else ended_by_sigterm(rng)
    for line in wrong:
        print(line)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
