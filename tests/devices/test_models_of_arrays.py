"""Every estimator on arrays of a GPU: the model and the answers of NumPy arrays, on the device.

The arrays are the stand-in's, on the second of two GPUs and a stream of their own, which all work
must stay on, but for members that are trained side by side, each on a stream; the operations of the
kernels run on the CPU.
"""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB

import gpuens
from tests.support import strict_cupy
from tests.support.fingerprints import Digest, rows_of

N = 90
FEW = {"n_estimators": 3}
TREES = (gpuens.DecisionTreeRegressor(max_depth=3), gpuens.DecisionTreeClassifier(max_depth=3))
NUMBERS = [("tree", TREES[0]), ("ridge", Ridge())]
CLASSES = [("tree", TREES[1]), ("bayes", GaussianNB())]
SIDE_BY_SIDE = "Bagging", "Stacking"
SEVERAL_LABELS = {"max_bins": 16, "max_depth": 5}
MODELS = {
    "boosting": ("GradientBoostingRegressor", "numbers", FEW | {"max_depth": 3}),
    "boosting, robust": ("GradientBoostingRegressor", "numbers", FEW | {"loss": "huber"}),
    "boosting, linear leaves": (
        "GradientBoostingClassifier", "three", FEW | {"linear_leaves": True, "subsample": 0.7}),
    "boosting of outputs": ("GradientBoostingRegressor", "outputs", FEW),
    "boosting of categories": (
        "GradientBoostingRegressor", "numbers", FEW | {"categorical_features": [4]}),
    "boosting of classes": (
        "GradientBoostingClassifier", "three", FEW | {"subsample": 0.7, "colsample_bytree": 0.7}),
    "boosting, stopped": (
        "GradientBoostingClassifier", "three", {"n_estimators": 30, "early_stopping": True}),
    "tree": ("DecisionTreeRegressor", "outputs", {"max_depth": 4}),
    "tree of classes": ("DecisionTreeClassifier", "three", {"ccp_alpha": 0.01}),
    "tree of labels": ("DecisionTreeClassifier", "labels", SEVERAL_LABELS),
    "random tree": ("ExtraTreeRegressor", "numbers", {"max_bins": 16}),
    "random tree of classes": ("ExtraTreeClassifier", "three", {}),
    "forest": ("RandomForestRegressor", "numbers", {"n_estimators": 20, "oob_score": True}),
    "forest of classes": ("RandomForestClassifier", "three", FEW),
    "extra trees": ("ExtraTreesRegressor", "outputs", FEW),
    "extra trees of classes": ("ExtraTreesClassifier", "three", FEW | {"bootstrap": True}),
    "quantiles": ("QuantileForestRegressor", "numbers", FEW),
    "isolation": ("IsolationForest", "numbers", FEW | {"bootstrap": True}),
    "bagging": ("BaggingRegressor", "numbers", FEW),
    "bagging of others": ("BaggingRegressor", "numbers", FEW | {"estimator": Ridge()}),
    "bagging of classes": ("BaggingClassifier", "three", FEW),
    "AdaBoost": ("AdaBoostRegressor", "numbers", FEW),
    "AdaBoost of classes": ("AdaBoostClassifier", "three", FEW),
    "three learners": ("ThreeLearnerBoostingClassifier", "two", {}),
    "stages": ("StagewiseRegressor", "numbers", FEW),
    "stages of classes": ("StagewiseClassifier", "three", FEW),
    "average": ("VotingRegressor", "numbers", {"estimators": NUMBERS, "weights": "optimal"}),
    "votes": ("VotingClassifier", "three", {"estimators": CLASSES, "voting": "soft"}),
    "hard votes": ("VotingClassifier", "three", {"estimators": CLASSES, "weights": "greedy"}),
    "stack": ("StackingRegressor", "numbers", {"estimators": NUMBERS, "cv": 3}),
    "stack of classes": ("StackingClassifier", "three", {"estimators": CLASSES, "cv": 3}),
}  # fmt: skip
OF_ROWS = """predict predict_proba predict_log_proba decision_function apply transform score_samples
predict_interval staged_predict staged_predict_proba staged_decision_function""".split()
ON_HOST = {"decision_path", "apply", "proximity"}
"""Methods that may answer on the host."""


@pytest.fixture
def cupy(monkeypatch):
    cupy = strict_cupy.install(monkeypatch)
    with cupy.cuda.Device(1), cupy.cuda.Stream(non_blocking=True):
        yield cupy
    assert cupy.cuda.runtime.getDevice() == 0


