"""Tables that are binned batch by batch: the same models, whatever the rows come from."""

from __future__ import annotations

import errno
import itertools
import os
import weakref

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from gpuens import (
    BaggingRegressor,
    BinnedTable,
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    IsolationForest,
    QuantileForestRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StagewiseRegressor,
    memory_plan,
)
from gpuens.inputs import binning
from gpuens.kernels.runtime.arrays import LINE_BYTES
from gpuens.tables import binned_table, building
from gpuens.trees import binned as trees_binned
from gpuens.trees import table as trees_table

RNG = np.random.default_rng(0)
N = 900
X = RNG.normal(size=(N, 5)).astype(np.float32)
X[:, 1] = X[:, 1].round(1)
X[RNG.random(X.shape) < 0.05] = np.nan
Y = np.nan_to_num(X[:, 0]) + RNG.normal(size=N) ** 2
WEIGHT = RNG.integers(0, 4, N).astype(np.float64)
TOWNS = RNG.choice(["Ulm", "Bonn", "Kiel", "Jena"], N, p=[0.6, 0.2, 0.15, 0.05])
CODES = RNG.zipf(1.3, N).clip(0, 400)
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "town": TOWNS, "code": CODES})
CATEGORIES = ["town", "code"]


def in_batches(*arrays, size=250):
    """A function that returns an iterator of slices of the arrays."""
    n = len(arrays[0])
    return lambda: (tuple(a[i : i + size] for a in arrays) for i in range(0, n, size))


def regressor(**params):
    defaults = {"n_estimators": 6, "device": "cpu", "early_stopping": False}
    return GradientBoostingRegressor(**defaults | params)


def classifier(**params):
    defaults = {"n_estimators": 6, "device": "cpu", "early_stopping": False}
    return GradientBoostingClassifier(**defaults | params)


def same(one, other):
    return one.forest_.fingerprint() == other.forest_.fingerprint()


