"""How AdaBoost ends, goes on, is watched and interrupted; and its weights of the rows."""

from __future__ import annotations

import io
import os
import signal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.naive_bayes import GaussianNB

import gpuens.adaboost.rounds as rounds_module
from gpuens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    load,
)
from gpuens.adaboost.estimators import weighted_median
from gpuens.adaboost.rounds import GRID, LEAST, RowWeights
from gpuens.callbacks import Checkpoint, ProgressBar
from gpuens.devices.placement import CPU
from gpuens.trees.criteria import _integer_weights

CANCER, IRIS, DIABETES = (
    f(return_X_y=True) for f in (load_breast_cancer, load_iris, load_diabetes)
)
BOTH = [(AdaBoostClassifier, *CANCER), (AdaBoostRegressor, *DIABETES)]
both = pytest.mark.parametrize("cls, X, y", BOTH, ids=["classifier", "regressor"])


class Scripted(ClassifierMixin, BaseEstimator):
    """A classifier that does what a list says: it is wrong about certain rows of its round."""

    script: list[Any] = []
    seen: list[np.ndarray] = []

    def fit(self, X, y, sample_weight):
        self.seen.append(sample_weight)
        self.classes_ = np.unique(y)
        self.wrong_ = self.script[len(self.seen) - 1]
        self.truth_ = np.searchsorted(self.classes_, y)
        return self

    def predict(self, X):
        answer = self.truth_.copy()
        answer[self.wrong_] = (answer[self.wrong_] + 1) % len(self.classes_)
        return self.classes_[answer]


class ScriptedNumbers(RegressorMixin, BaseEstimator):
    """A regressor whose predictions a list says."""

    script: list[Any] = []
    calls = [0]

    def fit(self, X, y):
        self.answer_ = np.asarray(self.script[self.calls[0]], float)
        self.calls[0] += 1
        return self

    def predict(self, X):
        return self.answer_


def scripted(cls: type, *script: Any) -> Any:
    """An estimator that follows a script."""
    Scripted.script, Scripted.seen = list(script), []
    ScriptedNumbers.script, ScriptedNumbers.calls = list(script), [0]
    return cls()


ROWS, LABELS = np.zeros((6, 1)), np.array([0, 0, 0, 1, 1, 1])


