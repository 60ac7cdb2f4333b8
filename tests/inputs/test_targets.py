"""Targets and weights: what is read, and what is refused."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning

from gpuens.devices.placement import CPU, Device
from gpuens.inputs import targets

NAN = float("nan")
GPU = Device("cuda", 1)


class Learner(BaseEstimator):
    """Something that targets are read for."""


def read_target(y, n_rows=3, device=CPU, **keywords):
    with device.active():
        return targets.read_target(y, n_rows, device, estimator=Learner(), **keywords)


def read_weight(weight, n_rows=3, device=CPU, **keywords):
    with device.active():
        return targets.read_sample_weight(weight, n_rows, device, **keywords)


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

    def test_read_only_columns_are_copied(self):
        y = pd.Series([1.0, 2.0, 3.0]).to_numpy()
        y.flags.writeable = False
        with CPU.active():
            weight = targets.read_sample_weight(y, 3, CPU)
        for found in (read_target(y), weight):
            assert found.flags.writeable and found.tolist() == y.tolist()

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

    @pytest.mark.parametrize("bad, what", [(NAN, "NaN"), (np.inf, "infinity")])
    def test_not_finite_values_are_counted(self, place, bad, what):
        with pytest.raises(ValueError) as raised:
            read_target(place([1.0, 2.0, bad, 3.0, bad]), 5)
        assert str(raised.value) == (
            f"Input y contains {what}: 2 of 5 values, the first in row 2 (counted from 0). Drop "
            "these rows, or fill in their targets."
        )

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

    @pytest.mark.parametrize("y", [
        [Decimal("1.5"), 2, 3], [Fraction(3, 2), Fraction(2), 3.0], [2**70, 1, 2],
        pd.Series([1, 2, 3], dtype="UInt64"), pd.Series([1.5, 2, 3], dtype="Float64"),
        pl.Series([Decimal("1.5"), Decimal(2), Decimal(3)]), np.ma.array([1, 2, 3], mask=[0, 0, 0]),
        [np.int64(1), np.float32(2), True],
    ])  # fmt: skip
    def test_numbers_of_other_types(self, y):
        listed = y if isinstance(y, list) else np.asarray(y).tolist()
        assert read_target(y).tolist() == [float(value) for value in listed]

    @pytest.mark.parametrize("y", [
        [1, None, 2], [Decimal(1), Decimal("nan"), 2], np.ma.array([1, 2, 3], mask=[0, 1, 0]),
        np.array([1, pd.NA, 2], object),
    ])  # fmt: skip
    def test_missing_among_objects(self, y):
        with pytest.raises(ValueError, match=r"NaN or None: 1 of 3 values, the first in row 1 "):
            read_target(y)

    @pytest.mark.parametrize("y", [
        np.array(["2020-01-01"] * 3, "M8[D]"), np.array([1, 2, 3], "m8[s]"),
        [date(2020, 1, 1)] * 3, [10**400, 1, 2], ["1", 2, "x"],
    ])  # fmt: skip
    def test_no_numbers(self, y):
        with pytest.raises(ValueError, match="y must hold numbers for a regression, got dtype"):
            read_target(y)

    def test_complex(self, place):
        with pytest.raises(ValueError, match="Complex data not supported"):
            read_target(place(np.ones(3, complex)))

    def test_name_of_the_argument(self):
        with pytest.raises(ValueError, match=r"eval_set\[0\]\[1\] has 2 values, X has 3 rows"):
            read_target([1, 2], name="eval_set[0][1]")


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
        assert read_weight(torch.tensor([1.0, 2.0, 3.0])).tolist() == [1.0, 2.0, 3.0]
