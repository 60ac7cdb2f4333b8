"""Batches of trees that are hard for the kernels of growth, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gpuens.kernels.growth.cpu.layout import FEWEST_ROWS
from gpuens.kernels.growth.params import NO_RULES, UNLIMITED, FeatureRules, GrowthParams
from gpuens.kernels.runtime.dtypes import MISSING, Scales
from gpuens.kernels.scalars.rounding import MAX_QUANTISED, MAX_ROWS
from tests.kernels.growth.rounds import Batch

Rng = np.random.Generator
N_BINS = np.array([200, 2, 3, 1, 2, 17], np.int32)
DEFAULTS = GrowthParams(
    max_leaves=8, max_depth=UNLIMITED, min_samples_leaf=4, min_sum_hessian=1e-3, l2=0.0,
    min_gain=0.0, colsample_bytree=1.0, colsample_bylevel=1.0, colsample_bynode=1.0,
)  # fmt: skip


def packed(g: Any, h: Any, row: Any) -> np.ndarray:
    """Records from g, h and rows."""
    g, h, row = np.broadcast_arrays(np.rint(g).astype(np.int64), h, row)
    return ((g << 48) | (h << 32) | row).astype(np.uint64)


def columns(n: int, rng: Rng, n_bins: np.ndarray = N_BINS, missing: float = 0.1) -> np.ndarray:
    codes = np.stack([rng.integers(0, k, n) for k in n_bins]).astype(np.uint8)
    codes[0, rng.random(n) < missing] = MISSING
    codes[-2, rng.random(n) < 2 * missing] = MISSING
    return codes


def batch(
    rng: Rng, n: int = 500, n_trees: int = 1, rules: FeatureRules = NO_RULES,
    kept_histograms: int | None = None, counted_rows: int | None = None, **settings: Any,
) -> Batch:  # fmt: skip
    """Statistics that depend on the features; hessians so uneven that counts mislead. Each tree has
    a scale of its own, and rows in an order of its own."""
    codes = columns(n, rng)
    g = 300.0 * (codes[0] > 90) - 200.0 * codes[1] + 100.0 * codes[2] + rng.normal(0, 80, n)
    h = np.where(rng.random(n) < 0.05, 4000, 40)
    order = [rng.permutation(n) for _ in range(n_trees)]
    words = np.stack([packed(g, h, np.arange(n))[rows] for rows in order])
    scales = [Scales(64.0, 32.0 * 2**t) for t in range(n_trees)]
    params = DEFAULTS._replace(**settings)
    return Batch(codes, N_BINS, words, scales, params, rules, kept_histograms, counted_rows)


def ruled(rng: Rng, **settings: Any) -> Batch:
    """Categories, some of whose sets fill several words; monotone constraints, and groups of
    features that may interact."""
    n, n_bins = 1500, np.array([100, 3, 90, 12], np.int32)
    codes = np.stack([rng.integers(0, k, n) for k in n_bins]).astype(np.uint8)
    codes[0, rng.random(n) < 0.1] = MISSING
    effect = rng.normal(0, 200, 100)
    g = effect[np.minimum(codes[0], 99)] + 90.0 * (codes[1] == 1) - 3.0 * codes[2]
    h = np.where(rng.random(n) < 0.1, 900, 40)
    words = packed(g + rng.normal(0, 60, n), h, np.arange(n))[None]
    rules = FeatureRules(
        np.array([0, 0, 1, -1], np.int8),
        ((0, 1, 2), (2, 3)),
        np.array([True, True, False, False]),
    )
    params = DEFAULTS._replace(max_leaves=12, l2=0.5, cat_smooth=3.0, **settings)
    return Batch(codes, n_bins, words, [Scales(64.0, 32.0)], params, rules)


def tied(rng: Rng) -> Batch:
    """Few rows with coarse statistics, and many missing values: bins, features, sides and nodes tie
    all the time. The statistics are a multiple of small numbers, or the gains would be noise."""
    n_bins = np.array([12, 12, 5], np.int32)
    codes = columns(60, rng, n_bins)
    codes[rng.random(codes.shape) < 0.3] = MISSING
    codes[1] = codes[0]
    rows = np.stack([rng.permutation(60)[:14] for _ in range(60)])
    g = 100 * rng.integers(-1, 2, rows.shape)
    params = DEFAULTS._replace(max_leaves=5, min_samples_leaf=1, min_sum_hessian=0.0)
    return Batch(codes, n_bins, packed(g, 100, rows), [Scales(1e3, 100.0)] * 60, params)


def tied_categories(rng: Rng) -> Batch:
    """Categories whose mean gradients tie: they are cut in the order of their codes."""
    made = tied(rng)
    rules = FeatureRules(categorical=np.array([True, False, True]))
    params = made.params._replace(cat_smooth=0.0, max_cat_to_onehot=1)
    return replace(made, rules=rules, params=params)


def weightless(rng: Rng) -> Batch:
    """Rows whose value is missing have no gradient and no hessian: they go to the heavier child
    and count there."""
    made = batch(rng, min_samples_leaf=30, max_leaves=10)
    rows = made.words[0] & np.uint64(0xFFFFFFFF)
    missing = (made.columns[0] == MISSING)[rows]
    words = np.where(missing, rows, made.words[0])[None]
    return Batch(made.columns, made.n_bins, words, made.scales, made.params)


def wide(rng: Rng) -> Batch:
    """More features than a warp has lanes, with no rows in the last of the groups of eight."""
    n_bins = np.array(([255, 254, 33, 2] * 18)[:70], np.int32)
    codes = np.stack([rng.integers(0, k, 300) for k in n_bins]).astype(np.uint8)
    g = 500.0 * (codes[69] > 0) + 300.0 * (codes[64] > 120) + rng.normal(0, 80, 300)
    words = packed(g, 50, np.arange(300))[None]
    return Batch(codes, n_bins, words, [Scales(64.0, 32.0)], DEFAULTS._replace(max_leaves=4))


def narrow(rng: Rng) -> Batch:
    """Five features: a warp takes six rows at a time. Values beside each other in memory."""
    n_bins = np.array([255, 3, 100, 2, 40], np.int32)
    codes = columns(1500, rng, n_bins)
    g = 300.0 * (codes[2] > 40) - 200.0 * codes[1] + rng.normal(0, 80, 1500)
    words = packed(g, 50, np.arange(1500))[None]
    return Batch(codes, n_bins, words, [Scales(64.0, 32.0)], DEFAULTS)


def large(rng: Rng) -> Batch:
    """Nodes that threads share, and several tiles of a node on a GPU."""
    n_bins = np.array([200, 2, 17], np.int32)
    codes = columns(60_000, rng, n_bins)
    g = 300.0 * (codes[0] > 90) - 200.0 * (codes[2] > 3) + rng.normal(0, 80, 60_000)
    words = packed(g, 50, np.arange(60_000))[None]
    return Batch(codes, n_bins, words, [Scales(64.0, 32.0)], DEFAULTS._replace(max_leaves=3))


def at_the_limits(sign: int) -> Callable[[Rng], Batch]:
    """As large sums as 32 bits hold, all in one bin or in two."""

    def made(rng: Rng) -> Batch:
        n = MAX_ROWS // MAX_QUANTISED
        codes = np.stack([np.full(n, 254), np.arange(n) % 2, np.full(n, MISSING)]).astype(np.uint8)
        g = sign * MAX_QUANTISED * np.where(np.arange(n) < n // 2, 1, np.where(codes[1], 1, -1))
        words = packed(g, MAX_QUANTISED, np.arange(n))[None]
        n_bins = np.array([255, 2, 1], np.int32)
        params = DEFAULTS._replace(max_leaves=2)
        return Batch(codes, n_bins, words, [Scales(1.0, 1.0)], params)

    return made


def sharing_bytes(rng: Rng) -> Batch:
    """Features that share a byte of the CPU's histograms, as digits and as codes of a choice."""
    n, n_bins = FEWEST_ROWS, np.array([200] + [2] * 12 + [30, 20], np.int32)
    codes = np.zeros((15, n), np.uint8)
    codes[0] = rng.integers(0, 200, n)
    codes[1:4] = rng.integers(0, 2, (3, n))
    choice, counted = rng.integers(0, 10, n), rng.integers(0, 12, n)
    codes[4:13] = [choice == k for k in range(9)]
    codes[13] = np.where(counted == 0, rng.integers(0, 30, n), 3)
    codes[14] = np.where(counted == 1, rng.integers(0, 20, n), 19)
    g = codes[2] * 50.0 - codes[9] * 70 + codes[13] * 8.0 + rng.normal(0, 60, n)
    words = packed(g, 30, np.arange(n))[None]
    return Batch(codes, n_bins, words, [Scales(64.0, 32.0)], DEFAULTS._replace(max_leaves=12))


