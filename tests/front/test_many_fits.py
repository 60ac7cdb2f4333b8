"""Many models side by side: each is the one that its own fit gives."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier as TheirForest
from sklearn.ensemble import StackingClassifier
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import GridSearchCV as TheirSearch
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, cross_val_predict

from gpuens import (
    BaggingClassifier,
    DecisionTreeClassifier,
    GradientBoostingClassifier,
    GridSearchCV,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomizedSearchCV,
    VotingClassifier,
    fit_many,
)
from gpuens.boosting.rounds import BoostingRounds
from gpuens.datasets import make_higgs_like
from gpuens.devices.placement import to_numpy
from gpuens.estimators.parameters import threads_of
from gpuens.trees import growth
from tests.support import strict_cupy
from tests.support.lanes import few

X, Y = make_higgs_like(600, random_state=0)
GRID = {"max_leaf_nodes": [3, 8], "learning_rate": [0.1, 0.3]}


class After:
    """Raise what Ctrl-C raises after some rounds."""

    def __init__(self, n_rounds):
        self.n_rounds = n_rounds

    def after_iteration(self, state):
        if state.iteration == self.n_rounds:
            raise KeyboardInterrupt


def prints(model):
    return model.forest_.fingerprint()


class TestFitMany:
    @pytest.mark.parametrize("n_jobs", [1, 2, 3])
    def test_each_model_is_its_own(self, n_jobs):
        estimator = GradientBoostingClassifier(n_estimators=4, n_jobs=2)
        folds = KFold(3, shuffle=True, random_state=0)
        found = fit_many(estimator, X, Y, param_grid=GRID, folds=folds, n_jobs=n_jobs)
        assert [len(models) for models in found] == [3, 3, 3, 3]
        for models in found:
            for model, (train, _) in zip(models, folds.split(X), strict=True):
                assert prints(model) == prints(clone(model).fit(X[train], Y[train]))
                assert model.n_jobs == 2
        settings = {(m[0].max_leaf_nodes, m[0].learning_rate) for m in found}
        assert settings == {(3, 0.1), (3, 0.3), (8, 0.1), (8, 0.3)}

    def test_a_number_of_folds_stratifies_classes(self):
        (models,) = fit_many(GradientBoostingClassifier(n_estimators=2), X, Y, folds=3)
        for model, (train, _) in zip(models, StratifiedKFold(3).split(X, Y), strict=True):
            assert prints(model) == prints(clone(model).fit(X[train], Y[train]))

    def test_several_estimators_frames_and_weights(self):
        frame = pd.DataFrame(X[:, :4], columns=list("abcd"))
        weight = np.arange(len(X)) % 3 + 1.0
        pair = [RandomForestRegressor(3), LogisticRegression()]
        (forest,), (linear,) = fit_many(pair, frame, Y, sample_weight=weight)
        alone = RandomForestRegressor(3).fit(frame, Y, weight)
        assert prints(forest) == prints(alone)
        np.testing.assert_array_equal(
            linear.coef_, LogisticRegression().fit(frame, Y, weight).coef_
        )
        assert not hasattr(pair[0], "forest_")

    def test_weights_of_another_length(self):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            fit_many(LogisticRegression(), X, Y, folds=3, sample_weight=np.ones(len(X) + 5))

    def test_coordinates_of_a_sparse_table(self):
        table = scipy.sparse.coo_matrix(X)
        _, (found,) = fit_many(LogisticRegression(), table, Y, folds=3, method="predict")
        expected = cross_val_predict(LogisticRegression(), table.tocsr(), Y, cv=3)
        np.testing.assert_array_equal(found, expected)

    @pytest.mark.parametrize("arguments, error, message", [
        (([],), ValueError, "estimators is empty"),
        ((GradientBoostingClassifier,), TypeError, "Pass instances, not classes"),
        (([RandomForestRegressor()], {"max_depth": [1]}), TypeError, "for one estimator"),
        ((RandomForestRegressor(), None, []), ValueError, "folds is empty"),
        ((RandomForestRegressor(), None, object()), TypeError, "folds must be"),
        ((RandomForestRegressor(-1),), ValueError, "n_estimators"),
    ])  # fmt: skip
    def test_bad_input(self, arguments, error, message):
        estimators, grid, folds = (*arguments, None, None)[:3]
        with pytest.raises(error, match=message):
            fit_many(estimators, X, Y, param_grid=grid, folds=folds)

    @pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
    def test_out_of_fold_predictions_are_those_of_scikit_learn(self, method):
        estimator = GradientBoostingClassifier(n_estimators=3)
        more = {"method": method, "sample_weight": np.arange(len(X)) % 3 + 1.0}
        grid, folds = {"max_depth": [1, 3]}, KFold(3, shuffle=True, random_state=0)
        models, found = fit_many(estimator, X, Y, param_grid=grid, folds=folds, **more)
        assert [len(own) for own in models] == [3, 3] and len(found) == 2
        params = {"sample_weight": more["sample_weight"]}
        for (model, *_), own in zip(models, found, strict=True):
            expected = cross_val_predict(model, X, Y, cv=folds, method=method, params=params)
            np.testing.assert_array_equal(own, expected)

    def test_folds_may_lack_classes_and_targets_be_several(self):
        classes = np.array(["a", "b", "c"])[np.arange(len(X)) // 200]
        model = DecisionTreeClassifier(max_depth=2)
        how = "predict_proba"
        with pytest.warns(RuntimeWarning, match="Number of classes"):
            expected = cross_val_predict(model, X, classes, cv=KFold(3), method=how)
        with pytest.warns(RuntimeWarning, match=r"of the folds \[0, 1, 2\] lack classes"):
            _, (found,) = fit_many(model, X, classes, folds=KFold(3), method=how)
        np.testing.assert_array_equal(found, expected)
        targets = np.stack([Y, 1 - Y], axis=1)
        expected = cross_val_predict(model, X, targets, cv=KFold(3), method=how)
        _, (found,) = fit_many(model, X, targets, folds=KFold(3), method=how)
        np.testing.assert_array_equal(found, expected)

    @pytest.mark.filterwarnings("ignore:Number of classes in training fold")
    @pytest.mark.filterwarnings("ignore:divide by zero")
    @pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba"])
    @pytest.mark.parametrize("kind", [list, np.asarray])
    def test_outputs_whose_folds_lack_classes(self, method, kind):
        """Other classes in each fold, and as many."""
        targets = np.stack([np.arange(len(X)) // 200, np.arange(len(X)) // 10 % 4], axis=1)
        targets[400:, 1] %= 3
        more = {"method": method}
        model = DecisionTreeClassifier(max_depth=2)
        folds = [*KFold(3).split(X)]
        folds[0] = (np.flatnonzero(targets.max(axis=1) < 3), folds[0][1])
        expected = cross_val_predict(model, X, targets, cv=folds, **more)
        with pytest.warns(RuntimeWarning, match=r"of the folds \[0, 1, 2\] lack classes"):
            _, (found,) = fit_many(model, X, kind(targets.tolist()), folds=folds, **more)
        assert [part.shape[1] for part in found] == [3, 4]
        for own, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(own, theirs)

    def test_a_class_that_no_fold_is_trained_on(self):
        classes = np.array(["b", "a", "c"])[np.arange(len(X)) % 3]
        known = np.flatnonzero(classes != "b")
        folds = [(known, np.arange(300)), (known, np.arange(300, 600))]
        with pytest.warns(RuntimeWarning, match=r"of the folds \[0, 1\] lack classes"):
            (models,), (found,) = fit_many(
                DecisionTreeClassifier(max_depth=2), X, classes, folds=folds, method="predict_proba"
            )
        assert not found[:, 1].any()
        np.testing.assert_array_equal(found[:, [0, 2]], models[0].predict_proba(X))

    @pytest.mark.parametrize(
        ("folds", "method", "message"),
        [
            (None, "predict", "pass folds too"),
            (2, "transform", "method must be one of .*'predict_proba'.*got 'transform'"),
            (ShuffleSplit(2, random_state=0), "predict", "row 0 is held out 0 times"),
            ([([0, 1], [0, 600])], "predict", "folds must hold out rows of X, which has 600.*600"),
            (
                [(np.flatnonzero(Y), range(600))],
                "decision_function",
                r"to train on in fold 0 miss the class\(es\) \[0.*StratifiedKFold",
            ),
            ([([0, 1], range(600)), ([0, 1], [7])], "predict", "row 7 is held out 2 times"),
        ],
    )
    def test_out_of_fold_predictions_that_do_not_exist(self, folds, method, message):
        """Nothing is trained."""
        with pytest.raises(ValueError, match=message):
            fit_many(GradientBoostingClassifier(-1), X, Y, folds=folds, method=method)

    def test_methods_are_those_of_the_instance(self):
        members = [("tree", DecisionTreeClassifier(max_depth=2))]
        more = {"folds": 2, "method": "predict_proba"}
        with pytest.raises(ValueError, match=r"one of \['predict'\] for this VotingClassifier"):
            fit_many(VotingClassifier(members, voting="hard"), X, Y, **more)
        for allowed in (VotingClassifier(members, voting="soft"), StackingClassifier(members)):
            (models,), (found,) = fit_many(allowed, X, Y, **more)
            (_, test), _ = StratifiedKFold(2).split(X, Y)
            np.testing.assert_array_equal(found[test], models[0].predict_proba(X[test]))
        bag = BaggingClassifier(LogisticRegression(), 2, random_state=0)
        _, (found,) = fit_many(bag, X, Y, folds=2, method="decision_function")
        assert found.shape == (600,)

    def test_own_models_train_on_one_thread_each(self):
        seen, both = [], threading.Barrier(2)

        class Watching(GradientBoostingClassifier):
            def fit(self, *args, **more):
                seen.append(threads_of(self.n_jobs))
                both.wait(timeout=60)  # the last one alone would have all threads
                return super().fit(*args, **more)

        Watching.__module__ = GradientBoostingClassifier.__module__
        fit_many(Watching(n_estimators=2, n_jobs=3), X, Y, folds=2, n_jobs=2)
        assert seen == [1, 1]


class TestArraysOnADevice:
    """Arrays that NumPy cannot read, on the second of two GPUs and a stream of their own."""

    WEIGHT = np.arange(len(X)) % 3 + 1.0
    MODEL = GradientBoostingClassifier(n_estimators=3)
    SCORINGS = {
        "accuracy": {"scoring": "accuracy"},
        "of probabilities": {"scoring": "neg_log_loss"},
        "of decisions": {"scoring": "roc_auc"},
        "made": {"scoring": make_scorer(f1_score, pos_label=0)},
        "two": {"scoring": ["accuracy", "roc_auc"], "refit": "roc_auc"},
        "dictionary": {"scoring": {"one": "f1", "two": make_scorer(f1_score)}, "refit": "two"},
    }

    @pytest.fixture
    def cupy(self, monkeypatch):
        cupy = strict_cupy.install(monkeypatch)
        with cupy.cuda.Device(1), cupy.cuda.Stream(non_blocking=True):
            yield cupy

    @pytest.fixture
    def there(self, cupy):
        return tuple(map(cupy.asarray, (X, Y, self.WEIGHT)))

    def require_place(self, cupy, n_streams):
        """Work was on the caller's GPU: on its stream, or on those of the threads."""
        here = cupy.cuda.get_current_stream().ptr
        streams = {stream for device, stream in strict_cupy.log().places if device == 1}
        assert len(streams) == len(strict_cupy.log().places), "another GPU"
        others = streams - {here}
        assert (0 < len(others) <= n_streams and 0 not in others) if n_streams > 1 else not others

    def test_models_that_are_not_boosted_have_streams(self, cupy, there):
        forest = RandomForestRegressor(2, device="cuda")
        fit_many(forest, *there[:2], folds=3, n_jobs=2)
        self.require_place(cupy, 2)

    @pytest.mark.parametrize("folds", [None, 3, KFold(2)], ids=str)
    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_models_are_those_of_numpy_arrays(self, cupy, there, folds, n_jobs):
        more = {"folds": folds, "n_jobs": n_jobs}
        on_cpu = clone(self.MODEL).set_params(device="cpu")
        (expected,) = fit_many(on_cpu, X, Y, sample_weight=self.WEIGHT, **more)
        for table in (there[0], X):
            strict_cupy.log().clear()
            (found,) = fit_many(self.MODEL, table, there[1], sample_weight=there[2], **more)
            assert list(map(prints, found)) == list(map(prints, expected))
            self.require_place(cupy, 1)  # boosted models grow together

    def test_out_of_fold_predictions_are_where_the_table_is(self, there):
        more = {"folds": 3, "method": "predict_proba"}
        _, (expected,) = fit_many(clone(self.MODEL).set_params(device="cpu"), X, Y, **more)
        for table, kind in ((there[0], strict_cupy.ndarray), (X, np.ndarray)):
            _, (found,) = fit_many(self.MODEL, table, there[1], **more)
            assert type(found) is kind
            np.testing.assert_array_equal(to_numpy(found), expected)

    def test_they_stay_on_the_device_until_a_model_reads_them(self, there):
        class Reading(LogisticRegression):
            def fit(self, X, y, sample_weight):
                seen.append({type(X), type(y), type(sample_weight)})
                return self

        seen = []
        fit_many(Reading(), *there[:2], sample_weight=there[2], folds=2)
        assert seen == [{strict_cupy.ndarray}] * 2

    def test_folds_may_be_device_arrays(self, cupy, there):
        train = np.arange(400)
        (found,) = fit_many(self.MODEL, X, there[1], folds=[(cupy.asarray(train), train)])
        expected = clone(self.MODEL).set_params(device="cpu").fit(X[train], Y[train])
        assert prints(found[0]) == prints(expected)

    @pytest.mark.parametrize("on_device", few([True, False], 1), ids=["X too", "X on the host"])
    def test_searches(self, cupy, there, on_device):
        table = there[0] if on_device else X
        for search in (
            GridSearchCV(self.MODEL, GRID, cv=3, n_jobs=2),
            RandomizedSearchCV(self.MODEL, GRID, n_iter=2, cv=2, random_state=0, n_jobs=2),
        ):
            strict_cupy.log().clear()
            found = clone(search).fit(table, there[1], sample_weight=there[2])
            self.require_place(cupy, 1)
            search.estimator = clone(self.MODEL).set_params(device="cpu")
            expected = search.fit(X, Y, sample_weight=self.WEIGHT)
            assert prints(found.best_estimator_) == prints(expected.best_estimator_)
            np.testing.assert_array_equal(
                found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
            )

    @pytest.mark.parametrize("settings", SCORINGS.values(), ids=SCORINGS)
    def test_scorers_of_scikit_learn(self, there, settings):
        found = GridSearchCV(self.MODEL, {"max_depth": [1, 2]}, cv=2, **settings)
        expected = clone(found).set_params(estimator__device="cpu").fit(X, Y)
        scoring = found.scoring
        found.fit(*there[:2])
        assert found.scoring is scoring
        for name in (n for n in expected.cv_results_ if n.startswith("split")):
            np.testing.assert_array_equal(found.cv_results_[name], expected.cv_results_[name])
        assert found.score(*there[:2]) == found.score(there[0], Y) == expected.score(X, Y)
        assert type(found.predict(there[0])) is strict_cupy.ndarray

    def test_a_scorer_of_several_outputs(self, cupy):
        targets = np.stack([X[:, 0], X[:, 1] ** 2], axis=1)
        search = GridSearchCV(RandomForestRegressor(3), {"max_depth": [2, 3]}, cv=2, scoring="r2")
        expected = clone(search).set_params(estimator__device="cpu").fit(X, targets)
        found = search.fit(cupy.asarray(X), cupy.asarray(targets))
        assert found.best_score_ == expected.best_score_

    def test_a_function_of_your_own_gets_the_rows_as_they_are(self, there):
        def scoring(estimator, X, y):
            assert type(X) is type(estimator.predict(X)) is strict_cupy.ndarray
            return 0.5

        search = GridSearchCV(self.MODEL, {"max_depth": [1, 2]}, cv=2, scoring=scoring)
        assert search.fit(*there[:2]).best_score_ == 0.5