class TestEnds:
    def test_without_error(self):
        model = AdaBoostClassifier(scripted(Scripted, [0], [])).fit(ROWS, LABELS)
        assert model.stopped_ == "perfect learner" and len(model) == 2
        np.testing.assert_allclose(model.estimator_weights_, [0.5 * np.log(5), 0.5])
        np.testing.assert_allclose(model.estimator_errors_, [1 / 6, 0])

    def test_without_error_at_once(self):
        model = AdaBoostClassifier(DecisionTreeClassifier(), n_estimators=9).fit(*IRIS)
        assert model.stopped_ == "perfect learner"
        assert model.estimator_errors_.tolist() == [0] and model.score(*IRIS) == 1

    @pytest.mark.parametrize("wrong", [[0, 1, 2], [0, 1, 2, 3]])
    def test_as_bad_as_guessing(self, wrong):
        """Half of the weight is in row 0 after the first round."""
        model = AdaBoostClassifier(scripted(Scripted, [0], [0, 1], [1])).fit(ROWS, LABELS)
        assert model.stopped_ == "weak learner" and len(model) == 1
        with pytest.raises(ValueError, match=r"worse than random guessing \(0\.5\)"):
            AdaBoostClassifier(scripted(Scripted, wrong)).fit(ROWS, LABELS)

    def test_guessing_among_three(self):
        y = np.array([0, 0, 1, 1, 2, 2])
        model = AdaBoostClassifier(scripted(Scripted, [0, 1, 2], []), n_estimators=2).fit(ROWS, y)
        assert model.estimator_errors_[0] == 0.5 and len(model) == 2
        with pytest.raises(ValueError, match=r"0\.667"):
            AdaBoostClassifier(scripted(Scripted, [0, 1, 2, 3])).fit(ROWS, y)

    def test_the_weights_of_two_rounds(self):
        """From Freund and Schapire: what was wrong has half of the weight afterwards."""
        AdaBoostClassifier(scripted(Scripted, [0], [1, 2], [3]), n_estimators=3).fit(ROWS, LABELS)
        _, second, third = Scripted.seen
        np.testing.assert_allclose(second, [0.5, *[0.1] * 5], atol=1e-9)
        np.testing.assert_allclose(third, np.array([5, 4, 4, 1, 1, 1]) / 16, atol=1e-9)

    def test_weights_that_explode(self):
        base = scripted(Scripted, [0], [1], [2])
        with pytest.warns(UserWarning, match="reached infinite values in round 1.*learning_rate"):
            model = AdaBoostClassifier(base, learning_rate=1000).fit(ROWS, LABELS)
        assert model.stopped_ == "infinite weights" and len(model) == 1
        np.testing.assert_array_equal(model.predict(ROWS), [1, 0, 0, 1, 1, 1])

    def test_large_steps_stay_finite(self):
        model = AdaBoostClassifier(scripted(Scripted, [0], [1], [2]), learning_rate=10)
        model.set_params(n_estimators=3).fit(ROWS, LABELS)
        assert len(model) == 3 and np.isfinite(model.estimator_weights_).all()
        assert Scripted.seen[2].min() == 1 / GRID

    def test_one_class(self):
        model = AdaBoostClassifier().fit(CANCER[0], np.full(569, "a"))
        assert (model.predict(CANCER[0]) == "a").all()
        assert (model.predict_proba(CANCER[0]) == 1).all() and len(model) == 1

    def test_regressor_without_loss(self):
        y = np.arange(6.0)
        model = AdaBoostRegressor(scripted(ScriptedNumbers, y)).fit(ROWS, y)
        assert model.stopped_ == "perfect learner"
        assert model.estimator_weights_.tolist() == [1] and model.estimator_errors_.tolist() == [0]
        np.testing.assert_array_equal(model.predict(ROWS), y)

    def test_regressor_that_is_too_weak(self):
        y = np.zeros(6)
        good, bad = [1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0]
        model = AdaBoostRegressor(scripted(ScriptedNumbers, good, bad)).fit(ROWS, y)
        assert model.stopped_ == "weak learner" and len(model) == 1
        np.testing.assert_allclose(model.estimator_errors_, 1 / 6)
        model = AdaBoostRegressor(scripted(ScriptedNumbers, bad, good)).fit(ROWS, y)
        assert model.stopped_ == "weak learner" and len(model) == 1
        np.testing.assert_allclose(model.estimator_errors_, 5 / 6)
        np.testing.assert_array_equal(model.predict(ROWS), bad)


