"""Class probabilities and their normaliser."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpuens.kernels.prediction.probabilities import log_sum_exp, probabilities

SCORES = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(-300, 300)
)


@pytest.mark.parametrize(("n_classes", "n"), [(1, 5), (2, 1), (3, 1027), (10, 200)])
def test_parity_of_the_normaliser(target, oracle, same, n_classes, n):
    rng = np.random.default_rng(n)
    raw = rng.normal(size=(n_classes, target.rows(n))) * rng.choice([1.0, 100.0, 1000.0])
    raw[:, 0] = 1e300
    actual = target.run(log_sum_exp, target.array(raw))
    same(target.host(actual), oracle.run(log_sum_exp, raw))


def test_normalisers_of_several_models(target, oracle, same):
    raw = np.random.default_rng(0).normal(size=(4, 3, target.rows(1027))) * 100.0
    actual = target.host(target.run(log_sum_exp, target.array(raw)))
    same(actual, np.stack([oracle.run(log_sum_exp, own) for own in raw]))


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


@pytest.mark.parametrize(("n_outputs", "n"), [(1, 1), (1, 2000), (3, 1), (7, 1500)])
def test_parity(target, oracle, same, n_outputs, n):
    rng = np.random.default_rng(n)
    raw = rng.normal(size=(n_outputs, target.rows(n))) * 5
    raw[0, 0] = 800.0
    actual = target.host(target.run(probabilities, target.array(raw)))
    same(actual, oracle.host(oracle.run(probabilities, raw)))
    assert actual.shape == (raw.shape[1], max(2, n_outputs))
    np.testing.assert_allclose(actual.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("far", [2.0**20, 1e7, 1e17, 1e300, np.inf, -np.inf, -1e300])
def test_classes_far_away_share_the_probability(target, oracle, same, far):
    """The logarithm of a sum is lost beside such scores; linear leaves reach them."""
    raw = np.array(
        [[0.0, far, 1.0, far, 0.5], [0.0, far, far, 2.0, 0.5], [-3.0, far, 1.0, 0.0, 0.5]]
    )
    actual = target.host(target.run(probabilities, target.array(raw)))
    same(actual, oracle.run(probabilities, raw))
    finite = raw.clip(-1e308, 1e308)
    expected = np.exp(finite - finite.max(axis=0)).T
    np.testing.assert_allclose(
        actual, expected / expected.sum(axis=1, keepdims=True), rtol=0, atol=1e-9
    )
    np.testing.assert_array_equal(actual[[0, 4]], oracle.run(probabilities, raw[:, [0, 4]]))


def test_two_classes_are_the_logistic_function(oracle):
    raw = np.array([[-40.0, -1.0, 0.0, 2.5, 40.0]])
    p = oracle.run(probabilities, raw)
    np.testing.assert_allclose(p[:, 1], 1 / (1 + np.exp(-raw[0])), rtol=1e-15)
    assert p[2].tolist() == [0.5, 0.5]
