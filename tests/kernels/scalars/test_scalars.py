"""The formulas: the same bits compiled, on NumPy and on a strict Array API library."""

from __future__ import annotations

import math

import array_api_strict
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numba import njit

from gpuens.kernels.scalars import elementary, gain, losses, primitives, rng, rounding, routing
from gpuens.kernels.scalars.primitives import vectorise
from tests.support.lanes import few

RANDOM = np.random.default_rng(0)
REALS = np.concatenate(
    [
        RANDOM.normal(size=2000) * 10.0 ** RANDOM.integers(-300, 300, 2000),
        RANDOM.uniform(-750, 750, 4000),
        RANDOM.uniform(-1, 1, 2000),
        np.arange(-1100.0, 1100.0) / 2 * math.log(2),
        [0.0, -0.0, 5e-324, -5e-324, np.inf, -np.inf, np.nan, 1.7e308, -1.7e308],
        np.nextafter([-708.0, 709.0, 0.0], np.inf),
        np.nextafter([-708.0, 709.0, 0.0], -np.inf),
    ]
)
MODERATE = REALS[(np.abs(REALS) < 700) & ((np.abs(REALS) > 1e-290) | (REALS == 0))]
NORMAL = np.concatenate(
    [
        np.abs(RANDOM.normal(size=2000)) * 10.0 ** RANDOM.integers(-300, 300, 2000),
        1.0 + RANDOM.normal(size=2000) * 10.0 ** RANDOM.integers(-16, -1, 2000),
        *(2.0 ** np.arange(-1021, 1022) * (1 + k * 2.0**-52) for k in (0, 1, 2**52 - 1)),
        math.sqrt(2) * 2.0 ** np.arange(-1000, 1000),
        [np.finfo(float).tiny, np.nextafter(2.0**1023, 0.0)],
    ]
)
POWERS = np.arange(-1022.0, 1024.0)
FINITE = np.unique(REALS[np.isfinite(REALS)])


def compiled(function, *columns):
    """The function called from compiled code, value after value."""

    @njit(error_model="numpy")
    def loop(columns, out):
        for i in range(out.size):
            if len(columns) == 1:
                out[i] = function(columns[0][i])
            elif len(columns) == 2:
                out[i] = function(columns[0][i], columns[1][i])
            else:
                out[i] = function(columns[0][i], columns[1][i], columns[2][i])
        return out

    return loop(columns, np.empty_like(columns[0]))


def on_strict(function, *columns):
    arrays = (array_api_strict.asarray(column) for column in columns)
    return np.from_dlpack(function(*arrays))


