"""Tables that were converted for training are released once they are binned."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gpuens import GradientBoostingRegressor
from gpuens.boosting.data import reading as module
from gpuens.inputs.binning import Binner
from tests.support.alive import Alive

RNG = np.random.default_rng(0)
X = RNG.integers(0, 50, (300, 4))  # integers have to be converted
Y = X[:, 0] + RNG.normal(size=300)
SMALL = {"n_estimators": 3, "max_leaf_nodes": 5, "device": "cpu"}


@pytest.fixture
def alive(monkeypatch):
    """Watches every table that is read or binned."""
    alive = Alive()
    read, transform = module.read_features, Binner.transform

    def reading(*args, **more):
        table = read(*args, **more)
        alive.watch(table)
        return table

    def binning(self, table, device):
        alive.watch(table)
        return transform(self, table, device)

    monkeypatch.setattr(module, "read_features", reading)
    monkeypatch.setattr(Binner, "transform", binning)
    return alive


@pytest.mark.parametrize(
    ("settings", "arguments"),
    [
        ({}, {}),
        ({"early_stopping": True}, {}),
        ({"categorical_features": [1]}, {}),
        ({"loss": "huber", "line_search": True}, {"sample_weight": np.arange(300.0)}),
        ({}, {"eval_set": [(X[:50], Y[:50]), (X[50:90], Y[50:90])]}),
    ],
    ids=["plain", "rows held out", "categories", "weights", "evaluation sets"],
)
@pytest.mark.parametrize(
    "table", [X, X.tolist(), pd.DataFrame(X)], ids=["integers", "list", "frame"]
)
def test_converted_tables_are_released(alive, table, settings, arguments):
    GradientBoostingRegressor(**SMALL, **settings, callbacks=[alive]).fit(table, Y, **arguments)
    assert alive.references
    assert alive.found == [0] * 3


def test_a_warm_start_releases_its_table(alive):
    model = GradientBoostingRegressor(**SMALL, warm_start=True).fit(X, Y)
    model.set_params(n_estimators=5, callbacks=[alive]).fit(X, Y)
    assert alive.found == [0, 0]


def test_the_table_of_the_user_is_not_copied(alive):
    table = X.astype(np.float32)
    GradientBoostingRegressor(**SMALL, callbacks=[alive]).fit(table, Y)
    assert {id(reference()) for reference in alive.references} == {id(table)}
