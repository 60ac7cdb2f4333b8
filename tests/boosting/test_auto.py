"""Rounds and the learning rate from the data: ``n_estimators="auto"``, ``learning_rate="auto"``."""

from __future__ import annotations

import math
import os
import signal
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

import gpuens
from gpuens import (
    BinnedTable,
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
)
from gpuens.boosting import auto
from gpuens.boosting.auto import CatchingUp, FoldRounds, draw_folds
from gpuens.boosting.data.auto_values import most_rounds, rate_for
from gpuens.boosting.steps.many_models import can_meet, run_together
from gpuens.kernels.runtime.collective import Alone, Workers, sharing
from tests.support.lanes import few

N = 600
RNG = np.random.default_rng(0)
X = RNG.integers(0, 12, (N, 5)).astype(np.float64)  # bins do not depend on which rows are binned
SIGNAL = X[:, 0] / 6 + np.sin(X[:, 1])
Y = SIGNAL + 0.5 * RNG.normal(size=N)
SMALL: dict[str, Any] = {"max_leaf_nodes": 6, "device": "cpu", "random_state": 3}
PLAIN: dict[str, Any] = {
    "learning_rate": 0.1, "subsample": 1.0, "colsample_bynode": 1.0,
    "multi_strategy": "one_output_per_tree",
}  # fmt: skip
"""What goes with a number of rounds."""
AUTO: dict[str, Any] = {"n_estimators": "auto", **SMALL, **PLAIN}
TIMES = RNG.random(N) < 0.7, np.exp(0.3 * SIGNAL) * RNG.gamma(3, 1 / 3, N)


class FakeTraining:
    n_rows = N
    rows = SimpleNamespace(weight=np.empty(0))


def of_parts(labels: np.ndarray) -> tuple[np.ndarray, int]:
    return draw_folds(FakeTraining(), labels, 7)  # type: ignore[arg-type]


def best_by_hand(cls: type, y: Any, labels: np.ndarray, loss: str) -> int:
    """The round with the best mean loss of the rows held out, by trainings with weights of zero."""
    seed = cls(loss, **SMALL, n_estimators=1).fit(X, y)._seed
    fold_of, n_folds = draw_folds(FakeTraining(), labels, seed)  # type: ignore[arg-type]
    curves = []
    for k in range(n_folds):
        weight = (fold_of != k).astype(float)
        model = cls(loss, n_estimators=150, **SMALL)
        model.fit(X, y, weight, eval_set=(X, y), eval_sample_weight=1 - weight)
        curves.append(model.evals_result_["validation_0"]["loss"])
    return int(np.mean(curves, axis=0).argmin())


@pytest.mark.parametrize(
    ("cls", "y", "loss"),
    few([
        (GradientBoostingRegressor, Y, "squared_error"),
        (GradientBoostingRegressor, Y, "absolute_error"),
        (GradientBoostingRegressor, TIMES, "cox"),
        (GradientBoostingClassifier, np.digitize(Y, [0.5, 1.5]), "log_loss"),
    ], 0, 2),
    ids=["squared error", "absolute error", "cox", "log loss"],
)  # fmt: skip
def test_the_best_round_of_rows_held_out(cls, y, loss):
    labels = y if cls is GradientBoostingClassifier else np.empty(0, np.int64)
    expected = best_by_hand(cls, y, labels, loss)
    model = cls(loss, **AUTO).fit(X, y)
    assert 3 < expected < 150 and model.n_iter_ == expected
    explicit = cls(loss, n_estimators=expected, **SMALL).fit(X, y)
    assert model.forest_.fingerprint() == explicit.forest_.fingerprint()


def test_the_same_rounds_for_tables_of_all_kinds():
    sparse = np.where(X > 8, X, 0.0)
    binned = BinnedTable.from_batches(lambda: iter([(sparse, Y)]), random_state=3)
    models = [
        GradientBoostingRegressor(**AUTO).fit(sparse, Y),
        GradientBoostingRegressor(**AUTO).fit(scipy.sparse.csr_array(sparse), Y),
        GradientBoostingRegressor(**AUTO).fit(binned),
        GradientBoostingRegressor(**AUTO, n_jobs=2).fit(sparse.astype(np.float32), Y),
    ]
    assert len({model.n_iter_ for model in models}) == 1
    assert len({model.forest_.fingerprint() for model in models}) == 1