FORMULAS = {
    "exp": (elementary.exp, (REALS,)),
    "log": (elementary.log, (NORMAL,)),
    "sigmoid": (elementary.sigmoid, (REALS,)),
    "softplus": (elementary.softplus, (REALS[~np.isnan(REALS)],)),
    "nearest": (rounding.nearest, (REALS,)),
    "larger": (rounding.larger, (MODERATE, MODERATE[::-1].copy())),
    "stochastic_round": (
        rounding.stochastic_round,
        (MODERATE, RANDOM.integers(0, 65536, MODERATE.size).astype(float)),
    ),
    "newton_score": (gain.newton_score, (MODERATE, NORMAL[: MODERATE.size], NORMAL[::-1].copy())),
    "newton_value": (gain.newton_value, (MODERATE, NORMAL[: MODERATE.size], NORMAL[::-1].copy())),
    "draw": (rng.draw, tuple(RANDOM.integers(0, 2**32, (2, 3000)).astype(np.uint64))),
    "subkey": (rng.subkey, tuple(RANDOM.integers(0, 2**32, (3, 3000)).astype(np.uint64))),
    "midpoint": (routing.midpoint, (FINITE[:-1], FINITE[1:])),
    "random_cut": (
        routing.random_cut,
        (MODERATE, MODERATE[::-1].copy(), RANDOM.integers(0, 2**32, MODERATE.size).astype(float)),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
@np.errstate(over="ignore", invalid="ignore")
def test_same_bits_everywhere(same, name):
    function, columns = FORMULAS[name]
    columns = tuple(column[: min(map(len, columns))] for column in columns)
    expected = vectorise(function)(*columns)
    same(compiled(function, *columns), expected)
    same(on_strict(vectorise(function), *columns), expected)


@pytest.mark.parametrize("name", ["floor", "two_to", "exponent"])
def test_primitives_have_the_same_bits_everywhere(same, name):
    function = getattr(primitives, name)
    values = {"floor": MODERATE, "two_to": POWERS, "exponent": NORMAL}[name]
    call = njit(error_model="numpy")(eval(f"lambda x: {name}(x)", {name: function}))
    expected = function(values)
    same(compiled(call, values), expected)
    same(on_strict(function, values), expected)


def test_power_and_exponent_are_exact():
    np.testing.assert_array_equal(primitives.two_to(POWERS), np.ldexp(1.0, POWERS.astype(int)))
    np.testing.assert_array_equal(primitives.exponent(NORMAL), np.frexp(NORMAL)[1] - 1.0)


@pytest.mark.parametrize(
    "loss", few(losses.LOSSES, *range(0, len(losses.LOSSES), 3)), ids=lambda loss: loss.__name__
)
def test_losses_have_the_same_bits_everywhere(same, loss):
    y = (np.arange(MODERATE.size) % 2).astype(float)
    f = np.minimum(MODERATE, 0.0) if loss is losses.MultinomialLogLoss else MODERATE
    loss = loss(1.25)

    @njit(error_model="numpy")
    def loop(loss, y, f, out):
        for i in range(f.size):
            out[0, i] = losses.value(loss, y[i], f[i])
            out[1, i], out[2, i] = losses.gradient(loss, y[i], f[i])
        return out

    with np.errstate(over="ignore"):
        for library in (np, array_api_strict):
            y_array, f_array = library.asarray(y), library.asarray(f)
            columns = losses.LOSSES[type(loss)]
            value = vectorise(columns.value)(y_array, f_array, loss.parameter)
            g, h = vectorise(columns.gradient)(y_array, f_array, loss.parameter)
            h = h * library.ones_like(f_array)
            expected = [np.from_dlpack(a) for a in (value, g, h)]
            same(loop(loss, y, f, np.empty((3, f.size))), np.stack(expected))


def ulps(actual, expected):
    return np.max(np.abs(actual - expected) / np.spacing(np.abs(expected)))


def test_exp_is_within_a_unit_in_the_last_place_and_clipped():
    x = REALS[(REALS >= -708) & (REALS <= 709)]
    exp = vectorise(elementary.exp)
    assert ulps(exp(x), np.exp(x)) <= 1
    ends = exp(np.array([-1e300, -np.inf, 1e300, np.inf]))
    np.testing.assert_array_equal(ends, exp(np.array([-708.0, -708.0, 709.0, 709.0])))
    assert exp(np.zeros(1))[0] == 1.0 and np.isnan(exp(np.array([np.nan]))[0])


def test_log_is_accurate():
    expected = np.log(NORMAL)
    assert ulps(vectorise(elementary.log)(NORMAL), expected) <= 3
    assert vectorise(elementary.log)(np.ones(1))[0] == 0.0


@given(st.floats(-700, 700))
def test_sigmoid_and_softplus(x):
    sigmoid, softplus = vectorise(elementary.sigmoid), vectorise(elementary.softplus)
    both = np.array([x, -x])
    assert sigmoid(both)[0] == pytest.approx(1 / (1 + math.exp(-x)), rel=1e-15)
    assert sigmoid(both).sum() == pytest.approx(1.0, rel=1e-15)
    expected = max(x, 0.0) + math.log1p(math.exp(-abs(x)))
    assert softplus(both)[0] == pytest.approx(expected, rel=1e-15, abs=3e-16)


@given(st.floats(-1e6, 1e6), st.integers(0, 65535))
def test_stochastic_rounding_picks_a_neighbour(x, bits):
    rounded = vectorise(rounding.stochastic_round)(np.array([x]), np.array([float(bits)]))[0]
    assert rounded in (math.floor(x), math.ceil(x))


def test_stochastic_rounding_over_all_bits_has_the_right_mean():
    bits = np.arange(65536.0)
    for x in (0.0, 0.25, -0.25, 3.7, -1e-9, 1e-9, 1234.5):
        mean = np.mean(vectorise(rounding.stochastic_round)(np.full(65536, x), bits))
        assert abs(mean - x) <= 1 / 65536


def test_routing():
    code_left, value_left = routing.code_goes_left, routing.value_goes_left
    code = np.uint8
    for missing_left in (0, 1):
        assert bool(code_left(code(255), 254, missing_left)) == bool(missing_left)
        assert bool(value_left(math.nan, 0.0, missing_left)) == bool(missing_left)
        assert code_left(code(7), 7, missing_left) and not code_left(code(8), 7, missing_left)
        assert value_left(-0.0, 0.0, missing_left) and value_left(-math.inf, 0.0, missing_left)
        assert not value_left(5e-324, 0.0, missing_left)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_a_midpoint_parts_two_numbers(a, b):
    low, high = np.array([min(a, b)]), np.array([max(a, b)])
    assume(low < high)
    with np.errstate(invalid="ignore"):
        threshold = vectorise(routing.midpoint)(low, high)
    assert low <= threshold < high
    if -1e300 < low and high < 1e300:
        assert threshold[0] == pytest.approx(low[0] / 2 + high[0] / 2, rel=1e-15, abs=5e-324)


def test_midpoints_next_to_the_limits():
    low = np.array([1.0, 5e-324, -5e-324, 1.7e308, -np.inf, -np.inf, 1.0])
    high = np.array([1.0 + 2**-52, 1e-323, 0.0, np.inf, np.inf, -1.7e308, 2.0])
    with np.errstate(invalid="ignore"):
        threshold = vectorise(routing.midpoint)(low, high)
    np.testing.assert_array_equal(threshold, [*low[:-1], 1.5])


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300), st.integers(0, 2**32 - 1))
def test_a_random_cut_lies_between(a, b, bits):
    low, high = min(a, b), max(a, b)
    cut = vectorise(routing.random_cut)(np.array([low]), np.array([high]), np.array([float(bits)]))
    assert low <= cut <= high