class TestWarmStart:
    @both
    @pytest.mark.parametrize("own", [True, False], ids=["forest", "members"])
    def test_the_same_as_at_once(self, cls, X, y, own):
        tree = DecisionTreeClassifier if cls is AdaBoostClassifier else DecisionTreeRegressor
        base = tree(max_depth=2) if own else fitted_apart(tree)(max_depth=2)
        weight = np.random.default_rng(0).exponential(size=len(y))
        whole = cls(base, n_estimators=9, learning_rate=0.6).fit(X, y, weight)
        parts = cls(base, n_estimators=2, learning_rate=0.6, warm_start=True)
        for n in (2, 3, 3, 9):
            parts.set_params(n_estimators=n).fit(X, y, weight)
        assert hasattr(whole, "forest_") == own and len(parts) == 9
        np.testing.assert_array_equal(parts.estimator_weights_, whole.estimator_weights_)
        np.testing.assert_array_equal(parts.estimator_errors_, whole.estimator_errors_)
        np.testing.assert_array_equal(parts.predict(X), whole.predict(X))
        for a, b in zip(parts, whole, strict=True):
            assert a.forest_.fingerprint() == b.forest_.fingerprint()

    def test_what_has_ended_does_not_go_on(self):
        model = AdaBoostClassifier(DecisionTreeClassifier(), warm_start=True).fit(*IRIS)
        model.set_params(n_estimators=80).fit(*IRIS)
        assert len(model) == 1 and model.stopped_ == "perfect learner"
        y = np.zeros(6)
        base = scripted(ScriptedNumbers, [1, 1, 1, 1, 1, 0], [1, 0, 0, 0, 0, 0])
        numbers = AdaBoostRegressor(base, warm_start=True, n_estimators=1).fit(ROWS, y)
        numbers.set_params(n_estimators=2).fit(ROWS, y)
        assert len(numbers) == 1 and numbers.stopped_ == "weak learner"

    def test_without_it_everything_is_new(self):
        model = AdaBoostClassifier(n_estimators=3).fit(*CANCER)
        model.set_params(n_estimators=2).fit(*IRIS)
        assert len(model) == 2 and model.n_classes_ == 3 and model.n_features_in_ == 4

    def test_wrong_ones(self):
        X, y = CANCER
        model = AdaBoostClassifier(n_estimators=3, warm_start=True).fit(X, y)
        before = model.forest_.fingerprint()
        for change, error in [
            ({"n_estimators": 2}, "n_estimators=2 must be larger or equal to the 3 rounds"),
            ({"n_estimators": 4, "estimator": GaussianNB()}, "copies of DecisionTreeClassifier"),
        ]:
            with pytest.raises(ValueError, match=error):
                AdaBoostClassifier.set_params(model, **change).fit(X, y)
        model.set_params(estimator=None)
        with pytest.raises(ValueError, match=r"y has the classes \[0, 1, 2\]"):
            model.fit(X, np.arange(len(y)) % 3)
        with pytest.raises(ValueError, match="X has 5 features"):
            model.fit(X[:, :5], y)
        assert model.forest_.fingerprint() == before


def fitted_apart(tree: type) -> type:
    """A subclass of a tree that AdaBoost does not know."""
    return type("Own", (tree,), {"fit": lambda self, X, y, sample_weight=None: tree.fit(
        self, X, y, sample_weight
    )})  # fmt: skip


class Watcher:
    """Keeps what it sees; stops after some rounds."""

    def __init__(self, stop_after: int = 99) -> None:
        self.stop_after = stop_after
        self.lengths: list[int] = []
        self.ended = 0

    def after_iteration(self, state: Any) -> bool:
        self.lengths.append(len(state.model()))
        self.state = state
        return state.iteration >= self.stop_after

    def after_training(self, state: Any) -> None:
        self.ended += 1


class TestCallbacks:
    @both
    def test_what_they_see(self, cls, X, y):
        watcher = Watcher()
        model = cls(n_estimators=4, callbacks=[watcher]).fit(X, y)
        assert watcher.lengths == [1, 2, 3, 4] and watcher.ended == 1
        state = watcher.state
        assert (state.iteration, state.n_iterations, state.first_iteration) == (4, 4, 0)
        errors = state.evals["training"]["learner_error"]
        assert errors == [0.5, *model.estimator_errors_]
        assert state.forest().fingerprint() == model.forest_.fingerprint()
        copy = state.model()
        assert copy.callbacks is None and model.callbacks == [watcher]
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))

    def test_learners_without_a_forest(self):
        watcher = Watcher()
        AdaBoostClassifier(GaussianNB(), n_estimators=2, callbacks=[watcher]).fit(*CANCER)
        assert watcher.lengths == [1, 2]
        with pytest.raises(AttributeError, match=r"not copies of GaussianNB\(\)"):
            watcher.state.forest()

    def test_a_checkpoint_goes_on(self, tmp_path):
        X, y = CANCER
        path = tmp_path / "model.gpuens"
        AdaBoostClassifier(
            n_estimators=9, callbacks=[Checkpoint(path, period=2), Watcher(5)]
        ).fit(X, y)  # fmt: skip
        model = load(path)
        assert len(model) == 4
        model.set_params(warm_start=True, n_estimators=9).fit(X, y)
        whole = AdaBoostClassifier(n_estimators=9).fit(X, y)
        assert model.forest_.fingerprint() == whole.forest_.fingerprint()

    def test_progress(self, capsys):
        AdaBoostClassifier(n_estimators=3, verbose=True).fit(*CANCER)
        assert "3/3" in (err := capsys.readouterr().err) and "learner_error" in err
        stream = io.StringIO()
        AdaBoostRegressor(n_estimators=2, callbacks=[ProgressBar(stream)]).fit(*DIABETES)
        assert "2/2" in stream.getvalue()