def test_rows_are_dealt_evenly():
    fold_of, n_folds = of_parts(np.empty(0, np.int64))
    assert n_folds == 5 and np.bincount(fold_of).tolist() == [N // 5] * 5
    classes = np.repeat([0, 1], [N - 50, 50])
    fold_of, _ = of_parts(classes)
    assert np.bincount(fold_of[classes == 1]).tolist() == [10] * 5
    query = np.repeat(np.arange(60), 10)
    fold_of, _ = of_parts(-1 - query)
    assert (fold_of.reshape(60, 10) == fold_of[::10, None]).all()
    assert len(set(fold_of)) == 5


def test_many_rows_hold_out_one_part():
    many = FakeTraining()
    many.n_rows = 50_000
    fold_of, n_folds = draw_folds(many, np.empty(0, np.int64), 0)  # type: ignore[arg-type]
    assert n_folds == 1 and (fold_of == 0).sum() == 5_000


def test_rankings_hold_out_queries():
    relevance = np.clip(Y, 0, 3).astype(int)
    model = GradientBoostingRanker(**AUTO).fit(X, relevance, qid=np.repeat(np.arange(60), 10))
    assert 1 <= model.n_iter_ < 500


def test_nothing_set_is_what_the_guide_says():
    model = GradientBoostingRegressor(**SMALL).fit(X, Y)
    assert model.learning_rate_ == rate_for(N, False) < rate_for(10**6, False) == 0.1
    explicit = GradientBoostingRegressor(
        **SMALL, n_estimators=model.n_iter_, learning_rate=model.learning_rate_, subsample=0.8,
        colsample_bynode=0.6,
    )  # fmt: skip
    assert explicit.fit(X, Y).forest_.fingerprint() == model.forest_.fingerprint()
    assert not hasattr(explicit, "learning_rate_")


@pytest.mark.slow
def test_three_classes_share_a_tree_where_rounds_are_searched_for():
    y = np.digitize(Y, [0.5, 1.5])
    model = GradientBoostingClassifier(**SMALL).fit(X, y)
    assert model.forest_.width == 3 and model.learning_rate_ == rate_for(N, True)
    assert GradientBoostingClassifier(**SMALL, n_estimators=2).fit(X, y).forest_.width == 1
    assert GradientBoostingClassifier(**SMALL, linear_leaves=True).fit(X, y).forest_.width == 1
    assert GradientBoostingClassifier(**SMALL).fit(X, y > 0).forest_.width == 1
    each = GradientBoostingClassifier(**SMALL, multi_strategy="one_output_per_tree").fit(X, y)
    assert each.learning_rate_ == rate_for(N, False)


def explicit_model(**settings: Any) -> Any:
    return GradientBoostingRegressor(n_estimators=100, **SMALL, **PLAIN, **settings)


@pytest.mark.parametrize(
    "settings", [{"dropout": 0.1}, {"init": LinearRegression()}], ids=["dropout", "init"]
)
def test_a_hundred_rounds_where_no_rows_can_be_held_out(settings):
    model = GradientBoostingRegressor(**SMALL, **settings).fit(X, Y)
    assert model.n_iter_ == 100 and model.learning_rate_ == 0.1
    expected = explicit_model(**settings).fit(X, Y).forest_.fingerprint()
    assert model.forest_.fingerprint() == expected


def test_a_hundred_rounds_of_few_rows_and_of_shared_ones():
    few = GradientBoostingRegressor(**SMALL).fit(X[:49], Y[:49])
    expected = explicit_model().fit(X[:49], Y[:49]).forest_.fingerprint()
    assert few.forest_.fingerprint() == expected
    with sharing(Workers(Alone(), 0, N, N)):
        shared = GradientBoostingRegressor(**SMALL).fit(X, Y)
    assert shared.forest_.fingerprint() == explicit_model().fit(X, Y).forest_.fingerprint()


def test_a_model_that_goes_on_gets_a_hundred_rounds():
    before = GradientBoostingRegressor(n_estimators=2, **SMALL).fit(X, Y)
    model = GradientBoostingRegressor(**SMALL).fit(X, Y, init=before)
    assert model.n_iter_ == 102 and model.learning_rate_ == 0.1


def test_rows_of_weight_zero_are_not_held_out():
    weighted = FakeTraining()
    weighted.rows = SimpleNamespace(weight=(np.arange(N) % 4 > 0).astype(float))
    fold_of, n_folds = draw_folds(weighted, np.empty(0, np.int64), 7)  # type: ignore[arg-type]
    dealt = fold_of[np.arange(N) % 4 > 0]
    assert n_folds == 5 and np.bincount(dealt).tolist() == [90] * 5
    assert (fold_of[::4] == 5).all()
    few = GradientBoostingRegressor(**SMALL).fit(X, Y, np.arange(N) < 49)
    assert few.n_iter_ == 100


def test_few_queries_are_not_held_out():
    relevance = (Y > 1).astype(int)
    for n_queries, searches in ((1, False), (9, False), (10, True)):
        query = np.arange(N) * n_queries // N
        model = GradientBoostingRanker(**SMALL).fit(X, relevance, qid=query)
        assert (model.n_iter_ != 100) == searches


def test_parts_that_lack_an_event_do_not_count():
    """The others say how many rounds are best."""
    event = np.arange(N) < 3
    with np.errstate(all="raise"):
        model = GradientBoostingRegressor("cox", **SMALL).fit(X, (event, TIMES[1]))
    assert model.n_iter_ >= 1
    assert auto._mean_of_known([1.0, np.nan, 3.0]) == 2.0
    assert np.isnan(auto._mean_of_known([np.nan]))


def test_a_metric_that_is_never_known_decides_nothing():
    def unknown(model, X, y):
        return np.nan

    with pytest.warns(gpuens.NothingLearnedWarning, match="NaN in every round"):
        model = GradientBoostingRegressor(**SMALL, scoring=unknown).fit(X, Y)
    assert model.n_iter_ == 100


def test_a_rate_for_each_round_says_how_many_there_are():
    model = GradientBoostingRegressor(learning_rate=[0.3] * 5, **SMALL).fit(X, Y)
    assert model.n_iter_ == 5
    of_array = GradientBoostingRegressor(learning_rate=np.full(5, 0.3), **SMALL).fit(X, Y)
    assert of_array.forest_.fingerprint() == model.forest_.fingerprint()


def squared_gradients(y, score):
    return score - y, np.ones_like(y)


@pytest.mark.slow
def test_a_hundred_rounds_of_a_loss_without_a_value():
    model = GradientBoostingRegressor(squared_gradients, **SMALL).fit(X, Y)
    assert model.n_iter_ == 100 and model.learning_rate_ == 0.1
    measured = GradientBoostingRegressor(squared_gradients, scoring="r2", **SMALL).fit(X, Y)
    assert measured.n_iter_ != 100


def negative_error(model, X, y):
    return -float(np.mean((y - model.predict(X)) ** 2))


def error_of_arrays(y, score):
    return float(np.mean((y - score) ** 2))


@pytest.mark.parametrize(
    "scoring",
    few([
        "neg_mean_squared_error", negative_error, gpuens.custom_metrics.ArrayMetric(error_of_arrays)
    ], "neg_mean_squared_error", 2),
    ids=["name", "callable", "arrays"],
)  # fmt: skip
def test_functions_without_weights_see_the_rows_held_out_alone(scoring):
    by_loss = GradientBoostingRegressor(**AUTO).fit(X, Y)
    assert GradientBoostingRegressor(**AUTO, scoring=scoring).fit(X, Y).n_iter_ == by_loss.n_iter_


def test_columns_of_sparse_tables_are_not_drawn():
    """Those without enough entries to split a node are not even looked at."""
    entries = scipy.sparse.csr_array(np.where(X > 8, X, 0.0))
    model = GradientBoostingRegressor(**SMALL).fit(entries, Y)
    explicit = GradientBoostingRegressor(
        **SMALL, n_estimators=model.n_iter_, learning_rate=model.learning_rate_, subsample=0.8
    )
    assert explicit.fit(entries, Y).forest_.fingerprint() == model.forest_.fingerprint()


def test_large_tables_get_fewer_rounds():
    model = GradientBoostingRegressor()
    assert most_rounds(model, 1_000) == 2000 > most_rounds(model, 100_000) > 500
    assert most_rounds(model, 10**9) == 300


def test_evaluation_sets_decide_where_they_stop_the_training():
    model = GradientBoostingRegressor(**AUTO, early_stopping=True)
    model.fit(X[:400], Y[:400], eval_set=(X[400:], Y[400:]))
    assert model.stopped_ == "early stopping" and model.n_iter_ < 200


def test_models_are_saved_and_cloned(tmp_path):
    model = GradientBoostingRegressor(**SMALL).fit(X[:200], Y[:200])
    model.save(tmp_path / "model.gpuens")
    loaded = gpuens.load(tmp_path / "model.gpuens")
    assert (loaded.n_estimators, loaded.learning_rate_) == ("auto", model.learning_rate_)
    assert clone(loaded).fit(X[:200], Y[:200]).n_iter_ == model.n_iter_


def test_memory_is_planned_for_the_most_rounds():
    few, most = (
        gpuens.memory_plan(GradientBoostingRegressor(**SMALL, n_estimators=n), X, Y).total
        for n in (100, "auto")
    )
    assert most > few
    plan = gpuens.memory_plan(GradientBoostingRegressor(**AUTO), X, Y)
    assert plan.parts["trainings that hold rows out"] > 5 * N * 8


def test_ctrl_c_ends_the_search_but_not_the_training(monkeypatch):
    finish, calls = FoldRounds.finish, []

    def interrupted(self, started):
        calls.append(1)
        if len(calls) == 16:
            os.kill(os.getpid(), signal.SIGINT)
        return finish(self, started)

    monkeypatch.setattr(FoldRounds, "finish", interrupted)
    with pytest.warns(RuntimeWarning, match="3 rounds"):
        model = GradientBoostingRegressor(**AUTO).fit(X, Y)
    assert model.n_iter_ == 3 and model.forest_.n_trees == 3


def test_verbose_names_the_rounds(capsys):
    model = GradientBoostingRegressor(**AUTO, verbose=1).fit(X, Y)
    line = f"n_estimators='auto': {model.n_iter_} rounds, by the loss of rows held out"
    assert line in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_estimators": "many"}, "n_estimators must be 'auto' or an integer >= 1, got 'many'"),
        ({"learning_rate": "slow"}, "learning_rate must be a finite number > 0, 'auto', a seq"),
    ],
    ids=["another word", "another rate"],
)
def test_errors_say_what_to_do(settings, message):
    with pytest.raises(ValueError, match=message):
        GradientBoostingRegressor(**AUTO | settings).fit(X, Y)


