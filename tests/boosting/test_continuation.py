"""Boosting that goes on from a fitted model, on the same rows or on others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.datasets import make_higgs_like

X, Y = make_higgs_like(2000, random_state=0)
BOTH = [GradientBoostingRegressor, GradientBoostingClassifier]


def prints(model: Any) -> str:
    return str(model.forest_.fingerprint())


@pytest.mark.parametrize("cls", BOTH)
def test_the_same_rows_give_the_model_of_one_training(cls):
    settings = {"subsample": 0.7, "colsample_bytree": 0.5}
    first = cls(n_estimators=4, **settings).fit(X, Y)
    further = cls(n_estimators=6, **settings).fit(X, Y, init=first)
    whole = cls(n_estimators=10, **settings).fit(X, Y)
    assert prints(further) == prints(whole)
    assert further.n_iter_ == 10 and further.n_estimators == 6


@pytest.mark.parametrize("cls", BOTH)
def test_the_first_model_stays_as_it_is(cls):
    first = cls(n_estimators=3).fit(X, Y)
    before = prints(first)
    further = cls(n_estimators=2).fit(X[1000:], Y[1000:], init=first)
    assert prints(first) == before and first.n_iter_ == 3
    old = further.forest_.slice(0, first.forest_.n_trees)
    assert old.fingerprint() == before


def test_further_rows_are_learned():
    shifted = X + np.float32(3.0)  # beyond the cut points of the first model
    first = GradientBoostingClassifier(n_estimators=30).fit(X, Y)
    further = GradientBoostingClassifier(n_estimators=30).fit(shifted, 1 - Y, init=first)
    assert further.score(shifted, 1 - Y) > first.score(shifted, 1 - Y) + 0.1


def test_rounds_are_evaluated_on_the_rows_at_hand():
    first = GradientBoostingRegressor(n_estimators=3).fit(X[:500], Y[:500], eval_set=(X, Y))
    further = GradientBoostingRegressor(n_estimators=2).fit(X, Y, init=first, eval_set=(X, Y))
    values = further.evals_result_["validation_0"]["loss"]
    assert values[-1] < values[0]
    assert values[-1] == pytest.approx(np.mean((further.predict(X) - Y) ** 2) / 2, rel=1e-6)


class TestBadInput:
    def test_another_class(self):
        first = GradientBoostingRegressor(n_estimators=1).fit(X, Y)
        with pytest.raises(TypeError, match="init must be a fitted GradientBoostingClassifier"):
            GradientBoostingClassifier().fit(X, Y, init=first)

    def test_not_fitted(self):
        with pytest.raises(ValueError, match="init must be fitted"):
            GradientBoostingRegressor().fit(X, Y, init=GradientBoostingRegressor())

    def test_other_features(self):
        first = GradientBoostingRegressor(n_estimators=1).fit(X[:, :5], Y)
        model = GradientBoostingRegressor(n_estimators=1)
        with pytest.raises(ValueError, match="(?s)28 features.*5"):
            model.fit(X, Y, init=first)
        assert not hasattr(model, "forest_")

    def test_other_classes(self):
        first = GradientBoostingClassifier(n_estimators=1).fit(X, Y)
        with pytest.raises(ValueError, match="class"):
            GradientBoostingClassifier(n_estimators=1).fit(X, Y + 1, init=first)

    def test_another_number_of_trees_a_round(self):
        first = GradientBoostingRegressor(n_estimators=1).fit(X, Y)
        with pytest.raises(ValueError, match="targets"):
            GradientBoostingRegressor(n_estimators=1).fit(X, np.c_[Y, Y], init=first)
