"""Histograms of the integer statistics: the reference, and the CPU's ways through a table. Those of
training are compared with the reference in ``test_phases.py``."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuens.kernels.growth.cpu import histogram as cpu
from gpuens.kernels.growth.cpu.histogram import NEAR_WORDS, STRIDE, add_rows
from gpuens.kernels.growth.reference.histogram import histogram
from gpuens.kernels.runtime.dtypes import MISSING, N_SLOTS
from gpuens.kernels.scalars.rounding import MAX_QUANTISED
from tests.kernels.growth.compiled import kernel_around


def random_records(rng, pack, rows, largest=MAX_QUANTISED):
    n = len(rows)
    return pack(rng.integers(-largest, largest + 1, n), rng.integers(0, largest + 1, n), rows)


def run(target, columns, records, begin, end):
    begin, end = np.array(begin, np.int64), np.array(end, np.int64)
    codes = target.codes(columns)
    return target.host(target.run(histogram, codes, target.array(records), begin, end))


@pytest.mark.parametrize("n_features", [1, 5, 8, 28, 33, 100])
@pytest.mark.parametrize("n", [1, 3001])
def test_standard_arrays(strict, oracle, same, pack, n, n_features):
    rng = np.random.default_rng(n)
    columns = rng.integers(0, 256, (n_features, n)).astype(np.uint8)
    columns[0] = MISSING
    columns[-1] = rng.choice([0, MAX_QUANTISED % 255, 254], n)
    records = random_records(rng, pack, rng.permutation(n))
    begin = [0, 0, n // 3, n // 2, n]
    end = [n, n // 2, n // 3, n, n]
    same(
        run(strict, columns, records, begin, end),
        run(oracle, columns, records, begin, end),
    )


def test_no_nodes_give_an_empty_histogram(oracle, pack):
    columns = np.zeros((3, 4), np.uint8)
    assert run(oracle, columns, pack([1], [1], [0]), [], []).shape == (0, 2, 3, N_SLOTS)


def test_against_plain_numpy(oracle, pack):
    rng = np.random.default_rng(2)
    columns = rng.integers(0, 256, (3, 500)).astype(np.uint8)
    rows, g, h = rng.permutation(500), rng.integers(-99, 99, 500), rng.integers(0, 99, 500)
    expected = np.zeros((2, 3, N_SLOTS), np.int32)
    for feature in range(3):
        np.add.at(expected[0, feature], columns[feature, rows[100:400]], g[100:400])
        np.add.at(expected[1, feature], columns[feature, rows[100:400]], h[100:400])
    actual = run(oracle, columns, pack(g, h, rows), [100], [400])
    np.testing.assert_array_equal(actual[0], expected)


@given(st.integers(1, 300), st.integers(1, 5), st.integers(1, 256), st.integers(0, 2**32 - 1))
def test_bins_add_up_to_the_totals(oracle, pack, n, n_features, n_codes, seed):
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, n_codes, (n_features, n)).astype(np.uint8)
    g, h = rng.integers(-50, 50, n), rng.integers(0, 50, n)
    sums = run(oracle, columns, pack(g, h, rng.permutation(n)), [0], [n])[0].sum(axis=-1)
    assert np.all(sums[0] == g.sum()) and np.all(sums[1] == h.sum())


@given(st.integers(1, 300), st.lists(st.floats(0, 1), max_size=5), st.integers(0, 2**32 - 1))
def test_blocks_of_rows_add_up_to_the_whole(oracle, pack, n, shares, seed):
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, 256, (2, n)).astype(np.uint8)
    records = random_records(rng, pack, rng.permutation(n), largest=1000)
    cuts = sorted([0, n, *(int(share * n) for share in shares)])
    whole = run(oracle, columns, records, [0], [n])[0]
    blocks = run(oracle, columns, records, cuts[:-1], cuts[1:])
    np.testing.assert_array_equal(blocks.sum(axis=0), whole)


@kernel_around(cpu)
def _add_rows(words, n_columns, records, packed):
    add_rows(words, n_columns, records, 0, records.size, packed)


@pytest.mark.parametrize("n_columns", [5, 11, 16, 29])
@pytest.mark.parametrize("share", [1.0, 0.01])
@pytest.mark.parametrize("near", [True, False])
def test_every_way_through_a_table_adds_up_the_same(pack, n_columns, share, near):
    """Word by word or row by row, with the table in the cache or far away."""
    rng = np.random.default_rng(n_columns)
    n_words = (n_columns + 7) // 8
    n = 3000 if near else NEAR_WORDS // n_words + 100
    codes = np.zeros((n, 8 * n_words), np.uint8)
    codes[:, :n_columns] = rng.integers(0, 256, (n, n_columns))
    rows = np.flatnonzero(rng.random(n) < share)
    g, h = rng.integers(-32767, 32768, rows.size), rng.integers(0, 32768, rows.size)
    packed = np.zeros((n_words * 8, STRIDE), np.int64)
    _add_rows(codes.reshape(-1).view(np.uint64), n_columns, pack(g, h, rows), packed.reshape(-1))
    for f in range(n_columns):
        found = codes[rows, f]
        sums = [np.bincount(found, weights=v, minlength=256).astype(np.int64) for v in (g, h)]
        np.testing.assert_array_equal(packed[f, :256], (sums[0] << 32) + sums[1])
    assert not packed[n_columns:].any()