@pytest.mark.skipif(os.name == "nt", reason="os.kill ends the process on Windows")
class TestInterrupt:
    @staticmethod
    def press_in_round(monkeypatch, name: str, call: int) -> None:
        """Press Ctrl-C in a certain call of a function of the loop."""
        original, calls = getattr(rounds_module.RowWeights, name), [0]

        def wrapped(*args: Any) -> Any:
            calls[0] += 1
            if calls[0] == call:
                os.kill(os.getpid(), signal.SIGINT)
            return original(*args)

        monkeypatch.setattr(rounds_module.RowWeights, name, wrapped)

    @pytest.mark.parametrize("cls, X, y, name, call", [
        (AdaBoostClassifier, *CANCER, "whole", 4), (AdaBoostClassifier, *CANCER, "share", 7),
        (AdaBoostClassifier, *CANCER, "multiply_some", 3),
        (AdaBoostRegressor, *DIABETES, "mean", 4), (AdaBoostRegressor, *DIABETES, "multiply", 3),
    ])  # fmt: skip
    def test_finished_rounds_are_kept(self, cls, X, y, name, call, monkeypatch):
        with monkeypatch.context() as patch:
            self.press_in_round(patch, name, call)
            with pytest.warns(RuntimeWarning, match="keeps the 3 rounds") as caught:
                model = cls(n_estimators=20).fit(X, y)
        assert caught[0].filename == __file__
        assert len(model) == 3 and model.stopped_ == "interrupted"
        short = cls(n_estimators=3).fit(X, y)
        assert model.forest_.fingerprint() == short.forest_.fingerprint()
        np.testing.assert_array_equal(model.estimator_weights_, short.estimator_weights_)
        np.testing.assert_array_equal(model.predict(X), short.predict(X))

    @both
    def test_before_the_first_round_there_is_nothing_to_keep(self, cls, X, y, monkeypatch):
        name = "share" if cls is AdaBoostClassifier else "mean"
        model = cls(n_estimators=20)
        with monkeypatch.context() as patch:
            self.press_in_round(patch, name, 1)
            with pytest.raises(KeyboardInterrupt):
                model.fit(X, y)
        assert not hasattr(model, "forest_") and not hasattr(model, "n_features_in_")


WEIGHTS = arrays(np.float64, st.integers(1, 40), elements=st.floats(0, 1e6)).filter(
    lambda weight: weight.max() > 0
)