class TestSearch:
    @pytest.mark.parametrize("n_jobs", [None, 1, 2])
    def test_results_are_those_of_scikit_learn(self, n_jobs):
        estimator = GradientBoostingClassifier(n_estimators=4, n_jobs=2)
        ours = GridSearchCV(estimator, GRID, cv=3, n_jobs=n_jobs).fit(X, Y)
        theirs = TheirSearch(estimator, GRID, cv=3).fit(X, Y)
        assert ours.best_params_ == theirs.best_params_
        scores = "mean_test_score"
        np.testing.assert_array_equal(ours.cv_results_[scores], theirs.cv_results_[scores])
        assert prints(ours.best_estimator_) == prints(theirs.best_estimator_)
        assert ours.best_estimator_.n_jobs == 2
        assert ours.estimator is estimator and ours.n_jobs == n_jobs

    def test_random_search(self):
        estimator = GradientBoostingClassifier(n_estimators=2)
        search = RandomizedSearchCV(estimator, GRID, n_iter=2, cv=2, random_state=0).fit(X, Y)
        assert len(search.cv_results_["params"]) == 2
        assert search.predict(X).shape == Y.shape

    @pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_settings_that_fail_keep_their_place(self, n_jobs):
        """Whole batches of them: one setting at a time on one thread."""
        grid = {"max_depth": [-1, -2, 2, -3, 3]}
        search = GridSearchCV(GradientBoostingClassifier(n_estimators=2), grid, cv=2, n_jobs=n_jobs)
        with pytest.warns(FitFailedWarning):
            found = search.fit(X, Y).cv_results_
        depths = [setting["max_depth"] for setting in found["params"]]
        assert depths == grid["max_depth"]
        np.testing.assert_array_equal(
            np.isnan(found["mean_test_score"]), [True, True, False, True, False]
        )
        search.param_grid = {"max_depth": [-1, -2, -3]}
        with pytest.raises(ValueError, match="All the 6 fits failed"):
            search.fit(X, Y)

    def test_folds_that_are_drawn_are_drawn_once(self):
        folds = KFold(2, shuffle=True)  # without a seed
        search = GridSearchCV(DecisionTreeClassifier(), {"max_depth": [2] * 4}, cv=folds, n_jobs=1)
        scores = search.fit(X, Y).cv_results_["split0_test_score"]
        assert len(set(scores.tolist())) == 1

    def test_progress(self, capsys):
        model = GradientBoostingClassifier(n_estimators=2)
        search = GridSearchCV(model, {"max_depth": [1, 2, 3]}, cv=2, n_jobs=1, verbose=1)
        search.fit(X, Y)
        printed = capsys.readouterr()
        first, _, last = printed.err.splitlines()
        assert first.startswith("1 of 3 settings, best score 0.")
        assert last == f"3 of 3 settings, best score {search.best_score_:.6g}"
        assert not printed.out and search.verbose == 1
        search.set_params(verbose=2).fit(X, Y)
        assert "END" in capsys.readouterr().out

    @pytest.mark.parametrize("model, where, step", [
        (GradientBoostingClassifier(n_estimators=3), BoostingRounds, "finish"),
        (RandomForestClassifier(3, n_jobs=1), growth, "_grow_batch"),
    ], ids=["boosting", "forest"])  # fmt: skip
    def test_an_interruption_keeps_what_is_finished(self, model, where, step, monkeypatch):
        """Ctrl-C in the middle of a training, which on its own would keep what it has."""
        fits, steps = [], []

        def counted_fit(self, *args, **more):
            fits.append(self.max_depth)
            steps.clear()
            return fit(self, *args, **more)

        def interrupted(*args, **more):
            steps.append(1)
            if len(fits) == 6 and len(steps) == 2:
                raise KeyboardInterrupt
            return does(*args, **more)

        fit, does = type(model).fit, getattr(where, step)
        expected = GridSearchCV(model, {"max_depth": [1, 2]}, cv=2).fit(X, Y)
        monkeypatch.setattr(type(model), "fit", counted_fit)
        monkeypatch.setattr(where, step, interrupted)
        search = GridSearchCV(model, {"max_depth": [1, 2, 3, 4]}, cv=2, n_jobs=1)
        with pytest.warns(RuntimeWarning, match="has the 2 of 4 settings that were finished"):
            search.fit(X, Y)
        assert fits == [1, 1, 2, 2, 3, 3, search.best_params_["max_depth"]]
        assert search.cv_results_["params"] == expected.cv_results_["params"]
        assert search.best_score_ == expected.best_score_
        assert prints(search.best_estimator_) == prints(expected.best_estimator_)

    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_estimators_that_use_joblib_are_fitted_after_an_interruption(self, n_jobs, monkeypatch):
        """The last fit is not part of what Ctrl-C ended."""
        settings = {"max_depth": list(range(1, 9))}
        search = GridSearchCV(
            TheirForest(5, n_jobs=2, random_state=0), settings, cv=2, n_jobs=n_jobs
        )

        def interrupted(self, *report):
            if report[0] >= 4:
                os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr(GridSearchCV, "_report", interrupted)
        with pytest.warns(RuntimeWarning, match="of 8 settings that were finished"):
            search.fit(X, Y)
        assert 4 <= len(search.cv_results_["params"]) < 8
        expected = TheirForest(5, random_state=0, **search.best_params_).fit(X, Y)
        for own, tree in zip(search.best_estimator_.estimators_, expected.estimators_, strict=True):
            np.testing.assert_array_equal(own.predict_proba(X), tree.predict_proba(X))

    @pytest.mark.filterwarnings("ignore:One or more of the test scores:UserWarning")
    def test_an_error_inside_joblib_ends_one_fit(self):
        """Not the search, whose threads are its own."""

        def check(C):
            if C < 1:
                raise ValueError("bad")

        class InThreads(LogisticRegression):
            def fit(self, X, y):
                Parallel(n_jobs=2, require="sharedmem")(delayed(check)(self.C) for _ in range(4))
                return super().fit(X, y)

        search = GridSearchCV(InThreads(), {"C": [0.5, 1.0, 2.0]}, cv=2, n_jobs=1)
        with pytest.warns(FitFailedWarning):
            search.fit(X, Y)
        assert search.best_params_["C"] >= 1 and len(search.cv_results_["params"]) == 3

    def test_an_interruption_before_the_first_setting_is_raised(self):
        model = GradientBoostingClassifier(n_estimators=3, callbacks=[After(2)])
        with pytest.raises(KeyboardInterrupt):
            GridSearchCV(model, {"max_depth": [1]}, cv=2, n_jobs=1).fit(X, Y)
        with pytest.raises(KeyboardInterrupt):
            fit_many(model, X, Y, n_jobs=1)

    def test_halving_on_rounds(self):
        """scikit-learn's search with the number of rounds as its resource."""
        from sklearn.experimental import enable_halving_search_cv  # noqa: F401
        from sklearn.model_selection import HalvingGridSearchCV

        model = GradientBoostingClassifier(n_jobs=1)
        how = {"resource": "n_estimators", "min_resources": 2, "max_resources": 8, "factor": 2}
        search = HalvingGridSearchCV(model, {"max_depth": [1, 2, 3, 4]}, cv=2, **how).fit(X, Y)
        assert search.n_resources_ == [2, 4, 8]
        assert search.best_estimator_.n_iter_ == 8

    def test_it_can_be_cloned(self):
        search = clone(GridSearchCV(GradientBoostingClassifier(), GRID, n_jobs=3))
        assert search.n_jobs == 3 and search.param_grid == GRID

    @pytest.mark.filterwarnings("ignore:One or more of the test scores:UserWarning")
    def test_fits_that_fail_are_repeated_once_at_most(self):
        calls = []

        class Half(LogisticRegression):
            def fit(self, X, y):
                calls.append(self.C)
                if self.C < 18:
                    raise ValueError("bad")
                return super().fit(X, y)

        settings = {"C": [float(c) for c in range(14, 21)]}
        search = GridSearchCV(Half(), settings, cv=2, n_jobs=1)
        with pytest.warns(FitFailedWarning):
            search.fit(X, Y)
        assert search.best_params_["C"] >= 18 and len(search.cv_results_["params"]) == 7
        assert max(calls.count(c) for c in range(14, 18)) <= 2 * 2

    @pytest.mark.parametrize(
        ("scoring", "refit", "has_best"),
        few([("accuracy", "accuracy", True), (["accuracy", "roc_auc"], False, False)], 0),
    )
    def test_the_best_score_is_printed_where_there_is_one(self, capsys, scoring, refit, has_best):
        how = {"scoring": scoring, "refit": refit, "verbose": 1, "cv": 2}
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, **how).fit(X, Y)
        assert ("best" in capsys.readouterr().err) == has_best