def test_a_warm_start_needs_a_number():
    model = GradientBoostingRegressor(n_estimators=2, warm_start=True, **SMALL).fit(X, Y)
    with pytest.raises(ValueError, match="'auto' begins a model"):
        model.set_params(n_estimators="auto").fit(X, Y)


def test_a_search_has_no_model():
    with pytest.raises(RuntimeError, match="no model"):
        auto.no_model(None)


SHAPED: dict[str, Any] = {"device": "cpu", "random_state": 3}
FAST = SHAPED | {"learning_rate": 0.5}


@pytest.mark.parametrize(
    "policy", few(["lossguide", "depthwise", "symmetric", "auto"], "depthwise", "auto")
)
def test_the_shape_that_was_used_is_known(policy):
    model = GradientBoostingRegressor(**SHAPED, grow_policy=policy).fit(X, Y)
    shape = model.grow_policy_
    assert shape == policy or (policy == "auto" and shape in ("lossguide", "symmetric"))
    same = GradientBoostingRegressor(
        **SHAPED, n_estimators=model.n_iter_, learning_rate=model.learning_rate_, subsample=0.8,
        colsample_bynode=0.6, grow_policy=shape, min_samples_leaf=1 if shape == "symmetric" else 10,
    )  # fmt: skip
    assert same.fit(X, Y).forest_.fingerprint() == model.forest_.fingerprint()


