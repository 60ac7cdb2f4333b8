"""Where ``device="auto"`` puts the work: data in host memory goes to a GPU only where that pays."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

import gpuens
from gpuens.combining.linear import RidgeRegression
from gpuens.devices import placement, policy
from gpuens.devices.placement import CPU, Device, resolve_device
from gpuens.devices.policy import (
    NO_WORK,
    boosting_work,
    cart_work,
    least_rows,
    outputs_in,
    prediction_work,
    size_of,
    sum_of,
    thresholds,
)
from tests.support import strict_cupy

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).astype(np.float32)
Y = X[:, 0] + RNG.normal(size=60)
CLASSES = (Y > 0).astype(np.int64)
GPU = Device("cuda", 0)


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    """The estimates of a machine with two threads."""
    monkeypatch.setattr(policy, "available_threads", lambda: 2)
    policy.prediction_work.cache_clear()
    yield
    policy.prediction_work.cache_clear()


class GpuChosenError(Exception):
    """A GPU was chosen."""


@pytest.fixture
def cupy(monkeypatch):
    """Two GPUs; work that begins on one of them ends there."""
    cupy = strict_cupy.install(monkeypatch, gpus=2)
    active = Device.active

    def begin(self):
        if self.is_gpu:
            raise GpuChosenError(str(self))
        return active(self)

    monkeypatch.setattr(Device, "active", begin)
    return cupy


@pytest.fixture
def looked_for(monkeypatch):
    """Counts how often a GPU was looked for, of which there is none."""
    found = []
    monkeypatch.setattr(placement, "simulated", lambda: False)
    monkeypatch.setattr(placement, "gpu_problem", lambda: found.append(1) or "no driver")
    return found


@pytest.fixture
def everything_pays(monkeypatch):
    eager = dataclasses.replace(policy.SPEEDS, least_seconds=0.0, margin=0.0)
    monkeypatch.setattr(policy, "SPEEDS", eager)


def forest_work(rows, n_trees=100, *, features=28, **settings):
    return cart_work((rows, features), n_trees, looked_at=5, max_depth=None, **settings)


@pytest.mark.parametrize(
    ("work", "pays"),
    [
        (boosting_work((150, 4), 100), False),
        (boosting_work((10_000, 28), 100), False),
        (boosting_work((1_000, 28), 10_000), False),  # launches cost more than the rows
        (boosting_work((1_000_000, 28), 1), False),
        (boosting_work((1_000_000, 28), 100), True),
        (boosting_work((11_000_000, 28), 100), True),
        (forest_work(20_000), False),
        (forest_work(1_000_000), True),
        (forest_work(1_000_000, n_sorted=200), False),
        (forest_work(1_000_000, on_host=True), False),
        (prediction_work((1, 28), 500), False),
        (prediction_work((100_000, 28), 500), False),
        (prediction_work((10_000_000, 28), 500), True),
        (prediction_work((10_000_000, 1000), 10), False),  # the copy costs more than the trees
        (NO_WORK, False),
    ],
)
def test_a_gpu_pays_from_some_size_on(work, pays):
    assert work.pays_on_gpu is pays


def test_more_threads_leave_more_to_the_cpu(monkeypatch):
    monkeypatch.setattr(policy, "available_threads", lambda: 64)
    assert not boosting_work((1_000_000, 28), 100).pays_on_gpu
    assert boosting_work((30_000_000, 28), 100).pays_on_gpu


def test_thresholds_are_where_the_answer_changes():
    rows = least_rows(lambda n: boosting_work((n, 28), 100))
    assert boosting_work((rows, 28), 100).pays_on_gpu
    assert not boosting_work((int(0.9 * rows), 28), 100).pays_on_gpu
    assert least_rows(lambda n: forest_work(n, on_host=True)) is None
    assert set(thresholds()) == {"gradient boosting", "forests", "prediction"}
    assert f"from {rows:,} rows" in thresholds()["gradient boosting"]


def test_work_adds_up_with_one_copy_of_the_table():
    one = boosting_work((1_000_000, 28), 10)
    ten = one.times(10)
    assert (ten.trees, ten.cpu, ten.gpu) == (100, 10 * one.cpu, 10 * one.gpu)
    assert ten.on_gpu - ten.gpu == pytest.approx(one.on_gpu - one.gpu)
    assert sum_of([one, one]) == one.times(2)
    assert sum_of([]) == NO_WORK


@pytest.mark.parametrize("table, size", [
    (X, (60, 3)), (X[:, 0], (60, 1)), (X.tolist(), (60, 3)), ([1.0, 2.0], (2, 1)), ([], (0, 0)),
    (pd.DataFrame(X), (60, 3)), (pl.DataFrame(X), (60, 3)), (pl.LazyFrame(X), (0, 0)),
    (np.float64(3), (0, 0)), (X[:, :, None], (0, 0)), (None, (0, 0)),
])  # fmt: skip
def test_sizes_of_tables(table, size):
    assert size_of(table) == size


@pytest.mark.parametrize("y, of_classes, n", [
    ([0, 1, 1], True, 1), (["a", "b", "c"], True, 3), (np.arange(5), True, 5),
    (pd.Series(["x", "y", "z"]), True, 3), (np.zeros(5), False, 1), (np.zeros((5, 2)), False, 2),
    (None, True, 1), (np.float64(3), True, 1),
])  # fmt: skip
def test_trees_of_a_round_are_guessed(y, of_classes, n):
    assert outputs_in(y, of_classes) == n


def binned(**settings):
    return gpuens.DecisionTreeRegressor(max_bins=255, max_depth=3, **settings)


STUMP = gpuens.DecisionTreeClassifier(max_bins=255, max_depth=1)
BOOSTED = gpuens.GradientBoostingRegressor(n_estimators=3)
FAMILIES = {
    "boosting": (gpuens.GradientBoostingRegressor(n_estimators=3), Y),
    "boosting, classes": (gpuens.GradientBoostingClassifier(n_estimators=3), CLASSES),
    "tree": (binned(), Y),
    "forest": (gpuens.RandomForestClassifier(3), CLASSES),
    "extra trees": (gpuens.ExtraTreesRegressor(3), Y),
    "oblique forest": (gpuens.ObliqueRandomForestRegressor(3), Y),
    "quantile forest": (gpuens.QuantileForestRegressor(3), Y),
    "isolation forest": (gpuens.IsolationForest(n_estimators=3, contamination=0.1), None),
    "bagging": (gpuens.BaggingRegressor(binned(), 3), Y),
    "bagging of boosting": (gpuens.BaggingRegressor(BOOSTED, 2), Y),
    "AdaBoost": (gpuens.AdaBoostClassifier(n_estimators=3), CLASSES),
    "AdaBoost, regression": (gpuens.AdaBoostRegressor(n_estimators=3), Y),
    "AdaBoost of boosting": (
        gpuens.AdaBoostRegressor(gpuens.GradientBoostingRegressor(n_estimators=2), n_estimators=2),
        Y,
    ),
    "three learners": (gpuens.ThreeLearnerBoostingClassifier(STUMP), CLASSES),
    "stagewise": (gpuens.StagewiseRegressor(n_estimators=3), Y),
    "voting": (gpuens.VotingRegressor([("a", BOOSTED)]), Y),
    "stacking": (gpuens.StackingRegressor([("a", BOOSTED)], cv=2), Y),
}
KEEPS_WHOLE = {"voting", "stacking"}
"""They leave the data on the host whatever its size; their members decide for themselves."""


def fit(name, table=X, target=None, device=None):
    """A clone of a family's model, fitted; ``device`` for it and for its members."""
    model, y = FAMILIES[name]
    model = clone(model)
    if device is not None:
        names = [n for n in model.get_params() if n == "device" or n.endswith("__device")]
        model.set_params(**dict.fromkeys(names, device))
    target = y if target is None else target
    return model.fit(table) if target is None else model.fit(table, target)


