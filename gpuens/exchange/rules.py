"""How an imported forest reads rows and finishes sums, so that its scores are those of the source.

Bits agree because each rule of the source is moved to where it costs native models nothing:

- *Thresholds* are changed when the model is read. XGBoost's ``x < t`` of float32 values is
  ``x <= `` the float32 below t; LightGBM's treatment of values next to zero is a threshold next to
  zero. The kernels know ``x <= threshold`` alone.
- *Rows* are changed before the kernels see them, and only where the source asks for it: rounded to
  float32, categories truncated, a number or zero replaced by NaN. A category that the model has no
  set for is replaced by the last one of its feature, whose side is that of "any other value".
- *Sums* are made in the order of the trees, which all sources agree on, in the type of the array
  that they are added to: float64, or float32 for XGBoost, whose kernels are those of float64 with
  another type of the result. The base is in that array before the first tree, or is added after
  the last one.
- *Averages and links* follow the sums, in array code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..devices.placement import Device
from ..forest.forest import Forest
from ..kernels.prediction.probabilities import probabilities
from ..kernels.runtime.arrays import Array

TINY = 1.0000000180025095e-35
"""LightGBM's zero: values up to this size count as 0."""
LINKS = ("identity", "logistic", "softmax", "one_vs_all", "exp", "softplus", "signed_square",
         "step", "shares", "mean_and_variance")  # fmt: skip
HALF_IN_FLOAT32 = 1.5 * 2.0**-24
"""The largest score whose probability is one half in float32."""
AVERAGES = ("nothing", "scores", "predictions")


@dataclass(frozen=True, eq=False)
class Reading:
    """The reading of rows: whether values are rounded to float32, a value that is ``missing`` like
    NaN, the features whose values up to ``TINY`` are missing, and whether a category between -1 and
    0 is an unknown one (``below_zero``), not 0."""

    single: bool
    missing: float
    zero_missing: np.ndarray
    below_zero: bool

    def prepare(self, values: Array, forest: Forest, xp: Any) -> Array:
        """Return rows as the forest's splits take them; the array is not written to."""
        table = values
        if self.single:
            with np.errstate(over="ignore"):
                table = table.astype(np.float32, copy=False)
        if self.missing == self.missing:
            table = xp.where(table == table.dtype.type(self.missing), xp.nan, table)
        categorical = np.flatnonzero(forest.n_categories)
        if table is values and (categorical.size or self.zero_missing.size):
            table = table.copy(order="K")
        for f in categorical.tolist():
            table[:, f] = self._category(table[:, f], int(forest.n_categories[f]) - 1, xp)
        for f in self.zero_missing.tolist():
            column = table[:, f]
            table[:, f] = xp.where(abs(column) <= TINY, xp.nan, column)
        return table

    def _category(self, column: Array, other: int, xp: Any) -> Array:
        """Return whole numbers below ``other``, ``other`` for what is not, and NaN."""
        whole = xp.trunc(column) + 0.0  # -0.0 becomes 0.0
        known = (whole < other) & ((column >= 0) if self.below_zero else (whole >= 0))
        return xp.where(column == column, xp.where(known, whole, other), xp.nan)


@dataclass(frozen=True, eq=False)
class Finish:
    """The way from sums, of float32 if ``single``, to scores and predictions.

    With ``base_last`` the base is added after the trees, to ``scale`` times their sum. ``averages``
    is what is divided by the number of rounds: "nothing", "scores" (the sums, before the link) or
    "predictions". Round k has the trees ``rounds[k]:rounds[k + 1]``. ``link``, one of ``LINKS``,
    leads from scores to predictions; ``slope`` is a factor on the score in the logistic
    function."""

    single: bool
    base_last: bool
    scale: float
    averages: str
    rounds: np.ndarray
    link: str
    slope: float

    @property
    def n_rounds(self) -> int:
        return self.rounds.size - 1

    @property
    def half(self) -> float:
        """The score up to which the probability of the second class is at most one half."""
        return HALF_IN_FLOAT32 if self.single and self.link == "logistic" else 0.0

    def scores(self, forest: Forest, table: Array, device: Device, chosen: slice) -> Array:
        """Return the raw scores of the chosen rounds, shape (n_outputs, n_rows)."""
        xp, n_chosen = device.xp, chosen.stop - chosen.start
        if (chosen.start, chosen.stop) != (0, self.n_rounds):
            forest = forest.slice(int(self.rounds[chosen.start]), int(self.rounds[chosen.stop]))
        dtype = xp.float32 if self.single else xp.float64
        with device.active():
            raw = xp.zeros((forest.n_outputs, table.shape[0]), dtype=dtype)
            base = device.asarray(forest.base)[:, None]
            if not self.base_last:
                raw[...] = base
            forest.add_to(raw, table, device)
            if self.averages == "scores":
                raw /= raw.dtype.type(max(1, n_chosen))
            if self.base_last:
                raw = (raw * self.scale + base).astype(raw.dtype)
        return raw

    def predictions(self, raw: Array, device: Device, n_chosen: int) -> Array:
        """Return the raw scores transformed by the link: (n_rows,) or (n_rows, n_columns)."""
        xp = device.xp
        if self.averages == "predictions":
            raw = raw / raw.dtype.type(max(1, n_chosen))
        if self.link in ("identity", "shares"):
            return _by_rows(raw)
        wide = raw.astype(xp.float64)
        with np.errstate(over="ignore"):
            if self.link == "softmax":
                return probabilities(wide)
            if self.link in ("logistic", "one_vs_all"):
                each = [probabilities(wide[k : k + 1] * self.slope)[:, 1] for k in range(len(wide))]
                return _by_rows(xp.stack(each))
            if self.link == "exp":
                return _by_rows(xp.exp(wide))
            if self.link == "mean_and_variance":
                return _by_rows(xp.stack([wide[0], xp.exp(2.0 * wide[1])]))
            if self.link == "softplus":
                return _by_rows(xp.log1p(xp.exp(wide)))
            if self.link == "signed_square":
                return _by_rows(xp.sign(wide) * wide * wide)
        return _by_rows((wide > 0).astype(xp.float64))


def _by_rows(raw: Array) -> Array:
    return raw[0].copy() if raw.shape[0] == 1 else raw.T.copy()
