"""The values in bins."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.binning.bin_values import bin_values
from gpuens.kernels.binning.widen_bins import widen_bins
from gpuens.kernels.runtime.dispatch import Implementation
from gpuens.kernels.runtime.dtypes import MAX_BINS

from .test_bin_values import LAYOUTS, awkward_table


@pytest.fixture
def on_host(target):
    if target.implementation is Implementation.CUDA:
        pytest.skip("is about the host alone")
    return target


def unknown(n_features: int) -> tuple[np.ndarray, np.ndarray]:
    lowest = np.full((n_features, MAX_BINS), np.inf)
    return lowest, -lowest


def widened(t, X, columns, features, layout="rows"):
    """Return the values after two batches of rows."""
    found = [t.array(a) for a in unknown(len(columns))]
    for part in np.array_split(np.arange(len(X)), 2):
        rows = t.view(t.array(np.concatenate([X[part], X[part]], axis=1)), LAYOUTS[layout])
        t.run(widen_bins, rows, t.array(columns[:, part].copy()), t.array(features), *found)
    return [t.host(a) for a in found]


@pytest.mark.parametrize("layout", ["rows", "some columns", "columns"])
@pytest.mark.parametrize("features", [[0, 1, 2, 3, 4], [4, 1], []], ids=str)
@pytest.mark.parametrize("n", [1, 2500])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parity(on_host, oracle, same, dtype, n, features, layout):
    X, thresholds = awkward_table(on_host.rows(n), dtype)
    columns = bin_values(X, thresholds).columns
    chosen = np.array(features, np.int64)
    found = widened(on_host, X, columns, chosen, layout)
    for actual, expected in zip(found, widened(oracle, X, columns, chosen), strict=True):
        same(actual, expected)
        assert not np.signbit(actual[actual == 0]).any()


def test_the_values_of_each_bin(oracle):
    X, thresholds = awkward_table(700, np.float64, seed=3)
    columns = bin_values(X, thresholds).columns
    lowest, highest = widened(oracle, X, columns, np.arange(5))
    for f in range(5):
        for code in range(MAX_BINS):
            values = X[columns[f] == code, f]
            assert lowest[f, code] == min(values, default=np.inf)
            assert highest[f, code] == max(values, default=-np.inf)


def test_features_that_are_not_asked_for_stay(oracle):
    X, thresholds = awkward_table(100, np.float64)
    columns = bin_values(X, thresholds).columns
    lowest, highest = widened(oracle, X, columns, np.array([1]))
    assert np.isfinite(lowest[1]).any()
    assert np.isposinf(np.delete(lowest, 1, 0)).all()
    assert np.isneginf(np.delete(highest, 1, 0)).all()
