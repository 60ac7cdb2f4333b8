"""``python -m gpuens predict`` and ``info``: apply a saved model to a table, or describe it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import gpuens

from ..devices.memory_plan import format_bytes
from .errors import CommandError
from .features import described, features_for, known_columns
from .tables import bare, extension, read, write
from .types import overrides_of


def run_predict(options: argparse.Namespace) -> None:
    """Run the command ``predict``."""
    model = load(options.model)
    path = Path(options.output or _beside(Path(options.data)))
    extension(path)
    overrides = overrides_of(options)
    table = read(options.data, overrides)
    features, notes = features_for(model, table, overrides)
    if table.notes:
        print(f"Read with: {'; '.join(table.notes)}.")
    for note in notes:
        print(f"Note: {note}.")
    found = predictions(model, features, options.probabilities)
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
    return path.with_name(f"{bare(path).name}-predictions{extension(path)}")


def run_info(options: argparse.Namespace) -> None:
    """Run the command ``info``."""
    model = load(options.model)
    size = format_bytes(Path(options.model).stat().st_size)
    print(f"{options.model}: {type(model).__name__}, {size}")
    for name, value in _facts(model):
        print(f"  {name:<14}{value}")


def _facts(model: Any) -> list[tuple[str, str]]:
    facts = []
    defaults = type(model)().get_params(deep=False) if _has_defaults(model) else {}
    changed = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name not in defaults or repr(defaults[name]) != repr(value)
    }
    if changed:
        facts.append(("parameters", _shortened([f"{k}={v!r}" for k, v in changed.items()])))
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        facts.append((f"features ({len(names)})", _shortened(map(str, names))))
    elif hasattr(model, "n_features_in_"):
        facts.append(("features", f"{model.n_features_in_}"))
    known = known_columns(model)
    if known is not None and (words := described(known.types)):
        facts.append(("columns", _shortened(words, "; ")))
    classes = getattr(model, "classes_", None)
    if classes is not None:
        facts.append((f"classes ({len(classes)})", _shortened(map(str, classes))))
    forest = getattr(model, "forest_", None)
    if forest is not None:
        facts.append(("trees", f"{forest.n_trees:,} with {int(forest.n_leaves.sum()):,} leaves"))
        facts.append(("fingerprint", forest.fingerprint()))
    elif hasattr(model, "estimators_"):
        facts.append(("members", f"{len(model.estimators_):,}"))
    return facts


def _has_defaults(model: Any) -> bool:
    try:
        type(model)()
    except TypeError:  # members are required
        return False
    return True


def _shortened(texts: Any, between: str = ", ") -> str:
    text = between.join(texts)
    return text if len(text) <= 500 else f"{text[:497]}..."
