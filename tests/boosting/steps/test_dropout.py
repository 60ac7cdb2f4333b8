"""Dropout of trees: draws, weights, and training that stops, goes back and goes on."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LinearRegression

from gpuens import BinnedTable, GradientBoostingClassifier, GradientBoostingRegressor, load
from gpuens.boosting.parameters import DropoutSettings
from gpuens.boosting.steps.dropout import Dropout, multiples, quantum_for
from gpuens.forest.forest import Forest
from gpuens.inputs.binning import Binner
from gpuens.saving.file import ModelFileError

N, N_FIT = 300, 200
SMALL = {
    "n_estimators": 12, "max_leaf_nodes": 5, "min_samples_leaf": 3, "max_bins": 32, "dropout": 0.5,
    "random_state": 3, "device": "cpu", "categorical_features": [3],
}  # fmt: skip
WEIGHTED = {
    "uniform_drop": False, "normalize_drop": "forest", "max_drop": 3, "skip_dropout": 0.2,
}  # fmt: skip
STOPPING = {
    "n_estimators": 60, "learning_rate": 0.6, "early_stopping": True, "n_iter_no_change": 6,
}  # fmt: skip


@functools.cache
def table() -> tuple[np.ndarray, np.ndarray]:
    """Numbers and categories with missing values, and a target far from zero."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    X[:, 3] = rng.integers(0, 9, N)
    y = 100.0 + X[:, 0] + X[:, 1] * X[:, 2] + (X[:, 3] % 3) + 0.5 * rng.normal(size=N)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def regressor(**settings: Any) -> GradientBoostingRegressor:
    return GradientBoostingRegressor(**SMALL | settings)


def fitted(model: Any, **further: Any) -> Any:
    """Fit a model, with the last rows as evaluation set."""
    X, y = table()
    if isinstance(model, GradientBoostingClassifier):
        y = np.digitize(y, [100.0, 102.0])
    return model.fit(X[:N_FIT], y[:N_FIT], eval_set=(X[N_FIT:], y[N_FIT:]), **further)


def assert_same(model: Any, other: Any) -> None:
    assert other.forest_.fingerprint() == model.forest_.fingerprint()
    assert other.evals_result_ == model.evals_result_


def dropout_of(n_rounds: int, state_rates: Any = None, **settings: Any) -> Dropout:
    """Dropout after some rounds that may all be left out."""
    plain = {"rate": 0.3, "skip": 0.0, "most": None, "uniform": True, "normalisation": "tree"}
    known = Dropout(
        DropoutSettings(**plain | settings), 7, Binner(()), Forest.empty(1, np.zeros(1)), None, 1
    )
    known._rate = [0.1] * n_rounds if state_rates is None else list(state_rates)
    return known


class TestDraw:
    def test_every_round_has_the_chance(self):
        drops = [dropout_of(200)._draw(index) for index in range(200)]
        share = np.mean([len(rounds) for rounds in drops]) / 200
        assert abs(share - 0.3) < 4 * np.sqrt(0.21 / 40_000)
        counts = np.bincount(np.concatenate(drops), minlength=200)
        assert abs(counts - 60).max() < 5 * np.sqrt(200 * 0.21)

    def test_more_rounds_do_not_change_the_draws_of_those_before(self):
        many = dropout_of(80)._draw(9)
        assert dropout_of(50)._draw(9) == [r for r in many if r < 50]

    def test_chances_in_proportion_to_the_weights(self):
        rates = np.repeat([0.1, 0.3], 100)
        known = dropout_of(200, rates, uniform=False)
        drops = np.concatenate([known._draw(index) for index in range(200)])
        light, heavy = (drops < 100).sum() / 20_000, (drops >= 100).sum() / 20_000
        assert abs(light - 0.15) < 0.012 and abs(heavy - 0.45) < 0.012

    def test_some_rounds_leave_out_none(self):
        known = dropout_of(50, skip=0.6)
        empty = sum(not known._draw(index) for index in range(1000))
        assert abs(empty - 600) < 5 * np.sqrt(240)
        assert not any(dropout_of(50, skip=1.0)._draw(index) for index in range(20))

    def test_at_most_so_many_and_all_alike(self):
        drops = [dropout_of(100, most=4, rate=0.5)._draw(index) for index in range(300)]
        assert all(len(rounds) == 4 and rounds == sorted(rounds) for rounds in drops)
        first_half = np.mean([r < 50 for rounds in drops for r in rounds])
        assert abs(first_half - 0.5) < 5 * np.sqrt(0.25 / 1200)

    def test_everything(self):
        assert dropout_of(5, rate=1.0)._draw(0) == [0, 1, 2, 3, 4]
        assert dropout_of(0, rate=1.0)._draw(0) == []


