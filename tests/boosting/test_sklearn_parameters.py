"""Parameters of scikit-learn's GradientBoosting: the same trees, and what else must hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor as TheirRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neighbors import KNeighborsRegressor

import gpuens
from gpuens import BinnedTable, GradientBoostingClassifier, GradientBoostingRegressor, TreeExplainer
from gpuens.inspection import partial_dependence
from tests.support.lanes import few

RNG = np.random.default_rng(0)
X = RNG.integers(0, 40, (300, 4)).astype(np.float64)
Y = X[:, 0] / 10 + np.sin(X[:, 1]) + RNG.normal(size=300) / 3
CLASSES = np.digitize(Y, [1.5, 2.5])
WEIGHT = RNG.random(300)
FEW: dict[str, Any] = {"n_estimators": 6, "max_depth": 3}
AS_THEIRS: dict[str, Any] = FEW | {
    "l2_regularization": 0.0, "min_samples_leaf": 1, "min_sum_hessian": 0.0, "max_leaf_nodes": None,
}  # fmt: skip


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weighted"])
@pytest.mark.parametrize(
    "setting",
    [{"min_impurity_decrease": 0.02}, {"min_impurity_decrease": 0.2}, {"min_samples_split": 60},
     {"min_samples_split": 0.4}, {"init": "zero"}, {"init": LinearRegression()}],
    ids=str,
)  # fmt: skip
def test_trees_are_those_of_scikit_learn(setting, weight):
    theirs = TheirRegressor(**FEW, **setting).fit(X, Y, weight)
    ours = GradientBoostingRegressor(**AS_THEIRS, **setting).fit(X, Y, weight)
    n_leaves = [tree.get_n_leaves() for tree in theirs.estimators_[:, 0]]
    assert ours.forest_.n_leaves.tolist() == n_leaves
    assert "init" in setting or sum(n_leaves) < 6 * 8
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-5)


@pytest.mark.parametrize("how", [{"max_leaf_nodes": None, "max_depth": 5}, {"max_leaf_nodes": 20}])
def test_small_nodes_are_not_split(how):
    model = GradientBoostingRegressor(n_estimators=3, min_samples_split=40, **how).fit(X, Y)
    forest = model.forest_
    assert forest.n_samples[forest.feature >= 0].min() >= 40
    free = GradientBoostingRegressor(n_estimators=3, **how).fit(X, Y).forest_
    assert free.n_samples[free.feature >= 0].min() < 40


def test_a_decrease_counts_the_rows_of_the_sample():
    """Rows drawn with factors count for all, the others for themselves."""
    most = {"n_estimators": 12, "learning_rate": 1e-9, "min_impurity_decrease": 0.1}
    whole = GradientBoostingRegressor(**most).fit(X, Y).forest_
    for drawn in ({"subsample": 0.5}, {"sampling": "mvs", "subsample": 0.5}):
        part = GradientBoostingRegressor(**most, **drawn).fit(X, Y).forest_
        assert 0.6 < part.n_leaves.sum() / whole.n_leaves.sum() < 1.6


@pytest.mark.parametrize("given, share", [(1, 0.25), ("sqrt", 0.5), ("log2", 0.5), (0.75, 0.75)])
def test_max_features_is_the_share_of_each_node(given, share):
    named = GradientBoostingRegressor(**FEW, max_features=given).fit(X, Y)
    known = GradientBoostingRegressor(**FEW, colsample_bynode=share).fit(X, Y)
    assert named.forest_.fingerprint() == known.forest_.fingerprint()
    assert named.forest_.fingerprint() != (
        GradientBoostingRegressor(**FEW).fit(X, Y).forest_.fingerprint()
    )


@pytest.mark.parametrize(
    "wrong, said",
    [({"max_features": 5}, "max_features=5 is more than the 4"),
     ({"max_features": 2, "colsample_bynode": 0.5}, "pass one"),
     ({"init": "mean"}, "init must be None, 'zero' or an estimator to fit first, got 'mean'"),
     ({"init": LinearRegression}, "init must be"),
     ({"init": LinearRegression(), "loss": "poisson"}, "must be positive, but is -")],
    ids=str,
)  # fmt: skip
def test_bad_values_are_named(wrong, said):
    with pytest.raises(ValueError, match=said):
        GradientBoostingRegressor(**wrong).fit(X, np.maximum(Y - 2.0, 0.0))


STARTS = {
    "two": (GradientBoostingClassifier, CLASSES > 0, LogisticRegression(), {}),
    "three": (GradientBoostingClassifier, CLASSES, LogisticRegression(), {}),
    "exponential": (GradientBoostingClassifier, CLASSES > 0, LogisticRegression(),
                    {"loss": "exponential"}),
    "focal": (GradientBoostingClassifier, CLASSES, LogisticRegression(), {"loss": "focal"}),
    "numbers": (GradientBoostingRegressor, Y, LinearRegression(), {"subsample": 0.5}),
    "outputs": (GradientBoostingRegressor, np.c_[Y, -Y], LinearRegression(), {}),
    "quantiles": (GradientBoostingRegressor, Y, LinearRegression(),
                  {"loss": "quantile", "quantile": [0.2, 0.8]}),
    "poisson": (GradientBoostingRegressor, Y - Y.min(), gpuens.DecisionTreeRegressor(max_depth=2),
                {"loss": "poisson"}),
    "ours": (GradientBoostingRegressor, Y, gpuens.RandomForestRegressor(3, max_depth=3), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", few(STARTS, "two", "numbers", "quantiles", "poisson", "ours"))
def test_rounds_go_on_from_another_model(name, tmp_path):
    cls, y, init, settings = STARTS[name]
    model = cls(**FEW, init=init, **settings).fit(X, y, eval_set=(X, y))
    losses = model.evals_result_["validation_0"]["loss"]
    assert losses[-1] < losses[0]
    none = cls(**FEW | {"n_estimators": 1}, **settings).fit(X, y, eval_set=(X, y))
    assert losses[0] < none.evals_result_["validation_0"]["loss"][0]

    whole = model.predict(X)
    np.testing.assert_array_equal(list(model.staged_predict(X))[-1], whole)
    gpuens.save(model, tmp_path / "model")
    np.testing.assert_array_equal(gpuens.load(tmp_path / "model").predict(X), whole)

    half = cls(**FEW | {"n_estimators": 3}, init=init, **settings, warm_start=True).fit(X, y)
    further = cls(**FEW | {"n_estimators": 3}, **settings).fit(X, y, init=half)
    half.set_params(n_estimators=6).fit(X, y)
    for resumed in (half, further):
        assert resumed.forest_.fingerprint() == model.forest_.fingerprint()
        np.testing.assert_array_equal(resumed.predict(X), whole)
    assert not hasattr(further.fit(X, y), "init_")  # its own init is None


def test_a_start_has_the_bits_of_its_own_fit():
    """Sums of a linear regression depend on the order of its targets in memory."""
    y = np.c_[Y, -Y, np.sin(Y)]
    model = GradientBoostingRegressor(**FEW, init=LinearRegression()).fit(X, y)
    expected = LinearRegression().fit(X, y)
    np.testing.assert_array_equal(model.init_.predict(X), expected.predict(X))


@pytest.mark.parametrize("y", [CLASSES > 0, CLASSES], ids=["two", "three"])
def test_the_first_loss_is_that_of_the_start(y):
    init = LogisticRegression().fit(X, y)
    model = GradientBoostingClassifier(**FEW, init=init).fit(X, y, eval_set=(X, y))
    first = model.evals_result_["validation_0"]["loss"][0]
    np.testing.assert_allclose(first, log_loss(y, init.predict_proba(X)), rtol=1e-5)


def test_rows_that_are_held_out_are_not_for_the_start():
    model = GradientBoostingRegressor(
        **FEW, init=KNeighborsRegressor(1), early_stopping=True, validation_fraction=0.2
    ).fit(X, Y)
    assert model.init_.n_samples_fit_ == 240
    assert model.evals_result_["validation"]["loss"][0] > 0.01


def test_what_has_trees_alone_refuses_another_start(tmp_path):
    model = GradientBoostingRegressor(**FEW, init=LinearRegression()).fit(X, Y)
    for ask in (lambda: TreeExplainer(model), lambda: model.predict(X, pred_contribs=True)):
        with pytest.raises(ValueError, match="predictions of the estimator init=LinearRegression"):
            ask()
    with pytest.raises(ValueError, match="starts from the predictions of the estimator init"):
        model.to_c(tmp_path / "model.c")
    grid = partial_dependence(model, X, [0], custom_values={0: np.array([7.0, 30.0])})
    moved = [np.mean(model.predict(np.c_[np.full(300, at), X[:, 1:]])) for at in (7.0, 30.0)]
    np.testing.assert_allclose(grid.average[0], moved)
    table = BinnedTable.from_batches(lambda: [(X, Y)])
    with pytest.raises(ValueError, match="BinnedTable"):
        GradientBoostingRegressor(init=LinearRegression()).fit(table)
    zero = GradientBoostingRegressor(**FEW, init="zero").fit(table)
    values = TreeExplainer(zero)
    assert zero.forest_.base == 0.0 and np.isfinite(values.expected_value).all()


def test_a_start_that_does_not_fit_is_named():
    with pytest.raises(ValueError, match="init must have predict_proba"):
        GradientBoostingClassifier(init=LinearRegression()).fit(X, CLASSES)
    with pytest.raises(ValueError, match="KNeighborsRegressor does not support sample weights"):
        GradientBoostingRegressor(init=KNeighborsRegressor()).fit(X, Y, WEIGHT)
    with pytest.raises(ValueError, match="which raw predictions"):
        GradientBoostingRegressor(
            gpuens.losses.ArrayLoss(lambda y, f: (f - y, 1 + 0 * y), inverse_link=lambda f: 2 * f),
            init=LinearRegression(),
        ).fit(X, Y)
