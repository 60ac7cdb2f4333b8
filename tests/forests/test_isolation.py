"""Isolation forests."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone, is_outlier_detector
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import IsolationForest as SklearnIsolationForest
from sklearn.metrics import roc_auc_score

from gpuens import IsolationForest
from gpuens.forest.structure import node_depths
from gpuens.forests import isolation_trees
from gpuens.forests.isolation_trees import average_path_length, parts_of_few_cuts
from gpuens.kernels.scalars.isolation import LENGTH_UNIT

NAN = float("nan")


def raises(*parts: str) -> Any:
    return pytest.raises(ValueError, match="(?s)" + ".*".join(map(re.escape, parts)))


def table(n: int = 400, n_features: int = 4, seed: int = 0) -> np.ndarray:
    """Rows with ties, missing values and a constant feature."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    X[:, 1] = rng.integers(0, 4, n)
    X[rng.random(n) < 0.1, 2] = NAN
    X[:, 3] = 7.0
    return X


def plain_length(n: int) -> float:
    """The formula of the paper."""
    if n < 3:
        return float(n == 2)
    return 2 * (np.log(n - 1) + np.euler_gamma) - 2 * (n - 1) / n


def walk(forest: Any, tree: int, x: np.ndarray) -> tuple[int, int]:
    """The leaf of a row and its depth, in plain Python."""
    root, node, depth = int(forest.offset[tree]), 0, 0
    while forest.feature[root + node] >= 0:
        at = root + node
        value = x[forest.feature[at]]
        left = forest.missing_left[at] if value != value else value <= forest.threshold[at]
        node, depth = int(forest.left[at] if left else forest.right[at]), depth + 1
    return root + node, depth


def test_average_path_length():
    n = np.concatenate([np.arange(1, 300), [1e4, 1e6, 2.0**27]])
    expected = [plain_length(int(k)) for k in n]
    actual = average_path_length(n)
    np.testing.assert_allclose(actual, expected, atol=LENGTH_UNIT, rtol=0)
    np.testing.assert_array_equal(actual / LENGTH_UNIT, np.rint(actual / LENGTH_UNIT))
    assert bool((np.diff(actual) > 0).all())


@pytest.mark.parametrize("max_features", [1.0, 2])
def test_scores_by_hand(max_features):
    X = table()
    model = IsolationForest(n_estimators=7, max_samples=50, max_features=max_features).fit(X)
    forest = model.forest_
    for x, score in zip(X[:60], model.score_samples(X[:60]), strict=True):
        length = 0.0
        for tree in range(7):
            leaf, depth = walk(forest, tree, x)
            length += depth + plain_length(int(forest.n_samples[leaf]))
        assert score == pytest.approx(-(2.0 ** (-length / 7 / plain_length(50))), rel=1e-9)


@pytest.mark.parametrize(
    ("n_features", "max_samples", "in_parts"),
    [(2, 1, False), (1, 100, True), (6, 100, False), (6, 256, True), (2, 2000, False)],
)
def test_trees_in_parts_score_the_same(n_features, max_samples, in_parts):
    X = np.random.default_rng(0).normal(size=(3000, n_features))
    model = IsolationForest(n_estimators=30, max_samples=max_samples).fit(X)
    parts = parts_of_few_cuts(model.forest_)
    assert sum(part.n_trees for part in parts) == 30
    assert (len(parts) > 1) == in_parts
    for part in parts if in_parts else []:
        cuts = np.bincount(part.feature[part.feature >= 0])
        assert cuts.max() <= isolation_trees.MOST_CUTS
    few_rows = [model.score_samples(X[i : i + 100]) for i in range(0, 3000, 100)]
    np.testing.assert_array_equal(model.score_samples(X), np.concatenate(few_rows))


