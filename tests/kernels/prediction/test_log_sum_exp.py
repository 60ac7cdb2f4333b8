"""Normaliser of the multinomial model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpuens.kernels.prediction.log_sum_exp import log_sum_exp

SCORES = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(-300, 300)
)


@pytest.mark.parametrize(("n_classes", "n"), [(1, 5), (2, 1), (3, 1027), (10, 200)])
def test_parity(target, oracle, same, n_classes, n):
    rng = np.random.default_rng(n)
    raw = rng.normal(size=(n_classes, target.rows(n))) * rng.choice([1.0, 100.0, 1000.0])
    raw[:, 0] = 1e300
    actual = target.run(log_sum_exp, target.array(raw))
    same(target.host(actual), oracle.run(log_sum_exp, raw))


@given(SCORES)
def test_agrees_with_numpy(oracle, raw):
    expected = np.logaddexp.reduce(raw, axis=0)
    np.testing.assert_allclose(oracle.run(log_sum_exp, raw), expected, rtol=1e-14, atol=1e-14)


@given(SCORES)
def test_lies_between_the_maximum_and_what_equal_scores_would_give(oracle, raw):
    result, largest = oracle.run(log_sum_exp, raw), raw.max(axis=0)
    assert np.all(result >= largest)
    assert np.all(result <= largest + np.log(raw.shape[0]) + 1e-12)


def test_one_class_is_its_own_normaliser(oracle):
    raw = np.array([[-1e300, -3.5, 0.0, 1e300]])
    np.testing.assert_array_equal(oracle.run(log_sum_exp, raw), raw[0])
