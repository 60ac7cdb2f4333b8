"""Workers that share the rows of a table train the model of ``fit``, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.devices.placement import CPU
from gpuens.kernels.runtime.collective import Alone, Share, current_share, rows_of_all, sharing
from gpuens.numerics.weighted import ordered_sum, weighted_mean
from tests.support.thread_workers import cut, run_workers

N = 6_500
CUTS = {1: [N], 2: [1024, N], 3: [4096, 5120, N], 5: [1024, 2048, 3072, 6144, N]}
R, C = GradientBoostingRegressor, GradientBoostingClassifier


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns of normal, whole and missing values; a target; whole weights, zero at the start."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 10))
    X[:, 3] = np.round(X[:, 3])
    X[rng.random(N) < 0.1, 5] = np.nan
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + X[:, 3] + rng.standard_normal(N) / 2
    weight = rng.integers(0, 3, N).astype(float)
    weight[:1100] = 0.0
    return X, y, weight


X, Y, WEIGHT = table()
TARGETS = {
    "reg": Y,
    "two": np.column_stack([Y, X[:, 0] - Y]),
    "positive": np.where(np.arange(N) < 1024, 0.0, abs(Y)),
    "amounts": abs(Y) + 1.0,
    # The first worker has one class alone, the second lacks one.
    "binary": np.where((Y > 0) & (np.arange(N) >= 1024), "yes", "no"),
    "classes": np.digitize(Y, [-1, 1]) * (np.arange(N) > 2048),
}

CASES: list[tuple[type, str, bool, dict[str, Any]]] = [
    (R, "reg", False, {}),
    (R, "reg", True, {"subsample": 0.3, "n_jobs": 2}),
    (R, "reg", True, {"max_leaf_nodes": None, "max_depth": 5, "min_samples_leaf": 300}),
    (R, "reg", False, {"subsample": 0.0005, "min_samples_leaf": 1}),
    (R, "reg", False, {"monotonic_cst": [1, -1, 0, 0, 0, 0, 1, 0, 0, 0], "max_bins": 40}),
    (R, "two", True, {"colsample_bynode": 0.5, "interaction_cst": "pairwise"}),
    (R, "positive", True, {"loss": "poisson", "line_search": True}),
    (R, "positive", False, {"loss": "tweedie", "subsample": 0.5}),
    (R, "amounts", True, {"loss": "gamma"}),
    (C, "binary", False, {"min_samples_leaf": 80}),
    (C, "binary", True, {"loss": "exponential", "subsample": 0.7}),
    (C, "classes", True, {"learning_rate": 0.5}),
    (C, "classes", False, {"loss": "focal", "colsample_bytree": 0.6}),
]


def fit_shared(model: Any, rows: tuple[Any, ...], ends: list[int], **others: Any) -> list[Any]:
    """Return the models of workers that have the rows up to each of ``ends``."""
    pieces = cut(rows, ends)

    def work(collective):
        own = pieces[collective.rank]
        first = [0, *ends][collective.rank]
        with sharing(Share(collective, first, len(own[0]), ends[-1])):
            return type(model)(**model.get_params(deep=False)).fit(*own, **others)

    return run_workers(len(ends), work)


@pytest.mark.parametrize(
    ("cls", "target", "weighted", "params"),
    CASES,
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, dict) else None,
)
def test_the_model_is_that_of_fit(cls, target, weighted, params):
    model = cls(**{"n_estimators": 6, "random_state": 3, "device": "cpu", **params})
    y, weight = TARGETS[target], WEIGHT if weighted else None
    plain = type(model)(**model.get_params()).fit(X, y, weight)
    for n_workers in (2, 5):
        for shared in fit_shared(model, (X, y, weight), CUTS[n_workers]):
            assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
            assert np.array_equal(shared.predict(X[:50]), plain.predict(X[:50]))


@pytest.mark.parametrize("n_workers", CUTS)
def test_any_number_of_workers(n_workers):
    model = R(n_estimators=20, random_state=3, device="cpu", subsample=0.6)
    plain = R(**model.get_params()).fit(X.astype(np.float32), Y, WEIGHT)
    rows = X.astype(np.float32), Y, WEIGHT
    for shared in fit_shared(model, rows, CUTS[n_workers]):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


def test_histograms_that_are_not_kept(monkeypatch):
    """Nodes whose histogram was given up get it from all workers again."""
    from gpuens.kernels.growth import frontier

    monkeypatch.setattr(frontier, "HISTOGRAM_BYTES", 0)
    model = R(n_estimators=3, random_state=3, device="cpu", min_samples_leaf=100)
    plain = R(**model.get_params()).fit(X, Y)
    for shared in fit_shared(model, (X, Y, None), CUTS[3]):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


@pytest.mark.parametrize("sampled", [3_000, 1])
def test_cut_points_of_a_sample(monkeypatch, sampled):
    from gpuens.inputs import binning

    monkeypatch.setattr(binning, "SAMPLE_SIZE", sampled)
    model = R(n_estimators=2, random_state=5, device="cpu")
    plain = R(**model.get_params()).fit(X, Y, WEIGHT)
    for shared in fit_shared(model, (X, Y, WEIGHT), CUTS[5]):
        for own, theirs in zip(shared._binner.thresholds, plain._binner.thresholds, strict=True):
            assert np.array_equal(own, theirs)


@pytest.mark.parametrize("weighted", [False, True])
def test_evaluation_sets_and_early_stopping(weighted):
    """Every worker has them as a whole, and stops in the same round."""
    model = C(
        n_estimators=40, random_state=3, device="cpu", early_stopping=True, n_iter_no_change=2,
        learning_rate=1.0, scoring=["loss", "accuracy"],
    )  # fmt: skip
    y = TARGETS["classes"]
    weight = WEIGHT[4096:] if weighted else None
    others = {"eval_set": (X[:700], y[:700])}
    plain = C(**model.get_params()).fit(X[4096:], y[4096:], weight, **others)
    assert plain.stopped_ == "early stopping"
    rows = X[4096:], y[4096:], weight
    for shared in fit_shared(model, rows, [1024, N - 4096], **others):
        assert shared.evals_result_ == plain.evals_result_
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


def test_the_loss_of_the_training_rows():
    model = R(
        n_estimators=5, random_state=3, device="cpu", early_stopping=True, validation_fraction=None
    )
    plain = R(**model.get_params()).fit(X, Y, WEIGHT)
    for shared in fit_shared(model, (X, Y, WEIGHT), CUTS[3]):
        assert shared.evals_result_ == plain.evals_result_


def test_a_warm_start_on_other_workers():
    model = R(n_estimators=7, random_state=3, device="cpu", subsample=0.5)
    plain = R(**model.get_params()).fit(X, Y)
    begun = fit_shared(R(**{**model.get_params(), "n_estimators": 4}), (X, Y), CUTS[5])
    pieces = cut((X, Y), CUTS[2])

    def work(collective):
        own = pieces[collective.rank]
        first = [0, *CUTS[2]][collective.rank]
        mine = begun[collective.rank].set_params(n_estimators=7, warm_start=True)
        with sharing(Share(collective, first, len(own[0]), N)):
            return mine.fit(*own)

    for shared in run_workers(2, work):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


def test_a_single_worker_needs_nobody():
    model = C(n_estimators=4, random_state=3, device="cpu", subsample=0.5)
    plain = C(**model.get_params()).fit(X, TARGETS["classes"], WEIGHT)
    with sharing(Share(Alone(), 0, N, N)):
        model.fit(X, TARGETS["classes"], WEIGHT)
    assert model.forest_.fingerprint() == plain.forest_.fingerprint()


@pytest.mark.parametrize("n", [1, 1024, 1025, 5000])
def test_sums_of_all_rows(n):
    values = np.random.default_rng(n).standard_normal(n) * 1e3
    ends = [e for e in CUTS[5] if e < n] + [n]
    pieces = cut((values,), ends)

    def work(collective):
        (own,) = pieces[collective.rank]
        with sharing(Share(collective, [0, *ends][collective.rank], own.size, n)):
            assert rows_of_all(own.size) == n
            return ordered_sum(own, CPU), weighted_mean(own, abs(own), CPU)

    expected = ordered_sum(values, CPU), weighted_mean(values, abs(values), CPU)
    assert run_workers(len(ends), work) == [expected] * len(ends)
    assert current_share() is None


REFUSED: list[tuple[type, dict[str, Any], str]] = [
    (R, {"loss": "absolute_error"}, "loss='absolute_error'"),
    (R, {"loss": "quantile", "quantile": 0.3}, "loss='quantile'"),
    (R, {"loss": "huber"}, "loss='huber'"),
    (R, {"loss": lambda y, score: (score - y, y * 0 + 1)}, "loss=<function"),
    (R, {"sampling": "goss"}, "sampling='goss'"),
    (R, {"sampling": "mvs", "subsample": 0.5}, "sampling='mvs'"),
    (R, {"dropout": 0.1}, "dropout=0.1"),
    (C, {"sampling": "balanced", "subsample": 0.5}, "sampling='balanced'"),
    (C, {"class_weight": "balanced"}, "class_weight='balanced'"),
    (R, {"early_stopping": True}, "validation_fraction=0.1"),
    (R, {"early_stopping": True, "validation_fraction": None, "scoring": "r2"}, "scoring='r2'"),
    (R, {"categorical_features": [3]}, "categorical_features="),
    (R, {"init": LinearRegression()}, "init=LinearRegression()"),
    (R, {"min_impurity_decrease": 0.1}, "min_impurity_decrease=0.1"),
    (R, {"min_samples_split": 9}, "min_samples_split=9"),
    (R, {"verbose": True}, "verbose=True"),
    (R, {"callbacks": [print]}, "callbacks="),
    (R, {"device": "cuda"}, "device='cuda'"),
]


@pytest.mark.parametrize(("cls", "params", "named"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_not_supported_is_named(cls, params, named):
    table = np.where(np.isnan(X[:2048]), 0.0, X[:2048])
    table[:, 3] = abs(table[:, 3])
    model = cls(**{"n_estimators": 2, "device": "cpu", **params})
    y = TARGETS["binary"] if cls is C else abs(Y)
    with pytest.raises(NotImplementedError) as error:
        fit_shared(model, (table, y[:2048]), [1024, 2048])
    assert named in str(error.value)
    assert "where several workers share the rows" in str(error.value)


def test_one_class_in_all_rows():
    with pytest.raises(ValueError, match="y holds 1 class"):
        fit_shared(C(device="cpu"), (X, np.zeros(N, int)), CUTS[2])


def test_weights_of_zero_in_all_rows():
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        fit_shared(R(device="cpu"), (X, Y, np.zeros(N)), CUTS[2])


@pytest.mark.parametrize("ends", [[1000, N], [0, N]])
def test_a_share_has_whole_chunks(ends):
    with pytest.raises(ValueError, match="whole chunks of 1024 rows"):
        fit_shared(R(device="cpu"), (X, Y), ends)
