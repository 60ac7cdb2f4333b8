"""Every kind of model on a real GPU: that of the CPU, bit for bit, with all that it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge

import gpuens
from gpuens.boosting import auto
from gpuens.devices import placement, sparse_tables, transfer
from gpuens.forest import forest as forest_module
from gpuens.kernels.growth.cuda import by_phases as cuda_by_phases
from gpuens.losses import CustomLoss, Focal, Huber, Tweedie, exp, mul

pytestmark = pytest.mark.gpu
N_ROWS = 3000
TREE = gpuens.DecisionTreeRegressor(max_depth=3)
RULES = {"monotonic_cst": [0, 1, -1, 0, 0], "interaction_cst": [{0, 1, 2}, {3, 4}]}
CATEGORIES = {"categorical_features": [0, 3]}


def table(n_classes: int, with_missing: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers, two columns of categories, a target, and weights, some of them zero."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N_ROWS, 5)).round(2).astype(np.float32)
    X[:, 0] = rng.integers(0, 30, N_ROWS)
    X[:, 3] = rng.integers(0, 4, N_ROWS)
    y = np.exp(X[:, 1] / 2 + (X[:, 0] % 3) * X[:, 2] / 3 + 0.3 * rng.normal(size=N_ROWS))
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    if with_missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y, rng.exponential(size=N_ROWS) * (np.arange(N_ROWS) % 6 > 0)


Case = tuple[str, int, dict[str, Any]]
BOOSTED: dict[str, Case] = {
    **{
        loss: ("GradientBoostingRegressor", 0, {"loss": loss})
        for loss in ("squared_error", "absolute_error", "huber", "poisson", "gamma", "tweedie")
    },
    "two quantiles": ("GradientBoostingRegressor", 0, {"loss": "quantile", "quantile": [0.2, 0.8]}),
    "expectile": ("GradientBoostingRegressor", 0, {"loss": "expectile", "quantile": 0.97}),
    "huber of 0.7, line search": (
        "GradientBoostingRegressor", 0, {"loss": Huber(0.7), "line_search": True},
    ),
    "tweedie of 1.2": ("GradientBoostingRegressor", 0, {"loss": Tweedie(power=1.2)}),
    **{
        loss: ("GradientBoostingRegressor", 0, {"loss": loss})
        for loss in ("normal", "log_normal", "student_t", "negative_binomial")
    },
    "log loss": ("GradientBoostingClassifier", 2, {}),
    "exponential": ("GradientBoostingClassifier", 2, {"loss": "exponential"}),
    "focal": ("GradientBoostingClassifier", 3, {"loss": Focal(1.5)}),
    "many classes": ("GradientBoostingClassifier", 12, {}),
    "goss": ("GradientBoostingClassifier", 2, {"sampling": "goss"}),
    "mvs": ("GradientBoostingRegressor", 0, {"sampling": "mvs", "subsample": 0.5}),
    "balanced": ("GradientBoostingClassifier", 3, {"sampling": "balanced", "subsample": 0.5}),
    "dropout": ("GradientBoostingRegressor", 0, {"dropout": 0.6, **CATEGORIES}),
    "dropout of classes": (
        "GradientBoostingClassifier", 3,
        {"dropout": 0.8, "uniform_drop": False, "normalize_drop": "forest", "max_drop": 2},
    ),
    "linear leaves": (
        "GradientBoostingRegressor", 0, {"linear_leaves": True, "subsample": 0.8, **CATEGORIES},
    ),
    "linear leaves of classes": (
        "GradientBoostingClassifier", 3, {"linear_leaves": True, "linear_lambda": 0.1},
    ),
    "one tree for all classes": (
        "GradientBoostingClassifier", 5, {"multi_strategy": "multi_output_tree", "subsample": 0.7},
    ),
    "one tree, goss": (
        "GradientBoostingClassifier", 3,
        {"multi_strategy": "multi_output_tree", "sampling": "goss", "learning_rate": 1.0},
    ),
    "one tree for two quantiles": (
        "GradientBoostingRegressor", 0,
        {"multi_strategy": "multi_output_tree", "loss": "quantile", "quantile": [0.2, 0.8]},
    ),
    "symmetric": ("GradientBoostingRegressor", 0, {"grow_policy": "symmetric"} | CATEGORIES),
    "symmetric, classes": (
        "GradientBoostingClassifier", 3,
        {"grow_policy": "symmetric", "subsample": 0.6, "colsample_bynode": 0.6, "max_depth": 4},
    ),
    "features drawn": (
        "GradientBoostingClassifier", 3,
        {"colsample_bytree": 0.8, "colsample_bylevel": 0.8, "colsample_bynode": 0.6},
    ),
    "rules": ("GradientBoostingRegressor", 0, RULES),
    "rules and sampling": ("GradientBoostingClassifier", 2, RULES | {"subsample": 0.6}),
    "categories": ("GradientBoostingRegressor", 0, CATEGORIES),
    "categories, few bins": (
        "GradientBoostingClassifier", 3, CATEGORIES | {"max_bins": 9, "max_cat_to_onehot": 2},
    ),
    "categories, rules": (
        "GradientBoostingClassifier", 2, CATEGORIES | {"monotonic_cst": [0, 1, -1, 0, 0]},
    ),
    "early stopping": ("GradientBoostingClassifier", 2, {"early_stopping": True}),
    "names of scikit-learn": (
        "GradientBoostingRegressor", 0,
        {"min_samples_split": 300, "min_impurity_decrease": 0.002, "max_features": "sqrt",
         "init": gpuens.DecisionTreeRegressor(max_depth=2, device="cpu")},
    ),
}  # fmt: skip
OTHERS: dict[str, Case] = {
    "tree": ("DecisionTreeRegressor", 0, {}),
    "tree, binned": ("DecisionTreeRegressor", 0, {"max_bins": 60, "min_samples_leaf": 9}),
    "tree, categories": ("DecisionTreeClassifier", 3, {"max_leaf_nodes": 20} | CATEGORIES),
    "forest": ("RandomForestClassifier", 3, {"oob_score": True}),
    "forest, rules": ("RandomForestRegressor", 0, {"monotonic_cst": [0, 1, -1, 0, 0]}),
    "forest, honest": ("RandomForestClassifier", 3, {"honest": True, "oob_score": True}),
    "oblique forest": ("ObliqueRandomForestClassifier", 3, {
        "feature_combinations": 2.5, "n_projections": 30, "oob_score": True,
    }),
    "oblique forest, honest": ("ObliqueRandomForestRegressor", 0, {
        "feature_combinations": 2, "n_projections": 30, "honest": True,
    }),
    "extra trees": ("ExtraTreesRegressor", 0, {"max_features": 2}),
    "quantile forest": ("QuantileForestRegressor", 0, {}),
    "isolation forest": ("IsolationForest", 0, {"bootstrap": True}),
    "AdaBoost": ("AdaBoostClassifier", 2, {}),
    "AdaBoost, trees": (
        "AdaBoostClassifier", 3, {"estimator": gpuens.DecisionTreeClassifier(max_depth=3)},
    ),
    "AdaBoost, regression": ("AdaBoostRegressor", 0, {"loss": "square"}),
    "bagging": (
        "BaggingClassifier", 3, {"estimator": gpuens.DecisionTreeClassifier(max_depth=6)},
    ),
    "bagging, regression": ("BaggingRegressor", 0, {"max_samples": 0.5, "oob_score": True}),
    "stagewise": ("StagewiseRegressor", 0, {"estimator": TREE, "subsample": 0.7}),
    "stagewise, two learners": ("StagewiseClassifier", 3, {"estimator": [TREE, Ridge()]}),
}  # fmt: skip
NO_MISSING = ("AdaBoostRegressor", "StagewiseClassifier", "StagewiseRegressor")
SAID = ("evals_result_", "estimator_errors_", "estimator_weights_", "oob_score_",
        "oob_scores_path_", "n_iter_")  # fmt: skip


def fitted(device: str, n_trees: int, case: Case, X: Any, y: Any, weight: Any) -> Any:
    cls, _, settings = case
    made = getattr(gpuens, cls)(**settings)
    known = made.get_params(deep=False)
    shared = {"n_estimators": n_trees, "random_state": 3, "device": device}
    made.set_params(**{name: value for name, value in shared.items() if name in known})
    return made.fit(X, y, weight)


@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
@pytest.mark.filterwarnings("ignore::gpuens.trees.on_host.HostGrowthWarning")
@pytest.mark.parametrize("name", [*BOOSTED, *OTHERS])
def test_same_model_as_on_the_cpu(cupy, n_trees, host, name):
    case = (BOOSTED | OTHERS)[name]
    X, y, weight = table(case[1], case[0] not in NO_MISSING)
    if case[2].get("early_stopping"):
        X, y, weight = X, y, None
    if case[2].get("loss") == "negative_binomial":
        y = np.floor(y)
    on_cpu = fitted("cpu", n_trees, case, X, y, weight)
    there = [None if array is None else cupy.asarray(array) for array in (X, y, weight)]
    on_gpu = fitted("cuda", n_trees, case, *there)
    assert_same(cupy, host, on_cpu, on_gpu, X, there[0])


def test_threads_that_do_not_run_find_no_split(cupy, n_trees, host, monkeypatch):
    """Few threads search on the host: what is in the room of the others is never read."""

    def with_best_splits_of_nobody(*sizes: Any) -> Any:
        work = allocate_work(*sizes)
        if work.levels.best.size:
            work.levels.best["gain"] = 1e300
        return work

    allocate_work = cuda_by_phases.allocate_work
    monkeypatch.setattr(cuda_by_phases, "allocate_work", with_best_splits_of_nobody)
    test_same_model_as_on_the_cpu(cupy, n_trees, host, "symmetric")


def assert_same(
    cupy: Any, host: Any, on_cpu: Any, on_gpu: Any, X: np.ndarray, table_there: Any
) -> None:
    """The trees, all that the model says of its training, and its predictions."""
    if hasattr(on_cpu, "forest_"):
        assert on_gpu.forest_.fingerprint() == on_cpu.forest_.fingerprint()
    for attribute in SAID:
        if hasattr(on_cpu, attribute):
            found, expected = getattr(on_gpu, attribute), getattr(on_cpu, attribute)
            if isinstance(expected, dict):
                assert found == expected
            else:
                np.testing.assert_array_equal(host(found), expected)
    for method in ("predict", "predict_proba", "decision_function", "apply"):
        if hasattr(on_cpu, method):
            found = getattr(on_gpu, method)(table_there[:500])
            assert isinstance(found, cupy.ndarray)
            np.testing.assert_array_equal(host(found), getattr(on_cpu, method)(X[:500]))


def test_rounds_that_the_data_choose(cupy, host, monkeypatch):
    """Rows are held out by weights of zero, whose metrics are computed on the device."""
    monkeypatch.setattr(auto, "PATIENCE", 2)
    X, y, _ = table(3, True)
    X, y = X[:600], y[:600]
    settings = {"learning_rate": 1.0, "max_leaf_nodes": 4}
    on_cpu = gpuens.GradientBoostingClassifier(**settings, device="cpu").fit(X, y)
    there = cupy.asarray(X)
    on_gpu = gpuens.GradientBoostingClassifier(**settings).fit(there, cupy.asarray(y))
    assert on_cpu.forest_.width == 3
    assert_same(cupy, host, on_cpu, on_gpu, X, there)


@pytest.mark.parametrize("weighted", [False, True])
def test_rare_categories_as_on_the_cpu(cupy, weighted):
    """Their smoothing is learned from gradients that are on the device."""
    rng = np.random.default_rng(3)
    category = rng.permutation(np.r_[np.repeat(np.arange(100), 8), 100 + np.arange(1200) % 12])
    X = np.column_stack([category, rng.normal(size=(2000, 2))]).astype(np.float32)
    y = rng.normal(size=112)[category] + 0.1 * rng.normal(size=2000)
    weight = rng.integers(0, 3, 2000).astype(float) if weighted else None
    settings = {"n_estimators": 2, "categorical_features": [0]}
    models = []
    for device, array in (("cpu", np.asarray), ("cuda", cupy.asarray)):
        model = gpuens.GradientBoostingRegressor(**settings, device=device)
        models.append(model.fit(array(X), array(y), None if weight is None else array(weight)))
    here, there = models
    assert 0.0 < here._category_smoothing[0] < 5.0
    np.testing.assert_array_equal(there._category_smoothing, here._category_smoothing)
    assert there.forest_.fingerprint() == here.forest_.fingerprint()


def test_ranked_categories_as_on_the_cpu(cupy):
    """Their means are of gradients that are on the device."""
    rng = np.random.default_rng(3)
    category = rng.permutation(np.arange(900) % 100)
    X = np.column_stack([category, rng.normal(size=(900, 2))]).astype(np.float32)
    X[::50, 0] = np.nan
    y = rng.normal(size=100)[category] + 0.1 * rng.normal(size=900)
    settings = {"n_estimators": 2, "categorical_features": [0], "max_bins": 20}
    models = []
    for device, array in (("cpu", np.asarray), ("cuda", cupy.asarray)):
        model = gpuens.GradientBoostingRegressor(**settings, device=device)
        models.append(model.fit(array(X), array(y)))
    here, there = models
    assert here._binner.is_ranked[0]
    np.testing.assert_array_equal(there._binner.bins[0], here._binner.bins[0])
    assert there.forest_.fingerprint() == here.forest_.fingerprint()
    np.testing.assert_array_equal(cupy.asnumpy(there.predict(cupy.asarray(X))), here.predict(X))


@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
@pytest.mark.parametrize(("order", "weighted"), [("C", True), ("F", False)])
def test_tables_that_come_from_the_host_in_pieces(cupy, n_trees, monkeypatch, order, weighted):
    """Their cut points are found on the GPU, also those between infinities and zeros."""
    monkeypatch.setattr(transfer, "PIECE_BYTES", 2**12)
    X, y, weight = table(3, True)
    X[::7, 0], X[::5, 1], X[1::5, 1], X[::9, 0] = np.inf, -0.0, 0.0, -np.inf
    X[11, 0], X[12, 2] = 1e30, 1e5  # apart from all others
    cases = (
        ("GradientBoostingClassifier", 3, CATEGORIES | {"max_bins": 30}),
        ("RandomForestClassifier", 3, {"max_bins": 30, "max_depth": 6, "oob_score": True}),
    )
    given = np.asarray(X, order=order), y, weight if weighted else None
    for case in cases:
        there, here = (fitted(device, n_trees, case, *given) for device in ("cuda", "cpu"))
        assert there.forest_.fingerprint() == here.forest_.fingerprint()
        assert getattr(there, "oob_score_", 0) == getattr(here, "oob_score_", 0)


@pytest.mark.usefixtures("cupy")
def test_sparse_tables(n_trees, host, monkeypatch):
    """The codes of the columns that may split nodes, and blocks of rows in prediction."""
    monkeypatch.setattr(sparse_tables, "BLOCK_BYTES", 2**13)
    X, y, weight = table(3, True)
    X = np.hstack([X, np.random.default_rng(0).random((N_ROWS, 12)) < 0.01])
    X[:, 5] = X[:, 7] = 0.0
    sparse = scipy.sparse.csr_array(X)
    settings = {"early_stopping": True, "min_samples_leaf": 40}
    case = ("GradientBoostingClassifier", 3, settings)
    there, here = (fitted(device, n_trees, case, sparse, y, weight) for device in ("cuda", "cpu"))
    assert there.forest_.fingerprint() == here.forest_.fingerprint()
    assert there.evals_result_ == here.evals_result_
    for method in ("predict_proba", "apply"):
        expected = getattr(here, method)(X)
        np.testing.assert_array_equal(host(getattr(there, method)(sparse)), expected)
        np.testing.assert_array_equal(getattr(here, method)(sparse), expected)


@pytest.mark.parametrize("has_room", [True, False])
def test_adaboost_sends_a_table_of_the_host_once_if_there_is_room(
    cupy, n_trees, monkeypatch, has_room
):
    X, y, _ = table(0, False)
    case = ("AdaBoostRegressor", 0, {"estimator": TREE})
    here = fitted("cpu", n_trees, case, X, y, None)
    sent = []
    pieces = forest_module.in_pieces
    monkeypatch.setattr(forest_module, "in_pieces", lambda *a: sent.append(1) or pieces(*a))
    monkeypatch.setattr(placement, "ROOM_FOR_TABLE", 0.25 if has_room else 0.0)
    there = fitted("cuda", n_trees, case, X, y, None)
    assert there.forest_.fingerprint() == here.forest_.fingerprint()
    assert len(sent) == (0 if has_room else len(there))


def test_tables_binned_batch_by_batch(cupy, n_trees):
    """The codes come to the GPU as they are; a warm start predicts by them."""
    X, y, weight = table(2, True)
    model = gpuens.GradientBoostingClassifier(n_estimators=n_trees // 2, warm_start=True)
    binned = gpuens.BinnedTable.from_batches(
        lambda: ((X[i : i + 999], y[i : i + 999], weight[i : i + 999]) for i in range(0, 3000, 999))
    )
    for n in (n_trees // 2, n_trees):
        model.set_params(device="cuda", n_estimators=n).fit(binned)
    whole = gpuens.GradientBoostingClassifier(n_estimators=n_trees, device="cpu")
    assert model.forest_.fingerprint() == whole.fit(X, y, weight).forest_.fingerprint()


def test_a_loss_of_ones_own(request, cupy, n_trees):
    def value(y, score):
        return exp(score) - mul(y, score)

    def gradient(y, score):
        return exp(score) - y

    def hessian(y, score):
        return exp(score)

    loss = CustomLoss(value, gradient, hessian, inverse_link=exp)
    case = ("GradientBoostingRegressor", 0, {"loss": loss})
    X, y, weight = table(0, True)
    on_cpu = fitted("cpu", n_trees, case, X, y, weight)
    if request.config.getoption("--ptx-archive"):
        with pytest.raises(RuntimeError, match="or a custom loss, and the package numba-cuda"):
            fitted("cuda", n_trees, case, *map(cupy.asarray, (X, y, weight)))
        return
    on_gpu = fitted("cuda", n_trees, case, *map(cupy.asarray, (X, y, weight)))
    assert on_gpu.forest_.fingerprint() == on_cpu.forest_.fingerprint()


@pytest.mark.parametrize("loss", ["lambdarank", "xendcg"])
def test_rankings(cupy, host, n_trees, loss):
    """Both kinds of gradients, and biases of positions; metrics of rows of the GPU."""
    X, y, weight = (part[:800] for part in table(4, True))
    more: dict[str, Any] = {"group": [1, 2, 197, *[40] * 15]}
    if loss == "lambdarank":
        more["position"] = np.arange(800) % 9
    model = gpuens.GradientBoostingRanker(loss, n_estimators=n_trees, scoring=["ndcg@5", "map"])
    model.set_params(device="cpu")
    model.fit(X, y, weight, **more, eval_set=(X, y), eval_group=more["group"])
    other = clone(model).set_params(device="cuda")
    X_there, y_there = cupy.asarray(X), cupy.asarray(y)
    sets = {"eval_set": (X_there, y_there), "eval_group": more["group"]}
    other.fit(X_there, y_there, cupy.asarray(weight), **more, **sets)
    assert_same(cupy, host, model, other, X, X_there)
    if loss == "lambdarank":
        assert other.position_bias_.tolist() == model.position_bias_.tolist()


@pytest.mark.parametrize("loss", ["cox", "aft"])
def test_survival(cupy, host, n_trees, loss):
    """Risk sets with ties and times within bounds; curves and both metrics."""
    X, y, weight = (part[:800] for part in table(0, True))
    target = np.arange(800) % 3 > 0, np.exp(y / np.abs(y).max()).round(1)
    model = gpuens.GradientBoostingRegressor(loss, n_estimators=n_trees, device="cpu")
    model.set_params(scoring=["loss", "concordance"]).fit(X, target, weight, eval_set=(X, target))
    other, X_there = clone(model).set_params(device="cuda"), cupy.asarray(X)
    other.fit(X_there, target, cupy.asarray(weight), eval_set=(X_there, target))
    assert_same(cupy, host, model, other, X, X_there)
    curves = other.predict_survival_function(X_there[:50])
    assert host(curves).tolist() == model.predict_survival_function(X[:50]).tolist()


@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB")
def test_survival_forests(cupy, host):
    X, y, weight = (part[:400] for part in table(0, True))
    target = np.arange(400) % 3 > 0, np.exp(y / np.abs(y).max()).round(1)
    model = gpuens.RandomSurvivalForest(n_estimators=3, max_depth=3, oob_score=True, device="cpu")
    model.fit(X, target, weight)
    other, X_there = clone(model).set_params(device="cuda"), cupy.asarray(X)
    other.fit(X_there, target, cupy.asarray(weight))
    assert_same(cupy, host, model, other, X, X_there)
    assert other.oob_score_ == model.oob_score_
    curves = other.predict_survival_function(X_there[:50])
    assert host(curves).tolist() == model.predict_survival_function(X[:50]).tolist()


def test_training_goes_on_on_the_other_device(cupy, n_trees):
    X, y, _ = table(2, True)
    whole = gpuens.GradientBoostingClassifier(n_estimators=n_trees, device="cpu").fit(X, y)
    there = cupy.asarray(X), cupy.asarray(y)
    for first, second in (("cpu", "cuda"), ("cuda", "cpu")):
        model = gpuens.GradientBoostingClassifier(warm_start=True, n_estimators=n_trees // 2)
        for device, n in ((first, n_trees // 2), (second, n_trees)):
            data = there if device == "cuda" else (X, y)
            model.set_params(device=device, n_estimators=n).fit(*data)
        assert model.forest_.fingerprint() == whole.forest_.fingerprint()
