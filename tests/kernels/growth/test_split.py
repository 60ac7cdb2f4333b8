"""The best split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuens.kernels.growth.split import split
from gpuens.kernels.runtime.dtypes import MAX_BINS, MISSING, N_SLOTS

NO_COUNTS = np.zeros((0, 0, 0), np.int32)


@dataclass(frozen=True)
class Case:
    """The arguments of ``split``, on the host."""

    histograms: np.ndarray
    n_bins: np.ndarray
    totals: np.ndarray
    least_h: np.ndarray
    l2: np.ndarray
    allowed: np.ndarray
    counts: np.ndarray
    min_samples_leaf: int = 1

    def run(self, target: Any) -> Any:
        return target.run(
            split,
            target.array(self.histograms),
            self.n_bins,
            self.totals,
            self.least_h,
            self.l2,
            self.allowed,
            target.array(self.counts),
            self.min_samples_leaf,
        )


def case_of(rng, n_bins, n_nodes=3, n_rows=400, missing=0.2, largest=1000, counted=False):
    """Histograms of random rows."""
    n_features = len(n_bins)
    histograms = np.zeros((n_nodes, 2, n_features, N_SLOTS), np.int32)
    counts = np.zeros((n_nodes, n_features, N_SLOTS), np.int32)
    for node in range(n_nodes):
        g = rng.integers(-largest, largest + 1, n_rows)
        h = rng.integers(0, largest + 1, n_rows)
        for feature, bins in enumerate(n_bins):
            code = rng.integers(0, max(bins, 1), n_rows)
            code = np.where((rng.random(n_rows) < missing) | (bins == 0), MISSING, code)
            np.add.at(histograms[node, 0, feature], code, g)
            np.add.at(histograms[node, 1, feature], code, h)
            np.add.at(counts[node, feature], code, 1)
    return Case(
        histograms,
        np.array(n_bins, np.int32),
        histograms[:, :, 0].sum(axis=-1, dtype=np.int64),
        np.ones(n_nodes, np.int64),
        np.full(n_nodes, 0.5),
        np.ones((n_nodes, n_features), np.uint8),
        counts if counted else NO_COUNTS,
    )


def check(same, target, oracle, case):
    expected = case.run(oracle)
    for actual_field, expected_field in zip(case.run(target), expected, strict=True):
        same(actual_field, expected_field)
    return expected


@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n_bins", [(1,), (255,), (2, 17, 255, 1, 0, 64, 3, 3, 254)], ids=str)
def test_parity(target, oracle, same, n_bins, missing):
    rng = np.random.default_rng(len(n_bins))
    check(same, target, oracle, case_of(rng, n_bins, target.rows(3), missing=missing))


@pytest.mark.parametrize("largest", [1, 2, 20])
def test_parity_on_ties(target, oracle, same, largest):
    """Few rows with coarse statistics: bins, features and sides tie all the time."""
    rng = np.random.default_rng(largest)
    case = case_of(rng, (12, 12, 5), n_nodes=target.rows(40), n_rows=7, largest=largest)
    case.histograms[:, :, 1] = case.histograms[:, :, 0]
    check(same, target, oracle, case)


def test_parity_under_restrictions(target, oracle, same):
    rng = np.random.default_rng(5)
    case = case_of(rng, (30, 4, 200), n_nodes=8)
    total_h = case.totals[:, 1]
    case = replace(
        case,
        allowed=(rng.random((8, 3)) < 0.5).astype(np.uint8),
        least_h=np.maximum(total_h * rng.choice([0, 0.2, 0.49, 0.6], 8), 1).astype(np.int64),
        l2=rng.choice([0.0, 1.0, 1e-3, 1e9], 8),
    )
    case.allowed[0] = 0
    found = check(same, target, oracle, case)
    assert found.feature[0] == -1 and found.feature.max() >= 0


@pytest.mark.parametrize("least", [1, 40, 150, 190, 201])
def test_parity_with_counts(target, oracle, same, least):
    rng = np.random.default_rng(6)
    case = case_of(rng, (30, 4, 100), counted=True)
    check(same, target, oracle, replace(case, min_samples_leaf=least))


def test_parity_where_missing_rows_weigh_nothing(target, oracle, same):
    """They go to the heavier child and count there."""
    case = case_of(np.random.default_rng(7), (9,), n_nodes=6, n_rows=30, missing=0.4, counted=True)
    case.histograms[..., MISSING] = 0
    case = replace(case, totals=case.histograms[:, :, 0].sum(axis=-1, dtype=np.int64))
    for least in (1, 3, 6, 9):
        check(same, target, oracle, replace(case, min_samples_leaf=least))


def test_parity_at_the_limits_of_32_bits(target, oracle, same):
    case = case_of(np.random.default_rng(8), (2, 255), n_nodes=2, n_rows=1)
    case.histograms[:] = 0
    case.histograms[:, 0, :, 0] = [[-(2**31 - 1)], [2**30]]
    case.histograms[:, 0, :, 1] = [[0], [2**30 - 1]]
    case.histograms[:, 1, :, 0] = [[2**31 - 2], [2**30]]
    case.histograms[:, 1, :, 1] = [[1], [2**30 - 1]]
    case = replace(case, totals=case.histograms[:, :, 0].sum(axis=-1, dtype=np.int64))
    check(same, target, oracle, case)


def candidates(case, node):
    """(score, -feature, -bin, missing right, left g, left h) by the letter of the contract."""
    total_g, total_h = (int(t) for t in case.totals[node])
    l2, least = float(case.l2[node]), int(case.least_h[node])
    for feature in np.flatnonzero(case.allowed[node]):
        g, h = case.histograms[node, :, feature].astype(object)
        nothing_to_learn = g[MISSING] == h[MISSING] == 0
        for bin_ in range(case.n_bins[feature]):
            left_g, left_h = sum(g[: bin_ + 1]), sum(h[: bin_ + 1])
            sides = (0, 1)
            if nothing_to_learn:
                sides = (int(left_h > total_h - left_h),)
            for side in sides:
                lg, lh = left_g + side * g[MISSING], left_h + side * h[MISSING]
                rg, rh = total_g - lg, total_h - lh
                n_left = n_right = case.min_samples_leaf
                if case.counts.size:
                    count = case.counts[node, feature].astype(int)
                    n_left = count[: bin_ + 1].sum() + side * count[MISSING]
                    n_right = count.sum() - n_left
                if min(lh, rh) >= least and min(n_left, n_right) >= case.min_samples_leaf:
                    left, right = (float(x) ** 2 for x in (lg, rg))
                    score = left / (float(lh) + l2) + right / (float(rh) + l2)
                    yield score, -feature, -bin_, 1 - side, lg, lh


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=3),
    st.integers(1, 12),
    st.sampled_from([1, 3, 1000]),
    st.booleans(),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
)
def test_against_plain_python(oracle, n_bins, n_rows, largest, counted, least, seed):
    rng = np.random.default_rng(seed)
    case = case_of(rng, n_bins, 2, n_rows, largest=largest, counted=counted)
    case = replace(case, min_samples_leaf=least)
    found = case.run(oracle)
    for node in range(2):
        best = max(candidates(case, node), default=None)
        actual = [field[node] for field in found[:6]]
        if best is None:
            assert actual[:3] == [-np.inf, -1, -1]
            continue
        score, feature, bin_, missing_right, left_g, left_h = best
        assert actual == [score, -feature, -bin_, 1 - missing_right, left_g, left_h]


@given(st.integers(1, MAX_BINS), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_left_sums_are_those_of_the_bins_on_the_left(oracle, n_bins, missing, seed):
    case = case_of(np.random.default_rng(seed), (n_bins, n_bins), 2, 50, missing)
    found = case.run(oracle)
    for node in np.flatnonzero(found.feature >= 0):
        sums = case.histograms[node, :, found.feature[node]]
        left = sums[:, : found.bin[node] + 1].sum(axis=1)
        left = left + found.missing_left[node] * sums[:, MISSING]
        assert tuple(left) == (found.left_g[node], found.left_h[node])
        assert 1 <= found.left_h[node] <= case.totals[node, 1] - 1
