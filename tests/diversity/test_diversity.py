"""Measures of diversity beside their formulas in the textbook, one pair and one row at a time."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import AdaBoostClassifier as SklearnAdaBoost
from sklearn.ensemble import BaggingClassifier as SklearnBagging
from sklearn.ensemble import GradientBoostingRegressor as SklearnBoosting
from sklearn.ensemble import RandomForestClassifier as SklearnForest
from sklearn.ensemble import VotingClassifier as SklearnVoting
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import cohen_kappa_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from gpuens import (
    BaggingClassifier,
    BaggingRegressor,
    DecisionTreeClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StagewiseClassifier,
    diversity,
)
from gpuens.diversity import inputs as diversity_input
from tests.support import strict_cupy
from tests.support.errors import raises

EXACT = {"rtol": 0, "atol": 1e-12}
PAIRWISE = (
    diversity.q_statistic,
    diversity.correlation,
    diversity.disagreement,
    diversity.agreement,
    diversity.double_fault,
    diversity.cohen_kappa,
)
OF_ENSEMBLE = (
    diversity.entropy,
    diversity.kohavi_wolpert_variance,
    diversity.interrater_agreement,
    diversity.difficulty,
    diversity.generalised_diversity,
    diversity.coincident_failure_diversity,
)
every = pytest.mark.parametrize("measure", PAIRWISE + OF_ENSEMBLE, ids=lambda m: m.__name__)

X, C = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
XR, Y = load_diabetes(return_X_y=True)


def votes(n_rows=60, n_models=5, n_classes=3, seed=0):
    """Labels that are right more often than not, and the true ones."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_rows)
    wrong = rng.random((n_rows, n_models)) < np.linspace(0.2, 0.5, n_models)
    return np.where(wrong, rng.integers(0, n_classes, wrong.shape), y[:, None]), y


def four_counts(a, b):
    """N11, N10, N01, N00 of two lists of booleans, counted row by row."""
    n = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
    for pair in zip(a.tolist(), b.tolist(), strict=True):
        n[pair] += 1
    return tuple(n.values())


def of_pair(name, a, b):
    """A pairwise measure as Kuncheva and Whitaker (2003) print it."""
    n11, n10, n01, n00 = four_counts(a, b)
    n = n11 + n10 + n01 + n00
    if name == "q_statistic":
        return Fraction(n11 * n00 - n01 * n10, n11 * n00 + n01 * n10)
    if name == "correlation":
        product = (n11 + n10) * (n01 + n00) * (n11 + n01) * (n10 + n00)
        return (n11 * n00 - n01 * n10) / product**0.5
    if name == "disagreement":
        return Fraction(n01 + n10, n)
    if name == "agreement":
        return Fraction(n11 + n00, n)
    if name == "double_fault":
        return Fraction(n00, n)
    observed = Fraction(n11 + n00, n)
    chance = Fraction((n11 + n10) * (n11 + n01) + (n01 + n00) * (n10 + n00), n**2)
    return (observed - chance) / (1 - chance)


