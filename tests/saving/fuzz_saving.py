"""Loads damaged and hostile model files: ``python -m tests.saving.fuzz_saving [files]``.

Every file comes from a saved model by cuts, flipped bits and bytes, or by edits of its document
and arrays with a checksum that fits; it must load and predict, or be refused with a
``ModelFileError``; a parameter may be refused by ``predict``. The peak of memory that Python
allocates is held against the file's size.
"""

from __future__ import annotations

import copy
import json
import sys
import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save
from sklearn.exceptions import NotFittedError

from gpuens import load
from gpuens.saving.file import DOCUMENT, ModelFileError, checksum

from .model_files import fitted, table

MODELS = ("RandomForestClassifier", "QuantileForestRegressor", "GradientBoostingClassifier",
          "BaggingClassifier", "IsolationForest", "AdaBoostClassifier", "StagewiseRegressor",
          "DecisionTreeClassifier", "StackingClassifier", "VotingClassifier")  # fmt: skip
NUMBERS = (0, 1, -1, 2, 7, 255, 2**31 - 1, -(2**31), 2**31, 2**53, 2**63, 1e308, -0.5)
VALUES = (None, True, "", "x", "__class__", [], {}, {"@": 0}, {"@": -1}, {"@": 10**9},
          {"float": "nan"}, {"float": 1}, *NUMBERS)  # fmt: skip
NAMES_A_PARAMETER = ("must be", "is expecting")
"""A file may hold a parameter that ``predict`` refuses."""
SLACK = 2**20
"""Bytes that reading takes whatever the size of the file."""


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
    document, arrays = copy.deepcopy(document), dict(arrays)
    for _ in range(rng.integers(1, 4)):
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
    match rng.integers(5):
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


def main(n: int, seed: int) -> int:
    X, _ = table()
    rng = np.random.default_rng(seed)
    found: Counter[str] = Counter()
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gpuens"
        sources = []
        for name in MODELS:
            fitted(name).save(path)
            with safe_open(path, framework="numpy") as file:
                document = json.loads(file.metadata()[DOCUMENT])
            sources.append((path.read_bytes(), document, load_file(path)))
            use(path, X)  # what is imported and compiled for it takes memory too
        for k in range(n):
            whole, document, arrays = sources[rng.integers(len(sources))]
            data = damaged(whole, rng) if k % 2 else lying(document, arrays, rng)
            path.write_bytes(data)
            if k % 10 == 0:
                tracemalloc.start()
            found[use(path, X)] += 1
            if k % 10 == 0:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                worst = max(worst, (peak - SLACK) / len(data))
            if (k + 1) % 10_000 == 0 or k + 1 == n:
                print(f"{k + 1} files: {dict(found)}, memory {worst:.2f} of the file", flush=True)
    return 0


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    sys.exit(main(*(arguments + [100_000, 0][len(arguments) :])))
