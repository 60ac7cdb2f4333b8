"""Models that must be the same, bit for bit, on any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from gpuens.datasets import make_higgs_like

from .goals import Goal

THREADS = (1, 2, 3)


def table_with_missing(most_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a table of at most 20,000 rows, of which every 50th value is missing."""
    X, y = make_higgs_like(min(most_rows, 20_000), random_state=0)
    X[np.random.default_rng(0).random(X.shape) < 0.02] = np.nan
    return X, y


def by_threads(fingerprint: Callable[[int], str]) -> dict[str, str]:
    """Return the fingerprints of a model by the number of its threads."""
    return {f"{n} threads": fingerprint(n) for n in THREADS}


def identical(fingerprints: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return which models have one fingerprint, and all of them."""
    equal = {name: len(set(found.values())) == 1 for name, found in fingerprints.items()}
    return {"equal": equal, "fingerprints": fingerprints}


def same_by_threads(kinds: str, results: Mapping[str, Any]) -> Iterator[Goal]:
    """Yield the goal of a part ``identity``, if it was measured."""
    if equal := results.get("identity", {}).get("equal"):
        what = f"the number of kinds of {kinds} (of {len(equal)}) that depend on the threads"
        yield Goal(what, 0, list(equal.values()).count(False))
