"""What happens while forests grow: out-of-bag estimates, warm starts, progress, Ctrl-C, memory."""

from __future__ import annotations

import os
import signal
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.metrics import balanced_accuracy_score, mean_squared_error
from sklearn.model_selection import train_test_split

from gpuens import RandomForestClassifier, RandomForestRegressor
from gpuens.forests import estimator as forest_estimator
from gpuens.forests import growing
from gpuens.forests.growing import ForestGrower
from gpuens.forests.out_of_bag import ForestReport
from gpuens.members.out_of_bag import OutOfBagTrees
from tests.forests.test_forests import (
    ALL,
    REGRESSORS,
    bagged,
    data_for,
    fingerprint,
    forests,
    several_outputs,
)


class TestOutOfBag:
    @staticmethod
    def by_hand(model: Any, X: np.ndarray, trees: int) -> np.ndarray:
        """The mean over the trees that have not seen a row; NaN without one."""
        n = len(X)
        sums, seen = 0, np.zeros(n)
        for tree, rows in list(zip(model.estimators_, model.estimators_samples_, strict=True))[
            :trees
        ]:
            out = ~np.isin(np.arange(n), rows)
            values = tree.predict_proba(X) if is_classifier(tree) else tree.predict(X)
            values = np.stack(values, axis=2) if isinstance(values, list) else values
            sums = sums + values * out.reshape(-1, *[1] * (values.ndim - 1))
            seen += out
        with np.errstate(invalid="ignore"):
            return np.asarray(sums) / seen.reshape(-1, *[1] * (np.ndim(sums) - 1))

    @staticmethod
    def error(mean: np.ndarray, y: np.ndarray) -> float:
        if mean.ndim > y.ndim:  # shares of classes
            return float((mean.argmax(axis=1) != y).mean())
        return mean_squared_error(y, mean)

    @pytest.mark.parametrize("settings", [
        {}, {"max_samples": 0.5}, {"ccp_alpha": 0.02}, {"min_samples_leaf": 9}, {"max_bins": None},
    ], ids=str)  # fmt: skip
    @pytest.mark.parametrize("cls", [*ALL])
    def test_by_definition(self, cls, settings):
        X, y = data_for(cls)
        settings = (
            {"ccp_alpha": 30.0} if "ccp_alpha" in settings and cls in REGRESSORS else settings
        )
        model = cls(40, bootstrap=True, oob_score=True, **settings).fit(X, y)
        expected = self.by_hand(model, X, 40)
        if is_classifier(model):
            np.testing.assert_allclose(model.oob_decision_function_, expected)
            right = model.classes_[expected.argmax(axis=1)] == y
            assert model.oob_score_ == right.mean() > 0.9
        else:
            np.testing.assert_allclose(model.oob_prediction_, expected)
            np.testing.assert_allclose(
                model.oob_score_, 1 - self.error(expected, y) / y.var(), 1e-12
            )
            assert model.oob_score_ > 0.3
        assert model.oob_scores_path_.shape == (40,)
        for trees in (20, 40):
            error = self.error(self.by_hand(model, X, trees), y)
            np.testing.assert_allclose(model.oob_scores_path_[trees - 1], error)

    @pytest.mark.parametrize("cls", [RandomForestClassifier, RandomForestRegressor])
    def test_several_outputs(self, cls):
        X, y = several_outputs(cls)
        if is_classifier(cls()):
            y[:, 1] += y[:, 0] == 2
        model = cls(40, oob_score=True).fit(X, y)
        expected = self.by_hand(model, X, 40)
        if is_classifier(model):
            assert model.oob_decision_function_.shape == (len(y), 3, 2)
            np.testing.assert_allclose(model.oob_decision_function_, expected)
            assert model.oob_score_ == (expected.argmax(axis=1) == y).all(axis=1).mean()
        else:
            np.testing.assert_allclose(model.oob_prediction_, expected)

    def test_outputs_with_different_numbers_of_classes(self):
        X, y = several_outputs(RandomForestClassifier)
        model = RandomForestClassifier(40, oob_score=True).fit(X, y)
        shapes = [share.shape for share in model.oob_decision_function_]
        assert shapes == [(len(y), 3), (len(y), 2)] and model.oob_score_ > 0.9

    @bagged
    def test_rows_that_are_in_every_sample(self, cls):
        X, y = data_for(cls)
        with pytest.warns(UserWarning, match="Some inputs do not have OOB scores") as caught:
            model = cls(2, oob_score=True).fit(X, y)
        assert caught[0].filename == __file__
        expected = self.by_hand(model, X, 2)
        found = getattr(
            model, "oob_decision_function_" if is_classifier(model) else "oob_prediction_"
        )
        assert np.isnan(found).any()
        np.testing.assert_allclose(found, expected)
        seen = ~np.isnan(expected.reshape(len(y), -1)[:, 0])
        error = self.error(expected[seen], y[seen])
        np.testing.assert_allclose(model.oob_scores_path_[-1], error)

    def test_a_metric_of_ones_own(self):
        X, y = load_wine(return_X_y=True)
        model = RandomForestClassifier(40, oob_score=balanced_accuracy_score).fit(X, y)
        predicted = model.oob_decision_function_.argmax(axis=1)
        assert model.oob_score_ == balanced_accuracy_score(y, predicted)
        X, y = load_diabetes(return_X_y=True)
        model = RandomForestRegressor(40, oob_score=mean_squared_error).fit(X, y)
        assert model.oob_score_ == mean_squared_error(y, model.oob_prediction_)

    def test_it_follows_the_error_on_new_rows(self):
        X, y = load_breast_cancer(return_X_y=True)
        Xa, Xb, ya, yb = train_test_split(X, y, random_state=0, test_size=0.5)
        model = RandomForestClassifier(100, oob_score=True).fit(Xa, ya)
        assert abs(model.oob_score_ - model.score(Xb, yb)) < 0.03
        assert model.score(Xa, ya) == 1.0
        assert model.oob_scores_path_[-1] < model.oob_scores_path_[:3].max()

    @bagged
    def test_old_results_do_not_stay(self, cls):
        X, y = data_for(cls)
        model = cls(40, oob_score=True).fit(X, y)
        model.set_params(oob_score=False).fit(X, y)
        assert not [name for name in vars(model) if name.startswith("oob_") and name[-1] == "_"]


