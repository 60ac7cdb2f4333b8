"""A grammar of hard targets, weights and queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator
Kinds = tuple[str, ...]
TIMES = ("times", "times", "bounds", "bounds", "structured times", "two events", "no event",
         "events only", "tied times", "times of 0", "wide times", "times beyond float32",
         "infinite times", "missing times", "negative times", "events as text", "short times",
         "swapped bounds", "no bounds", "three bounds", "times alone")  # fmt: skip
RELEVANCES = ("relevances", "relevances", "relevances", "two classes", "one class", "integers")
TARGETS = ("numbers", "two classes", "three classes", "one class", "text", "flags", "missing",
           "infinite", "huge", "tiny", "two columns", "column", "short", "many classes", "objects",
           "negative", "integers", "large integers", "heavy tail", "positive", "small positive",
           "wide positive", "none")  # fmt: skip
WEIGHTS = ("none", "none", "none", "ones", "zeros", "one positive", "heavy", "tiny", "negative",
           "missing", "short", "integers", "infinite", "text", "two columns", "scalar")  # fmt: skip
GENERAL = (*TARGETS * 4, *TIMES, *RELEVANCES)
"""Of learners without targets of their own kind; the others are rarely suitable."""
QUERIES = ("group", "group", "qid", "qid", "single rows", "qid of text", "none", "both", "short",
           "unsorted", "empty query", "fractions", "negative", "missing", "two columns",
           "text")  # fmt: skip


def target_of(rng: Rng, n: int, kind: str) -> Any:
    """Return a target."""
    if kind in TIMES:
        return times_of(rng, n, kind)
    classes = np.arange(n) % 3
    made: dict[str, Callable[[], Any]] = {
        "numbers": lambda: rng.normal(size=n),
        "two classes": lambda: classes > 0,
        "three classes": lambda: classes,
        "one class": lambda: np.ones(n, int),
        "text": lambda: np.array(["a", "b", "é"])[classes],
        "flags": lambda: classes > 1,
        "missing": lambda: np.where(classes > 1, np.nan, 1.0),
        "infinite": lambda: np.where(classes > 1, np.inf, 1.0),
        "huge": lambda: rng.normal(size=n) * 1e200,
        "tiny": lambda: rng.normal(size=n) * 1e-200,
        "two columns": lambda: rng.normal(size=(n, 2)),
        "column": lambda: classes[:, None],
        "short": lambda: classes[:-1],
        "many classes": lambda: np.arange(n),
        "objects": lambda: rng.choice(np.array(["a", 1, None], object), n),
        "negative": lambda: -classes.astype(float),
        "integers": lambda: rng.integers(0, 50, n),
        "large integers": lambda: rng.integers(2**53, 2**62, n),
        "heavy tail": lambda: rng.standard_cauchy(n) * 1e6,
        "positive": lambda: np.exp(rng.normal(size=n)),
        "small positive": lambda: rng.choice([5e-324, 1e-300, 1e-10, 1.0], n),
        "wide positive": lambda: np.exp(rng.uniform(-700, 700, n)),
        "relevances": lambda: rng.integers(0, 5, n),
        "none": lambda: None,
    }
    return made[kind]()


def weights_of(rng: Rng, n: int, kind: str) -> Any:
    """Return weights, or None."""
    made: dict[str, Callable[[], Any]] = {
        "none": lambda: None,
        "ones": lambda: np.ones(n),
        "zeros": lambda: np.zeros(n),
        "one positive": lambda: (np.arange(n) == n // 2).astype(float),
        "heavy": lambda: np.where(np.arange(n) == 0, 1e30, 1.0),
        "tiny": lambda: np.full(n, 1e-300),
        "negative": lambda: rng.normal(size=n),
        "missing": lambda: np.where(np.arange(n) == 0, np.nan, 1.0),
        "short": lambda: np.ones(max(0, n - 1)),
        "integers": lambda: rng.integers(0, 3, n),
        "infinite": lambda: np.where(np.arange(n) == 0, np.inf, 1.0),
        "text": lambda: np.array(["1"] * n),
        "two columns": lambda: np.ones((n, 2)),
        "scalar": lambda: 2.0,
    }
    return made[kind]()


def times_of(rng: Rng, n: int, kind: str) -> Any:
    """Return a target of survival: events and times, or bounds of times."""
    event, time = rng.random(n) < 0.7, rng.exponential(size=n) + 1e-3
    structure = [("event", bool), ("time", float)]
    first = np.arange(n) == 0
    made: dict[str, Callable[[], Any]] = {
        "times": lambda: (event, time),
        "bounds": lambda: np.stack([time * (rng.random(n) < 0.7), time / event], axis=1),
        "structured times": lambda: np.array(list(zip(event, time, strict=True)), structure),
        "two events": lambda: (rng.integers(0, 2, n), time),
        "no event": lambda: (event & False, time),
        "events only": lambda: (event | True, time),
        "tied times": lambda: (event, np.ceil(time)),
        "times of 0": lambda: (event & ~first, np.where(first, 0.0, time)),
        "wide times": lambda: (event, np.exp(rng.uniform(-700, 700, n))),
        "times beyond float32": lambda: (event, rng.choice([5e-324, 1e-50, 1.0, 1e50, 1e308], n)),
        "infinite times": lambda: (event, np.where(first, np.inf, time)),
        "missing times": lambda: (event, np.where(first, np.nan, time)),
        "negative times": lambda: (event, -time),
        "events as text": lambda: (np.where(event, "yes", "no"), time),
        "short times": lambda: (event, time[:-1]),
        "swapped bounds": lambda: np.stack([time + 1, time], axis=1),
        "no bounds": lambda: np.stack([time * 0, time * np.inf], axis=1),
        "three bounds": lambda: np.ones((n, 3)),
        "times alone": lambda: time,
    }
    with np.errstate(all="ignore"):
        return made[kind]()


def queries_of(rng: Rng, n: int, kind: str) -> dict[str, Any]:
    """Return the arguments of a fit that name the queries of a ranking."""
    starts = np.append(True, rng.random(max(0, n - 1)) < 0.3)[:n]
    qid = np.cumsum(starts)
    group = np.bincount(qid)[1:]
    made: dict[str, Callable[[], dict[str, Any]]] = {
        "group": lambda: {"group": group},
        "qid": lambda: {"qid": qid},
        "single rows": lambda: {"qid": np.arange(n)},
        "qid of text": lambda: {"qid": np.array([f"query {k:04}" for k in qid])},
        "none": dict,
        "both": lambda: {"group": group, "qid": qid},
        "short": lambda: {"group": group[:-1]},
        "unsorted": lambda: {"qid": np.arange(n) % 2},
        "empty query": lambda: {"group": np.append(group, 0)},
        "fractions": lambda: {"group": group + 0.5},
        "negative": lambda: {"group": np.append(group, [-1, 1])},
        "missing": lambda: {"qid": np.where(np.arange(n) == 0, np.nan, qid)},
        "two columns": lambda: {"qid": np.stack([qid, qid], axis=1)},
        "text": lambda: {"group": "all"},
    }
    return made[kind]()
