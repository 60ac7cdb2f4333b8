"""The weights of the training rows, which AdaBoost changes from round to round."""

from __future__ import annotations

from typing import Any

from ..devices.placement import Device

UNIT = 2.0**60
"""Sums are sums of integers: a weight, or a part of one, counts in units of 1 / UNIT."""
LEAST = 2.0**-52
"""No weight of a row that takes part falls below this share of the whole."""
GRID = 2.0**35
"""Learners get weights that are multiples of 1 / GRID, at least one of them."""


class RowWeights:
    """Weights that sum up to one, and sums over them that depend on no order of addition.

    Parameters
    ----------
    sample_weight : float64, shape (n_rows,), on the device, or None
        Rows of weight zero keep it; None: all rows have the same weight.
    n_rows : int
    device : Device

    Attributes
    ----------
    values : float64, shape (n_rows,), on the device
    used : bool, shape (n_rows,), on the device, or None
        The rows of positive weight; None: all.
    """

    def __init__(self, sample_weight: Any, n_rows: int, device: Device) -> None:
        self._xp = xp = device.xp
        self.used = None
        if sample_weight is None:
            values = xp.full(n_rows, 1.0 / n_rows)
        else:
            used = sample_weight > 0
            self.used = None if bool(used.all()) else used
            values = sample_weight / float(sample_weight.max()) / n_rows
        self._keep(self._normalised(values))

    @property
    def n_used(self) -> int:
        """How many rows have a positive weight."""
        return self.values.size if self.used is None else int(self._xp.count_nonzero(self.used))

    def share(self, rows: Any) -> tuple[int, int]:
        """The weight of some rows and that of all, as integers in the same unit.

        Parameters
        ----------
        rows : bool, shape (n_rows,)
        """
        return int((self._units * rows).sum()), self._total

    def mean(self, losses: Any) -> float:
        """The weighted mean of losses between 0 and 1; those of rows without weight may be any
        finite numbers."""
        return int((self.values * losses * UNIT).astype("int64").sum()) / self._total

    def multiply_some(self, rows: Any, factor: float) -> None:
        """Multiply the weights of some rows, and divide all by their new sum.

        Parameters
        ----------
        rows : bool, shape (n_rows,)
        factor : float
            At least 1, finite.
        """
        part, whole = self.share(rows)
        total = (whole - part) / UNIT + part / UNIT * factor
        self._keep(self.values * self._xp.where(rows, factor / total, 1.0 / total))

    def multiply(self, factors: Any) -> None:
        """Multiply the weights by factors from 0 to 1, float64 of shape (n_rows,), and divide
        all by their new sum."""
        self._keep(self._normalised(self.values * factors))

    def whole(self) -> Any:
        """The weights on the grid, times GRID: int64 of shape (n_rows,), at least 1."""
        scale = GRID - 2.0 * self.values.size  # their sum stays below GRID, whatever is rounded
        return self._xp.maximum(self._xp.floor(self.values * scale + 0.5), 1.0).astype("int64")

    def on_grid(self) -> Any:
        """The weights on the grid: float64 of shape (n_rows,), zero for rows without weight.

        The trees of this package, which turn weights into integers, take these as they are.
        """
        weights = self.whole() / GRID
        return weights if self.used is None else weights * self.used

    def _normalised(self, values: Any) -> Any:
        """Values between 0 and 1 whose sum is at most about 1, divided by it; the second time
        for the sake of sums that are far smaller."""
        for _ in range(2):
            values = values / (int((values * UNIT).astype("int64").sum()) / UNIT)
        return values

    def _keep(self, values: Any) -> None:
        values = self._xp.maximum(values, LEAST)
        self.values = values if self.used is None else values * self.used
        self._units = (self.values * UNIT).astype("int64")
        self._total = int(self._units.sum())
