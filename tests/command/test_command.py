"""The command line: ``python -m gpuens fit``, ``predict`` and ``info``."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gpuens
from gpuens.command import main
from gpuens.command.errors import CommandError
from gpuens.command.features import features_for
from gpuens.command.tables import read
from gpuens.plotting import FeatureImportancesDisplay

pytest.importorskip("matplotlib")
N = 300


@pytest.fixture(scope="module")
def houses() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "name": [f"house {i}" for i in range(N)],
            "city": rng.choice(["Rome", "Oslo", "Lima", None], N),
            "rooms": rng.integers(1, 9, N),
            "area": rng.normal(80, 20, N),
            "sold": pd.date_range("2020-01-01", periods=N, freq="D"),
            "garden": rng.random(N) < 0.3,
            "nothing": np.nan,
            "weight": rng.uniform(0.5, 2, N),
        }
    )
    price = 3 * frame["area"] + 20 * frame["rooms"] + 100 * (frame["city"] == "Oslo")
    frame["price"] = price + rng.normal(0, 5, N)
    frame["kind"] = np.where(price > price.median(), "dear", "cheap")
    frame.loc[rng.random(N) < 0.1, "area"] = np.nan
    frame.loc[3, "price"] = np.nan
    return frame


@pytest.fixture
def folder(tmp_path: Path, houses: pd.DataFrame) -> Path:
    houses.to_csv(tmp_path / "houses.csv", index=False)
    return tmp_path


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_regression_from_training_to_predictions(folder, houses, capsys):
    data, model = folder / "houses.csv", folder / "houses.gpuens"
    assert run("fit", data, "--target", "price", "--drop", "kind") == 0
    out = capsys.readouterr().out
    assert "rows without a target were left out: 1." in out
    assert "'name' was left out: its text has 299 different values" in out
    assert "'nothing' was left out: it has no values" in out
    error, constant = map(float, re.search(r"squared error +(\S+) +(\S+)", out).groups())
    assert error < constant / 2
    assert (folder / "houses-importances.png").read_bytes()[:4] == b"\x89PNG"
    picture = FeatureImportancesDisplay.from_estimator(gpuens.load(model))
    assert f"Most important features: {picture.label}" in out
    for bar, feature in zip(picture.bars_, picture.order_, strict=True):
        if bar.get_width() > 0:
            name = re.escape(picture.feature_names[feature])
            assert re.search(rf"^  {name} +{bar.get_width():.3f}  █", out, re.M)

    assert run("predict", model, data) == 0
    found = pd.read_csv(folder / "houses-predictions.csv")
    fitted = gpuens.load(model)
    parts = [f"sold ({part})" for part in ("days", "year", "month", "weekday")]
    names = ["city", "rooms", "area", *parts, "garden", "weight"]
    assert list(fitted.feature_names_in_) == names
    X, notes = features_for(fitted, read(data))
    assert not notes
    expected = fitted.predict(X)
    assert np.allclose(found["prediction"], expected, rtol=1e-12)
    assert np.corrcoef(expected[houses.price.notna()], houses.price.dropna())[0, 1] > 0.9

    capsys.readouterr()
    assert run("info", model) == 0
    out = capsys.readouterr().out
    assert fitted.forest_.fingerprint() in out and "GradientBoostingRegressor" in out
    assert "city, rooms, area, sold (days), sold (year)" in out and "random_state=0" in out
    assert "dates yyyy-mm-dd in 'sold'; truth values in 'garden'" in out


@pytest.mark.parametrize("model", ["boosting", "forest", "extra-trees", "tree"])
def test_classification_with_weights(folder, houses, model, capsys):
    houses.to_parquet(folder / "houses.parquet")
    saved = folder / "other.gpuens"
    assert run(
        "fit", folder / "houses.parquet", "--target", "kind", "--drop", "price", "--weights",
        "weight", "--model", model, "--output", saved,
        *(["--set", "n_estimators=20"] if model != "tree" else []),
    ) == 0  # fmt: skip
    out = capsys.readouterr().out
    assert "2 classes: a classification" in out
    right, constant = map(float, re.search(r"accuracy +(\S+) +(\S+)", out).groups())
    assert right > 0.75 > constant
    assert run("predict", saved, folder / "houses.csv", "--probabilities", "--output",
               folder / "p.tsv") == 0  # fmt: skip
    found = pd.read_csv(folder / "p.tsv", sep="\t")
    assert set(found["prediction"]) == {"dear", "cheap"}
    assert np.allclose(found["probability_cheap"] + found["probability_dear"], 1)


def test_same_file_same_model(folder):
    prints = set()
    for name in ("a", "b"):
        path = folder / f"{name}.gpuens"
        arguments = ("--target", "price", "--test-size", 0, "--set", "n_estimators=5")
        assert run("fit", folder / "houses.csv", *arguments, "--output", path) == 0
        prints.add(gpuens.load(path).forest_.fingerprint())
    assert len(prints) == 1


@pytest.mark.parametrize("n_rows", [30, 300])
def test_boosting_is_that_of_the_estimator(folder, houses, n_rows):
    """With the rounds that rows held out choose, and 100 for few rows."""
    table = houses[["rooms", "price"]].dropna().head(n_rows)
    table.to_csv(folder / "part.csv", index=False)
    assert run("fit", folder / "part.csv", "--target", "price", "--test-size", 0) == 0
    X, y = table[["rooms"]].astype(float), table["price"].to_numpy(float)
    model = gpuens.GradientBoostingRegressor(random_state=0).fit(X, y)
    loaded = gpuens.load(folder / "part.gpuens")
    assert loaded.n_estimators == "auto"
    assert loaded.forest_.fingerprint() == model.forest_.fingerprint()


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("fit", "nothing.csv", "--target", "y"), ("nothing.csv", "does not exist")),
        (("fit", "houses.csv", "--target", "prize"), ("--target 'prize'", "'price'")),
        (("fit", "houses.csv", "--target", "name"), ("--target 'name'", "300 different values")),
        (("fit", "houses.csv", "--target", "city", "--task", "regression"), ("'city'", "numbers")),
        (("fit", "houses.csv", "--target", "nothing"), ("'nothing'", "no values")),
        (("fit", "houses.csv"), ("--target",)),
        (("fit", "houses.txt", "--target", "y"), ("houses.txt", ".csv, .tsv or .parquet")),
        (("fit", "empty.csv", "--target", "y"), ("empty.csv", "is empty")),
        (("fit", "header.csv", "--target", "b"), ("header.csv", "no rows")),
        (("fit", "few.csv", "--target", "b"), ("2 rows", "at least 10")),
        (("fit", "damaged.parquet", "--target", "b"), ("damaged.parquet", "readable .parquet")),
        (("fit", "houses.csv", "--target", "price", "--set", "depth=3"), ("depth", "max_depth")),
        (("fit", "houses.csv", "--target", "price", "--set", "max_depth"), ("NAME=VALUE",)),
        (("fit", "houses.csv", "--target", "price", "--set", "max_bins=1"), ("max_bins", "got 1")),
        (("fit", "houses.csv", "--target", "price", "--test-size", "1"), ("--test-size", "1.0")),
        (("fit", "houses.csv", "--target", "price", "--weights", "city"), ("--weights 'city'",)),
        (("fit", "houses.csv", "--target", "price", "--drop", "x"), ("--drop 'x'",)),
        (("predict", "houses.csv", "houses.csv"), ("houses.csv", "model")),
        (("predict", "none.gpuens", "houses.csv"), ("none.gpuens", "does not exist")),
        (("info", "none.gpuens"), ("none.gpuens", "does not exist")),
        ((), ("COMMAND",)),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(folder, monkeypatch, capsys, arguments, parts):
    monkeypatch.chdir(folder)
    (folder / "empty.csv").touch()
    (folder / "header.csv").write_text("a,b\n")
    (folder / "few.csv").write_text("a,b\n1,2\n3,4\n")
    (folder / "damaged.parquet").write_bytes(b"PAR1 and more")
    try:
        status = run(*arguments)
    except SystemExit as error:  # argparse
        status = error.code
    text = capsys.readouterr().err
    assert status == 2
    assert text.count("\n") == 1 and text.startswith("gpuens: ")
    assert all(part in text for part in parts)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_that_predict_lacks_or_that_changed(folder, houses, suffix):
    model = gpuens.GradientBoostingRegressor(n_estimators=2)
    model.fit(houses[["rooms", "area"]], houses["price"].fillna(0))

    def features(frame):
        path = folder / f"new{suffix}"
        frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
        return features_for(model, read(path))

    with pytest.raises(CommandError, match=r"feature 'area'.*9 columns"):
        features(houses.drop(columns="area"))
    with pytest.raises(CommandError, match="'rooms' holds text such as 'many'"):
        features(houses.assign(rooms="many"))


def test_as_a_program(folder):
    result = subprocess.run(
        [sys.executable, "-m", "gpuens", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout == f"gpuens {gpuens.__version__}\n"
