"""Which features are categorical, and the numbers of their values."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.preprocessing import OrdinalEncoder

from gpuens.devices.placement import CPU, gpu_problem
from gpuens.inputs.arrays import Device, read_table
from gpuens.inputs.categories import Categories, read_features
from tests.support import strict_cupy

NAN = float("nan")
GPU = Device("cuda", 1)


class Learner(BaseEstimator):
    """Something that features are read for."""


def fit(X, categorical_features, device=CPU):
    """The estimator and the values of the table."""
    learner = Learner()
    with device.active():
        table = read_features(
            X, device, estimator=learner, categorical_features=categorical_features
        )
    return learner, table


def again(learner, X, device=CPU):
    with device.active():
        return read_features(X, device, estimator=learner, reset=False)


def categories(learner):
    return [None if v is None else v.tolist() for v in learner._categories.values]


def objects(rows):
    return np.array(rows, object)


class TestCategories:
    def test_number_of_categories(self):
        known = Categories((None, np.array([2.0, 3.0]), np.array([], object)))
        np.testing.assert_array_equal(
            known.n_categories, np.array([0, 2, 0], np.int32), strict=True
        )

    def test_they_are_pickled_with_the_estimator(self):
        learner, values = fit(pd.DataFrame({"a": ["x", "y"], "b": [1, 0]}), ["a", "b"])
        there = pickle.loads(pickle.dumps(learner))
        assert categories(there) == [["x", "y"], [0, 1]]

    def test_they_cannot_be_changed(self):
        learner, _ = fit(np.array([[3], [4]]), [0])
        with pytest.raises(ValueError, match="read-only"):
            learner._categories.values[0][0] = 5


class TestWithoutCategories:
    TABLES = {
        "float": np.ones((3, 2)),
        "int": np.array([[1, 2**24 + 1]]),
        "list": [[1, 2.5]],
        "object": objects([[1, None]]),
        "frame": pd.DataFrame({"a": [1.0], "b": [2.0]}),
    }

    @pytest.mark.parametrize("chosen", [None, "from_dtype", [], np.zeros(2, bool)])
    @pytest.mark.parametrize("X", TABLES.values(), ids=TABLES)
    def test_the_table_is_that_of_read_table(self, X, chosen):
        learner, values = fit(X, chosen)
        plain = read_table(X, CPU, estimator=Learner())
        np.testing.assert_array_equal(values, plain, strict=True)
        assert learner._categories is None and learner.is_categorical_ is None
        assert np.shares_memory(values, plain) == (isinstance(X, np.ndarray) and plain is X or (
            isinstance(X, pd.DataFrame)
        ))  # fmt: skip

    def test_one_plain_row_is_returned_itself(self):
        learner, _ = fit(np.ones((3, 2)), None)
        X = np.ones((1, 2))
        assert again(learner, X) is X

    def test_estimators_that_know_nothing_of_categories(self):
        learner = Learner()
        read_table(np.ones((3, 2)), CPU, estimator=learner)
        X = np.ones((1, 2))
        assert again(learner, X) is X

    def test_fitting_again_forgets_them(self):
        learner, _ = fit(np.ones((3, 2)), [0])
        read_features(np.ones((3, 2)), CPU, estimator=learner)
        assert learner._categories is None and learner.is_categorical_ is None


class TestChoice:
    """What ``categorical_features`` may be."""

    FRAME = pd.DataFrame({"a": [1, 2], "b": [3, 4], "c": [5, 6]})

    @pytest.mark.parametrize(
        "chosen",
        [
            [False, True, True], np.array([False, True, True]), [1, 2], np.array([2, 1], np.uint8),
            (1, 2), ["c", "b"], np.array(["b", "c"]), np.array(["b", "c"], object),
            pd.Index(["b", "c"]), pd.Series([False, True, True]),
        ],
        ids=repr,
    )  # fmt: skip
    def test_all_forms(self, chosen):
        learner, _ = fit(self.FRAME, chosen)
        assert learner.is_categorical_.dtype == bool
        assert learner.is_categorical_.tolist() == [False, True, True]
        assert categories(learner) == [None, [3, 4], [5, 6]]

    @pytest.mark.parametrize("chosen", [[False, True, True], [2, 1]])
    def test_arrays(self, chosen):
        learner, _ = fit(self.FRAME.to_numpy(), chosen)
        assert learner.is_categorical_.tolist() == [False, True, True]

    def test_a_mask_is_copied(self):
        mask = np.array([True, False, True])
        learner, _ = fit(self.FRAME, mask)
        mask[:] = False
        assert learner.is_categorical_.tolist() == [True, False, True]

    def test_the_mask_can_be_on_the_gpu(self, cupy):
        mask = strict_cupy.on_gpu(cupy, [True, False, True], 1)
        learner, _ = fit(self.FRAME, mask, GPU)
        assert learner.is_categorical_.tolist() == [True, False, True]

    @pytest.mark.parametrize("chosen, message", [
        (["a", "z", "y"], r"columns that X does not have: \['z', 'y'\].* columns are 'a', 'b'"),
        ([0, 3], r"positions from 0 to 2, for X has 3 features, got \[3\]"),
        ([-1], r"positions from 0 to 2, for X has 3 features, got \[-1\]"),
        ([True, False], "mask of 2 values, but X has 3 features. Pass one boolean for each"),
        ([0, 1, 1], r"more than once: \[0, 1, 1\].* a mask must be of booleans"),
        (["a", "a"], r"more than once: \['a', 'a'\]"),
        ([1.0, 0.0, 1.0], r"a list of booleans .*, positions or names, got \[1.0, 0.0, 1.0\]"),
        (np.array([True, None, False]), "a list of booleans .*, positions or names, got array"),
        ("a", "must be None, 'from_dtype', or a list .*, got 'a'"),
        (1, "must be None, 'from_dtype', or a list .*, got 1"),
        ([[0], [1]], r"a list of booleans .*, got \[\[0\], \[1\]\]"),
    ])  # fmt: skip
    def test_errors(self, chosen, message):
        with pytest.raises(ValueError, match=f"categorical_features .*{message}"):
            fit(self.FRAME, chosen)

    def test_names_need_a_frame(self):
        with pytest.raises(
            ValueError, match=r"names \['a'\], but X is not a data frame.*positions"
        ):
            fit(np.ones((2, 2)), ["a"])

    def test_many_columns_are_not_all_listed(self):
        frame = pd.DataFrame(np.ones((1, 30)), columns=[f"f{i}" for i in range(30)])
        with pytest.raises(ValueError, match=r"'f18', 'f19', \.\.\.\.$"):
            fit(frame, ["g"])


@pytest.mark.gpu
class TestRealGPU:
    @pytest.fixture(autouse=True)
    def needs_gpu(self):
        pytest.importorskip("cupy")
        if problem := gpu_problem():
            pytest.skip(problem)

    @pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "?"])
    @pytest.mark.parametrize("n_rows", [2, 1000])
    def test_equal_to_the_cpu(self, dtype, n_rows):
        import cupy

        X = np.random.default_rng(0).integers(0, 5, (n_rows, 2)).astype(dtype)
        learner, values = fit(X, [0])
        there, on_gpu = fit(cupy.asarray(X), [0], Device("cuda", 0))
        assert isinstance(on_gpu, cupy.ndarray) and categories(there) == categories(learner)
        np.testing.assert_array_equal(on_gpu.get(), values)
        unseen = cupy.asarray(np.array([[9.5, 1], [NAN, 2]]))
        later = again(there, unseen, Device("cuda", 0))
        np.testing.assert_array_equal(later.get(), [[NAN, 1], [NAN, 2]])


class TestTorch:
    @pytest.fixture
    def torch(self):
        return pytest.importorskip("torch")

    @pytest.mark.parametrize("dtype", ["int64", "float32", "bfloat16"])
    def test_tensors(self, torch, dtype):
        X = torch.tensor([[7, 1], [3, 2]], dtype=getattr(torch, dtype))
        _, values = fit(X, [0])
        assert values.tolist() == [[1, 1], [0, 2]]
        assert X.tolist() == [[7, 1], [3, 2]]


TEXTS = st.lists(st.none() | st.text(max_size=3), min_size=1, max_size=8)
FLOATS = st.lists(st.floats(width=32), min_size=1, max_size=8)
INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), min_size=1, max_size=8)


def round_trip(learner, values):
    """The values that the numbers of the first feature stand for, None for missing."""
    known = learner._categories.values[0].tolist()
    assert all(low < high for low, high in zip(known, known[1:], strict=False))
    return [None if code != code else known[int(code)] for code in values[:, 0]]


def missing_as_none(column):
    return [None if value != value else value for value in column]


class TestRoundTrips:
    @given(TEXTS)
    @settings(max_examples=25)
    def test_text(self, column):
        for X in (
            objects([[value] for value in column]),
            pd.DataFrame({"c": pd.Series(column, dtype=object)}),
            pl.DataFrame({"c": pl.Series(column, dtype=pl.String)}),
            pa.table({"c": pa.array(column, pa.string())}),
        ):
            learner, values = fit(X, [0])
            assert round_trip(learner, values) == column

    @given(FLOATS, st.sampled_from([np.float32, np.float64]))
    def test_floats(self, column, dtype):
        for X in (np.array(column, dtype)[:, None], pl.DataFrame({"c": np.array(column, dtype)})):
            learner, values = fit(X, [0])
            assert round_trip(learner, values) == missing_as_none(column)

    @given(INTEGERS)
    def test_integers(self, column):
        for X in (
            np.array(column, np.int64)[:, None],
            objects([[value] for value in column]),
            pd.DataFrame({"c": np.array(column, np.int64)}),
            pl.DataFrame({"c": pl.Series(column, dtype=pl.Int64)}),
        ):
            learner, values = fit(X, [0])
            assert round_trip(learner, values) == column

    @given(st.data())
    def test_unseen_values_are_missing(self, data):
        values = data.draw(st.sampled_from([st.integers(-50, 50), st.text("ab", max_size=4)]))
        seen, later = (data.draw(st.lists(values, min_size=1, max_size=60)) for _ in range(2))
        learner, _ = fit(objects([[value] for value in seen]), [0])
        table = again(learner, objects([[value] for value in later]))
        expected = [value if value in seen else None for value in later]
        assert round_trip(learner, table) == expected

    @given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([4, 9, 2, NAN])), min_size=1))
    def test_as_the_ordinal_encoder(self, rows):
        X = objects(rows)
        encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=NAN)
        encoder.fit(X)
        np.testing.assert_array_equal(fit(X, [0, 1])[1], encoder.transform(X))
