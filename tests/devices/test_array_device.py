"""``device="array"``: every family in the library of its input, with the models of the CPU."""

import os
import pickle
import subprocess
import sys
import warnings

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

import gpuens as ge
from gpuens.custom_metrics import ArrayMetric
from gpuens.devices import array_library
from tests.support.lanes import few
from tests.support.suited import suited

N_ROWS, N_FIT = 90, 70


def boosted(loss="squared_error", **parameters):
    return ge.GradientBoostingRegressor(loss=loss, n_estimators=2, **parameters)


def classifier(**parameters):
    return ge.GradientBoostingClassifier(n_estimators=2, **parameters)


def member():
    return ge.DecisionTreeRegressor(max_depth=2, device="array")


MODELS = {
    **{
        loss: boosted(loss)
        for loss in ("squared_error", "absolute_error", "huber", "poisson", "gamma", "tweedie")
    },
    **{
        loss: boosted(loss)
        for loss in ("normal", "log_normal", "student_t", "negative_binomial", "aft", "cox")
    },
    "quantile": boosted("quantile", quantile=0.3),
    "expectile": boosted("expectile", quantile=0.7),
    "quantiles": boosted("quantile", quantile=[0.2, 0.8]),
    "one tree": boosted("quantile", quantile=[0.2, 0.8], multi_strategy="multi_output_tree"),
    "log loss": classifier(),
    "exponential": classifier(loss="exponential"),
    "focal": classifier(loss=ge.losses.Focal()),
    "ranking": ge.GradientBoostingRanker(n_estimators=2),
    "samples": boosted(subsample=0.6, colsample_bynode=0.6, colsample_bytree=0.9),
    "dropout": boosted(dropout=0.5),
    "categories": boosted(categorical_features=[3]),
    "monotone": boosted(monotonic_cst=[1, 0, -1, 0]),
    "early stopping": boosted(early_stopping=True, validation_fraction=0.3),
    "by depth": boosted(max_leaf_nodes=None, max_depth=3),
    "linear leaves": boosted(linear_leaves=True),
    "line search": boosted(line_search=True),
    "gradient samples": boosted(sampling="goss"),
    "variance samples": boosted(sampling="mvs", subsample=0.5),
    "tree": ge.DecisionTreeRegressor(min_samples_leaf=4),
    "tree of classes": ge.DecisionTreeClassifier(max_depth=3),
    "absolute tree": ge.DecisionTreeRegressor(criterion="absolute_error", max_depth=2),
    "random tree": ge.ExtraTreeRegressor(max_depth=3),
    "forest": ge.RandomForestRegressor(n_estimators=2, max_depth=3, oob_score=True),
    "forest of classes": ge.RandomForestClassifier(n_estimators=2, max_depth=3),
    "extra trees": ge.ExtraTreesClassifier(n_estimators=2, max_depth=3),
    "oblique": ge.ObliqueRandomForestRegressor(n_estimators=2, max_depth=2),
    "survival": ge.RandomSurvivalForest(n_estimators=2, max_depth=2),
    "quantile forest": ge.QuantileForestRegressor(n_estimators=2, max_depth=3),
    "isolation": ge.IsolationForest(n_estimators=2, max_samples=32),
    "AdaBoost": ge.AdaBoostClassifier(n_estimators=2),
    "AdaBoost.R2": ge.AdaBoostRegressor(n_estimators=2),
    "bagging": ge.BaggingRegressor(member(), n_estimators=2),
    "stagewise": ge.StagewiseRegressor(n_estimators=2),
    "voting": ge.VotingRegressor([("a", member()), ("b", member().set_params(max_depth=1))]),
    "stacking": ge.StackingRegressor([("a", member()), ("b", member())], cv=2),
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(N_ROWS, 4)).round(2)
    X[:, 3] = np.floor(np.abs(X[:, 3]) * 3)
    X[::13, 1] = np.nan
    return X, 1.5 * X[:, 0] - X[:, 2] ** 2 + X[:, 3] + rng.normal(size=N_ROWS) * 0.1


def strict(values):
    return array_api_strict.asarray(values)


def torch(values):
    return pytest.importorskip("torch").asarray(np.ascontiguousarray(values))


def jax(values):
    pytest.importorskip("jax").config.update("jax_enable_x64", True)
    import jax.numpy as jnp

    return jnp.asarray(values)


def with_device(model, device):
    """Return a copy, which works there as its members do."""
    names = [name for name in model.get_params() if name.endswith("device")]
    model = clone(model).set_params(**dict.fromkeys(names, device))
    random = [name for name in model.get_params() if name.endswith("random_state")]
    return model.set_params(**dict.fromkeys(random, 3))