@pytest.mark.parametrize("settings", [{}, {"max_features": 2}, {"bootstrap": True}], ids=str)
def test_trees_part_what_can_be_parted(settings):
    X = table()
    model = IsolationForest(n_estimators=9, max_samples=70, random_state=3, **settings).fit(X)
    forest = model.forest_
    depth = node_depths(forest)
    assert depth.max() <= 7  # the binary logarithm of 70, rounded up
    samples, features = model.estimators_samples_, model.estimators_features_
    for tree in range(9):
        rows = np.unique(samples[tree])
        nodes = slice(forest.offset[tree], forest.offset[tree + 1])
        assert forest.n_samples[nodes][0] == rows.size
        used = forest.feature[nodes][forest.feature[nodes] >= 0]
        assert set(used) <= set(features[tree]) - {3}
        leaves = np.array([walk(forest, tree, X[row])[0] for row in rows])
        for leaf in np.flatnonzero(forest.feature[nodes] < 0) + forest.offset[tree]:
            inside = X[rows[leaves == leaf]][:, features[tree]]
            assert len(inside) == forest.n_samples[leaf] >= 1
            alike = (inside == inside[0]) | (np.isnan(inside) & np.isnan(inside[0]))
            assert len(inside) == 1 or depth[leaf] == 7 or alike.all()


def test_samples():
    X = table(500)
    whole = IsolationForest(n_estimators=3, max_samples=0.5).fit(X)
    assert [rows.size for rows in whole.estimators_samples_] == [250] * 3
    assert [np.unique(rows).size for rows in whole.estimators_samples_] == [250] * 3
    drawn = IsolationForest(n_estimators=3, max_samples=400, bootstrap=True).fit(X)
    assert [rows.size for rows in drawn.estimators_samples_] == [400] * 3
    assert all(np.unique(rows).size < 330 for rows in drawn.estimators_samples_)
    assert IsolationForest(n_estimators=1).fit(X).max_samples_ == 256
    assert IsolationForest(n_estimators=1).fit(X[:100]).max_samples_ == 100
    assert IsolationForest(n_estimators=1, max_samples=1).fit(X).forest_.feature.tolist() == [-1]


@pytest.mark.slow
def test_scores_are_those_of_scikit_learn():
    X, y = load_breast_cancer(return_X_y=True)
    settings = {"n_estimators": 600, "max_samples": 128}
    ours = IsolationForest(**settings).fit(X).score_samples(X)
    first, second = (
        SklearnIsolationForest(**settings, random_state=seed).fit(X).score_samples(X)
        for seed in (0, 1)
    )
    noise = np.abs(first - second).max()
    assert np.abs(ours - first).max() < 1.5 * noise
    assert abs((ours - first).mean()) < 6e-3
    assert np.corrcoef(ours, first)[0, 1] > 0.995


def test_finds_what_lies_apart():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(980, 6)), rng.uniform(-9, 9, size=(20, 6))])
    outlier = np.arange(1000) >= 980
    model = IsolationForest(contamination=0.02)
    found = model.fit_predict(X)
    assert roc_auc_score(outlier, -model.score_samples(X)) > 0.995
    assert np.count_nonzero(found == -1) == 20
    assert np.count_nonzero(found[outlier] == -1) >= 18
    assert is_outlier_detector(model)


@pytest.mark.parametrize("contamination", [0.01, 0.1, 0.5])
def test_contamination(contamination):
    X = np.random.default_rng(1).normal(size=(1000, 3))
    model = IsolationForest(n_estimators=50, contamination=contamination).fit(X)
    share = np.mean(model.predict(X) == -1)
    assert share == pytest.approx(contamination, abs=2e-3)
    score = model.score_samples(X)
    assert model.offset_ == pytest.approx(np.quantile(score, contamination))
    np.testing.assert_array_equal(model.decision_function(X), score - model.offset_)


@pytest.mark.parametrize("n_estimators", [1, 3, 100])
@pytest.mark.parametrize("n", [1, 2, 100, 300])
def test_rows_that_are_alike_score_exactly_one_half(n, n_estimators):
    model = IsolationForest(n_estimators=n_estimators).fit(np.full((n, 2), 3.0))
    others = np.random.default_rng(0).normal(size=(20, 2))
    np.testing.assert_array_equal(model.score_samples(others), -0.5)
    np.testing.assert_array_equal(model.predict(others), 1)


@pytest.mark.parametrize("settings", [{}, {"max_features": 0.5}, {"bootstrap": True}], ids=str)
def test_the_same_model_on_any_number_of_threads(settings):
    X = table(3000)
    models = [
        IsolationForest(n_estimators=20, contamination=0.1, n_jobs=n, **settings).fit(X)
        for n in (1, 2, 5)
    ]
    assert len({model.forest_.fingerprint() for model in models}) == 1
    assert len({model.offset_ for model in models}) == 1
    other = IsolationForest(n_estimators=20, random_state=1, **settings).fit(X)
    assert other.forest_.fingerprint() != models[0].forest_.fingerprint()


