"""Targets of one or several outputs, column by column."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..devices.placement import Device, on_host, to_numpy
from ..inputs.targets import read_labels, read_target


def shape_of(y: Any) -> tuple[int, ...]:
    """The shape of a target, which may be a data frame or a list."""
    host = on_host(y)
    return tuple(host.shape if hasattr(host, "shape") else np.asarray(host).shape)


def columns_of(y: Any) -> list[Any]:
    """The outputs of a target, one array each."""
    host, shape = on_host(y), shape_of(y)
    if len(shape) != 2:
        return [y]
    if issparse(host):
        raise ValueError("sparse multilabel-indicator for y is not supported. Pass y.toarray().")
    if shape[1] == 0:
        raise ValueError(f"y has the shape {shape}, without a single output: pass a column.")
    if hasattr(host, "iloc"):
        return [host.iloc[:, k] for k in range(shape[1])]
    if hasattr(host, "column"):  # pyarrow
        return [host.column(k) for k in range(shape[1])]
    array = y if hasattr(y, "shape") else np.asarray(y)
    return [array[:, k] for k in range(shape[1])]


def class_numbers(
    y: Any, known: list[np.ndarray], n_rows: int, device: Device, *, estimator: Any, name: str
) -> np.ndarray:
    """Labels as class numbers of a fitted model.

    Parameters
    ----------
    y : array, shape (n_rows,) or (n_rows, n_outputs)
    known : list of ndarray
        The classes of each output.
    n_rows, device, estimator, name
        As for ``read_labels``.

    Returns
    -------
    int64, shape (n_rows, n_outputs), NumPy
        -1 for a label that the model does not know.

    Raises
    ------
    ValueError
        What ``read_labels`` does not take, or another number of outputs.
    """
    columns = columns_of(y)
    if len(columns) != len(known):
        raise ValueError(
            f"{name} has {len(columns)} outputs, the model was fitted with {len(known)}."
        )
    numbers = []
    for column, classes in zip(columns, known, strict=True):
        labels = read_labels(column, n_rows, device, estimator=estimator, name=name)
        number_of = {label: number for number, label in enumerate(classes.tolist())}
        found = [number_of.get(label, -1) for label in labels.classes.tolist()]
        numbers.append(np.array(found, np.int64)[to_numpy(labels.codes)])
    return np.stack(numbers, axis=1)


def targets_of(
    y: Any, n_outputs: int, n_rows: int, device: Device, *, estimator: Any, name: str
) -> np.ndarray:
    """Targets for a fitted model, float64 of shape (n_rows, n_outputs), NumPy.

    Raises
    ------
    ValueError
        What ``read_target`` does not take, or another number of outputs.
    """
    columns = columns_of(y)
    if len(columns) != n_outputs:
        raise ValueError(
            f"{name} has {len(columns)} outputs, the model was fitted with {n_outputs}."
        )
    targets = [read_target(c, n_rows, device, estimator=estimator, name=name) for c in columns]
    return np.stack([to_numpy(target) for target in targets], axis=1)


def labels_of_numbers(classes: np.ndarray, k: Any, device: Device) -> Any:
    """Labels by number; on the host where the device has no such type."""
    if classes.dtype.kind in "biuf":
        return device.asarray(classes)[k]
    return classes[to_numpy(k)]


def side_by_side(labels: list[Any], xp: Any) -> Any:
    """The labels of several outputs as the columns of a table, those of one as they are."""
    if len(labels) == 1:
        return labels[0]
    if len({label.dtype.kind in "biuf" for label in labels}) > 1:  # text would swallow numbers
        labels = [to_numpy(label).astype(object) for label in labels]
    return (np if isinstance(labels[0], np.ndarray) else xp).stack(labels, axis=1)
