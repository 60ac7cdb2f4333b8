"""Weights learned from predictions, beside SciPy's optimum and a plain ensemble selection."""

from __future__ import annotations

import itertools
from fractions import Fraction

import array_api_strict
import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics import accuracy_score, log_loss, r2_score

from gpuens.combining.losses import (
    MeanLogLoss,
    MeanSquaredError,
    ZeroOne,
    convex_minimum,
    mean_log,
    quadratic_minimum,
)
from gpuens.combining.weights import accuracy_weights, greedy_weights, optimal_weights
from gpuens.numerics.fixed_point import inner, slices, weighted_sum
from gpuens.numerics.minimise import Cholesky
from tests.support.errors import raises


def regression(n, m, seed=0, outputs=()):
    """Targets, and predictions that share an error and have one of their own."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, *outputs))
    own = rng.normal(size=(n, m, *outputs)) * rng.uniform(0.3, 2.0, (m, *[1] * len(outputs)))
    return y[:, None] + own + 0.3 * rng.normal(size=(n, 1, *outputs)), y


def classification(n, m, k, seed=0):
    """Class numbers, and probabilities of models of different sharpness."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    logits = rng.normal(size=(n, m, k)) * rng.uniform(0.5, 3.0, m)[:, None]
    logits[np.arange(n), :, y] += 1
    odds = np.exp(logits)
    return odds / odds.sum(axis=2, keepdims=True), y


def slsqp(loss, m):
    """SciPy's optimum on the simplex, the best of several starts."""
    starts = [np.full(m, 1 / m), *(0.9 * np.eye(m) + 0.1 / m)]
    found = [
        minimize(loss, start, method="SLSQP", bounds=[(0, 1)] * m,
                 constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
                 options={"ftol": 1e-14, "maxiter": 1000})
        for start in starts
    ]  # fmt: skip
    return min(found, key=lambda result: result.fun)


class TestFixedPoint:
    @pytest.mark.parametrize("n", [0, 1, 2, 37, 5000])
    def test_it_is_the_sum(self, n):
        rng = np.random.default_rng(n)
        a = rng.normal(size=(3, n)) * 10.0 ** rng.integers(-200, 100, (3, 1))
        b = rng.lognormal(size=(2, n))
        exact = [[sum(Fraction(x) * Fraction(z) for x, z in zip(r, s, strict=True)) for s in b]
                 for r in a]  # fmt: skip
        size = np.abs(a).max(axis=1, initial=0)[:, None] * b.max(axis=1, initial=0)[None, :] * n
        difference = np.abs(inner(a, b) - np.array(exact, float).reshape(3, 2))
        assert (difference <= 2.0**-46 * size).all()

    def test_no_order_changes_a_bit(self):
        rng = np.random.default_rng(0)
        a, b = rng.lognormal(sigma=3, size=(4, 3001)), rng.standard_cauchy((5, 3001))
        expected = inner(a, b)
        for seed in range(5):
            order = np.random.default_rng(seed).permutation(3001)
            np.testing.assert_array_equal(inner(a[:, order], b[:, order]), expected)
        plain = {float((a[:, order] @ b[:, order].T)[0, 0])
                 for order in map(np.random.default_rng(1).permutation, [3001] * 20)}  # fmt: skip
        assert len(plain) > 1  # a product in floating point does depend on it

    def test_partial_sums_are_exact_integers(self):
        matrix = np.random.default_rng(0).normal(size=(2, 1000))
        cut = slices(matrix)
        assert (cut.parts == np.round(cut.parts)).all()
        assert np.abs(cut.parts).max() ** 2 * 1000 <= 2**53
        assert (np.log2(cut.unit) % 1 == 0).all()
        scale = 2.0 ** -(cut.bits * (np.arange(3) + 1))
        value = cut.unit[:, None] * (cut.parts * scale[:, None, None]).sum(axis=0)
        np.testing.assert_allclose(value, matrix, atol=2.0**-60)

    def test_zeros(self):
        assert weighted_sum(np.zeros(9), np.ones(9)) == 0

    def test_any_array_library(self):
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=(2, 3, 50))
        strict = inner(array_api_strict.asarray(a), array_api_strict.asarray(b))
        np.testing.assert_array_equal(np.asarray(strict), inner(a, b))


