"""Fair timing: libraries take turns in one process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from threadpoolctl import threadpool_limits

from .peers import OURS

Action = Callable[[], Any]


def seconds_of(action: Action, threads: int) -> tuple[float, Any]:
    """Return the time of one call, and its result. The threads of OpenMP, which scikit-learn uses,
    are limited outside of the clock."""
    gc.collect()
    with threadpool_limits(threads):
        start = time.perf_counter()
        result = action()
        return time.perf_counter() - start, result


def interleaved(
    actions: Mapping[str, Action], repeats: int, threads: int, budget: float = float("inf")
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Run all actions in turn, several times; returns seconds by round, and the last results.

    The order rotates from round to round, so that the state that a library leaves behind and a
    machine that becomes slower affect all libraries alike. No round starts after ``budget``
    seconds.
    """
    names = list(actions)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    results: dict[str, Any] = {}
    started = time.perf_counter()
    for i in range(repeats):
        if i and time.perf_counter() - started > budget:
            print(f"  the budget of {budget:g} s is spent after {i} of {repeats} rounds")
            break
        for name in names[i % len(names) :] + names[: i % len(names)]:
            results.pop(name, None)
            taken, results[name] = seconds_of(actions[name], threads)
            seconds[name].append(taken)
            print(f"  round {i + 1}: {name:<28} {taken:>12.6f} s", flush=True)
    return seconds, results


def take_turns(
    actions: Mapping[str, Action], options: Any
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Time all actions with the options of ``program.timing``.

    Returns ``compare``'s table, and the results of the last calls.
    """
    seconds, results = interleaved(actions, options.repeats, options.threads, options.budget)
    return compare(seconds, OURS), results


def compare(seconds: Mapping[str, list[float]], ours: str) -> dict[str, dict[str, Any]]:
    """Return ``summary`` by library; ``ratio`` divides our median by that of the library."""
    table: dict[str, dict[str, Any]] = {}
    for name, runs in seconds.items():
        table[name] = summary(runs)
        if name != ours:
            table[name]["ratio"] = median(seconds[ours]) / median(runs)
    return table


def summary(runs: list[float]) -> dict[str, Any]:
    """Return the median of some runs, the least and the largest, and their number."""
    return {"median": median(runs), "range": [min(runs), max(runs)], "runs": len(runs)}
