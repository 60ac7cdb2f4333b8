"""Sums of lines in a fixed order."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpuens.kernels.runtime.dtypes import SUM_CHUNK
from gpuens.kernels.statistics.ordered_sums import ordered_sums


def by_halves(values):
    """The definition, on a list padded with zeros."""
    size = max(SUM_CHUNK, 1 << (values.size - 1).bit_length())
    sums = np.concatenate([values, np.zeros(size - values.size)])
    while sums.size > 1:
        half = sums.size // 2
        sums = sums[:half] + sums[half:]
    return sums[0]


@pytest.mark.parametrize("sizes", [[1], [SUM_CHUNK], [5 * SUM_CHUNK + 3], [1, 40, 3 * SUM_CHUNK]])
def test_sums_and_largest_values(target, sizes):
    """What is behind the rows of a line is not read."""
    rng = np.random.default_rng(sum(sizes))
    sizes = [target.rows(size, simulated=min(size, SUM_CHUNK + 9)) for size in sizes]
    values = np.full((len(sizes), max(sizes)), np.nan)
    for line, size in zip(values, sizes, strict=True):
        line[:size] = rng.normal(size=size) * 10.0 ** rng.integers(-9, 9, size)
    found = target.run(lambda lines: ordered_sums(lines, sizes)(), target.array(values))
    for (total, largest), line, size in zip(found, values, sizes, strict=True):
        assert total == by_halves(line[:size])
        assert largest == max(line[:size].max(), 0.0)
        assert total == pytest.approx(math.fsum(line[:size]), rel=1e-6)


@pytest.mark.parametrize("place", [0, 5, SUM_CHUNK + 1])
def test_nan_is_in_the_sum_of_its_line_alone(target, place):
    values = np.arange(SUM_CHUNK + 3.0)
    values[place] = np.nan
    lines = target.array(np.stack([values, np.arange(SUM_CHUNK + 3.0)]))
    found = target.run(lambda lines: ordered_sums(lines, [values.size] * 2)(), lines)
    assert np.isnan(found[0, 0])
    assert found[1].tolist() == [sum(range(values.size)), values.size - 1.0]