@pytest.mark.filterwarnings("ignore:The")  # three learners may end with fewer
@pytest.mark.parametrize("name", FAMILIES)
def test_small_host_data_takes_no_gpu(name, looked_for):
    fit(name).predict(X[:1])
    assert looked_for == []


@pytest.mark.parametrize("name", FAMILIES)
def test_large_host_data_goes_to_the_gpu(name, cupy, everything_pays):
    with pytest.raises(GpuChosenError, match="cuda:0"):
        fit(name)


@pytest.mark.parametrize("name", FAMILIES)
def test_data_on_a_gpu_stays_there(name, cupy):
    y = FAMILIES[name][1]
    there = [None if a is None else strict_cupy.on_gpu(cupy, a, 1) for a in (X, y)]
    with pytest.raises(GpuChosenError, match="cuda:1"):
        fit(name, *there)


@pytest.mark.filterwarnings("ignore:The")
@pytest.mark.parametrize("name", FAMILIES)
def test_words_override_the_size(name, cupy, everything_pays):
    with pytest.raises(GpuChosenError, match="cuda:1"):
        fit(name, device="cuda:1")
    fit(name, device="cpu").predict(X)


def search(model):
    settings = {"learning_rate": [0.1, 0.2]}
    return gpuens.GridSearchCV(model, settings, cv=2, n_jobs=2, error_score="raise").fit(X, Y)


