"""Sums of the predictions of trees for the rows that they have not seen, and their errors."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gpuens.kernels.statistics.out_of_bag import add_out_of_bag

CASES = {
    "one number": (1, ()),
    "numbers": (3, ()),
    "two classes": (2, (2,)),
    "outputs of classes": (6, (3, 1, 2)),
    "no errors": (2, None),
}


def case(name, n, n_trees=4, seen=0.6):
    """Leaves, values with many ties, truth, columns of the classes, and sums of earlier trees."""
    width, sizes = CASES[name]
    rng = np.random.default_rng(n + width)
    value = rng.integers(0, 4, (17, width)) / 3.0
    leaf = rng.integers(0, 17, (n_trees, n)).astype(np.int32)
    leaf[rng.random((n_trees, n)) < seen] = -1
    n_models = rng.integers(0, 3, n).astype(np.int32)
    sums = rng.random((n, width)) * n_models[:, None]
    if sizes is None:
        return leaf, value, np.empty((0, 0)), np.empty(0, np.int64), sums, n_models
    truth = rng.normal(size=(n, width))
    if sizes:
        truth = np.stack([rng.integers(0, k, n) for k in sizes], axis=1).astype(np.float64)
    begin = np.cumsum((0, *sizes)) if sizes else np.empty(0)
    return leaf, value, truth, begin.astype(np.int64), sums, n_models


def run(target, args):
    arrays = [target.array(a) for a in args]
    errors, n_new = target.run(add_out_of_bag, *arrays)
    return [target.host(a) for a in (errors, n_new, *arrays[4:])]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [1, 1025, 5000])
def test_parity(target, oracle, same, name, n):
    args = case(name, target.rows(n, 1200))
    for found, expected in zip(run(target, args), run(oracle, args), strict=True):
        same(found, expected)


@pytest.mark.parametrize("name", CASES)
def test_by_definition(oracle, name):
    leaf, value, truth, begin, sums, n_models = args = case(name, 300, n_trees=3)
    errors, n_new, *of_rows = run(oracle, args)
    for t, reached in enumerate(leaf):
        out = reached >= 0
        assert n_new[t] == np.count_nonzero(out & (n_models == 0))
        sums = sums + np.where(out[:, None], value[reached], 0)
        n_models = n_models + out
        mean = sums[n_models > 0] / n_models[n_models > 0, None]
        known = truth[n_models > 0] if truth.size else np.empty((0, 0))
        if begin.size:
            found = [mean[:, a:b].argmax(axis=1) for a, b in pairwise(begin)]
            expected = (np.stack(found, axis=1) != known).mean(axis=1).sum()
        else:
            expected = ((mean - known) ** 2).mean(axis=1).sum() if truth.size else 0.0
        np.testing.assert_allclose(errors[t], expected, rtol=1e-13)
    np.testing.assert_array_equal(of_rows[0], sums)
    np.testing.assert_array_equal(of_rows[1], n_models)
