"""Fuzzers of the readers of other libraries' models."""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gpuens
from gpuens.exchange.reading.ubjson import parse_ubjson
from tests.exchange.mutations import (
    with_a_value_changed,
    with_a_word_changed,
    with_bytes_changed,
)
from tests.support.forest_problems import hard_rows
from tests.support.small_models import (
    as_bytes,
    catboost_model,
    lightgbm_model,
    treelite_model,
    ubjson,
    xgboost_model,
)

from ..attack import LIBRARY
from .fuzzing import Fuzzer, refused

MOST_FEATURES = 100
"""Models of more features are not asked for predictions: making the rows would take long."""


def use(model: Any) -> None:
    """Predict hard rows with an imported model."""
    if model.n_features_in_ > MOST_FEATURES:
        return
    rows = hard_rows(model.forest_, 5)
    model.__dict__.pop("feature_names_in_", None)
    with np.errstate(all="ignore"):
        model.predict(rows, output_margin=True)
        model.predict(rows)


def exported(write: str, **settings: Any) -> bytes:
    """Return models of this library as another one's, of three classes."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    model = gpuens.GradientBoostingClassifier(n_estimators=2, max_depth=2, device="cpu").fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        getattr(model, write)(path, **settings)
        return path.read_bytes()


class ModelFuzzer(Fuzzer):
    """A reader of a model that is text, JSON or UBJSON."""

    watched = (str(Path(LIBRARY[0]) / "exchange"),)
    reader: Callable[[bytes], Any]

    def damage(self, data: bytes, rng: np.random.Generator) -> bytes:
        if rng.random() < 0.7:
            changed = self.structured(data, rng)
            if changed is not None:
                return changed
        return with_bytes_changed(data, rng)

    def structured(self, data: bytes, rng: np.random.Generator) -> bytes | None:
        """Return a copy whose form is kept and whose content is not; None of broken forms."""
        try:
            document = json.loads(data)
            if isinstance(document, dict) and document:
                return as_bytes(with_a_value_changed(document, rng))
        except (ValueError, RecursionError):
            pass
        return None

    def read(self, data: bytes) -> None:
        try:
            model = type(self).reader(data)
        except Exception as error:
            refused(error, gpuens.ImportedModelError)
            return
        use(model)


class XGBoostJson(ModelFuzzer):
    reader = staticmethod(gpuens.from_xgboost)

    def sources(self) -> list[bytes]:
        return [
            as_bytes(xgboost_model()),
            as_bytes(xgboost_model((1, 7, 0), objective={"name": "binary:logistic"})),
            as_bytes(xgboost_model(objective={"name": "rank:ndcg"})),
            exported("to_xgboost", allow_rounding=True),
        ]


class XGBoostBinary(XGBoostJson):
    def sources(self) -> list[bytes]:
        return [ubjson(json.loads(data)) for data in super().sources()]

    def structured(self, data: bytes, rng: np.random.Generator) -> bytes | None:
        try:
            document = parse_ubjson(data)
            document = json.loads(json.dumps(document, default=np.ndarray.tolist))
            return ubjson(with_a_value_changed(document, rng))
        except (ValueError, TypeError, OverflowError, RecursionError, LookupError, struct.error):
            return None  # also of values that UBJSON does not know, such as None


class LightGBM(ModelFuzzer):
    reader = staticmethod(gpuens.from_lightgbm)

    def sources(self) -> list[bytes]:
        objectives = ("regression", "binary sigmoid:1", "poisson", "lambdarank")
        return [lightgbm_model(objective).encode() for objective in objectives] + [
            exported("to_lightgbm")
        ]

    def structured(self, data: bytes, rng: np.random.Generator) -> bytes | None:
        try:
            return with_a_word_changed(data, rng)
        except ValueError:
            return None


class CatBoost(ModelFuzzer):
    reader = staticmethod(gpuens.from_catboost)

    def sources(self) -> list[bytes]:
        return [as_bytes(catboost_model())]


class Treelite(ModelFuzzer):
    reader = staticmethod(lambda data: gpuens.from_treelite(data.decode(errors="replace")))

    def sources(self) -> list[bytes]:
        return [as_bytes(treelite_model())]