class TestModels:
    @pytest.mark.parametrize("model, y", [
        (regressor(), Y), (regressor(loss="absolute_error", subsample=0.6), Y),
        (regressor(loss="poisson", sampling="goss"), abs(Y)),
        (regressor(loss="quantile", quantile=[0.2, 0.8]), Y),
        (regressor(sampling="mvs", line_search=True), np.stack([Y, -Y], axis=1)),
        (classifier(), Y > 1),
        (classifier(sampling="balanced", subsample=0.5), np.digitize(Y, [0, 1, 2])),
        (classifier(loss="exponential"), np.where(Y > 1, "yes", "no")),
    ], ids=lambda value: "" if isinstance(value, np.ndarray) else value.loss)  # fmt: skip
    @pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
    def test_those_of_the_rows_in_memory(self, model, y, weight):
        rows = (X, y) if weight is None else (X, y, weight)
        table = BinnedTable.from_batches(in_batches(*rows))
        expected = model.fit(X, y, weight).forest_.fingerprint()
        assert model.fit(table).forest_.fingerprint() == expected

    @pytest.mark.parametrize("size", [1, 2, 449, 900, 5000])
    def test_batches_of_any_size(self, size):
        rows = slice(0, 60) if size < 10 else slice(None)
        table = BinnedTable.from_batches(in_batches(X[rows], Y[rows], size=size), n_jobs=1)
        assert same(regressor().fit(table), regressor().fit(X[rows], Y[rows]))

    @pytest.mark.parametrize("max_bins", [255, 16])
    def test_categories(self, max_bins):
        """Also more than there are bins, of which rows of weight zero do not count."""
        params = {"max_bins": max_bins, "categorical_features": CATEGORIES}
        expected = regressor(**params).fit(FRAME, Y, WEIGHT)
        table = BinnedTable.from_batches(in_batches(FRAME, Y, WEIGHT), **params)
        model = regressor(**params).fit(table)
        assert same(model, expected)
        np.testing.assert_array_equal(model.predict(FRAME), expected.predict(FRAME))
        assert model.feature_names_in_.tolist() == list(FRAME.columns)

    def test_a_sample_of_the_rows(self, monkeypatch):
        monkeypatch.setattr(binning, "SAMPLE_SIZE", 300)
        table = BinnedTable.from_batches(in_batches(X, Y, WEIGHT), random_state=7)
        known = BinnedTable.from_batches(X.copy(), y=Y, sample_weight=WEIGHT, random_state=7)
        expected = regressor(random_state=7).fit(X, Y, WEIGHT)
        assert same(regressor(random_state=7).fit(table), expected)
        assert same(regressor(random_state=7).fit(known), expected)
        assert not same(regressor(random_state=8).fit(X, Y, WEIGHT), expected)

    def test_evaluation_sets_and_early_stopping(self):
        model = regressor(n_estimators=40, early_stopping=True, n_iter_no_change=3)
        pair = (X[600:], Y[600:])
        expected = model.fit(X[:600], Y[:600], eval_set=pair).forest_.fingerprint()
        table = BinnedTable.from_batches(in_batches(X[:600], Y[:600]))
        assert model.fit(table, eval_set=pair).forest_.fingerprint() == expected
        assert model.n_iter_ < 40

    def test_rows_held_out(self):
        """The bins are those of all rows: the training rows grow the same trees by them."""
        table = BinnedTable.from_batches(in_batches(X, Y))
        model = regressor(early_stopping=True, random_state=0).fit(table)
        assert len(model.evals_result_["validation"]["loss"]) == model.n_iter_ + 1

    @pytest.mark.parametrize("categorical", [False, True])
    def test_warm_start(self, categorical):
        rows, columns = (FRAME, CATEGORIES) if categorical else (X, None)
        table = BinnedTable.from_batches(in_batches(rows, Y), categorical_features=columns)
        on_table, on_rows = (regressor(categorical_features=columns) for _ in range(2))
        on_table.fit(table).set_params(warm_start=True, n_estimators=9).fit(table)
        on_rows.fit(rows, Y).set_params(warm_start=True, n_estimators=9).fit(rows, Y)
        assert same(on_table, on_rows)
        assert same(regressor().fit(table, init=on_table), regressor().fit(rows, Y, init=on_rows))

    def test_batches_are_not_kept(self):
        """Targets and weights that are columns of a batch are copied."""
        kept = []

        def batches():
            for k in range(3):
                rows = np.random.default_rng(k).normal(size=(50, 4))
                kept.append(weakref.ref(rows))
                yield rows[:, :2], rows[:, 2], abs(rows[:, 3])
                del rows
                assert sum(one() is not None for one in kept) <= 1

        BinnedTable.from_batches(batches)
        assert len(kept) == 9

    def test_a_target_of_the_fit(self):
        table = BinnedTable.from_batches(in_batches(X))
        assert table.y is None
        assert same(regressor().fit(table, Y), regressor().fit(X, Y))

    def test_memory_plan(self):
        table = BinnedTable.from_batches(in_batches(X))
        assert memory_plan(regressor(), table).parts["bins"] == 0


class TestSources:
    @pytest.fixture
    def table(self):
        frame = FRAME.assign(target=Y, weight=WEIGHT)
        return pa.Table.from_pandas(frame, preserve_index=False)

    def expected(self):
        return regressor(categorical_features=CATEGORIES).fit(FRAME, Y, WEIGHT)

    def check(self, source):
        table = BinnedTable.from_batches(
            source, y="target", sample_weight="weight", categorical_features=CATEGORIES
        )
        assert same(regressor(categorical_features=CATEGORIES).fit(table), self.expected())

    def test_a_parquet_file(self, table, tmp_path):
        pa.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=100)
        self.check(tmp_path / "rows.parquet")

    def test_a_folder(self, table, tmp_path):
        for i in range(3):
            pa.parquet.write_table(table.slice(300 * i, 300), tmp_path / f"{i}.parquet")
        self.check(str(tmp_path))
        self.check(pa.dataset.dataset(tmp_path))

    def test_a_lazy_frame(self, table):
        self.check(pl.from_arrow(table).lazy().filter(pl.col("target") > -1e9))

    def test_frames_of_polars(self):
        frame = pl.from_pandas(FRAME)
        table = BinnedTable.from_batches(
            in_batches(frame, Y, WEIGHT), categorical_features=CATEGORIES
        )
        assert same(regressor(categorical_features=CATEGORIES).fit(table), self.expected())

    def test_a_memory_map(self, tmp_path):
        np.save(tmp_path / "x.npy", X)
        mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
        table = BinnedTable.from_batches(mapped, y=Y, sample_weight=WEIGHT)
        assert same(regressor().fit(table), regressor().fit(X, Y, WEIGHT))