class TestCholesky:
    @pytest.mark.parametrize("shape", [(), (3,)])
    def test_solutions(self, shape):
        rng = np.random.default_rng(0)
        root = rng.normal(size=(8, 8))
        matrix, right = root @ root.T, rng.normal(size=(8, *shape))
        factor = Cholesky(matrix)
        np.testing.assert_allclose(factor.lower, np.linalg.cholesky(matrix))
        np.testing.assert_allclose(factor.solve(right), np.linalg.solve(matrix, right))

    def test_not_definite(self):
        with pytest.raises(np.linalg.LinAlgError, match="pivot 1"):
            Cholesky(np.ones((2, 2)))


class TestSimplex:
    @pytest.mark.parametrize("seed", range(20))
    def test_quadratics(self, seed):
        rng = np.random.default_rng(seed)
        m = int(rng.integers(2, 9))
        root = rng.normal(size=(m, m + 2))
        hessian, linear = root @ root.T, rng.normal(size=m) * 3
        weights = quadratic_minimum(hessian, linear)
        assert (weights >= 0).all() and weights.sum() == pytest.approx(1, abs=1e-15)
        gradient = hessian @ weights + linear
        # Karush, Kuhn and Tucker: equal where a weight is above zero, not lower elsewhere.
        level = gradient @ weights
        np.testing.assert_allclose(gradient[weights > 0], level, atol=1e-8)
        assert (gradient >= level - 1e-8).all()

    def test_one_model(self):
        assert quadratic_minimum(np.zeros((1, 1)), np.zeros(1)).tolist() == [1.0]

    def test_a_convex_function(self):
        """The relative entropy to a distribution has its minimum there."""
        aim = np.array([0.7, 0.2, 0.1, 1e-6])
        aim /= aim.sum()
        found = convex_minimum(
            lambda w: float(-(aim * np.log(np.maximum(w, 1e-300))).sum()),
            lambda w: (-aim / np.maximum(w, 1e-9), np.diag(aim / np.maximum(w, 1e-9) ** 2)),
            np.full(4, 0.25),
        )
        np.testing.assert_allclose(found, aim, atol=1e-5)


class TestLosses:
    W = np.array([0.5, 0.2, 0.3])

    @pytest.mark.parametrize("weighted", [False, True])
    def test_log_loss(self, weighted):
        P, y = classification(333, 3, 4)
        weight = np.random.default_rng(0).random(333) if weighted else None
        shares = None if weight is None else weight / weight.sum()
        loss = MeanLogLoss(P[np.arange(333), :, y].T, shares, cpu())
        expected = log_loss(y, np.einsum("nmk,m->nk", P, self.W), sample_weight=weight)
        assert loss.value(self.W) == pytest.approx(expected, rel=1e-13)
        gradient, hessian = loss._derivatives(self.W)
        step = 1e-5
        for m in range(3):
            ahead, behind = self.W + step * np.eye(3)[m], self.W - step * np.eye(3)[m]
            slope = (loss.value(ahead) - loss.value(behind)) / (2 * step)
            assert gradient[m] == pytest.approx(slope, rel=1e-6)
            change = (loss._derivatives(ahead)[0] - loss._derivatives(behind)[0]) / (2 * step)
            np.testing.assert_allclose(hessian[m], change, rtol=1e-6)

    def test_logarithms_of_tiny_numbers(self):
        values = np.full(40, np.finfo(float).eps)
        assert mean_log(values, None, cpu()) == pytest.approx(np.log(np.finfo(float).eps))
        assert MeanLogLoss(np.zeros((1, 40)), None, cpu()).value(np.ones(1)) == pytest.approx(
            -np.log(np.finfo(float).eps)
        )

    def test_squared_error(self):
        P, y = regression(100, 3, outputs=(2,))
        weight = np.random.default_rng(0).random(100)
        loss = MeanSquaredError(P.transpose(1, 2, 0), y.T, weight / weight.sum(), cpu())
        errors = ((np.einsum("nmt,m->nt", P, self.W) - y) ** 2).sum(axis=1)
        assert loss.value(self.W) == pytest.approx(np.average(errors, weights=weight), rel=1e-12)

    def test_zero_one(self):
        votes = np.array([[0, 1, 2, 2], [1, 1, 0, 2], [2, 0, 0, 0]])
        y = np.array([0, 1, 0, 2])
        shares = np.array([0.1, 0.2, 0.3, 0.4])
        loss = ZeroOne(votes, y, shares, 3, cpu())
        assert loss.value(np.array([0.6, 0.3, 0.1])) == pytest.approx(0.3)
        assert loss.value(np.array([0.3, 0.4, 0.3])) == pytest.approx(0.1)  # row 0 says 1
        assert loss.value(np.full(3, 1 / 3)) == 0  # row 0 ties, and 0 is the lowest class

    @pytest.mark.parametrize("kind", ["squared_error", "log_loss", "zero_one"])
    def test_sums_of_models(self, kind):
        """The loss of a sum is that of the average."""
        loss = loss_of(kind, 120, 4)
        total, counts = loss.empty, np.zeros(4)
        for n_added, model in enumerate((2, 0, 2, 3, 2), 1):
            for other in range(4):
                with_other = counts + np.eye(4)[other]
                expected = loss.value(with_other / with_other.sum())
                found = loss.of_sum(loss.added(total, other), n_added)
                assert found == pytest.approx(expected, rel=1e-11)
            total = loss.added(total, model)
            counts[model] += 1


