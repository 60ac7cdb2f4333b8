"""Forward stagewise additive modelling against sums worked out here, SciPy and scikit-learn."""

from __future__ import annotations

import pickle
import signal

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import GradientBoostingRegressor as SkGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor as SkDecisionTreeRegressor

from gpuens import DecisionTreeRegressor, StagewiseClassifier, StagewiseRegressor, load
from gpuens.losses import ArrayLoss, CustomLoss, Expectile, Huber, Quantile, Tweedie, exp, mul

XR, Y = load_diabetes(return_X_y=True)
X, C = load_wine(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
WEIGHT = np.random.default_rng(3).exponential(size=len(Y))
TREE = DecisionTreeRegressor(max_depth=2)


class Slope(RegressorMixin, BaseEstimator):
    """Least squares on one feature, without a constant, in one line of arithmetic."""

    def __init__(self, feature: int = 0) -> None:
        self.feature = feature

    def fit(self, X, y, sample_weight=None):
        x = X[:, self.feature]
        weight = np.ones(len(x)) if sample_weight is None else sample_weight
        self.slope_ = (weight * x * y).sum() / (weight * x * x).sum()
        return self

    def predict(self, X):
        return X[:, self.feature] * self.slope_


class TestL2Boost:
    def test_by_hand(self):
        """x = (-1, 0, 1), y = (0, 3, 3): mean 2, residuals (-2, 1, 1), slope 3/2; half of it leaves
        (-1.25, 1, 0.25) and the slope 3/4."""
        x, y = np.array([[-1.0], [0.0], [1.0]]), np.array([0.0, 3.0, 3.0])
        model = StagewiseRegressor(Slope(), n_estimators=2, learning_rate=0.5).fit(x, y)
        assert [member.slope_ for member in model.estimators_] == [1.5, 0.75]
        assert model.estimator_weights_.tolist() == [1.0, 1.0]
        assert model.learning_rates_.tolist() == [0.5, 0.5]
        first, second = model.staged_predict(x)
        assert first.tolist() == [1.25, 2.0, 2.75]
        assert second.tolist() == [0.875, 2.0, 3.125]
        after = [((y - f) ** 2).mean() / 2 for f in (first, second)]
        np.testing.assert_allclose(model.train_score_, after, rtol=1e-14)
        assert model.evals_result_["training"]["loss"][0] == 1.0

    @pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
    def test_one_round_is_least_squares(self, weight):
        model = StagewiseRegressor(LinearRegression(), n_estimators=1, learning_rate=1.0)
        model.fit(XR, Y, weight)
        exact = LinearRegression().fit(XR, Y, weight)
        np.testing.assert_allclose(model.predict(XR), exact.predict(XR), rtol=1e-12)
        np.testing.assert_allclose(model.estimator_weights_, 1.0, rtol=1e-12)

    def test_shrinkage_approaches_least_squares_geometrically(self):
        exact = LinearRegression().fit(XR, Y).predict(XR)
        model = StagewiseRegressor(LinearRegression(), n_estimators=40, learning_rate=0.25)
        model.fit(XR, Y)
        for m, predicted in enumerate(model.staged_predict(XR), 1):
            expected = exact + 0.75**m * (Y.mean() - exact)
            np.testing.assert_allclose(predicted, expected, rtol=1e-10)

    def test_one_feature_at_a_time_converges_to_least_squares(self):
        """Backfitting by coordinate descent, whichever feature helps most (ESL, section 10.3)."""
        kinds = [Slope(j) for j in range(4)]
        table = XR[:, :4]
        model = StagewiseRegressor(kinds, n_estimators=80, learning_rate=1.0).fit(table, Y)
        exact = LinearRegression().fit(table, Y).predict(table)
        np.testing.assert_allclose(model.predict(table), exact, rtol=1e-6)

    def test_line_search_repairs_the_scale_of_base_learners(self):
        """Ridge regression shrinks; along what it predicts the exact step is <r, d> / <d, d>."""
        model = StagewiseRegressor(Ridge(alpha=5.0), n_estimators=5).fit(XR, Y)
        raw = np.full(len(Y), Y.mean())
        for step, member in zip(model.estimator_weights_, model.estimators_, strict=True):
            d, r = member.predict(XR), Y - raw
            np.testing.assert_allclose(step, (r @ d) / (d @ d), rtol=1e-9)
            raw += 0.1 * step * d

    def test_expectiles_of_a_linear_model(self):
        """Exact steps along every feature lead to the root of the weighted normal equations."""
        kinds = [Slope(j) for j in range(4)]
        model = StagewiseRegressor(
            kinds, loss=Expectile(0.9), n_estimators=200, learning_rate=1.0
        ).fit(XR[:, :4], Y)
        predicted = model.predict(XR[:, :4])
        residual = np.where(Y >= predicted, 0.9, 0.1) * (Y - predicted)
        assert abs(residual @ XR[:, :4]).max() < 1e-3 * abs(Y @ XR[:, :4]).max()

    @pytest.mark.parametrize("line_search", [True, False])
    def test_trees_give_the_model_of_gradient_boosting(self, line_search):
        """Least squares trees of the same depth, shrunk by the same factor."""
        tree = SkDecisionTreeRegressor(max_depth=3, random_state=0)
        model = StagewiseRegressor(tree, n_estimators=20, line_search=line_search).fit(XR, Y)
        peer = SkGradientBoostingRegressor(n_estimators=20, random_state=0).fit(XR, Y)
        np.testing.assert_allclose(model.predict(XR), peer.predict(XR), rtol=1e-9)
        np.testing.assert_allclose(2 * model.train_score_, peer.train_score_, rtol=1e-9)


def bernoulli(y, f):
    return np.logaddexp(0, f) - y * f


def tweedie(y, f):
    return np.exp(0.8 * f) / 0.8 + y * np.exp(-0.2 * f) / 0.2


NUMBERS = {
    "absolute_error": ("absolute_error", lambda y, f: abs(y - f)),
    "quantile": (Quantile(0.8), lambda y, f: np.maximum(0.8 * (y - f), -0.2 * (y - f))),
    "poisson": ("poisson", lambda y, f: np.exp(f) - y * f),
    "gamma": ("gamma", lambda y, f: f + y * np.exp(-f)),
    "tweedie": (Tweedie(power=1.2), tweedie),
}
CLASSES = {
    "log_loss": ("log_loss", bernoulli),
    "exponential": ("exponential", lambda y, f: np.exp(np.where(y > 0.5, -f, f))),
    "focal": ("focal", lambda y, f: expit(np.where(y > 0.5, -f, f)) ** 2 * bernoulli(y, f)),
}


def best_step(loss, y, raw, d, weight) -> float:
    """SciPy's minimum along a direction."""
    scale = 1 / abs(d).max()
    result = minimize_scalar(
        lambda b: float((weight * loss(y, raw + b * scale * d)).sum()),
        bracket=(0, 1), options={"xtol": 1e-12},
    )  # fmt: skip
    return float(result.x) * scale


class TestLineSearch:
    @pytest.mark.parametrize("name", NUMBERS)
    def test_numbers(self, name):
        loss, value = NUMBERS[name]
        y = Y / 50
        model = StagewiseRegressor(Ridge(), loss=loss, n_estimators=4).fit(XR, y, WEIGHT)
        self.check(model, XR, y, value, model._base_score[0])

    @pytest.mark.parametrize("name", CLASSES)
    def test_two_classes(self, name):
        loss, value = CLASSES[name]
        y = (Y > 140).astype(int)
        model = StagewiseClassifier(Ridge(), loss=loss, n_estimators=4).fit(XR, y, WEIGHT)
        self.check(model, XR, y, value, model._base_score[0])

    def check(self, model, X, y, value, base):
        raw = np.full(len(y), base)
        constant = minimize_scalar(lambda c: (WEIGHT * value(y, c)).sum(), bracket=(base, base + 1))
        lowest = (WEIGHT * value(y, base)).sum()
        np.testing.assert_allclose(lowest, constant.fun, rtol=1e-9)
        for step, member in zip(model.estimator_weights_, model.estimators_, strict=True):
            d = member.predict(X)
            np.testing.assert_allclose(step, best_step(value, y, raw, d, WEIGHT), rtol=2e-5)
            around = [
                (WEIGHT * value(y, raw + b * step * d)).sum() for b in (1, 1 - 1e-4, 1 + 1e-4)
            ]
            assert around[0] <= min(around)
            raw += 0.1 * step * d
        np.testing.assert_allclose(
            model.train_score_[-1], np.average(value(y, raw), weights=WEIGHT), rtol=1e-9
        )

    def test_huber(self):
        """The round's δ is the quantile of the absolute residuals, of which 90 % are below."""
        model = StagewiseRegressor(Ridge(), loss=Huber(alpha=0.9), n_estimators=3).fit(XR, Y)
        raw = np.full(len(Y), model._base_score[0])
        for step, member in zip(model.estimator_weights_, model.estimators_, strict=True):
            size = np.sort(abs(Y - raw))
            d, delta = member.predict(XR), size[int(np.ceil(0.9 * len(size))) - 1]

            def value(y, f, delta=delta):
                r = abs(y - f)
                return np.where(r <= delta, r * r / 2, delta * (r - delta / 2))

            np.testing.assert_allclose(step, best_step(value, Y, raw, d, 1.0), rtol=1e-6)
            raw += 0.1 * step * d

    def test_several_classes_have_one_step(self):
        noisy = np.where(np.arange(len(C)) % 7, C, (C + 1) % 3)  # no line tells these apart
        model = StagewiseClassifier(Ridge(), n_estimators=3, learning_rate=0.5).fit(X, noisy)
        assert model.n_estimators_per_iteration_ == 3 and len(model) == 9
        one_hot = np.eye(3)[noisy]
        raw = np.tile(np.log(one_hot.mean(axis=0)), (len(C), 1))
        for m in range(3):
            of_round = model.estimators_[3 * m : 3 * m + 3]
            p = np.exp(log_softmax(raw, axis=1))
            for k, member in enumerate(of_round):
                own = Ridge().fit(X, one_hot[:, k] - p[:, k])
                np.testing.assert_allclose(member.coef_, own.coef_, atol=1e-10)
            d = np.stack([member.predict(X) for member in of_round], axis=1)

            def loss(b, raw=raw, d=d):
                return -(one_hot * log_softmax(raw + b * d, axis=1)).sum()

            best = minimize_scalar(loss, bracket=(0, 1), options={"xtol": 1e-12}).x
            steps = model.estimator_weights_[3 * m : 3 * m + 3]
            np.testing.assert_allclose(steps, [best] * 3, rtol=1e-6)
            raw = raw + 0.5 * best * d
        np.testing.assert_allclose(model.decision_function(X), raw, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(model.predict_proba(X), np.exp(log_softmax(raw, axis=1)), 1e-6)

    def test_several_quantiles_have_their_own_steps(self):
        both = StagewiseRegressor(Ridge(), loss="quantile", quantile=[0.2, 0.7], n_estimators=3)
        both.fit(XR, Y)
        for k, quantile in enumerate([0.2, 0.7]):
            one = StagewiseRegressor(Ridge(), loss="quantile", quantile=quantile, n_estimators=3)
            one.fit(XR, Y)
            np.testing.assert_array_equal(one.estimator_weights_, both.estimator_weights_[k::2])
            np.testing.assert_array_equal(one.predict(XR), both.predict(XR)[:, k])
        assert 0 < both.score(XR, Y) < 1

    def test_steps_are_bounded_where_the_loss_falls_for_ever(self):
        x = np.arange(8.0)[:, None]
        y = (x[:, 0] > 3).astype(int)
        model = StagewiseClassifier(TREE, n_estimators=1, learning_rate=1.0).fit(x, y)
        np.testing.assert_allclose(abs(model.decision_function(x)), 16.0)

    def test_steps_go_backwards_from_learners_that_point_uphill(self):
        class Wrong(Ridge):
            def predict(self, X):
                return -super().predict(X)

        wrong = StagewiseRegressor(Wrong(), n_estimators=3).fit(XR, Y)
        right = StagewiseRegressor(Ridge(), n_estimators=3).fit(XR, Y)
        assert (wrong.estimator_weights_ < 0).all()
        np.testing.assert_allclose(wrong.predict(XR), right.predict(XR), rtol=1e-12)

    def test_learners_that_know_nothing_change_nothing(self):
        class Silent(Ridge):
            def predict(self, X):
                return np.zeros(len(X))

        model = StagewiseRegressor(Silent(), n_estimators=2).fit(XR, Y)
        assert model.estimator_weights_.tolist() == [0, 0]
        np.testing.assert_allclose(model.predict(XR), Y.mean(), rtol=1e-12)

    @pytest.mark.slow
    def test_losses_of_a_user(self):
        def objective(y, score):
            return np.exp(score) - y, np.exp(score)

        def value(y, score):
            return np.exp(score) - y * score

        def row_value(y, score):
            return exp(score) - mul(y, score)

        def row_gradient(y, score):
            return exp(score) - y

        y = Y / 50
        settings = {"estimator": Ridge(), "n_estimators": 5}
        known = StagewiseRegressor(loss="poisson", **settings).fit(XR, y)
        for loss in (
            ArrayLoss(objective, value, np.exp),
            CustomLoss(row_value, row_gradient, inverse_link=exp),
        ):
            own = StagewiseRegressor(loss=loss, **settings).fit(XR, y)
            np.testing.assert_allclose(own.estimator_weights_, known.estimator_weights_, rtol=1e-6)
            np.testing.assert_allclose(own.predict(XR), known.predict(XR), rtol=1e-6)


class TestKinds:
    def test_the_best_is_taken_each_round(self):
        kinds = [TREE, Ridge(), KNeighborsRegressor(30)]
        model = StagewiseRegressor(kinds, n_estimators=6, learning_rate=0.3).fit(XR, Y)
        raw = np.full(len(Y), Y.mean())
        for step, member in zip(model.estimator_weights_, model.estimators_, strict=True):
            losses = []
            for kind in kinds:
                d = clone(kind).fit(XR, Y - raw).predict(XR)
                losses.append(((Y - raw - ((Y - raw) @ d) / (d @ d) * d) ** 2).sum())
            assert type(member) is type(kinds[int(np.argmin(losses))])
            raw += 0.3 * step * member.predict(XR)
        assert len({type(member) for member in model}) > 1

    def test_taking_turns(self):
        model = StagewiseClassifier([Ridge(), TREE], selection="cyclic", n_estimators=3).fit(X, C)
        expected = [Ridge] * 3 + [DecisionTreeRegressor] * 3 + [Ridge] * 3
        assert [type(member) for member in model] == expected

    def test_seeds_are_their_own(self):
        tree = DecisionTreeRegressor(max_features=3, max_depth=2)
        model = StagewiseClassifier(tree, n_estimators=3, random_state=1).fit(X, C)
        assert len({member.random_state for member in model}) == 9


class TestRounds:
    def test_schedules(self):
        rates = [0.5, 0.25, 0.125]
        listed = StagewiseRegressor(Ridge(), n_estimators=3, learning_rate=rates).fit(XR, Y)
        called = StagewiseRegressor(
            Ridge(), n_estimators=3, learning_rate=lambda t: 0.5 ** (t + 1)
        ).fit(XR, Y)
        assert listed.learning_rates_.tolist() == called.learning_rates_.tolist() == rates
        np.testing.assert_array_equal(listed.predict(XR), called.predict(XR))

    def test_early_stopping_keeps_the_best_round(self):
        model = StagewiseRegressor(
            n_estimators=300, early_stopping=True, n_iter_no_change=4, random_state=2
        ).fit(XR, Y)
        scores = model.validation_score_
        assert model.stopped_ == "early stopping"
        assert model.n_iter_ == len(model) == scores.argmin() == len(scores) - 5
        assert model.train_score_.shape == (model.n_iter_,)
        assert len(list(model.staged_predict(XR))) == model.n_iter_

    def test_the_rows_held_out_are_not_trained_on(self):
        seen = []

        class Spy(Ridge):
            def fit(self, X, y, sample_weight=None):
                seen.append(X)
                return super().fit(X, y, sample_weight)

        StagewiseClassifier(Spy(), n_estimators=2, early_stopping=True, validation_fraction=30).fit(
            X, C
        )
        assert {len(table) for table in seen} == {len(X) - 30}
        rows = {tuple(row) for row in seen[0]}
        held_out = [c for row, c in zip(X, C, strict=True) if tuple(row) not in rows]
        assert np.bincount(held_out).tolist() == [10, 12, 8]  # in proportion to 59, 71, 48

    def test_subsamples(self):
        sizes = []

        class Spy(Ridge):
            def fit(self, X, y, sample_weight=None):
                sizes.append(len(X))
                return super().fit(X, y, sample_weight)

        model = StagewiseRegressor(Spy(), n_estimators=10, subsample=0.5).fit(XR, Y)
        assert len(set(sizes)) > 1 and all(150 < size < 290 for size in sizes)
        assert model.score(XR, Y) > 0.3

    @pytest.mark.parametrize("settings", [
        {}, {"subsample": 0.6}, {"early_stopping": True, "n_iter_no_change": 50},
    ], ids=["plain", "subsample", "early"])  # fmt: skip
    @pytest.mark.parametrize("cls, X, y", [
        (StagewiseRegressor, XR, Y), (StagewiseClassifier, X, C),
    ])  # fmt: skip
    def test_warm_start_gives_the_same_model(self, cls, X, y, settings):
        tree = DecisionTreeRegressor(max_features=3, max_depth=2)
        whole = cls(tree, n_estimators=8, **settings).fit(X, y)
        model = cls(tree, n_estimators=3, warm_start=True, **settings).fit(X, y)
        model.set_params(n_estimators=8).fit(X, y)
        np.testing.assert_array_equal(model.estimator_weights_, whole.estimator_weights_)
        np.testing.assert_array_equal(model.predict(X), whole.predict(X))
        assert model.evals_result_ == whole.evals_result_

    @pytest.mark.parametrize("cls, X, y", [
        (StagewiseRegressor, XR, Y), (StagewiseClassifier, X, C),
    ])  # fmt: skip
    def test_the_same_call_gives_the_same_model(self, cls, X, y):
        tree = DecisionTreeRegressor(max_features=3, max_depth=3)
        models = [
            cls(tree, n_estimators=4, subsample=0.7, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2)
        ]
        for a, b in zip(*models, strict=True):
            assert a.forest_.fingerprint() == b.forest_.fingerprint()
        np.testing.assert_array_equal(*(model.estimator_weights_ for model in models))
        other = cls(tree, n_estimators=4, subsample=0.7, random_state=1).fit(X, y)
        assert (other.estimator_weights_ != models[0].estimator_weights_).all()

    def test_rows_of_weight_zero_are_as_if_they_were_not_there(self):
        weight = np.where(np.arange(len(Y)) % 3, WEIGHT, 0)
        used = weight > 0
        model = StagewiseRegressor(TREE, n_estimators=5, subsample=0.8).fit(XR, Y, weight)
        fewer = StagewiseRegressor(TREE, n_estimators=5, subsample=0.8)
        fewer.fit(XR[used], Y[used], weight[used])
        np.testing.assert_array_equal(model.predict(XR), fewer.predict(XR))

    def test_staged_methods(self):
        model = StagewiseClassifier(TREE, n_estimators=4).fit(X, C)
        for method in ("predict", "predict_proba", "decision_function"):
            stages = list(getattr(model, f"staged_{method}")(X))
            assert len(stages) == 4
            np.testing.assert_array_equal(stages[-1], getattr(model, method)(X))
            fewer = clone(model).set_params(n_estimators=2).fit(X, C)
            np.testing.assert_array_equal(stages[1], getattr(fewer, method)(X))

    def test_callbacks_see_models_and_can_stop(self):
        seen = []

        class Watcher:
            def after_iteration(self, state):
                model = state.model()
                seen.append((len(model), state.evals["training"]["loss"][-1]))
                assert model.callbacks is None
                return state.iteration == 3

            def after_training(self, state):
                seen.append("end")

        model = StagewiseRegressor(Ridge(), n_estimators=9, callbacks=[Watcher()]).fit(XR, Y)
        assert seen == [*enumerate(model.train_score_.tolist(), 1), "end"]
        assert model.stopped_ == "callback" and model.n_iter_ == 3

    def test_ctrl_c_keeps_finished_rounds(self):
        class Interrupted(Ridge):
            fits = 0

            def fit(self, X, y, sample_weight=None):
                Interrupted.fits += 1
                if Interrupted.fits == 8:
                    signal.raise_signal(signal.SIGINT)
                return super().fit(X, y, sample_weight)

        with pytest.warns(RuntimeWarning, match="keeps the 2 rounds that were finished") as caught:
            model = StagewiseClassifier(Interrupted(), n_estimators=9).fit(X, C)
        assert caught[0].filename == __file__
        assert model.stopped_ == "interrupted" and model.n_iter_ == 2 and len(model) == 6
        fewer = StagewiseClassifier(Ridge(), n_estimators=2).fit(X, C)
        np.testing.assert_array_equal(model.predict_proba(X), fewer.predict_proba(X))
        assert model.evals_result_ == fewer.evals_result_

    def test_verbose(self, capsys):
        StagewiseRegressor(Ridge(), n_estimators=3, verbose=1).fit(XR, Y)
        assert "3/3" in capsys.readouterr().err


class TestImportances:
    @pytest.mark.parametrize("model, X, y", [
        (StagewiseRegressor(TREE, n_estimators=5, learning_rate=[0.5, 0.4, 0.3, 0.2, 0.1]), XR, Y),
        (StagewiseClassifier(SkDecisionTreeRegressor(max_depth=2), n_estimators=3), X, C),
    ], ids=["own trees", "foreign trees"])  # fmt: skip
    def test_mean_by_steps_times_rates(self, model, X, y):
        model = clone(model).fit(X, y)
        rates = np.repeat(model.learning_rates_, len(model) // model.n_iter_)
        expected = np.average(
            [member.feature_importances_ for member in model], axis=0,
            weights=abs(model.estimator_weights_ * rates),
        )  # fmt: skip
        np.testing.assert_allclose(model.feature_importances_, expected)
        assert model.feature_importances_.sum() == pytest.approx(1.0)

    def test_learners_without_any(self):
        model = StagewiseRegressor([TREE, Ridge()], selection="cyclic", n_estimators=2).fit(XR, Y)
        assert not hasattr(model, "feature_importances_")
        with pytest.raises(AttributeError, match=r"importances .*: Ridge\("):
            _ = model.feature_importances_

    def test_steps_of_zero(self):
        model = StagewiseRegressor(TREE, n_estimators=2).fit(XR, np.ones(len(Y)))
        assert (model.feature_importances_ == 0).all()


class TestSaving:
    @pytest.mark.parametrize(
        "loss", ["squared_error", "quantile", Huber(0.8), Tweedie(1.3), Expectile(0.8)], ids=str
    )
    def test_regressors(self, loss, tmp_path):
        quantile = [0.2, 0.8] if loss == "quantile" else None
        model = StagewiseRegressor(TREE, loss=loss, quantile=quantile, n_estimators=3).fit(XR, Y)
        self.check(model, XR, tmp_path / "model")

    @pytest.mark.parametrize("classes", [2, 3])
    def test_classifiers(self, classes, tmp_path):
        y = np.array(["a", "b", "c"])[np.minimum(C, classes - 1)]
        model = StagewiseClassifier(TREE, n_estimators=3, early_stopping=True).fit(X, y)
        self.check(model, X, tmp_path / "model")

    def check(self, model, X, path):
        model.save(path)
        for other in (load(path), pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(other.predict(X), model.predict(X))
            np.testing.assert_array_equal(other.estimator_weights_, model.estimator_weights_)
            assert other.evals_result_ == model.evals_result_
            assert other.loss == model.loss

    def test_foreign_learners(self, tmp_path):
        pytest.importorskip("skops")
        model = StagewiseRegressor([Ridge(), TREE], n_estimators=4).fit(XR, Y)
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(load(tmp_path / "model").predict(XR), model.predict(XR))

    def test_a_loaded_model_goes_on(self, tmp_path):
        model = StagewiseRegressor(TREE, n_estimators=3, warm_start=True).fit(XR, Y)
        model.save(tmp_path / "model")
        further = load(tmp_path / "model").set_params(n_estimators=6).fit(XR, Y)
        whole = StagewiseRegressor(TREE, n_estimators=6).fit(XR, Y)
        np.testing.assert_array_equal(further.predict(XR), whole.predict(XR))