class TestFiles:
    def make(self, path, y=Y):
        return BinnedTable.from_batches(
            in_batches(FRAME, y, WEIGHT), path=path, categorical_features=CATEGORIES
        )

    def test_opened_again(self, tmp_path):
        made = self.make(tmp_path / "table")
        opened = BinnedTable.open(tmp_path / "table")
        expected = regressor(categorical_features=CATEGORIES).fit(FRAME, Y, WEIGHT)
        for table in (made, opened):
            assert same(regressor(categorical_features=CATEGORIES).fit(table), expected)
        assert repr(opened) == f"BinnedTable(900 x 4, in {tmp_path / 'table'})"
        assert os.listdir(tmp_path) == ["table"]

    @pytest.mark.parametrize(
        "y", [Y > 1, np.where(Y > 1, "yes", "no"), np.digitize(Y, [0, 1]).astype(np.int16)]
    )
    def test_labels(self, y, tmp_path):
        table = self.make(tmp_path / "table", y)
        np.testing.assert_array_equal(table.y, y)
        assert table.y.dtype == y.dtype
        opened = BinnedTable.open(tmp_path / "table")
        assert [each._target.numbers.dtype for each in (table, opened)] == [np.uint8] * 2
        expected = classifier(categorical_features=CATEGORIES).fit(FRAME, y, WEIGHT)
        model = classifier().fit(table)
        assert same(model, expected)
        np.testing.assert_array_equal(model.classes_, expected.classes_)

    @pytest.mark.parametrize(
        "y", [np.array([f"name {k % 300}" for k in range(900)]), np.arange(900) % 300, Y]
    )
    def test_targets_of_many_values(self, y, tmp_path):
        table = self.make(tmp_path / "table", y)
        for each in (table, BinnedTable.open(tmp_path / "table"), table[np.arange(50)]):
            np.testing.assert_array_equal(each.y, y[: len(each)])
            assert each.y.dtype == y.dtype

    def test_training_changes_no_file(self, tmp_path):
        table = self.make(tmp_path / "table")
        before = (tmp_path / "table").read_bytes()
        regressor().fit(table)
        assert (tmp_path / "table").read_bytes() == before

    def test_mapped_rows_begin_with_a_cache_line(self, tmp_path):
        for table in (self.make(tmp_path / "table"), BinnedTable.open(tmp_path / "table")):
            assert table._codes.rows.ctypes.data % LINE_BYTES == 0

    @pytest.mark.parametrize("reading", [1, 2, 3])
    def test_interrupted(self, reading, tmp_path):
        readings = itertools.count(1)

        def batches():
            yield X[:300], Y[:300]
            if next(readings) == reading:
                raise KeyboardInterrupt
            yield X[300:], Y[300:]

        with pytest.raises(KeyboardInterrupt):
            BinnedTable.from_batches(batches, path=tmp_path / "table")
        assert os.listdir(tmp_path) == []

    def test_a_full_disk(self, tmp_path, monkeypatch):
        write = os.pwrite

        def full(descriptor, data, offset):
            if offset > 5000:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(descriptor, data, offset)

        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space left"):
            self.make(tmp_path / "table")
        assert os.listdir(tmp_path) == []

    def test_writes_that_are_cut_short(self, tmp_path, monkeypatch):
        write = os.pwrite
        monkeypatch.setattr(os, "pwrite", lambda f, data, at: write(f, data[:777], at))
        table = self.make(tmp_path / "table")
        expected = regressor(categorical_features=CATEGORIES).fit(FRAME, Y, WEIGHT)
        assert same(regressor().fit(table), expected)

    def test_a_file_is_not_replaced(self, tmp_path):
        (tmp_path / "table").write_text("mine")
        with pytest.raises(FileExistsError, match="BinnedTable.open"):
            self.make(tmp_path / "table")
        with pytest.raises(FileNotFoundError, match="make it first"):
            self.make(tmp_path / "nowhere" / "table")
        assert (tmp_path / "table").read_text() == "mine"

    def test_damaged(self, tmp_path):
        """Whatever is wrong with a file, it opens as a table to train on, or with a ValueError."""
        self.make(tmp_path / "table", np.where(Y > 1, "yes", "no"))
        whole = (tmp_path / "table").read_bytes()
        random = np.random.default_rng(1)
        refused = 0
        for i in range(300):
            data = bytearray(whole[: random.integers(len(whole))] if i % 3 == 0 else whole)
            for _ in range(random.integers(1, 4)):
                at = random.integers(min(len(data), 3000)) if data else 0
                data[at : at + 1] = bytes([random.integers(256)])
            (tmp_path / "damaged").write_bytes(data)
            try:
                opened = BinnedTable.open(tmp_path / "damaged")
            except ValueError as error:
                assert "from_batches" in str(error)
                refused += 1
            else:
                assert opened.shape[1] == len(opened.binner_for(opened.max_bins, 1).thresholds)
        assert refused > 200
        with pytest.raises(FileNotFoundError):
            BinnedTable.open(tmp_path / "nowhere")

    @pytest.mark.parametrize("name, at, code", [
        ("rows", -1, 1), ("columns", 5, 7), ("rows", 3, 254), ("columns", -1, 255),
    ])  # fmt: skip
    def test_bins_that_differ(self, tmp_path, name, at, code):
        """Growth would divide a node by one copy as the other does not, again and again."""
        self.make(tmp_path / "table", Y)
        codes = BinnedTable.open(tmp_path / "table")._codes
        whole = getattr(codes, name).tobytes()
        data = (tmp_path / "table").read_bytes()
        begin = data.index(whole)
        changed = bytearray(whole)
        changed[at] = (changed[at] + code) % 256
        (tmp_path / "table").write_bytes(data[:begin] + changed + data[begin + len(whole) :])
        with pytest.raises(ValueError, match=r"it is damaged \(its bins\)"):
            BinnedTable.open(tmp_path / "table")


