"""Targets of trees as integers, and from the integers of grown trees back to real numbers."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.special import xlogy

from ..devices.placement import Device, to_numpy
from ..devices.threads import map_in_threads
from ..forest.structure import children, levels
from ..kernels.cart.grow_cart import add_children_impurity
from ..kernels.cart.problem import (
    ABSOLUTE_ERROR,
    COUNT_SHIFT,
    ENTROPY,
    GINI,
    MAX_MULTIPLICITY,
    MAX_TREE_ROWS,
    MAX_TREE_WEIGHT,
    MISCLASSIFICATION,
    POISSON,
    SQUARED_ERROR,
    WEIGHT_MASK,
    CartTarget,
    GrownCart,
)
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.cpu.team import get_threads

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
NODES_TOGETHER = 20_000
"""Nodes of grown trees whose numbers are computed together: their arrays fit into a cache."""
OF_NODES = tuple(set(GrownCart._fields) - {"offset", "categories"})
LARGEST_TO_SQUARE = 2.0**480
"""The sum of the squares of smaller numbers fits into float64."""
LARGEST_ERRORS = {
    "squared_error": (2, 4.0),
    "friedman_mse": (2, 4.0),
    "poisson": (1, 100.0),
    "absolute_error": (1, 2.0),
}
"""Bounds of the mean error of rows: a power of the largest target, and a factor."""


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
    n_outputs: int = field(init=False)
    width: int = field(init=False)
    """Values of a leaf: class shares of all outputs side by side, or one mean each."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_outputs", self.centre.size)
        object.__setattr__(self, "width", sum(self.n_classes) or self.n_outputs)

    def with_unused(self, used: np.ndarray) -> Problem:
        """Return the problem with places for rows of a table that are in no sample, and have no
        part in this one; ``used`` marks the others, bool of shape (n_rows,), NumPy."""

        def spread(values: Any, fill: int) -> Any:
            if not values.size:
                return values
            xp = array_namespace(values)
            of_all = xp.full((*values.shape[:-1], used.size), fill, dtype=values.dtype)
            of_all[..., xp.asarray(used)] = values
            return of_all

        target = self.target._replace(
            classes=spread(self.target.classes, 0),
            values=spread(self.target.values, 0),
            weight=spread(self.target.weight, 1),
        )
        return replace(self, target=target, weight=spread(self.weight, 1), y=spread(self.y, 0))

    @property
    def gain_unit(self) -> float:
        """The integer gain of a unit of impurity decrease, at a weight of one in integers, averaged
        over the outputs."""
        unit = {
            ENTROPY: math.log(2.0),
            SQUARED_ERROR: self.value_scale * self.value_scale,
            POISSON: self.value_scale,
            ABSOLUTE_ERROR: self.value_scale,
        }.get(self.criterion, 1.0)
        return unit * self.n_outputs


def classification_problem(
    codes: list[Array],
    n_classes: tuple[int, ...],
    weight: Array | None,
    criterion: str,
    multiplicity: int,
    device: Device,
) -> Problem:
    """Return the problem of classification.

    Parameters
    ----------
    codes : list of int64, shape (n_rows,)
        Class numbers, output by output.
    n_classes : tuple of int
    weight : float64, shape (n_rows,), or None
    criterion : str
        A key of ``CLASSIFICATION``.
    multiplicity : int
        Largest number of times that a row can be in a tree's sample.
    """
    begin = np.concatenate([[0], np.cumsum(n_classes)]).astype(np.int64)
    offset = [to_numpy(code) + int(first) for code, first in zip(codes, begin, strict=False)]
    classes = np.stack([code.astype(np.int32) for code in offset])
    integers, scale = _integer_weights(weight, classes.shape[1], multiplicity)
    values = device.xp.empty((0, 0), dtype=device.xp.int64)
    target = CartTarget(device.asarray(classes), values, device.asarray(integers), begin)
    none = np.empty((0, 0))
    real = integers / scale
    return Problem(
        CLASSIFICATION[criterion], n_classes, target, real, scale, 1.0, np.zeros(len(codes)), none
    )


def regression_problem(
    y: Array, weight: Array | None, criterion: str, multiplicity: int, device: Device
) -> Problem:
    """Return the problem of regression.

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
    _require_finite_errors(criterion, largest, total, weight_scale)
    # A row without weight may be further away, but no tree sees it.
    centred = np.clip(y - centre[:, None], -largest, largest)
    values = np.floor(centred * scale + 0.5).astype(np.int64)
    target = CartTarget(
        device.xp.empty((0, 0), dtype=device.xp.int32),
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
    """Return the power of two that makes the largest value an integer of ``bits`` bits."""
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


def _require_finite_errors(
    criterion: str, largest: float, total: float, weight_scale: float
) -> None:
    """Raise ValueError if the sum of the errors of all rows may not be finite. ``total`` is that
    of the weights as integers."""
    if largest == 0:
        return
    power, factor = LARGEST_ERRORS[criterion]
    exponent = power * math.log2(largest) + math.log2(factor * total) - math.log2(weight_scale)
    if exponent >= sys.float_info.max_exp:
        raise ValueError(
            f"y has values of the size {largest:g} and the weights of the rows add up to "
            f"{total / weight_scale:g}, so that the errors have no finite sum: divide y or "
            "sample_weight by a constant."
        )


def _integer_weights(weight: Array | None, n: int, multiplicity: int) -> tuple[np.ndarray, float]:
    """Return weights as integers >= 1, as fine as the sum over a tree allows, and their scale.

    Integers stay as they are if they fit.
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


