"""Partial dependence of any model: every row predicted at every point of the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..devices.memory import available_memory, format_bytes
from ..devices.placement import Device
from .columns import Columns

RESPONSES = ("predict_proba", "decision_function")


def response_of(estimator: Any, response_method: str) -> str:
    """The name of the method that is averaged: of a classifier the one asked for, or the first that
    it has; of a regressor ``predict``.

    Raises
    ------
    ValueError
        The estimator does not have it.
    """
    if not is_classifier(estimator):
        return "predict"
    wanted = RESPONSES if response_method == "auto" else (response_method,)
    for name in wanted:
        if hasattr(estimator, name):
            return name
    raise ValueError(
        f"{type(estimator).__name__} has no {' and no '.join(wanted)}, whose mean could be taken. "
        f"Pass another response_method or a model with {' or '.join(RESPONSES)}."
    )


def responses(estimator: Any, table: Any, method: str, device: Device) -> Any:
    """What a model says of the rows of a table: float64, shape (n_rows, n_outputs), on the device;
    of two classes only the second."""
    answer = device.asarray(getattr(estimator, method)(table), np.float64)
    if answer.ndim == 1:
        return answer[:, None]
    two_classes = method == "predict_proba" and answer.shape[1] == 2
    return answer[:, 1:] if two_classes else answer


def brute_force(
    estimator: Any,
    columns: Columns,
    points: Sequence[Mapping[int, Any]],
    method: str,
    weight: Any = None,
    keep_rows: bool = False,
) -> tuple[Any, Any]:
    """Replace features of all rows by the values of each point, predict, and average.

    Parameters
    ----------
    estimator : fitted estimator
    columns : Columns
    points : sequence of mappings
        Values by the position of the feature.
    method : str
        The method of the estimator.
    weight : float64, shape (n_rows,), on the device of the columns, or None
    keep_rows : bool
        Whether to keep what is predicted for each row.

    Returns
    -------
    average : float64, shape (n_outputs, n_points)
    individual : float64, shape (n_outputs, n_rows, n_points), or None
        Both on the device of the columns.

    Raises
    ------
    MemoryError
        The predictions of all rows would not fit.
    """
    device, n_rows = columns.device, columns.shape[0]
    averages, individual = [], None
    for first in range(0, len(points), columns.most_copies):
        some = points[first : first + columns.most_copies]
        answer = responses(estimator, columns.filled(some), method, device)
        answer = answer.reshape(len(some), n_rows, -1)
        averages.append(_mean(answer, weight, device))
        if keep_rows:
            if individual is None:
                individual = _room((answer.shape[2], n_rows, len(points)), device)
            individual[:, :, first : first + len(some)] = answer.transpose(2, 1, 0)
    return device.xp.concatenate(averages).T, individual


def _mean(answer: Any, weight: Any, device: Device) -> Any:
    """Mean over the rows of (n_points, n_rows, n_outputs)."""
    if weight is None:
        return answer.mean(axis=1)
    return device.xp.einsum("prk,r->pk", answer, weight) / weight.sum()


def _room(shape: tuple[int, ...], device: Device) -> Any:
    size, available = 8 * prod(shape), available_memory()
    if available is not None and size > available:
        raise MemoryError(
            f"The predictions of {shape[1]} rows at {shape[2]} points take {format_bytes(size)}, "
            f"{format_bytes(available)} are free. Pass fewer rows, a smaller grid_resolution, or "
            "kind='average'."
        )
    return device.xp.empty(shape)
