"""Gains of documents by their relevance."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..devices.placement import Device
from ..kernels.ranking.measures import discounted_gains
from ..kernels.ranking.order import order_queries
from ..kernels.ranking.queries import Queries
from ..kernels.runtime.arrays import Array
from ..kernels.scalars import ranking
from ..kernels.scalars.primitives import vectorise

MOST_LABELS = 31
"""Labels of exponential gains."""
NAMES = ("exponential", "linear")
_EXPONENTIAL = tuple(2.0**k - 1.0 for k in range(MOST_LABELS))

_discount = vectorise(ranking.discount)


def read_label_gain(label_gain: Any) -> str | tuple[float, ...]:
    """Check the parameter ``label_gain``: "exponential", "linear", or the gain of each label.
    Raises a ValueError that names the parameter, what it got and what it wants."""
    if isinstance(label_gain, str) and label_gain in NAMES:
        return label_gain
    several = isinstance(label_gain, (Sequence, np.ndarray)) and not isinstance(label_gain, str)
    if several and len(label_gain) > 0 and all(map(_is_gain, label_gain)):
        return tuple(map(float, label_gain))
    raise ValueError(
        "label_gain must be 'exponential' (2**y - 1), 'linear' (y), or a list with a finite gain "
        f">= 0 for each relevance from 0 on, got {label_gain!r}."
    )


def _is_gain(value: Any) -> bool:
    return isinstance(value, numbers.Real) and 0.0 <= float(value) < np.inf


def check_relevance(relevance: Array, label_gain: str | tuple[float, ...], name: str) -> None:
    """Raise ValueError unless each relevance has a gain; ``name`` is that of the target."""
    if bool((relevance < 0).any()):
        row = int((relevance < 0).argmax())
        raise ValueError(
            f"{name} must hold relevances >= 0, got {float(relevance[row])} in row {row}: shift "
            "them so that the least relevant documents have 0."
        )
    if label_gain == "linear":
        return
    fractional = relevance != abs(relevance).round()
    if bool(fractional.any()):
        row = int(fractional.argmax())
        raise ValueError(
            f"{name} must hold whole numbers where gains are {_described(label_gain)}, got "
            f"{float(relevance[row])} in row {row}: round them, or pass a loss and metrics with "
            "label_gain='linear'."
        )
    n_labels = MOST_LABELS if isinstance(label_gain, str) else len(label_gain)
    if (largest := float(relevance.max())) >= n_labels:
        raise ValueError(
            f"{name} must hold relevances up to {n_labels - 1} where gains are "
            f"{_described(label_gain)}, got {largest:g}: pass label_gain with the gain of each, or "
            "'linear'."
        )


def _described(label_gain: str | tuple[float, ...]) -> str:
    return "2**y - 1" if isinstance(label_gain, str) else f"a list of {len(label_gain)}"


def gains(relevance: Array, label_gain: str | tuple[float, ...], device: Device) -> Array:
    """Return the gain of each document, float64 on the device."""
    if label_gain == "linear":
        return relevance.copy()
    table = _EXPONENTIAL if isinstance(label_gain, str) else label_gain
    return device.asarray(np.array(table))[relevance.astype(np.int64)]


def discounts(queries: Queries, device: Device) -> Array:
    """Return the discount of each rank, float64 of shape (queries.longest,)."""
    return device.asarray(_discount(np.arange(queries.longest, dtype=np.float64)))


def ideal_gains(gain: Array, queries: Queries, discount: Array, depth: int) -> Array:
    """Return the largest discounted cumulative gain of each query, up to a rank."""
    return discounted_gains(gain, order_queries(gain, queries), queries, discount, depth)
