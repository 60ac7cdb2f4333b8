"""Gradient boosting on tables in files that do not fit into memory."""

from __future__ import annotations

import mmap

import numpy as np
import pandas as pd
import pytest

import gpuens
from gpuens import BinnedTable, GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.devices import placement
from gpuens.kernels.growth.cpu import streamed as growth
from gpuens.kernels.runtime.dtypes import Codes
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
@pytest.mark.parametrize(
    ("model", "y"),
    [
        (regressor(), Y),
        (regressor(loss="absolute_error", subsample=0.6), Y),
        (regressor(sampling="mvs", colsample_bynode=0.5), np.stack([Y, -Y], axis=1)),
        (regressor(max_depth=5, max_leaf_nodes=None, monotonic_cst=[1, 0, 0, 0, 0, 0]), Y),
        (regressor(loss="gamma", min_samples_leaf=400), np.exp(Y)),
        (classifier(min_samples_leaf=300), Y > 1),
        (classifier(sampling="goss", learning_rate=0.6), np.digitize(Y, [0, 1])),
    ],
    ids=lambda value: "" if isinstance(value, np.ndarray) else str(value.loss),
)
def test_models_are_those_of_the_rows_in_memory(model, y, weight, tmp_path, grown):
    expected = model.fit(X, y, weight).forest_.fingerprint()
    assert not grown
    table = on_disk(tmp_path, *(each for each in (X, y, weight) if each is not None))
    assert model.fit(table).forest_.fingerprint() == expected
    assert not grown
    with streaming():
        assert model.fit(table).forest_.fingerprint() == expected
    assert len(grown) >= 6


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


class TestDecision:
    """A table that fits into memory is read node by node, which takes less time."""

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
        assert plan.parts["records"] == 2 * less.parts["records"] == 16 * N_ROWS

    def test_fit_follows_the_plan(self, tmp_path, monkeypatch, grown):
        table = on_disk(tmp_path, X, Y)
        expected = regressor().fit(table).forest_.fingerprint()
        assert not grown
        self.plans(table, monkeypatch)
        assert regressor().fit(table).forest_.fingerprint() == expected
        assert len(grown) == 6

    def test_tables_in_memory_stay_as_they_are(self, monkeypatch):
        table = BinnedTable.from_batches(lambda: iter([(X, Y)]))
        _, less = self.plans(table, monkeypatch)
        assert not less.streams


class TestAnnouncements:
    def test_pages_of_the_rows(self, tmp_path):
        """The addresses that the system is told are those of the rows, in whole pages."""
        codes = on_disk(tmp_path, X, Y)._codes
        told = []
        own = streamed(codes)
        announcer = own.will_need
        file = announcer._file
        assert isinstance(file, mmap.mmap)

        class Recorder:
            def madvise(self, *how):
                file.madvise(*how)
                told.append(how)

        announcer._file = Recorder()
        own.will_need(2000, 9000)
        ((advice, first, size),) = told
        assert advice == mmap.MADV_WILLNEED and first % mmap.PAGESIZE == 0
        content = np.frombuffer(file, np.uint8, size, first)
        wanted = codes.rows[2000:9000].reshape(-1)
        skipped = content.size - wanted.size
        assert 0 <= skipped < mmap.PAGESIZE
        np.testing.assert_array_equal(content[skipped:], wanted)

    def test_codes_without_a_file_have_nothing_to_announce(self):
        rows = np.zeros((10, 8), np.uint8)
        streamed(Codes(rows, rows.T.copy())).will_need(0, 10)
