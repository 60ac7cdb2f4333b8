"""Categories of data frames reach XGBoost's predictions, or an error: never another category's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gpuens
from gpuens import ImportedModelError

xgboost = pytest.importorskip("xgboost")

N = 120
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 10_000, N)
OTHER = RNG.normal(size=N)
LISTS = {
    "two bytes, last": ["Bonn", "Graz", "Köln"],
    "two bytes, first": ["Köln", "Bonn", "Graz"],
    "three bytes": ["日本", "中国", "韓国", "a"],
    "four bytes": ["a😀", "b", "c", "d", "e", "f"],
    "equal after the cut": ["é", "è", "b", "ê"],
    "empty": ["", "ä", "b"],
    "marks": ['"q', "\\", "a b", "\xa0", "\u3000", "a\tb"],
    "a name becomes another": ["éa", "b", "a"],
    "ASCII": ["Bonn", "Graz", "Koeln"],
    "numbers": [3, 1, -7],
    "numbers that float64 rounds": [2**53, 2**53 + 1, 2**53 + 2],
}
FRAMES = ("pandas", "pandas objects", "pyarrow", "polars")


def frame_of(library: str, *columns: list[Any], used: int | None = None) -> Any:
    """A table of a column of numbers and columns of categories, the first of which are used."""
    codes = [CODES % (used or len(names)) for names in columns]
    if library.startswith("pandas"):
        of_objects = [pd.Index(names, dtype=object) if "objects" in library else names
                      for names in columns]  # fmt: skip
        own = [pd.Categorical.from_codes(c, n) for c, n in zip(codes, of_objects, strict=True)]
        return pd.DataFrame({"x": OTHER} | {f"c{k}": column for k, column in enumerate(own)})
    if library == "pyarrow":
        arrays = [pa.DictionaryArray.from_arrays(pa.array(c, pa.int32()), pa.array(n, pa.string()))
                  for c, n in zip(codes, columns, strict=True)]  # fmt: skip
        return pa.table({"x": OTHER} | {f"c{k}": column for k, column in enumerate(arrays)})
    own = [pl.Series([n[k] for k in c], dtype=pl.Enum(n)) for c, n in zip(codes, columns,
                                                                          strict=True)]  # fmt: skip
    return pl.DataFrame({"x": OTHER} | {f"c{k}": column for k, column in enumerate(own)})


def trained(frame: Any, y: np.ndarray) -> Any:
    data = xgboost.DMatrix(frame, y, enable_categorical=True, nthread=1)
    exact = {"eta": 1.0, "lambda": 0.0, "min_child_weight": 0.0, "max_cat_to_onehot": 1}
    return xgboost.train(exact | {"max_depth": 4, "nthread": 1}, data, 4)


def target(*columns: list[Any]) -> np.ndarray:
    return sum(np.sqrt(2.0 + CODES % len(names)) * 10 for names in columns) + OTHER * 0.01


def predicted(booster: Any, frame: Any) -> np.ndarray | None:
    """XGBoost's predictions; None where it refuses a frame."""
    try:
        return booster.predict(xgboost.DMatrix(frame, enable_categorical=True, nthread=1))
    except (xgboost.core.XGBoostError, UnicodeDecodeError):  # of a message with half a character
        return None


@pytest.mark.parametrize(
    ("name", "library"),
    [(n, lib) for n in LISTS for lib in FRAMES if "numbers" not in n or lib == "pandas"],
)
def test_the_frame_of_training(name, library, tmp_path):
    frame, y = frame_of(library, LISTS[name]), target(LISTS[name])
    booster = trained(frame, y)
    expected = booster.predict(xgboost.DMatrix(frame, enable_categorical=True, nthread=1))
    for form in ("json", "ubj"):
        model = gpuens.from_xgboost(bytes(booster.save_raw(form)))
        np.testing.assert_array_equal(model.predict(frame), expected)
    gpuens.from_xgboost(booster).save(tmp_path / "model")
    np.testing.assert_array_equal(gpuens.load(tmp_path / "model").predict(frame), expected)


