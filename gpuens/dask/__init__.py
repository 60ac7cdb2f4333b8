"""Estimators on a Dask cluster: gradient boosting and forests, for tables in partitions.

The model is that of ``gpuens`` on the same rows in memory, bit for bit, whatever the number of
workers and however the rows are cut. ``pip install "gpuens[dask]"`` installs what is needed.
"""

from __future__ import annotations

try:
    import distributed as _distributed
except ImportError as error:
    raise ImportError(
        'gpuens.dask needs Dask and its scheduler: pip install "gpuens[dask]".'
    ) from error

from .boosting import GradientBoostingClassifier, GradientBoostingRanker, GradientBoostingRegressor
from .forests import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)

__all__ = [
    "BaggingClassifier",
    "BaggingRegressor",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "GradientBoostingClassifier",
    "GradientBoostingRanker",
    "GradientBoostingRegressor",
    "IsolationForest",
    "RandomForestClassifier",
    "RandomForestRegressor",
]

del _distributed
