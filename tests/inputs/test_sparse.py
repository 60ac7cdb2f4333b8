"""Sparse matrices as tables: how they are read, and that their bins are those of dense tables."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator

from gpuens.devices import sparse_tables
from gpuens.devices.placement import CPU, gpu_of, is_streamed, on_host
from gpuens.inputs import binning, sparse, sparse_bins
from gpuens.inputs.arrays import to_input_library
from gpuens.inputs.binning import Binner
from gpuens.inputs.sparse import read_sparse
from gpuens.inputs.sparse_bins import NarrowBinner, columns_that_split, fit_sparse_binner
from gpuens.kernels.growth.sparse_codes import SparseCodes

RNG = np.random.default_rng(0)
N = 700


class Learner(BaseEstimator):
    """Gets the attributes of readers."""


def read(X, name="X"):
    return read_sparse(X, estimator=Learner(), reset=True, name=name)


def hard_table() -> np.ndarray:
    """Columns with few and many values, on both sides of zero, missing, infinite, full, empty."""
    X = np.where(RNG.random((N, 9)) < 0.2, RNG.integers(-3, 4, (N, 9)).astype(float), 0.0)
    X[:, 1] = np.where(RNG.random(N) < 0.6, RNG.normal(size=N), 0.0)
    X[:, 2] = RNG.exponential(size=N) ** 4
    X[::7, 3] = np.nan
    X[:, 4] = 0.0
    X[:, 5] = np.nan
    X[::50, 6] = np.inf
    X[1::50, 6] = -np.inf
    X[::9, 1] = np.nan
    X[:, 8] = -np.abs(X[:, 1])
    return X


HARD = hard_table()
WEIGHT = RNG.exponential(size=N) * (np.arange(N) % 5 > 0)


class TestReading:
    @pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
    @pytest.mark.parametrize("make", ["array", "matrix"])
    def test_formats(self, kind, make):
        X = np.where(HARD == HARD, HARD, 9.0)[:40]
        found = read(getattr(scipy.sparse, f"{kind}_{make}")(X))
        np.testing.assert_array_equal(found.entries.toarray(), X)
        assert found.entries.has_canonical_format and found.entries.data.all()

    @pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float32, float])
    def test_types(self, dtype):
        X = RNG.integers(0, 2, (6, 5)).astype(dtype)
        found = read(scipy.sparse.csr_array(X))
        assert found.dtype == (np.float64 if dtype is float else np.float32)
        np.testing.assert_array_equal(found.entries.toarray(), X)

    def test_large_integers(self):
        assert read(scipy.sparse.csr_array([[2**40, 0]])).dtype == np.float64
        with pytest.raises(ValueError, match="X holds .*2\\*\\*53|float64"):
            read(scipy.sparse.csr_array([[2**62 + 1, 0]]))

    @pytest.mark.parametrize("index", [np.int32, np.int64])
    @pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.csc_array])
    def test_unsorted_repeated_and_written_zeros(self, index, make):
        """The user's matrix stays as it is."""
        data = np.array([1.0, 2.0, 4.0, 0.0, 8.0])
        indices = np.array([2, 0, 2, 1, 1], index)
        X = make((data, indices, np.array([0, 3, 5, 5], index)), shape=(3, 3))
        expected = X.toarray()
        np.testing.assert_array_equal(read(X).entries.toarray(), expected)
        assert X.data.tolist() == [1.0, 2.0, 4.0, 0.0, 8.0]
        assert X.indices.tolist() == [2, 0, 2, 1, 1]

    def test_no_entries(self):
        found = read(scipy.sparse.csr_array((4, 3), dtype=np.int64))
        assert found.shape == (4, 3) and found.n_entries.tolist() == [0, 0, 0]

    @pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.csc_array])
    def test_wrong_indices(self, make):
        X = make(np.eye(3))
        X.indices[1] = 1000
        with pytest.raises(ValueError, match="rows is not a valid sparse matrix: .*< 3.*coo_array"):
            read(X, "rows")

    @pytest.mark.parametrize("X, message", [
        (scipy.sparse.csr_array(np.eye(2) * 1j), "X is sparse with dtype complex128"),
        (scipy.sparse.csr_array((0, 2)), r"0 sample\(s\)"),
        (scipy.sparse.csr_array((2, 0)), r"0 feature\(s\)"),
        (scipy.sparse.coo_array([1.0, 0.0]), "Expected 2D array, got 1D array"),
    ], ids=["complex", "no rows", "no columns", "one dimension"])  # fmt: skip
    def test_bad(self, X, message):
        with pytest.raises(ValueError, match=message):
            read(X)

    def test_on_a_gpu(self, monkeypatch):
        """A matrix of CuPy is where its values are, and comes to the host."""

        class Values:
            device = type("Device", (), {"id": 3})()

        class Matrix:
            data = Values()

            def get(self):
                return scipy.sparse.csr_matrix(np.eye(2))

        Matrix.__module__ = "cupyx.scipy.sparse._csr"
        assert gpu_of(Matrix()) == 3
        np.testing.assert_array_equal(on_host(Matrix()).toarray(), np.eye(2))
        asked = []
        monkeypatch.setattr(
            "gpuens.inputs.arrays.Device.asarray", lambda self, x: asked.append(self) or x
        )
        to_input_library(np.zeros(2), Matrix())
        assert [str(device) for device in asked] == ["cuda:3"]


