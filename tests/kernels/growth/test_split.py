"""The reference of the search for the best split. The searches of training are compared with it in
``test_phases.py``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuens.kernels.growth.reference.split import split
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


@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n_bins", [(1,), (2, 17, 255, 1, 0, 64, 3, 3, 254)], ids=str)
@pytest.mark.parametrize("counted", [False, True])
def test_standard_arrays(strict, oracle, same, n_bins, missing, counted):
    case = case_of(np.random.default_rng(2), n_bins, missing=missing, counted=counted)
    case = replace(case, min_samples_leaf=40)
    for actual, expected in zip(case.run(strict), case.run(oracle), strict=True):
        same(actual, expected)


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