class TestWarmStart:
    @pytest.mark.parametrize("settings", [
        {}, {"oob_score": True, "bootstrap": True}, {"ccp_alpha": 0.05, "max_bins": None},
        {"max_features": 2, "random_state": 5},
    ], ids=str)  # fmt: skip
    @forests
    def test_equals_one_go(self, cls, settings):
        X, y = data_for(cls)
        whole = cls(30, **settings).fit(X, y)
        model = cls(warm_start=True, **settings)
        for n in (4, 5, 30):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Some inputs do not have OOB")
                model.set_params(n_estimators=n).fit(X, y)
            assert len(model.estimators_) == n
        assert fingerprint(model) == fingerprint(whole)
        np.testing.assert_array_equal(model.estimators_samples_, whole.estimators_samples_)
        if "oob_score" in settings:
            assert model.oob_score_ == whole.oob_score_
            np.testing.assert_array_equal(model.oob_scores_path_, whole.oob_scores_path_)

    @forests
    def test_the_seed_of_the_first_fit_goes_on(self, cls):
        X, y = data_for(cls)
        state = np.random.RandomState(3)
        model = cls(3, warm_start=True, random_state=state).fit(X, y)
        first = fingerprint(model)
        model.set_params(n_estimators=6).fit(X, y)
        assert model.forest_.slice(0, 3).fingerprint() == first
        assert len({tree.forest_.fingerprint() for tree in model.estimators_}) == 6

    @forests
    def test_without_new_trees(self, cls):
        X, y = data_for(cls)
        model = cls(30, warm_start=True, bootstrap=True).fit(X, y)
        before = fingerprint(model)
        with pytest.warns(UserWarning, match="without increasing n_estimators") as caught:
            model.set_params(oob_score=True).fit(X, y)
        assert caught[0].filename == __file__ and fingerprint(model) == before
        assert model.oob_score_ == cls(30, oob_score=True, bootstrap=True).fit(X, y).oob_score_

    def test_no_warm_start_begins_anew(self):
        X, y = load_wine(return_X_y=True)
        model = RandomForestClassifier(3).fit(X, y)
        model.set_params(n_estimators=2).fit(X[:, :4], y > 0)
        assert len(model) == 2 and model.n_features_in_ == 4 and model.n_classes_ == 2


class TestProgress:
    @forests
    def test_a_line_on_stderr(self, cls, capsys):
        X, y = data_for(cls)
        model = cls(12, verbose=1).fit(X, y)
        out, err = capsys.readouterr()
        assert out == "" and err.splitlines()[-1].startswith("100 % 12/12 ")
        model.set_params(warm_start=True, n_estimators=15).fit(X, y)
        assert " 15/15 " in capsys.readouterr().err
        assert fingerprint(model) == fingerprint(cls(15).fit(X, y))

    @forests
    def test_silence(self, cls, capsys):
        X, y = data_for(cls)
        cls(3).fit(X, y)
        assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(os.name == "nt", reason="os.kill ends the process on Windows")
