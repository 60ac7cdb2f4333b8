from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.scalars import losses
from gpuens.kernels.scalars.losses import BinomialLogLoss, MultinomialLogLoss, SquaredError
from gpuens.kernels.statistics.cuda.gradients import gradients

NONE = np.empty(0)


def total_in_fixed_order(values):
    """The order of the contract, in Python floats."""
    values = [float(v) for v in values]
    values += [0.0] * (-len(values) % 1024)
    chunks = [halved(values[i : i + 1024]) for i in range(0, len(values), 1024)]
    while len(chunks) & (len(chunks) - 1):
        chunks.append(0.0)
    return halved(chunks)


def halved(values):
    while len(values) > 1:
        half = len(values) // 2
        values = [a + b for a, b in zip(values[:half], values[half:], strict=True)]
    return values[0]


@pytest.mark.parametrize(
    ("loss", "n", "shifted", "weighted"),
    [
        (SquaredError(), 33, False, False),
        (SquaredError(), 2500, True, True),
        (BinomialLogLoss(), 1024, False, True),
        (MultinomialLogLoss(1.5), 1100, True, False),
    ],
)
def test_gradients(rng, loss, n, shifted, weighted):
    y = rng.integers(0, 2, n).astype(np.float64)
    raw = rng.normal(size=n)
    shift = rng.normal(size=n) if shifted else NONE
    weight = rng.random(n) if weighted else NONE
    g, h = np.empty(n, np.float32), np.empty(n, np.float32)

    totals = gradients(loss, y, raw, shift, weight, g, h)

    formula = losses.LOSSES[type(loss)].gradient
    f = raw - shift if shifted else raw
    rows = [formula(a, b, loss.parameter) for a, b in zip(y, f, strict=True)]
    expected = np.array(rows) * (weight[:, None] if weighted else 1.0)
    np.testing.assert_array_equal(g, expected[:, 0].astype(np.float32))
    np.testing.assert_array_equal(h, expected[:, 1].astype(np.float32))
    assert totals.max_g == np.abs(g).max()
    assert totals.max_h == h.max()
    assert totals.sum_g == total_in_fixed_order(np.abs(g))
    assert totals.sum_h == total_in_fixed_order(h)
    assert all(type(field) is float for field in totals)
    assert totals.is_here  # in the simulator