def test_random_cuts_are_uniform():
    bits = (np.arange(65536.0) + 0.5) * 65536.0
    cuts = vectorise(routing.random_cut)(np.full(65536, -3.0), np.full(65536, 5.0), bits)
    np.testing.assert_allclose(cuts, -3.0 + 8.0 * (np.arange(65536) + 0.5) / 65536, atol=1e-8)


def test_what_names_a_category():
    names = [0.0, -0.0, 1.0, 6.0]
    others = [7.0, -1.0, 0.5, 5e-324, 6.999999999999999, 1e30, math.nan, math.inf, -math.inf]
    x, n = np.array(names + others), np.full(len(names + others), 7.0)
    expected = np.arange(x.size) < len(names)
    for found in (vectorise(routing.names_category)(x, n), compiled_names_category(x, n)):
        np.testing.assert_array_equal(found, expected, strict=True)
    found = on_strict(vectorise(routing.names_category), x, n)
    np.testing.assert_array_equal(found, expected, strict=True)
    assert not routing.names_category(0.0, 0)


def compiled_names_category(x, n):
    return np.array([routing.names_category(a, np.int32(b)) for a, b in zip(x, n, strict=True)])


@given(st.integers(0, 2**32 - 1), st.integers(0, 200))
def test_the_bit_of_a_category(word, category):
    expected = bool(word >> category % 32 & 1)
    assert routing.is_left_category(np.uint32(word), category) == expected
    words, categories = np.array([word]), np.array([category])
    assert vectorise(routing.is_left_category)(words, categories)[0] == expected
    assert on_strict(vectorise(routing.is_left_category), words, categories)[0] == expected


def draws(key, n=2**16):
    counter = np.arange(n, dtype=np.uint64)
    return vectorise(rng.draw)(np.full(n, key, np.uint64), counter)


@pytest.mark.parametrize("key", [0, 1, 2, 2**31, 2**32 - 1])
def test_draws_are_uniform(key):
    bits = draws(key)
    assert bits.max() < 2**32
    share = ((bits[:, None] >> np.arange(32, dtype=np.uint64)) & np.uint64(1)).mean(axis=0)
    assert np.all(np.abs(share - 0.5) < 5 * 0.5 / 2**8)
    for shift in (0, 8, 16, 24):
        cells = np.bincount(((bits >> np.uint64(shift)) & np.uint64(255)).astype(int))
        chi_squared = np.sum((cells - 256.0) ** 2 / 256.0)
        assert abs(chi_squared - 255) < 6 * math.sqrt(2 * 255)


def test_streams_of_keys_and_halves_are_uncorrelated():
    streams = np.array([draws(key) for key in (0, 1, 2, 3, 2**31, 12345)], np.float64)
    halves = draws(9)
    low, high = halves & np.uint64(0xFFFF), halves >> np.uint64(16)
    table = np.concatenate([streams, streams[:1, ::-1], [low, high, np.roll(low, 1)]])
    correlations = np.corrcoef(table)[np.triu_indices(len(table), 1)]
    assert np.max(np.abs(correlations)) < 5 / 2**8


def test_subkeys_separate_purposes_and_indices():
    index = np.arange(2**14, dtype=np.uint64)
    subkey = vectorise(rng.subkey)
    keys = [subkey(np.full_like(index, 7), np.full_like(index, p), index) for p in range(1, 6)]
    keys = np.concatenate(keys)
    expected_collisions = keys.size**2 / 2**33
    assert keys.size - np.unique(keys).size <= expected_collisions + 5
