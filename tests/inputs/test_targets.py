"""Targets, labels and weights: what is read, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning

from gpuens.devices.placement import CPU, Device
from gpuens.inputs import targets
from tests.support import strict_cupy

NAN = float("nan")
GPU = Device("cuda", 1)


class Learner(BaseEstimator):
    """Something that targets are read for."""


def read_target(y, n_rows=3, device=CPU, **keywords):
    with device.active():
        return targets.read_target(y, n_rows, device, estimator=Learner(), **keywords)


def read_labels(y, n_rows=3, device=CPU, **keywords):
    with device.active():
        return targets.read_labels(y, n_rows, device, estimator=Learner(), **keywords)


def read_weight(weight, n_rows=3, device=CPU, **keywords):
    with device.active():
        return targets.read_sample_weight(weight, n_rows, device, estimator=Learner(), **keywords)


@pytest.fixture
def cupy(monkeypatch):
    return strict_cupy.install(monkeypatch)


@pytest.fixture(params=["host", "gpu"])
def place(request, cupy):
    """Puts an array on the host or on a GPU."""
    return np.asarray if request.param == "host" else lambda y: strict_cupy.on_gpu(cupy, y, 1)


CONTAINERS = [
    list, tuple, np.array, pd.Series, pl.Series, pa.array, lambda y: pa.chunked_array([y]),
    lambda y: pd.Series(y).convert_dtypes(),
]  # fmt: skip
any_container = pytest.mark.parametrize("container", CONTAINERS)


class TestTarget:
    @any_container
    @pytest.mark.parametrize("y", [[1.5, 2.0, 3.0], [1, 2, 3], [True, False, True]])
    def test_numbers(self, container, y):
        np.testing.assert_array_equal(
            read_target(container(y)), np.array(y, np.float64), strict=True
        )

    def test_float64_is_not_copied(self):
        y = np.arange(3.0)
        assert np.shares_memory(read_target(y), y)

    def test_result_is_contiguous(self, place):
        y = place(np.arange(6.0))[::2]
        assert read_target(y).flags.c_contiguous
        assert read_target(y, device=GPU).flags.c_contiguous

    def test_objects_that_are_numbers(self):
        assert read_target(np.array([1, 2.5, True], object)).tolist() == [1.0, 2.5, 1.0]

    def test_column(self, place):
        with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
            assert read_target(place(np.ones((3, 1)))).shape == (3,)

    def test_moves(self, place, cupy):
        assert type(read_target(place([1, 2, 3]))) is np.ndarray
        there = read_target(place([1, 2, 3]), device=GPU)
        assert isinstance(there, cupy.ndarray) and there.device.id == 1
        assert there.dtype == np.float64

    def test_none(self):
        message = "This Learner estimator requires y to be passed, but the target y is None"
        with pytest.raises(ValueError, match=message):
            read_target(None)

    @pytest.mark.parametrize("bad", [NAN, np.inf, -np.inf])
    def test_not_finite(self, place, bad):
        for device in (CPU, GPU):
            with pytest.raises(ValueError, match="Input y contains (NaN|infinity)"):
                read_target(place([1.0, bad, 2.0]), device=device)

    @pytest.mark.parametrize("y", [pl.Series([1, None, 2]), pd.Series([1, None, 2], dtype="Int64")])
    def test_missing(self, y):
        with pytest.raises(ValueError, match="Input y contains NaN"):
            read_target(y)

    @pytest.mark.parametrize("length", [0, 2, 4])
    def test_length(self, place, length):
        with pytest.raises(ValueError, match=f"y has {length} values, X has 3 rows"):
            read_target(place(np.ones(length)))

    @pytest.mark.parametrize("shape", [(3, 2), (1, 3), (3, 1, 1), ()])
    def test_shape(self, place, shape):
        with pytest.raises(ValueError, match="y should be a 1d array|dim 3"):
            read_target(place(np.ones(shape)))

    def test_text(self):
        with pytest.raises(ValueError, match="y must hold numbers for a regression, got dtype"):
            read_target(["red", "green", "blue"])

    def test_complex(self, place):
        with pytest.raises(ValueError, match="Complex data not supported"):
            read_target(place(np.ones(3, complex)))

    def test_name_of_the_argument(self):
        with pytest.raises(ValueError, match=r"eval_set\[0\]\[1\] has 2 values, X has 3 rows"):
            read_target([1, 2], name="eval_set[0][1]")


class TestLabels:
    @given(
        hnp.arrays(
            st.sampled_from(["?", "i1", "u1", "i4", "i8", "u8", "f4", "f8"]), st.integers(1, 40)
        )
    )
    def test_the_same_as_numpy_unique(self, y):
        if y.dtype.kind == "f":
            y = np.nan_to_num(np.round(y), posinf=1e30, neginf=-1e30)
        classes, codes = np.unique(y, return_inverse=True)
        labels = read_labels(y, len(y))
        np.testing.assert_array_equal(labels.classes, classes, strict=True)
        np.testing.assert_array_equal(labels.codes, codes, strict=True)

    @given(st.lists(st.text(max_size=3), min_size=1, max_size=20))
    def test_the_same_as_numpy_unique_on_text(self, words):
        for y in (np.array(words), np.array(words, object)):
            classes, codes = np.unique(y, return_inverse=True)
            labels = read_labels(y, len(y))
            np.testing.assert_array_equal(labels.classes, classes, strict=True)
            np.testing.assert_array_equal(labels.codes, codes, strict=True)

    @any_container
    @pytest.mark.parametrize("y", [[3, 1, 3], ["b", "a", "b"], [True, False, True]])
    def test_containers(self, container, y):
        labels = read_labels(container(y))
        assert labels.classes.tolist() == sorted(set(y))
        assert labels.codes.tolist() == [1, 0, 1]

    def test_pandas_categories(self):
        y = pd.Series(["b", "a", "b"], dtype="category")
        assert read_labels(y).classes.tolist() == ["a", "b"]

    @pytest.mark.parametrize("y", [[0, 2**62, -(2**62)], [-5, 70000, 12], [1e300, 0.0, -1e300]])
    def test_far_apart(self, place, y):
        labels = read_labels(place(y))
        assert labels.classes.tolist() == sorted(y)
        assert labels.classes[labels.codes].tolist() == y

    def test_large_unsigned(self):
        y = np.array([2**64 - 1, 2**64 - 2, 2**64 - 1], np.uint64)
        assert read_labels(y).codes.tolist() == [1, 0, 1]

    def test_objects_that_are_numbers(self):
        labels = read_labels(np.array([3, 1, 3], object))
        assert labels.classes.tolist() == [1, 3]

    def test_moves(self, place, cupy):
        for y in ([3, 1, 3], [3.0, 1.0, 3.0], [2**60, 1, 2**60]):
            here, there = read_labels(place(y)), read_labels(place(y), device=GPU)
            assert type(here.codes) is type(here.classes) is type(there.classes) is np.ndarray
            assert isinstance(there.codes, cupy.ndarray) and there.codes.device.id == 1
            assert here.codes.tolist() == there.codes.tolist() == [1, 0, 1]
            assert there.codes.dtype == np.int64

    def test_continuous(self, place):
        with pytest.raises(ValueError, match="Unknown label type: continuous. y holds.*regressor"):
            read_labels(place([0.5, 1.0, 2.0]))

    def test_one_class(self, place):
        message = r"y holds 1 class \(7 in every row\).*at least 2"
        with pytest.raises(ValueError, match=message):
            read_labels(place([7, 7, 7]), min_classes=2)
        assert read_labels(place([7, 7, 7])).codes.tolist() == [0, 0, 0]

    @pytest.mark.parametrize("y", [
        [1.0, NAN, 2.0], ["a", None, "b"], np.array(["a", NAN, "b"], object),
        pd.Series(["a", None, "b"]), pd.Series(["a", None, "b"], dtype="category"),
        pd.Series([1, None, 2], dtype="Int64"), pl.Series(["a", None, "b"]),
        pd.Series(["a", None, "b"], dtype="string"),
        pd.Series([True, None, False], dtype="boolean"),
        [1.0, np.inf, 2.0],
    ])  # fmt: skip
    def test_missing(self, y):
        with pytest.raises(ValueError, match="Input y contains"):
            read_labels(y)

    def test_mixed(self):
        with pytest.raises(ValueError, match=r"Unknown label type: y mixes .*\['int', 'str'\]"):
            read_labels(np.array([1, "a", 1], object))

    def test_not_hashable(self):
        with pytest.raises(ValueError, match="Unknown label type: y holds unhashable"):
            read_labels(np.array([{}, {}, {}], object))

    @pytest.mark.parametrize("y, message", [
        (None, "requires y to be passed"), ([1, 2], "y has 2 values, X has 3 rows"),
        (np.ones((3, 2)), "y should be a 1d array"),
    ])  # fmt: skip
    def test_shape(self, y, message):
        with pytest.raises(ValueError, match=message):
            read_labels(y)


class TestWeight:
    def test_none_stays_none(self):
        assert read_weight(None) is None

    @any_container
    def test_containers(self, container):
        np.testing.assert_array_equal(
            read_weight(container([1, 2, 0])), [1.0, 2.0, 0.0], strict=True
        )

    @pytest.mark.parametrize("number", [2, 0.5, np.float32(2)])
    def test_one_number_for_all(self, number):
        np.testing.assert_array_equal(read_weight(number), np.full(3, number, float), strict=True)

    def test_moves(self, place, cupy):
        assert type(read_weight(place([1, 2, 3]))) is np.ndarray
        there = read_weight(place([1, 2, 3]), device=GPU)
        assert isinstance(there, cupy.ndarray) and there.device.id == 1

    def test_float64_is_not_copied(self):
        weight = np.arange(3.0)
        assert np.shares_memory(read_weight(weight), weight)

    @pytest.mark.parametrize("shape", [(2,), (0,), (3, 1), (1, 3)])
    def test_shape(self, place, shape):
        message = "one weight for each of the 3 rows of X: sample_weight.shape == .*, expected .3,"
        with pytest.raises(ValueError, match=message):
            read_weight(place(np.ones(shape)))

    @pytest.mark.parametrize("bad", [NAN, np.inf])
    def test_not_finite(self, place, bad):
        for device in (CPU, GPU):
            with pytest.raises(ValueError, match="Input sample_weight contains (NaN|infinity)"):
                read_weight(place([1.0, bad, 2.0]), device=device)

    def test_negative(self, place):
        message = "Negative values in data passed to `sample_weight`: the smallest is -2.0"
        with pytest.raises(ValueError, match=message):
            read_weight(place([1.0, -2.0, 2.0]))

    @pytest.mark.parametrize("weight", [[0, 0, 0], 0.0])
    def test_all_zero(self, weight):
        with pytest.raises(ValueError, match="sample_weight is zero for every row"):
            read_weight(weight)

    def test_text(self):
        with pytest.raises(ValueError, match="sample_weight must hold numbers.*got .*float: 'a'"):
            read_weight(["a", "b", "c"])


class TestTorch:
    @pytest.fixture
    def torch(self):
        return pytest.importorskip("torch")

    def test_in(self, torch):
        assert read_target(torch.tensor([1, 2, 3])).tolist() == [1.0, 2.0, 3.0]
        assert read_labels(torch.tensor([5, 2, 5])).codes.tolist() == [1, 0, 1]
        assert read_weight(torch.tensor([1.0, 2.0, 3.0])).tolist() == [1.0, 2.0, 3.0]
