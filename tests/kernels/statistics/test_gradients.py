"""Gradients, hessians and their order-fixed sums."""

from __future__ import annotations

import math
from itertools import cycle, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn._loss import loss as sk

from gpuens.kernels.prediction.probabilities import log_sum_exp
from gpuens.kernels.runtime.collective import ONE_WORKER
from gpuens.kernels.runtime.dispatch import Implementation, using
from gpuens.kernels.runtime.dtypes import SUM_CHUNK, NodeValues, Totals, Update
from gpuens.kernels.scalars import losses
from gpuens.kernels.scalars.distributions import LocationScale
from gpuens.kernels.scalars.elementary import sigmoid
from gpuens.kernels.scalars.losses import (
    LINKS,
    LOSSES,
    AbsoluteError,
    BinomialLogLoss,
    Expectile,
    Exponential,
    Focal,
    Gamma,
    Given,
    Huber,
    Logarithm,
    MultinomialLogLoss,
    Poisson,
    Quantile,
    SquaredError,
    Tweedie,
)
from gpuens.kernels.scalars.primitives import formula, mul, vectorise
from gpuens.kernels.statistics.gradients import (
    gradients,
    gradients_of_outputs,
    gradients_of_piece,
    row_values,
    totals_of_pieces,
)


@formula
def branching_value(y, f, parameter):
    if y > 0.0:
        return y - f
    total = 0.0
    for _ in range(3):
        total = total + mul(f, f)
    return total


@formula
def branching_gradient(y, f, parameter):
    return (-1.0, 0.0) if y > 0.0 else (mul(6.0, f), sigmoid(f))


CUSTOM = losses.custom(branching_value, branching_gradient)()
OF_NUMBERS = [SquaredError(), AbsoluteError(), Huber(0.7), Quantile(0.2)]
POSITIVE = [Poisson(), Gamma(), Tweedie(1.3)]
OF_CLASSES = [BinomialLogLoss(), MultinomialLogLoss(1.5), Exponential(), Focal(2.0), Focal(0.0)]
OF_SCALES = [LocationScale(0.0), LocationScale(0.25)]
EXPECTILES = [Expectile(0.2), Expectile(0.99)]
LOSS_OBJECTS = [*OF_NUMBERS, *EXPECTILES, *POSITIVE, *OF_CLASSES, *OF_SCALES, CUSTOM]
SMOOTH = [OF_NUMBERS[0], *POSITIVE, OF_CLASSES[0], *OF_CLASSES[2:]]
NONE = np.zeros(0)


def is_in(loss, group):
    """Named tuples of equal content are equal, whatever their class."""
    return type(loss) in map(type, group)


def name_of(loss):
    return type(loss).__name__


def name_of_value(value):
    return name_of(value) if isinstance(value, tuple) else None


def inputs(loss, n, seed=0):
    rng = np.random.default_rng(seed)
    y, raw, shift = rng.normal(size=n) * 3, rng.normal(size=n) * 5, rng.normal(size=n)
    if is_in(loss, OF_CLASSES):
        y = (y > 0).astype(np.float64)
    if is_in(loss, POSITIVE) or type(loss) in LINKS:
        y = np.abs(y) + 0.1
    if isinstance(loss, MultinomialLogLoss):
        raw, shift = -np.abs(raw), np.abs(shift)
    if isinstance(loss, Logarithm):
        raw, shift = np.abs(raw) + 0.1, -np.abs(shift)
    weight = rng.choice([0.0, 0.1, 1.0, 3.0], n)
    return y, raw, shift, weight


def run(target, loss, y, raw, shift, weight):
    n = raw.shape[0]
    g, h = (target.array(np.full(n, np.nan, np.float32)) for _ in range(2))
    arrays = (target.array(a) for a in (y, raw, shift, weight))
    totals = target.run(gradients, loss, *arrays, g, h)
    return target.host(g), target.host(h), Totals(*totals)