class TestExactSums:
    def test_sums_do_not_depend_on_their_order(self):
        rng = np.random.default_rng(0)
        values = rng.normal(size=1000)
        quantum = quantum_for(100.0, float(abs(values).max()))
        assert np.frexp(quantum)[0] == 0.5
        rounded = multiples(values, quantum)
        np.testing.assert_allclose(rounded, values, rtol=0, atol=quantum / 2)
        start = multiples(np.float64(100.0 / 3.0), quantum)
        forth = np.cumsum([start, *rounded])[-1]
        assert np.cumsum([start, *rounded[::-1]])[-1] == forth
        assert np.cumsum([forth, *-rounded])[-1] == start

    def test_numbers_too_small_stay_as_they_are(self):
        assert quantum_for(0.0, 1e-300) == 0.0
        assert multiples(0.1, 0.0) == 0.1

    @pytest.mark.parametrize("settings", [{}, WEIGHTED], ids=["tree", "forest"])
    def test_raw_predictions_are_those_of_the_model(self, settings):
        """Those of the rounds, by trees that came and went, and those of the trees as they are."""
        model = fitted(regressor(**settings))
        X, y = table()
        error = np.mean((model.predict(X[N_FIT:]) - y[N_FIT:]) ** 2) / 2
        assert model.evals_result_["validation_0"]["loss"][-1] == pytest.approx(error, rel=1e-13)


@pytest.mark.parametrize("normalize", ["tree", "forest"])
def test_weights_are_those_of_xgboost(normalize):
    """All trees are left out every time, so that nothing depends on how they are drawn."""
    import xgboost

    rng = np.random.default_rng(1)
    X = rng.integers(0, 20, (500, 3)).astype(float)
    y = X[:, 0] + 3.0 * (X[:, 1] > 9) + rng.normal(size=500)
    theirs = xgboost.XGBRegressor(
        booster="dart", rate_drop=1.0, normalize_type=normalize, n_estimators=6, max_depth=2,
        learning_rate=0.3, base_score=y.mean(), tree_method="hist", n_jobs=1,
    ).fit(X, y)  # fmt: skip
    ours = GradientBoostingRegressor(
        dropout=1.0, normalize_drop=normalize, n_estimators=6, max_depth=2, learning_rate=0.3,
        max_leaf_nodes=None, min_samples_leaf=1, min_sum_hessian=1.0, device="cpu",
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-5)


def test_nothing_left_out_is_plain_boosting():
    plain, skipped = fitted(regressor(dropout=0.0)), fitted(regressor(skip_dropout=1.0))
    X = table()[0]
    np.testing.assert_array_equal(plain.apply(X), skipped.apply(X))
    np.testing.assert_allclose(skipped.predict(X), plain.predict(X), rtol=1e-12)


GOES_ON = {
    "regression": (GradientBoostingRegressor, {}),
    "medians": (GradientBoostingRegressor, {"loss": "absolute_error", "subsample": 0.7}),
    "line search": (GradientBoostingRegressor, {"line_search": True, "loss": "poisson"}),
    "classes": (GradientBoostingClassifier, WEIGHTED),
    "init": (GradientBoostingRegressor, {"init": "zero"}),
}


@pytest.mark.parametrize("cls, settings", GOES_ON.values(), ids=GOES_ON)
def test_resumed_training_gives_the_same_model(cls, settings, tmp_path):
    whole = fitted(cls(**SMALL | settings))
    part = fitted(cls(**SMALL | settings | {"n_estimators": 5}))
    part.save(tmp_path / "model.gpuens")
    part = load(tmp_path / "model.gpuens").set_params(warm_start=True, n_estimators=12)
    assert_same(whole, fitted(part))


@pytest.mark.parametrize("cls", [GradientBoostingRegressor, GradientBoostingClassifier])
def test_early_stopping_gives_the_model_of_the_best_round(cls, tmp_path):
    """Not only its trees, but the weights that they had then, whatever came later."""
    stopped = fitted(cls(**SMALL | STOPPING))
    best = stopped.n_iter_
    assert stopped.stopped_ == "early stopping" and best == stopped.best_iteration_
    assert sum(len(e["loss"]) for e in stopped.evals_result_.values()) == best + 1 + 6
    short = fitted(cls(**SMALL | STOPPING | {"n_estimators": best, "early_stopping": False}))
    assert stopped.forest_.fingerprint() == short.forest_.fingerprint()
    # A break between the best round and the end.
    part = fitted(cls(**SMALL | STOPPING | {"n_estimators": best + 3, "keep_best": True}))
    assert part.n_iter_ == best
    states = []
    watched = cls(**SMALL | STOPPING, callbacks=[lambda state: states.append(state.model())])
    assert_same(stopped, fitted(watched))
    states[best + 2].save(tmp_path / "model.gpuens")
    resumed = load(tmp_path / "model.gpuens").set_params(warm_start=True)
    assert_same(stopped, fitted(resumed))


