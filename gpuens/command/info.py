"""``python -m gpuens info``: describe a saved model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..devices.memory import format_bytes
from .predict import load


def run(options: argparse.Namespace) -> None:
    """Run the command."""
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


def _shortened(texts: Any) -> str:
    text = ", ".join(texts)
    return text if len(text) <= 500 else f"{text[:497]}..."
