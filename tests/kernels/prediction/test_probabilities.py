"""Class probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.prediction.probabilities import probabilities


@pytest.mark.parametrize(("n_outputs", "n"), [(1, 1), (1, 2000), (3, 1), (7, 1500)])
def test_parity(target, oracle, same, n_outputs, n):
    rng = np.random.default_rng(n)
    raw = rng.normal(size=(n_outputs, target.rows(n))) * 5
    raw[0, 0] = 800.0
    actual = target.host(target.run(probabilities, target.array(raw)))
    same(actual, oracle.host(oracle.run(probabilities, raw)))
    assert actual.shape == (raw.shape[1], max(2, n_outputs))
    np.testing.assert_allclose(actual.sum(axis=1), 1.0, rtol=1e-12)


def test_two_classes_are_the_logistic_function(oracle):
    raw = np.array([[-40.0, -1.0, 0.0, 2.5, 40.0]])
    p = oracle.run(probabilities, raw)
    np.testing.assert_allclose(p[:, 1], 1 / (1 + np.exp(-raw[0])), rtol=1e-15)
    assert p[2].tolist() == [0.5, 0.5]
