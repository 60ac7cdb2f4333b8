"""Models to save, and model files changed by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import gpuens
from gpuens.saving.file import DOCUMENT, FORMAT, checksum
from tests.support.suited import suited

FEW = {"n_estimators": 4}
MEMBERS = {
    "estimators": [
        ("tree", gpuens.DecisionTreeClassifier(max_depth=2)),
        ("extra", gpuens.ExtraTreeClassifier(max_depth=2)),
    ]
}
COMBINED: dict[str, dict[str, Any]] = {
    "StackingClassifier": MEMBERS | {"cv": 2},
    "VotingClassifier": MEMBERS,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "AdaBoostClassifier": FEW,
    "AdaBoostRegressor": FEW,
    "BaggingClassifier": FEW | {"max_features": 0.7},
    "BaggingRegressor": FEW,
    "DecisionTreeClassifier": {},
    "DecisionTreeRegressor": {"criterion": "absolute_error", "max_depth": 4},
    "ExtraTreeClassifier": {},
    "ExtraTreeRegressor": {},
    "ExtraTreesClassifier": FEW,
    "ExtraTreesRegressor": FEW,
    "GradientBoostingClassifier": FEW,
    "GradientBoostingRegressor": FEW,
    "IsolationForest": FEW,
    "ObliqueRandomForestClassifier": FEW,
    "ObliqueRandomForestRegressor": FEW,
    "QuantileForestRegressor": FEW,
    "RandomForestClassifier": FEW | {"oob_score": True, "n_estimators": 20},
    "RandomForestRegressor": FEW,
    "StagewiseClassifier": FEW,
    "StagewiseRegressor": FEW,
}


def table(n: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """Features with missing values, and three classes as strings."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.array(["low", "middle", "high"])[np.digitize(np.nan_to_num(X[:, 1]), [-0.5, 0.5])]


SAVED = Path(__file__).parents[1] / "saved"
"""Models of every format so far, which must load for ever."""


WRITTEN: dict[int, dict[str, dict[str, Any]]] = {
    1: dict.fromkeys(SETTINGS, {}),
    2: dict.fromkeys(
        ("GradientBoostingClassifier", "GradientBoostingRegressor"), {"linear_leaves": True}
    ),
}
"""The models that are written in each format, with further settings."""


def write_saved() -> None:
    """Write the models of the present format, for a format that was not there before."""
    X, _ = table()
    folder = SAVED / f"format-{FORMAT}"
    folder.mkdir(parents=True)
    predictions = {}
    for name, settings in WRITTEN[FORMAT].items():
        model = fitted(name, **settings)
        model.save(folder / f"{name}.gpuens")
        predictions[name] = np.asarray(model.predict(X))
    np.savez_compressed(folder / "predictions.npz", **predictions)


def fitted(name: str, **settings: Any) -> Any:
    """A small model of a class."""
    X, y = table()
    more: dict[str, Any] = {}
    if not name.endswith("Classifier"):
        y, more = suited(name, settings.get("loss"), np.nan_to_num(X[:, 0] + X[:, 2]))
    model = getattr(gpuens, name)(**(SETTINGS | COMBINED).get(name, {}) | settings)
    return model.fit(X, y, **more)


def rewrite(path: Path, change: Callable[[dict[str, Any], dict[str, np.ndarray]], None]) -> None:
    """Change the document and the arrays of a model file, with a checksum that fits."""
    with safe_open(path, framework="numpy") as file:
        document = json.loads(file.metadata()[DOCUMENT])
    arrays = load_file(path)
    change(document, arrays)
    document.pop("checksum", None)
    document["checksum"] = checksum(document, arrays)
    save_file(arrays, path, metadata={DOCUMENT: json.dumps(document)})