NUMBERS_OF_ROWS = (1, 2, SUM_CHUNK - 1, SUM_CHUNK, 5 * SUM_CHUNK + 7)
FORMULAS = product(LOSS_OBJECTS, (False, True), (False, True))


@pytest.mark.parametrize(
    ("loss", "shifted", "weighted", "n"),
    [(*formula, n) for formula, n in zip(FORMULAS, cycle(NUMBERS_OF_ROWS))],
    ids=name_of_value,
)
def test_parity(target, oracle, same, loss, shifted, weighted, n):
    y, raw, shift, weight = inputs(loss, target.rows(n, simulated=SUM_CHUNK + 7))
    args = loss, y, raw, shift if shifted else NONE, weight if weighted else NONE
    actual, expected = run(target, *args), run(oracle, *args)
    same(actual[0], expected[0])
    same(actual[1], expected[1])
    assert actual[2] == expected[2]
    assert all(type(total) is float for total in actual[2])


@pytest.mark.parametrize("given", [False, True], ids=["classes", "targets"])
@pytest.mark.parametrize("n", [1, 3 * SUM_CHUNK + 7])
def test_several_outputs(target, oracle, same, n, given):
    """Each is as it is alone: classes from the second on, or targets of their own."""
    loss, n_outputs = MultinomialLogLoss(1.25), 3
    n = target.rows(n, simulated=SUM_CHUNK + 7)
    rng = np.random.default_rng(n)
    codes = rng.integers(0, 5, n).astype(np.float64)
    targets = [(codes == 1 + i).astype(np.float64) for i in range(n_outputs)]
    raw = -rng.exponential(3.0, (n_outputs, n))
    shift, weight = rng.exponential(size=n), rng.choice([0.0, 0.1, 1.0], n)
    y = np.stack(targets) if given else codes
    g, h = (target.array(np.full((n_outputs, n), np.nan, np.float32)) for _ in range(2))
    args = [target.array(a) for a in (y, raw, shift, weight)]
    totals = target.run(gradients_of_outputs, loss, *args, g, h, *([] if given else [1]))
    for i in range(n_outputs):
        expected = run(oracle, loss, targets[i], raw[i], shift, weight)
        same(target.host(g)[i], expected[0])
        same(target.host(h)[i], expected[1])
        assert Totals(*totals[i]) == expected[2]


@pytest.mark.parametrize("n", [2, SUM_CHUNK + 7])
def test_a_tree_is_added_first(target, oracle, same, n):
    loss = BinomialLogLoss()
    y, raw, _, weight = inputs(loss, n)
    rng = np.random.default_rng(n)
    leaf = rng.integers(0, 9, n).astype(np.int32)
    value = rng.normal(size=9)
    moved = raw + 0.1 * value[leaf]
    expected = run(oracle, loss, y, moved, NONE, weight)
    for own in target.leaves(leaf):
        args = [target.array(a) for a in (y, raw, NONE, weight)]
        g, h = (target.array(np.full(n, np.nan, np.float32)) for _ in range(2))
        update = Update(own, NodeValues(value, value), 0.1)
        totals = target.run(gradients, loss, *args, g, h, ONE_WORKER, update)
        same(target.host(args[1]), moved)
        same(target.host(g), expected[0])
        same(target.host(h), expected[1])
        assert tuple(totals) == expected[2]