def test_only_sampled_rows_count():
    X = table(2000)
    model = IsolationForest(n_estimators=4, max_samples=30).fit(X)
    changed = np.full_like(X, 1e6)
    drawn = np.concatenate(model.estimators_samples_)
    changed[drawn] = X[drawn]
    again = IsolationForest(n_estimators=4, max_samples=30).fit(changed)
    assert again.forest_.fingerprint() == model.forest_.fingerprint()


def test_float32_and_float64_and_infinities():
    X = table().astype(np.float32)
    X[:3, 0] = [np.inf, -np.inf, np.inf]
    narrow, wide = (IsolationForest(n_estimators=5).fit(x) for x in (X, X.astype(np.float64)))
    assert narrow.forest_.fingerprint() == wide.forest_.fingerprint()
    assert np.isfinite(narrow.score_samples(X)).all()


def test_features_that_are_missing_everywhere():
    X = table()
    X[:, 0] = NAN
    model = IsolationForest(n_estimators=10).fit(X)
    assert 0 not in set(model.forest_.feature.tolist())


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.csc_array])
@pytest.mark.parametrize("settings", [{}, {"max_features": 2}], ids=str)
def test_sparse(monkeypatch, make, settings):
    monkeypatch.setattr(isolation_trees, "DENSE_BYTES", 1000)  # several blocks of rows
    X = np.nan_to_num(table()) * (np.random.default_rng(2).random((400, 4)) < 0.3)
    dense, sparse = (
        IsolationForest(n_estimators=5, contamination=0.2, **settings).fit(x) for x in (X, make(X))
    )
    assert sparse.forest_.fingerprint() == dense.forest_.fingerprint()
    assert sparse.offset_ == dense.offset_
    np.testing.assert_array_equal(sparse.predict(make(X)), dense.predict(X))


class TestWarmStart:
    def test_the_model_is_that_of_one_fit(self):
        X = table()
        whole = IsolationForest(n_estimators=7, max_features=3).fit(X)
        parts = IsolationForest(n_estimators=3, max_features=3, warm_start=True).fit(X)
        first = parts.estimators_[0]
        parts.set_params(n_estimators=7).fit(X)
        assert parts.forest_.fingerprint() == whole.forest_.fingerprint()
        assert parts.estimators_[0] is first and len(parts) == len(parts.estimators_) == 7
        for a, b in zip(parts.estimators_samples_, whole.estimators_samples_, strict=True):
            np.testing.assert_array_equal(a, b)

    def test_other_data_later(self):
        model = IsolationForest(n_estimators=2, max_samples=20, warm_start=True).fit(table(100))
        before = model.estimators_samples_
        model.set_params(n_estimators=4, max_samples=60).fit(table(300, seed=1))
        assert [rows.size for rows in model.estimators_samples_] == [20, 20, 60, 60]
        np.testing.assert_array_equal(model.estimators_samples_[1], before[1])
        assert [tree.max_depth for tree in model] == [5, 5, 6, 6]

    def test_without_it_fit_starts_anew(self):
        model = IsolationForest(n_estimators=2).fit(table())
        assert len(model.estimators_) == 2
        model.set_params(random_state=5, n_estimators=1).fit(table())
        assert len(model.estimators_) == 1
        assert model[0].forest_.fingerprint() == model.forest_.fingerprint()

    def test_as_many_trees_or_fewer(self):
        model = IsolationForest(n_estimators=3, warm_start=True).fit(table())
        fingerprint = model.forest_.fingerprint()
        with pytest.warns(UserWarning, match="does not fit new trees"):
            model.fit(table())
        assert model.forest_.fingerprint() == fingerprint
        with raises("n_estimators=2 must be larger or equal to the 3 trees"):
            model.set_params(n_estimators=2).fit(table())

    def test_other_features(self):
        model = IsolationForest(n_estimators=3, warm_start=True).fit(table())
        expected = model.score_samples(table())
        with raises("X has 2 features, the trees that exist know 4"):
            model.set_params(n_estimators=5).fit(table()[:, :2])
        np.testing.assert_array_equal(model.score_samples(table()), expected)  # as it was


