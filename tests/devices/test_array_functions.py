"""What the Array API standard lacks gives the same in every array library."""

import array_api_strict
import numpy as np
import pytest

from gpuens.devices import array_functions

RNG = np.random.default_rng(7)
NUMBERS = {
    "ties": RNG.integers(0, 9, 300),
    "one": np.zeros(1, np.int64),
    "gaps": np.array([7, 0, 7, 3], np.int32),
}
VALUES = {
    **NUMBERS,
    "floats": np.array([2.5, -np.inf, 2.5, 0.0, -0.0, np.inf, -1.0]),
    "missing": np.array([np.nan, 1.0, np.nan, -2.0, 1.0]),
}


def library(name):
    return pytest.importorskip("torch") if name == "torch" else array_api_strict


@pytest.fixture(params=["strict", "torch"])
def xp(request):
    return library(request.param)


def same(found, expected):
    """Compare values, and that nothing has become NumPy's on the way."""
    assert not isinstance(found, np.ndarray)
    np.testing.assert_array_equal(np.from_dlpack(found), expected)


@pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("n", [0, 12])
def test_occurrences(xp, numbers, n):
    expected = np.bincount(numbers, minlength=n)
    np.testing.assert_array_equal(array_functions.occurrences(numbers, n), expected)
    same(array_functions.occurrences(xp.asarray(numbers), n), expected)


@pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)
def test_first_positions(xp, numbers):
    expected = [
        min((i for i, number in enumerate(numbers) if number == k), default=99) for k in range(10)
    ]
    np.testing.assert_array_equal(array_functions.first_positions(numbers, 10, 99), expected)
    same(array_functions.first_positions(xp.asarray(numbers), 10, 99), expected)


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_distinct_values(xp, values):
    expected, codes = np.unique(values, return_inverse=True)
    same(array_functions.distinct(xp.asarray(values)), expected)
    found, found_codes = array_functions.distinct_and_codes(xp.asarray(values))
    same(found, expected)
    same(found_codes, codes)
    for one, other in zip(
        array_functions.distinct_and_codes(values), (expected, codes), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("k", [0, 2, 6])
def test_smallest(xp, k):
    values = VALUES["floats"]
    assert float(array_functions.smallest(values, k)) == np.sort(values)[k]
    same(array_functions.smallest(xp.asarray(values), k), np.sort(values)[k])


def test_contiguous(xp):
    assert array_functions.contiguous(np.eye(3).T).flags.c_contiguous
    columns = xp.asarray(np.arange(6.0).reshape(2, 3))
    assert array_functions.contiguous(columns) is columns
