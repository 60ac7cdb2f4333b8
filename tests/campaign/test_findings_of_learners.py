"""What the campaign has found of losses, rankings, survival, intervals and tables in files."""

from __future__ import annotations

import gc
import re
import weakref
from contextlib import nullcontext

import numpy as np
import pytest

import gpuens
from gpuens.conformal.regressor import METHODS
from gpuens.devices import placement
from gpuens.forests import oblique
from gpuens.kernels.runtime import arrays
from gpuens.losses import AFT
from gpuens.members.fitting import whole
from tests.support.streaming import streaming
from tests.support.suited import suited

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0]
FEW = {"n_estimators": 2, "device": "cpu"}
EVENTS = (np.arange(60) % 3 > 0, np.exp(Y))
RAGGED = (EVENTS[0], EVENTS[1][:-1])
STRUCTURED, _ = suited("RandomSurvivalForest", None, Y)


class TestTargets:
    """Of another kind than the learner's."""

    @pytest.mark.parametrize("name", ["RandomForest", "GradientBoosting", "Bagging", "Stagewise"])
    def test_entries_that_differ_in_length(self, name):
        for kind in ("Classifier", "Regressor"):
            with pytest.raises(ValueError, match="y must have a value, .* differ in length"):
                getattr(gpuens, name + kind)(**FEW).fit(X, RAGGED)

    def test_entries_of_a_batch_that_differ_in_length(self):
        with pytest.raises(ValueError, match="y of batch 0 must have a value for each of its 60"):
            gpuens.BinnedTable.from_batches(lambda: iter([(X, RAGGED)]))

    def test_labels_with_fields(self):
        with pytest.raises(ValueError, match="Unknown label type: y has dtype"):
            gpuens.RandomForestClassifier(**FEW).fit(X, STRUCTURED)

    @pytest.mark.parametrize("dtype", ["M8[D]", "M8[ns]", "m8[s]"])
    def test_labels_that_are_dates(self, dtype):
        """Those of other units than nanoseconds could not be compared with numbers."""
        labels = (np.arange(60) % 2).astype(dtype)
        model = gpuens.DecisionTreeClassifier(device="cpu").fit(X, labels)
        assert model.classes_.dtype == labels.dtype
        np.testing.assert_array_equal(model.predict(X), labels)
        labels[7] = "NaT"
        with pytest.raises(ValueError, match="Input y contains NaT"):
            model.fit(X, labels)

    def test_times_are_read_where_there_is_memory(self, monkeypatch):
        """Reading them took more than a control group had: the plan came too late."""
        monkeypatch.setattr(placement, "available_memory", lambda: 2 * 2**20)
        monkeypatch.setattr(AFT, "read_times", None)
        n = 100_000
        model = gpuens.GradientBoostingRegressor(loss="aft", device="cpu")
        with pytest.raises(MemoryError, match="target and weights"):
            model.fit(np.zeros((n, 1)), np.ones((n, 2)))

    @pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
    def test_scores_without_weight(self, kind):
        """Versions of scikit-learn differ in what they raise."""
        model = getattr(gpuens, f"DecisionTree{kind}")(device="cpu").fit(X, Y > 0)
        with pytest.raises(ValueError, match="y or sample_weight do not fit the predictions"):
            model.score(X, Y > 0, np.zeros(60))

    def test_none_at_all(self):
        none = np.empty((0, 3))
        for model, y, given in (
            (gpuens.GradientBoostingRanker(**FEW), np.empty(0), {"qid": np.empty(0)}),
            (gpuens.ExtraSurvivalTrees(**FEW), (none[:, 0] > 0, none[:, 0]), {"sample_weight": 2}),
            (gpuens.GradientBoostingRegressor(loss="aft", **FEW), none[:, :2], {}),
        ):
            with pytest.raises(ValueError, match="is empty: pass"):
                model.fit(none, y, **given)

    @pytest.mark.parametrize("criterion, size", [
        ("squared_error", 1e140), ("absolute_error", 1e300), ("poisson", 1e290),
    ])  # fmt: skip
    @pytest.mark.filterwarnings("error")
    def test_errors_without_a_finite_sum(self, criterion, size):
        tree = gpuens.DecisionTreeRegressor(criterion=criterion, device="cpu")
        y = np.abs(Y) * size
        assert np.isfinite(tree.fit(X, y).predict(X)).all()
        with pytest.raises(ValueError, match="divide y or sample_weight by a constant"):
            tree.fit(X, y, np.full(60, 1e30))


