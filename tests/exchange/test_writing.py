"""Models written for other libraries, read back by these: the same raw scores, bit for bit."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

import gpuens

rng = np.random.default_rng(7)


def table(n_rows: int, n_features: int = 6) -> np.ndarray:
    """Numbers with missing values, the last feature one of 40 categories."""
    X = rng.normal(size=(n_rows, n_features))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, -1] = rng.integers(0, 40, n_rows)
    X[rng.random(n_rows) < 0.05, -1] = np.nan
    return X


@dataclass
class Case:
    """A fitted model, and what it is: its raw scores by a function of X."""

    model: Any
    X: np.ndarray
    targets: set[str]

    def scores(self, X: np.ndarray) -> np.ndarray:
        """Raw scores (n_rows, n_outputs), as this package adds and divides."""
        model = self.model
        if isinstance(model, gpuens.BaggingClassifier):
            return model.predict_proba(X)
        if isinstance(model, gpuens.BaggingRegressor):
            return model.predict(X).reshape(len(X), -1)
        forest = model.forest_
        raw = forest.raw_predict(X)
        divided = hasattr(model, "estimators_") and not isinstance(model, gpuens.AdaBoostClassifier)
        return (raw / forest.n_trees if divided else raw).T

    def rows(self) -> np.ndarray:
        """Training rows, infinite and missing values, values at and beside thresholds."""
        X = self.X
        forest = getattr(self.model, "forest_", None)
        more = [X[:200].copy() for _ in range(3)]
        more[0][rng.random(more[0].shape) < 0.3] = np.inf
        more[0][rng.random(more[0].shape) < 0.3] = -np.inf
        more[1][rng.random(more[1].shape) < 0.3] = np.nan
        if forest is not None:
            n = forest.n_categories
            for f in range(X.shape[1]):
                found = forest.threshold[(forest.feature == f) & (forest.category_begin < 0)]
                if found.size and n[f] == 0:
                    chosen = rng.choice(found, 200)
                    more[2][:, f] = rng.choice(
                        [chosen, np.nextafter(chosen, np.inf), np.nextafter(chosen, -np.inf)],
                        axis=0,
                    )
            for part in more:
                for f in np.flatnonzero(n):
                    part[:, f] = rng.integers(0, n[f] + 3, len(part))
        return np.concatenate([X, *more])


ALL = {"treelite", "lightgbm", "xgboost", "onnx", "c"}
SLOPED = ALL - {"xgboost"}
FREE = {"onnx", "c"}


def boosted(kind: str, y: Any, **parameters: Any) -> Any:
    model = getattr(gpuens, f"GradientBoosting{kind}")
    return model(n_estimators=12, max_leaf_nodes=15, min_samples_leaf=5, **parameters).fit(X, y)


X = table(600)
NUMBERS = np.nan_to_num(X[:, 0] + X[:, 1] ** 2) + np.where(X[:, -1] % 3 == 1, 2.0, 0.0)
CLASSES = np.digitize(NUMBERS, [0.5, 2.0])
LAST = [5]
NO_CATEGORY = X[:, :-1]
CASES = {
    "squared error": lambda: Case(boosted("Regressor", NUMBERS, categorical_features=LAST), X, ALL),
    "poisson": lambda: Case(boosted("Regressor", CLASSES, loss="poisson"), X, ALL),
    "expectile": lambda: Case(
        boosted("Regressor", NUMBERS, loss="expectile", quantile=0.9), X, ALL
    ),
    "several quantiles": lambda: Case(
        boosted("Regressor", NUMBERS, loss="quantile", quantile=[0.4, 0.45, 0.5, 0.55]), X, FREE
    ),
    "two classes": lambda: Case(
        boosted("Classifier", CLASSES > 0, categorical_features=LAST), X, ALL
    ),
    "exponential": lambda: Case(
        boosted("Classifier", np.where(CLASSES > 0, "b", "a"), loss="exponential"), X, SLOPED
    ),
    "three classes": lambda: Case(
        boosted("Classifier", CLASSES * 10, categorical_features=LAST), X, ALL
    ),
    "regression forest": lambda: Case(
        gpuens.RandomForestRegressor(7, random_state=0).fit(NO_CATEGORY, NUMBERS), NO_CATEGORY, ALL
    ),
    "two targets": lambda: Case(
        gpuens.ExtraTreesRegressor(5, random_state=0).fit(
            NO_CATEGORY, np.stack([NUMBERS, -(NUMBERS**2)], axis=1)
        ),
        NO_CATEGORY,
        ALL,
    ),
    "classification forest": lambda: Case(
        gpuens.RandomForestClassifier(7, random_state=0, categorical_features=LAST).fit(X, CLASSES),
        X,
        ALL,
    ),
    "tree": lambda: Case(
        gpuens.DecisionTreeClassifier(max_depth=4).fit(NO_CATEGORY, CLASSES > 0), NO_CATEGORY, ALL
    ),
    "tree without a split": lambda: Case(
        gpuens.DecisionTreeRegressor(max_depth=1).fit(NO_CATEGORY, np.full(600, 3.25)),
        NO_CATEGORY,
        ALL,
    ),
    "bagging": lambda: Case(
        gpuens.BaggingClassifier(n_estimators=4, random_state=0).fit(NO_CATEGORY, CLASSES),
        NO_CATEGORY,
        ALL,
    ),
    "adaboost": lambda: Case(
        gpuens.AdaBoostClassifier(n_estimators=6).fit(NO_CATEGORY, CLASSES > 0), NO_CATEGORY, SLOPED
    ),
    "adaboost of classes": lambda: Case(
        gpuens.AdaBoostClassifier(n_estimators=6).fit(NO_CATEGORY, CLASSES), NO_CATEGORY, FREE
    ),
    "isolation forest": lambda: Case(
        gpuens.IsolationForest(n_estimators=9, random_state=0).fit(np.nan_to_num(NO_CATEGORY)),
        np.nan_to_num(NO_CATEGORY),
        {"treelite", "onnx", "c"},
    ),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: Any) -> Case:
    return CASES[request.param]()


def require(case: Case, target: str) -> None:
    if target not in case.targets:
        pytest.skip(f"{target} cannot hold this model, which another test checks")


def test_the_cases_say_what_no_target_can_hold(case, tmp_path):
    for target in ALL - case.targets:
        path = [] if target == "treelite" else [tmp_path / "model.json"]
        with pytest.raises(ValueError, match="to_c or to_onnx|cannot be exported"):
            getattr(case.model, f"to_{target}")(*path)


def test_treelite(case):
    require(case, "treelite")
    gtil = pytest.importorskip("treelite.gtil")
    rows = case.rows()
    model = case.model.to_treelite()
    found = gtil.predict(model, rows, pred_margin=True, nthread=1)
    np.testing.assert_array_equal(found.reshape(len(rows), -1), case.scores(rows))
    finished = gtil.predict(model, rows, nthread=1).reshape(len(rows), -1)
    expected = predictions(case, rows)
    if expected.shape[1] == 2 and finished.shape[1] == 1:
        expected = expected[:, 1:]
    if isinstance(case.model, gpuens.IsolationForest):
        expected = -expected
    np.testing.assert_allclose(finished, expected, rtol=1e-6)


def single(rows: np.ndarray) -> np.ndarray:
    """Rows of float32; the largest numbers become infinite."""
    with np.errstate(over="ignore"):
        return rows.astype(np.float32)


def predictions(case: Case, rows: np.ndarray) -> np.ndarray:
    model = case.model
    if isinstance(model, gpuens.IsolationForest):
        return model.score_samples(rows)[:, None]
    found = model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)
    return found.reshape(len(rows), -1)


def test_lightgbm(case, tmp_path):
    require(case, "lightgbm")
    lightgbm = pytest.importorskip("lightgbm")
    case.model.to_lightgbm(tmp_path / "model.txt")
    booster = lightgbm.Booster(model_file=str(tmp_path / "model.txt"))
    rows = case.rows()
    divided = booster.predict(rows).reshape(len(rows), -1)
    raw = booster.predict(rows, raw_score=True).reshape(len(rows), -1)
    expected = case.scores(rows)
    linked = hasattr(case.model, "loss") or isinstance(case.model, gpuens.AdaBoostClassifier)
    np.testing.assert_array_equal(raw if linked else divided, expected)
    finished = predictions(case, rows)
    if finished.shape[1] == 2 and divided.shape[1] == 1:
        finished = finished[:, 1:]
    np.testing.assert_allclose(divided, finished, rtol=1e-12, atol=1e-300)


def test_onnx(case, tmp_path):
    require(case, "onnx")
    session, _ = onnx_session(case, tmp_path)
    rows = case.rows()
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": rows}), strict=True))
    np.testing.assert_array_equal(found["raw_scores"], case.scores(rows))
    if "labels" in found:
        np.testing.assert_array_equal(found["labels"], case.model.predict(rows))
        np.testing.assert_allclose(found["probabilities"], predictions(case, rows), atol=1e-14)
    else:
        last = found.get("predictions", found.get("scores"))
        np.testing.assert_allclose(last, predictions(case, rows), rtol=1e-12)


def onnx_session(case: Case, folder: Any, **options: Any) -> Any:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    path = folder / "model.onnx"
    case.model.to_onnx(path, **options)
    one_thread = runtime.SessionOptions()
    one_thread.intra_op_num_threads = one_thread.inter_op_num_threads = 1
    return runtime.InferenceSession(str(path), one_thread), path


@pytest.mark.parametrize("options", [{"dtype": "float32"}, {"target_opset": {"ai.onnx.ml": 3}}])
def test_onnx_of_float32(case, options, tmp_path):
    if case.model.__dict__.get("_categories") is not None and "target_opset" in options:
        with pytest.raises(ValueError, match="target_opset=.*no sets of categories"):
            case.model.to_onnx(tmp_path / "model.onnx", allow_rounding=True, **options)
        return
    with pytest.raises(ValueError, match="float32.*allow_rounding=True"):
        case.model.to_onnx(tmp_path / "model.onnx", **options)
    session, _ = onnx_session(case, tmp_path, allow_rounding=True, **options)
    rows = single(case.rows())
    given = rows if "dtype" in options else rows.astype(np.float64)
    found = session.run(["raw_scores"], {"X": given})[0]
    np.testing.assert_allclose(found, case.scores(rows), rtol=1e-5, atol=1e-5)


def test_xgboost(case, tmp_path):
    require(case, "xgboost")
    xgboost = pytest.importorskip("xgboost")
    path = tmp_path / "model.json"
    with pytest.raises(ValueError, match="float32.*allow_rounding=True"):
        case.model.to_xgboost(path)
    assert not path.exists()
    case.model.to_xgboost(path, allow_rounding=True)
    booster = xgboost.Booster(model_file=str(path))
    rows = single(case.rows())
    rows = rows[~np.isinf(rows).any(axis=1)]  # XGBoost refuses them
    names = booster.feature_names
    data = xgboost.DMatrix(rows, feature_names=names, feature_types=booster.feature_types,
                           enable_categorical=True)  # fmt: skip
    found = booster.predict(data, output_margin=True).reshape(len(rows), -1)
    np.testing.assert_allclose(found, case.scores(rows), rtol=2e-6, atol=2e-6)
    finished = booster.predict(data).reshape(len(rows), -1)
    expected = predictions(case, rows)
    if expected.shape[1] == 2 and finished.shape[1] == 1:
        expected = expected[:, 1:]
    np.testing.assert_allclose(finished, expected, rtol=1e-5, atol=1e-6)


def test_c(case, tmp_path):
    require(case, "c")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler was found")
    case.model.to_c(tmp_path / "my model.c")
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1", "-ffp-contract=off"]
    command = [compiler, *strict, "-shared", "-fPIC", "my model.c", "-o", "model.so", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "model.so"))
    rows = np.ascontiguousarray(case.rows())
    expected, finished = case.scores(rows), predictions(case, rows)
    np.testing.assert_array_equal(called(library.my_model_raw, rows, expected), expected)
    found = called(library.my_model_predict, rows, finished)
    np.testing.assert_allclose(found, finished, rtol=1e-12, atol=1e-14)


def called(function: Any, rows: np.ndarray, like: np.ndarray) -> np.ndarray:
    results = np.empty_like(like, order="C")
    for row, result in zip(rows, results, strict=True):
        function(row.ctypes.data_as(ctypes.c_void_p), result.ctypes.data_as(ctypes.c_void_p))
    return results


def test_real_tables_round_trip_through_lightgbm(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    for load, model in [
        (load_breast_cancer, gpuens.GradientBoostingClassifier(n_estimators=40)),
        (load_iris, gpuens.GradientBoostingClassifier(n_estimators=20)),
        (load_diabetes, gpuens.GradientBoostingRegressor(n_estimators=40)),
    ]:
        data, y = load(return_X_y=True)
        model.fit(data, y).to_lightgbm(tmp_path / "model.txt")
        booster = lightgbm.Booster(model_file=str(tmp_path / "model.txt"))
        raw = booster.predict(data, raw_score=True).reshape(len(data), -1)
        np.testing.assert_array_equal(raw, model.forest_.raw_predict(data).T)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (gpuens.AdaBoostRegressor(n_estimators=3), "weighted median"),
        (gpuens.QuantileForestRegressor(3), "quantiles of the targets"),
        (gpuens.BaggingRegressor(n_estimators=3, max_features=0.5), "see all features"),
        (gpuens.GradientBoostingRegressor(
            loss=lambda y, f: (f - y, np.ones_like(y)), n_estimators=2), "loss="),
        (gpuens.GradientBoostingRegressor("quantile", quantile=[0.9, 0.1], n_estimators=2),
         "loss=Quantile"),
    ],
)  # fmt: skip
def test_models_that_are_not_sums_of_trees(model, message, tmp_path):
    data, y = load_diabetes(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        model.fit(data, y).to_c(tmp_path / "model.c")
    assert list(tmp_path.iterdir()) == []


def test_several_quantiles_cross_in_raw_scores_alone():
    case = CASES["several quantiles"]()
    rows = case.rows()
    assert (np.diff(case.scores(rows)) < 0).any()
    assert (np.diff(case.model.predict(rows)) >= 0).all()


def test_bad_arguments(tmp_path):
    data, y = load_iris(return_X_y=True)
    model = gpuens.GradientBoostingClassifier(n_estimators=1).fit(data, y)
    with pytest.raises(ValueError, match=r"path must end in \.c, got .*model\.cpp"):
        model.to_c(tmp_path / "model.cpp")
    with pytest.raises(ValueError, match='dtype must be "float64" or "float32", got "?\'half'):
        model.to_onnx(tmp_path / "m.onnx", dtype="half")
    with pytest.raises(ValueError, match="domains.*com.microsoft"):
        model.to_onnx(tmp_path / "m.onnx", target_opset={"com.microsoft": 1})
    with pytest.raises(ValueError, match="target_opset must be at least 13"):
        model.to_onnx(tmp_path / "m.onnx", target_opset=9)
    with pytest.raises(OSError):
        model.to_lightgbm(tmp_path / "no folder" / "m.txt")
    unfitted = gpuens.GradientBoostingClassifier()
    with pytest.raises(ValueError, match="not fitted"):
        unfitted.to_xgboost(tmp_path / "m.json", allow_rounding=True)


def test_categories_that_are_not_numbers_are_announced(tmp_path):
    frame = pytest.importorskip("pandas").DataFrame({"x": [1.0, 2.0, 3.0] * 40,
                                                     "town": ["A", "B", "C"] * 40})  # fmt: skip
    model = gpuens.GradientBoostingRegressor(n_estimators=2, categorical_features=["town"])
    model.fit(frame.astype({"town": "category"}), np.arange(120.0) % 3)
    with pytest.warns(UserWarning, match="ascending order of the training values"):
        model.to_c(tmp_path / "model.c")


NAMES = [
    ["größe", "日本😀"], ["a b", "a_b"], ['q"', "b\\"], ["a[", "a]"], ["a\tb", "c\r\nd"], ["", "z"],
    ["\xa0", "\u3000"], ["a=b", "{c: [1], d}"], ["Column_0", "f1"], [" a", "a "], ["a\0b", "c"],
    ["\ud800", "b"],
]  # fmt: skip


@pytest.mark.parametrize("names", NAMES, ids=ascii)
def test_features_of_any_name(names, tmp_path):
    """What is written is read by its library, with the same predictions."""
    rows = np.random.default_rng(0).normal(size=(80, 2)).astype(np.float32)
    frame = _named(rows, names)
    model = gpuens.GradientBoostingRegressor(n_estimators=3, device="cpu")
    expected = model.fit(frame, rows[:, 0] + rows[:, 1] ** 2).predict(frame)
    path = str(tmp_path / "model")
    for write in ("to_lightgbm", "to_xgboost", "to_onnx", "to_treelite"):
        library = {"to_onnx": "onnxruntime"}.get(write, write.removeprefix("to_"))
        peer = pytest.importorskip(library)
        if write == "to_treelite":
            found = peer.gtil.predict(model.to_treelite(), rows)
        elif write == "to_onnx":
            model.to_onnx(path)
            found = peer.InferenceSession(path).run(["raw_scores"], {"X": rows.astype(float)})[0]
        elif write == "to_lightgbm":
            model.to_lightgbm(path)
            booster = peer.Booster(model_file=path)
            found = peer.Booster(model_str=booster.model_to_string()).predict(rows)
            again = gpuens.from_lightgbm(path)
            np.testing.assert_array_equal(
                again.predict(_named(rows, booster.feature_name())), found
            )
        else:
            model.to_xgboost(path + ".json", allow_rounding=True)
            booster = peer.Booster(model_file=path + ".json")
            own_names = booster.feature_names
            found = booster.predict(peer.DMatrix(rows, feature_names=own_names, nthread=1))
            again = gpuens.from_xgboost(path + ".json")
            np.testing.assert_array_equal(again.predict(_of(again, rows)), found)
            np.testing.assert_allclose(found, expected, rtol=1e-5)
            continue
        np.testing.assert_array_equal(found.ravel(), expected)


def _named(rows: np.ndarray, names: list[str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    frame.columns = pd.Index(names, dtype=object)
    return frame


def _of(model: Any, rows: np.ndarray) -> pd.DataFrame:
    return _named(rows, list(model.feature_names_in_))


def test_labels_that_onnx_cannot_hold(tmp_path):
    pytest.importorskip("onnx")
    rows, labels = np.eye(4), np.array(["a", "\ud800"] * 2, object)
    model = gpuens.GradientBoostingClassifier(n_estimators=1, min_samples_leaf=1, device="cpu")
    with pytest.raises(ValueError, match="half a surrogate pair"):
        model.fit(rows, labels).to_onnx(tmp_path / "model.onnx")