def test_codes_missing_values_and_several_columns():
    columns = LISTS["two bytes, first"], LISTS["ASCII"], LISTS["four bytes"]
    frame = frame_of("pandas", *columns)
    booster = xgboost.XGBRegressor(n_estimators=5, enable_categorical=True, n_jobs=1)
    booster.fit(frame, target(*columns))
    model = gpuens.from_xgboost(booster)
    with_missing = frame.copy()
    with_missing.loc[::3, "c0"] = None
    with_missing.loc[::4, "c2"] = None
    coded = frame.assign(**{name: frame[name].cat.codes for name in ("c0", "c1", "c2")})
    for table in (frame, with_missing):
        np.testing.assert_array_equal(model.predict(table), booster.predict(table))
    np.testing.assert_array_equal(model.predict(coded), booster.predict(frame))
    with pytest.warns(UserWarning, match="feature names"):
        found = model.predict(coded.to_numpy())
    np.testing.assert_array_equal(found, booster.predict(frame))


@pytest.mark.parametrize("name", [name for name in LISTS if "numbers" not in name])
def test_other_frames_are_predicted_as_xgboost_does_or_refused(name):
    """Other orders, fewer names, other libraries: XGBoost takes some names for others."""
    names = LISTS[name]
    others = [list(order) for order in itertools.islice(itertools.permutations(names), 4)]
    others += [names[:n] for n in range(1, len(names))] + [[*names, "zz"], ["0", *names], ["n"]]
    n_equal = 0
    for library in ("pandas", "polars"):
        booster = trained(frame_of(library, names), target(names))
        model = gpuens.from_xgboost(booster)
        for of_rows, listed in itertools.product(("pandas", "pyarrow", "polars"), others):
            frame = frame_of(of_rows, listed)
            try:
                found = model.predict(frame)
            except ImportedModelError as error:
                assert "'c0'" in str(error)
                continue
            expected = predicted(booster, frame)
            assert expected is not None
            np.testing.assert_array_equal(found, expected)
            n_equal += 1
    assert n_equal >= 2 * len(names)


@pytest.mark.parametrize(("name", "unseen"), [("ASCII", "Berlin"), ("numbers", 2)])
@pytest.mark.parametrize("used", [True, False])
def test_unseen_categories(name, unseen, used):
    """XGBoost takes the next one in order for an unseen one, which is a guess."""
    names = LISTS[name]
    booster = trained(frame_of("pandas", names), target(names))
    listed = [unseen, *names] if used else [*names, unseen]
    frame = frame_of("pandas", listed, used=len(names))
    model = gpuens.from_xgboost(booster)
    if used:
        with pytest.raises(ImportedModelError, match=f"category {unseen!r}, which the model"):
            model.predict(frame)
    else:
        known = frame_of("pandas", names)
        np.testing.assert_array_equal(model.predict(frame), predicted(booster, known))


@pytest.mark.parametrize("kind", ["text", "objects", "list", "surrogates"])
def test_text_cannot_be_matched_with_damaged_names(kind):
    names = LISTS["two bytes, first"]
    frame = frame_of("pandas", names)
    model = gpuens.from_xgboost(trained(frame, target(names)))
    as_text = frame.assign(c0=frame["c0"].astype(object))
    lone = pd.Categorical.from_codes(CODES % 1, pd.Index(["\udcc3"], dtype=object))
    table = {
        "text": as_text,
        "objects": as_text.to_numpy(object),
        "list": as_text.to_numpy(object).tolist(),
        "surrogates": frame.assign(c0=lone),
    }[kind]
    if kind in ("objects", "list"):
        del model.feature_names_in_
    with pytest.raises(ImportedModelError, match="not all are ASCII"):
        model.predict(table)


def test_missing_text():
    """Text that is missing in a column that is not of a categorical type is missing here, too."""
    frame = frame_of("pandas", LISTS["ASCII"])
    model = gpuens.from_xgboost(trained(frame, target(LISTS["ASCII"])))
    frame.loc[::3, "c0"] = None
    expected = model.predict(frame)
    text = frame.astype({"c0": object}).where(frame.notna(), None)
    assert text["c0"].isna().any() and text["c0"].dtype == object
    np.testing.assert_array_equal(model.predict(text), expected)
