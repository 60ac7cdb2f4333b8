"""Rows that are hard to route: at and beside thresholds, categories and what is next to them."""

from __future__ import annotations

from typing import Any

import numpy as np


def hard_rows(
    forest: Any, n: int, dtype: Any = np.float64, *, seed: int = 0, infinite: bool = True
) -> np.ndarray:
    """Return random rows for a forest: thresholds, as float32 and float64, their neighbours, NaN,
    zeros of both signs, tiny and infinite numbers; categories, unknown, negative and broken ones.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, forest.n_features))
    for f in range(forest.n_features):
        mine = (forest.feature == f) & (forest.category_begin < 0)
        at = forest.threshold[mine]
        at = at[np.isfinite(at)]
        if at.size:
            chosen = rng.choice(_near(at), n)
            X[:, f] = np.where(rng.random(n) < 0.6, chosen, X[:, f] * np.abs(np.median(at)))
        special = [0.0, -0.0, 1e-36, -1e-36, 1.0000000180025095e-35, -1.0000000180025095e-35]
        special += [np.inf, -np.inf] if infinite else []
        X[:, f] = np.where(rng.random(n) < 0.1, rng.choice(special, n), X[:, f])
        if forest.n_categories[f]:
            top = int(forest.n_categories[f]) + 2
            codes = rng.integers(-2, top, n) + rng.choice([0.0, 0.0, 0.0, 0.5], n)
            X[:, f] = np.where(rng.random(n) < 0.95, codes, rng.choice([-0.5, 1e9, -0.0], n))
        X[rng.random(n) < 0.1, f] = np.nan
    with np.errstate(over="ignore"):
        return X.astype(dtype)


def _near(at: np.ndarray) -> np.ndarray:
    """Return thresholds and the numbers beside them, of both types."""
    with np.errstate(over="ignore", under="ignore"):
        single = at.astype(np.float32)
        both = [np.nextafter(a, a.dtype.type(s * np.inf)) for a in (at, single) for s in (1, -1)]
    return np.concatenate([np.asarray(a, np.float64) for a in (at, single, *both)])