class TestTable:
    def test_rows_columns_and_blocks(self, monkeypatch):
        monkeypatch.setattr(sparse_tables, "BLOCK_BYTES", 1000)
        table = read(scipy.sparse.csr_array(HARD))
        assert is_streamed(table, CPU) and len(table) == N
        rows = RNG.permutation(N)[:100]
        np.testing.assert_array_equal(table[rows].entries.toarray(), HARD[rows])
        mask = HARD[:, 0] > 0
        np.testing.assert_array_equal(table[mask].entries.toarray(), HARD[mask])
        np.testing.assert_array_equal(table.column(3), HARD[:, 3])
        features = np.array([7, 1])
        found = np.full((N, 2), -1.0)
        sizes = []
        for at, block in table.blocks(features):
            found[at] = block
            sizes.append(block.nbytes)
        np.testing.assert_array_equal(found, HARD[:, features])
        assert max(sizes) <= 1000


class TestBins:
    @pytest.mark.parametrize("max_bins", [2, 7, 255])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("case", ["plain", "weighted", "sampled", "sampled and weighted"])
    def test_those_of_dense_tables(self, max_bins, dtype, case, monkeypatch):
        monkeypatch.setattr(sparse_bins, "ENTRIES_AT_ONCE", 900)
        monkeypatch.setattr(sparse, "CELLS_OF_ENTRY", N * 9)
        if "sampled" in case:
            monkeypatch.setattr(binning, "SAMPLE_SIZE", 300)
        X = HARD.astype(dtype)
        weight = WEIGHT if "weighted" in case else None
        table = read(scipy.sparse.csr_array(X))
        found = fit_sparse_binner(table, weight, max_bins, 5)
        expected = Binner.fit(X, weight, max_bins, 5, CPU)
        for own, other in zip(found.thresholds, expected.thresholds, strict=True):
            np.testing.assert_array_equal(own, other, strict=True)
        codes, dense = found.codes_of(table, CPU), expected.transform(X, CPU)
        np.testing.assert_array_equal(codes.rows, dense.rows, strict=True)
        np.testing.assert_array_equal(codes.columns, dense.columns, strict=True)
        monkeypatch.setattr(sparse, "CELLS_OF_ENTRY", 0)
        few = found.codes_of(table, CPU)
        assert isinstance(few, SparseCodes)
        codes, feature = few.with_features(np.array([8, -1, 3, 8], np.int32))
        assert feature.tolist() == [1, -1, 0, 1]
        np.testing.assert_array_equal(codes.columns, dense.columns[[3, 8]], strict=True)
        np.testing.assert_array_equal(codes.rows[:, :2], dense.rows[:, [3, 8]], strict=True)

    def test_some_columns(self):
        table = read(scipy.sparse.csc_array(HARD))
        features = columns_that_split(table, 150)
        assert features.tolist() == [1, 2, 3, 5, 8]
        binner = NarrowBinner.of(fit_sparse_binner(table, None, 255, 0), features)
        expected = Binner.fit(HARD[:, features], None, 255, 0, CPU).transform(
            HARD[:, features], CPU
        )
        for X in (table, HARD):
            np.testing.assert_array_equal(binner.codes_of(X, CPU).rows, expected.rows)
        assert binner.numbers(np.array([2, -1, 0])).tolist() == [3, -1, 1]
        assert columns_that_split(table, N + 1).tolist() == [0]

    def test_cuts_by_number(self):
        """As in the table of all cuts; behind the last one +inf parts values from missing ones."""
        binner = Binner.fit(HARD, None, 9, 0, CPU)
        features, bins = (values.ravel() for values in np.mgrid[:9, :9])
        np.testing.assert_array_equal(binner.cuts_at(features, bins), binner.table[features, bins])
