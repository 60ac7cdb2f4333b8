"""Steps of a round of several models in one operation are those of each model."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.boosting.many_models import (
    gradients_of_models,
    leaf_quantiles_of_models,
    leaf_sums_of_models,
    scale_samples,
    values_of_models,
)
from gpuens.kernels.leaves.newton_steps import leaf_sums
from gpuens.kernels.leaves.quantiles import leaf_quantiles
from gpuens.kernels.runtime.dtypes import SUM_CHUNK, Scales, Totals
from gpuens.kernels.scalars.losses import (
    BinomialLogLoss,
    Huber,
    MultinomialLogLoss,
    Quantile,
    SquaredError,
)
from gpuens.kernels.statistics.gradients import NO_CLASS, gradients, row_values
from gpuens.kernels.statistics.quantise import fixed_point_scales, scales_for
from tests.kernels.statistics.test_ordered_sums import by_halves

NONE = np.zeros(0)


@pytest.mark.parametrize("n_models", [1, 4])
@pytest.mark.parametrize("targets", ["common", "of models", "of outputs"])
@pytest.mark.parametrize("weights", ["none", "common", "of models"])
def test_gradients(target, oracle, same, n_models, targets, weights):
    rng = np.random.default_rng(n_models)
    n, n_classes = target.rows(2 * SUM_CHUNK + 7, simulated=SUM_CHUNK + 7), 3
    n_outputs = n_models * n_classes
    raw = -rng.exponential(3.0, (n_outputs, n))
    shift = rng.exponential(size=(n_models, n))
    weight = {
        "none": NONE,
        "common": rng.choice([0.0, 0.1, 1.0], n),
        "of models": rng.choice([0.0, 0.1, 1.0], (n_models, n)),
    }[weights]
    of_classes = rng.integers(0, n_classes, (n_models, n)).astype(np.float64)
    y, first_class = of_classes if targets == "of models" else of_classes[0], 0
    if targets == "of outputs":
        y, first_class = rng.integers(0, 2, raw.shape).astype(np.float64), NO_CLASS
    loss = MultinomialLogLoss(1.5)
    g, h = (target.array(np.full((n_outputs, n), np.nan, np.float32)) for _ in range(2))
    args = [target.array(a) for a in (y, raw, shift, weight)]
    totals = target.run(gradients_of_models, [loss], *args, g, h, first_class, [n] * n_models)
    for i in range(n_outputs):
        model, number = divmod(i, n_classes)
        own_y = {"common": y, "of models": of_classes[model], "of outputs": y[i % len(y)]}[targets]
        if first_class != NO_CLASS:
            own_y = (own_y == number).astype(np.float64)
        own_weight = weight[model] if weight.ndim == 2 else weight
        own_g, own_h = np.empty((2, n), np.float32)
        alone = oracle.run(gradients, loss, own_y, raw[i], shift[model], own_weight, own_g, own_h)
        same(target.host(g)[i], own_g)
        same(target.host(h)[i], own_h)
        assert Totals(*totals[i]) == alone


@pytest.mark.parametrize("first", [0, 1, SUM_CHUNK])
def test_numbers_of_rows(target, oracle, same, first):
    """What is behind the rows of a model stays, and is not read."""
    rng = np.random.default_rng(first)
    n = target.rows(2 * SUM_CHUNK + 7, simulated=SUM_CHUNK + 7)
    n_rows = [n, n - first, max(n // 3, 1)] if first else [n - 5] * 3  # which all lines exceed
    y, raw, weight = rng.normal(size=(3, 3, n))
    for k, own in enumerate(n_rows):
        y[k, own:] = raw[k, own:] = weight[k, own:] = np.nan
    g, h = (target.array(np.full((3, n), 7.0, np.float32)) for _ in range(2))
    args = [target.array(a) for a in (y, raw, NONE, abs(weight))]
    totals = target.run(gradients_of_models, [SquaredError()], *args, g, h, NO_CLASS, n_rows)
    for k, own in enumerate(n_rows):
        found = np.empty((2, own), np.float32)
        of_rows = (y[k, :own], raw[k, :own], NONE, abs(weight[k, :own]))
        alone = oracle.run(gradients, SquaredError(), *of_rows, *found)
        for whole, part in zip((g, h), found, strict=True):
            same(target.host(whole)[k], np.concatenate([part, np.full(n - own, 7.0, np.float32)]))
        assert Totals(*totals[k]) == alone
        for scales in (scales_for, fixed_point_scales):
            one, other = scales(totals[k], own), scales(alone, own)
            assert (one.g, one.h) == (other.g, other.h)


def test_more_models_than_a_shift(target, oracle, same):
    """Models of one output have nothing to subtract."""
    rng = np.random.default_rng(0)
    y, raw = rng.integers(0, 2, (5, 60)).astype(np.float64), rng.normal(size=(5, 60))
    g, h = (target.array(np.full((5, 60), np.nan, np.float32)) for _ in range(2))
    none, args = target.array(NONE), [target.array(a) for a in (y, raw)]
    target.run(
        gradients_of_models, [BinomialLogLoss()], *args, none, none, g, h, NO_CLASS, [60] * 5
    )
    for i in range(5):
        own_g, own_h = np.empty((2, 60), np.float32)
        oracle.run(gradients, BinomialLogLoss(), y[i], raw[i], NONE, NONE, own_g, own_h)
        same(target.host(g)[i], own_g)
        same(target.host(h)[i], own_h)


@pytest.mark.parametrize("cls", [Huber, Quantile])
@pytest.mark.parametrize("n_models", [1, 2, 4])
def test_parameters_of_outputs(target, oracle, same, cls, n_models):
    """Four outputs, each with a parameter of its own, of models with targets of their own."""
    rng, n = np.random.default_rng(n_models), target.rows(SUM_CHUNK + 7)
    y, raw = rng.normal(size=(n_models, n)), rng.normal(size=(4, n))
    losses = [cls(p) for p in (0.1, 0.5, 0.5, 0.8)]
    g, h = (target.array(np.full((4, n), np.nan, np.float32)) for _ in range(2))
    own_y, own_raw, none = (target.array(a) for a in (y, raw, NONE))
    totals = target.run(
        gradients_of_models, losses, own_y, own_raw, none, none, g, h, NO_CLASS, [n] * n_models
    )
    values = target.run(values_of_models, losses, own_y, own_raw, none, NO_CLASS, n_models)
    for i, loss in enumerate(losses):
        target_of_model, (own_g, own_h) = y[i * n_models // 4], np.empty((2, n), np.float32)
        of_row = target_of_model, raw[i], NONE
        alone = oracle.run(gradients, loss, *of_row, NONE, own_g, own_h)
        same(target.host(g)[i], own_g)
        same(target.host(h)[i], own_h)
        assert Totals(*totals[i]) == alone
        same(target.host(values)[i], oracle.run(row_values, loss, *of_row))


def test_values_of_classes(target, oracle, same):
    rng, n = np.random.default_rng(0), target.rows(300)
    y, raw = rng.integers(0, 3, (2, n)).astype(np.float64), -rng.exponential(3.0, (6, n))
    shift, loss = rng.exponential(size=(2, n)), MultinomialLogLoss(1.5)
    args = [target.array(a) for a in (y, raw, shift)]
    found = target.host(target.run(values_of_models, [loss], *args, 0, 2))
    for i in range(6):
        of_class = (y[i // 3] == i % 3).astype(np.float64)
        same(found[i], oracle.run(row_values, loss, of_class, raw[i], shift[i // 3]))


@pytest.mark.parametrize("weights", ["none", "of all", "of trees"])
def test_leaves(target, oracle, same, weights):
    """Quantiles and sums of trees of different sizes, where rows may be in no leaf."""
    rng, n, n_nodes = np.random.default_rng(3), target.rows(1500, simulated=60), 9
    leaf = np.stack([rng.integers(-1, k, n) for k in (n_nodes, 1, 4)]).astype(np.int32)
    values = rng.choice([-0.0, 0.0, 1.0, -5e-324, 1e300, 2.5], (3, n)) * rng.normal(size=(3, n))
    weight = {"none": np.zeros(0, np.int64), "of all": rng.integers(1, 2**30, n),
              "of trees": rng.integers(1, 9, (3, n))}[weights]  # fmt: skip
    quantiles, (g, h) = [0.5, 0.1, 0.9], rng.normal(size=(2, 3, n)).astype(np.float32)
    scales = [Scales(2.0 ** (20 + k), 2.0**k) for k in range(3)]
    arrays = [target.array(a) for a in (values, weight, g, h)]
    for own_leaf in target.leaves(leaf):
        found = target.run(leaf_quantiles_of_models, own_leaf, *arrays[:2], quantiles, n_nodes)
        sums = target.run(leaf_sums_of_models, own_leaf, *arrays[2:], scales, n_nodes)
        for i, quantile in enumerate(quantiles):
            own_weight = weight[i] if weight.ndim == 2 else weight
            of_tree = oracle.run(leaf_quantiles, leaf[i], values[i], own_weight, quantile, n_nodes)
            same(found[i], of_tree)
            same(sums[i], oracle.run(leaf_sums, leaf[i], g[i], h[i], scales[i], n_nodes))


def test_samples_are_scaled(target, same):
    """Of a model with two trees and one with one, between which another has no factors."""
    rng, n = np.random.default_rng(1), target.rows(2600, simulated=60)
    g, h = rng.normal(size=(2, 4, n)).astype(np.float32)
    rows = [np.flatnonzero(rng.random(n) < p).astype(np.int32) for p in (0.9, 0.3)]
    factors = [rng.exponential(size=own.size).astype(np.float32) for own in rows]
    lines, arrays = [slice(0, 2), slice(3, 4)], [target.array(a.copy()) for a in (g, h)]
    totals = target.run(
        scale_samples, *arrays, *([target.array(a) for a in of] for of in (rows, factors)), lines
    )
    for own_rows, factor, own, found in zip(rows, factors, lines, totals, strict=True):
        for line, (max_g, sum_g, max_h, sum_h) in zip(
            range(own.start, own.stop), found, strict=True
        ):
            for statistics in (g, h):
                statistics[line, own_rows] *= factor
            sizes = [abs(s[line, own_rows]).astype(np.float64) for s in (g, h)]
            assert [max_g, max_h] == [size.max() for size in sizes]
            assert [sum_g, sum_h] == [by_halves(size) for size in sizes]
    same(target.host(arrays[0]), g)
    same(target.host(arrays[1]), h)
