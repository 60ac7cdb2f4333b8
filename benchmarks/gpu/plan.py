"""The plan of ``gpu_check``: its parts, their cases, and how long each may take.

A part has a share of the nine minutes. Its cases run in the order that they are written in, what
has goals first and what is largest last, so that the largest are dropped when time runs out.
The seconds of a case are an estimate for one H200, the other libraries' time included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from . import boosting, forests, identity, suites
from .bench import Bench

GIB = 2**30
Run = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """One measurement."""

    run: Run
    """A ``"failed"`` in its result names what went wrong."""
    seconds: float
    """An estimate; it is dropped if less is left."""
    bytes: int = 0
    """Memory of the card that must be free."""
    ends_itself: bool = False
    """Whether it keeps to its part's time by itself and is never taken to hang."""

    @property
    def limit(self) -> float:
        """Seconds after which it is taken to hang; kernels may have to be compiled in them."""
        return math.inf if self.ends_itself else 30 + 4 * self.seconds


@dataclass(frozen=True)
class Part:
    """Cases that run in one process, one after the other, within a share of the time."""

    title: str
    seconds: float
    cases: dict[str, Case]
    environment: dict[str, str] | None = None
    """Variables that choose how kernels are started; None: those of the user."""
    on_card: bool = True
    """Whether the process itself uses the card; otherwise its children do."""


def case(run: Run, seconds: float, n_rows: int, memory: int = 0, **more: Any) -> Case:
    """Return a measurement of a table."""
    return Case(partial(run, n_rows=n_rows, **more), seconds, memory)


def fit(seconds: float, n_rows: int, n_features: int = 28, **more: Any) -> Case:
    """Return a training, with memory for its table, for training, and as much again for others."""
    cells = n_rows * n_features
    memory = 2 * (7 * cells + 60 * n_rows) + GIB
    return case(boosting.fit, seconds, n_rows, memory, n_features=n_features, **more)


def kernels(bench: Bench, n_rows: int) -> dict[str, Any]:
    """Measure every operation beside its floor."""
    from argparse import Namespace

    from ..kernels.devices import OnCpu, OnGpu
    from ..kernels.kernels import measure_device

    device = OnCpu(bench.threads) if bench.rehearsal else OnGpu(bench.card.cupy)
    options = Namespace(
        rows=[bench.rows(n_rows)], features=28, trees=bench.trees(100), repeats=5 * bench.repeats
    )
    found = measure_device(device, options)  # type: ignore[arg-type]
    if found["gaps"]:
        found["failed"] = "; ".join(found["gaps"])[:600]
    return found


def launches(variant: str) -> Part:
    """Return the part of one way to start kernels."""
    cases = {
        f"{n // 1000}k": case(boosting.launches, 4, n, variant=variant) for n in (10_000, 100_000)
    }
    return Part(f"launches: {variant}", 11, cases, boosting.VARIANTS[variant])


M = 1_000_000
HUNDRED = "100M × 28, 20 trees"
FITS = {
    "100k × 28": fit(10, 100_000, others=True),
    "500k × 54, 7 classes": fit(15, 500_000, 54, n_classes=7, repeats=2),
    "11M × 28, depth 8": fit(28, 11 * M, depth=8, repeats=2),
    "10k × 28": fit(3, 10_000, others=True),
    "1M × 28": fit(10, M, others=True),
    "memory, 11M × 28": case(boosting.memory, 3, 11 * M, 4 * GIB),
    "1M × 28, 20 trees": fit(2, M, n_trees=20, with_quality=False),
    "10M × 28, 20 trees": fit(5, 10 * M, n_trees=20, repeats=2, with_quality=False),
    "1M × 28, depth 8": fit(5, M, depth=8, repeats=2),
    "1M × 28, depth 12": fit(8, M, depth=12, repeats=2),
    "1M × 100": fit(8, M, 100, repeats=2),
    "100k × 1000": fit(8, 100_000, 1000, repeats=2),
    "100k × 28, 100 classes": fit(15, 100_000, n_classes=100, n_trees=10, repeats=1),
    HUNDRED: fit(25, 100 * M, n_trees=20, repeats=1, with_quality=False),
}

PARTS: dict[str, Part] = {
    "compile": Part(
        "compile all kernels", 80,
        {
            "compile": Case(suites.compile_all, 30, ends_itself=True),
            "warm up": Case(suites.warm_up, 10),
        },
        on_card=False,
    ),
    "tests": Part(
        "tests with CUDA", 80, {"pytest": Case(suites.tests, 15, ends_itself=True)},
        on_card=False,
    ),
    "identity": Part(
        "models of the card and of the host", 60,
        {name: Case(partial(identity.compare, name=name), 1.0) for name in identity.MODELS},
    ),
    "fit": Part("gradient boosting", 115, FITS),
    "predict": Part(
        "prediction", 30,
        {
            "1M × 28": case(boosting.predict, 10, M),
            "10M × 28": case(boosting.predict, 10, 10 * M, 6 * GIB),
            "10k × 28": case(boosting.predict, 2, 10_000),
            "100k × 28": case(boosting.predict, 2, 100_000),
            "100M × 28": case(boosting.predict, 28, 100 * M, 24 * GIB),
        },
    ),
    "forests": Part(
        "forests and AdaBoost", 45,
        {
            "465k × 54, 100 trees, depth 30": case(
                forests.forest, 18, 465_000, 4 * GIB, n_trees=100, depth=30
            ),
            "AdaBoost, 100k × 28": case(forests.adaboost, 6, 100_000),
            "100k × 54, 100 trees, depth 14": case(
                forests.forest, 10, 100_000, n_trees=100, depth=14, with_cpu=True
            ),
            "AdaBoost, 1M × 28": case(forests.adaboost, 10, M),
        },
    ),
    "small": Part(
        "many small fits", 25, {"50 × 10k × 20": Case(boosting.many_fits, 15)}
    ),
    **{f"launches, {variant}": launches(variant) for variant in boosting.VARIANTS},
    "cores": Part(
        "the card and the host's cores", 20,
        {
            f"{n:,} × 28": case(boosting.cores, seconds, n)
            for n, seconds in ((M, 8), (100_000, 4), (10_000, 2), (1_000, 2), (30_000, 2),
                               (300_000, 4))
        },
    ),
    "kernels": Part(
        "kernels and their floors", 16,
        {"1M": case(kernels, 6, M), "100k": case(kernels, 3, 100_000)},
    ),
    "sanitizer": Part(
        "compute-sanitizer", 35,
        {
            tool: Case(partial(suites.sanitize, tool=tool), 10, ends_itself=True)
            for tool in ("memcheck", "racecheck")
        },
        on_card=False,
    ),
}  # fmt: skip
"""Everything, in the order in which it runs."""


def chosen(names: list[str]) -> list[str]:
    """Return parts by their names; "launches" means all of that kind."""
    return [p for p in PARTS if not names or p in names or p.partition(",")[0] in names]


NAMES = list(dict.fromkeys(name.partition(",")[0] for name in PARTS))
"""The values of ``--part``."""