def of_ensemble(name, correct):
    """A measure of all models as the papers print it, in fractions."""
    n, count = correct.shape
    right = [int(row.sum()) for row in correct]
    if name == "entropy":
        parts = [Fraction(min(r, count - r), count - -(-count // 2)) for r in right]
        return sum(parts) / n
    if name == "kohavi_wolpert_variance":
        return Fraction(sum(r * (count - r) for r in right), n * count**2)
    if name == "interrater_agreement":
        p = Fraction(sum(right), n * count)
        apart = Fraction(sum(r * (count - r) for r in right), count)
        return 1 - apart / (n * (count - 1) * p * (1 - p))
    if name == "difficulty":
        shares = [Fraction(r, count) for r in right]
        mean = sum(shares) / n
        return sum((s - mean) ** 2 for s in shares) / n
    fail = [Fraction(sum(count - r == i for r in right), n) for i in range(count + 1)]
    if name == "generalised_diversity":
        one = sum(Fraction(i, count) * p for i, p in enumerate(fail))
        two = sum(Fraction(i * (i - 1), count * (count - 1)) * p for i, p in enumerate(fail))
        return 1 - two / one
    parts = [Fraction(count - i, count - 1) * p for i, p in enumerate(fail) if i]
    return sum(parts) / (1 - fail[0])


class TestFormulas:
    @pytest.mark.parametrize("measure", PAIRWISE, ids=lambda m: m.__name__)
    @pytest.mark.parametrize("seed", range(5))
    def test_pairs(self, measure, seed):
        labels, y = votes(seed=seed)
        matrix = measure(labels, y)
        assert matrix.shape == (5, 5) and matrix.dtype == np.float64
        correct = labels == y[:, None]
        expected = [
            [float(of_pair(measure.__name__, correct[:, i], correct[:, j])) for j in range(5)]
            for i in range(5)
        ]
        np.testing.assert_allclose(matrix, expected, **EXACT)
        np.testing.assert_array_equal(matrix, matrix.T)
        pairs = [expected[i][j] for i, j in combinations(range(5), 2)]
        assert diversity.pair_mean(matrix) == pytest.approx(np.mean(pairs), abs=1e-12)

    @pytest.mark.parametrize("measure", OF_ENSEMBLE, ids=lambda m: m.__name__)
    @pytest.mark.parametrize("n_models", [2, 3, 4, 7])
    def test_ensembles(self, measure, n_models):
        for seed in range(4):
            labels, y = votes(n_models=n_models, seed=seed)
            expected = float(of_ensemble(measure.__name__, labels == y[:, None]))
            assert measure(labels, y) == pytest.approx(expected, abs=1e-12)

    def test_known_relations(self):
        """Kuncheva and Whitaker (2003), equation 15 and section 4.3: the variance is a multiple of
        the mean disagreement, and kappa follows from it."""
        labels, y = votes(n_models=6)
        mean = diversity.pair_mean(diversity.disagreement(labels, y))
        variance = diversity.kohavi_wolpert_variance(labels, y)
        assert variance == pytest.approx(5 / 12 * mean, abs=1e-12)
        p = (labels == y[:, None]).mean()
        kappa = 1 - 6 / (5 * p * (1 - p)) * variance
        assert diversity.interrater_agreement(labels, y) == pytest.approx(kappa, abs=1e-12)

    def test_many_rows_are_counted_in_parts(self, monkeypatch):
        labels, y = votes(n_rows=101)
        whole = diversity.pairwise(labels, y)
        monkeypatch.setattr(diversity_input, "EXACT_ROWS", 7)
        for name, matrix in diversity.pairwise(labels, y).items():
            np.testing.assert_array_equal(matrix, whole[name])

    def test_all_at_once(self):
        labels, y = votes()
        assert list(diversity.pairwise(labels, y)) == [m.__name__ for m in PAIRWISE]
        for measure in PAIRWISE:
            found = diversity.pairwise(labels, y)[measure.__name__]
            np.testing.assert_array_equal(found, measure(labels, y))
        found = diversity.summary(labels, y)
        expected = {m.__name__: diversity.pair_mean(m(labels, y)) for m in PAIRWISE}
        assert found == expected | {m.__name__: m(labels, y) for m in OF_ENSEMBLE}


class TestLabels:
    def test_pairs(self):
        labels, _ = votes(n_classes=4)
        kappa = diversity.cohen_kappa(labels, of="labels")
        apart = diversity.disagreement(labels, of="labels")
        alike = diversity.agreement(labels, of="labels")
        for i, j in combinations(range(5), 2):
            a, b = labels[:, i], labels[:, j]
            assert kappa[i, j] == pytest.approx(cohen_kappa_score(a, b), abs=1e-12)
            assert apart[i, j] == pytest.approx((a != b).mean(), abs=1e-12)
            assert alike[i, j] == pytest.approx((a == b).mean(), abs=1e-12)
        np.testing.assert_array_equal(np.diag(kappa), 1)
        np.testing.assert_array_equal(np.diag(apart), 0)

    def test_fleiss(self):
        """The example of Fleiss (1971) as it is usually printed: 14 raters, 10 rows, 5 labels."""
        counts = np.array([
            [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
            [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
        ])  # fmt: skip
        labels = np.stack([np.repeat(np.arange(5), row) for row in counts])
        kappa = diversity.interrater_agreement(labels, of="labels")
        assert kappa == pytest.approx(0.20993, abs=5e-6)
        p = [Fraction(int(c), 140) for c in counts.sum(axis=0)]
        alike = [Fraction(int((row * (row - 1)).sum()), 14 * 13) for row in counts]
        chance = sum(share**2 for share in p)
        exact = (sum(alike) / 10 - chance) / (1 - chance)
        assert kappa == pytest.approx(float(exact), abs=1e-12)

    def test_two_labels_are_like_correctness(self):
        labels, _ = votes(n_classes=2)
        y = np.zeros(len(labels), int)
        for measure in (diversity.cohen_kappa, diversity.interrater_agreement):
            np.testing.assert_allclose(measure(labels, of="labels"), measure(labels, y), **EXACT)

    def test_text(self):
        labels, y = votes()
        names = np.array(["ash", "beech", "oak"])
        for texts in (names[labels], names[labels].astype(object)):
            assert diversity.summary(texts, names[y]) == diversity.summary(labels, y)
            kappa = diversity.cohen_kappa(texts, of="labels")
            np.testing.assert_array_equal(kappa, diversity.cohen_kappa(labels, of="labels"))


class TestZeroDenominators:
    """One model is always right, one always wrong, one sometimes right."""

    correct = np.array([[1, 0, 1], [1, 0, 0], [1, 0, 1]])

    def test_association_with_a_constant_is_none(self):
        for measure in (diversity.q_statistic, diversity.correlation):
            expected = np.zeros((3, 3))
            expected[2, 2] = 1
            np.testing.assert_array_equal(measure(self.correct), expected)

    def test_kappa(self):
        kappa = diversity.cohen_kappa(self.correct)
        np.testing.assert_array_equal(kappa, np.eye(3))
        same = np.ones((4, 3))
        np.testing.assert_array_equal(diversity.cohen_kappa(same), 1)
        np.testing.assert_array_equal(diversity.cohen_kappa(same, of="labels"), 1)
        assert diversity.interrater_agreement(same) == 1
        assert diversity.interrater_agreement(same - 1) == 1
        assert diversity.interrater_agreement(same, of="labels") == 1

    def test_no_failure(self):
        for measure in (diversity.generalised_diversity, diversity.coincident_failure_diversity):
            assert measure(np.ones((4, 3), bool)) == 0

    def test_extremes(self):
        alone = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
        together = np.array([[0, 0, 0], [1, 1, 1]])
        for measure in (diversity.generalised_diversity, diversity.coincident_failure_diversity):
            assert measure(alone) == 1 and measure(together) == 0
        assert diversity.entropy([[1, 0], [0, 1]]) == 1 and diversity.entropy(together) == 0
        assert diversity.difficulty(together) == 0.25 and diversity.difficulty(alone) == 0


class TestLibraries:
    def test_strict(self):
        labels, y = votes()
        strict = array_api_strict.asarray(labels), array_api_strict.asarray(y)
        assert diversity.summary(*strict) == diversity.summary(labels, y)
        matrix = diversity.q_statistic(*strict)
        assert type(matrix) is type(strict[0])
        np.testing.assert_array_equal(np.asarray(matrix), diversity.q_statistic(labels, y))
        kappa = diversity.cohen_kappa(strict[0], of="labels")
        np.testing.assert_array_equal(np.asarray(kappa), diversity.cohen_kappa(labels, of="labels"))
        assert diversity.interrater_agreement(strict[0], of="labels") == pytest.approx(
            diversity.interrater_agreement(labels, of="labels"), abs=1e-15
        )

    def test_y_follows_the_predictions(self):
        labels, y = votes()
        matrix = diversity.q_statistic(array_api_strict.asarray(labels), y.tolist())
        assert isinstance(matrix, type(array_api_strict.asarray(labels)))
        np.testing.assert_array_equal(np.asarray(matrix), diversity.q_statistic(labels, y))

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
    def test_frames(self, frame):
        labels, y = votes()
        table = frame({f"model {m}": labels[:, m] for m in range(5)})
        assert diversity.summary(table, pd.Series(y)) == diversity.summary(labels, y)
        assert diversity.summary(table, pl.Series(y)) == diversity.summary(labels, y)

    @every
    def test_oracle(self, measure):
        labels, y = votes()
        correct = labels == y[:, None]
        for oracle in (correct, correct.astype(int), correct.astype(float), correct.tolist()):
            np.testing.assert_array_equal(measure(oracle), measure(labels, y))

    def test_gpu(self, monkeypatch):
        cupy = strict_cupy.install(monkeypatch)
        labels, y = votes()
        on = strict_cupy.on_gpu
        matrix = diversity.q_statistic(on(cupy, labels, 1), on(cupy, y, 1))
        np.testing.assert_array_equal(matrix.get(), diversity.q_statistic(labels, y))
        assert matrix.device.id == 1
        assert diversity.pair_mean(matrix=matrix) == pytest.approx(
            diversity.pair_mean(matrix.get()), rel=1e-12
        )
        with raises(ValueError, "y is on GPU 0", "predictions are on GPU 1", "Copy them"):
            diversity.q_statistic(on(cupy, labels, 1), on(cupy, y, 0))


class TestMembers:
    names = np.array(["red", "rosé", "white"])

    @pytest.mark.parametrize("labels", [C, 5 * C - 3, names[C], C == 1],
                             ids=["numbers", "gaps", "text", "booleans"])  # fmt: skip
    def test_forest(self, labels):
        forest = RandomForestClassifier(n_estimators=6, max_depth=3).fit(X[::2], labels[::2])
        found = diversity.member_predictions(forest, X)
        assert found.shape == (len(X), 6)
        for m, tree in enumerate(forest):
            expected = forest.classes_[tree.predict(X).astype(int)]
            np.testing.assert_array_equal(found[:, m], expected)
        expected = diversity.summary(found, labels)
        assert diversity.summary(forest, labels, X=X) == expected

    @pytest.mark.parametrize("cls", [RandomForestRegressor, ExtraTreesRegressor])
    def test_forest_of_numbers(self, cls):
        forest = cls(n_estimators=4, max_depth=4).fit(XR, Y)
        found = diversity.member_predictions(forest, XR)
        np.testing.assert_array_equal(found, np.stack([t.predict(XR) for t in forest], axis=1))
        np.testing.assert_allclose(found.mean(axis=1), forest.predict(XR))

    def test_bagging(self):
        labels = self.names[C]
        bag = BaggingClassifier(GaussianNB(), n_estimators=5, max_features=4).fit(X, labels)
        found = diversity.member_predictions(bag, X)
        members = zip(bag, bag.estimators_features_, strict=True)
        expected = np.stack([self.names[m.predict(X[:, f])] for m, f in members], axis=1)
        np.testing.assert_array_equal(found, expected)
        numbers = BaggingRegressor(KNeighborsRegressor(), n_estimators=3, max_features=5)
        numbers.fit(XR, Y)
        members = zip(numbers, numbers.estimators_features_, strict=True)
        expected = np.stack([m.predict(XR[:, f]) for m, f in members], axis=1)
        np.testing.assert_array_equal(diversity.member_predictions(numbers, XR), expected)

    def test_members_that_lack_the_first_class(self):
        y = np.repeat([1, 2, 3], [2, 80, 96])
        bag = BaggingClassifier(KNeighborsClassifier(1), n_estimators=2, max_samples=10).fit(X, y)
        assert all(0 not in member.classes_ for member in bag)
        expected = np.stack([m.predict(X) + 1 for m in bag], axis=1)
        np.testing.assert_array_equal(diversity.member_predictions(bag, X), expected)

    @pytest.mark.parametrize("ensemble", [
        SklearnForest(4, random_state=0), SklearnBagging(GaussianNB(), 4, random_state=0),
        SklearnBagging(GaussianNB(), 4, max_features=3, random_state=0),
    ], ids=["forest", "bagging", "subspaces"])  # fmt: skip
    @pytest.mark.parametrize("labels", [C + 1, names[C]], ids=["numbers", "text"])
    def test_ensembles_of_scikit_learn(self, ensemble, labels):
        ensemble.fit(X, labels)
        every = np.arange(X.shape[1])
        features = getattr(ensemble, "estimators_features_", [every] * 4)
        expected = np.stack(
            [
                ensemble.classes_[member.predict(X[:, f]).astype(int)]
                for member, f in zip(ensemble, features, strict=True)
            ],
            axis=1,
        )
        np.testing.assert_array_equal(diversity.member_predictions(ensemble, X), expected)

    def test_voting_and_boosting_of_scikit_learn(self):
        labels = self.names[C]
        voting = SklearnVoting([("a", GaussianNB()), ("b", LogisticRegression())]).fit(X, labels)
        expected = np.stack([self.names[m.predict(X)] for m in voting.estimators_], axis=1)
        np.testing.assert_array_equal(diversity.member_predictions(voting, X), expected)
        boosted = SklearnAdaBoost(n_estimators=3).fit(X, labels)
        expected = np.stack([m.predict(X) for m in boosted.estimators_], axis=1)
        np.testing.assert_array_equal(diversity.member_predictions(boosted, X), expected)

    def test_frames(self):
        table = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
        for ensemble in (
            RandomForestClassifier(n_estimators=3),
            BaggingClassifier(GaussianNB(), n_estimators=3, max_features=5),
            SklearnVoting([("a", GaussianNB()), ("b", LogisticRegression())]),
        ):
            found = diversity.member_predictions(clone(ensemble).fit(table, C), table)
            again = diversity.member_predictions(clone(ensemble).fit(X, C), X)
            np.testing.assert_array_equal(found, again)


class TestAmbiguity:
    @pytest.mark.parametrize("weights", [None, [3.0, 0.0, 1.0, 4.0]])
    def test_decomposition(self, weights):
        rng = np.random.default_rng(0)
        predictions, y = rng.normal(size=(50, 4)), rng.normal(size=50)
        found = diversity.ambiguity_decomposition(predictions, y, weights=weights)
        share = np.full(4, 0.25) if weights is None else np.array(weights) / 8
        ensemble = [sum(w * p for w, p in zip(share, row, strict=True)) for row in predictions]
        errors = [np.mean((predictions[:, m] - y) ** 2) for m in range(4)]
        apart = [np.mean((predictions[:, m] - ensemble) ** 2) for m in range(4)]
        assert found.error == pytest.approx(np.mean((ensemble - y) ** 2), abs=1e-12)
        assert found.mean_error == pytest.approx(share @ errors, abs=1e-12)
        assert found.ambiguity == pytest.approx(share @ apart, abs=1e-12)
        assert found.error == pytest.approx(found.mean_error - found.ambiguity, abs=1e-12)
        np.testing.assert_allclose(found.of_models, apart, **EXACT)
        expected = [share @ (predictions[i] - ensemble[i]) ** 2 for i in range(50)]
        np.testing.assert_allclose(found.of_rows, expected, **EXACT)

    def test_an_ensemble(self):
        forest = RandomForestRegressor(n_estimators=7, max_depth=4).fit(XR[::2], Y[::2])
        found = diversity.ambiguity_decomposition(forest, Y[1::2], X=XR[1::2])
        error = np.mean((forest.predict(XR[1::2]) - Y[1::2]) ** 2)
        assert found.error == pytest.approx(error)
        assert found.mean_error - found.ambiguity == pytest.approx(error)

    def test_strict(self):
        rng = np.random.default_rng(1)
        predictions, y = rng.normal(size=(20, 3)), rng.normal(size=20)
        found = diversity.ambiguity_decomposition(
            array_api_strict.asarray(predictions), array_api_strict.asarray(y), weights=[1, 2, 3]
        )
        expected = diversity.ambiguity_decomposition(predictions, y, weights=[1, 2, 3])
        assert found.error == pytest.approx(expected.error, abs=1e-15)
        np.testing.assert_allclose(np.asarray(found.of_rows), expected.of_rows, **EXACT)

    @pytest.mark.parametrize("weights", [[1, 2], [1, -1, 1], [0, 0, 0], [1, 1, np.nan], "equal",
                                         [1, 1, np.inf]])  # fmt: skip
    def test_bad_weights(self, weights):
        with raises(ValueError, "weights must be 3 finite numbers >= 0", "got"):
            diversity.ambiguity_decomposition(np.ones((4, 3)), np.ones(4), weights=weights)

    def test_bad_numbers(self):
        decompose = diversity.ambiguity_decomposition
        with raises(ValueError, "y has the shape (3,)", "(4, 3)", "one number for each of the 4"):
            decompose(np.ones((4, 3)), np.ones(3))
        with raises(ValueError, "y holds NaN or infinite values"):
            decompose(np.ones((4, 3)), [1, 2, 3, np.inf])
        with raises(ValueError, "y must hold numbers", "object"):
            decompose(np.ones((4, 3)), list("abcd"))
        with raises(ValueError, "predictions must be numbers", "object"):
            decompose([["a", "b"]] * 4, np.ones(4))
        with raises(ValueError, "predictions hold infinite values"):
            decompose(np.full((4, 3), np.inf), np.ones(4))


class TestBadInput:
    @every
    def test_shapes(self, measure):
        for wrong in (np.ones(4), np.ones((2, 2, 2)), 3):
            with raises(ValueError, "predictions must have the shape (n_rows, n_models)", "got"):
                measure(wrong)
        with raises(ValueError, "predictions have no rows"):
            measure(np.ones((0, 3)))
        with raises(ValueError, "predictions are of 1 model(s)", "at least two columns"):
            measure(np.ones((4, 1)))

    @every
    def test_labels(self, measure):
        with raises(ValueError, "y has the shape (3,) and the predictions (4, 2)", "each of the 4"):
            measure(np.ones((4, 2)), np.ones(3))
        with raises(ValueError, "y has the shape (4, 2)"):
            measure(np.ones((4, 2)), np.ones((4, 2)))
        with raises(ValueError, "NaN or None in predictions", "leave those rows out"):
            measure([[1, 0], [np.nan, 1]])
        with raises(ValueError, "NaN or None in y"):
            measure(np.ones((2, 2)), [1, np.nan])
        with raises(ValueError, "NaN or None in predictions"):
            measure([["a", "b"], ["a", None]], ["a", "b"])
        with raises(ValueError, "y holds text, the predictions hold numbers", "one type"):
            measure(np.ones((2, 2)), ["a", "b"])
        with raises(ValueError, "y is None", "zeros and ones", "Pass y for labels"):
            measure([[0, 1], [2, 1]])
        with raises(ValueError, "y is None", "zeros and ones"):
            measure([["a", "b"]])

    def test_ensembles(self):
        forest = RandomForestClassifier(n_estimators=2).fit(X, C)
        with raises(ValueError, "X is None", "the members of RandomForestClassifier"):
            diversity.entropy(forest, C)
        with raises(ValueError, "y is None", "Pass y"):
            diversity.entropy(forest, X=X)
        with raises(ValueError, "X was passed beside predictions", "Leave one"):
            diversity.entropy(np.ones((4, 2)), np.ones(4), X=X)
        with pytest.raises(NotFittedError):
            diversity.entropy(RandomForestClassifier(), C, X=X)
        with raises(ValueError, "of 1 model(s)"):
            diversity.entropy(DecisionTreeClassifier().fit(X, C), C, X=X)
        with raises(ValueError, "2 outputs"):
            both = RandomForestClassifier(n_estimators=2).fit(X, np.stack([C, C], axis=1))
            diversity.entropy(both, C, X=X)

    @pytest.mark.parametrize("model", [
        GradientBoostingClassifier(n_estimators=2), SklearnBoosting(n_estimators=2),
        LogisticRegression(),
    ], ids=lambda m: type(m).__name__)  # fmt: skip
    def test_no_members(self, model):
        with raises(TypeError, type(model).__name__, "no list estimators_", "as an array"):
            diversity.member_predictions(model.fit(X, C), X)

    def test_no_target(self):
        for model in (IsolationForest(n_estimators=2), KMeans(2, n_init=1)):
            with raises(TypeError, type(model).__name__, "neither a classifier nor a regressor"):
                diversity.member_predictions(model.fit(X), X)

    @pytest.mark.parametrize("measure", [
        diversity.disagreement, diversity.agreement, diversity.cohen_kappa,
        diversity.interrater_agreement,
    ], ids=lambda m: m.__name__)  # fmt: skip
    def test_of(self, measure):
        for wrong in ("errors", None, 1):
            with raises(ValueError, "of must be 'correctness' or 'labels', got", repr(wrong)):
                measure(np.ones((3, 2)), of=wrong)
        with raises(ValueError, "of='labels'", "leave y out"):
            measure(np.ones((3, 2)), np.ones(3), of="labels")


def test_members_of_a_classifier_that_are_regressors():
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = StagewiseClassifier(n_estimators=2).fit(X, X[:, 0] > 0)
    with raises(TypeError, "members of StagewiseClassifier do not predict classes"):
        diversity.member_predictions(model, X)
