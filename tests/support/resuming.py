"""Kill training at random moments and resume from its checkpoint.

``python -m tests.support.resuming [kills]`` counts the kills that ended in the model of an
undisturbed run.

The process that is killed runs ``train`` below: it starts from the checkpoint if there is one.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from gpuens import GradientBoostingClassifier, load
from gpuens.callbacks import Checkpoint
from gpuens.datasets import make_higgs_like

N_ROUNDS = 60


class Pace:
    """Slows training down, so that there is time to kill it, and says that it has begun."""

    def after_iteration(self, state: Any) -> None:
        print(state.iteration, flush=True)
        time.sleep(0.01)


def model(**settings: Any) -> GradientBoostingClassifier:
    return GradientBoostingClassifier(n_estimators=N_ROUNDS, subsample=0.8, **settings)


def train(path: Path) -> None:
    """Train, from the checkpoint on if there is one."""
    X, y = make_higgs_like(2000, random_state=0)
    callbacks = [Checkpoint(path, period=1), Pace()]
    goes_on = load(path).set_params(warm_start=True) if path.exists() else model()
    goes_on.set_params(callbacks=callbacks).fit(X, y)


def kill_and_resume(path: Path, kills: int, seed: int) -> int:
    """Kill training so many times, let it end, and return at how many moments it was killed."""
    rng = np.random.default_rng(seed)
    killed = 0
    for attempt in range(kills + 1):
        if path.exists() and load(path).n_iter_ == N_ROUNDS:
            break
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.resuming", "--train", str(path)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdout is not None
        if attempt < kills:
            process.stdout.readline()  # the first round is done
            time.sleep(rng.uniform(0.0, 0.15))
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        else:
            assert process.wait() == 0
        process.stdout.close()
    return killed


def main(kills: int) -> int:
    X, y = make_higgs_like(2000, random_state=0)
    expected = model().fit(X, y).forest_.fingerprint()
    survived = total = 0
    seed = 0
    while total < kills:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gpuens"
            killed = kill_and_resume(path, min(5, kills - total), seed)
            same = load(path).forest_.fingerprint() == expected
            total += killed
            survived += killed if same else 0
            seed += 1
            print(f"{survived} of {total} kills ended in the same model", flush=True)
    return 0 if survived == total else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        train(Path(sys.argv[2]))
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50))
