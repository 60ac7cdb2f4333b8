"""Sums of many values in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.devices.placement import CPU
from gpuens.numerics import weighted


def halved(values):
    """The sum by halving: the upper half onto the lower half, with zeros behind the values."""
    size = max(1024, 1 << (values.size - 1).bit_length())
    padded = np.zeros(size)
    padded[: values.size] = values
    while size > 1:
        size //= 2
        padded = padded[:size] + padded[size:]
    return float(padded[0])


@pytest.mark.parametrize("n", [1, 1023, 1024, 4095, 4096, 4097, 5000, 12_288, 12_289, 65_537])
@pytest.mark.parametrize("block", [1024, 4096, 2**18])
def test_blocks_are_added_in_the_stated_order(monkeypatch, n, block):
    monkeypatch.setattr(weighted, "BLOCK_ROWS", block)
    rng = np.random.default_rng(n)
    values = rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n)
    before = values.copy()
    assert weighted.ordered_sum(values, CPU) == halved(values)
    np.testing.assert_array_equal(values, before)


def test_no_values_and_negative_zeros_sum_to_zero():
    for values in np.empty(0), np.full(3, -0.0):
        total = weighted.ordered_sum(values, CPU)
        assert total == 0.0 and not np.signbit(total)
