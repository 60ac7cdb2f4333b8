"""Reading the features of a training, whatever kind of table holds them."""

from __future__ import annotations

from typing import Any

from ..devices.placement import Device, home_of
from ..inputs.categories import read_features
from ..inputs.shared_tables import agreed_table
from ..kernels.runtime.collective import ONE_WORKER, Workers
from .binned_table import BinnedTable


def training_features(
    X: Any,
    device: Device,
    *,
    estimator: Any,
    reset: bool = True,
    name: str = "X",
    workers: Workers = ONE_WORKER,
) -> Any:
    """Return the features as numbers, a ``SparseTable`` or the ``BinnedTable`` that was passed;
    ``reset`` sets the attributes of the estimator that describe them."""
    if isinstance(X, BinnedTable):
        if workers is not ONE_WORKER:
            raise TypeError(
                f"{name} must be an array or a data frame where workers share the rows."
            )
        if reset:
            X.describe(estimator)
        return X
    values = read_features(
        X,
        home_of(X, device),
        estimator=estimator,
        reset=reset,
        categorical_features=estimator.categorical_features,
        name=name,
        workers=workers,
    ).values
    return values if workers is ONE_WORKER else agreed_table(values, estimator, workers)
