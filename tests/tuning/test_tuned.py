"""Searches within a budget: what they try, what they return, and when they end."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import randint
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpuens
from gpuens import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    TunedClassifier,
    TunedRegressor,
)
from gpuens.boosting.rounds import BoostingRounds
from gpuens.datasets import make_friedman1, make_higgs_like
from gpuens.forest.forest import Forest
from gpuens.losses import SquaredError
from gpuens.tuning import boosting, candidate, search
from gpuens.tuning.space import (
    CATEGORICAL,
    NUMERIC,
    defaults,
    draws,
    first_of,
    read_budget,
    space_of,
)
from tests.support.lanes import few

X, Y = (a[..., :5] if a.ndim > 1 else a for a in make_friedman1(150, random_state=0))
CLASSES = np.array(["few", "some", "many"])[np.digitize(Y, np.quantile(Y, [0.3, 0.7]))]
SPACE = {"max_leaf_nodes": [2, 4, 8], "learning_rate": [0.2, 0.4]}
QUICK = {"learning_rate": 0.3, "max_leaf_nodes": 4}
"""What makes the default quick to train."""
REGRESSOR, CLASSIFIER = GradientBoostingRegressor(**QUICK), GradientBoostingClassifier(**QUICK)
FAST = {"param_distributions": SPACE, "cv": 2}


def prints(model):
    return model.forest_.fingerprint()


@pytest.fixture(scope="module")
def tuned():
    return TunedRegressor(REGRESSOR, budget=4, **FAST).fit(X, Y)


@pytest.fixture(scope="module")
def classes():
    return TunedClassifier(CLASSIFIER, budget=3, **FAST).fit(
        pd.DataFrame(X).add_prefix("x"), CLASSES
    )


class TestResult:
    def test_it_is_the_weighted_sum_of_members_on_all_rows(self, tuned):
        """Each of which its own estimator trains with three seeds, and the number of rounds that
        was found."""
        assert len(tuned.members_) == len(tuned.weights_) > 1 and sum(tuned.weights_) == 1
        expected, seed = np.zeros(len(X)), tuned.estimator_._seed
        for number, weight in zip(tuned.members_, tuned.weights_, strict=True):
            found = {name: values[number] for name, values in tuned.cv_results_.items()}
            for copy in range(3):
                model = GradientBoostingRegressor(
                    n_estimators=int(found["n_rounds"]), subsample=0.8, colsample_bynode=0.6,
                    random_state=seed + number + copy * search.SEEDS, **QUICK | found["params"],
                )  # fmt: skip
                expected += weight / 3 * model.fit(X, Y).predict(X)
        np.testing.assert_allclose(tuned.predict(X), expected, rtol=1e-12)

    def test_the_first_setting_is_the_default(self, tuned):
        results = tuned.cv_results_
        assert results["params"][0] == {} and len(results["params"]) == 4
        assert all(set(params) == set(SPACE) for params in results["params"][1:])
        best = int(results["rank_test_score"].argmin())
        assert tuned.best_params_ == results["params"][best]
        assert tuned.best_score_ == results["mean_test_score"].max() <= tuned.ensemble_score_ < 0
        assert (results["n_trained"] >= results["n_rounds"]).all()

    @pytest.mark.parametrize("n_jobs", few([1, 3], 1))
    def test_the_same_seed_and_number_of_settings_give_the_same_bits(self, tuned, n_jobs):
        again = clone(tuned).set_params(n_jobs=n_jobs).fit(X, Y)
        assert prints(again) == prints(tuned)
        assert again.cv_results_["params"] == tuned.cv_results_["params"]

    @pytest.mark.slow
    def test_another_seed_gives_another_model(self, tuned):
        assert prints(clone(tuned).set_params(random_state=1).fit(X, Y)) != prints(tuned)

    @pytest.mark.slow
    def test_it_is_a_plain_estimator(self, classes, tmp_path):
        plain, frame = classes.estimator_, pd.DataFrame(X).add_prefix("x")
        assert type(plain) is GradientBoostingClassifier and plain.n_iter_ == plain.forest_.n_trees
        assert classes.classes_.tolist() == ["few", "many", "some"]
        assert classes.feature_names_in_.tolist() == list(frame)
        proba = classes.predict_proba(frame)
        np.testing.assert_array_equal(proba, plain.predict_proba(frame))
        assert classes.score(frame, CLASSES) > 0.9
        classes.save(tmp_path / "tuned")
        loaded = gpuens.load(tmp_path / "tuned")
        np.testing.assert_array_equal(loaded.predict_proba(frame), proba)
        assert loaded.cv_results_["params"] == classes.cv_results_["params"]
        assert classes.feature_importances_.sum() == pytest.approx(1)

    def test_it_is_explained_and_exported(self, tuned, tmp_path):
        lightgbm = pytest.importorskip("lightgbm")
        values = gpuens.TreeExplainer(tuned)(X[:5])
        total = values.values.sum(axis=1) + values.base_values
        np.testing.assert_allclose(total, tuned.predict(X[:5]))
        np.testing.assert_array_equal(
            tuned.predict(X[:5], pred_contribs=True)[:, :-1], values.values
        )
        tuned.to_lightgbm(tmp_path / "model.txt")
        booster = lightgbm.Booster(model_file=tmp_path / "model.txt")
        np.testing.assert_allclose(booster.predict(X), tuned.predict(X), rtol=1e-12)

    def test_linear_leaves(self):
        template = GradientBoostingRegressor(linear_leaves=True, **QUICK)
        model = TunedRegressor(template, budget=2, **FAST).fit(X, Y)
        total = model.estimator_.forest_.raw_predict(X)[0]
        np.testing.assert_array_equal(model.predict(X), total)
        assert model.score(X, Y) > 0.9

    def test_it_is_part_of_a_pipeline(self, tuned):
        model = make_pipeline(StandardScaler(), clone(tuned).set_params(budget=1))
        assert model.fit(X, Y).score(X, Y) > 0.8


class TestRows:
    def test_folds_of_your_own(self):
        groups = np.arange(150) % 3
        model = TunedRegressor(REGRESSOR, budget=1, param_distributions=SPACE, cv=GroupKFold(3))
        by_group = model.fit(X, Y, groups=groups)
        pairs = [(np.flatnonzero(groups != g), np.flatnonzero(groups == g)) for g in (2, 1, 0)]
        given = clone(model).set_params(cv=pairs).fit(X, Y)
        assert given.best_score_ == pytest.approx(by_group.best_score_, rel=1e-12)

    def test_scores_are_those_of_rows_held_out(self):
        """Of the default: after the best number of rounds, on the rows that a fold has not seen."""
        folds = KFold(2, shuffle=True, random_state=0)
        model = TunedRegressor(REGRESSOR, budget=1, param_distributions=SPACE, cv=folds).fit(X, Y)
        n_rounds, errors = int(model.cv_results_["n_rounds"][0]), []
        for train, test in folds.split(X):
            plain = GradientBoostingRegressor(
                n_estimators=n_rounds, subsample=0.8, colsample_bynode=0.6,
                random_state=model.estimator_._seed, **QUICK,
            )  # fmt: skip
            plain.fit(X, Y, np.isin(np.arange(150), train).astype(float))
            errors += ((plain.predict(X[test]) - Y[test]) ** 2).tolist()
        assert -model.best_score_ == pytest.approx(np.mean(errors) / 2, rel=0.1)  # other bins

    def test_weights_of_zero_leave_rows_out(self):
        weight = np.ones(150)
        weight[:40] = 0.0
        other = Y.copy()
        other[:40] = 1e6
        models = [TunedRegressor(REGRESSOR, budget=2, param_distributions=SPACE).fit(X, y, weight)
                  for y in (Y, other)]  # fmt: skip
        np.testing.assert_array_equal(*(model.predict(X) for model in models))

    def test_few_folds_of_many_rows(self, monkeypatch):
        monkeypatch.setattr(boosting, "ROWS_TO_SCORE", 50)
        found = []
        monkeypatch.setattr(
            search.SettingSearch, "explore", lambda self: found.append(self._table.folds)
        )
        with pytest.warns(UserWarning, match="Nothing was tuned"):
            TunedClassifier(CLASSIFIER, budget=1).fit(X, CLASSES)
        ((first, second),) = found
        assert first.asked.size == second.asked.size == 30 and first.seen.size == 120
        assert not set(first.asked) & set(second.asked) and not set(first.asked) & set(first.seen)

    def test_a_scorer_decides(self):
        X, y = make_higgs_like(200, random_state=0)
        model = TunedClassifier(CLASSIFIER, budget=2, scoring="roc_auc", **FAST).fit(X, y)
        assert 0.5 < model.best_score_ <= model.ensemble_score_ < 1


class TestTables:
    def model(self, **settings):
        return TunedRegressor(GradientBoostingRegressor(**QUICK, **settings), budget=2, **FAST)

    def test_a_binned_table_gives_the_model_of_its_rows(self):
        table = gpuens.BinnedTable.from_batches(X, y=Y)
        assert prints(self.model().fit(table)) == prints(self.model().fit(X, Y))

    def test_a_sparse_table_gives_the_model_of_the_dense_one(self):
        table = X * (X > 0.5)
        model = self.model(colsample_bynode=1.0)
        found = clone(model).fit(csr_matrix(table), Y)
        np.testing.assert_allclose(found.predict(table), model.fit(table, Y).predict(table))

    @pytest.mark.slow  # the array library grows trees without Numba
    def test_an_array_library_gives_the_same_bits(self):
        xp = pytest.importorskip("array_api_strict")
        model = self.model().set_params(device="array").fit(xp.asarray(X), xp.asarray(Y))
        assert prints(model) == prints(self.model().fit(X, Y))

    def test_several_targets_and_losses(self):
        both = self.model().fit(X, np.stack([Y, -Y], axis=1))
        assert both.predict(X).shape == (150, 2) and both.score(X, np.stack([Y, -Y], axis=1)) > 0.8
        quantiles = self.model(loss="quantile", quantile=[0.1, 0.9]).fit(X, Y)
        assert (np.diff(quantiles.predict(X)) >= 0).all()
        times = self.model(loss="cox").fit(X, (Y > 10, np.exp(-Y)))
        curves = times.estimator_.predict_survival_function(X[:2])
        assert (np.diff(curves) <= 0).all()


class TestBudget:
    @pytest.mark.parametrize("budget, settings, seconds", [
        (3, 3, np.inf), ("60s", np.inf, 60), ("5min", np.inf, 300), (" 1.5 h ", np.inf, 5400),
    ])  # fmt: skip
    def test_it_is_read(self, budget, settings, seconds):
        assert read_budget(budget) == (settings, seconds)

    @pytest.mark.parametrize("budget", [0, -1, 2.5, True, "60", "s", "0s", "1 day", None])
    def test_bad_budgets(self, budget):
        with pytest.raises(ValueError, match="budget must be a number of settings >= 1, or a time"):
            TunedRegressor(budget=budget).fit(X, Y)

    def test_one_too_short_for_the_default_gives_its_fit(self):
        with pytest.warns(UserWarning, match="budget is too small for one setting"):
            model = TunedRegressor(REGRESSOR, budget="0.0001s").fit(X[:60], Y[:60])
        assert prints(model) == prints(clone(REGRESSOR).fit(X[:60], Y[:60]))
        assert model.cv_results_ == {"params": []} and model.best_params_ == {}

    def test_too_few_rows_give_the_fit_of_the_default(self):
        with pytest.warns(UserWarning, match="no rows can be held out"):
            model = TunedRegressor(budget=2).fit(X[:40], Y[:40])
        assert prints(model) == prints(GradientBoostingRegressor().fit(X[:40], Y[:40]))

    def test_time_ends_the_search(self, monkeypatch):
        """By a clock that goes on by a second at every look."""
        times = iter(range(10**6))
        monkeypatch.setattr(boosting, "clock", lambda: float(next(times)))
        model = TunedRegressor(REGRESSOR, budget="30min", n_jobs=1, **FAST).fit(X, Y)
        assert 1 < len(model.cv_results_["params"]) and next(times) < 2500

    def looks(self, monkeypatch, budget, model=REGRESSOR, **how):
        """Fit by a clock that goes on by a second at every look."""
        times = iter(range(10**6))
        monkeypatch.setattr(boosting, "clock", lambda: float(next(times)))
        tuned = TunedRegressor(model, budget=budget, n_jobs=1, **FAST | how).fit(X, Y)
        return tuned, next(times)

    @pytest.mark.parametrize("seconds", [20, 60])
    def test_time_up_in_the_first_training_scores_its_rounds(self, monkeypatch, seconds):
        """Time for the training on all rows remains."""
        tuned, n_looks = self.looks(monkeypatch, f"{seconds}s")
        found = tuned.cv_results_
        assert tuned.members_ == [0] and np.isfinite(tuned.best_score_)
        assert n_looks < 1.3 * seconds and 0 < found["n_rounds"][0] <= found["n_trained"][0] < 30
        assert tuned.forest_.n_trees % found["n_rounds"][0] == 0
        assert 0 < found["fit_time"][0] < 60 and found["fit_time"][1:].sum() == 0

    @pytest.mark.parametrize("seconds, n_copies", [(17, 1), (28, 2), (90, 3)])
    def test_members_are_trained_again_while_there_is_time(self, monkeypatch, seconds, n_copies):
        """By a clock on which each of seven settings takes a second, and each last training 10."""
        now = [0.0]

        def timed(method, seconds):
            def call(*args):
                method(*args)
                now[0] += seconds

            return call

        kind = candidate.Candidate
        monkeypatch.setattr(kind, "train", timed(kind.train, 1.0))
        monkeypatch.setattr(kind, "refit", timed(kind.refit, 10.0))
        monkeypatch.setattr(search, "MEMBERS", 1)
        monkeypatch.setattr(boosting, "clock", lambda: now[0])
        tuned = TunedRegressor(REGRESSOR, budget=f"{seconds}s", n_jobs=1, **FAST).fit(X, Y)
        n_rounds = tuned.cv_results_["n_rounds"]
        assert n_rounds.size == 7 and len(tuned.members_) == 1
        assert tuned.forest_.n_trees == n_copies * n_rounds[tuned.members_[0]]

    @pytest.mark.parametrize("seconds, latest", [((4, 2), 77.5), ((8, 8), 75.0), ((40,), 50.0)])
    def test_time_is_kept_for_the_last_trainings(self, seconds, latest):
        """For three of each member, or a quarter of the time, or at least one."""
        for elapsed, stops in ((latest - 1, False), (latest + 1, True)):
            own = SimpleNamespace(
                _budget=read_budget("100s"), _elapsed=elapsed, _n_at_once=1,
                best=lambda n: [SimpleNamespace(seconds=s) for s in seconds],
            )  # fmt: skip
            assert search.SettingSearch._stops(own) is stops

    def test_ctrl_c_at_any_score_keeps_the_last_ones(self, monkeypatch):
        """Also in the choice of an ensemble."""
        monkeypatch.setattr(candidate, "MOST_ROUNDS", 4)
        score, n_scores, last = candidate.FoldedTable.score, [0], [0]

        def interrupted(*args):
            n_scores[0] += 1
            if n_scores[0] == last[0]:
                raise KeyboardInterrupt
            return score(*args)

        def fit():
            n_scores[0] = 0
            return TunedRegressor(REGRESSOR, budget=2, n_jobs=1, **FAST | {"cv": 5}).fit(X, Y)

        monkeypatch.setattr(candidate.FoldedTable, "score", interrupted)
        fit()
        total, kept = n_scores[0], []
        for last[0] in range(1, total + 1):
            try:
                with pytest.warns(RuntimeWarning, match="interrupted"):
                    kept.append(sum(fit().cv_results_["n_trained"]))
            except KeyboardInterrupt:
                kept.append(0)
        assert kept == sorted(kept) and set(kept) == set(range(9))
        assert kept.count(0) == 1

    def test_ctrl_c_keeps_what_was_tried(self, monkeypatch):
        trained = []

        def interrupted(self, *args):
            trained.append(self.number)
            if self.number == 2:
                raise KeyboardInterrupt
            return train(self, *args)

        train = candidate.Candidate.train
        monkeypatch.setattr(candidate.Candidate, "train", interrupted)
        with pytest.warns(RuntimeWarning, match="best of 2 settings"):
            model = TunedRegressor(REGRESSOR, budget=50, **FAST).fit(X, Y)
        assert set(model.members_) <= {0, 1} and model.score(X, Y) > 0.9
        monkeypatch.setattr(candidate.Candidate, "train", lambda *_: (_ for _ in ()).throw(
            KeyboardInterrupt))  # fmt: skip
        fresh = TunedRegressor(REGRESSOR, budget=2, **FAST)
        with pytest.raises(KeyboardInterrupt):
            fresh.fit(X, Y)
        assert not hasattr(fresh, "estimator_")

    @pytest.mark.parametrize(
        ("of_member", "what"), [(0, "first 2 rounds of 1 of"), (1, ": 1 of . members are kept")]
    )
    def test_ctrl_c_in_the_last_training(self, tuned, monkeypatch, of_member, what):
        """Members that are finished are kept, or the rounds of the first one."""
        begun = []

        def interrupted(self, finished):
            if type(self) is not BoostingRounds:
                return settle(self, finished)
            begun.extend([] if finished.index else [self])
            if len(begun) == of_member + 1 and finished.index == 2:
                raise KeyboardInterrupt
            return settle(self, finished)

        settle = BoostingRounds.settle
        monkeypatch.setattr(BoostingRounds, "settle", interrupted)
        with pytest.warns(RuntimeWarning, match=f"last training was interrupted.*{what}"):
            model = clone(tuned).set_params(n_jobs=1).fit(X, Y)
        assert model.members_ == tuned.members_[:1] and model.weights_.tolist() == [1.0]
        n_rounds = model.cv_results_["n_rounds"][model.members_[0]]
        assert model.forest_.n_trees == (n_rounds if of_member else 2)
        whole = -model.cv_results_["mean_test_score"][model.members_[0]] if of_member else np.nan
        np.testing.assert_allclose(-model.ensemble_score_, whole, rtol=1e-12)
        first = tuned.forest_.slice(0, model.forest_.n_trees)
        np.testing.assert_array_equal(model.forest_.threshold, first.threshold)

    def test_ctrl_c_in_a_later_copy_keeps_those_that_are_finished(self, tuned, monkeypatch):
        """Each member has the weight that it had, and the score is the same."""
        n_members, calls = len(tuned.members_), []

        def interrupted(self, k, seed, forests):
            calls.append(seed)
            if len(calls) == n_members + 2:
                raise KeyboardInterrupt
            return refit(self, k, seed, forests)

        refit = candidate.Candidate.refit
        monkeypatch.setattr(candidate.Candidate, "refit", interrupted)
        with pytest.warns(RuntimeWarning, match="of 3 copies of the members 1 are kept"):
            model = clone(tuned).set_params(n_jobs=1).fit(X, Y)
        assert model.members_ == tuned.members_
        assert model.ensemble_score_ == tuned.ensemble_score_
        np.testing.assert_array_equal(model.weights_, tuned.weights_)
        assert 3 * model.forest_.n_trees == tuned.forest_.n_trees

    def test_a_space_may_end(self):
        assert len(list(draws({"max_depth": [1, 2]}, 0))) == 2
        depths = {"max_depth": [1, 2]}
        model = TunedRegressor(REGRESSOR, budget=9, param_distributions=depths, cv=2).fit(X, Y)
        assert len(model.cv_results_["params"]) == 3

    def test_progress(self, capsys):
        TunedRegressor(REGRESSOR, budget=2, verbose=1, **FAST).fit(X, Y)
        lines = capsys.readouterr().err.splitlines()
        assert "1 settings: best loss" in lines[0]

    def test_settings_that_are_equal_share_a_rank(self):
        """As in scikit-learn."""
        names = "params", "n_rounds", "n_trained", "fit_time"
        tried = [SimpleNamespace(score=score, **dict.fromkeys(names, 0)) for score in (2, 1, 2, 3)]
        results = search.SettingSearch.results(SimpleNamespace(candidates=tried))
        assert results["rank_test_score"].tolist() == [2, 1, 2, 4]

    def test_raw_predictions_of_the_best_are_kept(self, monkeypatch):
        monkeypatch.setattr(search, "CHOICE", 2)
        found = []
        choose = search.SettingSearch.choose
        monkeypatch.setattr(
            search.SettingSearch, "choose", lambda self: (found.append(self), choose(self))
        )
        TunedRegressor(REGRESSOR, budget=4, **FAST).fit(X, Y)
        (own,) = found
        assert {c.number for c in own.candidates if c.raw is not None} == {
            c.number for c in own.best(2)
        }


class TestParameters:
    @pytest.mark.parametrize("settings, error, message", [
        ({"estimator": GradientBoostingClassifier()}, TypeError, "must be a GradientBoostingReg"),
        ({"estimator": GradientBoostingRegressor(n_estimators=5)}, ValueError, "n_estimators='a"),
        ({"estimator": GradientBoostingRegressor(dropout=0.1)}, ValueError, "dropout=0.0"),
        ({"param_distributions": {}}, TypeError, "param_distributions must be"),
        ({"param_distributions": {"depth": [1]}}, ValueError, "'depth', which is not"),
        ({"param_distributions": {"max_bins": [9]}}, ValueError, "'max_bins', which is not"),
        ({"param_distributions": {"max_depth": [-1]}}, ValueError, "max_depth"),
        ({"param_distributions": {"max_depth": [3] * 50 + [-1]}}, ValueError, "max_depth"),
        ({"verbose": "yes"}, ValueError, "verbose"),
        ({"estimator": GradientBoostingRegressor(random_state=1)}, ValueError, "random_state=1"),
        ({"estimator": GradientBoostingRegressor(n_jobs=1)}, ValueError, "TunedRegressor itself"),
        ({"estimator": GradientBoostingRegressor(scoring="r2")}, ValueError, "scoring='r2'"),
        ({"estimator": GradientBoostingRegressor(device="cpu")}, ValueError, "device='cpu'"),
        ({"estimator": GradientBoostingRegressor(verbose=True)}, ValueError, "verbose=True"),
        ({"estimator": GradientBoostingRegressor(learning_rate=[0.1])}, ValueError, "list of l"),
        ({"param_distributions": {"learning_rate": [0.1] * 50 + [-1.0]}}, ValueError, "> 0"),
        ({"param_distributions": {"learning_rate": [[0.1]]}}, ValueError, "list of l"),
    ])  # fmt: skip
    def test_bad_ones(self, settings, error, message):
        with pytest.raises(error, match=message):
            TunedRegressor(**{"estimator": REGRESSOR, "budget": 2, **settings}).fit(X, Y)

    def test_the_features_that_nodes_look_at_stay_those_of_the_estimator(self):
        """The space has the other parameter that says how many, which cannot be set beside it."""
        template = GradientBoostingRegressor(max_features=2, **QUICK)
        model = TunedRegressor(template, budget=3, cv=2).fit(X, Y)
        tried = model.cv_results_["params"]
        assert model.estimator_.max_features == 2 and len(tried) == 3
        assert not any("colsample_bynode" in params for params in tried)
        own = TunedRegressor(template, budget=3, cv=2, param_distributions={
            "colsample_bynode": [0.5]})  # fmt: skip
        with pytest.raises(ValueError, match="max_features=2 and colsample_bynode=0.5 both"):
            own.fit(X, Y)

    def test_others_of_the_estimator_hold_for_all(self):
        template = GradientBoostingRegressor(SquaredError(), monotonic_cst=[1, 0, 0, 0, 0], **QUICK)
        model = TunedRegressor(template, budget=2, **FAST).fit(X, Y)
        table = np.repeat(X[:1], 50, axis=0)
        table[:, 0] = np.linspace(0, 1, 50)
        assert (np.diff(model.predict(table)) >= 0).all()
        assert template.random_state is None and isinstance(model.forest_, Forest)


class TestFolds:
    def test_each_fold_has_codes_of_its_own(self, monkeypatch):
        """Growth keeps its workspace with them: two trainings at a time must not share it."""
        seen = []

        def keep(table, *args):
            seen.append(table)
            return search.SettingSearch(table, *args)

        monkeypatch.setattr(boosting, "SettingSearch", keep)
        models = [TunedRegressor(REGRESSOR, budget=1, cv=8, n_jobs=j).fit(X, Y) for j in (1, 4)]
        assert len({id(codes) for codes in seen[0].codes}) == 8
        assert prints(models[0]) == prints(models[1])

    @pytest.mark.slow
    def test_a_start_at_zero_is_scored_from_zero(self):
        model = GradientBoostingRegressor(**QUICK, init="zero")
        slow = {"learning_rate": [1e-4], "max_leaf_nodes": [2]}
        tuned = TunedRegressor(model, budget=2, cv=2, param_distributions=slow).fit(X, 100 + Y)
        assert tuned.cv_results_["mean_test_score"][1] < -1000

    @pytest.mark.parametrize("best, last", [(0, 25), (10, 35), (400, 460), (1900, 2000)])
    def test_patience_ends_a_training(self, best, last):
        """After 2.5 / 0.1 rounds, or 15 % of them."""
        assert candidate.Candidate._last(SimpleNamespace(rate=0.1), best) == last

    def test_low_rates_end_at_the_most_rounds(self, monkeypatch):
        monkeypatch.setattr(candidate, "MOST_ROUNDS", 30)
        tuned = TunedRegressor(
            REGRESSOR, budget=2, cv=2, param_distributions={"learning_rate": [1e-4, 0.02]}
        ).fit(X, Y)
        assert tuned.cv_results_["n_trained"].max() <= 30


class TestDefault:
    def test_it_has_both_shapes_of_trees_where_it_chooses(self):
        template = GradientBoostingRegressor(learning_rate=0.3)
        model = TunedRegressor(template, budget=2, cv=2).fit(X, Y)
        policies = [{"grow_policy": "lossguide"}, {"grow_policy": "symmetric"}]
        assert model.cv_results_["params"] == policies
        found = {policies[k]["grow_policy"] for k in model.members_}
        assert getattr(model.estimator_, "grow_policy_", None) in (
            found if len(found) == 1 else {None}
        )
        assert not hasattr(model.estimator_, "learning_rate_")

    def test_settings_of_other_tables_follow(self):
        """Where the default is leaf-wise alone, without the symmetric ones, and in no space of the
        caller."""
        both, leaf_wise = (first_of(space_of(False, own, True)) for own in (True, False))
        assert [part for part, _ in both] == [0, 1, 0, 1] and len(leaf_wise) == 2
        template = GradientBoostingRegressor(learning_rate=0.3, max_leaf_nodes=4)
        model = TunedRegressor(template, budget=4, cv=2).fit(X, Y)
        tried = model.cv_results_["params"]
        assert tried[:3] == [{}, *(params for _, params in leaf_wise)]
        assert not any("grow_policy" in params for params in tried)

    def test_half_of_the_draws_change_the_best(self):
        """In some parameters; those that a changed default lacks stay its own."""
        first = list(enumerate(defaults(True)))
        parents = [params for _, params in first[1:]]
        drawn = list(islice(draws(space_of(True, True, True), 0, lambda: parents, first), 100))
        whole = {*NUMERIC, *CATEGORICAL, "grow_policy", "max_depth"} - {"max_leaf_nodes"}
        changed = [p for p in drawn if p["grow_policy"] == "symmetric" and set(p) < whole]
        assert 30 < len(changed) < 60 and all(len(p) > 1 for p in changed)
        near = draws(SPACE, 0, lambda: [{"max_leaf_nodes": 4, "learning_rate": 0.2}])
        assert len(list(near)) == 6

    def test_the_space_has_symmetric_trees_of_some_depth(self):
        drawn = list(islice(draws(space_of(True, True, True), 0), 30))
        assert {p["grow_policy"] for p in drawn} == {"lossguide", "symmetric"}
        for p in drawn:
            assert ("max_depth" in p) == (p["grow_policy"] == "symmetric")
            assert ("max_leaf_nodes" in p) == (p["grow_policy"] == "lossguide")

    @pytest.mark.slow
    def test_the_rate_is_known_where_members_agree(self):
        model = TunedRegressor(GradientBoostingRegressor(max_leaf_nodes=4), budget=1, cv=2)
        found = model.fit(X, Y).estimator_
        assert found.learning_rate_ == GradientBoostingRegressor().fit(X, Y).learning_rate_
        assert found.grow_policy_ == "lossguide"

    def test_more_categories_than_bins_are_ranked(self):
        """As the estimator ranks them, whose model that of one setting is."""
        rng = np.random.default_rng(0)
        c = rng.integers(0, 80, 600)
        table = pd.DataFrame({"c": pd.Categorical(c.astype(str)), "x": rng.normal(size=600)})
        y = rng.normal(size=80)[c] + 0.3 * table["x"]
        template = GradientBoostingRegressor(max_bins=32, cat_smooth=5.0, **QUICK)
        tuned = TunedRegressor(template, budget=1, cv=2).fit(table, y)
        n_rounds, seed = int(tuned.cv_results_["n_rounds"][0]), tuned.estimator_._seed
        plain = clone(template).set_params(
            n_estimators=n_rounds, random_state=seed, subsample=0.8, colsample_bynode=0.6
        )
        first = plain.fit(table, y).forest_
        np.testing.assert_array_equal(tuned.forest_.slice(0, n_rounds).threshold, first.threshold)


class TestGroups:
    def test_whole_groups_are_held_out(self, monkeypatch):
        asked, groups = [], np.arange(len(X)) % 7

        def keep(*args):
            asked.extend(search_folds(*args))
            return asked

        search_folds = boosting.SearchedBoosting._folds
        monkeypatch.setattr(boosting.SearchedBoosting, "_folds", keep)
        TunedRegressor(REGRESSOR, budget=1).fit(X, Y, groups=groups)
        assert len(asked) == 5
        assert all(not set(groups[f.seen]) & set(groups[f.asked]) for f in asked)
        assert sorted(np.concatenate([f.asked for f in asked])) == list(range(len(X)))

    def test_their_number_is_checked(self):
        for rows in (slice(None), slice(20)):
            with pytest.raises(ValueError, match="one group for each"):
                TunedRegressor(REGRESSOR, budget=1).fit(X[rows], Y[rows], groups=np.arange(3))


class TestErrors:
    def test_a_fold_without_weight_is_named(self):
        weight = np.repeat([0.0, 1.0], [75, 75])
        with pytest.raises(ValueError, match="in fold 0 whose weights are all 0"):
            TunedRegressor(REGRESSOR, budget=1, cv=KFold(2)).fit(X, Y, weight)

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
    def test_a_metric_that_is_not_defined_is_named(self):
        is_many = Y > np.median(Y)
        cv = [(np.arange(len(X)), np.flatnonzero(is_many)[:20])]
        model = TunedClassifier(CLASSIFIER, budget=1, scoring="roc_auc", cv=cv)
        with pytest.warns(UserWarning, match="'roc_auc' is not defined on the rows held out"):
            model.fit(X, is_many)

    def test_a_missing_target_names_the_class(self):
        with pytest.raises(ValueError, match="This TunedRegressor estimator requires y"):
            TunedRegressor(budget=1).fit(X)


def test_a_file_has_none_for_a_splitter_and_distributions(tmp_path):
    space = {"max_leaf_nodes": randint(2, 8)}
    model = TunedRegressor(REGRESSOR, budget=2, param_distributions=space, cv=KFold(2)).fit(X, Y)
    model.save(tmp_path / "model.gpuens")
    loaded = gpuens.load(tmp_path / "model.gpuens")
    assert loaded.cv is None and loaded.param_distributions is None and loaded.budget == 2
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