def host_records(records: Array) -> np.ndarray:
    """Return records on the host, uint64: libraries without such numbers hold them in int64."""
    return to_numpy(records).astype(np.uint64, copy=False)


def node_numbers(
    problem: Problem, grown: GrownCart, records: Array, is_monotone: bool = False
) -> dict[str, Any]:
    """Return the fields of a ``Forest`` that hold real numbers, for the nodes of grown trees.

    Parameters
    ----------
    records : uint64, shape (m,)
        As growth left them; on any device.
    is_monotone : bool
        Whether any feature is constrained.
    """
    words = None if problem.n_classes else host_records(records)
    n_trees, n_nodes = grown.offset.size - 1, grown.feature.size
    n_parts = min(n_trees, n_nodes // NODES_TOGETHER)
    if n_parts <= 1:
        return _numbers_of(problem, grown, words, is_monotone)
    numbers: dict[str, Any] = {
        "value": np.empty((n_nodes, problem.width)),
        "gain": np.empty(n_nodes),
        "impurity": np.empty(n_nodes),
        "n_samples": np.empty(n_nodes, np.int32),
        "cover": np.empty(n_nodes),
    }

    def fill(part: int) -> None:
        first, last = part * n_trees // n_parts, (part + 1) * n_trees // n_parts
        nodes = slice(grown.offset[first], grown.offset[last])
        trees, rows = _some_trees(grown, first, last)
        own = None if words is None else words[rows]
        found = _numbers_of(problem, trees, own, is_monotone)
        for name, values in found.items():
            numbers[name][nodes] = values

    map_in_threads(fill, range(n_parts), get_threads())
    return numbers


def _some_trees(grown: GrownCart, first: int, last: int) -> tuple[GrownCart, slice]:
    """Return trees ``first … last - 1``, and where their records are."""
    begin, end = (int(at) for at in grown.offset[[first, last]])
    of_nodes = {name: getattr(grown, name)[begin:end] for name in OF_NODES}
    rows = slice(int(grown.begin[begin]), int(grown.end[grown.offset[last - 1]]))
    of_nodes |= {name: of_nodes[name] - rows.start for name in ("begin", "end")}
    return grown._replace(offset=grown.offset[first : last + 1] - begin, **of_nodes), rows


def _numbers_of(
    problem: Problem, grown: GrownCart, records: np.ndarray | None, is_monotone: bool
) -> dict[str, Any]:
    """Return the numbers of the nodes; ``records`` is None for classification."""
    statistics = grown.statistics
    if problem.n_classes:
        packed = sum_of_columns(statistics[:, : problem.n_classes[0]])
    else:
        packed = statistics[:, 0]
    n_samples = (packed >> COUNT_SHIFT).astype(np.int32)
    weight = (packed & WEIGHT_MASK).astype(np.float64)
    cover = weight / problem.weight_scale
    gain = _quotient(grown.gain, problem.gain_unit, problem.weight_scale)
    numbers: dict[str, Any] = {"gain": gain, "n_samples": n_samples, "cover": cover}
    if records is None:
        value = (statistics & WEIGHT_MASK) / weight[:, None]
        return numbers | {"value": value, "impurity": _class_impurity(problem, value)}
    value = problem.centre + statistics[:, 1:] / weight[:, None] / problem.value_scale
    rows = _SampledRows(problem, grown, records)
    if problem.criterion == ABSOLUTE_ERROR:
        value = rows.medians(lower=is_monotone)
    elif problem.is_coarse:
        rows.correct(value, weight)
    error = rows.leaf_errors(value)
    add_children_impurity(grown.offset, grown.left, grown.right, gain, error)
    return numbers | {"value": value, "impurity": np.maximum(error / cover, 0.0)}


def _quotient(numbers: np.ndarray, *by: float) -> np.ndarray:
    """Divide by numbers one of which may be too small for it and the other too large."""
    parts, exponents = np.frexp(by)
    return np.ldexp(numbers / np.prod(2.0 * parts), -int(np.sum(exponents - 1)))


def sum_of_columns(table: np.ndarray) -> np.ndarray:
    """Return the sum of each row, in NumPy's order, whose sums of short rows take five times as
    long as an addition of columns."""
    return table[:, 0] + table[:, 1] if table.shape[1] == 2 else table.sum(axis=1)


def _class_impurity(problem: Problem, share: np.ndarray) -> np.ndarray:
    """Return the impurity of class shares, averaged over the outputs."""
    total = np.zeros(share.shape[0])
    first = 0
    for n in problem.n_classes:
        p = share[:, first : first + n]
        first += n
        if problem.criterion == GINI:
            total += 1.0 - sum_of_columns(p * p)
        elif problem.criterion == ENTROPY:
            total -= xlogy(p, p).sum(axis=1) / math.log(2.0)
        else:
            total += 1.0 - p.max(axis=1)
    return np.maximum(total / problem.n_outputs, 0.0)


class _SampledRows:
    """The rows of a batch of trees in the order of their records."""

    def __init__(self, problem: Problem, grown: GrownCart, records: np.ndarray) -> None:
        rows = (records & np.uint64(0xFFFFFFFF)).astype(np.int64)
        self.problem = problem
        self.grown = grown
        self.y = problem.y[:, rows]
        self.weight = problem.weight[rows] * (records >> np.uint64(32)).astype(np.float64)

    def correct(self, value: np.ndarray, weight: np.ndarray) -> None:
        """Add to means, in place, what fixed-point arithmetic has rounded off.

        ``weight`` is that of the nodes. Those of leaves are corrected by their rows, the others
        follow from their children.
        """
        grown, (leaves, begin, end) = self.grown, self._leaves()
        total = np.add.reduceat(self.weight, begin)
        for o in range(self.y.shape[0]):
            rest = self.weight * (self.y[o] - np.repeat(value[leaves, o], end - begin))
            value[leaves, o] += np.add.reduceat(rest, begin) / total
        for level in reversed(list(levels(grown))):
            inner = level[grown.feature[level] >= 0]
            left, right = children(grown, inner)
            share = (weight[left] / weight[inner])[:, None]
            value[inner] = value[right] + share * (value[left] - value[right])

    def _leaves(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the leaves in the order of their rows, and where these begin and end."""
        leaves = np.flatnonzero(self.grown.feature < 0)
        leaves = leaves[np.argsort(self.grown.begin[leaves], kind="stable")]
        return leaves, self.grown.begin[leaves], self.grown.end[leaves]

    def leaf_errors(self, value: np.ndarray) -> np.ndarray:
        """Return the weighted impurity of leaves, averaged over the outputs; 0 at inner nodes."""
        leaves, begin, end = self._leaves()
        total = np.zeros(leaves.size)
        for o in range(self.y.shape[0]):
            predicted = np.repeat(value[leaves, o], end - begin)
            total += np.add.reduceat(self._errors(self.y[o], predicted), begin)
        error = np.zeros(self.grown.feature.size)
        error[leaves] = total / self.problem.n_outputs
        return error

    def _errors(self, y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        if self.problem.criterion == ABSOLUTE_ERROR:
            return self.weight * np.abs(y - predicted)
        if self.problem.criterion == POISSON:
            ratio = y / np.where(predicted > 0, predicted, 1.0)
            return self.weight * (xlogy(y, np.where(y > 0, ratio, 1.0)) - y + predicted)
        return self.weight * (y - predicted) ** 2

    def medians(self, lower: bool) -> np.ndarray:
        """Return the weighted median of every node: the mean of the lower and the upper one, or
        the lower one, which growth compares if there are monotone constraints."""
        grown = self.grown
        result = np.empty((grown.feature.size, self.y.shape[0]))
        for level in levels(grown):
            begin, end = grown.begin[level], grown.end[level]
            order = np.argsort(begin)
            level, begin, end = level[order], begin[order], end[order]
            place = np.repeat(begin - np.cumsum(end - begin) + (end - begin), end - begin)
            at = np.arange(place.size) + place
            node = np.repeat(np.arange(level.size), end - begin)
            for o in range(self.y.shape[0]):
                result[level, o] = _grouped_medians(self.y[o, at], self.weight[at], node, lower)
        return result


def _grouped_medians(
    y: np.ndarray, weight: np.ndarray, group: np.ndarray, lower_only: bool
) -> np.ndarray:
    """Return the median of each group; ``group`` ascends from 0 without gaps."""
    order = np.lexsort((y, group))
    y, weight = y[order], weight[order]
    first = np.flatnonzero(np.diff(group, prepend=-1))
    total = np.add.reduceat(weight, first)
    before = np.concatenate([[0.0], np.cumsum(weight)])[first]
    upto = np.cumsum(weight) - before[group]
    half = 0.5 * total[group]
    n = y.size
    at = np.arange(n)
    lower = np.minimum.reduceat(np.where(upto >= half, at, n), first)
    if lower_only:
        return y[lower]
    upper = np.minimum.reduceat(np.where(upto > half, at, n), first)
    upper = np.where(upper < n, upper, lower)
    return 0.5 * y[lower] + 0.5 * y[upper]
