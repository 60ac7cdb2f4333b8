"""Workers that share the rows of a table and grow trees on GPUs: threads here, several on a GPU if
need be, and one of them on the CPU."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from gpuens import (
    BaggingRegressor,
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from gpuens.devices import among_workers
from gpuens.kernels.runtime.collective import Workers, sharing
from tests.gpu.test_shared_rows_on_gpu import CUTS, WEIGHT, N, X, Y
from tests.support.thread_workers import cut, run_workers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores"),
]
CLASSES = np.digitize(Y, [-0.5, 0.5])
SMALL = {"n_estimators": 3, "max_depth": 3, "max_bins": 32, "oob_score": True}
CASES: dict[str, tuple[type, Any, bool, dict[str, Any]]] = {
    "classes": (RandomForestClassifier, CLASSES, True, SMALL),
    "regression": (RandomForestRegressor, Y, False, SMALL | {"max_leaf_nodes": 9}),
    "honest": (RandomForestRegressor, Y, True, SMALL | {"honest": True}),
    "random cuts": (
        ExtraTreesClassifier, CLASSES, False,
        SMALL | {"bootstrap": True, "categorical_features": [1]},
    ),
    "isolation forest": (
        IsolationForest, None, False, {"n_estimators": 4, "max_samples": 40, "contamination": 0.1},
    ),
    "bag": (
        BaggingRegressor, Y, False,
        {"estimator": DecisionTreeRegressor(max_depth=3, max_bins=32), "n_estimators": 3},
    ),
}  # fmt: skip


def learned(model: Any) -> list[Any]:
    """Return the fingerprints of the trees, and what out-of-bag rows or scores have given."""
    parts = [model] if hasattr(model, "forest_") else model.estimators_
    names = ("oob_score_", "offset_")
    return [
        *(part.forest_.fingerprint() for part in parts),
        *(getattr(model, name) for name in names if hasattr(model, name)),
    ]


@pytest.mark.parametrize("places", ["g", "gg", "cgg"])
@pytest.mark.parametrize("cls, y, weighted, settings", CASES.values(), ids=CASES)
def test_the_model_is_that_of_one_process(
    cls, y, weighted, settings, places, gpus, monkeypatch
):  # fmt: skip
    """Workers are on GPUs ("g") or on the CPU ("c")."""
    names = itertools.count()  # threads may have the same one
    monkeypatch.setattr(
        among_workers, "name_of_gpu",
        lambda device: f"GPU {next(names)}" if device.is_gpu else among_workers.NO_GPU,
    )  # fmt: skip
    rows = X, y, WEIGHT if weighted else None
    model = {"random_state": 0, **settings}
    plain = cls(**model, device="cpu").fit(*rows)
    ends = {1: [N], **CUTS}[len(places)]
    pieces = cut(rows, ends)

    def work(collective):
        rank = collective.rank
        share = Workers(collective, [0, *ends][rank], len(pieces[rank][0]), N)
        device = f"cuda:{gpus[rank % len(gpus)]}" if places[rank] == "g" else "cpu"
        with sharing(share):
            return cls(**model, device=device).fit(*pieces[rank])

    for shared in run_workers(len(places), work):
        assert learned(shared) == learned(plain)
