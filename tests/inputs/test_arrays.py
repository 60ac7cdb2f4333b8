"""Tables of every library, in and out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, RegressorMixin

from gpuens.devices.placement import CPU, SIMULATOR, gpu_problem
from gpuens.inputs.arrays import Device, read_table, to_input_library
from tests.support import strict_cupy

NAN = float("nan")
GPU = Device("cuda", 1)


class Learner(RegressorMixin, BaseEstimator):
    """Something that features are read for."""


def read(X, device=CPU, learner=None):
    with device.active():
        return read_table(X, device, estimator=learner or Learner())


@pytest.mark.parametrize("place", ["host", "gpu"])
def test_more_rows_than_are_counted(cupy, place):
    """A table of one value that is repeated, so that it takes no memory."""
    device = CPU if place == "host" else Device("cuda", 0)
    X = np.broadcast_to(np.zeros((1, 1), np.float32), (2**31, 1))
    X = X if place == "host" else strict_cupy.sharing(X)
    with pytest.raises(ValueError, match="has 2,147,483,648 rows, .* at most 2,147,483,647 can"):
        read(X, device)
    assert read(X[1:], device).shape == (2**31 - 1, 1)


class TestArrays:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("device", [CPU, SIMULATOR])
    def test_floats_are_taken_as_they_are(self, dtype, device):
        base = np.arange(24, dtype=dtype).reshape(4, 6)
        for X in (base, np.asfortranarray(base), base[::2, ::3], base.T, base[::-1]):
            assert read(X, device) is X or np.shares_memory(read(X, device), X)
            np.testing.assert_array_equal(read(X, device), X, strict=True)

    def test_read_only_arrays_are_not_copied(self):
        X = np.ones((3, 2))
        X.flags.writeable = False
        assert np.shares_memory(read(X), X)

    @pytest.mark.parametrize("dtype", ["?", "i1", "i2", "u1", "u2", "f2"])
    def test_small_types_become_float32(self, dtype):
        X = np.array([[0, 1], [1, 0]], dtype)
        np.testing.assert_array_equal(read(X), X.astype(np.float32), strict=True)

    @pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8"])
    def test_integers_become_the_float_that_holds_them(self, dtype):
        small, large = np.array([[2**24, 0]], dtype), np.array([[2**24 + 1, 0]], dtype)
        np.testing.assert_array_equal(read(small), small.astype(np.float32), strict=True)
        np.testing.assert_array_equal(read(large), large.astype(np.float64), strict=True)

    @given(st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=5))
    def test_integers_up_to_2_to_the_53_are_exact(self, column):
        X = np.array(column, np.int64)[:, None]
        assert read(X).astype(np.int64).tolist() == X.tolist()

    @pytest.mark.parametrize("dtype", ["i8", "u8"])
    def test_larger_integers_must_be_exact(self, dtype):
        X = np.array([[2**53], [2**53 + 4], [2**62]], dtype)
        assert read(X).ravel().tolist() == [2.0**53, 2.0**53 + 4, 2.0**62]
        for beyond in (2**53 + 1, np.iinfo(dtype).max):
            X[1] = beyond
            with pytest.raises(ValueError, match=f"X holds .* {beyond}: .* Subtract"):
                read(X)

    @pytest.mark.parametrize("beyond", [2**53 + 1, np.int64(2**60 + 1), 2**63 + 1, 2**64 + 1])
    @pytest.mark.parametrize("make", [
        lambda y: np.array([[v, 1.5] for v in y], object), lambda y: np.array(y, object)[:, None],
        lambda y: [[v, 1.5] for v in y],
    ])  # fmt: skip
    def test_larger_integers_among_objects_must_be_exact(self, make, beyond):
        assert read(make([2**53, 2**62]))[:, 0].tolist() == [2.0**53, 2.0**62]
        with pytest.raises(ValueError, match=f"X holds .* {beyond}: .* Subtract"):
            read(make([2**53, beyond]))

    def test_larger_integers_beside_masked_ones_must_be_exact(self):
        X = np.ma.array([[2**53 + 1], [2**53]], mask=[[True], [False]])
        assert np.isnan(read(X)[0, 0]) and read(X)[1, 0] == 2.0**53
        with pytest.raises(ValueError, match=f"X holds .* {2**53 + 1}: .* Subtract"):
            read(np.ma.array([[2**53 + 1], [2**53]], mask=[[False], [True]]))

    def test_integers_beyond_floats(self):
        with pytest.raises(ValueError, match="X has dtype object and holds values that are not"):
            read(np.array([[10**400], [1]], object))

    @pytest.mark.parametrize("dtype", [">f4", ">f8", ">i2"])
    def test_foreign_byte_order(self, dtype):
        X = np.array([[1.0, 2.0]]).astype(dtype)
        assert read(X).dtype.isnative and read(X).tolist() == [[1.0, 2.0]]

    def test_long_doubles_are_rounded(self):
        assert read(np.ones((2, 2), np.longdouble)).dtype == np.float64

    def test_lists(self):
        assert read([[1, 2], [3, 4]]).dtype == np.float32
        np.testing.assert_array_equal(read([[1, None], [3, 0.1]]), [[1, NAN], [3, 0.1]])

    def test_objects_that_are_numbers(self):
        X = np.array([[1, 0.1], [None, True]], object)
        np.testing.assert_array_equal(read(X), [[1, 0.1], [NAN, 1]])

    def test_masked_values_are_missing(self):
        X = np.ma.array([[1, 2], [3, 4]], mask=[[0, 1], [0, 0]])
        np.testing.assert_array_equal(read(X), [[1, NAN], [3, 4]])
        single = np.ma.array(X, np.float32, mask=X.mask)
        assert read(single).dtype == np.float32
        assert X[0, 0] == 1 and X.mask.sum() == 1

    def test_missing_and_infinite_values_stay(self):
        X = np.array([[NAN, np.inf, -np.inf]])
        np.testing.assert_array_equal(read(X), X)


FRAMES = {
    "pandas": pd.DataFrame,
    "pandas nullable": lambda data: pd.DataFrame(data).convert_dtypes(),
    "pandas pyarrow": lambda data: pa.table(data).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}
frames = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)


class TestFrames:
    @frames
    def test_numbers_and_names(self, frame):
        learner = Learner()
        frame = frame({"a": [1.5, 2.0], "b": [1, 2], "c": [True, False]})
        table = read(frame, learner=learner)
        assert learner.feature_names_in_.tolist() == ["a", "b", "c"]
        np.testing.assert_array_equal(table, [[1.5, 1, 1], [2, 2, 0]])
        assert table.dtype == np.float64

    @frames
    def test_missing_values(self, frame):
        table = read(frame({"a": [1.5, None], "b": [None, 2.25]}))
        np.testing.assert_array_equal(table, [[1.5, NAN], [NAN, 2.25]])

    @pytest.mark.parametrize("kind", ["pandas nullable", "pandas pyarrow", "polars", "pyarrow"])
    def test_missing_integers_and_booleans(self, kind):
        frame = {**FRAMES, "pandas nullable": lambda data: pd.DataFrame(
            {"a": pd.array(data["a"], "Int64"), "b": pd.array(data["b"], "boolean")}
        )}[kind]  # fmt: skip
        table = read(frame({"a": [2**53, None], "b": [None, True]}))
        np.testing.assert_array_equal(table, [[2.0**53, NAN], [NAN, 1]])

    @pytest.mark.parametrize("kind", ["pandas nullable", "pandas pyarrow", "polars", "pyarrow"])
    def test_integers_beyond_2_to_the_53(self, kind):
        def frame(values):
            values = pd.array(values, "Int64") if kind == "pandas nullable" else values
            return FRAMES[kind]({"a": values})

        table = read(frame([2**53 + 2, None, 2**60]))
        np.testing.assert_array_equal(table, [[2.0**53 + 2], [NAN], [2.0**60]])
        with pytest.raises(ValueError, match=f"X's column 'a' holds .* {2**53 + 1}: .* Subtract"):
            read(frame([2**53 + 1, None, 2**60]))

    @frames
    @pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float32, np.bool_, np.int64])
    def test_what_float32_holds_becomes_float32(self, frame, dtype):
        column = np.array([0, 1], dtype)
        assert read(frame({"a": column, "b": column})).dtype == np.float32

    @frames
    @pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint64])
    def test_one_column_of_larger_values_makes_float64(self, frame, dtype):
        large = np.array([2**24 + 1, 1], dtype)
        table = read(frame({"a": np.array([0, 1], np.float32), "b": large}))
        np.testing.assert_array_equal(table, [[0, 2**24 + 1], [1, 1]])
        assert table.dtype == np.float64

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_pandas_of_one_float_type_is_not_copied(self, dtype):
        block = np.arange(6, dtype=dtype).reshape(3, 2)
        X = pd.DataFrame(block, columns=["a", "b"], copy=False)
        assert np.shares_memory(read(X), X.to_numpy(copy=False))

    @pytest.mark.parametrize("X", [
        pl.DataFrame({"a": [1.0, 2.0], "b": [None, None]}),
        pa.table({"a": [1.0, 2.0], "b": [None, None]}),
        pd.DataFrame({"a": [1.0, 2.0], "b": [None, None]}),
        pl.DataFrame({"a": [1.0, 2.0], "b": [None, None]}, {"a": pl.Float64, "b": pl.String}),
    ], ids=["polars", "pyarrow", "pandas", "polars string"])  # fmt: skip
    def test_columns_without_any_value_may_have_any_type(self, X):
        np.testing.assert_array_equal(read(X), [[1, NAN], [2, NAN]])

    def test_names_that_are_no_strings_are_no_names(self):
        read(pd.DataFrame(np.ones((2, 2))), learner=(learner := Learner()))
        assert not hasattr(learner, "feature_names_in_")

    def test_pyarrow_in_chunks(self):
        one = pa.table({"a": [1, 2]})
        assert read(pa.concat_tables([one, one])).ravel().tolist() == [1, 2, 1, 2]

    @pytest.mark.parametrize("X", [
        pa.table([[1], [2]], names=["a", "a"]), pd.DataFrame([[1, 2]], columns=["a", "a"]),
    ], ids=["pyarrow", "pandas"])  # fmt: skip
    def test_repeated_names(self, X):
        with pytest.raises(ValueError, match=r"X has columns of the same name: \['a'\].*unique"):
            read(X)

    STRANGERS = {
        "String": (["x", "y"], "Cast it to float64 if .*in categorical_features, .*OrdinalEncoder"),
        "Categorical": (["x", "y"], "fit with categorical_features='from_dtype'"),
        "Date": ([1, 2], "days since a date"),
        "Duration": ([1, 2], "Turn it into a number"),
        "Decimal": (["1", "2"], "Cast it to float64"),
        "List": ([[1], [2]], "Cast it to float64, or drop it"),
    }

    @pytest.mark.parametrize("library", ["polars", "pyarrow", "pandas"])
    @pytest.mark.parametrize("kind", STRANGERS)
    def test_columns_of_other_types(self, kind, library):
        data, advice = self.STRANGERS[kind]
        dtype = pl.Decimal(10, 2) if kind == "Decimal" else getattr(pl, kind)
        column = pl.Series("city", data).cast(dtype)
        X = pl.DataFrame({"fine": [1.0, 2.0], "city": column})
        X = X.to_arrow() if library == "pyarrow" else X
        X = X.to_pandas(use_pyarrow_extension_array=True) if library == "pandas" else X
        with pytest.raises(ValueError, match=f"X must hold numbers.*column 'city'.*{advice}"):
            read(X)

    @pytest.mark.parametrize("column, dtype, advice", [
        (pd.Series(["x", "y"], dtype=object), "object", "OrdinalEncoder"),
        (pd.Series([1, "y"]), "object", "OrdinalEncoder"),
        (pd.Series(["x", "y"], dtype="str"), "(str|object)", "OrdinalEncoder"),
        (pd.Series(["x", "y"], dtype="category"), "category", "from_dtype.* pass their codes"),
        (pd.to_datetime(pd.Series(["2020-01-01"] * 2)), "datetime64", "days since"),
        (pd.Series([1 + 2j, 1]), "complex128", "Cast it"),
        (pd.Series([1.0, 0.0], dtype=pd.SparseDtype(float)), "Sparse", "Cast it to float64"),
    ], ids=["object", "mixed", "str", "category", "date", "complex", "sparse"])  # fmt: skip
    def test_pandas_columns_of_other_types(self, column, dtype, advice):
        X = pd.DataFrame({"fine": [1.0, 2.0], "city": column})
        with pytest.raises(ValueError, match=f"column 'city' has dtype {dtype}.*{advice}"):
            read(X)

    def test_lazy_frames(self):
        with pytest.raises(TypeError, match=r"X is a LazyFrame.*X.collect\(\)"):
            read(pl.LazyFrame({"a": [1]}))

    @frames
    def test_frames_without_rows(self, frame):
        with pytest.raises(ValueError, match=r"0 sample\(s\) \(shape=\(0, 1\)\).* by Learner"):
            read(frame({"a": np.array([], float)}))

    def test_frames_without_columns(self):
        with pytest.raises(ValueError, match=r"0 feature\(s\) \(shape=\(2, 0\)\) while a min"):
            read(pd.DataFrame(index=[0, 1]))


WRONG_TABLES = {
    "row": (
        np.ones(3),
        ValueError,
        r"^Expected 2D array, got 1D array instead, of the shape \(3,\)\. Reshape",
    ),
    "scalar": (np.float64(1), ValueError, "Expected 2D array, got scalar array instead"),
    "cube": (np.ones((2, 2, 2)), ValueError, "Found array with dim 3"),
    "no rows": (np.ones((0, 2)), ValueError, r"0 sample\(s\) \(shape=\(0, 2\)\) while a minimum"),
    "no columns": (np.ones((2, 0)), ValueError, r"0 feature\(s\) \(shape=\(2, 0\)\) while a mini"),
    "complex": (np.ones((2, 2), complex), ValueError, "Complex data not supported"),
}


class TestBadTables:
    @pytest.mark.parametrize("X, error, message", WRONG_TABLES.values(), ids=WRONG_TABLES)
    def test_on_the_host(self, X, error, message):
        with pytest.raises(error, match=message):
            read(X)

    @pytest.mark.parametrize("X, error, message", WRONG_TABLES.values(), ids=WRONG_TABLES)
    def test_on_a_gpu(self, cupy, X, error, message):
        with pytest.raises(error, match=message):
            read(strict_cupy.on_gpu(cupy, X, 1), GPU)

    @pytest.mark.parametrize("X", [
        np.array([["1", "2"]]), np.array([[b"1"]]), np.array([["2020-01-01"]], "M8[D]"),
    ], ids=["str", "bytes", "date"])  # fmt: skip
    def test_arrays_of_text_and_dates(self, X):
        with pytest.raises(ValueError, match="X must hold numbers, got dtype .*OrdinalEncoder"):
            read(X)

    def test_objects_that_are_no_numbers(self):
        with pytest.raises(ValueError, match="X has dtype object and .* float: 'red'.*Encoder"):
            read(np.array([[1.0, "red"]], object))
        with pytest.raises(TypeError, match="argument must be .* string.* number"):
            read(np.array([[1.0, {}]], object))

    @pytest.mark.parametrize("kind", ["csr", "coo"])
    def test_sparse(self, kind):
        with pytest.raises(TypeError, match=r"Sparse data was passed for X.*X\.toarray\(\)"):
            read(scipy.sparse.eye(3, format=kind))

    def test_the_name_of_the_argument(self):
        with pytest.raises(TypeError, match=r"Sparse data was passed for eval_set\[0\]"):
            read_table(scipy.sparse.eye(3), CPU, estimator=Learner(), name="eval_set[0]")

    def test_one_dimensional_frames(self):
        with pytest.raises(ValueError, match="2-dimensional container but got .*Series"):
            read(pd.Series([1.0, 2.0]))


class TestAfterFit:
    """The features must be those of ``fit``."""

    @pytest.fixture
    def learner(self):
        learner = Learner()
        read_table(np.ones((3, 2)), CPU, estimator=learner)
        return learner

    @pytest.fixture
    def named(self):
        learner = Learner()
        read_table(pd.DataFrame({"a": [1.0], "b": [2.0]}), CPU, estimator=learner)
        return learner

    def test_one_plain_row_is_returned_itself(self, learner):
        X = np.ones((1, 2))
        assert read_table(X, CPU, estimator=learner, reset=False) is X

    @pytest.mark.parametrize("shape", [(1, 3), (4, 1)])
    @pytest.mark.parametrize("container", [np.asarray, pd.DataFrame, np.ndarray.tolist])
    def test_another_number_of_features(self, learner, shape, container):
        message = f"X has {shape[1]} features, but Learner is expecting 2 features as input"
        with pytest.raises(ValueError, match=message):
            read_table(container(np.ones(shape)), CPU, estimator=learner, reset=False)

    @pytest.mark.parametrize("X", [np.ones((0, 2)), np.ones(2)])
    def test_shape(self, learner, X):
        with pytest.raises(ValueError, match="Found array with 0 sample|Expected 2D array"):
            read_table(X, CPU, estimator=learner, reset=False)

    def test_same_names_in_another_library(self, named):
        table = read_table(pl.DataFrame({"a": [3], "b": [4]}), CPU, estimator=named, reset=False)
        assert table.tolist() == [[3.0, 4.0]]

    @pytest.mark.parametrize("names, message", [
        ("ba", "must be in the same order"), ("ac", "unseen at fit time:\n- c(.|\n)*missing:\n- b"),
    ])  # fmt: skip
    def test_other_names(self, named, names, message):
        with pytest.raises(ValueError, match=message):
            read_table(
                pd.DataFrame([[1, 2]], columns=list(names)), CPU, estimator=named, reset=False
            )

    def test_names_on_one_side_only(self, learner, named):
        with pytest.warns(UserWarning, match="X does not have valid feature names"):
            read_table(np.ones((1, 2)), CPU, estimator=named, reset=False)
        frame = pd.DataFrame({"a": [1.0], "b": [2.0]})
        with pytest.warns(UserWarning, match="X has feature names, but Learner was fitted without"):
            read_table(frame, CPU, estimator=learner, reset=False)

    def test_fitting_again_without_names_forgets_them(self, named):
        read_table(np.ones((1, 3)), CPU, estimator=named)
        assert not hasattr(named, "feature_names_in_")
        assert named.n_features_in_ == 3


class TestDevices:
    def test_host_data_are_uploaded_after_they_were_read(self, cupy):
        for X in ([[1, 2]], np.array([[1, 2]]), pl.DataFrame({"a": [1], "b": [2]})):
            there = read(X, GPU)
            assert isinstance(there, cupy.ndarray) and there.device.id == 1
            assert there.dtype == np.float32 and there.tolist() == [[1.0, 2.0]]

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_floats_on_the_gpu_are_taken_as_they_are(self, cupy, dtype):
        X = strict_cupy.on_gpu(cupy, np.ones((2, 2), dtype), 1)
        assert read(X, GPU) is X

    def test_integers_on_the_gpu(self, cupy):
        X = strict_cupy.on_gpu(cupy, [[1, 2**24 + 1]], 1)
        assert read(X, GPU).dtype == np.float64
        assert read(X[:, :1], GPU).dtype == np.float32

    @pytest.mark.parametrize("device", [CPU, SIMULATOR])
    def test_data_on_the_gpu_are_copied_down_when_asked(self, cupy, device):
        X = strict_cupy.on_gpu(cupy, [[1.5, 2.0]], 1)
        assert type(read(X, device)) is np.ndarray
        assert read(X, device).tolist() == [[1.5, 2.0]]


class TestResults:
    RESULT = np.array([1.0, 2.0])

    @pytest.mark.parametrize("like", [
        np.ones((2, 1)), [[1], [2]], pd.DataFrame({"a": [1, 2]}), pl.DataFrame({"a": [1, 2]}),
        pa.table({"a": [1, 2]}),
    ], ids=["numpy", "list", "pandas", "polars", "pyarrow"])  # fmt: skip
    def test_numpy_for_host_libraries(self, cupy, like):
        assert to_input_library(self.RESULT, like) is self.RESULT
        back = to_input_library(strict_cupy.on_gpu(cupy, self.RESULT, 1), like)
        assert type(back) is np.ndarray and back.tolist() == [1.0, 2.0]

    def test_cupy_for_cupy_on_its_device(self, cupy):
        like = strict_cupy.on_gpu(cupy, [[1.0]], 1)
        back = to_input_library(self.RESULT, like)
        assert isinstance(back, cupy.ndarray) and back.device.id == 1
        there = strict_cupy.on_gpu(cupy, self.RESULT, 1)
        assert to_input_library(there, like) is there

    @pytest.mark.parametrize("labels", [np.array(["a", "b"]), np.array(["a", "b"], object)])
    def test_text_is_numpy_everywhere(self, cupy, labels):
        assert to_input_library(labels, strict_cupy.on_gpu(cupy, [[1.0]], 0)) is labels


class TestTorch:
    @pytest.fixture
    def torch(self):
        return pytest.importorskip("torch")

    def test_floats_are_not_copied(self, torch):
        X = torch.ones((2, 3), dtype=torch.float32)
        X_read = read(X)
        assert type(X_read) is np.ndarray and X_read.dtype == np.float32
        assert X_read.__array_interface__["data"][0] == X.data_ptr()

    @pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "bfloat16"])
    def test_other_types(self, torch, dtype):
        X = torch.ones((2, 3), dtype=getattr(torch, dtype))
        np.testing.assert_array_equal(read(X), np.ones((2, 3), np.float32), strict=True)

    def test_gradients_do_not_matter(self, torch):
        assert read(torch.ones((2, 3), requires_grad=True)).shape == (2, 3)

    def test_upload(self, torch, cupy):
        there = read(torch.ones((2, 3)), GPU)
        assert isinstance(there, cupy.ndarray) and there.device.id == 1

    @pytest.mark.parametrize("device", [CPU, GPU])
    def test_result(self, torch, cupy, device):
        back = to_input_library(device.asarray(np.array([1.0, 2.0])), torch.ones((2, 1)))
        assert isinstance(back, torch.Tensor) and back.tolist() == [1.0, 2.0]
        assert back.dtype == torch.float64 and back.device.type == "cpu"

    def test_sparse(self, torch):
        with pytest.raises(TypeError, match=r"Sparse data was passed for X.*X\.to_dense\(\)"):
            read(torch.eye(3).to_sparse())

    def test_complex_and_flat(self, torch):
        with pytest.raises(ValueError, match="Complex data not supported"):
            read(torch.ones((2, 2), dtype=torch.complex64))
        with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
            read(torch.ones(2))


@pytest.mark.gpu
class TestRealGPU:
    @pytest.fixture(autouse=True)
    def needs_gpu(self):
        pytest.importorskip("cupy")
        if problem := gpu_problem():
            pytest.skip(problem)

    @pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "?", "f2"])
    def test_cupy_in_and_out(self, dtype):
        import cupy

        X = cupy.asarray(np.array([[0, 1], [1, 0]]).astype(dtype))
        table = read(X, Device("cuda", 0))
        assert isinstance(table, cupy.ndarray)
        assert table.get().tolist() == [[0, 1], [1, 0]]
        assert isinstance(to_input_library(table, X), cupy.ndarray)
        assert read(X, CPU).tolist() == [[0, 1], [1, 0]]

    @pytest.mark.parametrize("X, error, message", WRONG_TABLES.values(), ids=WRONG_TABLES)
    def test_bad_tables(self, X, error, message):
        import cupy

        with pytest.raises(error, match=message):
            read(cupy.asarray(X), Device("cuda", 0))

    def test_torch_shares_memory(self):
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("torch has no CUDA")
        X = torch.ones((2, 3), device="cuda")
        there = read(X, Device("cuda", 0))
        assert there.data.ptr == X.data_ptr()
        back = to_input_library(there, X)
        assert back.is_cuda and back.data_ptr() == X.data_ptr()