@pytest.mark.slow
def test_other_limits_of_trees_are_obeyed():
    for more in ({"max_depth": 3}, {"max_leaf_nodes": 8}):
        assert GradientBoostingRegressor(**SHAPED | more).fit(X, Y).grow_policy_ == "lossguide"


def test_a_number_of_rows_in_a_leaf_is_obeyed():
    rows = np.random.default_rng(1).normal(size=(300, 3))
    smooth = np.sin(rows[:, 0]) + rows[:, 1] * rows[:, 2]
    for settings in ({}, {"grow_policy": "symmetric"}):
        model = GradientBoostingRegressor(**FAST, min_samples_leaf=20, **settings)
        forest = model.fit(rows, smooth).forest_
        assert model.grow_policy_ == "symmetric" and forest.n_samples[forest.left < 0].min() >= 20
    fixed = {**SHAPED, "n_estimators": 5, "grow_policy": "symmetric"}
    ten = GradientBoostingRegressor(**fixed, min_samples_leaf=10).fit(rows, smooth)
    by_default = GradientBoostingRegressor(**fixed).fit(rows, smooth)
    assert by_default.forest_.fingerprint() == ten.forest_.fingerprint()


@pytest.mark.slow
def test_few_rows_decide_between_shapes_and_all_parts_the_rounds():
    """The model is that of a search with its shape alone."""
    rows = np.random.default_rng(1).normal(size=(800, 4))
    smooth = np.sin(rows[:, 0]) + rows[:, 1] * rows[:, 2]
    model = GradientBoostingRegressor(**FAST).fit(rows, smooth)
    alone = GradientBoostingRegressor(**FAST, grow_policy=model.grow_policy_).fit(rows, smooth)
    assert model.forest_.fingerprint() == alone.forest_.fingerprint()


