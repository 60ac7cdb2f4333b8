"""Columns of few values: what comes out is what went in, whatever the parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuens.devices.placement import CPU
from gpuens.inputs.few_values import MOST_VALUES, Collected, FewValues
from gpuens.inputs.labels import read_labels


def collected(*parts):
    column = Collected()
    for part in parts:
        column.add(np.asarray(part))
    return column.joined()


def joined(parts):
    """Return the column, checked against NumPy's."""
    found, expected = collected(*parts), np.concatenate([np.asarray(part) for part in parts])
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_array_equal(np.asarray(found), expected)
    return found


@given(st.lists(st.lists(st.integers(-3, 300), max_size=40), min_size=1, max_size=6))
def test_parts_of_integers(parts):
    arrays = [np.array(part, np.int64) for part in parts]
    found = joined(arrays)
    few = len(np.unique(np.concatenate(arrays))) <= MOST_VALUES
    assert isinstance(found, FewValues) == few
    if few:
        assert found.numbers.dtype == np.uint8
        np.testing.assert_array_equal(found.values, np.unique(np.concatenate(arrays)))


@pytest.mark.parametrize(
    "parts",
    [
        ([True, False], [True]),
        (["no", "yes", "no"], ["perhaps"], ["a"]),
        (np.array([1, 2], np.int8), np.array([-5, 400], np.int32), np.array([2], np.uint8)),
        (np.array([-(2**62), 2**62]), np.array([2**62])),
    ],
    ids=["booleans", "strings", "integers of other sizes", "far apart"],
)
def test_kinds(parts):
    assert isinstance(joined(parts), FewValues)


@pytest.mark.parametrize(
    "parts",
    [
        ([0.0, -0.0],),
        (np.ones((3, 2), np.int64), np.zeros((1, 2), np.int64)),
        (np.arange(200), np.arange(100, 400)),
        ([True, False], [0.5]),
        (np.array([1], np.int64), np.array([2], np.uint64)),
    ],
    ids=["zeros of both signs", "two columns", "many values", "floats later", "no common integer"],
)
def test_what_is_kept_as_it_is(parts):
    found = joined(parts)
    assert not isinstance(found, FewValues)
    assert np.signbit(found).tolist() == np.signbit(np.concatenate(parts)).tolist()


def test_labels_are_those_of_the_rows():
    """Values without a row are no classes."""
    column = collected(["b", "a"], ["c", "b"])
    for rows in (slice(None), np.array([0, 2]), np.array([False, True, False, False])):
        labels = read_labels(column[rows], len(column[rows]), CPU, estimator=None)
        expected = read_labels(np.asarray(column)[rows], len(column[rows]), CPU, estimator=None)
        np.testing.assert_array_equal(labels.classes, expected.classes)
        np.testing.assert_array_equal(labels.codes, expected.codes)


def test_numbers_cannot_be_shared_as_values():
    with pytest.raises(ValueError, match="no array of its values"):
        np.asarray(collected([1, 2]), copy=False)


@pytest.mark.parametrize("parts, message", [
    ([np.array([1, 2]), np.array(["a"])], "text in some batches and numbers in others"),
    ([np.array(["a"]), np.array([0.5])], "text in some batches and numbers in others"),
    ([np.array([2**53 + 1]), np.array([1.0])], r"beyond 2\*\*53 in some batches"),
    ([np.array([2**53 + 1]), np.array([2**63], np.uint64)], r"beyond 2\*\*53 in some batches"),
])  # fmt: skip
def test_parts_of_other_types(parts, message):
    column = Collected()
    with pytest.raises(ValueError, match=message):
        for part in parts:
            column.add(part)
        column.joined()


@pytest.mark.parametrize("values", [[2**63, 2**63 + 1], [0, 2**64 - 1], [2**64 - 200, 2**64 - 1]])
def test_large_unsigned_integers(values):
    column = Collected()
    column.add(np.array(values * 2, np.uint64))
    assert np.asarray(column.joined()).tolist() == values * 2
