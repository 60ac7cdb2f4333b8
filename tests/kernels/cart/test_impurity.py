"""Scores of nodes, thresholds and random cuts: the formulas of classification and regression
trees."""

from __future__ import annotations

import math

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuens.kernels.scalars import gain, routing
from gpuens.kernels.scalars.primitives import vectorise
from tests.kernels.scalars.test_scalars import compiled

RANDOM = np.random.default_rng(0)
SUMS = np.concatenate([[0.0, 1.0, 2.0**62], np.floor(2.0 ** RANDOM.uniform(0, 62, 3000))])
WEIGHTS = np.floor(2.0 ** RANDOM.uniform(0, 36, SUMS.size))
REALS = np.concatenate(
    [
        RANDOM.normal(size=2900) * 10.0 ** RANDOM.integers(-300, 300, 2900),
        np.repeat([0.0, 5e-324, -1.0, 1.0, -1.7e308, 1.7e308], 17),
    ]
)
LOW, HIGH = np.minimum(REALS, REALS[::-1]), np.maximum(REALS, REALS[::-1])
BITS = RANDOM.integers(0, 2**32, REALS.size).astype(float)

FORMULAS = {
    "square": (gain.square, (SUMS,)),
    "x_log_x": (gain.x_log_x, (SUMS,)),
    "poisson_score": (gain.poisson_score, (SUMS[1:], WEIGHTS[1:])),
    "midpoint": (routing.midpoint, (LOW, HIGH)),
    "random_cut": (routing.random_cut, (LOW, HIGH, BITS)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_same_bits_everywhere(same, name):
    function, columns = FORMULAS[name]
    with np.errstate(over="ignore"):  # the distance of huge values
        expected = vectorise(function)(*columns)
        strict = vectorise(function)(*(array_api_strict.asarray(c) for c in columns))
    same(compiled(function, *columns), expected)
    same(np.from_dlpack(strict), expected)


def test_x_log_x():
    values = vectorise(gain.x_log_x)(np.array([0.0, 1.0, math.e, 2.0**40]))
    np.testing.assert_allclose(values, [0.0, 0.0, math.e, 2.0**40 * 40 * math.log(2)], rtol=1e-15)
    assert values[0] == 0.0 and not np.signbit(values[0])


@given(st.integers(1, 2**62), st.integers(1, 2**36 - 1))
def test_poisson_score_is_the_deviance_up_to_what_is_common(s, w):
    expected = s * math.log(s / w)
    score = vectorise(gain.poisson_score)(np.array([float(s)]), np.array([float(w)]))[0]
    assert score == pytest.approx(expected, rel=1e-12, abs=s * 1e-12)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_a_midpoint_parts_two_values(a, b):
    low, high = sorted((a, b))
    if low == high:
        return
    with np.errstate(invalid="ignore"):
        threshold = float(vectorise(routing.midpoint)(np.array([low]), np.array([high]))[0])
    assert low <= threshold < high
    if math.isfinite(low) and math.isfinite(high):
        assert threshold in (low, low / 2 + high / 2)


def test_midpoints_where_nothing_is_in_between():
    tiny = 5e-324
    low = np.array([1.0, 0.0, -tiny, -np.inf, -np.inf, 3.0])
    high = np.array([np.nextafter(1.0, 2), tiny, 0.0, np.inf, 0.0, np.inf])
    with np.errstate(invalid="ignore"):
        threshold = vectorise(routing.midpoint)(low, high)
    np.testing.assert_array_equal(threshold, [1.0, 0.0, -tiny, -np.inf, -np.inf, 3.0])


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300), st.integers(0, 2**32 - 1))
def test_a_random_cut_is_between_the_values(a, b, bits):
    low, high = sorted((a, b))
    cut = vectorise(routing.random_cut)(*(np.array([float(x)]) for x in (low, high, bits)))[0]
    assert low <= cut <= high


def test_random_cuts_are_uniform():
    cut = vectorise(routing.random_cut)
    bits = np.arange(0, 2**32, 2**20, dtype=float)
    cuts = cut(np.full_like(bits, -3.0), np.full_like(bits, 1.0), bits)
    np.testing.assert_allclose(cuts, np.linspace(-3, 1, bits.size + 1)[:-1], atol=1e-8)


@pytest.mark.parametrize("library", [np, array_api_strict], ids=["numpy", "strict"])
def test_categories_of_a_word(library):
    left = [0, 3, 31]
    word = sum(1 << c for c in left)
    categories = library.arange(32)
    words = library.full(32, word, dtype=library.int64)
    is_left = vectorise(routing.is_left_category)(words, categories)
    assert [c for c in range(32) if bool(is_left[c])] == left
    assert [c for c in range(32) if routing.is_left_category(np.uint32(word), c)] == left
