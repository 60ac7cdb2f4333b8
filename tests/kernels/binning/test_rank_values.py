"""A bin for every distinct value."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.binning.rank_values import rank_values
from tests.kernels.binning.test_cut_points import values_of_all_kinds


@pytest.mark.parametrize("n", [1, 900, 2500])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ranks(target, dtype, n):
    for column in values_of_all_kinds(n, dtype):
        for values in (column, column[::-1]):
            ranks, distinct = map(target.host, target.run(rank_values, target.array(values.copy())))
            found, expected = np.unique(values, return_inverse=True)
            n_found = int((found == found).sum())
            assert ranks.dtype == np.uint32 and distinct.dtype == dtype
            np.testing.assert_array_equal(distinct, found[:n_found])
            np.testing.assert_array_equal(ranks, np.minimum(expected, n_found))


def test_columns_of_a_table_need_no_copy_by_the_caller():
    table = np.random.default_rng(0).normal(size=(2000, 3))
    ranks, values = rank_values(table[:, 1])
    np.testing.assert_array_equal(values[ranks], table[:, 1])
