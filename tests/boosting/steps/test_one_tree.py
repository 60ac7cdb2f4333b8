"""One tree a round for all outputs: ``multi_strategy="multi_output_tree"``."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss, r2_score

import gpuens
from gpuens import BinnedTable, GradientBoostingClassifier, GradientBoostingRegressor, TreeExplainer
from tests.support.streaming import streaming

N = 400
SMALL = {
    "multi_strategy": "multi_output_tree", "n_estimators": 8, "max_leaf_nodes": 8, "device": "cpu",
    "random_state": 3,
}  # fmt: skip


def table(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 5)).round(2)
    X[rng.random(X.shape) < 0.05] = np.nan
    filled = np.nan_to_num(X)
    targets = np.stack([filled[:, 0] * filled[:, 1], np.sin(filled[:, 2]), filled.sum(axis=1)], 1)
    return X, targets + 0.1 * rng.normal(size=targets.shape)


def classes(targets):
    return np.digitize(targets[:, 2], [-2, 0, 2])


def regressor(**settings):
    return GradientBoostingRegressor(**SMALL | settings)


def classifier(**settings):
    return GradientBoostingClassifier(**SMALL | settings)


def factors(seed, sizes, index=0):
    """The factors of a round, written down once more."""
    mask, golden = 0xFFFFFFFF, 0x9E3779B9

    def draw(key, counter):
        x = (counter * golden + key) & mask
        x = ((x ^ (x >> 16)) * 0x21F0AAAD) & mask
        x ^= key
        x = ((x ^ (x >> 15)) * 0xD35A2D97) & mask
        return x ^ (x >> 15)

    key = draw(draw(seed, 9), index)
    return [(2 * draw(key, k) + 1 - 2**32) / 2**32 / size for k, size in enumerate(sizes)]


def test_the_tree_is_that_of_the_projected_target():
    """The gradients of the squared error are raw predictions minus targets."""
    X, targets = table()
    model = regressor(n_estimators=1).fit(X, targets)
    gradient = (targets.mean(axis=0) - targets).astype(np.float32)
    sizes = np.sqrt((gradient.astype(float) ** 2).sum(axis=0))
    weights = factors(model._seed, sizes / sizes.max())
    projected = -(gradient.astype(float) @ weights)
    single = GradientBoostingRegressor(
        n_estimators=1, max_leaf_nodes=8, device="cpu", random_state=3, init="zero"
    ).fit(X, projected)
    for name in ("feature", "threshold", "missing_left", "left", "n_samples"):
        found, expected = getattr(model.forest_, name), getattr(single.forest_, name)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_leaves_have_the_newton_step_of_each_class(weighted):
    X, targets = table()
    y = classes(targets)
    weight = np.random.default_rng(1).integers(0, 3, N).astype(float) if weighted else np.ones(N)
    model = classifier(n_estimators=1, learning_rate=0.125).fit(X, y, weight)
    leaf = model.apply(X)[:, 0]
    share = np.bincount(y, weight) / weight.sum()
    for k in range(4):
        g = weight * (share[k] - (y == k))
        h = weight * share[k] * (1.0 - share[k]) * 4 / 3
        for own in np.unique(leaf):
            inside = leaf == own
            step = -0.125 * g[inside].sum() / (h[inside].sum() + 1.0)
            assert model.forest_.value[own, k] == pytest.approx(step, rel=1e-5, abs=1e-6)


def test_units_of_targets_do_not_matter():
    X, targets = table()
    factor = np.array([1.0, 2.0**10, 2.0**-9])
    plain, scaled = regressor().fit(X, targets), regressor().fit(X, targets * factor)
    # The gradients of the targets are compared as they are, those of the tree with the largest.
    np.testing.assert_allclose(scaled.predict(X), plain.predict(X) * factor, rtol=0.02, atol=0.02)
    assert (scaled.forest_.feature == plain.forest_.feature).mean() > 0.95


@pytest.mark.slow
def test_ten_classes_are_learned_better():
    X, y = load_digits(return_X_y=True)
    fit, held_out = slice(0, 1200), slice(1200, None)
    losses, nodes = [], []
    for strategy in ("multi_output_tree", "one_output_per_tree"):
        model = GradientBoostingClassifier(
            n_estimators=150, multi_strategy=strategy, device="cpu", max_leaf_nodes=15
        ).fit(X[fit], y[fit])
        staged = model.staged_predict_proba(X[held_out])
        losses.append(min(log_loss(y[held_out], p) for p in staged))
        nodes.append(model.forest_.feature.size)
    assert losses[0] < 0.9 * losses[1]
    assert nodes[0] < 0.15 * nodes[1]


def test_targets_of_different_units_are_learned():
    X, targets = table()
    targets = targets * [1.0, 1000.0, 0.001]
    model = regressor(n_estimators=150).fit(X[:300], targets[:300])
    assert r2_score(targets[300:], model.predict(X[300:]), multioutput="raw_values").min() > 0.5


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"subsample": 0.5},
        {"sampling": "goss", "learning_rate": 0.5},
        {"sampling": "mvs", "subsample": 0.4},
        {"sampling": "balanced", "subsample": 0.5},
        {"colsample_bynode": 0.5},
        {"loss": "focal"},
        {"line_search": True},
    ],
    ids=str,
)
def test_a_warm_start_is_one_training(settings):
    X, targets = table()
    y = classes(targets)
    whole = classifier(**settings).fit(X, y)
    steps = classifier(**settings, warm_start=True, n_jobs=1)
    for n in (3, 8):
        steps.set_params(n_estimators=n).fit(X, y)
    assert steps.forest_.fingerprint() == whole.forest_.fingerprint()
    assert whole.n_trees_per_iteration_ == 1
    *_, last = whole.staged_predict_proba(X)
    np.testing.assert_array_equal(last, whole.predict_proba(X))


@pytest.mark.parametrize(
    "settings", [{"loss": "absolute_error"}, {"loss": "huber"}, {"loss": "poisson"}], ids=str
)
def test_losses_of_several_targets(settings):
    X, targets = table()
    targets = np.exp(targets / 2)
    model = regressor(**settings, n_estimators=100).fit(X, targets)
    assert r2_score(targets, model.predict(X), multioutput="raw_values").min() > 0.4


def test_distributions_and_quantiles():
    X, targets = table()
    y = targets[:, 2]
    spread = regressor(loss="normal", n_estimators=60).fit(X, y)
    assert spread.forest_.width == 2
    assert spread.score(X, y) > 0.8
    quantiles = regressor(loss="quantile", quantile=[0.1, 0.5, 0.9], n_estimators=100).fit(X, y)
    below = (y[:, None] <= quantiles.predict(X)).mean(axis=0)
    np.testing.assert_allclose(below, [0.1, 0.5, 0.9], atol=0.06)


def test_rows_of_weight_zero_have_no_effect():
    X, targets = table()
    y = classes(targets)
    weight = (np.arange(N) % 3 > 0).astype(float)
    here = weight > 0
    weighted, without = classifier().fit(X, y, weight), classifier().fit(X[here], y[here])
    np.testing.assert_array_equal(weighted.predict_proba(X), without.predict_proba(X))


def test_tables_of_other_kinds_give_the_same_model(tmp_path):
    X, targets = table()
    X = np.nan_to_num(X)
    y = classes(targets)
    dense = classifier(early_stopping=True).fit(X, y)
    sparse = classifier(early_stopping=True).fit(scipy.sparse.csr_array(X), y)
    in_file = BinnedTable.from_batches(X, y=y, path=tmp_path / "table")
    with streaming() as decision:
        streamed = classifier(early_stopping=True).fit(in_file)
        assert decision.called
    for other in (sparse, streamed):
        assert other.forest_.fingerprint() == dense.forest_.fingerprint()
        assert other.evals_result_ == dense.evals_result_


def test_one_output_has_the_tree_it_always_has():
    X, targets = table()
    y = targets[:, 2] > 0
    one, each = (
        classifier(multi_strategy=strategy).fit(X, y)
        for strategy in ("multi_output_tree", "one_output_per_tree")
    )
    assert one.forest_.fingerprint() == each.forest_.fingerprint()


def test_saved_explained_and_shown(tmp_path):
    X, targets = table()
    model = classifier().fit(X, classes(targets))
    model.save(tmp_path / "model.gpuens")
    loaded = gpuens.load(tmp_path / "model.gpuens")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    shares = model.predict(X, pred_contribs=True)
    np.testing.assert_allclose(shares.sum(axis=-1), model.decision_function(X), atol=1e-12)
    values = TreeExplainer(model).shap_values(X)
    np.testing.assert_allclose(values, np.moveaxis(shares[..., :-1], 1, -1), atol=1e-12)
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.forest_.cover[0] == pytest.approx(N * 0.25, rel=0.2)


@pytest.mark.parametrize(
    "settings", [{"dropout": 0.1}, {"linear_leaves": True}, {"monotonic_cst": [1, 0, 0, 0, 0]}]
)
def test_what_needs_a_tree_of_each_output_is_refused(settings):
    X, targets = table()
    (name,) = settings
    with pytest.raises(ValueError, match=f"multi_output_tree' does not go with {name}="):
        regressor(**settings).fit(X, targets)


def test_a_model_of_the_other_strategy_is_not_continued():
    X, targets = table()
    each = regressor(multi_strategy="one_output_per_tree").fit(X, targets)
    with pytest.raises(ValueError, match="one each tree a round, multi_strategy asks for one"):
        regressor().fit(X, targets, init=each)
