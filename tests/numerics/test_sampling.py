"""The rows and features that each model of an ensemble gets."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuens.devices.placement import CPU, Device
from gpuens.kernels.scalars.rng import PURPOSE_BOOTSTRAP, draw, subkey
from gpuens.kernels.statistics.samples import records_of_sample
from gpuens.numerics.sampling import (
    draw_counts,
    draw_features,
    subset,
    weighted_counts,
    weighted_subset,
)
from tests.support import strict_cupy


def hits(n, n_draws, seed, tree):
    """The rows that the documented draws hit, in their order."""
    key = np.uint64(subkey(np.uint64(seed), PURPOSE_BOOTSTRAP, np.uint64(tree)))
    return [int(draw(key, np.uint64(i))) * n >> 32 for i in range(n_draws)]


class TestWithReplacement:
    @pytest.mark.parametrize(("n", "n_draws"), [(1, 1), (10, 3), (500, 500), (500, 1)])
    def test_counts_are_those_of_the_documented_draws(self, n, n_draws):
        counts = draw_counts(n, n_draws, 7, 3, CPU)
        assert counts.dtype == np.int32 and counts.shape == (n,)
        expected = np.bincount(hits(n, n_draws, 7, 3), minlength=n)
        np.testing.assert_array_equal(counts, expected)

    def test_counts_beyond_a_byte(self):
        counts = draw_counts(2, 10_000, 0, 0, CPU)
        assert counts.dtype == np.int32 and counts.sum() == 10_000 and counts.min() > 4_000

    def test_the_share_of_rows_in_a_sample(self):
        n, trees = 10_000, 50
        shares = [(draw_counts(n, n, 1, t, CPU) > 0).mean() for t in range(trees)]
        expected = 1 - (1 - 1 / n) ** n
        # The number of rows hit has a variance of about n (e - 2) / e²: occupancy problem.
        sd = math.sqrt((math.e - 2) / math.e**2 / n)
        assert np.abs(np.array(shares) - expected).max() < 5 * sd
        assert abs(np.mean(shares) - expected) < 5 * sd / math.sqrt(trees)

    def test_multiplicities_are_poisson(self):
        n = 200_000
        found = np.bincount(draw_counts(n, n, 0, 0, CPU), minlength=12)
        assert found.size == 12
        for k in range(6):
            share = math.exp(-1) / math.factorial(k)
            assert abs(found[k] / n - share) < 5 * math.sqrt(share / n)

    def test_models_and_seeds_differ(self):
        keys = [(0, 0), (0, 1), (1, 0), (1, 1), (2**32 - 1, 5)]
        samples = {draw_counts(100, 100, *key, CPU).tobytes() for key in keys}
        assert len(samples) == len(keys)

    def test_samples_stay_the_same_between_versions(self):
        digest = hashlib.sha256()
        for tree in range(3):
            digest.update(draw_counts(1000, 1000, 42, tree, CPU).astype(np.uint8).tobytes())
            digest.update(subset(1000, 400, 42, tree, CPU).astype("<i8").tobytes())
            digest.update(draw_features(50, 20, False, 42, tree).astype("<i8").tobytes())
            digest.update(draw_features(50, 20, True, 42, tree).astype("<i8").tobytes())
        assert digest.hexdigest()[:16] == "083efdb7784e3889"


class TestWithoutReplacement:
    @pytest.mark.parametrize("n", [1, 2, 9, 300])
    def test_it_takes_the_first_different_rows_of_the_draws(self, n):
        stream = list(dict.fromkeys(hits(n, 20 * n, 5, 2)))
        for k in range(1, n + 1):
            rows = subset(n, k, 5, 2, CPU)
            if 2 * k <= n:
                expected = sorted(stream[:k])
            else:
                expected = sorted(set(range(n)) - set(stream[: n - k]))
            assert rows.dtype == np.int64
            np.testing.assert_array_equal(rows, expected)

    @given(st.integers(1, 3000), st.data())
    def test_exact_size_ascending_and_different(self, n, data):
        k = data.draw(st.integers(1, n))
        rows = subset(n, k, data.draw(st.integers(0, 2**32 - 1)), 0, CPU)
        assert rows.shape == (k,) and rows[0] >= 0 and rows[-1] < n
        assert (np.diff(rows) > 0).all()

    @pytest.mark.parametrize("k", [3, 10, 17])
    def test_every_row_is_equally_likely(self, k):
        n, models = 20, 5000
        found = np.bincount(np.concatenate([subset(n, k, 3, t, CPU) for t in range(models)]))
        sd = math.sqrt(models * k / n * (1 - k / n))
        assert np.abs(found - models * k / n).max() < 5 * sd

    def test_small_and_large_samples_find_their_rows_alike(self, monkeypatch):
        expected = subset(4000, 200, 1, 1, CPU)
        monkeypatch.setattr("gpuens.numerics.sampling.SPARSE", 10**9)
        np.testing.assert_array_equal(subset(4000, 200, 1, 1, CPU), expected)

    def test_it_draws_on_where_too_few_rows_were_hit(self, monkeypatch):
        expected = subset(4000, 1500, 1, 1, CPU)
        monkeypatch.setattr(math, "log1p", lambda x: 0.0)
        monkeypatch.setattr(math, "sqrt", lambda x: 0.0)
        np.testing.assert_array_equal(subset(4000, 1500, 1, 1, CPU), expected)


class TestWeights:
    def test_equal_weights_draw_what_no_weights_draw(self):
        for weight in (1.0, 0.37, 1e-300, 1e300, 3.0):
            counts = weighted_counts(np.full(999, weight), 999, 4, 1)
            np.testing.assert_array_equal(counts, draw_counts(999, 999, 4, 1, CPU))

    def test_chances_are_proportional_to_the_weights(self):
        weight = np.array([0.0, 1.0, 2.0, 0.5, 0.0, 6.5])
        n_draws = 100_000
        counts = weighted_counts(weight, n_draws, 0, 0)
        p = weight / weight.sum()
        assert counts.sum() == n_draws and (counts[weight == 0] == 0).all()
        assert (np.abs(counts - n_draws * p) <= 5 * np.sqrt(n_draws * p * (1 - p))).all()

    def test_a_split_row_gets_the_draws_of_the_whole(self):
        whole = weighted_counts(np.array([2.0, 1.0, 3.0]), 500, 1, 1)
        split = weighted_counts(np.ones(6), 500, 1, 1)
        np.testing.assert_array_equal(np.add.reduceat(split, [0, 2, 3]), whole)

    def test_weights_of_all_sizes(self):
        for weight in ([1e-300, 1.0], [5e-324, 5e-324], [1e308, 1e308], [1e-12, 1e12, 1e12]):
            counts = weighted_counts(np.array(weight), 1000, 1, 1)
            assert counts.sum() == 1000 and counts[-1] > 400

    def test_without_replacement(self):
        weight = np.array([0.0, 1.0, 2.0, 0.0, 4.0])
        first = []
        for model in range(4000):
            rows = weighted_subset(weight, 1, 0, model)
            assert rows.dtype == np.int64 and rows.shape == (1,)
            first.append(int(rows[0]))
        found, p = np.bincount(first, minlength=5), weight / weight.sum()
        assert (np.abs(found - 4000 * p) <= 5 * np.sqrt(4000 * p * (1 - p))).all()
        np.testing.assert_array_equal(weighted_subset(weight, 3, 0, 0), [1, 2, 4])

    @pytest.mark.slow
    def test_without_replacement_one_after_the_other(self):
        """P({a, b}) = p_a p_b (1 / (1 - p_a) + 1 / (1 - p_b)) for chances p."""
        p = np.array([0.2, 0.3, 0.5])
        models = 4000
        pairs = [tuple(weighted_subset(p, 2, 9, model).tolist()) for model in range(models)]
        for a, b in [(0, 1), (0, 2), (1, 2)]:
            chance = p[a] * p[b] * (1 / (1 - p[a]) + 1 / (1 - p[b]))
            sd = math.sqrt(chance * (1 - chance) / models)
            assert abs(pairs.count((a, b)) / models - chance) < 5 * sd


class TestFeatures:
    @pytest.mark.parametrize("replace", [False, True])
    def test_ascending_and_of_the_size_asked_for(self, replace):
        for model in range(20):
            features = draw_features(12, 7, replace, 3, model)
            assert isinstance(features, np.ndarray) and features.dtype == np.int64
            assert features.shape == (7,) and features[0] >= 0 and features[-1] < 12
            assert (np.diff(features) >= (0 if replace else 1)).all()

    def test_all_of_them(self):
        np.testing.assert_array_equal(draw_features(9, 9, False, 0, 0), np.arange(9))

    def test_they_are_independent_of_the_rows(self):
        n = 400
        same = [
            np.array_equal(draw_features(n, 40, False, 0, t), subset(n, 40, 0, t, CPU))
            for t in range(10)
        ]
        assert not any(same)


def test_rows_are_drawn_with_the_library_of_the_device(monkeypatch):
    expected = [subset(1000, k, 1, 2, CPU) for k in (10, 300, 700)]
    strict_cupy.install(monkeypatch)
    for rows in expected:
        found = subset(1000, len(rows), 1, 2, Device("cuda", 0))
        np.testing.assert_array_equal(found.get(), rows)


def test_records():
    counts = draw_counts(1000, 1000, 1, 1, CPU)
    sample = records_of_sample(counts)
    records, rows = sample.records[: sample.size[0]], np.flatnonzero(counts)
    np.testing.assert_array_equal(records & np.uint64(2**32 - 1), rows)
    np.testing.assert_array_equal(records >> np.uint64(32), counts[rows])