def cpu():
    from gpuens.devices.placement import CPU

    return CPU


def loss_of(kind, n, m):
    """One of the losses on drawn predictions."""
    shares = np.random.default_rng(9).random(n)
    shares /= shares.sum()
    if kind == "squared_error":
        P, y = regression(n, m)
        return MeanSquaredError(P.T[:, None], y[None], shares, cpu())
    P, y = classification(n, m, 3)
    if kind == "log_loss":
        return MeanLogLoss(P[np.arange(n), :, y].T, shares, cpu())
    return ZeroOne(P.argmax(axis=2).T, y, shares, 3, cpu())


class TestOptimal:
    @pytest.mark.parametrize("n, m, seed", [(50, 2, 0), (200, 3, 1), (400, 8, 2), (2000, 15, 3)])
    def test_squared_error_is_that_of_scipy(self, n, m, seed):
        P, y = regression(n, m, seed)
        weights = optimal_weights(P, y)
        best = slsqp(lambda w: ((P @ w - y) ** 2).mean(), m)
        assert ((P @ weights - y) ** 2).mean() <= best.fun + 1e-6
        np.testing.assert_allclose(weights, best.x, atol=1e-4)
        assert (weights >= 0).all() and weights.sum() == pytest.approx(1)

    @pytest.mark.parametrize("n, m, seed", [(50, 2, 0), (200, 3, 1), (400, 8, 2), (2000, 15, 3)])
    def test_log_loss_is_that_of_scipy(self, n, m, seed):
        P, y = classification(n, m, 4, seed)
        weight = np.random.default_rng(seed).random(n)
        right = P[np.arange(n), :, y]

        def loss(w):
            return np.average(-np.log(np.maximum(right @ w, 1e-300)), weights=weight)

        weights = optimal_weights(P, y, weight, loss="log_loss")
        best = slsqp(loss, m)
        assert loss(weights) <= best.fun + 1e-6
        np.testing.assert_allclose(weights, best.x, atol=1e-4)

    def test_weights_and_several_outputs(self):
        P, y = regression(300, 4, outputs=(3,))
        weight = np.random.default_rng(0).random(300)

        def loss(w):
            return np.average(((np.einsum("nmt,m->nt", P, w) - y) ** 2).sum(axis=1), weights=weight)

        assert loss(optimal_weights(P, y, weight)) <= slsqp(loss, 4).fun + 1e-6

    @pytest.mark.parametrize("seed", range(15))
    def test_never_worse_than_equal_weights_or_the_best_member(self, seed):
        n, m = 25, 5
        others = [np.full(m, 1 / m), *np.eye(m)]
        P, y = regression(n, m, seed)
        if seed % 3 == 0:
            P[:, 1] = y  # nothing is better than this one
        mine = ((P @ optimal_weights(P, y) - y) ** 2).mean()
        assert mine <= min(((P @ w - y) ** 2).mean() for w in others) + 1e-15
        P, y = classification(n, m, 3, seed)
        right = P[np.arange(n), :, y]
        if seed % 3 == 0:
            right[:, 2] = 0.999
            P[:, 2] = 0.0005
            P[np.arange(n), 2, y] = 0.999
        mine = -np.log(right @ optimal_weights(P, y, loss="log_loss")).mean()
        assert mine <= min(-np.log(right @ w).mean() for w in others) + 1e-14

    def test_copies_share_their_weight(self):
        P, y = regression(200, 2)
        weights = optimal_weights(P, y)
        copies = optimal_weights(P[:, [0, 1, 0, 0]], y)
        np.testing.assert_allclose(copies[[0, 2, 3]], weights[0] / 3, atol=1e-5)

    def test_large_means_do_not_hurt(self):
        P, y = regression(500, 4)
        far = optimal_weights(P + 1e7, y + 1e7)
        np.testing.assert_allclose(far, optimal_weights(P, y), atol=1e-6)

    def test_impossible_rows(self):
        """Every model is sure that some rows are of another class."""
        P, y = classification(100, 3, 3)
        P[:5] = 0.0
        P[np.arange(5), :, (y[:5] + 1) % 3] = 1.0
        weights = optimal_weights(P, y, loss="log_loss")
        rest = optimal_weights(P[5:], y[5:], loss="log_loss")
        np.testing.assert_allclose(weights, rest, atol=1e-6)

    def test_one_model_and_one_row(self):
        assert optimal_weights(np.ones((5, 1)), np.zeros(5)).tolist() == [1.0]
        assert optimal_weights([[0.0, 4.0]], [1.0]) == pytest.approx([0.75, 0.25])