def test_many_chunks_a_block(target, oracle):
    """The blocks of a GPU join the sums of their chunks as one tree of sums does."""
    args = inputs(SquaredError(), target.rows(37 * SUM_CHUNK + 5, simulated=3 * SUM_CHUNK))
    assert run(target, SquaredError(), *args)[2] == run(oracle, SquaredError(), *args)[2]


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # to float32
@pytest.mark.parametrize("loss", [*OF_CLASSES, *POSITIVE], ids=name_of)
def test_parity_where_the_exponential_is_clipped(target, oracle, same, loss):
    raw = np.array([-1e300, -745.0, -708.0, -40.0, -0.0, 0.0, 1e-300, 20.0, 1e300])
    if isinstance(loss, MultinomialLogLoss):
        raw = np.minimum(raw, 0.0)
    y = np.arange(len(raw)) % 2.0
    actual = run(target, loss, y, raw, NONE, NONE)
    expected = run(oracle, loss, y, raw, NONE, NONE)
    same(actual[0], expected[0])
    same(actual[1], expected[1])
    assert not np.isnan(expected[0]).any() and np.all(expected[1] >= 0)
    if not is_in(loss, [Exponential(), *POSITIVE]):  # which grow like exponentials
        assert np.isfinite(expected[0]).all()


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("loss", [*LOSS_OBJECTS, Given(), *(link() for link in LINKS)], ids=name_of)
def test_values_of_rows(target, oracle, same, loss, shifted):
    y, raw, shift, _ = inputs(loss, target.rows(1000))
    args = (y, raw, shift if shifted else NONE)

    def values(on):
        return on.host(on.run(row_values, loss, *(on.array(a) for a in args)))

    same(values(target), values(oracle))


def test_given_gradients_are_weighted_and_measured(target):
    y, raw, _, weight = inputs(Given(), 500)
    g, h, totals = run(target, Given(), y, np.abs(raw), NONE, weight)
    np.testing.assert_array_equal(g, (y * weight).astype(np.float32))
    np.testing.assert_array_equal(h, (np.abs(raw) * weight).astype(np.float32))
    assert totals.max_g == np.abs(g).max() and totals.max_h == h.max()


def test_formulas_with_branches(oracle):
    """As custom losses are: plain Python."""
    y, raw, _, _ = inputs(CUSTOM, 50)
    g, h, _ = run(oracle, CUSTOM, y, raw, NONE, NONE)
    for i in range(50):
        expected = (-1.0, 0.0) if y[i] > 0 else (6.0 * raw[i], 1 / (1 + math.exp(-raw[i])))
        assert (g[i], h[i]) == pytest.approx(expected, rel=1e-6)


def test_measures_are_the_largest_and_the_sum_in_the_stated_order(oracle):
    args = inputs(SquaredError(), 3 * SUM_CHUNK + 11)
    g, h, totals = run(oracle, SquaredError(), *args)

    def halve(values):
        while len(values) > 1:
            half = len(values) // 2
            values = [a + b for a, b in zip(values[:half], values[half:], strict=True)]
        return values[0]

    for values, largest, total in ((np.abs(g), *totals[:2]), (h, *totals[2:])):
        values = [float(v) for v in values] + [0.0] * (SUM_CHUNK - 11)
        chunks = [halve(values[i : i + SUM_CHUNK]) for i in range(0, len(values), SUM_CHUNK)]
        assert total == halve(chunks) == pytest.approx(math.fsum(values), rel=1e-14)
        assert largest == max(values)


@pytest.mark.parametrize("n_chunks", [1, 2, 3])
@pytest.mark.parametrize("n", [1, SUM_CHUNK, 7 * SUM_CHUNK + 5])
def test_totals_of_pieces_are_those_of_all_rows(target, same, n, n_chunks):
    if target.implementation is not Implementation.CPU:
        pytest.skip("is about the CPU alone")
    loss, wanted = MultinomialLogLoss(1.5), np.empty((2, n), np.float32)
    y, raw, shift, weight = inputs(loss, n)
    weight += 1.0
    of_all = target.run(gradients, loss, y, raw, shift, weight, *wanted)
    g, h, pieces = np.empty(n, np.float32), np.empty(n, np.float32), []
    for begin in range(0, n, n_chunks * SUM_CHUNK):
        own = slice(begin, min(begin + n_chunks * SUM_CHUNK, n))
        of_rows = y[own], raw[own], shift[own], weight[own], g[own], h[own]
        pieces.append(target.run(gradients_of_piece, loss, *of_rows))
    assert totals_of_pieces(pieces) == of_all
    assert of_all.sum_h > 0
    same(g, wanted[0])
    same(h, wanted[1])


