"""Totals of gradients and the scales that follow from them, on the device.

Reading their numbers on the host waits for them; kernels do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...runtime.arrays import Array
from ...runtime.cuda.fetch import Fetched
from ...runtime.cuda.target import upload
from ...runtime.dtypes import NodeValues, Scales

MAX_G, SUM_G, MAX_H, SUM_H, QUANTISING, _, FIXED_POINT, _, N_VALUES = range(9)
"""Entries: those of ``Totals``, then two scales (of g and of h) for each purpose."""


class DeviceTotals:
    """``Totals`` on the device, of the statistics of ``n`` rows.

    Parameters
    ----------
    values : float64, shape (N_VALUES,), on the device
        In the order of the constants above.
    n : int
    """

    def __init__(self, values: Array, n: int) -> None:
        self._values = values
        self._n = n
        self._fetched = Fetched(values)

    @property
    def is_here(self) -> bool:
        """Return whether the numbers are known without waiting."""
        return self._fetched.is_here

    def __iter__(self) -> Iterator[float]:
        return iter(self._fetched.wait()[: SUM_H + 1].tolist())

    @property
    def max_g(self) -> float:
        return float(self._fetched.wait()[MAX_G])

    @property
    def sum_g(self) -> float:
        return float(self._fetched.wait()[SUM_G])

    @property
    def max_h(self) -> float:
        return float(self._fetched.wait()[MAX_H])

    @property
    def sum_h(self) -> float:
        return float(self._fetched.wait()[SUM_H])

    def scales_for(self, n: int) -> DeviceScales:
        """See ``kernels.statistics.quantise``."""
        return self._scales(QUANTISING, n)

    def fixed_point_scales(self, n: int) -> DeviceScales:
        """See ``kernels.leaves.newton_steps``."""
        return self._scales(FIXED_POINT, n)

    def _scales(self, first: int, n: int) -> DeviceScales:
        if n != self._n:
            raise ValueError(f"n must be {self._n}, the rows of these totals, got {n}.")
        return DeviceScales(self._values[first : first + 2], self._fetched, first)


class DeviceScales:
    """``Scales`` on the device; ``on_device`` is float64 of shape (2,)."""

    def __init__(self, on_device: Any, fetched: Fetched, first: int) -> None:
        self.on_device = on_device
        self._fetched = fetched
        self._first = first

    @property
    def g(self) -> float:
        return float(self._fetched.wait()[self._first])

    @property
    def h(self) -> float:
        return float(self._fetched.wait()[self._first + 1])


def on_device(scales: Scales | DeviceScales) -> Array:
    """Return two scales as the kernels read them: float64, shape (2,)."""
    if isinstance(scales, DeviceScales):
        return scales.on_device
    return upload(np.array([scales.g, scales.h]))[0]


def values_on_device(values: NodeValues) -> Array:
    """Return values of nodes as the kernels read them: float64, shape (n_nodes,) or longer."""
    found = getattr(values, "on_device", None)  # Newton steps that the host has not fetched
    return upload(values.value)[0] if found is None else found
