"""Imported models take the frame that they were trained on, whatever its columns are called."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

import gpuens
from tests.support.small_models import as_bytes, lightgbm_model, xgboost_model

X = np.random.default_rng(0).normal(size=(80, 2))
Y = X[:, 0] + X[:, 1] ** 2
NAMES: dict[str, Any] = {
    "a blank": ["a b", "c"],
    "blanks at the ends": [" a", "b  "],
    "a no-break space": ["a\xa0b", "\xa0"],
    "an ideographic space": ["\u3000a", "b\u3000"],
    "a tab": ["a\tb", "\tc"],
    "other separators": ["a\x0bb\x1c", "c\u2028\x85"],
    "letters": ["größe", "日本😀"],
    "marks": ["a=b", "\\'<"],
    "quotes": ['"', '{"a": [1]}'],
    "empty": ["", "x"],
    "line ends": ["a\nb", "c\r\nd"],
    "numbers": [0, 7],
    "fractions": [1.5, 2.0],
    "numbers and text": ["x", 3],
    "pairs": pd.MultiIndex.from_tuples([("a", "b"), ("a", "c d")]),
}


def _lightgbm(frame: Any) -> Any:
    lightgbm = pytest.importorskip("lightgbm")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of blanks, which it replaces
        return lightgbm.LGBMRegressor(n_estimators=3, n_jobs=1, verbose=-1).fit(frame, Y)


def _xgboost(frame: Any) -> Any:
    xgboost = pytest.importorskip("xgboost")
    return xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(frame, Y)


def _catboost(frame: Any) -> Any:
    catboost = pytest.importorskip("catboost", reason="catboost (100 MB) is not installed")
    few = {"iterations": 3, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
    return catboost.CatBoostRegressor(**few).fit(frame, Y)


SOURCES = {
    "catboost": (_catboost, gpuens.from_catboost),
    "lightgbm": (_lightgbm, gpuens.from_lightgbm),
    "xgboost": (_xgboost, gpuens.from_xgboost),
    "forest": (lambda f: RandomForestRegressor(3).fit(f, Y), gpuens.from_sklearn),
    "histograms": (
        lambda f: HistGradientBoostingRegressor(max_iter=3).fit(f, Y), gpuens.from_sklearn,
    ),
}  # fmt: skip
REFUSED = {
    "lightgbm": ("quotes", "empty", "line ends", "pairs"),
    "xgboost": ("marks", "quotes"),
    "forest": ("numbers and text",),
    "histograms": ("numbers and text",),
}
"""Names that the source does not take itself."""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("source", SOURCES)
def test_columns_of_any_name(source, name, tmp_path):
    if name in REFUSED.get(source, ()):
        pytest.skip(f"{source} refuses such names")
    frame = pd.DataFrame(X)
    frame.columns = NAMES[name]
    train, read = SOURCES[source]
    model = train(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM renames columns, and then misses them
        expected = np.asarray(model.predict(frame)).astype(np.float32)
    found = read(model)
    np.testing.assert_array_equal(found.predict(frame).astype(np.float32), expected)
    assert frame.columns.tolist() == list(NAMES[name])
    found.save(tmp_path / "model")
    again = gpuens.load(tmp_path / "model").predict(frame)
    np.testing.assert_array_equal(again, found.predict(frame))
    if all(isinstance(n, str) and n for n in NAMES[name]):  # polars has no empty names
        rows = pl.DataFrame(X, schema=list(NAMES[name]), orient="row")
        np.testing.assert_array_equal(found.predict(rows), found.predict(frame))
    if hasattr(found, "feature_names_in_"):
        with pytest.raises(gpuens.ImportedModelError, match="column 0 of X is 'other'"):
            found.predict(pd.DataFrame(X, columns=["other", str(found.feature_names_in_[1])]))


def test_names_in_the_text_of_lightgbm():
    """One blank divides names; other white space belongs to them."""
    text = lightgbm_model().replace("feature_names=a b c", "feature_names=\xa0a b\t _c_d\u3000")
    model = gpuens.from_lightgbm(text)
    assert model.feature_names_in_.tolist() == ["\xa0a", "b\t", "_c_d\u3000"]
    rows = np.ones((2, 3))
    expected = gpuens.from_lightgbm(lightgbm_model()).predict(
        pd.DataFrame(rows, columns=["a", "b", "c"])
    )
    for names in (["\xa0a", "b\t", " c d\u3000"], ["\xa0a", "b\t", "_c_d\u3000"]):
        np.testing.assert_array_equal(model.predict(pd.DataFrame(rows, columns=names)), expected)
    with pytest.raises(gpuens.ImportedModelError, match="column 0 of X is ' a'"):
        model.predict(pd.DataFrame(rows, columns=[" a", "b\t", "_c_d\u3000"]))


def test_blanks_are_not_underscores_elsewhere():
    model = gpuens.from_xgboost(as_bytes(xgboost_model()))
    model.feature_names_in_ = np.array(["a_b", "b", "c"], object)
    with pytest.raises(gpuens.ImportedModelError, match="column 0 of X is 'a b'"):
        model.predict(pd.DataFrame(np.ones((1, 3)), columns=["a b", "b", "c"]))