def data_for(name, model, table):
    X, y = table
    y, beside = suited(type(model).__name__, getattr(model, "loss", None), y)
    if name == "ranking":
        beside = {"group": [8] * 8 + [6]}
    if name == "exponential":
        y = y == "no"
    beside = {key: value[:N_FIT] if key != "group" else value for key, value in beside.items()}
    return X, y[:N_FIT], beside


def moved(values, to):
    """Return an array of the library, or what libraries do not have as it is."""
    return to(values) if values.dtype.kind in "biuf" else values


def host(values):
    return values if isinstance(values, np.ndarray) else np.asarray(np.from_dlpack(values))


def compare(name, table, to):
    X, y, beside = data_for(name, MODELS[name], table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few rows and rounds
        expected = with_device(MODELS[name], "cpu").fit(X[:N_FIT], y, **beside)
        found = with_device(MODELS[name], "array").fit(to(X[:N_FIT]), moved(y, to), **beside)
    for part in ("feature", "threshold", "left", "value", "missing_left"):
        if hasattr(expected, "forest_"):
            mine, theirs = (getattr(m.forest_, part) for m in (found, expected))
            np.testing.assert_array_equal(mine, theirs, err_msg=part)
    predicted, wanted = found.predict(to(X)), expected.predict(X)
    np.testing.assert_array_equal(host(predicted), wanted)
    if wanted.dtype.kind in "biuf":
        assert type(predicted) is type(to(X))


QUICK = (
    "squared_error", "absolute_error", "poisson", "normal", "aft", "cox", "quantile", "one tree",
    "log loss", "focal", "ranking", "samples", "dropout", "categories", "monotone",
    "early stopping", "linear leaves", "line search", "gradient samples", "absolute tree",
    "tree of classes", "forest", "extra trees", "survival", "isolation", "AdaBoost", "bagging",
    "stagewise", "stacking",
)  # fmt: skip


@pytest.mark.parametrize("weight", [1.0, 1e20])
def test_huber_beyond_squares_of_float32(weight, table):
    """The changes of the loss were infinite, and so was their sum, or not a number."""
    X, y = table[0][:N_FIT], np.random.default_rng(0).normal(size=N_FIT)
    weights = np.where(np.arange(N_FIT) % 3 == 0, weight, 1.0 / weight)
    outlier = np.where(np.arange(N_FIT) == 0, 1e20, y)
    for target in (outlier, y * 1e20) if weight == 1.0 else (outlier,):
        model = ge.GradientBoostingRegressor(loss="huber", n_estimators=4)
        expected = clone(model).set_params(device="cpu").fit(X, target, weights)
        found = clone(model).set_params(device="array")
        found.fit(strict(X), strict(target), strict(weights))
        np.testing.assert_array_equal(found.forest_.value, expected.forest_.value)
    if weight == 1.0:  # the model of smaller numbers, but for the scale
        large, small = (clone(model).fit(X, y * 2.0**k).predict(X) / 2.0**k for k in (66, 0))
        np.testing.assert_array_equal(large, small)


@pytest.mark.parametrize("name", few(MODELS, *QUICK))
def test_a_strict_library_gets_the_model_of_the_cpu(name, table):
    compare(name, table, strict)


@pytest.mark.parametrize("name", MODELS)
def test_torch_gets_the_model_of_the_cpu(name, table):
    compare(name, table, torch)


@pytest.mark.parametrize("name", ["squared_error", "tree of classes"])
def test_jax_gets_the_model_of_the_cpu(name, table):
    compare(name, table, jax)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
def test_numpy_needs_no_numba(table, tmp_path):
    """Where Numba cannot be imported the reference still trains, saves and predicts."""
    cases = {}
    for name in ("log loss", "forest", "isolation"):
        X, y, _ = data_for(name, MODELS[name], table)
        expected = with_device(MODELS[name], "cpu").fit(X[:N_FIT], y).predict(X)
        cases[name] = X, y, expected
    (tmp_path / "data").write_bytes(pickle.dumps(cases))
    code = f"""
import pathlib, pickle, sys
sys.modules["numba"] = None
import numpy as np
from tests.devices.test_array_device import MODELS, with_device
cases = pickle.loads(pathlib.Path({str(tmp_path / "data")!r}).read_bytes())
for name, (X, y, expected) in cases.items():
    model = with_device(MODELS[name], "array").fit(X[:len(y)], y)
    np.testing.assert_array_equal(model.predict(X), expected, err_msg=name)
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, env=os.environ
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("to", [strict, torch])
def test_roots_round_as_numpys(to):
    values = np.concatenate([[0.0, 1e-200, np.inf], np.random.default_rng(0).uniform(size=20_000)])
    space = array_library.library_of(to(values))
    for dtype in (np.float64, np.float32):
        with np.errstate(all="ignore"):  # as in every block of the reference
            found = space.sqrt(space.asarray(values.astype(dtype)))
        np.testing.assert_array_equal(found.to_numpy(), np.sqrt(values.astype(dtype)))


@pytest.mark.parametrize("to", [strict, torch, jax])
def test_types_follow_numpys_rules(to):
    ours = array_library.library_of(to(np.zeros(1)))
    whole, small = np.arange(4, dtype=np.int64), np.arange(4, dtype=np.float32)
    mine, narrow = ours.asarray(whole), ours.asarray(small)
    for found, expected in [
        (mine / 3, whole / 3),
        (1.3 / (narrow + 1), 1.3 / (small + 1)),
        (mine * 0.5, whole * 0.5),
        ((mine + 0.1) / 3.7, (whole + 0.1) / 3.7),
        (mine * narrow, whole * small),
        (narrow + np.float64(0.1), small + np.float64(0.1)),
        (ours.where(mine > 1, narrow, mine), np.where(whole > 1, small, whole)),
        (ours.zeros(2), np.zeros(2)),
        (ours.full(2, 3), np.full(2, 3)),
    ]:
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.to_numpy(), expected)


@pytest.mark.parametrize("to", [strict, torch, jax])
def test_parts_are_views_and_arrays_select(to):
    """What can be written to in NumPy can be written to in every library."""
    theirs = np.arange(24.0).reshape(4, 6)
    space = array_library.library_of(to(theirs))
    mine = space.asarray(theirs.copy())
    rows, mask = np.array([3, 0, 3]), np.array([True, False, True, False])

    def change(values, at, marked):
        values[1] += 1.0
        values[1, 2:4] = 7.0
        part = values[2]
        part[::2] = 0.5
        values[None, 0][0, 5] = -1.0
        values[marked] = 9.0
        values[at] = values[at] * 2.0
        values[:, at] = values[:, at] + 1.0
        values[1][at] = -2.0
        values[1:] = values[:-1]
        values[:, at] = np.arange(12.0).reshape(4, 3)

    change(theirs, rows, mask)
    change(mine, space.asarray(rows), space.asarray(mask))
    np.testing.assert_array_equal(mine.to_numpy(), theirs)
    space_of_three = np.arange(24.0).reshape(2, 3, 4)
    three = space.asarray(space_of_three)
    for key in [np.s_[..., rows[:2] - 3], np.s_[0, rows[:2] - 3], np.s_[:, 1, rows]]:
        np.testing.assert_array_equal(three[key].to_numpy(), space_of_three[key])
    for key in [np.s_[1], np.s_[::-1, 2], np.s_[1:9, -1], np.s_[..., 0], np.s_[:, None, 1:3]]:
        np.testing.assert_array_equal(mine[key].to_numpy(), theirs[key])
    at, marked = space.asarray(rows), space.asarray(mask)
    np.testing.assert_array_equal(mine[at, at].to_numpy(), theirs[rows, rows])
    back = space.asarray(rows - 4)
    np.testing.assert_array_equal(mine[at, back].to_numpy(), theirs[rows, rows - 4])
    np.testing.assert_array_equal(mine[2, at].to_numpy(), theirs[2, rows])
    first = mine[0, 0]
    mine[0, 0] = 77.0
    assert float(first) != 77.0
    for key in [np.s_[0, :, at], (marked, marked)]:
        with pytest.raises(TypeError, match="nothing here"):
            three[key] if len(key) == 3 else mine[key]
    with pytest.raises(IndexError):
        mine[4]
    np.testing.assert_array_equal(mine[marked, 1:3].to_numpy(), theirs[mask, 1:3])


def test_a_model_is_saved_explained_and_goes_on(table, tmp_path):
    X, y = table
    model = boosted(device="array").fit(strict(X), strict(y))
    model.save(tmp_path / "model.gpuens")
    np.testing.assert_array_equal(ge.load(tmp_path / "model.gpuens").predict(X), model.predict(X))
    values = ge.TreeExplainer(model).shap_values(strict(X))
    expected = ge.TreeExplainer(with_device(model, "cpu").fit(X, y)).shap_values(X)
    np.testing.assert_array_equal(host(values), expected)


@pytest.mark.parametrize("kind", ["sparse", "binned", "frame"])
def test_tables_of_no_library_are_worked_on_with_numpy(table, kind):
    X, y = np.nan_to_num(table[0]), table[1]
    given = {
        "sparse": lambda: (csr_array(X), y),
        "binned": lambda: (ge.BinnedTable.from_batches(X, y=y),),
        "frame": lambda: (pd.DataFrame(X), y),
    }[kind]()
    slow = boosted(device="array").fit(*given).forest_.fingerprint()
    assert slow == boosted(device="cpu").fit(*given).forest_.fingerprint()


def test_functions_of_the_user_get_arrays_of_the_library(table):
    X, y = np.nan_to_num(table[0]), table[1]
    seen = []

    def objective(truth, score):
        seen.append(type(score))
        return score - truth, score * 0 + 1

    def error(truth, score):
        seen.append(type(truth))
        return float(array_api_strict.sum((truth - score) ** 2))

    def fit(device, to):
        return boosted(
            objective, device=device, scoring=ArrayMetric(error),
            early_stopping=True,
        ).fit(to(X), to(y))  # fmt: skip

    model = fit("array", strict)
    assert set(seen) == {type(strict(y))}
    np.testing.assert_array_equal(host(model.predict(strict(X))), model.predict(X))


@pytest.mark.parametrize(
    "model",
    [
        ge.BaggingRegressor(member(), n_estimators=2, bootstrap=False, max_samples=0.4),
        ge.GradientBoostingRegressor(
            scoring="r2", max_depth=1, n_estimators=3, early_stopping=True, device="array"
        ),
    ],
)
def test_draws_and_metrics_of_scikit_learn(model, table):
    X, y = np.nan_to_num(table[0]), table[1]
    found = with_device(model, "array").fit(strict(X), strict(y)).predict(X)
    np.testing.assert_array_equal(found, with_device(model, "cpu").fit(X, y).predict(X))


def test_integers_beyond_int64_are_refused(table):
    X = np.array([[2**63], [1], [2]], np.uint64)
    with pytest.raises(ValueError, match="an array of uint64 has larger ones"):
        ge.DecisionTreeRegressor(device="array").fit(strict(X), np.arange(3.0))


def test_tensors_with_gradients_are_read(table):
    X, y = torch(table[0]), torch(table[1])
    model = ge.DecisionTreeRegressor(device="array", max_depth=2)
    expected = model.fit(X, y).forest_.fingerprint()
    assert model.fit(X.requires_grad_(True), y).forest_.fingerprint() == expected


def test_jax_without_float64_says_what_to_call(table):
    pytest.importorskip("jax")
    code = """
import jax.numpy as jnp
import gpuens as ge
try:
    ge.DecisionTreeRegressor(device="array").fit(jnp.zeros((9, 2)), [0.0] * 9)
except ValueError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "jax has no float64" in run.stdout and "jax_enable_x64" in run.stdout, run


def test_complex_numbers_are_refused(table):
    X, y = table
    with pytest.raises(ValueError, match="Complex data not supported"):
        ge.DecisionTreeRegressor(device="array").fit(strict(X + 1j), y)


def test_numpy_arrays_beside_a_library_are_taken_there(table):
    X, y = table
    model = ge.DecisionTreeRegressor(device="array", max_depth=3)
    predicted = model.fit(strict(X), y.tolist()).predict(strict(X))
    np.testing.assert_array_equal(host(predicted), model.predict(X))


def test_arrays_of_two_libraries_are_refused(table):
    X, y = table
    message = "got X of array_api_strict .*, y of torch"
    with pytest.raises(ValueError, match=message):
        ge.DecisionTreeRegressor(device="array").fit(strict(X), torch(y))


def test_arrays_in_two_places_are_refused(table):
    X, y = table
    there = array_api_strict.asarray(y, device=array_api_strict.Device("device1"))
    with pytest.raises(ValueError, match="in one place, got X of .*CPU_DEVICE.*, y of .*device1"):
        ge.DecisionTreeRegressor(device="array").fit(strict(X), there)


@pytest.mark.slow
def test_a_library_on_another_of_its_devices(table):
    X, y = table
    device = array_api_strict.Device("device1")
    there = [array_api_strict.asarray(values, device=device) for values in (X, y)]
    predicted = ge.DecisionTreeRegressor(device="array").fit(*there).predict(there[0])
    assert predicted.device == device


def test_a_place_without_float64_is_named(table):
    X, y = table
    there = array_api_strict.asarray(
        X.astype(np.float32), device=array_api_strict.Device("no_float64")
    )
    with pytest.raises(ValueError, match="where X is: array_api_strict has no float64 on"):
        ge.DecisionTreeRegressor(device="array").fit(there, y)


def test_a_missing_function_is_named(table, monkeypatch):
    X, y = table
    monkeypatch.setattr(array_library, "NEEDED", ("take", "histogram_of"))
    with pytest.raises(ValueError, match="has no function histogram_of. Or pass device='auto'"):
        ge.DecisionTreeRegressor(device="array").fit(strict(X), y)
