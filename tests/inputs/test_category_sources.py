"""Categorical features of frames, arrays of objects and numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from gpuens.devices.placement import CPU, SIMULATOR
from gpuens.inputs.arrays import Device
from gpuens.inputs.categories import MAX_CATEGORIES, read_features
from tests.inputs.test_categories import again, categories, fit, objects
from tests.support import strict_cupy

NAN = float("nan")
GPU = Device("cuda", 1)


FRAMES = {
    "pandas": pd.DataFrame,
    "pandas object": lambda data: pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in
                                                data.items()}),
    "pandas nullable": lambda data: pd.DataFrame(data).convert_dtypes(),
    "pandas pyarrow": lambda data: pa.table(data).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}  # fmt: skip
frames = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)


def arrow_categorical(values):
    return pa.table({"c": pa.array(values).dictionary_encode()})


TYPED = {
    "pandas": lambda values: pd.DataFrame(
        {"c": pd.Series(values, dtype=object).astype("category")}
    ),
    "pandas pyarrow": lambda values: arrow_categorical(values).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "polars": lambda values: pl.DataFrame({"c": pl.Series(values, dtype=pl.Categorical)}),
    "polars enum": lambda values: pl.DataFrame(
        {"c": pl.Series(values, dtype=pl.Enum(["b", "unused", "c", "d", "a"]))}
    ),
    "pyarrow": arrow_categorical,
}
typed = pytest.mark.parametrize("frame", TYPED.values(), ids=TYPED)


class TestFrames:
    @frames
    def test_text(self, frame):
        learner, values = fit(frame({"c": ["b", None, "a"], "d": ["x", "y", "x"]}), ["c", "d"])
        np.testing.assert_array_equal(values, [[1, 0], [NAN, 1], [0, 0]])
        assert categories(learner) == [["a", "b"], ["x", "y"]]
        assert values.dtype == np.float32
        later = again(learner, frame({"c": ["z", "a", None], "d": ["y", "X", ""]}))
        np.testing.assert_array_equal(later, [[NAN, 1], [0, NAN], [NAN, NAN]])

    @frames
    def test_numbers(self, frame):
        X = frame({"c": [30, 10, None, 10], "d": [0.5, None, -1.5, 0.5]})
        learner, values = fit(X, [0, 1])
        np.testing.assert_array_equal(values, [[1, 1], [0, NAN], [NAN, 0], [0, 1]])
        assert categories(learner) == [[10, 30], [-1.5, 0.5]]
        later = again(learner, frame({"c": [20, 30], "d": [-1.5, 7.5]}))
        np.testing.assert_array_equal(later, [[NAN, 0], [1, NAN]])

    @frames
    def test_booleans(self, frame):
        learner, values = fit(frame({"c": [True, None, False]}), ["c"])
        np.testing.assert_array_equal(values, [[1], [NAN], [0]])
        assert categories(learner) == [[False, True]]
        assert again(learner, frame({"c": [False]})).tolist() == [[0.0]]

    @pytest.mark.parametrize("kind", ["pandas nullable", "pandas pyarrow", "polars", "pyarrow"])
    def test_numbers_that_no_float_holds(self, kind):
        frame = {**FRAMES, "pandas nullable": lambda data: pd.DataFrame(
            {"c": pd.array(data["c"], "Int64")}
        )}[kind]  # fmt: skip
        learner, values = fit(frame({"c": [2**53 + 1, 2**53, None]}), ["c"])
        np.testing.assert_array_equal(values, [[1], [0], [NAN]])
        assert values.dtype == np.float32
        assert categories(learner) == [[2**53, 2**53 + 1]]

    def test_numbers_that_no_type_holds(self):
        with pytest.raises(ValueError, match=f"categories of which .*{2**64 + 1}: .* with str"):
            fit(objects([[2**64], [2**64 + 1]]), [0])

    @typed
    def test_categorical_types(self, frame):
        learner, values = fit(frame(["d", None, "a", "c", "d"]), "from_dtype")
        np.testing.assert_array_equal(values.ravel(), [2, NAN, 0, 1, 2])
        assert values.dtype == np.float32
        assert categories(learner) == [["a", "c", "d"]]
        assert learner.is_categorical_.tolist() == [True]
        later = again(learner, frame(["c", "b", None, "a"]))
        np.testing.assert_array_equal(later.ravel(), [1, NAN, NAN, 0])

    @typed
    def test_other_columns_stay_numeric(self, frame):
        X = pl.DataFrame({"x": [1.5, 2.5], "y": [7, 8]})
        column = frame(["b", "a"])
        if isinstance(column, pd.DataFrame):
            X = X.to_pandas().assign(c=column["c"])
        elif isinstance(column, pa.Table):
            X = X.to_arrow().append_column("c", column["c"])
        else:
            X = X.with_columns(column["c"])
        learner, values = fit(X, "from_dtype")
        assert values.tolist() == [[1.5, 7, 1], [2.5, 8, 0]]
        assert learner.is_categorical_.tolist() == [False, False, True]
        assert learner.feature_names_in_.tolist() == ["x", "y", "c"]

    def test_pandas_categories_that_are_numbers(self):
        X = pd.DataFrame({"c": pd.Categorical([7, None, 3, 7], categories=[9, 7, 3])})
        learner, values = fit(X, "from_dtype")
        np.testing.assert_array_equal(values.ravel(), [1, NAN, 0, 1])
        assert categories(learner) == [[3, 7]]

    def test_pyarrow_in_chunks_of_their_own_dictionaries(self):
        chunks = [
            pa.array(["b", "a"]).dictionary_encode(),
            pa.array(["c", None]).dictionary_encode(),
        ]
        learner, values = fit(pa.table({"c": pa.chunked_array(chunks)}), "from_dtype")
        np.testing.assert_array_equal(values.ravel(), [1, 0, 2, NAN])

    def test_polars_categories_that_columns_share(self):
        both = pl.Series(["x", "y", "z", "a"], dtype=pl.Categorical)
        learner, values = fit(pl.DataFrame({"c": both[2:], "d": both[1:3]}), "from_dtype")
        assert values.tolist() == [[1, 0], [0, 1]]
        assert categories(learner) == [["a", "z"], ["y", "z"]]

    def test_the_library_may_change(self):
        learner, _ = fit(pd.DataFrame({"c": pd.Categorical(["b", "a"])}), "from_dtype")
        for other in (pl.DataFrame, pa.table, pd.DataFrame):
            assert again(learner, other({"c": ["a", "b"]})).tolist() == [[0.0], [1.0]]
        with pytest.warns(UserWarning, match="X does not have valid feature names"):
            assert again(learner, objects([["b"]])).tolist() == [[1.0]]

    @frames
    def test_a_column_without_any_value(self, frame):
        learner, values = fit(frame({"c": [None, None]}), ["c"])
        assert np.isnan(values).all() and categories(learner) == [[]]
        assert learner._categories.n_categories.tolist() == [0]
        for later in (["a"], [1], [None]):
            assert np.isnan(again(learner, frame({"c": later}))).all()

    @frames
    def test_missing_values_later(self, frame):
        learner, _ = fit(frame({"c": ["a", "b"]}), ["c"])
        assert np.isnan(again(learner, frame({"c": [None, None]}))).all()

    def test_frames_are_not_changed(self):
        X = pd.DataFrame({"c": [3.0, 5.0], "x": [1.0, 2.0]})
        before = X.copy()
        _, values = fit(X, ["c"])
        assert values.tolist() == [[0, 1], [1, 2]]
        pd.testing.assert_frame_equal(X, before)

    @pytest.mark.parametrize("chosen, advice", [
        (None, "column 'c' has dtype category.* fit with categorical_features='from_dtype'"),
        (["x"], "column 'c' has dtype category.* fit with categorical_features='from_dtype'"),
    ])  # fmt: skip
    def test_categories_that_were_not_chosen(self, chosen, advice):
        X = pd.DataFrame({"x": [1, 2], "c": pd.Categorical(["a", "b"])})
        with pytest.raises(ValueError, match=advice):
            fit(X, chosen)

    @pytest.mark.parametrize("column, dtype", [
        (pd.Series(pd.to_datetime(["2020-01-01"] * 2)), "datetime64"),
        (pl.Series([[1], [2]]), "List"), (pl.Series([b"1", b"2"]), "Binary"),
        (pl.Series(["1", "2"]).cast(pl.Decimal(10, 2)), "Decimal"),
    ], ids=["date", "list", "binary", "decimal"])  # fmt: skip
    def test_columns_that_cannot_be_categories(self, column, dtype):
        make = pd.DataFrame if isinstance(column, pd.Series) else pl.DataFrame
        with pytest.raises(ValueError, match=f"X's column 'c' has dtype {dtype}.*to strings"):
            fit(make({"c": column}), ["c"])

    @pytest.mark.parametrize("values, types", [
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), "Timestamp"),
        (pd.interval_range(0, 2), "Interval"),
    ], ids=["dates", "intervals"])  # fmt: skip
    def test_categories_of_other_types(self, values, types):
        X = pd.DataFrame({"c": pd.Categorical(values)})
        with pytest.raises(ValueError, match=rf"X's column 'c' .* types \['{types}'\].*with str"):
            fit(X, "from_dtype")

    def test_names_must_be_those_of_fit(self):
        learner, _ = fit(pd.DataFrame({"c": ["a"], "x": [1]}), ["c"])
        with pytest.raises(ValueError, match="must be in the same order"):
            again(learner, pd.DataFrame({"x": [1], "c": ["a"]}))

    def test_repeated_names(self):
        with pytest.raises(ValueError, match="columns of the same name"):
            fit(pd.DataFrame([[1, 2]], columns=["a", "a"]), [0])


class TestObjects:
    """Arrays and lists that hold text."""

    ROWS = [["b", 1.5, "3"], [None, 2, "x"], ["a", None, "3"]]

    @pytest.mark.parametrize("make", [objects, list], ids=["array", "list"])
    def test_mixed_columns(self, make):
        learner, values = fit(make(self.ROWS), [0, 2])
        np.testing.assert_array_equal(values, [[1, 1.5, 0], [NAN, 2, 1], [0, NAN, 0]])
        assert categories(learner) == [["a", "b"], None, ["3", "x"]]
        later = again(learner, make([["c", 4, "x"]]))
        np.testing.assert_array_equal(later, [[NAN, 4, 1]])

    def test_lists_without_missing_values(self):
        learner, values = fit([[10, "b"], [9, "a"]], [0, 1])
        assert values.tolist() == [[1, 1], [0, 0]]
        assert categories(learner) == [[9, 10], ["a", "b"]]

    @pytest.mark.parametrize("dtype", [str, np.dtypes.StringDType()], ids=["U", "T"])
    def test_arrays_of_text(self, dtype):
        learner, values = fit(np.array([["b", "x"], ["a", "y"]], dtype), [0, 1])
        assert values.tolist() == [[1, 0], [0, 1]]
        assert values.dtype == np.float32

    def test_numbers_among_text_are_read(self):
        _, values = fit(np.array([["b", "1.5"], ["a", "2"]]), [0])
        assert values.tolist() == [[1, 1.5], [0, 2]]

    @pytest.mark.parametrize("missing", [None, NAN, pd.NA, pd.NaT, np.float32("nan")], ids=repr)
    def test_missing_values(self, missing):
        _, values = fit(objects([["b"], [missing], ["a"], [missing]]), [0])
        np.testing.assert_array_equal(values.ravel(), [1, NAN, 0, NAN])

    def test_masked_values_are_missing(self):
        X = np.ma.array(objects([["b", 1], ["a", 2]]), mask=[[0, 0], [1, 1]])
        _, values = fit(X, [0])
        np.testing.assert_array_equal(values, [[0, 1], [NAN, NAN]])

    def test_numbers_of_several_types_are_one_category(self):
        learner, values = fit(objects([[1], [1.0], [True], [np.float32(2)], [np.True_]]), [0])
        assert values.ravel().tolist() == [0, 0, 0, 1, 0]
        assert categories(learner) == [[1, 2]]

    def test_integers_of_any_size(self):
        learner, values = fit(objects([[2**70], [-1], [2**70]]), [0])
        assert values.ravel().tolist() == [1, 0, 1]
        assert again(learner, objects([[-1], [2**70]])).ravel().tolist() == [0, 1]

    def test_strings_that_numpy_would_trim(self):
        learner, values = fit(objects([["a"], ["a\0"], [""]]), [0])
        assert values.ravel().tolist() == [1, 2, 0]

    @pytest.mark.parametrize("column, message", [
        (["a", 1], r"X's feature 0 holds categories of the types \['int', 'str'\].*with str"),
        ([b"a", b"b"], r"types \['bytes'\]"),
        ([1j, 2j], r"types \['complex'\]"),
        ([{}, {}], "X's feature 0 holds values that cannot be categories .*unhashable.*dict"),
    ])  # fmt: skip
    def test_values_that_cannot_be_categories(self, column, message):
        X = np.empty((2, 1), object)
        X[:, 0] = column
        with pytest.raises(ValueError, match=message):
            fit(X, [0])

    def test_text_in_numeric_features(self):
        with pytest.raises(ValueError, match="not numbers .*'red'.*in categorical_features"):
            fit(objects([["a", "red"]]), [0])

    def test_shape(self):
        with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
            fit(objects(["a", "b"]), [0])
        with pytest.raises(ValueError, match=r"0 sample\(s\)"):
            fit(np.empty((0, 1), object), [0])
        learner, _ = fit(objects([["a", "b"]]), [0, 1])
        with pytest.raises(ValueError, match="X has 1 features, but Learner is expecting 2"):
            again(learner, objects([["a"]]))


class TestNumbers:
    @pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", ">f4"])
    @pytest.mark.parametrize("device", [CPU, SIMULATOR])
    def test_arrays(self, dtype, device):
        X = np.array([[7, 1], [3, 2], [7, 3]]).astype(dtype)
        learner, values = fit(X, [0], device)
        assert values.tolist() == [[1, 1], [0, 2], [1, 3]]
        assert categories(learner) == [[3, 7], None]
        later = again(learner, np.array([[3, 5], [5, 5]]).astype(dtype), device)
        np.testing.assert_array_equal(later, [[0, 5], [NAN, 5]])

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_arrays_are_not_changed(self, order):
        X = np.array([[7.0, 1], [3, 2]], order=order)
        X.flags.writeable = False
        _, values = fit(X, [0])
        assert values.tolist() == [[1, 1], [0, 2]]
        assert X.tolist() == [[7, 1], [3, 2]]
        assert values.flags.f_contiguous == X.flags.f_contiguous

    def test_whatever_gives_an_array_is_not_changed(self):
        class Wrapper(list):
            def __array__(self, dtype=None, copy=None):
                return X

        X = np.array([[7.0], [3.0]])
        assert fit(Wrapper(X.tolist()), [0])[1].tolist() == [[1], [0]]
        assert X.tolist() == [[7], [3]]

    def test_lists(self):
        assert fit([[7, 1.5], [3, None]], [0])[1][:, 0].tolist() == [1, 0]
        assert fit([[7, 1.5], [3, 2.5]], [0])[1].tolist() == [[1, 1.5], [0, 2.5]]

    def test_numbered_categories_are_not_copied(self):
        X = np.array([[1.0, 5.0], [0.0, 6.0], [NAN, 7.0], [2.0, 8.0]])
        learner, values = fit(X, [0])
        assert values is X
        assert again(learner, X[:2]).base is X
        np.testing.assert_array_equal(again(learner, np.array([[3.0, 5.0]])), [[NAN, 5]])

    @pytest.mark.parametrize("dtype", [np.int64, np.uint64])
    def test_integers_that_no_float_holds(self, dtype):
        X = np.array([[2**62 + 1], [2**62], [2**62 + 1]], dtype)
        learner, values = fit(X, [0])
        assert values.ravel().tolist() == [1, 0, 1]
        later = again(learner, np.array([[2**62], [2**62 + 2]], dtype))
        np.testing.assert_array_equal(later, [[0], [NAN]])

    def test_extremes_of_the_types(self):
        for dtype in (np.int8, np.int64, np.uint64):
            ends = np.iinfo(dtype)
            learner, values = fit(np.array([[ends.max], [ends.min]], dtype), [0])
            assert values.ravel().tolist() == [1, 0]
            assert categories(learner) == [[ends.min, ends.max]]

    def test_masked_values_are_missing(self):
        _, values = fit(np.ma.array([[5, 1], [4, 2]], mask=[[0, 0], [1, 0]]), [0])
        np.testing.assert_array_equal(values, [[0, 1], [NAN, 2]])

    def test_signed_zeros_are_one_category(self):
        learner, values = fit(np.array([[0.0], [-0.0], [1.0]]), [0])
        assert learner._categories.n_categories.tolist() == [2]
        assert values.ravel().tolist() == [0, 0, 1]

    def test_infinities_are_categories(self):
        learner, values = fit(np.array([[np.inf], [0.0], [-np.inf], [NAN]]), [0])
        np.testing.assert_array_equal(values.ravel(), [2, 1, 0, NAN])
        later = again(learner, np.array([[-np.inf], [np.inf], [2.0**60]]))
        np.testing.assert_array_equal(later.ravel(), [0, 2, NAN])

    def test_fractions_beside_whole_categories(self):
        learner, _ = fit(np.array([[0.0], [1.0], [2.0]]), [0])
        rows = np.array([[0.5], [-0.5], [2.5], [-1.0], [3.0], [2.0], [np.inf], [1e300]] * 4)
        expected = [NAN] * 5 + [2] + [NAN] * 2
        np.testing.assert_array_equal(again(learner, rows).ravel(), expected * 4)

    def test_fractions_in_one_unit(self):
        X = np.array([[0.25], [0.5], [0.75], [0.5]] * 3)
        assert fit(X, [0])[1].ravel().tolist() == [0, 1, 2, 1] * 3

    @pytest.mark.parametrize("X, where", [
        (np.arange(MAX_CATEGORIES + 1)[:, None], "feature 0"),
        (pd.DataFrame({"c": np.arange(MAX_CATEGORIES + 1).astype(str)}), "column 'c'"),
    ], ids=["numbers", "text"])  # fmt: skip
    def test_too_many_categories(self, X, where):
        message = f"X's {where} has 65537 distinct values; .* 65536. Leave it numeric.*Encoder"
        with pytest.raises(ValueError, match=message):
            fit(X, [0])
        learner, values = fit(X[1:], [0])
        assert learner._categories.n_categories.tolist() == [MAX_CATEGORIES]
        assert sorted(values.ravel().tolist()) == list(range(MAX_CATEGORIES))

    def test_other_errors_of_tables(self):
        with pytest.raises(TypeError, match="Sparse data was passed for X"):
            fit(scipy.sparse.eye(3), [0])
        with pytest.raises(TypeError, match=r"X is a LazyFrame.*X.collect\(\)"):
            fit(pl.LazyFrame({"a": [1]}), [0])
        with pytest.raises(ValueError, match="X must hold numbers, got dtype .*S1"):
            fit(np.array([[b"a"]]), [0])
        with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
            fit(np.ones(3), [0])


class TestOtherTypesLater:
    def test_numbers_for_strings(self):
        learner, _ = fit(objects([["a", 1], ["b", 2]]), [0])
        message = "X's feature 0 holds numbers, but in fit it held strings. Pass values of the type"
        with pytest.raises(ValueError, match=message):
            again(learner, np.ones((2, 2)))
        with pytest.raises(ValueError, match=message):
            again(learner, objects([[1, 1]]))

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
    def test_strings_for_numbers(self, frame):
        learner, _ = fit(frame({"c": [1, 2]}), ["c"])
        with pytest.raises(ValueError, match="X's column 'c' holds strings.*it held numbers"):
            again(learner, frame({"c": ["1", "2"]}))

    def test_the_name_of_the_argument(self):
        learner, _ = fit(objects([["a"]]), [0])
        with pytest.raises(ValueError, match="X_val's feature 0 holds numbers"):
            read_features(np.ones((1, 1)), CPU, estimator=learner, reset=False, name="X_val")

    def test_floats_for_integers(self):
        learner, _ = fit(np.array([[3], [7]]), [0])
        later = again(learner, np.array([[7.0], [3.5], [NAN]]))
        np.testing.assert_array_equal(later, [[1], [NAN], [NAN]])


class TestGPU:
    X = np.array([[7, 1.5], [NAN, 2.5], [3, NAN], [7, 4.5]])

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_arrays_on_the_gpu(self, cupy, dtype):
        X = strict_cupy.on_gpu(cupy, self.X.astype(dtype), 1)
        learner, values = fit(X, [0], GPU)
        assert isinstance(values, cupy.ndarray) and values.device.id == 1
        assert values.dtype == dtype
        np.testing.assert_array_equal(values.get(), [[1, 1.5], [NAN, 2.5], [0, NAN], [1, 4.5]])
        assert type(learner._categories.values[0]) is np.ndarray
        np.testing.assert_array_equal(X.get(), self.X)

    def test_no_table_is_copied_to_the_host(self, cupy, monkeypatch):
        X = strict_cupy.on_gpu(cupy, self.X / 2, 1)
        longest = []
        get = cupy.ndarray.get
        monkeypatch.setattr(
            cupy.ndarray, "get", lambda self: longest.append(self.size) or get(self)
        )
        learner, _ = fit(X, [0], GPU)
        again(learner, X, GPU)
        assert max(longest) == 2

    def test_integers_on_the_gpu(self, cupy):
        X = strict_cupy.on_gpu(cupy, [[2**62 + 1, 0], [2**62, 1]], 1)
        assert fit(X, [0], GPU)[1].tolist() == [[1, 0], [0, 1]]

    @pytest.mark.parametrize("X", [
        np.array([[7.0, 1.0], [3.0, 2.0]]), [[7, 1], [3, 2]], objects([[7, 1], [3, 2]]),
        pd.DataFrame({"a": [7, 3], "b": [1, 2]}), pl.DataFrame({"a": ["y", "x"], "b": [1, 2]}),
    ], ids=["numpy", "list", "object", "pandas", "polars"])  # fmt: skip
    def test_host_data_are_uploaded(self, cupy, X):
        learner, values = fit(X, [0], GPU)
        assert isinstance(values, cupy.ndarray) and values.device.id == 1
        assert values.tolist() == [[1, 1], [0, 2]]
        assert again(learner, X, GPU).tolist() == [[1, 1], [0, 2]]

    def test_the_device_may_change(self, cupy):
        learner, _ = fit(self.X, [0])
        X = strict_cupy.on_gpu(cupy, self.X, 1)
        np.testing.assert_array_equal(again(learner, X, GPU).get(), again(learner, self.X))
        assert type(again(learner, X, CPU)) is np.ndarray