def many(model):
    return gpuens.fit_many([model, model], X, Y, folds=2, n_jobs=2)


@pytest.mark.parametrize("fits", [search, many])
def test_small_fits_side_by_side_take_no_gpu(fits, looked_for):
    fits(BOOSTED)
    assert looked_for == []


@pytest.mark.parametrize("fits", [search, many])
def test_large_fits_side_by_side_take_the_gpu(fits, cupy, everything_pays):
    with pytest.raises(GpuChosenError):
        fits(BOOSTED)


def test_fits_that_share_the_threads_count_all_of_them(cupy):
    """On one thread of two it would take twice as long, and the others as long again."""
    one = clone(BOOSTED).set_params(n_jobs=1)
    assert one._training_work(X, Y) == BOOSTED._training_work(X, Y)


def test_real_sizes(cupy):
    """Tables without memory of their own, whose reading would take it."""
    large = np.broadcast_to(np.float32(0), (11_000_000, 28))
    y = np.broadcast_to(np.float64(0), len(large))
    with pytest.raises(GpuChosenError):
        gpuens.GradientBoostingRegressor().fit(large, y)
    with pytest.raises(GpuChosenError):
        gpuens.RandomForestRegressor().fit(large, y)
    plan = gpuens.memory_plan(gpuens.GradientBoostingRegressor(), (11_000_000, 28))
    assert plan.device == GPU
    assert gpuens.memory_plan(gpuens.GradientBoostingRegressor(), (150, 4)).device == CPU


MANY_TREES = gpuens.GradientBoostingRegressor(n_estimators=200, max_depth=1)


@pytest.mark.parametrize(
    "model", [MANY_TREES, gpuens.BaggingRegressor(MANY_TREES, 2)], ids=["boosting", "bagging"]
)
def test_predictions_are_placed_by_rows_and_trees(cupy, model):
    model = clone(model).fit(X, Y)
    assert model.predict(X).shape == (60,)
    with pytest.raises(GpuChosenError):
        model.predict(np.broadcast_to(np.float32(0), (20_000_000, 3)))
    with pytest.raises(GpuChosenError, match="cuda:1"):
        model.predict(strict_cupy.on_gpu(cupy, X, 1))


def test_inspection_is_placed_by_its_predictions(cupy, everything_pays):
    model = gpuens.GradientBoostingRegressor(n_estimators=2, device="cpu").fit(X, Y)
    model.set_params(device="auto")
    with pytest.raises(GpuChosenError):
        gpuens.inspection.permutation_importance(model, X, Y)


def test_models_that_are_fitted_later_are_placed_by_their_fits(cupy, everything_pays):
    model = gpuens.GradientBoostingRegressor(n_estimators=2)
    with pytest.raises(GpuChosenError):
        gpuens.bias_variance.bias_variance(model, X, Y, rounds=2)
    bag = gpuens.BaggingRegressor(LinearRegression(), 2)
    gpuens.bias_variance.bias_variance(bag, X, Y, rounds=2)


