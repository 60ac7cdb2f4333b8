"""Predictions for tables that are larger than memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .devices.placement import to_numpy
from .files import replacing
from .inputs.arrays import is_frame
from .inputs.frames import column_names
from .tables.sources import pyarrow, source_of

METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


def predict_batches(
    model: Any,
    batches: Any,
    *,
    method: str = "predict",
    path: str | os.PathLike[str] | None = None,
) -> Iterator[Any] | int:
    """Predict a table that is read in batches.

    Parameters
    ----------
    model : fitted estimator
        Of this package.
    batches : path, pyarrow.dataset.Dataset, polars.LazyFrame, ndarray or function
        As for ``BinnedTable.from_batches``. Of files and frames the columns are read that the model
        was fitted on, whatever others there are; of tuples the first entry.
    method : {"predict", "predict_proba", "predict_log_proba", "decision_function"}, \
default="predict"
        The method of the model that is called for each batch.
    path : str or path, default=None
        A parquet file for the predictions, in the order of the rows: the column "prediction", or
        a column for each class or output. It is replaced if it exists, once it is complete.

    Returns
    -------
    iterator of arrays, or int
        The result of the method for each batch; with ``path`` the number of rows written.

    Raises
    ------
    TypeError, ValueError
        An argument is wrong, columns are missing, or a batch is not what the model was fitted on.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuens import GradientBoostingRegressor, predict_batches
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = GradientBoostingRegressor(n_estimators=5, device="cpu").fit(X, X[:, 0])
    >>> parts = list(predict_batches(model, lambda: ((X[i : i + 50],) for i in range(0, 200, 50))))
    >>> [part.shape for part in parts]
    [(50,), (50,), (50,), (50,)]
    """
    if method not in METHODS or not hasattr(model, method):
        known = [name for name in METHODS if hasattr(model, name)]
        raise ValueError(
            f"method must be one of {known} for a {type(model).__name__}, got {method!r}."
        )
    predictions = _predictions(model, source_of(batches, None, None), method)
    return predictions if path is None else _write(predictions, Path(path), _names(model, method))


def _predictions(model: Any, source: Any, method: str) -> Iterator[Any]:
    names = getattr(model, "feature_names_in_", None)
    for batch in source.read():
        X = batch.X
        if names is not None and is_frame(X):
            missing = sorted(set(names) - set(column_names(X)))
            if missing:
                raise ValueError(
                    f"batches has no columns {missing}, which the model was fitted on."
                )
            X = X.select(list(names)) if hasattr(X, "select") else X[list(names)]
        yield getattr(model, method)(X)


def _names(model: Any, method: str) -> list[str] | None:
    """Return what the columns of a method's result mean, if they are classes."""
    if method == "predict" or not hasattr(model, "classes_"):
        return None
    return [str(label) for label in model.classes_]


def _write(predictions: Iterator[Any], path: Path, names: list[str] | None) -> int:
    """Write predictions to a parquet file, and return the number of rows."""
    arrow, parquet = pyarrow(), import_module("pyarrow.parquet")
    n_rows = 0
    with ExitStack() as stack:
        unfinished, writer = stack.enter_context(replacing(path)), None
        for prediction in predictions:
            if isinstance(prediction, list):
                raise ValueError(
                    "path must be None where a method returns a list, an array for each output: "
                    "write the arrays of the iterator to files of their own."
                )
            values = np.asarray(to_numpy(prediction))
            columns = [values] if values.ndim == 1 else list(values.T)
            labels = ["prediction"]
            if len(columns) > 1:
                labels = names or [f"prediction_{i}" for i in range(len(columns))]
            table = arrow.table(dict(zip(labels, columns, strict=True)))
            if writer is None:
                writer = stack.enter_context(parquet.ParquetWriter(unfinished, table.schema))
            writer.write_table(table)
            n_rows += len(values)
        if writer is None:
            raise ValueError("batches holds no rows: there is nothing to predict.")
    return n_rows