@pytest.fixture(params=MODELS)
def case(request):
    """A class, its settings, and a table, a target and weights in host memory."""
    name, target, settings = MODELS[request.param]
    X, y, weight = (part[:N] for part in rows_of(target))
    if target == "two":
        y = np.where(y == "yes", 7, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpuens.HostGrowthWarning)
        yield getattr(gpuens, name), settings, (X, y, weight + 0.25)


def weights_of(cls, there):
    """The keyword for the weights, of estimators that take them."""
    takes = "sample_weight" in inspect.signature(cls.fit).parameters
    return {"sample_weight": there} if takes else {}


def listed(answer):
    """The arrays of an answer, which may be a list, a tuple or an iterator of them."""
    return list(answer) if not hasattr(answer, "dtype") else [answer]


def print_of(model, table):
    digest = Digest()
    digest._add_trees(model)
    digest.add([strict_cupy.unwrapped(part) for part in listed(model.predict(table))])
    return str(digest)


def assert_there(cupy, answers, label):
    for answer in answers:
        assert type(answer) is strict_cupy.ndarray, label
        assert answer.device.id == 1, label


def test_models_and_answers(cupy, case, tmp_path):
    cls, settings, host = case
    there = tuple(map(cupy.asarray, host))
    expected = cls(**settings, device="cpu").fit(*host[:2], **weights_of(cls, host[2]))
    strict_cupy.log().clear()
    model = cls(**settings).fit(*there[:2], **weights_of(cls, there[2]))
    for name in OF_ROWS:
        if not hasattr(model, name):
            continue
        here, found = (listed(getattr(m, name)(X)) for m, X in
                       ((expected, host[0]), (model, there[0])))  # fmt: skip
        if name not in ON_HOST:
            assert_there(cupy, found, name)
        for one, other in zip(here, found, strict=True):
            exact = name != "predict_log_proba"  # the logarithm is the library's
            np.testing.assert_allclose(
                strict_cupy.unwrapped(other), one, rtol=0 if exact else 1e-14, err_msg=name
            )
    if hasattr(model, "score") and settings != SEVERAL_LABELS:  # of which there is no accuracy
        assert model.score(*there[:2]) == expected.score(*host[:2])
    if hasattr(model, "staged_score"):
        assert list(model.staged_score(*there[:2])) == list(expected.staged_score(*host[:2]))
    gpus, streams = map(set, zip(*strict_cupy.log().places, strict=True))
    assert gpus == {1}
    stream = cupy.cuda.get_current_stream().ptr
    assert stream in streams if cls.__name__.startswith(SIDE_BY_SIDE) else streams == {stream}
    save(model, tmp_path / "model")
    for known in (model, gpuens.load(tmp_path / "model")):
        assert print_of(known, there[0]) == print_of(expected, host[0])


