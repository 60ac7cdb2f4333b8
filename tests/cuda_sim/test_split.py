from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.growth.cuda.split import split
from gpuens.kernels.runtime.dtypes import MISSING

NO_COUNTS = np.zeros((0, 0, 0), np.int32)


def best_by_enumeration(node, total, n_bins, least_h, l2, allowed, counts, least_rows):
    """The contract, candidate after candidate, in Python's integers."""
    best = (-np.inf, -1, -1, 0, 0, 0)
    for f in np.flatnonzero(allowed):
        g, h = node[0, f].tolist(), node[1, f].tolist()
        for b in range(n_bins[f]):
            sides = (0, 1)
            if g[MISSING] == h[MISSING] == 0:
                sides = (int(2 * sum(h[: b + 1]) > total[1]),)
            for side in sides:
                left_g = sum(g[: b + 1]) + side * g[MISSING]
                left_h = sum(h[: b + 1]) + side * h[MISSING]
                right_g, right_h = total[0] - left_g, total[1] - left_h
                if min(left_h, right_h) < least_h:
                    continue
                if counts is not None:
                    rows = counts[f].tolist()
                    n_left = sum(rows[: b + 1]) + side * rows[MISSING]
                    if min(n_left, sum(rows) - n_left) < least_rows:
                        continue
                score = float(left_g) ** 2 / (left_h + l2) + float(right_g) ** 2 / (right_h + l2)
                if score > best[0]:
                    best = (score, f, b, side, left_g, left_h)
    return best


def histograms_of(rng, n_nodes, n_features, n_bins):
    """Histograms with the same totals in every feature, as those of one set of rows have."""
    histograms = np.zeros((n_nodes, 2, n_features, 256), np.int32)
    counts = np.zeros((n_nodes, n_features, 256), np.int32)
    totals = np.zeros((n_nodes, 2), np.int64)
    for node in range(n_nodes):
        g = rng.integers(-300, 301, 60)
        h = rng.integers(1, 200, 60)
        g[:15], h[:15] = 0, 0
        totals[node] = g.sum(), h.sum()
        for f in range(n_features):
            code = rng.integers(0, n_bins[f], 60)
            if f % 2:
                code[rng.random(60) < 0.3] = MISSING
            if f == 2:  # rows that weigh nothing still count
                code[(g == 0) & (h == 0)] = MISSING
            np.add.at(histograms[node, 0, f], code, g)
            np.add.at(histograms[node, 1, f], code, h)
            np.add.at(counts[node, f], code, 1)
    return histograms, counts, totals


@pytest.mark.parametrize("counted", [False, True])
def test_split(rng, counted):
    n_nodes, n_bins = 3, np.array([1, 255, 4, 90], np.int32)
    histograms, counts, totals = histograms_of(rng, n_nodes, n_bins.size, n_bins)
    least_h = np.array([1, 900, 10**7], np.int64)
    l2 = np.array([0.0, 17.5, 1.0])
    allowed = np.array([[1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1]], np.uint8)

    splits = split(
        histograms, n_bins, totals, least_h, l2, allowed, counts if counted else NO_COUNTS, 20
    )

    for k in range(n_nodes):
        expected = best_by_enumeration(
            histograms[k],
            totals[k].tolist(),
            n_bins,
            least_h[k],
            l2[k],
            allowed[k],
            counts[k] if counted else None,
            20,
        )
        assert tuple(field[k] for field in splits[:6]) == expected
    assert splits.feature[0] >= 0
    assert splits.feature[2] == -1
    kinds = (np.float64, np.int32, np.int32, np.uint8, np.int64, np.int64)
    assert tuple(field.dtype for field in splits[:6]) == kinds


def test_ties_go_to_the_lowest_feature_then_bin_then_missing_right():
    histograms = np.zeros((1, 2, 3, 256), np.int32)
    for f in range(3):
        for b, g in ((10, 5), (200, -5)):  # every bin from 10 to 199 is the same split
            histograms[0, :, f, b] = g, 8
        histograms[0, :, f, MISSING] = 0, 4  # and either side suits the missing values
    totals = np.array([[0, 20]], np.int64)
    allowed = np.array([[0, 1, 1]], np.uint8)
    n_bins = np.full(3, 255, np.int32)
    one = np.ones(1)

    splits = split(histograms, n_bins, totals, one.astype(np.int64), one, allowed, NO_COUNTS, 1)

    assert (splits.feature[0], splits.bin[0], splits.missing_left[0]) == (1, 10, 0)
    assert (splits.left_g[0], splits.left_h[0]) == (5, 8)