class TestRowWeights:
    @given(weight=WEIGHTS)
    @settings(max_examples=200)
    def test_sums(self, weight):
        rows = RowWeights(weight, weight.size, CPU)
        exact = [Fraction(float(w)) for w in rows.values]
        assert abs(sum(exact) - 1) < 1e-9
        expected = np.where(weight > 0, np.maximum(weight / weight.sum(), LEAST), 0)
        np.testing.assert_allclose(rows.values, expected, rtol=1e-9)
        some = np.arange(weight.size) % 2 == 0
        part, whole = rows.share(some)
        share = sum(exact[::2]) / sum(exact)
        assert abs(Fraction(part, whole) - share) < 2.0**-50
        losses = np.linspace(0, 1, weight.size)
        mean = sum(e * Fraction(float(x)) for e, x in zip(exact, losses, strict=True)) / sum(exact)
        assert abs(rows.mean(losses) - mean) < 2.0**-50

    @given(weight=WEIGHTS)
    @settings(max_examples=200)
    def test_grid(self, weight):
        """Every row of positive weight counts, their sum is just below 1, and nothing is lost
        when a tree turns the weights into integers."""
        rows = RowWeights(weight, weight.size, CPU)
        whole, grid = rows.whole(), rows.on_grid()
        assert (whole >= 1).all() and ((grid > 0) == (weight > 0)).all()
        np.testing.assert_array_equal(grid * GRID, whole * (weight > 0))
        assert 1 - 1e-6 < grid.sum() < 1
        integers, scale = _integer_weights(grid, weight.size, 1)
        if weight.size > 1:
            assert scale == GRID
            np.testing.assert_array_equal(integers[weight > 0], whole[weight > 0])

    @pytest.mark.parametrize("factor", [1.0, 1.5, 1e3, 1e200, np.exp(709.0)])
    def test_multiply_some(self, factor):
        weight = np.random.default_rng(0).exponential(size=1000) * (np.arange(1000) % 9 > 0)
        some = np.arange(1000) % 3 == 0
        rows = RowWeights(weight, 1000, CPU)
        rows.multiply_some(some, float(factor))
        expected = weight * np.where(some, factor / 1e200, 1 / 1e200)
        expected = np.maximum(expected / expected.sum(), LEAST) * (weight > 0)
        np.testing.assert_allclose(rows.values, expected, rtol=1e-9)

    def test_multiply(self):
        rng = np.random.default_rng(0)
        weight, factors = rng.exponential(size=1000), rng.random(1000)
        rows = RowWeights(weight, 1000, CPU)
        rows.multiply(factors)
        np.testing.assert_allclose(rows.values, weight * factors / (weight @ factors), rtol=1e-9)
        rows.multiply(np.full(1000, 1e-15))
        np.testing.assert_allclose(rows.values, weight * factors / (weight @ factors), rtol=1e-9)

    def test_equal_weights_are_equal(self):
        for n in (3, 7, 1000, 12345):
            values = RowWeights(None, n, CPU).values
            assert (values == values[0]).all() and values[0] == pytest.approx(1 / n, rel=1e-9)
            half = np.arange(2 * n) < n
            part, whole = RowWeights(np.full(2 * n, 0.1), 2 * n, CPU).share(half)
            assert 2 * part == whole

    def test_small_weights(self):
        rows = RowWeights(np.array([1.0, 1e-300, 0.0]), 3, CPU)
        np.testing.assert_allclose(rows.values, [1, LEAST, 0])
        assert rows.n_used == 2 and rows.whole()[1] == 1


class TestMedian:
    @pytest.mark.parametrize("cells", [2**22, 7])
    def test_by_trying_all(self, cells, monkeypatch):
        monkeypatch.setattr("gpuens.adaboost.estimators.CELLS_AT_ONCE", cells)
        rng = np.random.default_rng(0)
        predicted = rng.integers(0, 6, (50, 7)).astype(float)
        weights = rng.integers(0, 8, 7).astype(float)
        found = weighted_median(predicted, weights, CPU)
        for row, median in zip(predicted, found, strict=True):
            reach = [v for v in row if 2 * weights[row <= v].sum() >= weights.sum()]
            assert median == min(reach)

    def test_half_of_the_weight_is_enough(self):
        predicted = np.array([[3.0, 1.0, 2.0]])
        assert weighted_median(predicted, np.array([1.0, 1.0, 0.0]), CPU) == [1.0]
        assert weighted_median(predicted, np.array([1.0, 0.9, 0.0]), CPU) == [3.0]
        assert weighted_median(predicted, np.array([0.25, 0.5, 0.25]), CPU) == [1.0]
