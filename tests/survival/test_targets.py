"""Targets of survival analysis."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.inputs.survival import read_intervals, read_survival

EVENT, TIME = np.array([True, False, True]), np.array([2.0, 0.0, 5.0])
STRUCTURED = np.array(list(zip(TIME, EVENT, strict=True)), dtype=[("t", "f4"), ("cens", "?")])


@pytest.mark.parametrize("y", [
    (EVENT, TIME), (EVENT.astype(int), TIME.astype(int)), STRUCTURED, (list(EVENT), list(TIME)),
])  # fmt: skip
def test_forms_of_right_censored_times(y):
    event, time = read_survival(y)
    assert event.dtype == bool and time.dtype == np.float64
    np.testing.assert_array_equal(event, EVENT)
    np.testing.assert_array_equal(time, TIME)


def test_forms_of_intervals():
    lower, upper = read_intervals((EVENT, TIME + 1.0))
    np.testing.assert_array_equal(lower, [3.0, 1.0, 6.0])
    np.testing.assert_array_equal(upper, [3.0, np.inf, 6.0])
    bounds = np.array([[0.0, 2.0], [1.0, np.inf], [1.0, 1.0], [1.0, 4.0], [0.0, np.inf]])
    lower, upper = read_intervals(bounds)
    np.testing.assert_array_equal(np.stack([lower, upper], axis=1), bounds)


@pytest.mark.parametrize("y, message", [
    ((EVENT, TIME - 1.0), "The times of y must be finite and not negative, got -1.0 in row 1"),
    ((EVENT, TIME * np.nan), "must be finite and not negative, got nan in row 0"),
    ((EVENT, ["a", "b", "c"]), "The times of y must be numbers"),
    ((EVENT[:2], TIME), r"shapes \(2,\) and \(3,\)"),
    ((TIME, EVENT), "The events of y must be boolean, or 0 and 1, got dtype float64 with 2.0"),
    ((EVENT, TIME, TIME), "got a tuple of length 3"),
    (np.zeros(3, dtype=[("a", "f8"), ("b", "f8")]), "a boolean field"), (None, "got NoneType"),
])  # fmt: skip
def test_bad_right_censored_times(y, message):
    with pytest.raises(ValueError, match=message):
        read_survival(y)


@pytest.mark.parametrize("bounds, message", [
    ([2.0, 1.0], r"must not be below the lower ones, got \[2.0, 1.0\] in row 1"),
    ([2.0, np.nan], "must not be below the lower ones"),
    ([np.nan, 2.0], "lower bounds of y must be finite and not negative, got nan in row 1"),
    ([-1.0, 2.0], "lower bounds of y must be finite and not negative, got -1.0 in row 1"),
    ([np.inf, np.inf], "lower bounds of y must be finite"),
    ([0.0, 0.0], "positive times of events, got 0 in row 1"),
])  # fmt: skip
def test_bad_intervals(bounds, message):
    with pytest.raises(ValueError, match=message):
        read_intervals(np.array([[1.0, 2.0], bounds]))


@pytest.mark.parametrize("y", [np.ones(3), np.ones((3, 3)), "times", (EVENT, TIME, TIME)])
def test_bad_shapes_of_intervals(y):
    with pytest.raises(ValueError, match="structured array"):
        read_intervals(y)