def test_host_data_for_other_packages_and_linear_models_stay(cupy, everything_pays):
    bag = gpuens.BaggingRegressor(LinearRegression(), 2)
    gpuens.BaggingRegressor(bag, 2).fit(X, Y).predict(X)
    gpuens.StagewiseRegressor(LinearRegression(), n_estimators=2).fit(X, Y).predict(X)
    RidgeRegression().fit(X, Y).predict(X)


def test_trees_that_the_host_grows_stay(cupy, everything_pays):
    gpuens.DecisionTreeRegressor(criterion="absolute_error").fit(X, Y)
    gpuens.RandomForestRegressor(2, criterion="absolute_error").fit(X, Y)


@pytest.mark.parametrize("max_features", [2, 99, 0.5, "sqrt", "wrong", None])
def test_bad_settings_are_left_to_their_checks(looked_for, max_features):
    tree = gpuens.DecisionTreeClassifier(max_features=max_features)
    model = gpuens.AdaBoostClassifier(tree, n_estimators=2)
    if max_features in (99, "wrong"):
        with pytest.raises(ValueError, match="max_features"):
            model.fit(X, CLASSES)
    else:
        model.fit(X, CLASSES)


@pytest.mark.parametrize("member", [
    gpuens.GradientBoostingRegressor(n_estimators="many"), gpuens.RandomForestRegressor("many"),
    gpuens.AdaBoostRegressor(n_estimators="many"), gpuens.StagewiseRegressor(n_estimators="many"),
])  # fmt: skip
def test_bad_settings_of_members_too(looked_for, member):
    with pytest.raises((ValueError, TypeError), match="n_estimators must be"):
        gpuens.BaggingRegressor(member, 2, n_jobs=1).fit(X, Y)


def test_a_verbose_fit_says_where_it_runs_and_why(looked_for, everything_pays, capsys):
    model = gpuens.GradientBoostingRegressor(n_estimators=3, verbose=1)
    model.fit(X, Y)
    assert (
        "Running on cpu: no driver. 3 rounds, without early stopping.\n" in capsys.readouterr().err
    )
    model.set_params(device="cpu").fit(X, Y)
    assert "Running on cpu: device='cpu'. 3 rounds, " in capsys.readouterr().err


VERBOSE = [name for name, (model, _) in FAMILIES.items() if hasattr(model, "verbose")]


@pytest.mark.parametrize("name", [name for name in VERBOSE if name not in KEEPS_WHOLE])
def test_small_data_is_the_reason_that_verbose_fits_give(name, looked_for, capsys):
    model, y = FAMILIES[name]
    clone(model).set_params(verbose=1).fit(X, *([] if y is None else [y]))
    said = [line for line in capsys.readouterr().err.split("\n") if "Running on" in line]
    assert len(said) == 1
    assert said[0].startswith("Running on cpu: 60 x 3 values and ")
    assert "s on the CPU and" in said[0] and "s on a GPU, by estimate." in said[0]


def test_the_reason_where_the_work_is_not_known(looked_for, capsys):
    gpuens.BaggingRegressor(LinearRegression(), 2, verbose=1).fit(X, Y)
    assert "Running on cpu.\n" in capsys.readouterr().err  # other packages get host arrays
    assert str(NO_WORK) == "the data is in host memory"


def test_reasons_of_a_gpu(cupy, everything_pays):
    there = strict_cupy.on_gpu(cupy, X, 1)
    work = boosting_work((1_000_000, 28), 100)
    assert resolve_device("auto", there).reason == "X is on cuda:1"
    assert resolve_device("cuda:1", X).reason == "device='cuda:1'"
    assert resolve_device("auto", X, work=work).reason is work
    assert "the host works on" in str(forest_work(10, on_host=True))


def test_show_config_names_the_sizes(capsys):
    found = gpuens.show_config()["gpu_pays"]
    assert found == thresholds()
    assert f"GPU pays          forests of host data: {found['forests']}" in capsys.readouterr().out
