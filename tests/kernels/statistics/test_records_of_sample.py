"""A tree's sample of the rows, as records."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.statistics.records_of_sample import records_of_sample


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
@pytest.mark.parametrize("counts", [[0], [3], [0, 0, 2, 0], [1, 1], [31, 0, 255], "many"])
def test_parity(target, oracle, same, counts, dtype):
    if counts == "many":
        counts = np.random.default_rng(0).poisson(1, 2000)
    counts = np.array(counts, dtype)
    expected = oracle.run(records_of_sample, counts)
    same(target.host(target.run(records_of_sample, target.array(counts))), expected)
    pairs = [(int(r) & 0xFFFFFFFF, int(r) >> 32) for r in expected]
    assert pairs == [(row, count) for row, count in enumerate(counts.tolist()) if count]


def test_counts_beyond_a_byte(target):
    counts = np.array([0, 2**31 - 1, 70_000], np.int32)
    records = target.host(target.run(records_of_sample, target.array(counts)))
    assert records.tolist() == [(2**31 - 1) << 32 | 1, 70_000 << 32 | 2]
