"""Trees, bagging and forests of gpuens, and scikit-learn's under the same names."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .machine import ROOT

OURS, THEIRS = "gpuens", "scikit-learn"
MODULES = {OURS: ("gpuens",), THEIRS: ("sklearn.tree", "sklearn.ensemble")}
DATA = ROOT.parent / "shared" / "data"


class GapError(Exception):
    """Something that a measurement needs is not here; the text says what."""


def say_skipped(gap: GapError) -> str:
    """Print what is missing, and return it for the results."""
    print(f"skipped: {gap}", flush=True)
    return str(gap)


def find(library: str, name: str) -> Any:
    """A class by its name.

    Raises
    ------
    GapError
        If the library has no such class.
    """
    for module in MODULES[library]:
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise GapError(f"{library} has no {name}")


def build(library: str, name: str, threads: int, **parameters: Any) -> Any:
    """An estimator on the CPU that has not been fitted.

    ``threads`` is left out where the class takes none, which is scikit-learn's single tree.
    """
    cls = find(library, name)
    made = cls(**parameters, **({"device": "cpu"} if library == OURS else {}))
    return made.set_params(n_jobs=threads) if "n_jobs" in made.get_params() else made


def load(folder: Path, name: str) -> dict[str, np.ndarray]:
    """Arrays of one ``.npz`` file; X as float32, y as classes from 0.

    Raises
    ------
    GapError
        If the file is not there.
    """
    path = folder / f"{name}.npz"
    if not path.is_file():
        raise GapError(f"{name}.npz is not in {folder}")
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in ("X", "y", "is_test") if key in file.files}
    arrays["y"] = np.unique(arrays["y"], return_inverse=True)[1]
    return arrays


def warm_up(library: str, names: Sequence[str], threads: int) -> None:
    """Compile and load what the measurements use, on a few rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(np.int64)
    for name in names:
        few = {} if name.startswith("DecisionTree") else {"n_estimators": 3}
        model = build(library, name, threads, random_state=0, **few).fit(X, y)
        (model.predict_proba if hasattr(model, "predict_proba") else model.predict)(X)
