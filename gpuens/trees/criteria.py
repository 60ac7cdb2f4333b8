"""What classification and regression trees learn, as integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..devices.placement import Device, to_numpy
from ..kernels.cart.problem import (
    ABSOLUTE_ERROR,
    ENTROPY,
    GINI,
    MAX_MULTIPLICITY,
    MAX_TREE_ROWS,
    MAX_TREE_WEIGHT,
    MISCLASSIFICATION,
    POISSON,
    SQUARED_ERROR,
    CartTarget,
)

CLASSIFICATION = {
    "gini": GINI,
    "entropy": ENTROPY,
    "log_loss": ENTROPY,
    "misclassification": MISCLASSIFICATION,
}
REGRESSION = {
    "squared_error": SQUARED_ERROR,
    "friedman_mse": SQUARED_ERROR,  # scikit-learn's old name of it
    "poisson": POISSON,
    "absolute_error": ABSOLUTE_ERROR,
}
MAX_VALUE_BITS = 49
"""Fixed-point targets are below ``2**MAX_VALUE_BITS``."""
SUM_BITS = 61
"""And so are their weighted sums below ``2**SUM_BITS``."""
FINE_BITS = 34
"""Outputs with fewer bits have their means corrected by a pass over the rows."""
LARGEST_TO_SQUARE = 2.0**480
"""The weighted sum of the squares of smaller numbers fits into float64."""


@dataclass(frozen=True)
class Problem:
    """A target in the integers of ``kernels.cart.problem``, with the way back.

    criterion : int
    n_classes : tuple of int
        Of each output; empty for regression.
    target : CartTarget
    weight : float64, shape (n_rows,), NumPy
        Integer weights of the rows, over ``weight_scale``.
    weight_scale, value_scale : float
        Powers of two; an integer is the real number times this.
    centre : float64, shape (n_outputs,)
        Subtracted from the targets of a regression beforehand.
    y : float64, shape (n_outputs, n_rows) or (0, 0), NumPy
        The targets of a regression.
    is_coarse : bool
        Whether the integers are good enough to find splits, but not to predict with.
    """

    criterion: int
    n_classes: tuple[int, ...]
    target: CartTarget
    weight: np.ndarray
    weight_scale: float
    value_scale: float
    centre: np.ndarray
    y: np.ndarray
    is_coarse: bool = False

    @property
    def n_outputs(self) -> int:
        return self.target.n_outputs

    @property
    def width(self) -> int:
        """Values of a leaf: class shares of all outputs side by side, or one mean each."""
        return sum(self.n_classes) if self.n_classes else self.n_outputs

    @property
    def gain_unit(self) -> float:
        """How many units of integer gain a unit of impurity decrease is, at a weight of one in
        integers, averaged over the outputs."""
        unit = {
            ENTROPY: math.log(2.0),
            SQUARED_ERROR: self.value_scale * self.value_scale,
            POISSON: self.value_scale,
            ABSOLUTE_ERROR: self.value_scale,
        }.get(self.criterion, 1.0)
        return unit * self.n_outputs


def classification_problem(
    codes: list[Any],
    n_classes: tuple[int, ...],
    weight: Any,
    criterion: str,
    multiplicity: int,
    device: Device,
) -> Problem:
    """The problem of telling classes apart.

    Parameters
    ----------
    codes : list of int64, shape (n_rows,), on the device
        Class numbers, output by output.
    n_classes : tuple of int
    weight : float64, shape (n_rows,), or None
    criterion : str
        A key of ``CLASSIFICATION``.
    multiplicity : int
        Largest number of times that a row can be in a tree's sample.
    """
    xp = device.xp
    begin = np.concatenate([[0], np.cumsum(n_classes)]).astype(np.int64)
    offset = [code + int(first) for code, first in zip(codes, begin, strict=False)]
    classes = xp.stack([code.astype(np.int32) for code in offset])
    integers, scale = _integer_weights(weight, classes.shape[1], multiplicity)
    values = xp.empty((0, 0), dtype=np.int64)
    target = CartTarget(classes, values, device.asarray(integers), begin)
    none = np.empty((0, 0))
    real = integers / scale
    return Problem(
        CLASSIFICATION[criterion], n_classes, target, real, scale, 1.0, np.zeros(len(codes)), none
    )


def regression_problem(
    y: Any, weight: Any, criterion: str, multiplicity: int, device: Device
) -> Problem:
    """The problem of predicting numbers.

    Parameters
    ----------
    y : float64, shape (n_outputs, n_rows)
    weight, criterion, multiplicity
        As for ``classification_problem``.
    """
    y = to_numpy(y)
    integers, weight_scale = _integer_weights(weight, y.shape[1], multiplicity)
    used = y if weight is None else y[:, to_numpy(weight) > 0]
    centre = np.zeros(y.shape[0])
    if criterion != "poisson":
        centre = 0.5 * used.min(axis=1) + 0.5 * used.max(axis=1)
    size = np.abs(used - centre[:, None]).max(axis=1)
    largest = float(size.max())
    total = float(integers.sum()) * multiplicity
    bits = min(MAX_VALUE_BITS, SUM_BITS - math.ceil(math.log2(total)))
    scale = _value_scale(criterion, largest, bits)
    # A row without weight may be further away, but no tree sees it.
    centred = np.clip(y - centre[:, None], -largest, largest)
    values = np.floor(centred * scale + 0.5).astype(np.int64)
    target = CartTarget(
        device.xp.empty((0, 0), dtype=np.int32),
        device.asarray(values),
        device.asarray(integers),
        np.arange(y.shape[0] + 1, dtype=np.int64),
    )
    is_coarse = bool((size[size > 0] * scale < 2.0**FINE_BITS).any())
    real = integers / weight_scale
    return Problem(
        REGRESSION[criterion], (), target, real, weight_scale, scale, centre, y, is_coarse
    )


def _value_scale(criterion: str, largest: float, bits: int) -> float:
    """The power of two that makes the largest value an integer of so many bits."""
    squares = criterion == "squared_error"
    if squares and largest >= LARGEST_TO_SQUARE:
        raise ValueError(
            f"y has values that are {largest:g} away from its middle, and their squares do not fit "
            "into float64: divide y by a constant, or use criterion='absolute_error'."
        )
    if largest == 0:
        return 1.0
    exponent = bits - 1 - math.floor(math.log2(largest))
    return math.ldexp(1.0, min(exponent, 500 if squares else 1000))


def _integer_weights(weight: Any, n: int, multiplicity: int) -> tuple[np.ndarray, float]:
    """Weights as integers >= 1, as fine as the sum over a tree allows, and their scale.

    Whole numbers stay what they are where they fit.
    """
    if n > MAX_TREE_ROWS:
        raise ValueError(
            f"X has {n} rows, a tree takes at most {MAX_TREE_ROWS}. Pass fewer rows, or train "
            "several ensembles on parts of them and let them vote."
        )
    if weight is None:
        return np.ones(n, np.int64), 1.0
    weight = to_numpy(weight)
    with np.errstate(over="ignore"):
        total = float(weight.sum())
    if total == math.inf:
        raise ValueError(
            f"The weights of the rows, up to {float(weight.max()):g} (sample_weight times "
            "class_weight), have no finite sum: divide them by a constant."
        )
    limit = MAX_TREE_WEIGHT // min(multiplicity, MAX_MULTIPLICITY)
    if total <= limit and bool((weight == np.floor(weight)).all()):
        return np.maximum(weight.astype(np.int64), 1), 1.0
    share, binary = math.frexp(total)
    exponent = math.floor(math.log2(max(limit / 2, 1) / share)) - binary
    # In two steps, for the power of two alone can be too large for float64.
    scaled = np.ldexp(np.ldexp(weight, -binary), exponent + binary)
    scale = math.ldexp(1.0, min(exponent, 1000))
    return np.maximum(np.floor(scaled + 0.5).astype(np.int64), 1), scale
