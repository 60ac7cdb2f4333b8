"""Losses of gradient boosting: what the scalar formulas mean for a whole table.

A loss knows how many raw predictions a row has, where they start, how its gradients are
computed, and how raw predictions become predictions. Its formulas stand in
``gpuens.kernels.scalars.losses``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from .devices import Device
from .kernels.dtypes import SUM_CHUNK, Totals
from .kernels.gradients import gradients
from .kernels.log_sum_exp import log_sum_exp
from .kernels.probabilities import probabilities
from .kernels.scalars import losses as formulas
from .kernels.scalars.elementary import log
from .kernels.scalars.primitives import vectorise


def ordered_sum(values: Any, device: Device) -> float:
    """Sum of a float64 vector in the order of ``kernels.gradients``, the same everywhere."""
    xp = device.xp
    size = max(SUM_CHUNK, 1 << (int(values.shape[0]) - 1).bit_length())
    padded = xp.zeros(size, dtype=xp.float64)
    padded[: values.shape[0]] = values
    while size > 1:
        size //= 2
        padded = padded[:size] + padded[size:]
    return float(padded[0])


class Loss(ABC):
    """Base of the losses.

    Raw predictions and targets are arrays on one device; ``raw`` has shape
    (n_outputs, n_rows).
    """

    n_outputs: int = 1

    @abstractmethod
    def base_score(self, y: Any, weight: Any, device: Device) -> np.ndarray:
        """The best constant raw prediction, float64 of shape (n_outputs,)."""

    @abstractmethod
    def formula(self) -> Any:
        """The named tuple of ``kernels.scalars.losses``."""

    def targets(self, y: Any, k: int, device: Device) -> Any:
        """The target of output k, float64 of shape (n_rows,)."""
        return y

    def shift(self, raw: Any, device: Device) -> Any:
        """What is subtracted from every output of a row; empty for nothing."""
        return device.xp.empty(0)

    def gradients(self, target: Any, raw: Any, shift: Any, weight: Any, g: Any, h: Any) -> Totals:
        """Fill ``g`` and ``h`` of one output; see ``kernels.gradients``."""
        return gradients(self.formula(), target, raw, shift, weight, g, h)

    def mean(self, y: Any, raw: Any, weight: Any, device: Device) -> float:
        """Weighted mean of the loss over the rows; the same number on every device."""
        value = vectorise(_VALUES[type(self.formula())])
        parameter = self.formula().parameter
        shift = self.shift(raw, device)
        total = device.xp.zeros(raw.shape[1])
        for k in range(self.n_outputs):
            f = raw[k] - shift if shift.size else raw[k]
            total = total + value(self.targets(y, k, device), f, parameter)
        if weight.size == 0:
            return ordered_sum(total, device) / raw.shape[1]
        return ordered_sum(total * weight, device) / ordered_sum(weight, device)

    @abstractmethod
    def predict(self, raw: Any, device: Device) -> Any:
        """Predictions from raw ones: (n_rows,) for regression, else class probabilities of
        shape (n_rows, n_classes)."""


_VALUES = {cls: functions.value for cls, functions in formulas.LOSSES.items()}


def _weighted_mean(y: Any, weight: Any, device: Device) -> float:
    if weight.size == 0:
        return ordered_sum(y, device) / y.shape[0]
    return ordered_sum(y * weight, device) / ordered_sum(weight, device)


class SquaredError(Loss):
    """½ (y - f)²; predicts the mean."""

    def formula(self) -> Any:
        return formulas.SquaredError()

    def base_score(self, y: Any, weight: Any, device: Device) -> np.ndarray:
        return np.array([_weighted_mean(y, weight, device)])

    def predict(self, raw: Any, device: Device) -> Any:
        return raw[0].copy()


class BinomialLogLoss(Loss):
    """Log loss of two classes, 0 and 1; raw predictions are log-odds."""

    def formula(self) -> Any:
        return formulas.BinomialLogLoss()

    def base_score(self, y: Any, weight: Any, device: Device) -> np.ndarray:
        p = np.clip(_weighted_mean(y, weight, device), 1e-15, 1 - 1e-15)
        return np.array([log(float(p)) - log(float(1.0 - p))])

    def predict(self, raw: Any, device: Device) -> Any:
        return probabilities(raw)


class MultinomialLogLoss(Loss):
    """Log loss of K classes, numbered from 0; one raw prediction a class."""

    def __init__(self, n_classes: int) -> None:
        self.n_outputs = n_classes

    def formula(self) -> Any:
        return formulas.MultinomialLogLoss(self.n_outputs / (self.n_outputs - 1.0))

    def targets(self, y: Any, k: int, device: Device) -> Any:
        return (y == k).astype(np.float64)

    def base_score(self, y: Any, weight: Any, device: Device) -> np.ndarray:
        shares = [
            _weighted_mean(self.targets(y, k, device), weight, device)
            for k in range(self.n_outputs)
        ]
        return np.array([log(max(float(p), 1e-15)) for p in shares])

    def shift(self, raw: Any, device: Device) -> Any:
        return log_sum_exp(raw)

    def predict(self, raw: Any, device: Device) -> Any:
        return probabilities(raw)
