"""Random forests for tests of prediction, and rows that are hard to route: at and beside
thresholds, categories and what is next to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuens.kernels.prediction.traverse import Trees

NUMERIC: tuple[int, ...] = ()
CATEGORIES = (0, 3, 70)
"""Of the features, as ``n_categories``: a number, a few categories, more than two words of them."""
SMALL, LARGE = (7, 1, 60, 2, 19), (7, 1, 60, 2, 19, 300)
"""Leaves of the trees: on a CPU the small ones are evaluated in another way."""


def random_forest(
    random_tree: Callable[..., dict[str, np.ndarray]],
    rng: np.random.Generator,
    sizes: Sequence[int],
    n_features: int,
    n_outputs: int = 1,
    width: int = 1,
    n_categories: Sequence[int] = NUMERIC,
) -> Trees:
    """Trees of some numbers of leaves; ``n_categories`` of the features is repeated."""
    trees = [random_tree(rng, n_leaves, n_features) for n_leaves in sizes]
    offset = np.cumsum([0, *(len(t["feature"]) for t in trees)]).astype(np.int64)
    joined = {name: np.concatenate([t[name] for t in trees]) for name in trees[0]}
    left = np.minimum(joined["left"], joined["right"])
    categories = np.resize(np.array(n_categories or (0,), np.int32), n_features)
    return Trees(
        offset,
        joined["feature"],
        rng.normal(size=offset[-1]),
        joined["missing_left"],
        left,
        np.where(left < 0, -1, left + 1).astype(np.int32),
        *_sets(rng, joined["feature"], categories),
        categories,
        rng.normal(size=(offset[-1], width)),
        (np.arange(len(sizes)) % (n_outputs - width + 1)).astype(np.int32),
    )


def frozen(trees: Any) -> Any:
    """The same arrays, read-only as those of models: kernels are compiled for such."""
    for array in trees:
        array.flags.writeable = False
    return trees


def _sets(
    rng: np.random.Generator, feature: np.ndarray, n_categories: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """``category_begin`` and ``categories`` of random splits; one in eight of a feature that has
    categories is by a threshold all the same."""
    count = np.where(feature >= 0, n_categories[feature], 0) * (rng.random(feature.size) < 7 / 8)
    words = (count + 31) // 32
    begin = np.where(words > 0, np.cumsum(words) - words, -1).astype(np.int32)
    return begin, rng.integers(0, 2**32, words.sum(), dtype=np.uint32)


def awkward_values(
    rng: np.random.Generator, trees: Trees, n: int, n_features: int, dtype: Any
) -> np.ndarray:
    """Missing values, infinities, the thresholds themselves and their neighbours, categories
    and what is next to them."""
    X = rng.normal(size=(n, n_features)).astype(dtype)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.05] = np.inf
    X[rng.random(X.shape) < 0.05] = -np.inf
    near = rng.choice(trees.threshold, X.shape).astype(dtype)
    X = np.where(rng.random(X.shape) < 0.2, near, X)
    X = np.where(rng.random(X.shape) < 0.1, np.nextafter(near, dtype(0)), X)
    category = rng.integers(-2, trees.n_categories + 2, X.shape).astype(dtype)
    category = np.where(rng.random(X.shape) < 0.05, rng.choice([-0.0, 0.5, 1e9], X.shape), category)
    is_category = (rng.random(X.shape) < 0.9) & (trees.n_categories > 0)
    return np.where(is_category, category, X).astype(dtype)


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