def test_zero_weights_measure_zero(oracle):
    y, raw, _, _ = inputs(BinomialLogLoss(), 10)
    g, h, totals = run(oracle, BinomialLogLoss(), y, raw, NONE, np.zeros(10))
    assert not g.any() and not h.any() and totals == (0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("loss", [*SMOOTH, Huber(0.7)], ids=name_of)
@given(f=st.floats(-12, 12), label=st.sampled_from([0.0, 1.0]), number=st.floats(0.125, 20))
def test_gradient_and_hessian_are_derivatives(loss, f, label, number):
    y = label if is_in(loss, OF_CLASSES) else number
    value, gradient = (vectorise(function) for function in LOSSES[type(loss)])
    step = 1e-4
    at = np.array([f - step, f, f + step])
    values = value(np.full(3, y), at, loss.parameter)
    slopes, curvatures = gradient(np.full(3, y), at, loss.parameter)
    error = step if isinstance(loss, Huber) else 1e-6 * abs(slopes[1])
    error = max(1e-7, error, 1e-11 * abs(values[1]) / step)  # the last: of the difference
    assert (values[2] - values[0]) / (2 * step) == pytest.approx(slopes[1], abs=error)
    curvature = np.broadcast_to(curvatures, 3)[1]
    numeric = (slopes[2] - slopes[0]) / (2 * step)
    if isinstance(loss, Focal) and loss.parameter > 0:  # leaves a negative term out
        assert curvature > 0 and numeric <= curvature * (1 + 1e-6) + 1e-7
    elif not isinstance(loss, Huber):  # whose hessian is a bound
        assert numeric == pytest.approx(curvature, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("loss", OF_NUMBERS[1:], ids=name_of)
@given(f=st.floats(-5, 5), y=st.floats(-5, 5))
def test_gradients_are_slopes_of_the_losses_with_corners(loss, f, y):
    """Convex losses: value(b) - value(f) is at least the gradient times the way, for any b."""
    value, gradient = (vectorise(function) for function in LOSSES[type(loss)])
    (slope,), hessian = gradient(np.array([y]), np.array([f]), loss.parameter)
    for b in (f - 3.0, f - 1e-3, f + 1e-3, f + 3.0, y):
        here, there = value(np.array([y, y]), np.array([f, b]), loss.parameter)
        assert there - here >= slope * (b - f) - 1e-12
    assert hessian == 1.0


@pytest.mark.parametrize("level", [0.003, 0.2, 0.5, 0.97])
@given(f=st.floats(-5, 5), y=st.floats(-5, 5))
def test_expectile_loss_is_an_asymmetric_square(level, f, y):
    value, gradient = (vectorise(function) for function in LOSSES[Expectile])
    factor = level if y >= f else 1.0 - level
    (slope,), (hessian,) = gradient(np.array([y]), np.array([f]), level)
    assert value(np.array([y]), np.array([f]), level)[0] == pytest.approx(factor * (y - f) ** 2)
    assert slope == pytest.approx(2.0 * factor * (f - y))
    assert hessian == pytest.approx(2.0 * max(factor, 0.05 * (1.0 - factor)))


def test_expectile_loss_of_one_half_is_the_squared_error(oracle):
    y, raw, shift, weight = inputs(SquaredError(), 300)
    (g, h, totals), wanted = (
        run(oracle, loss, y, raw, shift, weight) for loss in (Expectile(0.5), SquaredError())
    )
    np.testing.assert_array_equal(g, wanted[0])
    np.testing.assert_array_equal(h, wanted[1])
    assert totals == wanted[2]


@given(f=st.floats(-30, 30), y=st.sampled_from([0.0, 1.0]))
def test_focal_loss_without_focus_is_the_log_loss(f, y):
    for which in range(2):
        focal = vectorise(LOSSES[Focal][which])(np.array([y]), np.array([f]), 0.0)
        plain = vectorise(LOSSES[BinomialLogLoss][which])(np.array([y]), np.array([f]), 0.0)
        np.testing.assert_allclose(focal, plain, rtol=1e-12, atol=1e-13)


PEERS = [
    (AbsoluteError(), sk.AbsoluteError()),
    (Quantile(0.2), sk.PinballLoss(quantile=0.2)),
    (Huber(0.7), sk.HuberLoss(delta=0.7)),
    (Poisson(), sk.HalfPoissonLoss()),
    (Gamma(), sk.HalfGammaLoss()),
    (Tweedie(1.3), sk.HalfTweedieLoss(power=1.3)),
    (BinomialLogLoss(), sk.HalfBinomialLoss()),
    (Exponential(), sk.ExponentialLoss()),
]


@pytest.mark.parametrize("ours, theirs", PEERS, ids=name_of)
def test_losses_are_scikit_learns(oracle, ours, theirs):
    """Values up to terms that do not depend on the prediction."""
    y, raw, _, _ = inputs(ours, 300)
    values = oracle.run(row_values, ours, y, raw, NONE)
    further = oracle.run(row_values, ours, y, raw + 1.0, NONE)
    expected = theirs.loss(y, raw + 1.0) - theirs.loss(y, raw)
    np.testing.assert_allclose(further - values, expected, rtol=1e-9, atol=1e-9)
    g, h, _ = run(oracle, ours, y, raw, NONE, NONE)
    gradient, hessian = theirs.gradient_hessian(y, raw)
    np.testing.assert_allclose(g, gradient, rtol=1e-6, atol=1e-6)
    if is_in(ours, [*POSITIVE, *OF_CLASSES]):
        np.testing.assert_allclose(h, hessian, rtol=1e-6, atol=1e-6)


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=5), st.data())
def test_multinomial_derivatives_through_the_normaliser(oracle, scores, data):
    k = data.draw(st.integers(0, len(scores) - 1))
    of = data.draw(st.integers(0, len(scores) - 1))
    loss = MultinomialLogLoss(len(scores) / (len(scores) - 1))
    value, gradient = (vectorise(formula) for formula in LOSSES[MultinomialLogLoss])
    step = 1e-4
    raw = np.tile(np.array(scores)[:, None], 3)
    raw[of] += [-step, 0.0, step]
    f = raw - oracle.run(log_sum_exp, raw)
    slopes, curvatures = gradient(float(k == of), f[of], loss.parameter)
    values = value(1.0, f[k], loss.parameter)
    assert (values[2] - values[0]) / (2 * step) == pytest.approx(slopes[1], abs=1e-7)
    numeric = loss.parameter * (slopes[2] - slopes[0]) / (2 * step)
    assert numeric == pytest.approx(curvatures[1], abs=1e-7)


@pytest.mark.parametrize("loss", OF_CLASSES, ids=name_of)
@pytest.mark.parametrize("implementation", [Implementation.CPU, Implementation.REFERENCE])
def test_numbers_of_classes_in_a_byte(loss, implementation):
    """Losses and gradients equal those of float64 targets, for two classes and for more."""
    y, raw, shift, _ = inputs(loss, 2 * SUM_CHUNK + 100)
    raws = np.stack([raw, -raw, shift])
    found = []
    for dtype in (np.float64, np.uint8):
        g, h = np.empty((2, *raws.shape), np.float32)
        with using(implementation):
            own = y.astype(dtype)
            totals = [gradients(loss, own, raw, shift, NONE, g[0], h[0])]
            statistics = g[0].tolist(), h[0].tolist()
            totals += gradients_of_outputs(loss, own, raws, shift, NONE, g, h, 0)
            found.append(
                [*statistics, g.tolist(), h.tolist(), list(map(tuple, totals)),
                 row_values(loss, own, raw, shift).tolist()]
            )  # fmt: skip
    assert found[0] == found[1]