def save(model, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # members of others are pickled
        model.save(path)


@pytest.mark.parametrize("name", ["boosting", "boosting of classes", "forest", "extra trees",
                                  "bagging of others", "isolation", "stages"])  # fmt: skip
def test_warm_starts(cupy, name):
    cls, target, settings = MODELS[name]
    host = tuple(part[:N] for part in rows_of(target))
    there = tuple(map(cupy.asarray, host))
    models = []
    for table, further in ((host, {"device": "cpu"}), (there, {})):
        model = getattr(gpuens, cls)(**settings, **further).set_params(warm_start=True)
        model.fit(*table[:2])
        more = model.n_estimators + 2
        models.append(model.set_params(n_estimators=more).fit(*table[:2]))
    expected, model = models
    assert print_of(model, there[0]) == print_of(expected, host[0])


X, Y, WEIGHT = (part[:N] for part in rows_of("three"))
BAD = {
    "target on another GPU": (
        lambda there, other: (there(X), other(Y)), ValueError,
        r"one GPU, got X on cuda:1, y on cuda:0"),
    "weights on another GPU": (
        lambda there, other: (there(X), there(Y), other(WEIGHT)), ValueError,
        r"one GPU, got X on cuda:1, y on cuda:1, sample_weight on cuda:0"),
    "NaN in the target": (
        lambda there, other: (there(X), there(np.where(Y == 10, np.nan, Y))), ValueError,
        "Input y contains NaN"),
    "infinite weight": (
        lambda there, other: (there(X), there(Y), there(WEIGHT + np.inf)), ValueError,
        "Input sample_weight contains infinity"),
    "negative weight": (
        lambda there, other: (there(X), there(Y), there(-WEIGHT)), ValueError,
        "Negative values in data passed to `sample_weight`"),
    "no rows": (
        lambda there, other: (there(X[:0]), there(Y[:0])), ValueError, r"0 sample\(s\)"),
    "no features": (
        lambda there, other: (there(X[:, :0]), there(Y)), ValueError, r"0 feature\(s\)"),
    "one axis": (lambda there, other: (there(X[:, 0]), there(Y)), ValueError, "Expected 2D array"),
    "complex": (
        lambda there, other: (there(X + 1j), there(Y)), ValueError, "Complex data not supported"),
    "fewer targets": (
        lambda there, other: (there(X), there(Y[1:])), ValueError,
        "inconsistent numbers of samples"),
    "fewer weights": (
        lambda there, other: (there(X), there(Y), there(WEIGHT[1:])), ValueError,
        "one weight for each of the 90 rows"),
    "a table as target": (
        lambda there, other: (there(X), there(np.stack([X, X]))), ValueError, "y"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
@pytest.mark.parametrize("name", ["GradientBoostingClassifier", "RandomForestClassifier"])
def test_bad_input(cupy, name, case):
    arrays, error, message = case
    given = arrays(cupy.asarray, lambda values: strict_cupy.on_gpu(cupy, values, 0))
    with pytest.raises(error, match=message):
        getattr(gpuens, name)(n_estimators=2).fit(*given)


PLACES = {
    "target on the host": (True, False, False),
    "table on the host": (False, True, True),
    "weights on the host": (True, True, False),
    "only weights on a GPU": (False, False, True),
}


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("name", ["GradientBoostingClassifier", "RandomForestClassifier",
                                  "BaggingClassifier", "AdaBoostClassifier"])  # fmt: skip
def test_arguments_on_host_and_gpu(cupy, name, places):
    """They are copied to the GPU of the others; the model is the same."""
    settings = {"n_estimators": 2, "random_state": 0}
    expected = getattr(gpuens, name)(**settings, device="cpu").fit(X, Y, WEIGHT)
    given = [
        cupy.asarray(a) if there else a for a, there in zip((X, Y, WEIGHT), places, strict=True)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpuens.HostGrowthWarning)
        model = getattr(gpuens, name)(**settings).fit(*given)
    assert type(model.predict(X)) is np.ndarray
    assert print_of(model, X) == print_of(expected, X)
    assert model.score(cupy.asarray(X), Y) == model.score(X, cupy.asarray(Y)) == (
        expected.score(X, Y))  # fmt: skip


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float16, np.float32])
def test_types_of_tables(cupy, dtype):
    table = (X * 3).astype(dtype)
    expected = gpuens.RandomForestClassifier(2, device="cpu").fit(table, Y)
    model = gpuens.RandomForestClassifier(2).fit(cupy.asarray(table), cupy.asarray(Y))
    assert print_of(model, cupy.asarray(table)) == print_of(expected, table)


@pytest.mark.parametrize("target", ["numbers", "three"])
def test_predictions_copy_nothing_from_the_host_again(cupy, target):
    """The trees and the labels stay on the device after the first prediction."""
    X, y, _ = (part[:N] for part in rows_of(target))
    kind = "Regressor" if target == "numbers" else "Classifier"
    model = getattr(gpuens, f"GradientBoosting{kind}")(**FEW, device="cpu").fit(X, y)
    model.set_params(device="auto")
    X, expected = cupy.asarray(X), model.predict(X)
    log = strict_cupy.log()
    for uploads in (True, False):
        log.clear()
        predicted = model.predict(X)
        assert (log.uploads != []) == uploads
    assert log.waits == [] and isinstance(predicted, cupy.ndarray)
    np.testing.assert_array_equal(predicted.get(), expected)


@pytest.mark.parametrize("bootstrap", [True, False])
def test_the_samples_of_a_forest_wait_once(cupy, bootstrap):
    """The host does not wait for the sample of each tree."""
    log, waits = strict_cupy.log(), []
    for n_trees in (1, 6):
        model = gpuens.RandomForestClassifier(n_trees, bootstrap=bootstrap)
        log.clear()
        model.fit(cupy.asarray(X), cupy.asarray(Y))
        waits.append(len(log.waits))
    assert waits[0] == waits[1] > 0