class TestBadInput:
    def fails(self, kind, match, batches, **params):
        with pytest.raises(kind, match=match):
            BinnedTable.from_batches(batches, **params)

    def test_sources(self, tmp_path):
        self.fails(TypeError, "read once only; pass the function", in_batches(X, Y)())
        self.fails(TypeError, "Tables in memory go into fit", [X])
        self.fails(TypeError, "y must be None where batches is a function", in_batches(X), y="t")
        self.fails(TypeError, "must return an iterator", lambda: 3)
        self.fails(TypeError, "Batch 0 must be a tuple", lambda: [X])
        self.fails(ValueError, "holds no rows", lambda: [])
        self.fails(FileNotFoundError, "does not exist", tmp_path / "nowhere")
        self.fails(ValueError, r"without a file \*.parquet", tmp_path)
        self.fails(TypeError, "have no names", X, y="target")
        self.fails(ValueError, "each of the 900 rows", X, y=Y[:5])
        self.fails(ValueError, "max_bins must be an integer from 2 to 255", X, max_bins=256)

    def test_files_that_change_while_they_are_read(self, tmp_path, monkeypatch):
        """Another file of as many rows takes the place of one."""
        path = tmp_path / "rows.parquet"
        frame = FRAME[["a", "b"]]
        frame.to_parquet(path)
        fit = building.fit_bins

        def change_and_fit(*args):
            frame.assign(a=1 - FRAME["a"]).to_parquet(path)
            return fit(*args)

        monkeypatch.setattr(binned_table, "fit_bins", change_and_fit)
        self.fails(
            ValueError, "have been changed while they were read", path, path=tmp_path / "table"
        )
        assert os.listdir(tmp_path) == ["rows.parquet"]

    def test_parquet_files(self, tmp_path):
        path = tmp_path / "a.parquet"
        FRAME.to_parquet(path)
        self.fails(ValueError, "y='price' is not a column of .*a.parquet", path, y="price")
        self.fails(TypeError, "y must be the name of a column", path, y=Y)
        self.fails(ValueError, "column 'town' has dtype", path)
        FRAME.drop(columns="town").to_parquet(tmp_path / "b.parquet")
        self.fails(ValueError, "b.parquet has other columns than .*a.parquet: .'town'", tmp_path)
        path.write_bytes(path.read_bytes()[:-200])
        self.fails(ValueError, "not a parquet file, or is damaged", path)

    def test_missing_targets(self, tmp_path):
        FRAME.assign(target=[None, *Y[1:]]).to_parquet(tmp_path / "a.parquet")
        self.fails(
            ValueError, "'target' has 1 missing values", tmp_path / "a.parquet", y="target",
            categorical_features=["town"],
        )  # fmt: skip

    @pytest.mark.parametrize("other, match", [
        ((X[:, :4], Y), "Batch 1 differs from batch 0 in the number of features: 4 instead"),
        ((pd.DataFrame(X, columns=list("abcde")), Y), "Batch 1 .* in the names of features"),
        ((X,), "Batch 0 has a y, batch 1 has none"),
        ((X, Y, WEIGHT), "Batch 1 has a weight, batch 0 has none"),
        ((X, Y[:-1]), "y of batch 1 must have a value for each of its 900 rows"),
        ((X, Y, -WEIGHT), "Negative values in data passed to `weight of batch 1`"),
        ((X, np.full(N, None)), "y of batch 1 has dtype object"),
    ])  # fmt: skip
    def test_batches_that_differ(self, other, match):
        self.fails(ValueError, match, lambda: [(X, Y), other])

    def test_categories_that_differ(self):
        numbers = FRAME.assign(town=1)
        self.fails(
            ValueError,
            "Column 'town' holds numbers in batch 1 and strings before",
            lambda: [(FRAME, Y), (numbers, Y)],
            categorical_features=CATEGORIES,
        )
        typed = FRAME.assign(town=FRAME["town"].astype("category"))
        self.fails(
            ValueError,
            "in the columns of categories|column 'town' has dtype",
            lambda: [(typed, Y), (FRAME, Y)],
            categorical_features="from_dtype",
        )

    @pytest.mark.parametrize("second, match", [
        ([(X[::-1], Y)], "Batch 0 holds other rows"),
        ([(X[:800], Y[:800])], "Batch 0 holds other rows"), ([(X, Y), (X, Y)], "and more later"),
        ([], "and 0 later"),
    ])  # fmt: skip
    def test_other_rows_the_second_time(self, second, match):
        readings = itertools.count()
        self.fails(ValueError, match, lambda: [(X, Y)] if next(readings) == 0 else second)

    def test_other_categories_the_second_time(self):
        """Their numbers are the same."""
        readings = itertools.count()
        others = FRAME.assign(town="new " + FRAME["town"])
        self.fails(
            ValueError,
            "Batch 0 holds other rows",
            lambda: [(FRAME if next(readings) == 0 else others, Y)],
            categorical_features=CATEGORIES,
        )

    def test_fits(self):
        table = BinnedTable.from_batches(in_batches(X, Y), max_bins=20)
        with pytest.raises(ValueError, match="the estimator has max_bins=255"):
            regressor().fit(table)
        with pytest.raises(TypeError, match="pass them to BinnedTable.from_batches"):
            regressor(max_bins=20).fit(table, sample_weight=WEIGHT)
        with pytest.raises(ValueError, match="requires y to be passed"):
            regressor(max_bins=20).fit(BinnedTable.from_batches(in_batches(X), max_bins=20))
        with pytest.raises(ValueError, match="validation_0 is a BinnedTable with other bins"):
            regressor().fit(X, Y, eval_set=(table, Y))
        model = regressor().fit(X, Y)
        with pytest.raises(ValueError, match="other bins than those that the trees"):
            model.set_params(warm_start=True, max_bins=20).fit(table)
        others = IsolationForest(device="cpu"), BaggingRegressor(), StagewiseRegressor()
        for use in (model.predict, *(other.fit for other in others)):
            with pytest.raises(TypeError, match="X is a BinnedTable, which fit of gradient"):
                use(*(table, Y)[: 1 if use == model.predict else 2])


