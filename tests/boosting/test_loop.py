"""The course of a training: early stopping, warm start, callbacks, Ctrl-C."""

from __future__ import annotations

import functools
import io
import math
import os
import signal
import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score, log_loss, make_scorer, mean_absolute_error

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor, load
from gpuens.callbacks import Checkpoint, EvaluationLog, ProgressBar
from gpuens.estimators.validation import EarlyStopping
from gpuens.inputs.binning import Binner
from gpuens.kernels.growth.cpu import grow
from gpuens.kernels.runtime.cpu import team

BOTH = (GradientBoostingRegressor, GradientBoostingClassifier)
FOREVER = 1_000_000


@functools.cache
def table(n=400):
    """Features, a noisy target, that target as three classes."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3))
    y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.5 * rng.normal(size=n)
    return X, y, np.digitize(y, [-0.5, 0.5])


def data_for(cls):
    X, y, c = table()
    return X, (c if cls is GradientBoostingClassifier else y)


def fingerprint(model):
    return model.forest_.fingerprint()


class At:
    """Calls a function after one round."""

    def __init__(self, iteration, action):
        self.iteration = iteration
        self.action = action

    def after_iteration(self, state):
        if state.iteration == self.iteration:
            return self.action(state)


class TestEarlyStoppingRule:
    def test_patience_and_best(self):
        rule = EarlyStopping(patience=2, tol=0.0, higher_is_better=True)
        assert [rule.update(i, v) for i, v in enumerate([1, 3, 2, 4, 4, 3])] == [0, 0, 0, 0, 0, 1]
        assert rule.best_iteration == 3

    def test_improvements_below_the_tolerance_do_not_count_but_are_kept(self):
        rule = EarlyStopping(patience=2, tol=0.5, higher_is_better=False)
        assert [rule.update(i, v) for i, v in enumerate([5.0, 4.8, 4.7])] == [0, 0, 1]
        assert rule.best_iteration == 2

    def test_nan_is_never_an_improvement_on_a_number(self):
        rule = EarlyStopping(patience=2, tol=0.0, higher_is_better=False)
        assert [rule.update(i, v) for i, v in enumerate([1.0, math.nan, math.nan])] == [0, 0, 1]
        assert rule.best_iteration == 0


class TestEarlyStopping:
    SETTINGS = {"n_estimators": 500, "learning_rate": 0.5, "n_iter_no_change": 5}

    @pytest.mark.parametrize("cls", BOTH)
    def test_rows_held_out(self, cls):
        X, y = data_for(cls)
        model = cls(**self.SETTINGS, early_stopping=True).fit(X, y)
        loss = model.evals_result_["validation"]["loss"]
        assert model.stopped_ == "early stopping" and model.do_early_stopping_
        assert model.n_iter_ == int(np.argmin(loss)) > 0
        assert len(loss) == model.n_iter_ + 5 + 1
        assert model.forest_.n_trees == model.n_iter_ * model.n_trees_per_iteration_
        np.testing.assert_array_equal(model.validation_score_, -np.array(loss))

    @pytest.mark.parametrize("cls", BOTH)
    def test_trees_after_the_best_round_are_dropped(self, cls):
        X, y = data_for(cls)
        model = cls(**self.SETTINGS).fit(X[:300], y[:300], eval_set=(X[300:], y[300:]))
        assert model.stopped_ == "finished" and model.n_iter_ == 500  # not asked to stop
        stopped = clone(model).set_params(early_stopping=True)
        stopped.fit(X[:300], y[:300], eval_set=(X[300:], y[300:]))
        assert 0 < stopped.n_iter_ < 100
        shorter = clone(model).set_params(n_estimators=stopped.n_iter_).fit(X[:300], y[:300])
        assert fingerprint(stopped) == fingerprint(shorter)

    def test_recorded_losses_are_those_of_the_predictions(self):
        X, _, c = table()
        model = GradientBoostingClassifier(n_estimators=8)
        weight = np.linspace(0, 1, 100)
        model.fit(X[:300], c[:300], eval_set=[(X[300:], c[300:])], eval_sample_weight=[weight])
        expected = [
            log_loss(c[300:], proba, sample_weight=weight)
            for proba in model.staged_predict_proba(X[300:])
        ]
        np.testing.assert_allclose(model.evals_result_["validation_0"]["loss"][1:], expected)

    def test_the_squared_error_is_halved(self):
        X, y, _ = table()
        model = GradientBoostingRegressor(n_estimators=3).fit(X, y, eval_set=(X, y))
        expected = [0.5 * np.mean((y - p) ** 2) for p in model.staged_predict(X)]
        np.testing.assert_allclose(model.evals_result_["validation_0"]["loss"][1:], expected)

    def test_several_sets_and_the_first_one_decides(self):
        X, _, c = table()
        model = GradientBoostingClassifier(**self.SETTINGS, early_stopping=True)
        sets = [(X[300:], c[300:]), (X[:300], c[:300])]
        model.fit(X[:300], c[:300], eval_set=sets)
        assert list(model.evals_result_) == ["validation_0", "validation_1"]
        assert model.n_iter_ == np.argmin(model.evals_result_["validation_0"]["loss"]) < 100
        assert np.argmin(model.evals_result_["validation_1"]["loss"]) > model.n_iter_

    def test_several_metrics_and_the_first_one_decides(self):
        X, _, c = table()
        scoring = ["accuracy", "loss", "roc_auc_ovr", make_scorer(accuracy_score), count_rows]
        model = GradientBoostingClassifier(**self.SETTINGS, early_stopping=True, scoring=scoring)
        model.fit(X[:300], c[:300], eval_set=(X[300:], c[300:]))
        evals = model.evals_result_["validation_0"]
        assert list(evals)[:3] == ["accuracy", "loss", "roc_auc_ovr"] and len(evals) == 5
        assert model.n_iter_ == max(1, np.argmax(evals["accuracy"]))
        assert evals["count_rows"] == [100.0] * len(evals["loss"])
        accuracy = [accuracy_score(c[300:], p) for p in model.staged_predict(X[300:])]
        np.testing.assert_array_equal(evals["accuracy"][1 : model.n_iter_ + 1], accuracy)
        np.testing.assert_array_equal(model.validation_score_, evals["accuracy"])

    def test_metrics_of_the_same_name(self):
        X, y, _ = table()
        scoring = [lambda model, X, y: 1.0, lambda model, X, y: 2.0, "loss", "loss"]
        model = GradientBoostingRegressor(n_estimators=1, scoring=scoring, warm_start=True)
        for n in (1, 2):
            model.set_params(n_estimators=n).fit(X, y, eval_set=(X, y))
            evals = model.evals_result_["validation_0"]
            assert list(evals) == ["<lambda>", "<lambda> #2", "loss", "loss #2"]
            assert [values[-1] for values in evals.values()][:2] == [1.0, 2.0]
            assert [len(values) for values in evals.values()] == [n + 1] * 4

    def test_metrics_of_text_labels(self):
        X, _, c = table()
        y = np.array(["no", "yes"])[(c > 0).astype(int)]
        scoring = ["accuracy", "roc_auc", "average_precision", "neg_log_loss", "neg_brier_score"]
        scorer = make_scorer(log_loss, response_method="predict_proba", labels=["no", "yes"])
        model = GradientBoostingClassifier(n_estimators=3, scoring=["loss", *scoring[:2], scorer])
        model.fit(X, y, eval_set=(X, y))
        *_, own = evals = model.evals_result_["validation_0"].values()
        np.testing.assert_allclose(own, next(iter(evals)))

    def test_metrics_of_a_regression_with_weights(self):
        X, y, _ = table()
        weight = np.tile([1.0, 3.0], 200)
        metrics = ["neg_mean_absolute_error", "r2"]
        model = GradientBoostingRegressor(n_estimators=3, scoring=metrics)
        model.fit(X, y, eval_set=(X, y), eval_sample_weight=weight)
        evals, p = model.evals_result_["validation_0"], model.predict(X)
        assert evals["neg_mean_absolute_error"][-1] == pytest.approx(
            -mean_absolute_error(y, p, sample_weight=weight)
        )
        assert evals["r2"][-1] == pytest.approx(model.score(X, y, weight))

    def test_auto(self, monkeypatch):
        X, y, _ = table()
        model = GradientBoostingRegressor(n_estimators=3, early_stopping="auto")
        assert not model.fit(X, y).do_early_stopping_ and model.evals_result_ == {}
        assert model.validation_score_.size == 0
        assert model.fit(X, y, eval_set=(X, y)).do_early_stopping_
        monkeypatch.setattr("gpuens.boosting.data.reading.AUTO_EARLY_STOPPING_ROWS", 399)
        assert list(model.fit(X, y).evals_result_) == ["validation"]

    @pytest.mark.parametrize("cls", BOTH)
    def test_on_the_training_rows(self, cls):
        X, y = data_for(cls)
        model = cls(n_estimators=500, early_stopping=True, validation_fraction=None, tol=1e-2)
        model.fit(X, y)
        assert model.stopped_ == "early stopping" and model.forest_.n_samples[0] == len(X)
        assert len(model.evals_result_["training"]["loss"]) > model.n_iter_ > 10

    @pytest.mark.parametrize("fraction, n_train", [(0.25, 300), (40, 360)])
    def test_size_of_the_held_out_part(self, fraction, n_train):
        X, y, _ = table()
        model = GradientBoostingRegressor(
            n_estimators=2, early_stopping=True, validation_fraction=fraction
        ).fit(X, y)
        assert model.forest_.n_samples[0] == n_train

    def test_rows_of_weight_zero_are_not_held_out(self):
        X, y, _ = table()
        weight = np.r_[np.zeros(360), np.ones(40)]
        model = GradientBoostingRegressor(n_estimators=2, early_stopping=True, min_samples_leaf=1)
        model.fit(X, y, weight)
        assert model.forest_.n_samples[0] == 36
        assert np.isfinite(model.evals_result_["validation"]["loss"]).all()

    def test_classes_are_held_out_in_proportion(self):
        X, _, _ = table()
        y = (np.arange(400) % 20 == 0).astype(int)
        model = GradientBoostingClassifier(n_estimators=1, early_stopping=True)
        model.fit(X, y)
        np.testing.assert_allclose(model.forest_.base, np.log(0.05 / 0.95))

    def test_more_classes_than_rows_can_be_held_out(self):
        X = np.arange(30.0)[:, None]
        model = GradientBoostingClassifier(n_estimators=2, early_stopping=True)
        assert len(model.fit(X, np.arange(30)).classes_) == 30

    def test_no_round_improves(self):
        X, y, _ = table()
        noise = np.random.default_rng(0).normal(size=400)
        model = GradientBoostingRegressor(**self.SETTINGS, early_stopping=True)
        model.fit(X, y, eval_set=(X, noise))
        assert model.n_iter_ == 1 and len(model.evals_result_["validation_0"]["loss"]) == 6


def count_rows(estimator, X, y):
    return float(len(estimator.predict(X)))


class TestWarmStart:
    @pytest.mark.parametrize("cls", BOTH)
    @pytest.mark.parametrize("settings", [
        {}, {"subsample": 0.7, "colsample_bytree": 0.7, "colsample_bynode": 0.7},
        {"max_leaf_nodes": None, "max_depth": 3},
    ])  # fmt: skip
    def test_in_steps_as_in_one_go(self, cls, settings):
        X, y = data_for(cls)
        weight = np.random.default_rng(0).random(400)
        whole = cls(n_estimators=12, **settings).fit(X, y, weight)
        model = cls(n_estimators=1, warm_start=True, **settings)
        for n in (1, 5, 5, 12):
            model.set_params(n_estimators=n).fit(X, y, weight)
            assert model.n_iter_ == n
        assert fingerprint(model) == fingerprint(whole)

    def test_a_random_state_is_asked_once(self):
        X, y, _ = table()
        settings = {"subsample": 0.5, "warm_start": True}
        whole = GradientBoostingRegressor(
            n_estimators=6, random_state=np.random.RandomState(5), **settings
        ).fit(X, y)
        model = GradientBoostingRegressor(
            n_estimators=3, random_state=np.random.RandomState(5), **settings
        ).fit(X, y)
        model.set_params(n_estimators=6).fit(X, y)
        assert fingerprint(model) == fingerprint(whole)

    def test_fewer_rounds(self):
        X, y, _ = table()
        model = GradientBoostingRegressor(n_estimators=5, warm_start=True).fit(X, y)
        with pytest.raises(ValueError, match=r"n_estimators=4 must be larger or equal to the 5"):
            model.set_params(n_estimators=4).fit(X, y)
        assert model.n_iter_ == 5
        model.set_params(warm_start=False).fit(X, y)
        assert model.n_iter_ == 4

    def test_other_classes_and_features(self):
        X, _, c = table()
        model = GradientBoostingClassifier(n_estimators=2, warm_start=True).fit(X, c)
        with pytest.raises(ValueError, match=r"does not know: \[3\]\. It was trained on \[0, 1, 2"):
            model.fit(X, c + 1)
        with pytest.raises(ValueError, match="X has 2 features, but .* is expecting 3"):
            model.fit(X[:, :2], c)
        model.set_params(n_estimators=3).fit(X[c > 0], c[c > 0])  # a class may be absent
        assert model.predict_proba(X).shape == (400, 3) and model.n_iter_ == 3

    def test_metrics_are_carried_on(self):
        X, y, _ = table()
        sets = [(X[300:], y[300:]), (X[:300], y[:300])]
        settings = {"scoring": ["loss", "r2"]}
        whole = GradientBoostingRegressor(n_estimators=9, **settings)
        whole.fit(X[:300], y[:300], eval_set=sets)
        model = GradientBoostingRegressor(n_estimators=4, warm_start=True, **settings)
        model.fit(X[:300], y[:300], eval_set=sets)
        model.set_params(n_estimators=9).fit(X[:300], y[:300], eval_set=sets)
        assert model.evals_result_ == whole.evals_result_
        model.set_params(n_estimators=10).fit(X[:300], y[:300], eval_set=sets[1:])
        assert len(model.evals_result_["validation_0"]["loss"]) == 2  # of another set

    def test_early_stopping_goes_on_as_if_never_left(self):
        X, y, _ = table()
        settings = {"learning_rate": 0.5, "n_iter_no_change": 5, "early_stopping": True}
        whole = GradientBoostingRegressor(n_estimators=100, **settings).fit(X, y)
        assert whole.stopped_ == "early stopping"
        for left_at in range(1, whole.n_iter_ + 6):
            model = GradientBoostingRegressor(n_estimators=100, **settings)
            checkpoints = []
            stop = At(left_at, lambda state, kept=checkpoints: kept.append(state.model()) or True)
            model.set_params(callbacks=[stop]).fit(X, y)
            resumed = checkpoints[0].set_params(warm_start=True).fit(X, y)
            assert fingerprint(resumed) == fingerprint(whole)
            assert resumed.evals_result_ == whole.evals_result_
            assert resumed.stopped_ == "early stopping"


class TestCallbacks:
    def test_what_they_see(self):
        X, y, _ = table()
        seen = []

        class Witness:
            def after_iteration(self, state):
                seen.append(
                    (state.iteration, state.n_iterations, state.first_iteration,
                     len(state.evals["validation_0"]["loss"]), state.forest().n_trees)
                )  # fmt: skip
                model = state.model()
                assert model.n_iter_ == state.iteration and model.callbacks is None
                assert fingerprint(model) == state.forest().fingerprint()
                assert model.evals_result_ == state.evals
                assert model.evals_result_ is not state.evals

        model = GradientBoostingRegressor(n_estimators=3, warm_start=True, callbacks=[Witness()])
        model.fit(X, y, eval_set=(X, y))
        assert seen == [(1, 3, 0, 2, 1), (2, 3, 0, 3, 2), (3, 3, 0, 4, 3)]
        model.set_params(n_estimators=4).fit(X, y, eval_set=(X, y))
        assert seen[3:] == [(4, 4, 3, 5, 4)]

    @pytest.mark.parametrize("cls", BOTH)
    def test_a_true_result_stops(self, cls):
        X, y = data_for(cls)
        others = []
        last = At(4, lambda state: others.append(state.iteration))
        model = cls(n_estimators=50, callbacks=[At(4, lambda state: np.True_), last]).fit(X, y)
        assert model.stopped_ == "callback" and model.n_iter_ == 4
        assert others == [4]  # the others are called too
        assert fingerprint(model) == fingerprint(cls(n_estimators=4).fit(X, y))

    def test_progress_bar(self):
        X, y, _ = table()
        out = io.StringIO()
        callbacks = [ProgressBar(out), At(2, lambda state: True)]
        GradientBoostingRegressor(n_estimators=4, callbacks=callbacks).fit(X, y, eval_set=(X, y))
        lines = out.getvalue().splitlines()
        assert [line[:9] for line in lines[:-1]] == [" 25 % 1/4", " 50 % 2/4"]
        assert ", 0.0 s left  validation_0 loss 0." in lines[1]
        assert lines[-1] == "Ended after 2 of 4 rounds: callback."

    def test_verbose(self, capsys):
        X, y, _ = table()
        model = GradientBoostingRegressor(n_estimators=3, verbose=1).fit(X, y)
        assert "3/3" in capsys.readouterr().err
        assert len(model.evals_result_["training"]["loss"]) == 4
        assert model.validation_score_.size == 0
        GradientBoostingRegressor(n_estimators=3).fit(X, y)
        assert capsys.readouterr() == ("", "")

    def test_verbose_says_what_was_chosen_and_why_it_ended(self, capsys):
        X, y, _ = table()
        model = GradientBoostingRegressor(
            n_estimators=200, learning_rate=1.0, early_stopping=True, n_iter_no_change=3, verbose=1
        ).fit(X, y)
        first, *_, last = capsys.readouterr().err.splitlines()
        assert first.startswith("Running on cpu") and first.endswith(
            " At most 200 rounds: early stopping after 3 without improvement on validation."
        )
        ended = len(model.evals_result_["validation"]["loss"]) - 1
        assert model.n_iter_ < ended < 200
        assert last == (
            f"Ended after {ended} of 200 rounds: early stopping; the model keeps the first "
            f"{model.n_iter_}."
        )

    def test_evaluation_log(self, capsys):
        X, y, _ = table()
        model = GradientBoostingRegressor(n_estimators=5, callbacks=[EvaluationLog(2)])
        loss = model.fit(X, y, eval_set=(X, y)).evals_result_["validation_0"]["loss"]
        assert capsys.readouterr().out.splitlines() == [
            f"[{i}] validation_0 loss {loss[i]:.6g}" for i in (2, 4, 5)
        ]


class TestCheckpoint:
    @pytest.mark.parametrize("cls", BOTH)
    def test_training_goes_on_from_it(self, cls, tmp_path):
        X, y = data_for(cls)
        path = tmp_path / "model.gpuens"
        whole = cls(n_estimators=10, subsample=0.8).fit(X, y)
        callbacks = [Checkpoint(path, period=3), At(8, lambda state: True)]
        cls(n_estimators=10, subsample=0.8, callbacks=callbacks).fit(X, y)
        model = load(path)
        assert model.n_iter_ == 6 and model.stopped_ == "checkpoint"
        assert fingerprint(model) == fingerprint(cls(n_estimators=6, subsample=0.8).fit(X, y))
        model.set_params(warm_start=True).fit(X, y)
        assert fingerprint(model) == fingerprint(whole)
        np.testing.assert_array_equal(model.predict(X), whole.predict(X))

    def test_saved_after_the_last_round(self, tmp_path):
        X, y, _ = table()
        callbacks = [Checkpoint(str(tmp_path / "model"), period=3)]
        GradientBoostingRegressor(n_estimators=4, callbacks=callbacks).fit(X, y)
        assert load(tmp_path / "model").n_iter_ == 4
        assert [path.name for path in tmp_path.iterdir()] == ["model"]

    def test_the_old_one_stays_until_the_new_one_is_whole(self, tmp_path, monkeypatch):
        X, y, _ = table()
        path = tmp_path / "model"
        seen = []

        def replace(source, target):
            seen.append((load(path) if path.exists() else None).__class__)
            assert load(source).n_iter_ == len(seen)
            rename(source, target)

        rename = os.replace
        monkeypatch.setattr(os, "replace", replace)
        callbacks = [Checkpoint(path, period=1)]
        GradientBoostingRegressor(n_estimators=2, callbacks=callbacks).fit(X, y)
        assert seen == [type(None), GradientBoostingRegressor]

    def test_a_failing_save_leaves_the_old_one(self, tmp_path, monkeypatch):
        X, y, _ = table()
        path = tmp_path / "model"
        path.write_bytes(b"old")
        monkeypatch.setattr(os, "fsync", lambda number: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            GradientBoostingRegressor(callbacks=[Checkpoint(path, period=1)]).fit(X, y)
        assert path.read_bytes() == b"old"


@pytest.mark.skipif(os.name == "nt", reason="os.kill ends the process on Windows")
class TestInterrupt:
    @pytest.fixture(params=[1, 2], autouse=True)
    def settings(self, request, monkeypatch):
        monkeypatch.setattr(team, "MIN_WORK_PER_THREAD", 1)
        monkeypatch.setattr(grow, "MIN_CELLS_PER_THREAD", 1)
        return {"n_jobs": request.param, "n_estimators": FOREVER}

    @pytest.mark.parametrize("cls", BOTH)
    def test_from_a_callback(self, cls, settings):
        X, y = data_for(cls)
        interrupt = At(3, lambda state: os.kill(os.getpid(), signal.SIGINT))
        model = cls(**settings, callbacks=[interrupt])
        with pytest.warns(RuntimeWarning, match="keeps the 3 rounds") as caught:
            model.fit(X, y)
        assert caught[0].filename == __file__
        assert model.stopped_ == "interrupted" and model.n_iter_ == 3
        assert fingerprint(model) == fingerprint(cls(n_estimators=3).fit(X, y))
        model.predict(X)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    @pytest.mark.parametrize("cls", BOTH)
    def test_in_the_middle_of_the_work(self, cls, settings):
        X, y = data_for(cls)
        started = threading.Event()

        def press():
            started.wait()
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=press)
        thread.start()
        model = cls(**settings, callbacks=[At(2, lambda state: started.set())])
        with pytest.warns(RuntimeWarning, match="Training was interrupted"):
            model.fit(X, y, eval_set=(X, y))
        thread.join()
        n = model.n_iter_
        assert n >= 2 and len(model.evals_result_["validation_0"]["loss"]) == n + 1
        whole = cls(n_estimators=n).fit(X, y, eval_set=(X, y))
        assert fingerprint(model) == fingerprint(whole)
        assert model.evals_result_ == whole.evals_result_
        model.set_params(warm_start=True, n_estimators=n + 2, callbacks=None).fit(X, y)
        assert fingerprint(model) == fingerprint(cls(n_estimators=n + 2).fit(X, y))

    def test_with_early_stopping_all_finished_rounds_stay(self, settings):
        X, y, _ = table()
        interrupt = At(4, lambda state: os.kill(os.getpid(), signal.SIGINT))
        model = GradientBoostingRegressor(**settings, early_stopping=True, callbacks=[interrupt])
        with pytest.warns(RuntimeWarning, match="keeps the 4 rounds"):
            model.fit(X, y, eval_set=(X, np.zeros(400)))
        assert model.n_iter_ == 4

    def test_before_the_first_round_there_is_nothing_to_keep(self, settings, monkeypatch):
        X, y, _ = table()

        def interrupt(*args):
            os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr("gpuens.boosting.steps.plain.draw_rows", interrupt)
        model = GradientBoostingRegressor(**settings)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
        assert not hasattr(model, "forest_")


def test_ctrl_c_while_a_forest_is_frozen_leaves_the_trees_whole(monkeypatch):
    X, y, _ = table()
    settings = {"max_leaf_nodes": 4, "early_stopping": False}
    expected = GradientBoostingRegressor(n_estimators=2, **settings).fit(X, y)
    numbers, n_calls = Binner.numbers, []

    def interrupted(self, features):
        n_calls.append(1)
        if len(n_calls) == 2:
            raise KeyboardInterrupt
        return numbers(self, features)

    monkeypatch.setattr(Binner, "numbers", interrupted)
    stop = [lambda state: bool(state.forest().n_trees > 9)]
    model = GradientBoostingRegressor(n_estimators=100, callbacks=stop)
    with pytest.warns(RuntimeWarning, match="2 rounds"):
        model.set_params(**settings).fit(X, y)
    assert model.forest_.fingerprint() == expected.forest_.fingerprint()
