"""Workers that are killed or stopped at random moments of a training on Dask.

Three workers train, new ones each time, which have trained before. One of them gets the signal at
a moment that is drawn from the time of a whole fit. Measured are whether the model is the one of a
process without faults, and the seconds until training goes on: the longest time without a finished
round after the signal. A signal that comes before the first round or after the last one is counted,
too. At the end no process of the clusters may be left.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpuens import GradientBoostingClassifier

from ..common.goals import Goal, measured
from ..common.markdown import pivot
from ..common.peers import GapError
from ..common.program import Content, Options, Program, Results
from .cluster import arrays_on, block, blocks_of, cluster

HEARTBEAT = 2.0
WARM_UP_ROWS = 8192
WORKERS = 3
MOST_SECONDS = 5.0
"""Until training goes on, beyond the heartbeat where a worker is only stopped."""


class Clock:
    """Writes the time after every round."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def after_iteration(self, state: Any) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(f"{time.time()}\n")


def longest_wait(rounds: list[float], sent: float) -> float:
    """Return the longest time without a finished round, from the signal on.

    Parameters
    ----------
    rounds : list of float
        When each round ended, of all attempts.
    sent : float
        When the signal was sent.
    """
    after = [sent, *sorted(moment for moment in rounds if moment > sent)]
    return max(np.diff(after).tolist(), default=0.0)


def rounds_of(log: Path) -> list[float]:
    """Return what clocks have written."""
    return [float(line) for line in log.read_text().split()]


def fit(client: Any, options: Options, table: Any, log: Path) -> Any:
    from gpuens.dask import GradientBoostingClassifier as OnDask

    model = OnDask(
        client=client, heartbeat=HEARTBEAT, n_estimators=options.trees, random_state=0,
        device="cpu", n_jobs=1, callbacks=[Clock(log)],
    )  # fmt: skip
    return model.fit(*table)


def alive(pid: int) -> bool:
    """Return whether a process exists and has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def fault(number: signal.Signals, options: Options) -> Results:
    """Send a signal to one of the workers, once in each training."""
    if not Path("/proc/self/stat").exists():
        raise GapError("processes are looked up in /proc")
    made = [block(k, rows) for k, rows in enumerate(blocks_of(options.rows))]
    X, y = (np.concatenate(parts) for parts in zip(*made, strict=True))
    plain = GradientBoostingClassifier(
        n_estimators=options.trees, random_state=0, device="cpu", n_jobs=1
    )
    expected = plain.fit(X, y).forest_.fingerprint()
    rng, waits, same, pids = np.random.default_rng(0), [], [], set()
    duration = 0.0
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "rounds"
        for k in range(options.faults + 1):
            with cluster(WORKERS) as client:
                own = list(client.run(os.getpid).values())
                pids.update(own)
                table = arrays_on(client, options.rows)
                fit(client, options, arrays_on(client, WARM_UP_ROWS), log)
                log.write_text("")
                started = time.time()
                if k == 0:  # nothing happens to the first cluster, which tells the duration
                    fit(client, options, table, log)
                    duration = time.time() - started
                    continue
                victim, delay = int(rng.choice(own)), float(rng.uniform(0.0, duration))
                timer = threading.Timer(delay, partial(os.kill, victim, number))
                timer.start()
                model = fit(client, options, table, log)
                timer.join()
                if alive(victim):
                    os.kill(victim, signal.SIGKILL)
            waits.append(longest_wait(rounds_of(log), started + delay))
            same.append(model.forest_.fingerprint() == expected)
            print(f"  {number.name} after {delay:.2f} s: {waits[-1]:.2f} s, {same[-1]}", flush=True)
    time.sleep(1.0)
    return {
        "waits": waits, "rows": options.rows, "seconds": duration,
        "identical": sum(same), "left": sum(map(alive, pids)),
        "equal": {f"after {number.name}": all(same)},
    }  # fmt: skip


def show(content: Content) -> Iterator[str]:
    """Yield how often training went on, and after which time."""
    yield pivot("a worker that is", {
        {"killed": "killed (SIGKILL)", "stopped": "stopped (SIGSTOP)"}[name]: {
            "trainings": str(len(part["waits"])), "identical models": str(part["identical"]),
            "longest wait": f"{max(part['waits']):.1f} s",
            "median wait": f"{np.median(part['waits']):.1f} s",
            "processes left": str(part["left"]),
        }
        for name, part in measured(content["results"]).items()
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    for name, part in measured(content["results"]).items():
        n = len(part["waits"])
        yield Goal(f"the number of other models of {n}, a worker {name}", 0, n - part["identical"])
        limit = MOST_SECONDS + (HEARTBEAT if name == "stopped" else 0.0)
        what = f"the time until training goes on, a worker {name},"
        yield Goal(what, limit, max(part["waits"]), "s")
        yield Goal(f"the number of processes left, a worker {name},", 0, part["left"])


PROGRAM = Program(
    "cluster_faults", __doc__,
    {"killed": partial(fault, signal.SIGKILL), "stopped": partial(fault, signal.SIGSTOP)},
    {
        "rows": (100_000, "rows of the table"),
        "trees": (200, "rounds of boosting"),
        "faults": (50, "trainings of each kind"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
