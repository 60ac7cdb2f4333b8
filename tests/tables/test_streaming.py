"""Gradient boosting on tables in files that do not fit into memory."""

from __future__ import annotations

import mmap
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

import gpuens
from gpuens import BinnedTable, GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.boosting.data import memory
from gpuens.boosting.steps import pieces, plain
from gpuens.devices import placement
from gpuens.kernels.growth import streamed_codes
from gpuens.kernels.growth.cpu import groups
from gpuens.kernels.growth.cpu import streamed as growth
from gpuens.kernels.runtime.dtypes import Codes
from gpuens.kernels.runtime.system import will_read
from gpuens.losses import CustomLoss
from gpuens.tables import streaming as reading
from gpuens.tables.streaming import streamed
from tests.support.streaming import streaming

N_ROWS = 9000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, 6)).astype(np.float32)
X[RNG.random(X.shape) < 0.05] = np.nan
Y = np.nan_to_num(X[:, 0]) + np.abs(np.nan_to_num(X[:, 1])) * np.nan_to_num(X[:, 2])
WEIGHT = RNG.integers(0, 4, N_ROWS).astype(np.float64)


def on_disk(folder, *arrays, **options):
    """A table in a file, made of two batches."""
    halves = [tuple(a[:4000] for a in arrays), tuple(a[4000:] for a in arrays)]
    return BinnedTable.from_batches(lambda: iter(halves), path=folder / "table", **options)


def regressor(**params):
    return GradientBoostingRegressor(**{"n_estimators": 6, "device": "cpu"} | params)


def classifier(**params):
    return GradientBoostingClassifier(**{"n_estimators": 6, "device": "cpu"} | params)


@pytest.fixture
def grown(monkeypatch):
    """How many batches of trees have been grown by passes over the rows."""
    counted = []
    grow = growth.grow
    monkeypatch.setattr(growth, "grow", lambda *args: counted.append(1) or grow(*args))
    return counted


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
@pytest.mark.parametrize("model, y", [
    (regressor(), Y), (regressor(loss="absolute_error", subsample=0.6), Y),
    (regressor(sampling="mvs", colsample_bynode=0.5), np.stack([Y, -Y], axis=1)),
    (regressor(max_depth=5, max_leaf_nodes=None, monotonic_cst=[1, 0, 0, 0, 0, 0]), Y),
    (regressor(grow_policy="symmetric"), Y),
    (regressor(grow_policy="symmetric", min_samples_leaf=200, subsample=0.6), Y),
    (regressor(loss="gamma", min_samples_leaf=400), np.exp(Y)),
    (classifier(min_samples_leaf=300), Y > 1),
    (classifier(sampling="goss", learning_rate=0.6), np.digitize(Y, [0, 1])),
], ids=lambda value: "" if isinstance(value, np.ndarray) else str(value.loss))  # fmt: skip
def test_models_are_those_of_the_rows_in_memory(model, y, weight, tmp_path, grown):
    expected = model.fit(X, y, weight).forest_.fingerprint()
    assert not grown
    table = on_disk(tmp_path, *(each for each in (X, y, weight) if each is not None))
    assert model.fit(table).forest_.fingerprint() == expected
    assert not grown
    with streaming():
        assert model.fit(table).forest_.fingerprint() == expected
    assert len(grown) >= 6


