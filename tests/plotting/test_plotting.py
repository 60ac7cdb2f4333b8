"""What the displays of ``gpuens.plotting`` draw, against numbers computed another way."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier as SklearnForest
from sklearn.inspection import partial_dependence as sklearn_dependence
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, cohen_kappa_score, log_loss, r2_score
from sklearn.naive_bayes import GaussianNB

from gpuens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    DecisionTreeClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from gpuens.inspection import feature_importances, partial_dependence, permutation_importance
from tests.support import strict_cupy

plt = pytest.importorskip("matplotlib.pyplot")

from gpuens import plotting  # noqa: E402
from gpuens.plotting.axes import COLORS  # noqa: E402

X, C = load_breast_cancer(return_X_y=True, as_frame=True)
X, A, C = X.iloc[:, :6], X.iloc[:, :6].to_numpy(), C.to_numpy()
D, Y = load_diabetes(return_X_y=True, as_frame=True)
I3, L3 = load_iris(return_X_y=True, as_frame=True)
FOREST = RandomForestClassifier(n_estimators=20, oob_score=True, max_depth=4).fit(X, C)
NUMBERS = RandomForestRegressor(n_estimators=10, max_depth=4).fit(D, Y)


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_importances_of_a_forest():
    display = plotting.FeatureImportancesDisplay.from_estimator(FOREST, max_features=4)
    by_tree = np.array([tree.feature_importances_ for tree in FOREST.estimators_])
    order = np.argsort(-by_tree.mean(axis=0))[:4]
    np.testing.assert_allclose(display.importances_mean, FOREST.feature_importances_)
    np.testing.assert_allclose(display.importances_std, by_tree.std(axis=0))
    widths = [bar.get_width() for bar in display.bars_]
    np.testing.assert_allclose(widths, by_tree.mean(axis=0)[order])
    ends = display.bars_.errorbar.lines[2][0].get_segments()
    lengths = [segment[1, 0] - segment[0, 0] for segment in ends]
    np.testing.assert_allclose(lengths, 2 * by_tree.std(axis=0)[order])
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names == [X.columns[f] for f in order]
    assert display.ax_.yaxis_inverted() and display.figure_ is display.ax_.figure
    assert "impurity" in display.ax_.get_xlabel()


def test_importances_of_other_models():
    of = plotting.FeatureImportancesDisplay.from_estimator
    boosted = GradientBoostingRegressor(n_estimators=5).fit(D, Y)
    display = of(boosted)
    assert display.importances_std is None and "gain" in display.ax_.get_xlabel()
    np.testing.assert_array_equal(display.importances, boosted.feature_importances_)
    display = of(boosted, kind="gain")
    np.testing.assert_array_equal(display.importances, feature_importances(boosted))
    cover = of(FOREST, kind="cover").importances
    np.testing.assert_array_equal(cover, feature_importances(FOREST, "cover"))
    linear = LinearRegression().fit(D, Y)
    np.testing.assert_array_equal(of(linear).importances, np.abs(linear.coef_))
    bag = BaggingClassifier(n_estimators=4, max_features=3).fit(A, C)
    wanted = np.zeros((6, 4))
    for m, (tree, seen) in enumerate(zip(bag.estimators_, bag.estimators_features_, strict=True)):
        wanted[seen, m] = tree.feature_importances_
    np.testing.assert_array_equal(of(bag).importances, wanted)
    theirs = SklearnForest(n_estimators=4, random_state=0).fit(A, C)
    np.testing.assert_allclose(of(theirs).importances_mean, theirs.feature_importances_)
    boost = AdaBoostClassifier(n_estimators=5).fit(A, C)
    np.testing.assert_array_equal(of(boost).importances, boost.feature_importances_)


def test_names_are_whole():
    name = "the number of rooms, without kitchens and bathrooms, at the time of the sale"
    display = plotting.FeatureImportancesDisplay.from_importances(
        [0.2, 0.8], feature_names=[name, "price in $ or $"]
    )
    dollars, long = (label.get_text() for label in display.ax_.get_yticklabels())
    assert long.split() == name.split() and max(map(len, long.split("\n"))) <= 40
    assert dollars == "price in $ or $"
    display.figure_.canvas.draw()


def test_importances_that_were_computed():
    found = permutation_importance(NUMBERS, D, Y, n_repeats=3)
    display = plotting.FeatureImportancesDisplay.from_importances(found, feature_names=D.columns)
    np.testing.assert_array_equal(display.importances_std, found.importances_std)
    assert display.feature_names == list(D.columns)
    display = plotting.FeatureImportancesDisplay.from_importances([0.5, -0.1])
    assert display.ax_.get_xlim()[0] < -0.1  # nothing is cut off


def test_learning_curve_of_what_was_recorded():
    model = GradientBoostingClassifier(
        n_estimators=200, early_stopping=True, n_iter_no_change=5, scoring=["loss", "accuracy"]
    ).fit(A[::2], C[::2], eval_set=[(A[1::2], C[1::2]), (A[::2], C[::2])])
    display = plotting.LearningCurveDisplay.from_estimator(model, names={"validation_0": "new"})
    recorded = model.evals_result_
    for line, data in zip(display.lines_, ("validation_0", "validation_1"), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), recorded[data]["loss"])
        np.testing.assert_array_equal(line.get_xdata(), np.arange(len(recorded[data]["loss"])))
    assert model.n_iter_ < len(recorded["validation_0"]["loss"]) - 1
    assert list(display.kept_line_.get_xdata()) == [model.n_iter_] * 2
    assert legend(display) == ["new", "validation 1", f"kept: {model.n_iter_} rounds"]
    assert display.ax_.get_ylabel() == "loss"
    other = plotting.LearningCurveDisplay.from_estimator(model, metric="accuracy")
    np.testing.assert_array_equal(other.lines_[0].get_ydata(), recorded["validation_0"]["accuracy"])


def test_learning_curve_of_rows():
    boost = AdaBoostClassifier(n_estimators=6).fit(A[::2], C[::2])
    rows = {"seen": (A[::2], C[::2]), "new": (A[1::2], C[1::2])}
    display = plotting.LearningCurveDisplay.from_estimator(boost, rows)
    for line, pair in zip(display.lines_, rows.values(), strict=True):
        np.testing.assert_allclose(line.get_ydata(), list(boost.staged_score(*pair)))
        assert line.get_xdata().tolist() == [1, 2, 3, 4, 5, 6]
    assert legend(display) == ["seen", "new"] and display.ax_.get_ylabel() == "accuracy"
    display = plotting.LearningCurveDisplay.from_estimator(
        boost, rows["new"], metric=log_loss, response_method="predict_proba"
    )
    wanted = [log_loss(C[1::2], p) for p in boost.staged_predict_proba(A[1::2])]
    np.testing.assert_allclose(display.curves["evaluation"], wanted)
    boosted = GradientBoostingRegressor(n_estimators=4).fit(D, Y)
    display = plotting.LearningCurveDisplay.from_estimator(boosted, (D, Y))
    wanted = [r2_score(Y, p) for p in boosted.staged_predict(D)]
    np.testing.assert_allclose(display.curves["evaluation"], wanted)


def test_out_of_bag_curve():
    display = plotting.OOBCurveDisplay.from_estimator(FOREST)
    np.testing.assert_array_equal(display.line_.get_ydata(), FOREST.oob_scores_path_)
    assert display.line_.get_xdata().tolist() == list(range(1, 21))
    assert "wrong rows" in display.ax_.get_ylabel()
    higher = plotting.OOBCurveDisplay(FOREST.oob_scores_path_ + 1.0).plot(display.ax_, name="more")
    assert legend(higher) == ["RandomForestClassifier", "more"]
    assert higher.line_.get_color() != display.line_.get_color()
    low, high = display.ax_.get_ylim()
    assert low == 0 and high > FOREST.oob_scores_path_.max() + 1.0


def test_partial_dependence_and_rows():
    display = plotting.PartialDependenceDisplay.from_estimator(
        NUMBERS, D, ["bmi", 3, ("bmi", "bp")], kind="both", subsample=7, grid_resolution=10
    )
    for panel, line, rows, f in zip(
        display.panels[:2], display.lines_, display.ice_lines_, (2, 3), strict=False
    ):
        theirs = sklearn_dependence(NUMBERS, D, [f], kind="both", grid_resolution=10)
        np.testing.assert_allclose(line.get_xdata(), theirs["grid_values"][0], rtol=1e-6)
        np.testing.assert_allclose(line.get_ydata(), theirs["average"][0])
        curves = [segment[:, 1] for segment in rows.get_segments()]
        every = theirs["individual"][0]
        assert len(curves) == 7 and all(np.isclose(c, every).all(axis=1).any() for c in curves)
        np.testing.assert_allclose(
            panel.deciles[0], np.quantile(D.iloc[:, f], np.arange(1, 10) / 10)
        )
    pair = partial_dependence(NUMBERS, D, ["bmi", "bp"], grid_resolution=10)
    np.testing.assert_array_equal(display.panels[2].average, pair.average[0])
    assert display.contours_[:2] == [None, None] and display.contours_[2].zmax > 0
    labels = [(ax.get_xlabel(), ax.get_ylabel()) for ax in display.axes_]
    assert labels == [("bmi", "mean prediction"), ("bp", ""), ("bmi", "bp")]
    assert display.axes_[0].get_ylim() == display.axes_[1].get_ylim()


def test_centred_curves_begin_at_zero():
    ax = plt.subplots()[1]
    display = plotting.PartialDependenceDisplay.from_estimator(
        NUMBERS, D, "bmi", kind="individual", centered=True, ax=ax
    )
    assert display.ax_ is ax and display.lines_ == [None]
    assert all(segment[0, 1] == 0 for segment in display.ice_lines_[0].get_segments())
    assert ax.get_ylabel() == "change of the prediction"


def test_partial_dependence_of_classes_and_categories():
    table = I3.assign(kind=np.where(I3.iloc[:, 2] > 3, "long", "short"))
    model = RandomForestClassifier(n_estimators=5, categorical_features=["kind"]).fit(table, L3)
    display = plotting.PartialDependenceDisplay.from_estimator(
        model, table, ["kind", ("kind", "petal width (cm)")], target=2, grid_resolution=4
    )
    found = partial_dependence(model, table, "kind").average
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), found[2])
    ticks = [label.get_text() for label in display.axes_[0].get_xticklabels()]
    assert ticks == ["long", "short"]
    found = partial_dependence(model, table, ["kind", "petal width (cm)"], grid_resolution=4)
    drawn = display.contours_[1].get_array()
    np.testing.assert_array_equal(np.asarray(drawn), found.average[2].T)
    assert display.axes_[0].get_ylabel() == "mean probability of class 2"
    boosted = GradientBoostingClassifier(n_estimators=2).fit(A, C)
    display = plotting.PartialDependenceDisplay.from_estimator(boosted, A, 0)
    assert display.ax_.get_ylabel() == "mean decision function of class 1"


@pytest.mark.parametrize("index", [0, 3])
def test_trees(index):
    display = plotting.TreeDisplay.from_estimator(FOREST, index=index, max_depth=2)
    tree = FOREST.estimators_[index].tree_
    root = display.annotations_[0].get_text()
    assert X.columns[tree.feature[0]] in root and "gini" in root
    assert display.ax_.get_title() == f"tree {index} of 0 ... 19"
    boosted = GradientBoostingRegressor(n_estimators=4).fit(D, Y)
    display = plotting.TreeDisplay.from_estimator(boosted, index=index, max_depth=1)
    assert D.columns[boosted.forest_.slice(index, index + 1).feature[0]] in (
        display.annotations_[0].get_text()
    )


def test_trees_of_a_bag_know_their_columns():
    bag = BaggingClassifier(n_estimators=3, max_features=3).fit(X, C)
    for index, (tree, seen) in enumerate(
        zip(bag.estimators_, bag.estimators_features_, strict=True)
    ):
        display = plotting.TreeDisplay.from_estimator(bag, index=index)
        assert X.columns[seen[tree.tree_.feature[0]]] in display.annotations_[0].get_text()
    stump = DecisionTreeClassifier(max_depth=1).fit(A, np.where(C, "benign", "malignant"))
    display = plotting.TreeDisplay.from_estimator(stump)
    assert "class = benign" in display.annotations_[0].get_text()
    assert display.ax_.get_title() == ""


def test_diversity():
    models = [("tree", DecisionTreeClassifier(max_depth=3)), ("bayes", GaussianNB()),
              ("forest", RandomForestClassifier(n_estimators=3))]  # fmt: skip
    vote = VotingClassifier(models).fit(A[::2], C[::2])
    display = plotting.DiversityDisplay.from_estimator(vote, A[1::2], C[1::2])
    answers = np.stack([m.predict(A[1::2]) for m in vote.estimators_], axis=1)
    wrong = answers != C[1::2, None]
    wanted = (wrong[:, :, None] != wrong[:, None, :]).mean(axis=0)
    np.testing.assert_allclose(display.matrix, wanted)
    drawn = np.ma.getmaskarray(display.im_.get_array())
    np.testing.assert_array_equal(drawn, np.eye(3, dtype=bool))
    assert {text.get_text() for text in display.text_} == {
        f"{wanted[i, j]:.2f}" for i in range(3) for j in range(3) if i != j
    }
    names = [label.get_text() for label in display.ax_.get_xticklabels()]
    assert names == ["tree", "bayes", "forest"]
    assert f"{wanted[np.triu_indices(3, 1)].mean():.3f}" in display.ax_.get_title()
    assert display.colorbar_.ax.get_ylabel() == "disagreement"


def test_kappa_and_error():
    display = plotting.KappaErrorDisplay.from_estimator(FOREST, X, C)
    answers = np.stack([tree.predict(A) for tree in FOREST.estimators_], axis=1)
    pairs = [(i, j) for i in range(20) for j in range(i + 1, 20)]
    kappa = [cohen_kappa_score(answers[:, i], answers[:, j]) for i, j in pairs]
    error = [1 - (accuracy_score(C, answers[:, i]) + accuracy_score(C, answers[:, j])) / 2
             for i, j in pairs]  # fmt: skip
    np.testing.assert_allclose(display.scatter_.get_offsets(), np.stack([kappa, error], axis=1))
    np.testing.assert_allclose(display.mean_.get_xydata(), [[np.mean(kappa), np.mean(error)]])
    assert legend(display) == ["RandomForestClassifier"]


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars"])
def test_regions_of_classes(kind):
    two = I3.iloc[:, 2:]
    table = {"numpy": two.to_numpy(), "pandas": two, "polars": pl.from_pandas(two)}[kind]
    model = RandomForestClassifier(n_estimators=5).fit(table, L3)
    display = plotting.DecisionRegionsDisplay.from_estimator(model, table, L3, grid_resolution=20)
    bare = RandomForestClassifier(n_estimators=5).fit(two.to_numpy(), L3)
    at = np.array([[x, y] for y in display.xx1 for x in display.xx0])
    np.testing.assert_array_equal(display.response.ravel(), bare.predict(at))
    assert display.surface_.get_array().shape == (20, 20, 3)
    for k, points in enumerate(display.scatter_):
        np.testing.assert_allclose(points.get_offsets(), two.to_numpy()[L3 == k])
    assert legend(display) == ["class 0", "class 1", "class 2"]
    names = list(two.columns) if kind != "numpy" else ["x[0]", "x[1]"]
    assert [display.ax_.get_xlabel(), display.ax_.get_ylabel()] == names


def test_regions_are_paler_where_classes_are_less_probable():
    two = A[:, :2]
    model = LogisticRegression(max_iter=1000).fit(two, C)
    display = plotting.DecisionRegionsDisplay.from_estimator(
        model, two, response_method="predict_proba", grid_resolution=15
    )
    at = np.array([[x, y] for y in display.xx1 for x in display.xx0])
    np.testing.assert_allclose(display.confidence.ravel(), model.predict_proba(at).max(axis=1))
    ink = 3.0 - np.asarray(display.surface_.get_array(), float).sum(axis=2)
    first = display.response == 0
    assert (np.diff(ink[first][np.argsort(display.confidence[first])]) > -1e-9).all()
    assert display.scatter_ == [] and legend(display) == ["class 0", "class 1"]


def test_regions_of_numbers():
    two = D[["bmi", "bp"]]
    model = RandomForestRegressor(n_estimators=3).fit(two, Y)
    display = plotting.DecisionRegionsDisplay.from_estimator(model, two, Y, grid_resolution=10)
    at = pd.DataFrame([[x, y] for y in display.xx1 for x in display.xx0], columns=two.columns)
    np.testing.assert_array_equal(display.response.ravel(), model.predict(at))
    np.testing.assert_array_equal(display.scatter_[0].get_array(), Y)
    isolation = IsolationForest(n_estimators=5, contamination=0.2).fit(two)
    display = plotting.DecisionRegionsDisplay.from_estimator(isolation, two, grid_resolution=10)
    np.testing.assert_array_equal(display.response.ravel(), isolation.decision_function(at))


def test_sample_weights_of_classes():
    model = AdaBoostClassifier(n_estimators=8, learning_rate=0.7).fit(A, C)
    staged = plotting.staged_sample_weights(model, A, C)
    weight = np.full(len(C), 1 / len(C))
    for t, tree in enumerate(model.estimators_):
        np.testing.assert_allclose(staged[t], weight, rtol=1e-9)
        wrong = tree.predict(A) != C
        assert np.isclose(staged[t][wrong].sum(), model.estimator_errors_[t], rtol=1e-12)
        weight = weight * np.exp(2 * model.estimator_weights_[t] * wrong)
        weight /= weight.sum()
    display = plotting.SampleWeightsDisplay.from_estimator(model, A, C, n_rows=2)
    heaviest = np.argsort(-staged[-1], kind="stable")[:2]
    np.testing.assert_array_equal(display.rows_, heaviest)
    for line, row in zip(display.lines_[1:], heaviest, strict=True):
        np.testing.assert_allclose(line.get_ydata(), staged[:, row] * len(C))
    np.testing.assert_allclose(display.lines_[0].get_ydata(), np.median(staged, axis=1) * len(C))
    assert display.ax_.get_yscale() == "log" and f"row {heaviest[0]}" in legend(display)


@pytest.mark.parametrize("base", [None, LinearRegression()], ids=["trees", "any"])
def test_sample_weights_of_numbers(base):
    weight = np.linspace(0, 1, len(Y))
    model = AdaBoostRegressor(base, n_estimators=4).fit(D, Y, sample_weight=weight)
    staged = plotting.staged_sample_weights(model, D, Y, weight)
    np.testing.assert_allclose(staged[0], weight / weight.sum())
    assert (staged[:, 0] == 0).all()
    for t, member in enumerate(model.estimators_):
        error = np.abs(member.predict(D.to_numpy()) - Y.to_numpy())
        error[0] = 0
        mean = (staged[t] * error / error.max()).sum()
        assert np.isclose(mean, model.estimator_errors_[t], rtol=1e-9)


def test_sample_weights_do_not_change_the_model():
    model = AdaBoostClassifier(GaussianNB(), n_estimators=4).fit(A, C)
    before = dict(vars(model))
    staged = plotting.staged_sample_weights(model, A, C)
    assert all(value is before[name] for name, value in vars(model).items())
    assert staged.shape == (len(model), len(C))


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_calibration(strategy):
    probability = FOREST.predict_proba(X)[:, 1]
    display = plotting.CalibrationDisplay.from_estimator(FOREST, X, C, strategy=strategy, n_bins=5)
    true, predicted = calibration_curve(C, probability, n_bins=5, strategy=strategy)
    np.testing.assert_allclose(display.prob_true, true)
    np.testing.assert_allclose(display.prob_pred, predicted)
    np.testing.assert_allclose(display.errorbar_.lines[0].get_xydata(), np.c_[predicted, true])
    assert display.counts.sum() == len(C)
    wanted = sum(n * abs(t - p) for n, t, p in zip(display.counts, true, predicted, strict=True))
    assert np.isclose(display.expected_error, wanted / len(C))
    assert display.ax_.get_ylabel() == "share of class 1"
    assert legend(display) == ["perfect", "RandomForestClassifier"]


def test_intervals_of_calibration():
    """Wilson's interval of 1 of 10 is 0.0179 ... 0.4042, and of 0 of 1 it is 0 ... 0.7935."""
    y, probability = [1] + [0] * 10, [0.2] * 10 + [0.9]
    display = plotting.CalibrationDisplay.from_predictions(y, probability)
    ends = [segment[:, 1] for segment in display.errorbar_.lines[2][0].get_segments()]
    np.testing.assert_allclose(ends, [[0.0179, 0.4042], [0.0, 0.7935]], atol=5e-5)
    other = plotting.CalibrationDisplay.from_predictions(y, probability, ax=display.ax_, name="b")
    assert other.line_ is None and other.errorbar_.lines[0].get_color() == COLORS[1]