def test_what_cannot_catch_up_is_given_up():
    scores = -1.0 / np.arange(1.0, 400.0)  # which half of the distance to 0 is left by a doubling
    for rival, expected in ((-0.002, 398), (0.02, 50), (math.nan, 398)):
        stopping = CatchingUp(50, 0.0, True, rival)
        ended = [stopping.update(i, value) for i, value in enumerate(scores)]
        assert (ended.index(True) if True in ended else 398) == expected
    stopping = CatchingUp(50, 0.0, False)
    assert [stopping.update(i, float(i)) for i in range(51)].index(True) == 50


@pytest.mark.slow
def test_rows_held_out_decide_between_shapes():
    rows = np.random.default_rng(1).normal(size=(600, 6))
    smooth = np.sin(rows[:, 0]) + rows[:, 1] * rows[:, 2]
    model = GradientBoostingRegressor(**SHAPED).fit(rows, smooth)
    assert model.grow_policy_ == "symmetric"
    assert GradientBoostingRegressor(**SHAPED, n_estimators=5).fit(rows, smooth).n_iter_ == 5


@pytest.mark.slow
def test_a_search_that_goes_on_takes_the_round_that_it_had_asked_for(monkeypatch):
    """As on a GPU, where models grow together and a round begins before the last one is known."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 4))
    target = np.where(rows[:, 0] > 0.5, 3.0 * (rows[:, 1] > 0), 2.0 * (rows[:, 2] > 0.2))
    target += 0.3 * rng.normal(size=400)
    models = [GradientBoostingRegressor(learning_rate=0.1, random_state=i) for i in range(6)]
    search, runs_ahead = auto.rounds_for, False

    def leaf_wise_is_better(folds, metric, most, rival, _):
        found = search(folds, metric, most, rival, runs_ahead)
        is_symmetric = folds[0].rounds.training.settings.params.is_symmetric
        return found._replace(score=-1e9) if is_symmetric else found

    monkeypatch.setattr(auto, "PATIENCE", 2)
    monkeypatch.setattr(auto, "rounds_for", leaf_wise_is_better)
    alone = [clone(model).fit(rows, target) for model in models]
    monkeypatch.setattr(auto, "joins_on_gpu", can_meet)
    runs_ahead = True
    together = run_together([partial(model.fit, rows, target) for model in models], len(models))
    for own, other in zip(together, alone, strict=True):
        assert own.forest_.fingerprint() == other.forest_.fingerprint()
