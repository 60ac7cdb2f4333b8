"""Fits with little memory, in a process of their own: ``python -m tests.campaign.memory SEED
[GROUP]``."""

from __future__ import annotations

import os
import random
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gpuens
from tests.support.suited import suited

from .attack import Attack, FoundError
from .storms import ended, shown

LIMIT = 240.0
MIB = 2**20
UNIFIED, MEMORY = Path("/sys/fs/cgroup/cgroup.controllers"), Path("/sys/fs/cgroup/memory")
KINDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("GradientBoostingRegressor", {"n_estimators": 3, "early_stopping": False}),
    ("GradientBoostingClassifier", {"n_estimators": 3, "max_depth": 12, "early_stopping": False}),
    ("RandomForestRegressor", {"n_estimators": 3}),
    ("ExtraTreesRegressor", {"n_estimators": 3}),
    ("DecisionTreeRegressor", {}),
    ("IsolationForest", {"n_estimators": 20}),
    ("GradientBoostingRegressor", {"n_estimators": 3, "linear_leaves": True}),
    ("GradientBoostingClassifier", {"n_estimators": 3, "dropout": 0.5}),
    ("GradientBoostingRegressor", {"n_estimators": 3, "loss": "aft"}),
    ("GradientBoostingRanker", {"n_estimators": 3}),
    ("ObliqueRandomForestClassifier", {"n_estimators": 2, "feature_combinations": 2}),
    ("RandomSurvivalForest", {"n_estimators": 2}),
)


class AddressSpace(Attack):
    """A limit on addresses a little above what the process has: a fit succeeds or raises a
    MemoryError, and the next one works once there is memory."""

    weight, limit = 0.7, LIMIT + 60

    def trial(self, number: int) -> None:
        self.run(number)

    def run(self, number: int, *group: str) -> None:
        seed = str(self.seed * 10**6 + number)
        command = [sys.executable, "-m", "tests.campaign.memory", seed, *group]
        found = ended(command, LIMIT)
        if found is not None:
            kind, text = found
            last = text.strip().splitlines()[-1][:200]
            raise FoundError(kind, shown(kind, text), f"{kind} {last}", " ".join(command[1:]))


class ControlGroup(AddressSpace):
    """A control group of little memory: the plan refuses what would be killed."""

    weight = 0.4

    @classmethod
    def missing(cls) -> str | None:
        group = _parent_group() / f"campaign-{os.getpid()}"
        try:
            group.mkdir()
            group.rmdir()
        except OSError as error:
            return f"no control group can be made ({error.strerror})"
        return None

    def trial(self, number: int) -> None:
        group = _parent_group() / f"campaign-{os.getpid()}-{number}"
        group.mkdir()
        try:
            self.run(number, str(group))
        finally:
            _removed(group)


def _parent_group() -> Path:
    return UNIFIED.parent if UNIFIED.exists() else MEMORY


def _removed(group: Path) -> None:
    for _ in range(50):
        try:
            group.rmdir()
            return
        except OSError:  # its last process is ending
            time.sleep(0.1)


def limited(extra: int, group: Path | None) -> None:
    """Leave this process so many bytes more than it has."""
    if group is None:
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + extra, resource.RLIM_INFINITY))
        return
    # What the process had before it came counts in its old group.
    (group / "cgroup.procs").write_text(str(os.getpid()))
    _limit_of(group).write_text(str(extra))


def unlimited(group: Path | None) -> None:
    """Take the limit back."""
    if group is None:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    else:
        _limit_of(group).write_text("max" if UNIFIED.exists() else "-1")


def _limit_of(group: Path) -> Path:
    return group / ("memory.max" if UNIFIED.exists() else "memory.limit_in_bytes")


def outcome_of(task: Callable[[], Any]) -> str:
    """Return what became of a fit: "fitted", or its error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            task()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "fitted"


def main(seed: int, group: Path | None) -> int:
    rng = random.Random(seed)
    name, settings = rng.choice(KINDS)
    places: dict[str, Any] = {"device": "cpu", "random_state": 0, "n_jobs": rng.choice([1, 2])}
    model = getattr(gpuens, name)(**settings, **places)
    generator = np.random.default_rng(seed)
    small = generator.normal(size=(1500, 10))
    loss = settings.get("loss")
    few, of_few = suited(name, loss, small[:, 0])
    model.fit(small, few, **of_few)
    for _ in range(5):  # compiles and imports: many rows are predicted in another way than few
        before = model.predict(small)
    X = generator.normal(size=(rng.choice([20_000, 200_000]), rng.choice([5, 40])))
    y, given = suited(name, loss, X[:, 0])
    extra = int(MIB * rng.choice([2, 8, 20, 60, 150, 400]))
    limited(extra, group)
    outcome = outcome_of(lambda: model.fit(X, y, **given).predict(X))
    if not outcome.startswith(("fitted", "MemoryError")):
        print(f"{name} {settings} {X.shape} with {extra // MIB} MiB: {outcome}")
        return 1
    unlimited(group)
    if outcome != "fitted" and model.n_features_in_ == 10 and len(before) == len(small):
        if not np.array_equal(model.predict(small), before):
            print(f"{name}: a fit without memory has changed the model")
            return 1
    again = getattr(gpuens, name)(**settings, **places)
    if not np.array_equal(again.fit(small, few, **of_few).predict(small), before):
        print(f"{name}: another model after {outcome}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