@pytest.mark.parametrize("model, y, in_pieces", [
    (regressor(), Y, True), (regressor(loss="gamma"), np.exp(Y), True),
    (regressor(max_leaf_nodes=None, max_depth=4, colsample_bynode=0.5), Y, True),
    (regressor(), np.stack([Y, -Y], axis=1), True),
    (classifier(scoring="loss", verbose=0), Y > 1, True),
    (classifier(min_impurity_decrease=1e-4), np.digitize(Y, [0, 1]), True),
    (regressor(loss="huber"), Y, False), (regressor(subsample=0.5), Y, False),
    (regressor(line_search=True), Y, False), (regressor(dropout=0.5), Y, False),
    (classifier(class_weight="balanced"), Y > 1, False),
    (regressor(monotonic_cst=[1, 0, 0, 0, 0, 0]), Y, False),
], ids=lambda value: "" if isinstance(value, np.ndarray) else str(value))  # fmt: skip
def test_gradients_that_are_computed_in_pieces(model, y, in_pieces, tmp_path, monkeypatch):
    """Several pieces, the last of them no whole chunks."""
    monkeypatch.setattr(pieces, "PIECE_ROWS", 2048)
    monkeypatch.setattr(plain, "BATCH_RECORDS", N_ROWS)
    trees = []
    grow = pieces.grow
    monkeypatch.setattr(pieces, "grow", lambda *a: trees.append(1) or grow(*a))
    table = on_disk(tmp_path, X, y)
    expected = model.fit(table).forest_.fingerprint()
    assert not trees
    with streaming():
        assert model.fit(table).forest_.fingerprint() == expected
    assert bool(trees) is in_pieces


def test_integers_are_computed_again_where_scales_change(tmp_path, monkeypatch):
    """Scales are powers of two that nearly always stay from tree to tree."""
    packed = []
    pack = pieces.pack
    monkeypatch.setattr(pieces, "pack", lambda *a: packed.append(a[5][0]) or pack(*a))
    table = on_disk(tmp_path, X, Y)
    with streaming():
        found = regressor(n_estimators=20, learning_rate=0.3).fit(table)
    assert 21 < len(packed) < 40 and len(set(packed)) == len(packed) - 19
    expected = regressor(n_estimators=20, learning_rate=0.3).fit(X, Y)
    assert found.forest_.fingerprint() == expected.forest_.fingerprint()


def test_trees_of_a_batch_take_all_gradients(tmp_path):
    table, y = on_disk(tmp_path, X, np.digitize(Y, [0, 1])), np.digitize(Y, [0, 1])
    with streaming():
        assert not gpuens.memory_plan(classifier(), table, n_outputs=3).in_pieces
        found = classifier().fit(table).forest_.fingerprint()
    assert found == classifier().fit(X, y).forest_.fingerprint()


def test_gradients_in_pieces_that_are_not_finite_are_named(tmp_path):
    with streaming(), pytest.raises(ValueError, match="The gradients of round 3 do not fit"):
        regressor(learning_rate=1e25).fit(on_disk(tmp_path, X, Y))


def test_a_target_that_is_too_small_to_learn_from_is_named(tmp_path):
    with streaming(), pytest.warns(UserWarning, match="all gradients are zero"):
        regressor().fit(on_disk(tmp_path, X, Y.astype(np.float64) * 1e-60))


def test_categories_and_evaluation_sets(tmp_path, grown):
    frame = pd.DataFrame(np.nan_to_num(X[:, :3]), columns=list("abc"))
    frame["d"] = pd.Categorical(RNG.choice(list("pqrstuvw"), N_ROWS))
    y = Y + frame["d"].cat.codes.to_numpy() % 3
    params = {"early_stopping": True, "n_estimators": 30, "n_iter_no_change": 2}
    further = {"eval_set": [(frame[:1000], -y[:1000])]}
    expected = regressor(**params).fit(frame, y, **further)
    with streaming():
        table = on_disk(tmp_path, frame, y, categorical_features="from_dtype")
        model = regressor(**params).fit(table, **further)
    assert model.forest_.fingerprint() == expected.forest_.fingerprint()
    assert model.evals_result_ == expected.evals_result_
    assert grown


def test_warm_start(tmp_path, grown):
    table = on_disk(tmp_path, X, Y)
    with streaming():
        model = regressor(n_estimators=3, warm_start=True).fit(table)
        model.set_params(n_estimators=6).fit(table)
    assert model.forest_.fingerprint() == regressor().fit(X, Y).forest_.fingerprint()
    assert len(grown) == 6