def plain_selection(values, n_rounds, n_initial):
    """Caruana's algorithm by its words; ``values(counts)`` is the loss of an ensemble."""
    m = values.m
    eye = np.eye(m)
    order = sorted(range(m), key=lambda i: values(eye[i]))
    starts = [eye[order[: i + 1]].sum(axis=0) for i in range(min(n_initial, m))]
    best = counts = min(starts, key=values)
    while counts.sum() < n_rounds:
        counts = min((counts + row for row in eye), key=values)
        best = counts if values(counts) < values(best) else best
    return best / best.sum()


class TestGreedy:
    @pytest.mark.parametrize("seed", range(4))
    def test_it_is_the_algorithm_squared(self, seed):
        P, y = regression(80, 5, seed)
        values = with_m(lambda c: ((P @ c / c.sum() - y) ** 2).mean(), 5)
        expected = plain_selection(values, 20, 3)
        found = greedy_weights(P, y, n_rounds=20, n_initial=3)
        np.testing.assert_allclose(found, expected)

    @pytest.mark.parametrize("seed", range(4))
    def test_it_is_the_algorithm_log_loss(self, seed):
        P, y = classification(60, 4, 3, seed)
        right = P[np.arange(60), :, y]
        values = with_m(lambda c: -np.log(right @ c / c.sum()).mean(), 4)
        found = greedy_weights(P, y, loss="log_loss", n_rounds=15, n_initial=4)
        np.testing.assert_allclose(found, plain_selection(values, 15, 4))

    @pytest.mark.parametrize("seed", range(4))
    def test_it_is_the_algorithm_zero_one(self, seed):
        P, y = classification(90, 4, 3, seed)
        votes = P.argmax(axis=2)

        def wrong(c):
            shares = np.stack([(c * (votes == k)).sum(axis=1) for k in range(3)], axis=1)
            return float((shares.argmax(axis=1) != y).mean())

        found = greedy_weights(votes, y, loss="zero_one", n_rounds=12, n_initial=2)
        np.testing.assert_allclose(found, plain_selection(with_m(wrong, 4), 12, 2))

    def test_it_comes_close_to_the_optimum(self):
        P, y = regression(500, 6)
        squared = ((P @ greedy_weights(P, y, n_rounds=200) - y) ** 2).mean()
        best = ((P @ optimal_weights(P, y) - y) ** 2).mean()
        assert best <= squared <= best * 1.001

    def test_bags(self):
        P, y = regression(200, 12)
        default = greedy_weights(P, y)
        np.testing.assert_array_equal(default, greedy_weights(P, y, n_bags=20))
        np.testing.assert_array_equal(default, greedy_weights(P, y, random_state=0))
        assert (default != greedy_weights(P, y, random_state=1)).any()
        assert default.sum() == pytest.approx(1) and (default >= 0).all()
        whole = greedy_weights(P, y, n_bags=1)
        assert (default > 0).sum() > (whole > 0).sum()  # good models are not in every bag
        np.testing.assert_allclose(greedy_weights(P, y, n_bags=7, bag_share=1.0), whole)

    def test_a_bag_has_its_share_of_the_models(self):
        P, y = regression(50, 11)
        single = greedy_weights(P, y, n_rounds=1, n_bags=40, bag_share=0.01)
        assert np.allclose(single * 40, np.round(single * 40))  # one model in each bag
        assert (single > 0).sum() > 5

    def test_equal_models_leave_it_to_the_first(self):
        y = np.arange(6.0)
        assert greedy_weights(np.stack([y + 1] * 3, axis=1), y).tolist() == [1, 0, 0]


