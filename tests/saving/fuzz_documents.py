"""A coverage-guided fuzzer of what model files say: ``python -m tests.saving.fuzz_documents`` with
libFuzzer's options, such as ``-runs=100000``. Needs atheris (pip install atheris).

libFuzzer makes up documents beside the arrays of saved models; each must load and predict, or be
refused with a ``DamagedError``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODELS = ("RandomForestClassifier", "QuantileForestRegressor", "GradientBoostingRegressor",
          "BaggingClassifier")  # fmt: skip


def sources() -> list[tuple[str, dict[str, Any]]]:
    """The entries of saved models as JSON, with their arrays."""
    from safetensors import safe_open
    from safetensors.numpy import load_file

    from gpuens.saving.file import DOCUMENT

    from .model_files import SAVED

    found = []
    for name in MODELS:
        path = SAVED / "format-1" / f"{name}.gpuens"
        with safe_open(path, framework="numpy") as file:
            entries = json.loads(file.metadata()[DOCUMENT])["entries"]
        found.append((json.dumps(entries, separators=(",", ":")), load_file(path)))
    return found


def trial(known: list[tuple[str, dict[str, Any]]]) -> Callable[[bytes], None]:
    """The function that libFuzzer calls: the first byte chooses the arrays, the others are the
    document."""
    from gpuens.saving.codec import Decoder, UntrustedError
    from gpuens.saving.records import DamagedError

    from .model_files import table

    X, _ = table()

    def try_one(data: bytes) -> None:
        if not data:
            return
        arrays = {name: array.copy() for name, array in known[data[0] % len(known)][1].items()}
        try:
            entries = json.loads(data[1:])
        except (ValueError, RecursionError):
            return
        try:
            model = Decoder(arrays, ()).decode(entries)
        except (DamagedError, UntrustedError, ImportError):
            return
        try:
            model.predict(X)
        except Exception:  # a model may be nonsense, as long as it only says so
            return

    return try_one


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["gpuens.saving.codec", "gpuens.saving.records"]):
        known = sources()
        try_one = trial(known)
    with tempfile.TemporaryDirectory() as folder:
        for i, (text, _) in enumerate(known):
            (Path(folder) / str(i)).write_bytes(bytes([i]) + text.encode())
        atheris.Setup([sys.argv[0], folder, "-max_len=100000", *sys.argv[1:]], try_one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