@pytest.fixture
def resident(monkeypatch):
    """A function that sets how many rows stay in memory, beside slabs of 2,048."""
    monkeypatch.setattr(streamed_codes, "SLAB_ROWS", 2048)

    def set_to(n_rows):
        monkeypatch.setattr(memory, "rows_that_stay", lambda data, plan, left: n_rows)

    set_to(0)
    return set_to


@pytest.fixture
def n_read(monkeypatch):
    """The bytes of each reading, and whether it went past the system's cache."""
    found = []
    preadv = os.preadv

    def read(*args):
        found.append(preadv(*args))
        return found[-1]

    monkeypatch.setattr(os, "preadv", read)
    return found


class TestReading:
    """Slabs come from the file, and some of them stay in memory."""

    def fit(self, table, **params):
        with streaming():
            return regressor(**params).fit(table).forest_.fingerprint()

    @pytest.mark.parametrize("n_rows", [0, 2048, 3 * 2048, N_ROWS])
    def test_rows_that_stay_are_read_once(self, tmp_path, resident, n_read, n_rows):
        table = on_disk(tmp_path, X, Y)
        resident(n_rows)
        passes_of = []
        assert self.fit(table, callbacks=[lambda *_: passes_of.append(len(n_read))]) == (
            regressor().fit(X, Y).forest_.fingerprint()
        )
        n_slabs, n_kept = 5, -(-n_rows // 2048)
        n_first = passes_of[0]
        assert (n_first - n_kept) % (n_slabs - n_kept or n_first) == 0
        if n_kept == n_slabs:
            assert len(n_read) == n_slabs
        else:
            assert (len(n_read) - n_kept) % (n_slabs - n_kept) == 0
            assert len(n_read) > 5 * (n_slabs - n_kept)

    def test_readings_that_stop_early_go_on(self, tmp_path, resident, monkeypatch):
        table = on_disk(tmp_path, X, Y)
        expected = self.fit(table)
        preadv, sizes = os.preadv, iter([4096, 5000, 8191] * 10000)

        def less(descriptor, buffers, offset):
            return preadv(descriptor, [buffers[0][: next(sizes)]], offset)

        monkeypatch.setattr(os, "preadv", less)
        monkeypatch.setattr(os, "O_DIRECT", 0, raising=False)
        assert self.fit(table) == expected

    def test_file_systems_without_reading_past_the_cache(self, tmp_path, resident, monkeypatch):
        table = on_disk(tmp_path, X, Y)
        expected, flag = self.fit(table), getattr(os, "O_DIRECT", 0)
        opened, really_open = [], os.open

        def refusing(path, flags, *args, **more):
            if flags & flag:
                raise OSError("invalid argument")
            opened.append(path)
            return really_open(path, flags, *args, **more)

        monkeypatch.setattr(os, "open", refusing)
        assert self.fit(table) == expected
        assert str(table.path) in map(str, opened)

    def test_without_threads(self, tmp_path, resident, monkeypatch, n_read):
        """As of an interpreter that is ending."""
        table = on_disk(tmp_path, X, Y)
        expected = self.fit(table)
        n_before = len(n_read)
        monkeypatch.setattr(ThreadPoolExecutor, "submit", Mock(side_effect=RuntimeError))
        assert self.fit(table) == expected
        assert len(n_read) == 2 * n_before

    @pytest.mark.parametrize("how", ["deleted", "replaced", "no system call"])
    def test_where_the_file_cannot_be_opened_again_the_mapping_is_read(
        self, tmp_path, resident, n_read, monkeypatch, how
    ):
        table = on_disk(tmp_path, X, Y)
        expected = self.fit(table)
        n_before = len(n_read)
        if how == "no system call":
            monkeypatch.delattr(os, "preadv")
        else:
            table.path.unlink()
        if how == "replaced":
            on_disk(tmp_path, X[::-1].copy(), Y)
        assert self.fit(table) == expected
        assert len(n_read) == n_before > 0

    def test_file_that_becomes_shorter(self, tmp_path, resident):
        table = on_disk(tmp_path, X, Y)
        rows = table._codes.rows
        end = reading._mapped_of(rows).offset + rows.nbytes // 2

        def cut_off(*_):
            os.truncate(table.path, end)

        with pytest.raises(OSError, match="has become shorter while its rows were read"):
            self.fit(table, callbacks=[cut_off])

    @pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
    def test_interrupts_leave_no_thread_and_no_open_file(
        self, tmp_path, resident, monkeypatch, error
    ):
        table = on_disk(tmp_path, X, Y)
        expected = self.fit(table)
        slabs, run = [], growth.run

        def interrupted(kernel, *args):
            if kernel is groups.walk_groups:
                slabs.append(kernel)
                if len(slabs) == 8:  # in the middle of the second pass
                    raise error
            return run(kernel, *args)

        before = threading.active_count(), sorted(os.listdir("/dev/fd"))
        with monkeypatch.context() as patched:
            patched.setattr(growth, "run", interrupted)
            with pytest.raises(error) as raised:
                self.fit(table)
        assert (threading.active_count(), sorted(os.listdir("/dev/fd"))) == before
        assert raised.traceback  # which holds the frames
        assert self.fit(table) == expected


class TestDecision:
    """A table that fits into memory is read node by node, which takes less time."""

    @pytest.fixture(autouse=True)
    def nothing_to_compile(self, monkeypatch):
        monkeypatch.setattr(memory, "COMPILING_BYTES", 0)

    def plans(self, table, monkeypatch):
        """The plan with much memory, and with too little for the table beside the training."""
        model = regressor()
        plan = gpuens.memory_plan(model, table)
        assert not plan.streams
        free = plan.total + 9000 * (8 + 6) - 1
        monkeypatch.setattr(placement, "available_memory", lambda: free)
        return plan, gpuens.memory_plan(model, table)

    def test_plan(self, tmp_path, monkeypatch):
        plan, less = self.plans(on_disk(tmp_path, X, Y), monkeypatch)
        assert less.streams
        assert "in a file that is read in the order of its rows" in str(less)
        assert plan.parts["records"] == 17 * N_ROWS and less.parts["records"] == 4 * N_ROWS

    @pytest.mark.parametrize("sample", [{"subsample": 0.5}, {"sampling": "mvs", "subsample": 0.5}])
    def test_plan_of_samples(self, tmp_path, sample):
        table = on_disk(tmp_path, X, Y)
        with streaming():
            plan = gpuens.memory_plan(regressor(**sample), table)
        assert plan.parts["records"] == 8 * N_ROWS // 2

    def test_fit_follows_the_plan(self, tmp_path, monkeypatch, grown):
        table = on_disk(tmp_path, X, Y)
        expected = regressor().fit(table).forest_.fingerprint()
        assert not grown
        self.plans(table, monkeypatch)
        assert regressor().fit(table).forest_.fingerprint() == expected
        assert len(grown) == 6

    def test_rows_that_stay(self, tmp_path, monkeypatch):
        """The plan counts the rows that stay and those that are being read, and what is free."""
        monkeypatch.setattr(streamed_codes, "SLAB_ROWS", 2048)
        table = on_disk(tmp_path, X, Y)

        def plan(free):
            monkeypatch.setattr(placement, "available_memory", lambda: free)
            with streaming():
                return gpuens.memory_plan(regressor(), table)

        least, seen = plan(0), set()
        assert least.n_resident == 0
        for room in range(0, 8 * N_ROWS, 500):
            found = plan(least.total + room)
            assert found.parts["bins"] == 6 * found.n_resident
            assert found.parts["slabs of rows"] == 3 * 2048 * 8
            assert found.fits and found.streams
            assert f"of which {found.n_resident:,} stay in memory" in str(found)
            seen.add(found.n_resident)
        assert seen == {0, 2048, 2 * 2048, 3 * 2048, 4 * 2048, N_ROWS}

    @pytest.mark.parametrize("params", [
        {"loss": CustomLoss(lambda y, f: f - y, lambda y, f: 1.0)}, {"dropout": 0.1},
        {"early_stopping": True},
    ], ids=str)  # fmt: skip
    def test_rows_leave_room_for_arrays_that_no_plan_names(self, tmp_path, monkeypatch, params):
        table = on_disk(tmp_path, X, Y)

        def rows_that_stay(model, share):
            with streaming():
                monkeypatch.setattr(placement, "available_memory", lambda: 0)
                free = int(share * gpuens.memory_plan(model, table).total) + 6 * N_ROWS
                monkeypatch.setattr(placement, "available_memory", lambda: free)
                return gpuens.memory_plan(model, table).n_resident

        assert rows_that_stay(regressor(), 1.01) == N_ROWS
        assert rows_that_stay(regressor(**params), 1.45) == 0
        assert rows_that_stay(regressor(**params), 1.51) == N_ROWS

    @pytest.mark.parametrize("params", [
        {"loss": "absolute_error"}, {"loss": "huber"}, {"sampling": "mvs", "subsample": 0.5},
        {"sampling": "goss", "learning_rate": 0.5}, {"line_search": True},
        {"monotonic_cst": [1, 0, 0, 0, 0, 0]},
    ], ids=str)  # fmt: skip
    def test_more_rows_stay_where_the_plan_names_all_arrays(self, tmp_path, monkeypatch, params):
        table = on_disk(tmp_path, X, Y)
        with streaming():
            monkeypatch.setattr(placement, "available_memory", lambda: 0)
            free = int(1.01 * gpuens.memory_plan(regressor(**params), table).total) + 6 * N_ROWS
            monkeypatch.setattr(placement, "available_memory", lambda: free)
            assert gpuens.memory_plan(regressor(**params), table).n_resident == N_ROWS

    @pytest.mark.parametrize("has_library", [False, True])
    def test_rows_leave_room_to_compile_kernels(self, tmp_path, monkeypatch, has_library):
        table = on_disk(tmp_path, X, Y)
        found = Mock() if has_library else "this installation comes without a library"
        monkeypatch.setattr(memory, "source", lambda: found)
        with streaming():
            monkeypatch.setattr(placement, "available_memory", lambda: 0)
            most = int(1.01 * gpuens.memory_plan(regressor(), table).total) + 6 * N_ROWS

            def rows_that_stay(more):
                monkeypatch.setattr(placement, "available_memory", lambda: most + more)
                return gpuens.memory_plan(regressor(), table).n_resident

            monkeypatch.setattr(memory, "COMPILING_BYTES", 10**6)
            assert rows_that_stay(10**6) == N_ROWS
            assert rows_that_stay(10**6 // 2) == (N_ROWS if has_library else 0)

    def test_tables_in_memory_stay_as_they_are(self, monkeypatch):
        table = BinnedTable.from_batches(lambda: iter([(X, Y)]))
        _, less = self.plans(table, monkeypatch)
        assert not less.streams


class TestAnnouncements:
    def test_pages_of_the_rows(self, tmp_path, monkeypatch):
        """The addresses that the system is told are those of the rows, in whole pages."""
        told = []

        class Recorder:
            def __init__(self, file):
                self.file = file

            def madvise(self, *how):
                self.file.madvise(*how)
                told.append((self.file, *how))

        monkeypatch.setattr(
            reading, "will_read", lambda file, *place: will_read(Recorder(file), *place)
        )
        codes = on_disk(tmp_path, X, Y)._codes
        streamed(codes).will_need(2000, 9000)
        ((file, advice, first, size),) = told
        assert isinstance(file, mmap.mmap)
        assert advice == mmap.MADV_WILLNEED and first % mmap.PAGESIZE == 0
        content = np.frombuffer(file, np.uint8, size, first)
        wanted = codes.rows[2000:9000].reshape(-1)
        skipped = content.size - wanted.size
        assert 0 <= skipped < mmap.PAGESIZE
        np.testing.assert_array_equal(content[skipped:], wanted)

    def test_codes_without_a_file_have_nothing_to_announce(self):
        rows = np.zeros((10, 8), np.uint8)
        streamed(Codes(rows, rows.T.copy())).will_need(0, 10)
