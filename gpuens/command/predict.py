"""``python -m gpuens predict``: apply a saved model to a table."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import gpuens

from .tables import CommandError, extension, features_for, read, write


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    model = load(options.model)
    path = Path(options.output or _beside(Path(options.data)))
    extension(path)
    frame = read(options.data)
    found = predictions(model, features_for(model, frame), options.probabilities)
    write(found, path)
    print(f"Saved {len(found):,} predictions to {path}")


def load(name: str) -> Any:
    """Load a model for a command."""
    if not Path(name).is_file():
        raise CommandError(f"{name} does not exist. Pass the path of a saved model.")
    return gpuens.load(name)


def predictions(model: Any, X: Any, probabilities: bool) -> Any:
    """Predictions of a table as a data frame, on request with a column for each class."""
    import pandas

    values = np.asarray(model.predict(X))
    if values.ndim == 1:
        columns = {"prediction": values}
    else:
        columns = {f"prediction_{i}": column for i, column in enumerate(values.T)}
    if probabilities:
        if not hasattr(model, "predict_proba"):
            raise CommandError(
                f"--probabilities: {type(model).__name__} predicts none. Leave the option out."
            )
        shares = np.asarray(model.predict_proba(X))
        columns |= {
            f"probability_{c}": column for c, column in zip(model.classes_, shares.T, strict=True)
        }
    return pandas.DataFrame(columns)


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}-predictions{path.suffix}")