class TestInterrupt:
    """Ctrl-C after a few trees, pressed where the out-of-bag sums are added or trees are drawn."""

    @pytest.fixture(autouse=True)
    def small_batches(self, monkeypatch):
        monkeypatch.setattr("gpuens.trees.growth.BATCH_BYTES", 1)

    @staticmethod
    def press_at(monkeypatch, owner: type, name: str, call: int) -> None:
        """Press before a certain call of a method."""
        original, calls = getattr(owner, name), [0]

        def wrapped(*args: Any) -> Any:
            calls[0] += 1
            if calls[0] == call:
                os.kill(os.getpid(), signal.SIGINT)
            return original(*args)

        monkeypatch.setattr(owner, name, wrapped)

    @pytest.mark.parametrize("owner, name", [
        (ForestGrower, "records"), (OutOfBagTrees, "add"), (ForestReport, "__call__"),
    ])  # fmt: skip
    @pytest.mark.parametrize("cls, settings", [
        *((cls, {}) for cls in ALL),
        (RandomForestClassifier, {"class_weight": "balanced_subsample"}),
    ])  # fmt: skip
    def test_finished_trees_stay(self, cls, settings, owner, name, monkeypatch):
        X, y = data_for(cls)
        settings = {"bootstrap": True, "oob_score": True, "n_jobs": 1, **settings}
        with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.press_at(patch, owner, name, 12)
            model = cls(10_000, **settings).fit(X, y)
        n = len(model)
        assert 11 <= n <= 13
        told = [w for w in caught if "interrupted" in str(w.message)]
        assert len(told) == 1 and told[0].filename == __file__
        assert f"keeps the {n} trees" in str(told[0].message)
        assert len(model.oob_scores_path_) == n
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Some inputs do not have OOB")
            whole = cls(n, **settings).fit(X, y)
            assert fingerprint(model) == fingerprint(whole)
            np.testing.assert_array_equal(model.oob_scores_path_, whole.oob_scores_path_)
            model.set_params(warm_start=True, n_estimators=n + 2).fit(X, y)
            assert fingerprint(model) == fingerprint(cls(n + 2, **settings).fit(X, y))

    @forests
    def test_before_the_first_tree_there_is_nothing_to_keep(self, cls, monkeypatch):
        X, y = data_for(cls)
        with monkeypatch.context() as patch:
            self.press_at(patch, ForestGrower, "records", 1)
            model = cls(50)
            with pytest.raises(KeyboardInterrupt):
                model.fit(X, y)
        assert not hasattr(model, "forest_") and not hasattr(model, "classes_")


class TestMemory:
    @forests
    def test_a_forest_that_cannot_fit_is_refused_before_it_grows(self, cls, monkeypatch):
        X, y = data_for(cls)
        monkeypatch.setattr(growing, "available_memory", lambda: 5 * 2**20)
        monkeypatch.setattr(growing, "grow_forest", lambda *args, **more: pytest.fail("grows"))
        with pytest.raises(MemoryError, match=(
            r"A forest of 100000 trees with up to \d+ leaves each takes about [0-9.]+ [GM]iB, "
            r"5 MiB are free. Grow fewer trees \(n_estimators\), or smaller ones"
        )):  # fmt: skip
            cls(100_000).fit(X, y)

    @forests
    def test_one_that_turns_out_too_large_is_refused_after_the_first_trees(self, cls, monkeypatch):
        X, y = data_for(cls)
        monkeypatch.setattr(growing, "LIKELY_SHARE", 0.0)
        monkeypatch.setattr(growing, "available_memory", lambda: 2**20)
        with pytest.raises(MemoryError, match=r"trees with about \d+ nodes each takes about"):
            cls(10_000, n_jobs=1).fit(X, y)

    @pytest.mark.parametrize("settings", [
        {"max_depth": 3}, {"max_leaf_nodes": 8}, {"min_samples_leaf": 50}, {"max_samples": 8},
    ], ids=str)  # fmt: skip
    def test_small_trees_are_not_refused(self, settings, monkeypatch):
        X, y = load_diabetes(return_X_y=True)
        monkeypatch.setattr(growing, "available_memory", lambda: 300 * 2**10)
        assert len(RandomForestRegressor(100, **settings).fit(X, y)) == 100
        with pytest.raises(MemoryError):
            RandomForestRegressor(100).fit(X, y)

    def test_where_the_system_does_not_tell_nothing_is_refused(self, monkeypatch):
        X, y = load_wine(return_X_y=True)
        for module in (growing, forest_estimator):
            monkeypatch.setattr(module, "available_memory", lambda: None)
        model = RandomForestClassifier(3).fit(X, y)
        assert model.proximity(X).shape == (178, 178)
