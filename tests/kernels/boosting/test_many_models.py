"""Steps of a round of several models in one operation are those of each model."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.boosting.many_models import gradients_of_models
from gpuens.kernels.runtime.dtypes import SUM_CHUNK, Totals
from gpuens.kernels.scalars.losses import BinomialLogLoss, MultinomialLogLoss, SquaredError
from gpuens.kernels.statistics.gradients import NO_CLASS, gradients
from gpuens.kernels.statistics.quantise import fixed_point_scales, scales_for

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
    totals = target.run(gradients_of_models, loss, *args, g, h, first_class, [n] * n_models)
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
    n_rows = [n, n - first, max(n // 3, 1)]
    y, raw, weight = rng.normal(size=(3, 3, n))
    for k, own in enumerate(n_rows):
        y[k, own:] = raw[k, own:] = weight[k, own:] = np.nan
    g, h = (target.array(np.full((3, n), 7.0, np.float32)) for _ in range(2))
    args = [target.array(a) for a in (y, raw, NONE, abs(weight))]
    totals = target.run(gradients_of_models, SquaredError(), *args, g, h, NO_CLASS, n_rows)
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
    target.run(gradients_of_models, BinomialLogLoss(), *args, none, none, g, h, NO_CLASS, [60] * 5)
    for i in range(5):
        own_g, own_h = np.empty((2, 60), np.float32)
        oracle.run(gradients, BinomialLogLoss(), y[i], raw[i], NONE, NONE, own_g, own_h)
        same(target.host(g)[i], own_g)
        same(target.host(h)[i], own_h)