DRAWN = {"colsample_bytree": 0.7, "colsample_bylevel": 0.7, "colsample_bynode": 0.6}
BATCHES: dict[str, Callable[[Rng], Batch]] = {
    "best first": batch,
    "by histograms": lambda rng: replace(batch(rng, max_leaves=20), few_rows=False),
    "one row": lambda rng: batch(rng, 1),
    "samples": lambda rng: batch(rng, n_trees=3, max_leaves=40, min_samples_leaf=1),
    "without a limit of leaves": lambda rng: batch(rng, max_leaves=UNLIMITED, max_depth=4),
    "limits": lambda rng: batch(rng, n_trees=3, l2=3.0, min_gain=0.5, min_sum_hessian=20.0),
    "drawn features": lambda rng: batch(rng, n_trees=3, **DRAWN),
    "chosen again": lambda rng: batch(rng, max_leaves=20, min_samples_leaf=12),
    "chosen again, drawn features": lambda rng: batch(
        rng, 2500, max_leaves=16, min_samples_leaf=120, counted_rows=200, colsample_bynode=0.6
    ),
    "few histograms": lambda rng: batch(
        rng, max_leaves=UNLIMITED, max_depth=4, min_samples_leaf=12, kept_histograms=4
    ),
    "few histograms, counted by blocks": lambda rng: batch(
        rng, 2500, n_trees=2, max_leaves=24, min_samples_leaf=60, kept_histograms=4,
        counted_rows=150,
    ),
    "rules": ruled,
    "rules, chosen again": lambda rng: ruled(rng, min_samples_leaf=12),
    "ties": tied,
    "ties of categories": tied_categories,
    "ties, by histograms": lambda rng: replace(tied(rng), few_rows=False),
    "missing rows that weigh nothing": weightless,
    "wide": wide,
    "narrow": narrow,
    "large": large,
    "limits of 32 bits, below": at_the_limits(-1),
    "limits of 32 bits, above": at_the_limits(1),
    "shared bytes": sharing_bytes,
}  # fmt: skip
