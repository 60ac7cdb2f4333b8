"""Splits under monotone constraints and by categories; sets of codes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuens.kernels.growth.grow import GrownTrees, grow
from gpuens.kernels.growth.params import UNLIMITED, FeatureRules, GrowthParams
from gpuens.kernels.growth.reference.partition import partition
from gpuens.kernels.growth.reference.split import CategorySplits, NodeBounds, split
from gpuens.kernels.prediction.traverse import traverse_codes
from gpuens.kernels.runtime.dtypes import (
    ALONE,
    CODE_WORDS,
    MISSING,
    N_SLOTS,
    NUMERIC,
    ORDERED,
    Scales,
)
from gpuens.kernels.scalars import gain as formulas
from gpuens.kernels.scalars.primitives import vectorise

NO_COUNTS = np.zeros((0, 0, 0), np.int32)
KINDS = np.array([ORDERED, NUMERIC, ALONE, ORDERED, NUMERIC], np.int32)
N_BINS = np.array([40, 9, 4, 255, 60], np.int32)


@dataclass(frozen=True)
class Case:
    histograms: np.ndarray
    counts: np.ndarray
    rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
    totals: np.ndarray


def case_of(rng, n_nodes: int, n_rows: int, largest: int, missing: float = 0.15) -> Case:
    """Histograms of random rows: (g, h, codes) of each node."""
    shape = (n_nodes, 2, KINDS.size, N_SLOTS)
    histograms = np.zeros(shape, np.int32)
    counts = np.zeros((n_nodes, KINDS.size, N_SLOTS), np.int32)
    rows = []
    for node in range(n_nodes):
        g = rng.integers(-largest, largest + 1, n_rows)
        h = rng.integers(1, largest + 1, n_rows)
        codes = np.stack([rng.integers(0, n, n_rows) for n in N_BINS])
        g[codes[0] % 3 == 1] += largest // 2
        codes[rng.random(codes.shape) < missing] = MISSING
        for feature, code in enumerate(codes):
            np.add.at(histograms[node, 0, feature], code, g)
            np.add.at(histograms[node, 1, feature], code, h)
            np.add.at(counts[node, feature], code, 1)
        rows.append((g, h, codes))
    totals = histograms[:, :, 0].sum(axis=-1, dtype=np.int64)
    return Case(histograms, counts, rows, totals)


def run(target: Any, case: Case, bounds: Any, categories: Any, least: int, counted: bool) -> Any:
    n = len(case.totals)
    return target.run(
        split,
        target.array(case.histograms),
        N_BINS,
        case.totals,
        np.maximum(case.totals[:, 1] // 50, 1),
        np.full(n, 2.5),
        np.ones((n, KINDS.size), np.uint8),
        target.array(case.counts if counted else NO_COUNTS),
        least,
        bounds,
        categories,
    )


def bounds_of(rng, case: Case) -> NodeBounds:
    middle = -case.totals[:, 0] / (case.totals[:, 1] + 2.5)
    width = rng.choice([0.01, 0.3, np.inf], len(middle))
    monotone = np.where(KINDS == NUMERIC, [0, 1, 0, 0, -1], 0).astype(np.int8)
    return NodeBounds(monotone, middle - width, middle + width[::-1])


def categories_of(rng, case: Case) -> CategorySplits:
    n = len(case.totals)
    return CategorySplits(
        KINDS,
        rng.choice([1.0, 20.0, 1e9], (n, KINDS.size), p=[0.5, 0.4, 0.1]),
        rng.choice([0.0, 100.0], (n, KINDS.size)),
        np.full(n, 12.5),
    )


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("largest", [2, 500])
@pytest.mark.parametrize("which", ["bounds", "categories", "both"])
def test_standard_arrays(strict, oracle, same, which, largest, counted):
    rng = np.random.default_rng(largest)
    case = case_of(rng, 8, 300, largest)
    bounds = None if which == "categories" else bounds_of(rng, case)
    categories = None if which == "bounds" else categories_of(rng, case)
    settings = (case, bounds, categories, 12, counted)
    actual, expected = run(strict, *settings), run(oracle, *settings)
    for got, wanted in zip(actual, expected, strict=True):
        same(got, wanted)
    assert expected.feature.max() >= 0
    assert expected.left_codes.shape == (len(case.totals) if categories else 0, CODE_WORDS)


def in_set(words: np.ndarray, code: np.ndarray) -> np.ndarray:
    return (words[code // 32] >> (code % 32).astype(np.uint32) & 1) == 1


@given(st.integers(0, 2**32 - 1), st.sampled_from([3, 200]))
def test_the_set_holds_the_rows_of_the_left_child(oracle, seed, largest):
    rng = np.random.default_rng(seed)
    case = case_of(rng, 3, 60, largest)
    found = run(oracle, case, None, categories_of(rng, case), 1, False)
    for node, (g, h, codes) in enumerate(case.rows):
        feature = found.feature[node]
        if feature < 0:
            continue
        assert (found.bin[node] < 0) == (KINDS[feature] != NUMERIC)
        code = codes[feature]
        if found.bin[node] < 0:
            left = in_set(found.left_codes[node], code)
            assert in_set(found.left_codes[node], np.array([MISSING])) == found.missing_left[node]
        else:
            left = np.where(code == MISSING, found.missing_left[node] == 1, code <= found.bin[node])
        assert (g[left].sum(), h[left].sum()) == (found.left_g[node], found.left_h[node])


@given(st.integers(0, 2**32 - 1))
def test_categories_are_cut_in_the_order_of_exact_ratios(oracle, seed):
    """By fractions: all on the left come before all on the right, lighter ones aside."""
    rng = np.random.default_rng(seed)
    case = case_of(rng, 2, 80, 30)
    categories = categories_of(rng, case)
    only = CategorySplits(KINDS, categories.least_h, categories.smoothing, categories.l2)
    found = run(oracle, case, None, only, 1, False)
    for node in np.flatnonzero((found.feature >= 0) & (found.bin < 0)):
        feature = found.feature[node]
        if KINDS[feature] != ORDERED:
            continue
        g, h = case.histograms[node, :, feature].astype(object)
        used = np.flatnonzero(h[: N_BINS[feature]] >= categories.least_h[node, feature])
        left = in_set(found.left_codes[node], used)
        smoothing = Fraction(categories.smoothing[node, feature])
        keys = [(Fraction(int(g[c])) / (int(h[c]) + smoothing), c) for c in used]
        assert max(k for k, is_left in zip(keys, left, strict=True) if is_left) < min(
            (k for k, is_left in zip(keys, left, strict=True) if not is_left),
            default=(Fraction(10**9), 0),
        )


@given(st.integers(0, 2**32 - 1), st.sampled_from([3, 200]))
def test_bounded_splits_by_enumeration(oracle, seed, largest):
    """The best candidate, its children's values clipped, by the letter of the contract."""
    rng = np.random.default_rng(seed)
    case = case_of(rng, 2, 40, largest, missing=0.0)
    bounds = bounds_of(rng, case)
    found = run(oracle, case, bounds, None, 1, False)
    for node in range(2):
        total_g, total_h = map(int, case.totals[node])
        low, high = bounds.low[node], bounds.high[node]
        best = -np.inf
        for feature in range(KINDS.size):
            g, h = case.histograms[node, :, feature].astype(np.int64)
            for cut in range(N_BINS[feature]):
                sides = [(int(g[: cut + 1].sum()), int(h[: cut + 1].sum()))]
                sides.append((total_g - sides[0][0], total_h - sides[0][1]))
                if min(s[1] for s in sides) < max(total_h // 50, 1):
                    continue
                values = [min(max(-a / (b + 2.5), low), high) for a, b in sides]
                direction = bounds.monotone[feature]
                if direction * values[0] > direction * values[1]:
                    continue
                drops = [
                    -(2 * a * v + (b + 2.5) * v * v)
                    for (a, b), v in zip(sides, values, strict=True)
                ]
                best = max(best, sum(drops))
        np.testing.assert_allclose(found.score[node], best, rtol=1e-9, atol=1e-6)


@given(
    st.integers(-(2**31), 2**31), st.integers(1, 2**31), st.floats(0, 1e6),
    st.floats(-1e3, 1e3), st.floats(0, 1e3),
)  # fmt: skip
def test_a_bounded_score_is_the_drop_of_the_model(g, h, l2, low, width):
    high = low + width
    value, score = (
        float(vectorise(f)(np.float64(g), np.float64(h), np.float64(l2), low, high))
        for f in (formulas.bounded_value, formulas.bounded_score)
    )
    assert low <= value <= high
    exact = -(2 * Fraction(g) * Fraction(value) + (h + Fraction(l2)) * Fraction(value) ** 2)
    scale = abs(2 * g * value) + (h + l2) * value**2
    assert abs(Fraction(score) - exact) <= Fraction(1e-14) * Fraction(scale) + Fraction(1e-300)
    for other in (low, high, (low + high) / 2):
        drop = -(2 * Fraction(g) * Fraction(other) + (h + Fraction(l2)) * Fraction(other) ** 2)
        assert drop <= exact + Fraction(1e-9) * (Fraction(scale) + abs(drop))


def random_set(rng) -> np.ndarray:
    return rng.integers(0, 2**32, CODE_WORDS).astype(np.uint32)


def test_partition_by_sets(oracle, pack):
    rng = np.random.default_rng(3)
    n = 900
    codes = rng.integers(0, 256, (2, n)).astype(np.uint8)
    records = pack(rng.integers(-9, 9, n), rng.integers(0, 9, n), rng.permutation(n))
    begin, end = np.array([0, n // 3, n // 2]), np.array([n // 3, n // 2, n])
    feature = np.array([0, 1, 1], np.int32)
    bin_ = np.array([-1, 100, -1], np.int32)
    missing_left = np.array([0, 1, 1], np.uint8)
    sets = np.stack([random_set(rng) for _ in range(3)])
    moved = records.copy()
    n_left = partition(oracle.codes(codes), moved, begin, end, feature, bin_, missing_left, sets)
    for k in range(3):
        rows = slice(begin[k], end[k])
        code = codes[feature[k], records[rows] & 0xFFFFFFFF]
        by_bin = np.where(code == MISSING, missing_left[k] == 1, code <= bin_[k])
        left = in_set(sets[k], code) if bin_[k] < 0 else by_bin
        assert n_left[k] == left.sum()
        first = slice(begin[k], begin[k] + n_left[k])
        assert sorted(moved[first].tolist()) == sorted(records[rows][left].tolist())
        assert sorted(moved[rows].tolist()) == sorted(records[rows].tolist())


def test_leaves_by_sets(target):
    rng = np.random.default_rng(4)
    n = target.rows(500)
    codes = rng.integers(0, 256, (2, n)).astype(np.uint8)
    sets = np.zeros((5, CODE_WORDS), np.uint32)
    sets[0], sets[2] = random_set(rng), random_set(rng)
    tree = {
        "feature": np.array([0, 1, 1, -1, -1, -1, -1], np.int32)[:7],
        "bin_": np.array([-1, 90, -1, -1, -1, -1, -1], np.int32),
        "missing_left": np.array([0, 1, 0, 0, 0, 0, 0], np.uint8),
        "left": np.array([1, 3, 5, -1, -1, -1, -1], np.int32),
        "right": np.array([2, 4, 6, -1, -1, -1, -1], np.int32),
    }
    sets = np.concatenate([sets, np.zeros((2, CODE_WORDS), np.uint32)])
    exchanged = sets[[2, 1, 0, *range(3, 7)]]
    two_trees = [np.tile(array, 2) for array in tree.values()]
    leaf = target.array(np.full((2, n), -1, np.int32))
    of_both, offset = np.concatenate([sets, exchanged]), np.array([0, 7, 14])
    target.run(traverse_codes, target.codes(codes), offset, *two_trees, leaf, of_both)
    for reached, own in zip(target.host(leaf), (sets, exchanged), strict=True):
        root = in_set(own[0], codes[0])
        second = np.where(codes[1] == MISSING, True, codes[1] <= 90)
        last = np.where(in_set(own[2], codes[1]), 5, 6)
        np.testing.assert_array_equal(reached, np.where(root, np.where(second, 3, 4), last))


@pytest.mark.parametrize("settings", [{}, {"min_samples_leaf": 12}, {"max_depth": 3}], ids=str)
def test_growth_parity(target, oracle, same, pack, settings):
    rng = np.random.default_rng(5)
    n = target.rows(500)
    n_bins = np.array([30, 3, 90, 12], np.int32)
    codes = np.stack([rng.integers(0, k, n) for k in n_bins]).astype(np.uint8)
    codes[0, rng.random(n) < 0.1] = MISSING
    effect = rng.normal(0, 200, 30)
    g = effect[np.minimum(codes[0], 29)] + 90.0 * (codes[1] == 1) - 3.0 * codes[2]
    rows = pack(
        np.rint(g + rng.normal(0, 60, n)), np.where(rng.random(n) < 0.1, 900, 40), np.arange(n)
    )
    rules = FeatureRules(
        np.array([0, 0, 1, -1], np.int8),
        ((0, 1, 2), (2, 3)),
        np.array([True, True, False, False]),
    )
    params = {
        "max_leaves": 5 if target.simulated else 12, "max_depth": UNLIMITED, "min_samples_leaf": 4,
        "min_sum_hessian": 1e-3, "l2": 0.5, "min_gain": 0.0, "colsample_bytree": 1.0,
        "colsample_bylevel": 1.0, "colsample_bynode": 1.0, "cat_smooth": 3.0,
    } | settings  # fmt: skip
    trees = []
    for t in (target, oracle):
        grown = t.run(
            grow, t.codes(codes), n_bins, t.tree_records(rows, Scales(64.0, 32.0)),
            np.ones(1, np.uint64), GrowthParams(**params), rules,
        )  # fmt: skip
        fields = (getattr(grown, name) for name in GrownTrees._fields[:-1])
        trees.append([*fields, t.host_leaves(grown.leaf)])
    for got, wanted in zip(*trees, strict=True):
        same(got, wanted)
    feature, bin_ = trees[1][1:3]
    assert ((feature >= 0) & (bin_ < 0)).any()
