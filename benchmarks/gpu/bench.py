"""The surroundings of a case of ``gpu_check``: the card, taking turns, a deadline."""

from __future__ import annotations

import gc
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, partialmethod
from statistics import median
from typing import Any

import numpy as np

from gpuens.datasets import tables as datasets_tables

from ..common.peers import OURS
from ..common.timing import compare, interleaved

ON_CPU, XGBOOST = "gpuens on the CPU", "XGBoost"
WARM_UP_ROWS = 4096
Action = Callable[[], Any]
CELLS_AT_ONCE = 2**25
"""Cells of a table that are generated together on a card, where a launch costs as much as a
million of them; the host's blocks fit into its cache."""
QUERY = ("name", "driver_version", "memory.total", "compute_cap", "clocks.max.sm", "power.limit")
"""The fields that ``nvidia-smi`` reports."""


class Card:
    """A GPU, by CuPy."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.kept: dict[Any, Any] = {}
        """Shared by the cases of a process."""

    def put(self, array: np.ndarray) -> Any:
        """Return a copy in the card's memory."""
        return self.cupy.asarray(array)

    def get(self, array: Any) -> np.ndarray:
        """Return a copy in the host's memory."""
        return array.get() if hasattr(array, "get") else np.asarray(array)

    def table(self, make: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """Return a table of ``gpuens.datasets``, generated in the card's memory."""
        before = datasets_tables.BLOCK
        datasets_tables.BLOCK = CELLS_AT_ONCE
        try:
            return make(*args, device="cuda", **more)
        finally:
            datasets_tables.BLOCK = before

    def synchronise(self) -> None:
        """Wait until the card has finished."""
        self.cupy.cuda.runtime.deviceSynchronize()

    def seconds(self, call: Callable[[], Any]) -> float:
        """Return the time of one call, the card's work included."""
        self.synchronise()
        start = time.perf_counter()
        call()
        self.synchronise()
        return time.perf_counter() - start

    def free_bytes(self) -> int:
        """Return the free memory, after unused memory has been given back."""
        self.give_back()
        return int(self.cupy.cuda.runtime.memGetInfo()[0])

    def give_back(self) -> None:
        """Return the memory of arrays that are gone."""
        gc.collect()
        self.cupy.get_default_memory_pool().free_all_blocks()

    def peak_bytes(self, call: Callable[[], Any]) -> int:
        """Return the most memory that CuPy has taken from the card during a call."""
        self.give_back()
        pool = self.cupy.get_default_memory_pool()
        before = pool.total_bytes()
        call()
        self.synchronise()
        return int(pool.total_bytes() - before)

    def is_alive(self) -> bool:
        """Return whether the card still computes: after an illegal access it does not, in this
        process."""
        try:
            self.synchronise()
            return int(self.cupy.ones(3).sum()) == 3
        except Exception:
            return False


class Rehearsal(Card):
    """NumPy in place of the card, where Numba simulates CUDA."""

    def __init__(self) -> None:
        super().__init__(np)

    def table(self, make: Callable[..., Any], *args: Any, **more: Any) -> Any:
        return make(*args, **more)

    def synchronise(self) -> None:
        pass

    def free_bytes(self) -> int:
        return 2**34

    def give_back(self) -> None:
        gc.collect()

    def peak_bytes(self, call: Callable[[], Any]) -> int:
        call()
        return 0


def the_card(rehearsal: bool) -> Card:
    """Return the card that this process measures."""
    if rehearsal:
        return Rehearsal()
    import cupy

    return Card(cupy)


def describe_card() -> dict[str, Any]:
    """Return name, driver, memory and limits of the card, as far as they are known."""
    found: dict[str, Any] = {}
    try:
        command = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader"]
        text = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        values = text.stdout.strip().splitlines()[0].split(",")
        found = dict(zip(QUERY, (value.strip() for value in values), strict=False))
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        found["nvidia-smi"] = f"failed: {error}"
    try:
        import cupy

        runtime = cupy.cuda.runtime
        properties = runtime.getDeviceProperties(runtime.getDevice())
        found["cuda_of_driver"] = runtime.driverGetVersion()
        found["cuda_of_cupy"] = runtime.runtimeGetVersion()
        found["multiprocessors"] = int(properties["multiProcessorCount"])
        found["bytes"] = int(properties["totalGlobalMem"])
    except Exception as error:  # a description is worth no failure
        found["cupy"] = f"failed: {type(error).__name__}: {error}"
    return found


@dataclass
class Bench:
    """The surroundings of a case."""

    card: Card
    repeats: int = 3
    """Rounds of what is short."""
    threads: int = 2
    """Threads of everything that runs on the host."""
    deadline: float = float("inf")
    """By ``time.monotonic()``, when the case must be done."""
    rehearsal: bool = False
    """Tables are tiny, and contestants work on the host."""
    gaps: dict[str, str] = field(default_factory=dict)
    """Contestants that are missing, and why."""

    def left(self) -> float:
        """Return the seconds until the deadline."""
        return self.deadline - time.monotonic()

    def _size(self, most: int, n: int) -> int:
        return min(n, most) if self.rehearsal else n

    # Sizes of tables and models, in a rehearsal those of a miniature: ``bench.rows(1000)``.
    rows = partialmethod(_size, 80)
    features = partialmethod(_size, 6)
    classes = partialmethod(_size, 5)
    trees = partialmethod(_size, 2)
    depth = partialmethod(_size, 3)

    @contextmanager
    def attempt(self, name: str) -> Iterator[None]:
        """Let a contestant fail inside: it is a gap then, but gpuens raises its error."""
        try:
            yield
        except Exception as error:
            if name == OURS:
                raise
            self.gaps[name] = short(error)

    @property
    def xgboost_device(self) -> str:
        return "cpu" if self.rehearsal else "cuda"

    def waiting(self, action: Action) -> Action:
        """Return an action that also waits for the card."""

        def wait() -> Any:
            result = action()
            self.card.synchronise()
            return result

        return wait

    def contest(
        self, actions: Mapping[str, Action], repeats: int | None = None, share: float = 0.8
    ) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """Let contestants take turns on the clock; returns ``timing.compare``'s table, and the last
        result of each.

        One that fails is left out and named in ``gaps``. No round starts after a ``share`` of the
        time that is left.
        """
        failed: dict[str, str] = {}

        def guarded(name: str) -> Action:
            action = self.waiting(actions[name])

            def call() -> Any:
                if name not in failed:
                    try:
                        return action()
                    except Exception as error:
                        failed[name] = short(error)
                        print(f"  {name} failed: {failed[name]}", flush=True)
                        if name == OURS:
                            raise
                return None

            return call

        budget = max(0.0, share * self.left())
        guarded_actions = {name: guarded(name) for name in actions}
        seconds, results = interleaved(
            guarded_actions, repeats or self.repeats, self.threads, budget
        )
        self.gaps.update(failed)
        seconds = {name: runs for name, runs in seconds.items() if name not in failed}
        results = {name: results[name] for name in seconds}
        if OURS in seconds:
            return compare(seconds, OURS), results
        timed = {n: {"seconds": runs, "median": median(runs)} for n, runs in seconds.items()}
        return timed, results

    def on_both(
        self, fit: Callable[[str, Any, Any], Any], X: Any, y: Any, with_cpu: bool = True
    ) -> dict[str, Action]:
        """Return the trainings ``fit(device, X, y)`` on the card and on the host's cores, each with
        the table in its own memory; both have trained on some rows before."""
        tables = {OURS: ("cuda", X, y)}
        if with_cpu:
            tables[ON_CPU] = "cpu", self.card.get(X), self.card.get(y)
        for device, rows, labels in tables.values():
            fit(device, rows[:WARM_UP_ROWS], labels[:WARM_UP_ROWS])
        return {name: partial(fit, *table) for name, table in tables.items()}


def identical(models: Mapping[str, Any]) -> bool:
    """Return whether the models of the card and of the host were trained and are the same."""
    return len({model.forest_.fingerprint() for model in models.values()}) == 1 < len(models)


def short(error: BaseException, most: int = 400) -> str:
    """Return an exception in one line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= most else text[: most - 1] + "…"