FORESTS = [
    (RandomForestRegressor(), Y),
    (RandomForestRegressor(criterion="poisson", max_bins=20), abs(Y)),
    (RandomForestClassifier(class_weight="balanced_subsample"), np.digitize(Y, [0, 1, 2])),
    (ExtraTreesClassifier(max_leaf_nodes=20), np.where(Y > 1, "yes", "no")),
    (QuantileForestRegressor(), Y),
    (DecisionTreeRegressor(max_bins=255, ccp_alpha=0.01), np.stack([Y, -Y], axis=1)),
]


def forest(model, **params):
    """Return an unfitted copy with few trees."""
    few = {"n_estimators": 5} if hasattr(model, "n_estimators") else {}
    return type(model)(**model.get_params() | {"device": "cpu", "random_state": 3} | few | params)


class TestForests:
    @pytest.mark.parametrize(("model", "y"), FORESTS, ids=lambda v: type(v).__name__)
    @pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
    @pytest.mark.parametrize("on_disk", [False, True], ids=["", "file"])
    def test_those_of_the_rows_in_memory(self, model, y, weight, on_disk, tmp_path):
        path = tmp_path / "table" if on_disk else None
        rows = (X, y) if weight is None else (X, y, weight)
        table = BinnedTable.from_batches(in_batches(*rows), max_bins=model.max_bins, path=path)
        expected = forest(model).fit(*rows)
        fitted = forest(model).fit(table)
        assert same(fitted, expected)
        assert np.array_equal(fitted.predict(X), expected.predict(X))

    @pytest.mark.parametrize("size", [60, 300])
    def test_few_rows_and_float64(self, size):
        rows = X[:size].astype(np.float64), Y[:size]
        table = BinnedTable.from_batches(in_batches(*rows, size=7))
        model = forest(RandomForestRegressor())
        assert same(model.fit(table), forest(model).fit(*rows))

    def test_categories(self):
        params = {"categorical_features": CATEGORIES}
        table = BinnedTable.from_batches(in_batches(FRAME, Y), **params)
        fitted = forest(RandomForestRegressor(), **params).fit(table)
        expected = forest(RandomForestRegressor(), **params).fit(FRAME, Y)
        assert same(fitted, expected)
        assert np.array_equal(fitted.predict(FRAME), expected.predict(FRAME))
        narrow = BinnedTable.from_batches(in_batches(FRAME, Y), max_bins=16, **params)
        with pytest.raises(
            ValueError, match="column 'code' of the .* categories, more than it has"
        ):
            forest(RandomForestRegressor(), max_bins=16).fit(narrow)

    def test_cut_points_of_a_sample(self, monkeypatch):
        """Also of columns whose rare values the sample has or has not."""
        for module in (binning, building, trees_table, trees_binned):
            monkeypatch.setattr(module, "SAMPLE_SIZE", 300)
        whole = np.column_stack([X, np.arange(N) % 7, np.arange(N) % 300]).astype(np.float64)
        model = forest(RandomForestRegressor(), max_bins=30, random_state=7)
        params = {"max_bins": 30, "random_state": 7}
        table = BinnedTable.from_batches(in_batches(whole, Y), **params)
        assert same(model.fit(table), forest(model, **params).fit(whole, Y))
        rare = whole.copy()
        sampled = binning.sample_rows(N, 7)
        rare[np.setdiff1d(np.arange(N), sampled)[0], 5] = 2.5
        table = BinnedTable.from_batches(in_batches(rare, Y), **params)
        assert same(regressor(**params).fit(table), regressor(**params).fit(rare, Y))
        with pytest.raises(ValueError, match="feature 5 of the .* values that the sample for the"):
            forest(model).fit(table)

    @pytest.mark.parametrize("params, error, message", [
        ({"max_bins": None}, ValueError, "max_bins must be a number where X is a BinnedTable"),
        ({"max_bins": 20}, ValueError, "The table was made with max_bins=255, the estimator"),
        ({"oob_score": True}, NotImplementedError, "no values to apply the trees to while"),
        ({"honest": True}, NotImplementedError, "set oob_score=False and honest=False"),
    ])  # fmt: skip
    def test_refused_settings(self, params, error, message):
        table = BinnedTable.from_batches(in_batches(X, Y))
        with pytest.raises(error, match=message):
            forest(RandomForestRegressor(), **params).fit(table)

    def test_refused_tables(self):
        table = BinnedTable.from_batches(in_batches(X, Y))
        with pytest.raises(TypeError, match="weights: pass them to BinnedTable.from_batches"):
            forest(RandomForestRegressor()).fit(table, sample_weight=WEIGHT)
        part = BinnedTable.from_batches(in_batches(X, Y))[np.arange(90)]
        with pytest.raises(ValueError, match="does not know the smallest and largest values of"):
            forest(RandomForestRegressor()).fit(part)