def test_an_interrupted_round_leaves_no_trace(monkeypatch):
    settle = Dropout.settle

    def interrupted(self, index, *args):
        settle(self, index, *args)
        if index == 7:
            raise KeyboardInterrupt

    monkeypatch.setattr(Dropout, "settle", interrupted)
    with pytest.warns(RuntimeWarning, match="keeps the 7 rounds"):
        model = fitted(regressor())
    monkeypatch.undo()
    assert_same(fitted(regressor(n_estimators=7)), model)
    assert_same(fitted(regressor()), fitted(model.set_params(warm_start=True)))


def test_trees_of_another_model_are_never_left_out():
    before = fitted(regressor(dropout=0.0, n_estimators=4))
    model = fitted(regressor(n_estimators=6, dropout=1.0), init=before)
    assert model.n_iter_ == 10
    assert model.forest_.slice(0, 4).fingerprint() == before.forest_.fingerprint()
    own = model.forest_.slice(4, 10)
    alone = [own.slice(t, t + 1).value for t in range(6)]
    assert max(map(np.max, alone)) < np.max(before.forest_.slice(0, 1).value)
    # The same with trees that were grown before dropout was turned on.
    before.set_params(warm_start=True, dropout=1.0, n_estimators=10)
    assert_same(model, fitted(before))


def test_model_before_the_trees():
    X, y = table()
    X = np.nan_to_num(X)
    model = regressor(init=LinearRegression(), categorical_features=None).fit(X, y)
    part = regressor(init=LinearRegression(), categorical_features=None, n_estimators=5)
    part.fit(X, y).set_params(warm_start=True, n_estimators=12).fit(X, y)
    assert part.forest_.fingerprint() == model.forest_.fingerprint()


def test_binned_table():
    X, y = table()
    expected = regressor(categorical_features=None).fit(X, y)
    binned = BinnedTable.from_batches(lambda: iter([(X, y)]), max_bins=32)
    model = regressor(categorical_features=None, n_estimators=5).fit(binned)
    model.set_params(warm_start=True, n_estimators=12).fit(binned)
    assert model.forest_.fingerprint() == expected.forest_.fingerprint()


def test_sparse_table_whose_columns_change():
    """Training goes on with rows in which columns of the trees have too few entries to split."""
    X, y = np.nan_to_num(table()[0]), table()[1]
    X[X < 0.3] = 0.0
    X[100:, 0] = 0.0
    settings = {"categorical_features": None, "min_samples_leaf": 10, "warm_start": True}
    models = []
    for kind in (np.asarray, scipy.sparse.csr_array):
        model = regressor(**settings, n_estimators=5).fit(kind(X[:200]), y[:200])
        models.append(model.set_params(n_estimators=12).fit(kind(X[100:]), y[100:]))
    used = models[0].forest_.slice(0, 5).feature
    assert 0 in used
    assert models[1].forest_.fingerprint() == models[0].forest_.fingerprint()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_targets_of_any_size(scale):
    X, y = table()
    model = regressor(min_sum_hessian=0.0).fit(X, (y - 100.0) * scale)
    unit = regressor(min_sum_hessian=0.0).fit(X, y - 100.0)
    np.testing.assert_allclose(model.predict(X) / scale, unit.predict(X), rtol=1e-4, atol=1e-4)


def test_constant_target_has_no_quantum():
    X, _ = table()
    model = regressor(n_estimators=3).fit(X, np.full(N, 4.0))
    assert model.predict(X[:2]).tolist() == [4.0, 4.0]


@pytest.mark.parametrize("field, value, message", [
    ("first", -1, "first is -1"),
    ("quantum", np.array([0.3]), "quantum is not a power of two"),
    ("quantum", np.array([0.5, 0.5]), "quantum has 2 entries"),
    ("rate", np.array([0.1]), "undo has rounds that do not exist"),
    ("rate", np.zeros(12), "rate is not positive"),
    ("rate", np.ones(13), "rate is not of its trees"),
    ("undo_rate", np.ones(99), "undo and undo_rate differ"),
    ("undo_value", np.ones(1), "undo_value is not of its trees"),
])  # fmt: skip
def test_damaged_files_are_refused(field, value, message, tmp_path):
    model = fitted(regressor())
    assert model._dropout.undo.size > 0
    model._dropout = dataclasses.replace(model._dropout, **{field: value})
    model.save(tmp_path / "model.gpuens")
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "model.gpuens")
