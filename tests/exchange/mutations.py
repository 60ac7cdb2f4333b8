"""Damaged and hostile model files: each is imported, or refused by an ``ImportedModelError``."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gpuens
from tests.support.forest_problems import hard_rows
from tests.support.small_models import (
    as_bytes,
    catboost_model,
    lightgbm_model,
    treelite_model,
    ubjson,
    xgboost_model,
)

SPECIAL = [0, 1, -1, 2, 5, 255, 2**31 - 1, -(2**31), 2**32, 2**53, 2**62, 10**30, 0.5, -0.5, 1e300,
           -1e300, 1e-320, float("nan"), float("inf"), "", "x", "-1", "nan", "99999999999", None,
           True, [], {}, [[]], [0], [1e300], {"a": 1}]  # fmt: skip
CONSTANT = 16 * 2**20
"""Bytes that any import may take besides four times its file."""


FORMATS: dict[str, tuple[bytes, Callable[[bytes], Any]]] = {
    "xgboost, JSON": (as_bytes(xgboost_model()), gpuens.from_xgboost),
    "xgboost, UBJSON": (ubjson(xgboost_model()), gpuens.from_xgboost),
    "lightgbm": (lightgbm_model().encode(), gpuens.from_lightgbm),
    "catboost": (as_bytes(catboost_model()), gpuens.from_catboost),
    "treelite": (
        as_bytes(treelite_model()),
        lambda data: gpuens.from_treelite(data.decode(errors="replace")),
    ),
}


@dataclass
class Outcome:
    """What became of the mutations of a format."""

    imported: int = 0
    refused: int = 0
    slowest: float = 0.0
    most_memory: float = 0.0
    wrong: list[str] = field(default_factory=list)


def mutations(data: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Yield damaged copies: cut, with bytes changed, removed, repeated or moved, and, where it is
    JSON or text, with values replaced."""
    rng = np.random.default_rng(seed)
    document = json.loads(data) if data[:2] == b'{"' else None
    for k in range(count):
        if document is not None and k % 2:
            yield as_bytes(with_a_value_changed(document, rng))
        elif data[:4] == b"tree" and k % 2:
            yield with_a_word_changed(data, rng)
        else:
            yield with_bytes_changed(data, rng)


def with_bytes_changed(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        if not changed:
            break
        at, kind = int(rng.integers(len(changed))), int(rng.integers(6))
        size = int(rng.integers(1, 20))
        if kind == 0:
            del changed[at:]
        elif kind == 1:
            changed[at] = int(rng.integers(256))
        elif kind == 2:
            changed[at] = int(rng.choice(list(b'0123456789-.eE,[]{}"#$LlUiSdD')))
        elif kind == 3:
            del changed[at : at + size]
        elif kind == 4:
            changed[at:at] = changed[at : at + size] * int(rng.integers(1, 4))
        else:
            changed[at] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def with_a_value_changed(document: Any, rng: np.random.Generator) -> Any:
    changed = json.loads(json.dumps(document))
    places = []
    todo = [changed]
    while todo:
        value = todo.pop()
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            places.append((value, key))
            if isinstance(value[key], (dict, list)):
                todo.append(value[key])
    for _ in range(int(rng.integers(1, 3))):
        parent, key = places[int(rng.integers(len(places)))]
        kind = int(rng.integers(4))
        if isinstance(parent, dict) and kind == 0:
            parent.pop(key, None)
        elif isinstance(parent, list) and kind == 0:
            parent.append(SPECIAL[int(rng.integers(len(SPECIAL)))])
        elif isinstance(parent, dict) or key < len(parent):
            value = SPECIAL[int(rng.integers(len(SPECIAL)))]
            parent[key] = json.loads(json.dumps(value))
    return changed


def with_a_word_changed(data: bytes, rng: np.random.Generator) -> bytes:
    lines = data.decode().split("\n")
    at = int(rng.integers(len(lines)))
    name, equals, value = lines[at].partition("=")
    words = value.split(" ")
    words[int(rng.integers(len(words)))] = str(SPECIAL[int(rng.integers(len(SPECIAL)))])
    lines[at] = name + equals + " ".join(words)
    return "\n".join(lines).encode()


def try_all(name: str, count: int, seed: int = 0, traced: bool = True) -> Outcome:
    """Import the mutations of a format, and predict with what was imported."""
    data, read = FORMATS[name]
    outcome = Outcome()
    for number, changed in enumerate(mutations(data, count, seed)):
        if traced:
            tracemalloc.start()
        start = time.perf_counter()
        try:
            model = read(changed)
        except gpuens.ImportedModelError as error:
            outcome.refused += 1
            if len(str(error)) < 20:
                outcome.wrong.append(f"{number}: its message is {error}")
        except BaseException as error:
            outcome.wrong.append(f"{number}: {type(error).__name__}: {error}")
        else:
            outcome.imported += 1
            outcome.slowest = max(outcome.slowest, time.perf_counter() - start)
            _use(model, number, outcome)
        outcome.slowest = max(outcome.slowest, time.perf_counter() - start)
        if traced:
            peak = tracemalloc.get_traced_memory()[1] - CONSTANT
            tracemalloc.stop()
            outcome.most_memory = max(outcome.most_memory, peak / max(1, len(changed)))
    return outcome


def _use(model: Any, number: int, outcome: Outcome) -> None:
    """Predict a few rows, unless features are so many that the rows would take long to make."""
    if model.n_features_in_ > 100:
        return
    rows = hard_rows(model.forest_, 5, seed=number)
    model.__dict__.pop("feature_names_in_", None)
    try:
        with np.errstate(all="ignore"):
            model.predict(rows, output_margin=True)
            model.predict(rows)
    except BaseException as error:
        outcome.wrong.append(f"{number}: predict, {type(error).__name__}: {error}")