@pytest.mark.parametrize("share, fits", [(0.7, True), (0.8, False), (0.99, False)])
def test_scale_of_mostly_equal_targets(share, fits):
    """Student's t distribution got a scale of 1e-13 where most rows had the same target."""
    y = np.where(np.arange(1000) < share * 1000, 5.0, RNG.normal(size=1000))
    rows = RNG.normal(size=(1000, 2))
    model = gpuens.GradientBoostingRegressor(loss="student_t", **FEW)
    if not fits:
        with pytest.raises(ValueError, match=r"StudentT\(df=3.0\) finds no scale: y is the same"):
            model.fit(rows, y)
        larger = gpuens.losses.StudentT(df=200.0)
        assert model.set_params(loss=larger).fit(rows, y).predict_dist(rows).scale.min() > 1e-3
    else:
        assert model.fit(rows, y).predict_dist(rows).scale.min() > 1e-3


class TestRanking:
    def test_queries_without_weight_are_not_held_out(self):
        """They made the metric 0 / 0, or left no row to train on."""
        y, given = suited("GradientBoostingRanker", None, Y)
        weight = np.repeat(np.arange(8) > 5, [*given["group"]]).astype(float)
        model = gpuens.GradientBoostingRanker(early_stopping=True, min_samples_leaf=1, **FEW)
        model.fit(X, y, weight, **given)
        assert np.isfinite(model.validation_score_).all()
        weight[:] = 0.0
        weight[-1] = 1.0
        with pytest.raises(ValueError, match="validation_fraction=0.1 of 1 queries cannot be held"):
            model.fit(X, y, weight, **given)


class TestObliqueForests:
    """They choose their parameters by a part of large tables."""

    def test_rows_that_do_not_fit_together(self, monkeypatch):
        monkeypatch.setattr(oblique, "TRIAL_ROWS", 30)
        forest = gpuens.ObliqueRandomForestRegressor(**FEW)
        for y, weight in ((Y[:20], None), (Y, np.ones(20))):
            with pytest.raises(ValueError, match="inconsistent numbers|one weight for each"):
                forest.fit(X, y, weight)
        with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
            forest.fit(X[:, 0], Y[:20])

    def test_one_weight_of_all_rows(self, monkeypatch):
        forest = gpuens.ObliqueRandomForestRegressor(random_state=0, **FEW)
        monkeypatch.setattr(oblique, "TRIAL_ROWS", 30)
        weighted = forest.fit(X, Y, 2.0).predict(X)
        np.testing.assert_array_equal(weighted, forest.fit(X, Y, np.full(60, 2.0)).predict(X))


def ctrl_c(state):
    raise KeyboardInterrupt


MEMBER = gpuens.GradientBoostingRegressor(n_estimators=5, device="cpu", callbacks=[ctrl_c])


