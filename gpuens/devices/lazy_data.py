"""Data that is computed when it is read."""

from __future__ import annotations

from typing import Any

import numpy as np


def require_data(array: Any, name: str) -> None:
    """Raise TypeError for collections of Dask and lazy data frames: they would be computed in
    silence, and may be larger than memory."""
    if type(array) is np.ndarray or array is None:
        return
    kind = type(array).__name__
    if hasattr(array, "__dask_graph__"):
        raise TypeError(
            f"{name} is a dask {kind}, which may be larger than memory: pass {name}.compute(), or "
            "use the estimator of the same name in gpuens.dask, which works where its parts are."
        )
    if kind == "LazyFrame":
        raise TypeError(
            f"{name} is a LazyFrame, which holds no data yet: pass {name}.collect(), or of a table "
            "larger than memory gpuens.BinnedTable.from_batches(...)."
        )
