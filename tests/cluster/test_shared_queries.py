"""Workers that share the documents of queries learn the ranking of ``fit``, however queries are
cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuens import GradientBoostingRanker
from gpuens.kernels.runtime.collective import Workers, sharing
from gpuens.losses import LambdaRank
from tests.cluster.test_shared_rows import CUTS, WEIGHT, N, X, Y, in_turns
from tests.support.thread_workers import cut, run_workers

RELEVANCE = np.clip(np.round(Y + 1), 0, 4)
QID = np.sort(np.random.default_rng(4).integers(0, 300, N))
QID[900:3300] = QID[900]  # rows of four workers of five
POSITION = np.arange(N) % 11
SETTINGS = {"n_estimators": 5, "random_state": 3, "device": "cpu"}


def fit_shared(model: Any, rows: tuple[Any, ...], ends: list[int], **others: Any) -> list[Any]:
    pieces = cut(rows, ends)

    def work(collective):
        own, y, weight, qid, position = pieces[collective.rank]
        first = [0, *ends][collective.rank]
        mine = type(model)(**model.get_params(deep=False))
        with sharing(Workers(collective, first, len(own), ends[-1])):
            return mine.fit(own, y, weight, qid=qid, position=position, **others)

    return run_workers(len(ends), work)


@pytest.mark.parametrize(
    ("loss", "weighted", "position", "params", "ends"),
    in_turns([
        ("lambdarank", False, None, {}),
        ("lambdarank", True, POSITION, {"subsample": 0.5}),
        (LambdaRank(truncation_level=None), True, None, {"dropout": 0.5}),
        ("pairwise", False, POSITION, {"linear_leaves": True}),
        ("xendcg", True, None, {}),
    ]),
)  # fmt: skip
def test_the_model_is_that_of_fit(loss, weighted, position, params, ends):
    model = GradientBoostingRanker(loss, **SETTINGS, **params)
    weight = WEIGHT if weighted else None
    plain = GradientBoostingRanker(**model.get_params())
    plain.fit(X, RELEVANCE, weight, qid=QID, position=position)
    for shared in fit_shared(model, (X, RELEVANCE, weight, QID, position), ends):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
        if position is not None:
            assert np.array_equal(shared.position_bias_, plain.position_bias_)


@pytest.mark.parametrize("holds_out", [False, True])
def test_metrics_of_evaluation_sets_and_queries_held_out(holds_out):
    model = GradientBoostingRanker(
        **{**SETTINGS, "n_estimators": 20}, early_stopping=True, n_iter_no_change=2,
        learning_rate=1.0, scoring=["ndcg@10", "map"], validation_fraction=0.2,
    )  # fmt: skip
    others: dict[str, Any] = {}
    if not holds_out:
        others = {"eval_set": (X[:800], RELEVANCE[:800]), "eval_qid": QID[:800]}
    plain = GradientBoostingRanker(**model.get_params())
    plain.fit(X, RELEVANCE, WEIGHT, qid=QID, **others)
    rows = X, RELEVANCE, WEIGHT, QID, None
    for shared in fit_shared(model, rows, CUTS[3], **others):
        assert shared.evals_result_ == plain.evals_result_
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


def test_a_pair_that_two_workers_have():
    """Nothing but the pair of rows 1023 and 1024 can be learned from."""
    y, qid = np.zeros(2048), np.arange(2048)
    y[1023], qid[1023] = 1.0, 1024
    rows = X[:2048], y, None, qid, None
    plain = GradientBoostingRanker(**SETTINGS, min_samples_leaf=1).fit(X[:2048], y, qid=qid)
    for shared in fit_shared(plain, rows, [1024, 2048]):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
    with pytest.raises(ValueError, match="No query has two documents of different relevance"):
        fit_shared(plain, (X[:2048], np.zeros(2048), None, qid, None), [1024, 2048])


def test_bad_input():
    model = GradientBoostingRanker(**SETTINGS)
    again = QID.copy()
    again[-1] = QID[0]
    with pytest.raises(ValueError, match="qid must be sorted over all parts: 1 of"):
        fit_shared(model, (X, RELEVANCE, None, again, None), CUTS[2])
    with pytest.raises(ValueError, match="qid .* must be passed where several workers share the"):
        fit_shared(model, (X, RELEVANCE, None, None, None), CUTS[2], group=[N])
