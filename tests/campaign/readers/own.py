"""Fuzzers of the library's own files: saved models and binned tables."""

from __future__ import annotations

import io
import json
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load as arrays_in
from safetensors.numpy import save
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier

import gpuens
from gpuens.saving.codec import UntrustedError
from gpuens.saving.file import DOCUMENT, ModelFileError, checksum
from gpuens.tables.file import DOCUMENT as TABLE
from tests.exchange.mutations import with_a_value_changed
from tests.saving.fuzz_saving import NAMES_A_PARAMETER, damaged, lying
from tests.saving.model_files import SAVED, fitted, table

from ..answers import answers
from ..attack import LIBRARY
from .fuzzing import Fuzzer, refused

_LENGTH_BYTES = 8
BOOSTING = "GradientBoostingRegressor"
MADE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("StackingClassifier", {}),
    ("VotingClassifier", {}),
    ("GradientBoostingClassifier", {"dropout": 0.5, "n_estimators": 6}),
    (BOOSTING, {"loss": "student_t"}),
    (BOOSTING, {"loss": "negative_binomial", "dropout": 0.5}),
    (BOOSTING, {"loss": "cox"}),
    (BOOSTING, {"loss": "aft"}),
    ("GradientBoostingRanker", {"n_estimators": 3}),
    ("RandomSurvivalForest", {"n_estimators": 3, "oob_score": True}),
    ("ExtraSurvivalTrees", {"n_estimators": 2}),
    *(("ConformalRegressor", {"method": method, "cv": 2, "estimator": kind(n_estimators=15)})
      for method, kind in (("split", gpuens.GradientBoostingRegressor),
                           ("cv+", gpuens.ObliqueRandomForestRegressor),
                           ("bag", gpuens.RandomForestRegressor),
                           ("quantile", gpuens.GradientBoostingRegressor))),
)  # fmt: skip
"""Models that are in no file of ``SAVED``: classes and settings."""


@lru_cache(256)
def contents(data: bytes, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """Return the document and the arrays of a safetensors file, or None if it is broken."""
    try:
        length = int.from_bytes(data[:_LENGTH_BYTES], "little")
        header = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + length])
        return json.loads(header["__metadata__"][name]), arrays_in(data)
    except Exception:  # whatever a broken file makes of its parsers
        return None


class SavedModels(Fuzzer):
    """``gpuens.load``: cut and flipped files, and contents that lie with a valid checksum."""

    weight = 2.0
    watched = tuple(str(Path(LIBRARY[0]) / room) for room in ("saving", "forest"))

    def sources(self) -> list[bytes]:
        made = [path.read_bytes() for path in sorted(SAVED.glob("*/*.gpuens"))]
        path = self.folder / "model.gpuens"
        for name, settings in MADE:
            fitted(name, **settings).save(path)
            made.append(path.read_bytes())
        return made

    def damage(self, data: bytes, rng: np.random.Generator) -> bytes:
        parts = contents(data, DOCUMENT) if rng.random() < 0.8 else None
        if parts is None or not isinstance(parts[0].get("entries"), list):
            return damaged(data, rng) if data else data
        return lying(*parts, rng)

    def read(self, data: bytes) -> None:
        path = self.scratch / "model.gpuens"
        path.write_bytes(data)
        try:
            model = gpuens.load(path)
        except Exception as error:
            refused(error, (ModelFileError, UntrustedError))
            return
        self.use(model)

    def use(self, model: Any) -> None:
        """Ask for all answers; parameters may be refused then."""
        try:
            with np.errstate(all="ignore"):
                answers(model, table()[0][:9])
        except NotFittedError:
            return
        except (ValueError, TypeError) as error:
            if not any(words in str(error) for words in NAMES_A_PARAMETER):
                raise