def test_calibration_of_one_of_three_classes():
    model = RandomForestClassifier(n_estimators=5, max_depth=2).fit(I3, L3)
    display = plotting.CalibrationDisplay.from_estimator(model, I3, L3, pos_label=2, n_bins=4)
    wanted = calibration_curve(L3 == 2, model.predict_proba(I3)[:, 2], n_bins=4)
    np.testing.assert_allclose((display.prob_true, display.prob_pred), wanted)


def test_arrays_on_a_gpu_are_copied(monkeypatch):
    cupy = strict_cupy.install(monkeypatch)

    def there(values):
        return strict_cupy.on_gpu(cupy, np.asarray(values), 0)

    probability = FOREST.predict_proba(X)[:, 1]
    displays = [
        plotting.CalibrationDisplay.from_predictions(f(C), f(probability))
        for f in (there, np.asarray)
    ]
    np.testing.assert_array_equal(displays[0].prob_true, displays[1].prob_true)
    display = plotting.FeatureImportancesDisplay.from_importances(there([0.5, 0.2]))
    assert type(display.importances) is np.ndarray
    display = plotting.SampleWeightsDisplay(there([[1.0, 1.0], [1.0, 3.0]])).plot(n_rows=1)
    assert display.lines_[1].get_ydata().tolist() == [1.0, 1.5]


def test_axes_are_those_given_or_new_ones():
    ax = plt.subplots()[1]
    assert plotting.OOBCurveDisplay([0.5, 0.4]).plot(ax).ax_ is ax
    assert plotting.OOBCurveDisplay([0.5, 0.4]).plot().ax_ is not ax
    axes = plt.subplots(1, 3)[1]
    of = plotting.PartialDependenceDisplay.from_estimator
    display = of(NUMBERS, D, [0, 1, 2], ax=axes, grid_resolution=3)
    assert display.axes_ == list(axes)
    display = of(NUMBERS, D, [0, 1, 2], ax=plt.subplots()[1], n_cols=2, grid_resolution=3)
    assert [ax.get_subplotspec().rowspan.start for ax in display.axes_] == [0, 0, 1]
