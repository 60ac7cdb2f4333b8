"""Rounds of Newton boosting in one call, beside the operations that they are made of."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.boosting.newton_trees import Draws, add_newton_trees
from gpuens.kernels.growth.cpu import grow
from gpuens.kernels.growth.grow import GrownTrees
from gpuens.kernels.growth.params import NO_RULES, UNLIMITED, FeatureRules, GrowthParams
from gpuens.kernels.runtime.cpu.team import using_threads
from gpuens.kernels.runtime.dispatch import Implementation
from gpuens.kernels.scalars.losses import SquaredError
from gpuens.kernels.statistics.gradients import gradients_of_outputs
from tests.kernels.growth.test_grow import DEFAULTS, N_BINS, columns

NONE = np.zeros(0)
CATEGORIES = FeatureRules(categorical=np.array([True, False, True, False, False, False]))
GROUPS = FeatureRules(groups=((0, 1), (2, 3, 4, 5)))


def boosted(target, codes, y, n_rounds=3, rules=NO_RULES, largest=np.inf, **settings):
    """Trees and raw predictions of some rounds on the same tables."""
    n_trees, n = y.shape
    params = GrowthParams(**{**DEFAULTS, **settings})
    own = target.codes(codes)
    raw, targets, none = target.array(np.zeros((n_trees, n))), target.array(y), target.array(NONE)
    g, h = (target.array(np.empty((n_trees, n), np.float32)) for _ in range(2))
    found = []
    for number in range(n_rounds):
        totals = target.run(gradients_of_outputs, SquaredError(), targets, raw, none, none, g, h)
        draws = Draws(3, 5, number * n_trees)
        args = own, N_BINS, g, h, totals, raw, draws, 0.3, largest, params, rules
        trees, values = target.run(add_newton_trees, *args)
        found += [getattr(trees, name) for name in GrownTrees._fields[:-1]]
        found.append(target.host_leaves(trees.leaf))
        found += [array for own in values for array in (own.value, own.hessian)]
    return [*found, target.host(raw)]


def table(n, n_trees=1):
    rng = np.random.default_rng(1)
    codes = columns(n, rng)
    y = 3.0 * (codes[0] > 90) - 2.0 * codes[1] + codes[2] + rng.normal(size=(n_trees, n))
    return codes, y


@pytest.mark.parametrize("settings", [
    {}, {"max_leaves": UNLIMITED, "max_depth": 3}, {"max_leaves": 1},
    {"max_leaves": 40, "min_samples_leaf": 1, "largest": 0.25},
    {"l2": 3.0, "min_gain": 0.5, "min_sum_hessian": 20.0},
    {"colsample_bytree": 0.7, "colsample_bylevel": 0.7, "colsample_bynode": 0.6},
    {"rules": CATEGORIES}, {"rules": GROUPS},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("n_trees", [1, 3])
def test_parity(target, oracle, same, n_trees, settings):
    codes, y = table(target.rows(500, 200), n_trees)
    actual, expected = (boosted(t, codes, y, **settings) for t in (target, oracle))
    for got, wanted in zip(actual, expected, strict=True):
        same(got, wanted)


@pytest.mark.parametrize("threads", [2, 3])
def test_any_number_of_threads(oracle, same, monkeypatch, threads):
    monkeypatch.setattr(grow, "MIN_CELLS_PER_THREAD", 1)
    codes, y = table(5000, 2)
    with using_threads(threads):
        actual = boosted(type(oracle)(Implementation.CPU, oracle.xp), codes, y)
    for got, wanted in zip(actual, boosted(oracle, codes, y), strict=True):
        same(got, wanted)


def test_targets_of_zero_and_of_the_largest_size(target, oracle, same):
    codes, y = table(target.rows(300, 200), 2)
    for scaled in (y * 0.0, y * 1e30, y * 1e-40):
        actual, expected = (boosted(t, codes, scaled) for t in (target, oracle))
        for got, wanted in zip(actual, expected, strict=True):
            same(got, wanted)


def test_tables_that_are_kept_for_other_settings_do_no_harm(target, oracle, same):
    codes, y = table(target.rows(300, 200), 3)
    held = target.codes(codes)

    class OnSameTable(type(target)):
        def codes(self, columns):
            return held

    of_table = OnSameTable(target.implementation, target.xp)
    of_rules = [{"rules": rules} for rules in (NO_RULES, CATEGORIES, GROUPS, NO_RULES)]
    for settings in ({}, {"max_leaves": 3}, *of_rules, {"n_trees": 3}, {"n_trees": 2}, {}):
        n_trees = settings.pop("n_trees", 1)
        given = codes, y[:n_trees]
        found, wanted = (boosted(each, *given, **settings) for each in (of_table, oracle))
        for actual, expected in zip(found, wanted, strict=True):
            same(actual, expected)
