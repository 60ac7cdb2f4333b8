"""Damaged and hostile model files: cuts, flipped bits and bytes, or edits of the document and the
arrays with a checksum that fits."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save
from sklearn.exceptions import NotFittedError

from gpuens import load
from gpuens.saving.file import DOCUMENT, ModelFileError, checksum

MODELS = ("RandomForestClassifier", "QuantileForestRegressor", "GradientBoostingClassifier",
          "ObliqueRandomForestClassifier", "BaggingClassifier", "IsolationForest",
          "AdaBoostClassifier", "StagewiseRegressor", "DecisionTreeClassifier",
          "StackingClassifier", "VotingClassifier")  # fmt: skip
NUMBERS = (0, 1, -1, 2, 7, 255, 2**31 - 1, -(2**31), 2**31, 2**53, 2**63, 1e308, -0.5)
VALUES = (None, True, "", "x", "__class__", [], {}, {"@": 0}, {"@": -1}, {"@": 10**9},
          {"float": "nan"}, {"float": 1}, *NUMBERS)  # fmt: skip
EDITS = (0.4, 0.3, 0.1, 0.1, 0.1)
"""Shares of the edits of an array. Most files with another value load, others are refused."""
NAMES_A_PARAMETER = ("must be", "is expecting")
"""A file may hold a parameter that ``predict`` refuses."""


def damaged(whole: bytes, rng: np.random.Generator) -> bytes:
    """Cut, flipped, overwritten or spliced."""
    data = bytearray(whole)
    match rng.integers(4):
        case 0:
            del data[rng.integers(len(data)) :]
        case 1:
            for bit in rng.integers(0, 8 * len(data), rng.integers(1, 9)):
                data[bit // 8] ^= 1 << (bit % 8)
        case 2:
            at = rng.integers(len(data))
            data[at : at + 8] = rng.bytes(8)
        case _:
            a, b = sorted(rng.integers(0, len(data), 2))
            data[a:b] = data[a : a + (b - a) // 2]
    return bytes(data)


def lying(document: dict[str, Any], arrays: dict[str, Any], rng: np.random.Generator) -> bytes:
    """Edits of the contents, with a checksum that fits."""
    document, arrays = json.loads(json.dumps(document)), dict(arrays)
    for _ in range(rng.geometric(0.6)):
        if rng.random() < 0.5 and arrays:
            _edit_array(arrays, rng)
        else:
            _edit_document(document["entries"], rng)
    document.pop("checksum", None)
    document["checksum"] = checksum(document, arrays)
    return save(arrays, metadata={DOCUMENT: json.dumps(document)})


def _edit_array(arrays: dict[str, Any], rng: np.random.Generator) -> None:
    name = rng.choice(list(arrays))
    array = arrays[name].copy()
    match rng.choice(5, p=EDITS):
        case 0 if array.size:
            with np.errstate(all="ignore"):
                value = np.float64(rng.choice(NUMBERS[:-1]))
                array.flat[rng.integers(array.size)] = value.astype(array.dtype)
        case 1 if array.size:
            array.flat[rng.integers(array.size)] += array.dtype.type(1)
        case 2:
            array = array[: rng.integers(len(array) + 1)]
        case 3:
            with np.errstate(all="ignore"):
                array = array.astype(rng.choice(["f4", "f8", "i4", "i8", "u1", "u4"]))
        case _:
            array = array.reshape(-1, 1)
    arrays[name] = np.ascontiguousarray(array)


def _edit_document(entries: list[Any], rng: np.random.Generator) -> None:
    at: Any = entries
    for _ in range(8):
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = keys[rng.integers(len(keys))]
        if not isinstance(at[key], (list, dict)) or rng.random() < 0.2:
            match rng.integers(4):
                case 0:
                    del at[key]
                case 1 if isinstance(at, list):
                    at.insert(key, copy.deepcopy(at[key]))
                case _:
                    at[key] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])
            return
        at = at[key]


def use(path: Path, X: np.ndarray) -> str:
    """Load a file and predict: what came of it."""
    try:
        model = load(path)
    except ModelFileError:
        return "refused"
    try:
        model.predict(X)
    except NotFittedError:
        return "loads without trees"
    except (ValueError, TypeError) as error:
        if not any(words in str(error) for words in NAMES_A_PARAMETER):
            raise
        return "loads, then refuses a parameter"
    return "loads"
