"""Tables that were converted are released before trees grow, which need their bins only."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gpuens
from gpuens.trees import cart, growth
from tests.support.alive import Alive

RNG = np.random.default_rng(0)
X = RNG.integers(0, 50, (300, 4))  # integers have to be converted
Y = X[:, 0] + RNG.normal(size=300)
FRAME = pd.DataFrame(X)
TREE = gpuens.DecisionTreeRegressor(max_depth=3, device="cpu")
FOREST = gpuens.RandomForestRegressor(4, max_depth=3, n_jobs=1, device="cpu")


@pytest.fixture
def alive(monkeypatch):
    """Watches every table that is read, and counts those alive when a batch of trees grows."""
    alive = Alive()
    read, grow = cart.read_features, growth.grow_cart

    def reading(*args, **more):
        table = read(*args, **more)
        alive.watch(table)
        return table

    def growing(*args):
        alive.count()
        return grow(*args)

    monkeypatch.setattr(cart, "read_features", reading)
    monkeypatch.setattr(growth, "grow_cart", growing)
    return alive


@pytest.mark.parametrize("table", [X, X.tolist(), FRAME], ids=["integers", "list", "frame"])
@pytest.mark.parametrize(
    "settings", [{"max_bins": None}, {"max_bins": 20}, {"criterion": "absolute_error"}], ids=str
)
@pytest.mark.parametrize("model", [TREE, FOREST], ids=["tree", "forest"])
def test_converted_tables_are_released(alive, model, settings, table):
    type(model)(**model.get_params() | settings).fit(table, Y)
    assert alive.references
    assert alive.found and set(alive.found) == {0}


def test_weights_and_categories(alive):
    """A warm start reads the table again."""
    model = gpuens.ExtraTreesClassifier(
        2, categorical_features=[1], warm_start=True, class_weight="balanced_subsample",
        device="cpu",
    )  # fmt: skip
    for n in (2, 4):
        model.set_params(n_estimators=n).fit(X, Y > 25, np.arange(300.0))
    assert alive.found and set(alive.found) == {0}


def test_bags_release_what_their_members_convert(alive):
    gpuens.BaggingRegressor(TREE, 4, device="cpu").fit(X, Y)
    assert alive.references
    assert set(alive.found) == {0}


def test_rows_that_are_predicted_meanwhile_are_kept(alive):
    gpuens.RandomForestRegressor(40, oob_score=True, device="cpu").fit(X, Y)
    assert min(alive.found) > 0


def test_the_table_of_the_user_is_not_copied(alive):
    table = X.astype(np.float32)
    FOREST.fit(table, Y)
    assert {id(reference()) for reference in alive.references} == {id(table)}