def with_m(function, m):
    def values(counts):
        return function(counts)

    values.m = m
    return values


class TestAccuracy:
    def test_shares_of_right_rows(self):
        P, y = classification(300, 4, 3)
        weight = np.random.default_rng(0).random(300)
        scores = [accuracy_score(y, P[:, m].argmax(axis=1), sample_weight=weight) for m in range(4)]
        expected = np.array(scores) / np.sum(scores)
        np.testing.assert_allclose(accuracy_weights(P, y, weight, loss="log_loss"), expected)
        votes = P.argmax(axis=2)
        np.testing.assert_allclose(accuracy_weights(votes, y, weight, loss="zero_one"), expected)

    @pytest.mark.parametrize("outputs", [(), (2,)])
    def test_r2(self, outputs):
        P, y = regression(300, 6, outputs=outputs)
        P[:, 2:] = (P[:, 2:] + 3 * y[:, None]) / 4
        weight = np.random.default_rng(0).random(300)
        scores = [max(0.0, r2_score(y, P[:, m], sample_weight=weight)) for m in range(6)]
        assert 0 < np.count_nonzero(scores) < 6
        np.testing.assert_allclose(
            accuracy_weights(P, y, weight), np.array(scores) / np.sum(scores)
        )

    def test_no_model_is_any_good(self):
        P, y = regression(50, 3)
        with pytest.warns(UserWarning, match="No model has an R² above zero"):
            weights = accuracy_weights(P + 100, y)
        np.testing.assert_array_equal(weights, np.full(3, 1 / 3))

    def test_a_constant_target(self):
        assert accuracy_weights([[1.0, 2.0], [1.0, 1.0]], [1.0, 1.0]).tolist() == [1, 0]


