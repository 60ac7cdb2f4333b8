"""Totals of gradients and the scales that follow from them, on the device.

Reading their numbers on the host waits for them; kernels do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.fetch import Fetched
from ...runtime.cuda.target import empty, upload
from ...runtime.dtypes import NodeValues, Scales

MAX_G, SUM_G, MAX_H, SUM_H, QUANTISING, _, FIXED_POINT, _, N_VALUES = range(9)
"""The numbers of an output: those of ``Totals``, then two scales (of g and of h) for each purpose.
Each group of them is an array of its own, of all outputs."""


class Measured:
    """The totals of some outputs and their scales.

    Parameters
    ----------
    values : float64, shape (n_outputs * N_VALUES,), on the device
        ``Totals`` of each output, the scales of ``quantise`` of each, and those of ``leaf_sums``.
    n_rows : sequence of int
        Of each output: its model's own, which the scales are those of. Lines of the gradients of
        models with fewer rows than others are longer.

    Attributes
    ----------
    scales : dict
        By the first of their constants, float64 of shape (n_outputs, 2), on the device.
    """

    def __init__(self, values: Array, n_rows: Sequence[int]) -> None:
        self.n_rows, self.n_outputs = n_rows, len(n_rows)
        n_outputs = self.n_outputs
        self.fetched = Fetched(values)
        self.scales = {
            first: values[first * n_outputs : (first + 2) * n_outputs].reshape(n_outputs, 2)
            for first in (QUANTISING, FIXED_POINT)
        }

    def numbers(self, first: int, width: int) -> np.ndarray:
        """Wait for ``width`` numbers of each output, from the constant ``first`` on: float64 of
        shape (n_outputs, width)."""
        begin = first * self.n_outputs
        return self.fetched.wait()[begin : begin + self.n_outputs * width].reshape(-1, width)


class DeviceTotals:
    """``Totals`` on the device, of one output."""

    def __init__(self, measured: Measured, output: int) -> None:
        self._measured = measured
        self._output = output

    @property
    def is_here(self) -> bool:
        """Return whether the numbers are known without waiting."""
        return self._measured.fetched.is_here

    def __iter__(self) -> Iterator[float]:
        return iter(self._measured.numbers(MAX_G, QUANTISING)[self._output].tolist())

    def __getitem__(self, entry: int) -> float:
        return float(self._measured.numbers(MAX_G, QUANTISING)[self._output, entry])

    max_g = property(lambda self: self[MAX_G])
    sum_g = property(lambda self: self[SUM_G])
    max_h = property(lambda self: self[MAX_H])
    sum_h = property(lambda self: self[SUM_H])

    def scales_for(self, n: int) -> DeviceScales:
        """See ``kernels.statistics.quantise``."""
        return self._scales(QUANTISING, n)

    def fixed_point_scales(self, n: int) -> DeviceScales:
        """See ``kernels.leaves.newton_steps``."""
        return self._scales(FIXED_POINT, n)

    def _scales(self, first: int, n: int) -> DeviceScales:
        own = self._measured.n_rows[self._output]
        if n != own:
            raise ValueError(f"n must be {own}, the rows of these totals, got {n}.")
        return DeviceScales(self._measured, first, self._output)


class DeviceScales:
    """``Scales`` on the device: line ``line`` of ``lines``, which ``on_device`` finds."""

    def __init__(self, measured: Measured, first: int, output: int) -> None:
        self.lines, self.line = measured.scales[first], output
        self._measured, self._first = measured, first

    @property
    def numbers(self) -> np.ndarray:
        """Those of all lines, for which the host waits."""
        return self._measured.numbers(self._first, 2)

    @property
    def g(self) -> float:
        return float(self.numbers[self.line, 0])

    @property
    def h(self) -> float:
        return float(self.numbers[self.line, 1])


def on_device(scales: Sequence[Scales | DeviceScales]) -> Array:
    """Return scales as the kernels read them: float64, shape (n_outputs, 2)."""
    found = neighbours(scales)
    if found is not None:
        return found
    if not all(isinstance(own, DeviceScales) for own in scales):
        return upload(np.array([[own.g, own.h] for own in scales]))[0]
    # Of several launches: lines that are beside each other are copied together.
    found, begin = empty((len(scales), 2), np.float64), 0
    for end in range(1, len(scales) + 1):
        if end == len(scales) or neighbours(scales[begin : end + 1]) is None:
            found[begin:end] = neighbours(scales[begin:end])
            begin = end
    return found


def on_host(scales: Sequence[Scales | DeviceScales]) -> np.ndarray:
    """Return scales as ``on_device`` does, but for the host, which waits for them."""
    if neighbours(scales) is None:
        return np.array([[own.g, own.h] for own in scales])
    first = scales[0].line
    found: np.ndarray = scales[0].numbers[first : first + len(scales)]
    return found


def values_on_device(values: NodeValues) -> Array:
    """Return values of nodes as the kernels read them: float64, shape (n_nodes,) or longer."""
    found = neighbours([values])  # Newton steps that the host has not fetched
    return upload(values.value)[0] if found is None else found[0]


def neighbours(entries: Sequence[Any]) -> Array | None:
    """Return the lines of an array on the device that hold entries, in their order; None where they
    are not in lines beside each other."""
    lines = getattr(entries[0], "lines", None)
    if lines is None:
        return None
    first = entries[0].line
    for i, entry in enumerate(entries, first):
        if getattr(entry, "lines", None) is not lines or entry.line != i:
            return None
    return lines if len(entries) == lines.shape[0] else lines[first : first + len(entries)]