class SavedMembers(SavedModels):
    """Models that hold members of scikit-learn, which skops reads. They are not asked for
    predictions: scikit-learn trusts its own trees."""

    weight = 0.5

    def sources(self) -> list[bytes]:
        path, made = self.folder / "model.gpuens", []
        for name in ("BaggingClassifier", "AdaBoostClassifier"):
            fitted(name, n_estimators=2, estimator=DecisionTreeClassifier(max_depth=2)).save(path)
            made.append(path.read_bytes())
        return made

    def damage(self, data: bytes, rng: np.random.Generator) -> bytes:
        parts = contents(data, DOCUMENT)
        if parts is None or rng.random() < 0.3:
            return super().damage(data, rng)
        document, arrays = dict(parts[0]), parts[1]
        zips = [name for name, a in arrays.items() if a.tobytes()[:2] == b"PK"]
        if not zips:
            return super().damage(data, rng)
        name = zips[int(rng.integers(len(zips)))]
        arrays = arrays | {name: np.frombuffer(_schema_changed(arrays[name].tobytes(), rng), "u1")}
        document.pop("checksum", None)
        document["checksum"] = checksum(document, arrays)
        return save(arrays, metadata={DOCUMENT: json.dumps(document)})

    def use(self, model: Any) -> None:
        pass


def _schema_changed(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file of skops whose description is changed, as a valid archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        schema = json.loads(files["schema.json"])
        files["schema.json"] = json.dumps(with_a_value_changed(schema, rng)).encode()
    except Exception:  # whatever a broken archive makes of its parsers
        return data
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


class Tables(Fuzzer):
    """``BinnedTable.open``, and a fit on what it opens."""

    watched = (str(Path(LIBRARY[0]) / "tables"),)

    def sources(self) -> list[bytes]:
        import pandas as pd

        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, 3)).astype(np.float32)
        X[3, 1] = np.nan
        frame = pd.DataFrame({"a": X[:, 0], "town": rng.choice(["Ulm", "Bonn", "Kiel"], 40)})

        def batches(rows: Any, y: Any) -> Any:
            return lambda: iter([(rows, y)])

        weight = rng.integers(0, 3, 40).astype(np.float64)
        made = []
        for number, (rows, settings) in enumerate([
            (X, {"y": X[:, 0]}),
            (X, {"y": np.where(X[:, 0] > 0, "yes", "no"), "sample_weight": weight}),
            (batches(frame, X[:, 1] > 0), {"categorical_features": ["town"], "max_bins": 16}),
        ]):  # fmt: skip
            path = self.folder / f"table-{number}"
            path.unlink(missing_ok=True)
            gpuens.BinnedTable.from_batches(rows, path=path, **settings)
            made.append(path.read_bytes())
        return made

    def damage(self, data: bytes, rng: np.random.Generator) -> bytes:
        parts = contents(data, TABLE) if rng.random() < 0.8 else None
        if parts is None:
            return damaged(data, rng) if data else data
        document, arrays = parts
        if rng.random() < 0.5 and document:
            document = with_a_value_changed(document, rng)
            return save(arrays, metadata={TABLE: json.dumps(document)})
        changed = lying({"entries": []}, arrays, rng)
        return save(arrays_in(changed), metadata={TABLE: json.dumps(document)})

    def read(self, data: bytes) -> None:
        path = self.scratch / "damaged"
        path.unlink(missing_ok=True)  # an open table maps the old one
        path.write_bytes(data)
        try:
            opened = gpuens.BinnedTable.open(path)
        except Exception as error:
            refused(error, ValueError)
            if "cannot be opened as a table" not in str(error):
                raise
            return
        self.use(opened)

    def use(self, opened: Any) -> None:
        """Fit a model, which may refuse the target and the weights."""
        if opened.y is None:
            opened_y: Any = np.arange(len(opened)) % 2
        else:
            opened_y = None
        settings = {"n_estimators": 1, "max_depth": 2, "device": "cpu", "early_stopping": False}
        settings["max_bins"] = opened.max_bins
        classes = opened_y is not None or opened.y.dtype.kind in "Ub"
        kind = gpuens.GradientBoostingClassifier if classes else gpuens.GradientBoostingRegressor
        try:
            kind(**settings, n_jobs=1).fit(opened, opened_y)
        except ValueError as error:
            if not any(name in str(error) for name in ("y ", "sample_weight", "X ", "classes")):
                raise