class TestInterruptions:
    @pytest.mark.parametrize("model", [
        gpuens.ConformalRegressor(MEMBER, method="cv+"),
        gpuens.VotingRegressor([("boosting", MEMBER)]),
        gpuens.BaggingRegressor(MEMBER, **FEW),
        gpuens.AdaBoostRegressor(MEMBER, **FEW),
        gpuens.StagewiseRegressor(MEMBER, **FEW),
    ], ids=lambda model: type(model).__name__)  # fmt: skip
    @pytest.mark.filterwarnings("ignore:Training was interrupted")
    def test_members_that_were_interrupted_are_not_taken(self, model):
        """Ctrl-C ended the training of one member, and the others went on."""
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y)
        assert not hasattr(model, "n_features_in_")

    @pytest.mark.filterwarnings("ignore:Training was interrupted")
    def test_forests_that_were_interrupted_are_not_taken(self):
        forest = gpuens.RandomForestRegressor(5, device="cpu").fit(X, Y)
        assert whole(forest) is forest
        forest.forest_ = forest.forest_.slice(0, 3)
        with pytest.raises(KeyboardInterrupt):
            whole(forest)

    def test_survival_forest_without_a_finished_tree(self, monkeypatch):
        def interrupted(*args):
            raise KeyboardInterrupt

        monkeypatch.setattr("gpuens.forests.quantile.rows_of_trees", interrupted)
        forest = gpuens.RandomSurvivalForest(**FEW)
        with pytest.raises(KeyboardInterrupt):
            forest.fit(X, EVENTS)
        assert not hasattr(forest, "forest_")

    def test_baseline_that_was_interrupted(self, monkeypatch):
        """The trees were new, and the hazards of the baseline were missing."""

        def interrupted(*args):
            raise KeyboardInterrupt

        model = gpuens.GradientBoostingRegressor(loss="cox", **FEW).fit(X, EVENTS)
        before = model.predict_survival_function(X)
        monkeypatch.setattr(model, "_raw_of_training", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.set_params(n_estimators=9).fit(-X, EVENTS)
        np.testing.assert_array_equal(model.predict_survival_function(X), before)


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
@pytest.mark.parametrize(
    "truth", [["a", 1, None] * 20, [[1], [2, 3]] * 30, None, STRUCTURED, Y[:9]]
)
def test_scores_name_targets(kind, truth):
    """NumPy's errors of comparisons and shapes named nothing."""
    y, _ = suited(kind, None, Y)
    for name in ("RandomForest", "GradientBoosting", "Bagging"):
        model = getattr(gpuens, name + kind)(**FEW).fit(X, y)
        named = (
            "y or sample_weight do not fit|y must|Input y contains|target y is None|"
            "Unknown label type: y|samples: y has"
        )
        with pytest.raises((ValueError, TypeError), match=named):
            model.score(X, truth)


class TestIntervals:
    def test_of_a_bag_do_not_depend_on_other_rows(self):
        """Matrix products add up in an order that depends on their shapes."""
        model = gpuens.ConformalRegressor(
            gpuens.RandomForestRegressor(31, device="cpu"), method="bag"
        ).fit(X, Y)
        whole = model.predict_interval(X, 0.5)
        for first in range(0, 50, 7):
            for last in range(first + 1, 60, 9):
                part = model.predict_interval(X[first:last], 0.5)
                np.testing.assert_array_equal(part, whole[first:last])

    @pytest.mark.parametrize("method", METHODS)
    def test_method_that_was_changed_after_the_fit(self, method):
        """Attributes were missing, also where a damaged file had another method."""
        kind = (
            gpuens.QuantileForestRegressor if method == "quantile" else gpuens.ExtraTreesRegressor
        )
        trees = kind(31, bootstrap=True, device="cpu")
        model = gpuens.ConformalRegressor(trees, method=method, cv=3).fit(X, Y)
        for other in {*METHODS, "none"} - {method}:
            model.set_params(method=other)
            for task in (model.predict, model.predict_interval):
                with pytest.raises(ValueError, match=re.escape(f"method must be {method!r}, with")):
                    task(X)

    def test_regressors_of_several_outputs(self):
        several = gpuens.QuantileForestRegressor(5, default_quantiles=[0.1, 0.9], device="cpu")
        for method in ("split", "cv+"):
            with pytest.raises(ValueError, match="estimator must predict a number for each row"):
                gpuens.ConformalRegressor(several, method=method, cv=2).fit(X, Y)


class TestTables:
    def table(self, rows, path=None):
        halves = [(rows[:20], Y[:20]), (rows[20:], Y[20:])]
        return gpuens.BinnedTable.from_batches(lambda: iter(halves), path=path)

    @pytest.mark.parametrize("values", [[-np.inf], [np.inf], [np.inf, -np.inf, np.nan]])
    def test_infinities_in_a_file(self, values, tmp_path):
        """A file with -inf was refused as damaged."""
        rows = X.copy()
        rows[::7, 0] = np.resize(values, 9)
        rows[:, 1] = -np.inf
        tree = gpuens.DecisionTreeRegressor(max_bins=255, device="cpu")
        expected = tree.fit(rows, Y).forest_.fingerprint()
        assert tree.fit(self.table(rows, tmp_path / "table")).forest_.fingerprint() == expected

    @pytest.mark.parametrize("where", ["file", "passes", "part", "held out"])
    def test_tables_do_not_outlive_their_last_use(self, where, tmp_path):
        """What growth keeps with the rows held the rows: files stayed open, and parts in memory."""
        in_file = where in ("file", "passes")
        table = self.table(X, tmp_path / "table" if in_file else None)
        table = table[np.arange(40)] if where == "part" else table
        model = gpuens.GradientBoostingRegressor(early_stopping=where == "held out", **FEW)
        before = len(arrays._kept)
        with streaming() if where == "passes" else nullcontext():
            model.fit(table)
        rows = weakref.ref(table._codes.rows)
        del table
        gc.collect()
        assert rows() is None and len(arrays._kept) <= before

    def test_zeros_of_both_signs(self):
        """A threshold got the sign of the zero that sorting had left at the end of its bin."""
        rows = np.where(np.arange(60) % 2, 0.0, -0.0)[:, None] * np.ones(3)
        rows[::5] = np.inf
        tree = gpuens.DecisionTreeRegressor(max_bins=255, max_depth=1, device="cpu")
        y = np.isinf(rows[:, 0]).astype(float)
        for order in (slice(None), slice(None, None, -1)):
            part = rows[order], y[order]
            table = gpuens.BinnedTable.from_batches(lambda part=part: iter([part]))
            for model in (tree.fit(*part), tree.fit(table)):
                inner = model.forest_.feature >= 0
                assert not np.signbit(model.forest_.threshold[inner]).any()