def test_members_predict_path_lengths():
    X = table()
    model = IsolationForest(n_estimators=6, max_samples=40, max_features=3).fit(X)
    lengths = [
        member.predict(X[:, features])
        for member, features in zip(model, model.estimators_features_, strict=True)
    ]
    score = -(2.0 ** (-np.mean(lengths, axis=0) / plain_length(40)))
    np.testing.assert_allclose(model.score_samples(X), score, rtol=1e-9)
    assert model[1].n_features_in_ == 3 and model[1].max_depth == 6
    assert model[1].tree_.n_node_samples[0] == 40
    assert model.estimator_.get_params()["splitter"] == "random"


class TestWeights:
    def test_chances(self):
        X = np.arange(1000.0)[:, None]
        weight = np.where(np.arange(1000) < 500, 3.0, 1.0)
        model = IsolationForest(n_estimators=40, bootstrap=True, max_samples=1.0)
        model.fit(X, sample_weight=weight)
        share = np.mean(np.concatenate(model.estimators_samples_) < 500)
        assert share == pytest.approx(0.75, abs=0.02)

    def test_rows_of_weight_zero_are_never_drawn(self):
        weight = (np.arange(400) % 4 == 0).astype(float)
        with pytest.warns(UserWarning, match="recommended to use bootstrap=True"):
            model = IsolationForest(n_estimators=5).fit(table(), sample_weight=weight)
        assert model.max_samples_ == 100
        assert all((rows % 4 == 0).all() for rows in model.estimators_samples_)

    @pytest.mark.filterwarnings("ignore:When fitting")
    def test_too_few_rows(self):
        weight = np.arange(400) < 10
        with raises("sample_weight is positive for 10 rows, fewer than the 20"):
            IsolationForest(max_samples=20).fit(table(), sample_weight=weight)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("n_estimators", 0, "an integer >= 1"),
        ("n_estimators", True, "an integer >= 1"),
        ("max_samples", 1.5, "'auto', an integer >= 1 or a float in (0, 1]"),
        ("max_samples", "all", "'auto', an integer >= 1 or a float in (0, 1]"),
        ("contamination", 0.0, "'auto' or a float in (0, 0.5]"),
        ("contamination", 0.6, "'auto' or a float in (0, 0.5]"),
        ("contamination", NAN, "'auto' or a float in (0, 0.5]"),
        ("max_features", 0, "an integer >= 1 or a float in (0, 1]"),
        ("max_features", "sqrt", "an integer >= 1 or a float in (0, 1]"),
        ("max_features", 5, "<= n_features"),
        ("bootstrap", 1, "True or False"),
        ("warm_start", None, "True or False"),
        ("verbose", -1, "a bool or an integer >= 0"),
        ("n_jobs", 0, "None or an integer other than 0"),
        ("device", "gpu", "'auto', 'cpu'"),
    ],
)
def test_parameters(name, value, wanted):
    with raises(name, wanted, repr(value)):
        IsolationForest(**{name: value}).fit(table())


def test_more_samples_than_rows():
    with pytest.warns(UserWarning, match="max_samples will be set to n_samples") as caught:
        model = IsolationForest(n_estimators=2, max_samples=1000).fit(table())
    assert model.max_samples_ == 400
    assert caught[0].filename == __file__


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(table(), columns=list("abcd"))
    model = IsolationForest(n_estimators=4, contamination=0.1).fit(frame)
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.forest_.fingerprint() == (
        IsolationForest(n_estimators=4).fit(table()).forest_.fingerprint()
    )
    with raises("feature names should match"):
        model.predict(frame[["b", "a", "c", "d"]])
    frame["a"] = pandas.Categorical(["x", "y"] * 200)
    with raises("'a'", "category"):
        IsolationForest().fit(frame)


def test_copies_predict_the_same():
    X = table()
    model = IsolationForest(n_estimators=5, contamination=0.1).fit(X)
    assert len(model.estimators_) == 5
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    assert "_members" not in vars(copy)
    again = clone(model).fit(X)
    assert again.forest_.fingerprint() == model.forest_.fingerprint()


def test_progress(capsys):
    IsolationForest(n_estimators=5, verbose=1).fit(table())
    assert "5/5" in capsys.readouterr().err
