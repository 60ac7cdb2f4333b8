"""GradientBoostingRanker: losses, queries, metrics, what it shares with the other estimators."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import average_precision_score, ndcg_score

from gpuens import (
    GradientBoostingRanker,
    GradientBoostingRegressor,
    TreeExplainer,
    from_lightgbm,
    load,
)
from gpuens.custom_metrics import ArrayMetric
from gpuens.kernels.runtime.cpu import team
from gpuens.kernels.runtime.dispatch import Implementation, using
from gpuens.losses import CrossEntropyNDCG, LambdaRank, PairwiseLogistic, SquaredError
from gpuens.ranking_metrics import NDCG, MeanAveragePrecision
from tests.support.lanes import few

FEW: dict[str, Any] = {"n_estimators": 8, "min_samples_leaf": 5, "device": "cpu"}
LOSSES = ("lambdarank", "xendcg", "pairwise")
losses = pytest.mark.parametrize("loss", LOSSES)


def table(seed: int = 0, n_queries: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Documents of queries of 1 … 19 rows, some with missing values, and relevances 0 … 4."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 20, n_queries)
    n = int(sizes.sum())
    X = rng.normal(size=(n, 5))
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.digitize(score, [-0.5, 0.5, 1.2, 2.0]), sizes


X, Y, SIZES = table()
QID = np.repeat(np.arange(SIZES.size), SIZES)
TEST = table(1)


def prints(model: GradientBoostingRanker) -> tuple[Any, ...]:
    return model.forest_.fingerprint(), model.evals_result_


@losses
def test_it_ranks_better_than_it_did(loss):
    model = GradientBoostingRanker(loss, n_estimators=60, min_samples_leaf=5, scoring="ndcg@10")
    model.fit(X, Y, group=SIZES, eval_set=TEST[:2], eval_group=TEST[2])
    (scores,) = model.evals_result_["validation_0"].values()
    assert scores[-1] > scores[0] + 0.08 and scores[-1] > 0.88
    assert model.score(*TEST[:2], group=TEST[2]) > 0.88
    assert scores[-1] == NDCG(10)(TEST[1], model.predict(TEST[0]), group=TEST[2])
    assert list(model.staged_predict(X))[-1].tolist() == model.predict(X).tolist()


@losses
@pytest.mark.parametrize("weighted", few([False, True], 1))
def test_one_model_everywhere(loss, weighted, monkeypatch):
    weight = np.random.default_rng(0).random(Y.size) * (np.arange(Y.size) % 5 > 0)
    few = FEW | {"n_estimators": 3, "max_depth": 3}
    fitted = GradientBoostingRanker(loss, scoring=["ndcg@3", "map"], n_jobs=1, **few)
    data: Any = (X, Y, weight if weighted else None)
    more: Any = {"group": SIZES, "eval_set": TEST[:2], "eval_group": TEST[2]}
    if weighted:
        more["eval_sample_weight"] = np.arange(TEST[2].size) % 3
    expected = prints(fitted.fit(*data, **more))
    with using(Implementation.REFERENCE):
        assert prints(clone(fitted).fit(*data, **more)) == expected
    monkeypatch.setattr(team, "MIN_WORK_PER_THREAD", 1)
    assert prints(clone(fitted).set_params(n_jobs=3).fit(*data, **more)) == expected


def test_queries_and_weights_in_their_forms():
    model = GradientBoostingRanker(**FEW).fit(X, Y, group=SIZES)
    expected = prints(model)
    assert prints(clone(model).fit(X, Y, qid=QID)) == expected
    labels = np.array([f"query {q}" for q in QID[::-1]])[::-1]
    assert prints(clone(model).fit(X, Y, qid=labels)) == expected
    assert prints(clone(model).fit(pd.DataFrame(X), pd.Series(Y), qid=pd.Series(QID))) == expected
    of_queries = np.random.default_rng(0).random(SIZES.size)
    a = clone(model).fit(X, Y, of_queries, group=SIZES)
    b = clone(model).fit(X, Y, np.repeat(of_queries, SIZES), qid=QID)
    assert prints(a) == prints(b) != expected
    without = clone(model).fit(X[QID > 0], Y[QID > 0], group=SIZES[1:])
    zero = clone(model).fit(X, Y, np.arange(SIZES.size) > 0, group=SIZES)
    assert zero.forest_.n_trees == without.forest_.n_trees


@losses
def test_rounds_continue(loss):
    whole = GradientBoostingRanker(loss, **FEW).fit(X, Y, group=SIZES)
    half = clone(whole).set_params(n_estimators=4, warm_start=True).fit(X, Y, group=SIZES)
    init = clone(whole).set_params(n_estimators=4).fit(X, Y, group=SIZES, init=half)
    half.set_params(n_estimators=8).fit(X, Y, group=SIZES)
    assert prints(half) == prints(init) == prints(whole)


def test_early_stopping_holds_out_whole_queries():
    model = GradientBoostingRanker(
        **FEW | {"n_estimators": 500}, early_stopping=True, n_iter_no_change=3, random_state=1
    ).fit(X, Y, group=SIZES)
    assert model.stopped_ == "early stopping" and model.n_iter_ < 100
    assert list(model.evals_result_) == ["validation"]
    target = np.stack([Y, QID], axis=1).astype(float)
    train, held_out = model._split(target, np.empty(0))
    assert not set(QID[train]) & set(QID[held_out])
    assert len(set(QID[held_out])) == 6 and np.isin(np.arange(Y.size), [*train, *held_out]).all()
    again = GradientBoostingRanker(**FEW | {"n_estimators": model.n_iter_}, random_state=1)
    again.fit(X[train], Y[train], qid=QID[train])
    assert again.forest_.fingerprint() == model.forest_.fingerprint()


@pytest.mark.parametrize(
    "settings",
    [
        {"sampling": "goss", "learning_rate": 0.5},
        {"sampling": "mvs", "subsample": 0.5},
        {"subsample": 0.5, "colsample_bytree": 0.5},
        {"line_search": True},
        {"monotonic_cst": [1, 0, 0, 0, 0]},
        {"loss": LambdaRank(truncation_level=2, normalise=False, sigma=2.0)},
        {"loss": LambdaRank(label_gain=[0, 1, 1, 5, 9])},
        {"loss": CrossEntropyNDCG("linear")},
    ],
)
def test_settings(settings, tmp_path):
    model = GradientBoostingRanker(**FEW | settings).fit(X, Y, group=SIZES)
    assert model.score(X, Y, group=SIZES) > 0.8
    assert prints(clone(model).set_params(n_jobs=1).fit(X, Y, group=SIZES)) == prints(model)
    model.save(tmp_path / "ranker.gpuens")
    for other in (load(tmp_path / "ranker.gpuens"), pickle.loads(pickle.dumps(model))):
        assert other.get_params() == model.get_params()
        assert other.score(X, Y, group=SIZES) == model.score(X, Y, group=SIZES)
    contributions = model.predict(X[:9], pred_contribs=True)
    np.testing.assert_allclose(contributions.sum(axis=1), model.predict(X[:9]), atol=1e-12)
    model.to_lightgbm(tmp_path / "ranker.txt")
    named = pd.DataFrame(X, columns=[f"f{i}" for i in range(5)])
    found = from_lightgbm(tmp_path / "ranker.txt").predict(named)
    np.testing.assert_array_equal(found, model.predict(X))
    assert TreeExplainer(model).shap_values(X[:9]).shape == (9, 5)


def test_categories():
    colour = np.random.default_rng(0).integers(0, 6, Y.size)
    y = np.isin(colour, [1, 4]) * 2
    model = GradientBoostingRanker(**FEW, categorical_features=[5])
    model.fit(np.column_stack([X, colour]), y, group=SIZES)
    assert model.score(np.column_stack([X, colour]), y, group=SIZES) == 1.0


def test_a_metric_of_arrays_gets_relevance_and_query():
    def largest_query(y, score):
        return y[:, 1].max() + (y[:, 0] == Y).all()

    model = GradientBoostingRanker(
        **FEW, validation_fraction=None, early_stopping=True, scoring=ArrayMetric(largest_query)
    ).fit(X, Y, group=SIZES)
    assert set(model.evals_result_["training"]["largest_query"]) == {SIZES.size}


def clicks(n_queries: int) -> tuple[np.ndarray, ...]:
    """Clicks on documents that were shown in the order of a bad ranker; the true relevance."""
    rng = np.random.default_rng(0)
    n = n_queries * 10
    X = rng.normal(size=(n, 3))
    relevant = (X[:, 0] + 0.3 * rng.normal(size=n) > 0.5).astype(int)
    shown = X[:, 1].reshape(-1, 10) + 0.3 * rng.normal(size=(n_queries, 10))
    position = np.argsort(np.argsort(-shown, axis=1), axis=1).ravel()
    seen = rng.random(n) < 1.0 / (1.0 + position)
    return X, relevant, position, (relevant * seen).astype(int)


@pytest.mark.parametrize("loss", few([LambdaRank(position_l2=1e-4), PairwiseLogistic()], 0))
def test_the_bias_of_positions_is_learned(loss):
    X, relevant, position, clicked = clicks(250)
    group = np.full(250, 10)
    model = GradientBoostingRanker(loss, n_estimators=30, max_depth=3, device="cpu")
    biased = clone(model).fit(X, clicked, group=group)
    assert not hasattr(biased, "position_bias_")
    unbiased = clone(model).fit(X, clicked, group=group, position=position)
    bias = unbiased.position_bias_
    assert bias.shape == (10,) and bias[0] > bias[2] > bias[9]
    scores = [m.score(X, relevant, group=group) for m in (unbiased, biased)]
    assert scores[0] > scores[1] + 0.01
    with using(Implementation.REFERENCE):
        other = clone(model).set_params(n_estimators=2)
        other.fit(X, clicked, group=group, position=position)
    unbiased.set_params(n_estimators=2).fit(X, clicked, group=group, position=position)
    assert prints(other) == prints(unbiased)
    assert other.position_bias_.tolist() == unbiased.position_bias_.tolist()


def test_metrics_equal_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    y, score = rng.integers(0, 4, (7, 15)), rng.permutation(7 * 15).reshape(7, 15) / 9.0
    y[0] = 0
    group = [15] * 7
    for k in (1, 5, None):
        expected = (1.0 + 6 * ndcg_score(y[1:], score[1:], k=k)) / 7
        found = NDCG(k, label_gain="linear")(y.ravel(), score.ravel(), group=group)
        assert found == pytest.approx(expected, rel=1e-12)
    expected = [1.0] + [average_precision_score(y[q] > 0, score[q]) for q in range(1, 7)]
    found = MeanAveragePrecision()(y.ravel(), score.ravel(), group=group)
    assert found == pytest.approx(np.mean(expected), rel=1e-12)
    weight = rng.random(7)
    found = MeanAveragePrecision()(y.ravel(), score.ravel(), group=group, sample_weight=weight)
    assert found == pytest.approx(np.average(expected, weights=weight), rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group": None}, "group .* or qid .* must be passed, got neither"),
        ({"qid": QID}, "must be passed, got both"),
        ({"group": SIZES[:-1]}, f"group must add up to the {Y.size} rows of X, got"),
        ({"group": np.append(SIZES, 0)}, r"positive number of rows for each query, got group\[60"),
        ({"group": []}, "positive number of rows for each query, got empty"),
        ({"group": SIZES + 0.5}, "group must hold whole numbers"),
        ({"group": SIZES[:, None]}, "group must be a 1d array"),
        ({"group": None, "qid": QID % 7}, "qid must be sorted: query np.int64.0. starts in row 0"),
        ({"group": None, "qid": QID[1:]}, f"qid must have the query of each of the {Y.size} rows"),
        ({"group": None, "qid": np.where(QID > 3, QID, np.nan)}, "qid has missing values"),
        ({"group": np.ones(Y.size, int)}, "No query has two documents of different relevance"),
        ({"y": Y * 0 + 1}, "No query has two documents of different relevance"),
        ({"y": None}, "y must have the relevance of each row of X, got None"),
        ({"y": Y[1:]}, "group must add up"),
        ({"X": X[1:]}, "inconsistent numbers of samples"),
        ({"y": Y - 1}, "y must hold relevances >= 0, got -1.0 in row"),
        ({"y": Y / 2}, "whole numbers where gains are 2.*label_gain='linear'"),
        ({"y": Y + 30}, "relevances up to 30 .* got 34"),
        ({"y": np.where(Y > 3, np.nan, Y)}, "NaN"),
        ({"X": X[:0], "y": Y[:0], "group": []}, "empty"),
        ({"sample_weight": np.ones(7)}, "sample_weight must hold one weight"),
        ({"sample_weight": -np.ones(SIZES.size)}, "Negative values"),
        ({"eval_set": TEST[:2]}, r"eval_set\[0\] group .* got neither"),
        ({"eval_set": [TEST[:2]], "eval_group": SIZES}, "eval_group must be a list"),
        ({"eval_set": (X, Y - 1), "eval_group": SIZES}, r"eval_set\[0\] y must hold relevances"),
        ({"position": QID[1:]}, "position must have the place of each"),
        ({"position": -QID}, "position must hold whole numbers from 0"),
    ],
)
def test_bad_data(changes, message):
    data = {"X": X, "y": Y, "group": SIZES} | changes
    with pytest.raises(ValueError, match=message):
        GradientBoostingRanker(**FEW).fit(**data)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "squared_error"}, "loss must be 'lambdarank' or 'xendcg' or 'pairwise'"),
        ({"loss": SquaredError()}, "loss must be 'lambdarank' or 'xendcg' or 'pairwise'"),
        ({"scoring": "loss"}, "loss='lambdarank' has gradients only"),
        ({"scoring": "r2"}, "scoring='r2' and loss=.* do not go together"),
        ({"scoring": "ndcg@0"}, "scoring must be"),
        ({"sampling": "balanced"}, "is for classes"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        GradientBoostingRanker(**FEW | settings, verbose=False).fit(
            X, Y, group=SIZES, eval_set=TEST[:2], eval_group=TEST[2]
        )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LambdaRank(0), "truncation_level must be None or an integer > 0"),
        (lambda: LambdaRank(label_gain="log"), "label_gain must be"),
        (lambda: LambdaRank(label_gain=[0.0, -1.0]), "label_gain must be"),
        (lambda: LambdaRank(sigma=0.0), "sigma must be a finite number > 0"),
        (lambda: LambdaRank(normalise=1), "normalise must be True or False"),
        (lambda: PairwiseLogistic(position_l2=-1.0), "position_l2 must be a finite number >= 0"),
        (lambda: NDCG(0), "k must be None or an integer > 0"),
        (lambda: NDCG()([0, 1], [0.0, np.nan], group=[2]), "NaN"),
        (lambda: NDCG()([0, 1], [0.0, 1.0], group=[3]), "group must add up to the 2 rows"),
        (lambda: GradientBoostingRegressor("lambdarank").fit(X, Y), "loss must be"),
        (lambda: GradientBoostingRegressor(LambdaRank()).fit(X, Y), "use GradientBoostingRanker"),
        (
            lambda: GradientBoostingRegressor(scoring="map", early_stopping=True).fit(X, Y),
            "scoring='map' and loss=.* do not go together",
        ),
        (
            lambda: GradientBoostingRanker("xendcg").fit(X, Y, group=SIZES, position=QID),
            "position must be None with loss='xendcg'",
        ),
    ],
)
def test_bad_objects(make, message):
    with pytest.raises(ValueError, match=message):
        make()
