"""Labels: each keeps its identity and its type, from whatever container it is read."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import BaseEstimator

from gpuens.devices.placement import CPU, Device
from gpuens.inputs import labels as reader
from gpuens.inputs.labels import as_classes, class_numbers, factors_of_keys, side_by_side
from tests.inputs.test_targets import any_container

NAN = float("nan")
GPU = Device("cuda", 1)
A, B = 2**53, 2**53 + 1
C, D = 2**63, 2**63 + 1
E, F = 2**64, 2**64 + 1


class Learner(BaseEstimator):
    """Something that labels are read for."""


def read_labels(y, n_rows=3, device=CPU, **keywords):
    with device.active():
        return reader.read_labels(y, n_rows, device, estimator=Learner(), **keywords)


def objects(y):
    return np.array(y, object)


def series(dtype):
    return lambda y: pd.Series(y, dtype=dtype)


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


INTEGERS = {
    "list": list, "tuple": tuple, "objects": objects, "numpy": np.array,
    "scalars of numpy": lambda y: objects([np.asarray(v)[()] for v in y]),
    "column of a frame": lambda y: pd.DataFrame({"y": y})["y"],
    "objects of pandas": series(object), "categories": series("category"), "polars": pl.Series,
    "arrow": pa.array, "chunks": lambda y: pa.chunked_array([y[:1], y[1:]]),
    "column of a table": lambda y: pa.table({"y": y}).column("y"),
    "dictionary": lambda y: pa.array(y).dictionary_encode(),
}  # fmt: skip
SIGNED = INTEGERS | {
    "Int64": series("Int64"), "int64 of arrow": series("int64[pyarrow]"),
    "array of pandas": lambda y: pd.array(y, dtype="Int64"),
}  # fmt: skip
UNSIGNED = {name: f for name, f in INTEGERS.items() if name not in ("polars", "arrow")} | {
    "UInt64": series("UInt64"), "uint64 of arrow": series("uint64[pyarrow]"),
    "polars": lambda y: pl.Series(y, dtype=pl.UInt64), "arrow": lambda y: pa.array(y, pa.uint64()),
    "chunks": lambda y: pa.chunked_array([pa.array(y, pa.uint64())]),
    "column of a table": lambda y: pa.table({"y": pa.array(y, pa.uint64())}).column("y"),
    "dictionary": lambda y: pa.array(y, pa.uint64()).dictionary_encode(),
}  # fmt: skip


NUMBERS = (
    st.integers(-(2**70), 2**70) | st.integers(A - 3, A + 3) | st.integers(0, 3) | st.booleans()
    | st.sampled_from([1.0, float(A), 1e300])
)  # fmt: skip


class TestIdentity:
    """No label is rounded, cut or made into another type."""

    @pytest.mark.parametrize("container", SIGNED.values(), ids=SIGNED)
    def test_beyond_float64(self, container):
        labels = read_labels(container([B, A, B]))
        np.testing.assert_array_equal(labels.classes, np.array([A, B]), strict=True)
        assert labels.codes.tolist() == [1, 0, 1]

    @pytest.mark.parametrize("container", UNSIGNED.values(), ids=UNSIGNED)
    def test_beyond_int64(self, container):
        labels = read_labels(container([D, C, D]))
        np.testing.assert_array_equal(labels.classes, np.array([C, D], np.uint64), strict=True)
        assert labels.codes.tolist() == [1, 0, 1]

    @pytest.mark.parametrize("container", [list, objects, series(object), pl.Series], ids=str)
    @pytest.mark.parametrize("y", [
        [F, E, F], [C, -1, C], [A, B, 1.0], [B, 1.5e300, B], [10**400, 1, 10**400],
        [Fraction(2, 3), Fraction(1, 3), 1], [Decimal("1.2"), Decimal("1.1"), Decimal(7)],
        [b"b", b"a", b"b"], ["b", "b\0", "a"], [b"b", b"b\0", b"a"],
        [datetime.date(2020, 1, 2), datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)],
    ], ids=str)  # fmt: skip
    def test_objects(self, y, container):
        if container is pl.Series:
            dtypes = {F: pl.Int128, b"b": pl.Binary, "b": pl.String, Decimal("1.2"): None}
            if y[0] not in dtypes:
                container = lambda y: pl.Series(y, dtype=pl.Object)  # noqa: E731
            elif dtypes[y[0]] is not None:
                container = lambda y: pl.Series(y, dtype=dtypes[y[0]])  # noqa: E731
        labels = read_labels(container(y))
        assert labels.classes.tolist() == sorted(set(y))
        assert {type(v) for v in labels.classes.tolist()} == {type(v) for v in y}
        assert labels.classes[labels.codes].tolist() == y

    @pytest.mark.parametrize("y, kind", [
        (pd.Series([2, 1, 2], dtype="Int8"), "i"), (pd.Series([2, 1, 2], dtype="UInt8"), "u"),
        (pd.Series([True, False, True], dtype="boolean"), "b"),
        (pd.Series([True, False, True], dtype="bool[pyarrow]"), "b"),
        (pd.Series([2.0, 1.0, 2.0], dtype="Float64"), "f"),
        (objects([True, False, True]), "b"), (objects([2, 1, 2]), "i"),
        (objects([2.0, 1.0, 2.0]), "f"), ([np.float32(2), 1, np.int8(2)], "f"),
        (pd.Series(["b", "a", "b"], dtype="string"), "O"), (["b", "a", "b"], "U"),
        (np.array(["b", "a", "b"], np.dtypes.StringDType()), "T"), ([b"b", b"a", b"b"], "S"),
        (pd.Series(pd.to_datetime(["2020-02-01", "2020-01-01", "2020-02-01"])), "M"),
    ])  # fmt: skip
    def test_types(self, y, kind):
        labels = read_labels(y)
        assert labels.classes.dtype.kind == kind and labels.codes.tolist() == [1, 0, 1]

    @pytest.mark.parametrize("y", [
        ["1", 1, "a"], [b"a", "a", b"a"], objects(["a", 1, "a"]),
    ])  # fmt: skip
    def test_text_swallows_no_numbers(self, y):
        with pytest.raises(ValueError, match="Unknown label type: y mixes labels of the types"):
            read_labels(y)

    @pytest.mark.parametrize("y", [["b", 1, "b"], ["b", 1.5, "b"], ["b", True, "b"]])
    def test_a_list_of_numbers_and_text_is_text_as_in_scikit_learn(self, y):
        labels = read_labels(y)
        assert labels.classes.tolist() == sorted({str(value) for value in y})
        assert labels.codes.tolist() == [1, 0, 1]

    @pytest.mark.parametrize("y", [
        ["a", NAN, "b"], [1, pd.NA, 2], [Decimal(1), Decimal("nan"), Decimal(2)],
        [pd.Timestamp(2020, 1, 1), pd.NaT, pd.Timestamp(2020, 1, 1)],
        np.ma.array([1, 2, 3], mask=[0, 1, 0]), objects([1.0, np.float32(NAN), 2.0]),
        objects([1, np.inf, 2]), [A, B, -np.inf], pl.Series([1, None, 2]), pa.array([1, None, 2]),
    ])  # fmt: skip
    def test_missing_among_objects(self, y):
        with pytest.raises(ValueError, match="Input y contains"):
            read_labels(y)

    @pytest.mark.parametrize("y", [objects([1.5, 2, 3]), [A, B, 0.5], [Fraction(1, 3), 1.5, 2]])
    def test_continuous_among_objects(self, y):
        with pytest.raises(ValueError, match="Unknown label type: continuous"):
            read_labels(y)

    @given(st.lists(NUMBERS, min_size=1))
    def test_any_numbers(self, y):
        for given_ in (y, objects(y)):
            labels = read_labels(given_, len(y))
            assert labels.classes.tolist() == sorted(set(y))
            assert labels.classes[labels.codes].tolist() == y


class TestNumbers:
    """Labels among the classes of a model."""

    @pytest.mark.parametrize("known, y, expected", [
        (np.array([A, B]), np.array([B, A, 0], np.uint64), [1, 0, -1]),
        (np.array([A, B]), [float(A), 1.0, 2.0], [0, -1, -1]),
        (np.array([False, True]), objects([1, 0, 5]), [1, 0, -1]),
        (objects([1, C]), np.array([C, 1, D], np.uint64), [1, 0, -1]),
        (np.array(["a", "b"]), pd.Series(["b", "c", "a"], dtype="category"), [1, -1, 0]),
        (np.array(["2020-01-01", "2020-01-02"], "M8[D]"),
         np.array(["2020-01-02", "2020-01-01", "2020-01-01T01"], "M8[ns]"), [1, 0, -1]),
    ])  # fmt: skip
    def test_any_type(self, known, y, expected):
        found = class_numbers(y, [known], 3, CPU, estimator=Learner(), name="y")
        assert found[:, 0].tolist() == expected

    def test_outputs_of_a_list(self):
        known = [np.array([A, B]), np.array(["a", "b"])]
        y = [[B, "a"], [A, "b"], [1, "c"]]
        found = class_numbers(y, known, 3, CPU, estimator=Learner(), name="y")
        assert found.tolist() == [[1, 0], [0, 1], [-1, -1]]

    def test_text_for_numbers(self):
        known = [np.array([1, 2])]
        with pytest.raises(ValueError, match="y holds labels such as '1', .* such as 1. Pass"):
            class_numbers(["1", "2", "1"], known, 3, CPU, estimator=Learner(), name="y")

    @pytest.mark.parametrize("classes, keys", [
        (np.array([C, D], np.uint64), [C, np.uint64(D)]), (np.array([False, True]), [0, True]),
        (objects([Fraction(1, 3), Fraction(2, 3)]), [Fraction(1, 3), Fraction(2, 3)]),
        (np.array([b"a", b"b"]), [b"a", b"b"]), (np.array(["a", "b"]), ["a", np.str_("b")]),
        (np.array(["2020-01-01", "2020-01-02"], "M8[D]"),
         [datetime.date(2020, 1, 1), np.datetime64("2020-01-02", "ns")]),
    ])  # fmt: skip
    def test_keys_of_class_weight(self, classes, keys):
        assert factors_of_keys(dict(zip(keys, [2.0, 3.0], strict=True)), classes).tolist() == [2, 3]
        assert factors_of_keys({keys[1]: 3.0}, classes).tolist() == [1, 3]

    def test_key_that_is_not_a_class(self):
        with pytest.raises(ValueError, match=r"The classes, \[1, 2\], .* whose keys are \[7\]"):
            factors_of_keys({7: 1.0}, np.array([1, 2]))

    def test_outputs_side_by_side(self):
        whole, floats = np.array([A, B]), np.array([1.0, 2.0])
        assert side_by_side([whole, floats], np).tolist() == [[A, 1.0], [B, 2.0]]
        assert side_by_side([floats.astype(int), floats], np).dtype == np.float64

    @pytest.mark.parametrize("parts, expected", [
        ([np.array([A, B]), np.array([D], np.uint64)], [A, B, D]),
        ([np.array([1, 2]), np.array([2, 3], np.int8)], [1, 2, 3]),
        ([np.array(["a"]), np.array(["bb"])], ["a", "bb"]),
        ([np.array([A]), np.array([1.0]), objects([F])], [1.0, A, F]),
    ])  # fmt: skip
    def test_workers(self, parts, expected, monkeypatch):
        monkeypatch.setattr(reader, "objects_of_all", lambda classes, share: parts)
        assert reader.classes_among_workers(parts[0], None).tolist() == expected

    def test_for_metrics(self):
        np.testing.assert_array_equal(as_classes(objects([3, 1, 3])), [3, 1, 3], strict=True)
        found = as_classes(pd.Series([B, A, B], dtype="Int64"))
        np.testing.assert_array_equal(found, [B, A, B], strict=True)
        text, floats = objects(["b", "a"]), objects([1.5, 2.5])
        assert as_classes(text).tolist() == ["b", "a"] and as_classes(floats) is floats
        array = np.array([3, 1, 3])
        assert as_classes(array) is array and as_classes(None) is None


class TestTorch:
    @pytest.mark.parametrize("y", [[5, 2, 5], [B, A, B], [True, False, True]])
    def test_in(self, y):
        torch = pytest.importorskip("torch")
        labels = read_labels(torch.tensor(y))
        assert labels.classes.tolist() == sorted(set(y)) and labels.codes.tolist() == [1, 0, 1]