@pytest.mark.parametrize("learn", [accuracy_weights, optimal_weights, greedy_weights])
class TestAll:
    def test_no_order_of_rows_changes_a_bit(self, learn):
        values, y = regression(1001, 4)
        shares, codes = classification(1001, 4, 3)
        weight = np.random.default_rng(0).random(1001)
        order = np.random.default_rng(1).permutation(1001)
        for given in (None, weight):
            moved = None if given is None else given[order]
            np.testing.assert_array_equal(
                learn(values, y, given), learn(values[order], y[order], moved)
            )
        np.testing.assert_array_equal(
            learn(shares, codes, weight, loss="log_loss"),
            learn(shares[order], codes[order], weight[order], loss="log_loss"),
        )

    def test_equal_weights_of_rows_are_none(self, learn):
        P, y = regression(200, 3)
        np.testing.assert_allclose(learn(P, y, np.full(200, 7.0)), learn(P, y), atol=1e-12)
        P, y = classification(200, 3, 3)
        equal = learn(P, y, np.full(200, 7.0), loss="log_loss")
        np.testing.assert_allclose(equal, learn(P, y, loss="log_loss"), atol=1e-7)

    @pytest.mark.parametrize("predictions, y, settings, parts", [
        (np.ones((3, 2)), np.ones(4), {}, ("y must have the shape (3,)", "got (4,)")),
        (np.ones(3), np.ones(3), {}, ("predictions must have the shape", "n_models)", "(3,)")),
        (np.ones((0, 2)), np.ones(0), {}, ("at least one row", "(0, 2)")),
        (np.ones((3, 0)), np.ones(3), {}, ("one model", "(3, 0)")),
        (np.ones((3, 2, 2)), np.ones((3, 1)), {}, ("y must have the shape (3, 2)", "got (3, 1)")),
        (np.ones((3, 2)), np.zeros(3, int), {"loss": "log_loss"}, ("n_models, n_classes)",)),
        (np.full((3, 2), np.nan), np.ones(3), {}, ("predictions must hold finite numbers",)),
        (np.ones((3, 2)), np.array([1, np.inf, 0]), {}, ("y must hold finite numbers",)),
        (np.ones((3, 2)), np.array(list("abc")), {}, ("y must hold numbers, got dtype <U1",)),
        (np.ones((3, 2, 2)) * 2, np.zeros(3, int), {"loss": "log_loss"},
         ("must hold probabilities", "from 2.0 to 2.0")),
        (np.ones((3, 2, 2)) / 2, np.array([0, 1, 2]), {"loss": "log_loss"},
         ("y holds the class 2", "has 2 columns")),
        (np.ones((3, 2, 2)) / 2, np.array([0.0, 1, 1]), {"loss": "log_loss"},
         ("y must hold the numbers of classes", "float64")),
        (np.ones((3, 2)), np.array([0, 1, 1]), {"loss": "zero_one"},
         ("predictions must hold the numbers of classes", "float64")),
        (np.full((3, 2), -1), np.array([0, 1, 1]), {"loss": "zero_one"}, ("smallest -1",)),
        (np.ones((3, 2)), np.ones(3), {"loss": "mse"}, ("loss must be", "got 'mse'")),
        (np.ones((3, 2)), np.ones(3), {"sample_weight": [1, -1, 1]}, ("Negative", "sample_weight")),
        (np.ones((3, 2)), np.ones(3), {"sample_weight": [1, 1]}, ("sample_weight", "3 rows")),
        (np.ones((3, 2)), np.ones(3), {"sample_weight": [0, 0, 0]}, ("zero for every row",)),
    ])  # fmt: skip
    def test_bad_input(self, learn, predictions, y, settings, parts):
        with raises(ValueError, *parts):
            learn(predictions, y, **settings)


def test_optimal_votes_are_refused():
    with raises(ValueError, "weights='optimal' needs probabilities", "weights='greedy'"):
        optimal_weights(np.zeros((3, 2), int), np.zeros(3, int), loss="zero_one")


@pytest.mark.parametrize("name, value, wants", [
    ("n_rounds", 0, "an integer >= 1, got 0"), ("n_rounds", 2.5, "got 2.5"),
    ("n_initial", True, "got True"), ("n_bags", 0, "None or an integer >= 1, got 0"),
    ("bag_share", 0, "a number in (0, 1], got 0"), ("bag_share", 1.5, "got 1.5"),
    ("random_state", "seed", "got 'seed'"),
])  # fmt: skip
def test_bad_settings_of_the_selection(name, value, wants):
    with raises(ValueError, name, wants):
        greedy_weights(*regression(9, 2), **{name: value})


def test_every_subset_of_a_small_library_is_worse():
    """The optimum of votes in whole numbers, by trying all of them."""
    P, y = classification(40, 3, 2, seed=5)
    votes = P.argmax(axis=2)
    loss = ZeroOne(votes.T, y, np.full(40, 1 / 40), 2, cpu())
    best = min(loss.value(np.array(c) / sum(c)) for c in itertools.product(range(4), repeat=3)
               if sum(c))  # fmt: skip
    found = greedy_weights(votes, y, loss="zero_one")
    assert loss.value(found) >= best - 1e-15
    assert loss.value(found) <= min(loss.value(row) for row in np.eye(3))
