"""The data that trees are grown on, and the classes that they predict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..devices.placement import Device
from ..inputs.labels import side_by_side
from ..kernels.cart.problem import CartTable
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, Workers
from ..members.classes import labels_of
from .criteria import Problem


@dataclass
class TrainingData:
    """The data that trees are grown on.

    table : CartTable
    problem : Problem
    used : bool, shape (n_rows,), on the device, or None
        The rows of positive weight; None: all.
    y : ndarray, shape (n_rows,) or (n_rows, n_outputs)
        Class numbers (int64) or targets (float64), NumPy.
    shape : tuple (n_rows, n_features)
    itemsize : int
        Bytes of a value.
    values : float32 or float64, shape (n_rows, n_features), or None
        On the device, or in host memory. Only where rows are predicted while trees grow, which
        need ``table`` alone: a table that is not the user's own is released before.
    weight : float64, shape (n_rows,), NumPy, or None
    workers : Workers
        Where they share the rows, ``values`` has those of this one; everything else is of all
        rows.
    """

    table: CartTable
    problem: Problem
    used: Array | None
    y: np.ndarray
    shape: tuple[int, int]
    itemsize: int
    values: Array | None
    weight: np.ndarray | None
    workers: Workers = ONE_WORKER

    @property
    def truth(self) -> np.ndarray:
        """``y`` with a column for each output."""
        return self.y.reshape(self.y.shape[0], -1)

    def move_to(self, device: Device) -> None:
        """Bring what trees are grown on to a device; the rest stays where it is."""
        self.table = self.table._replace(codes=device.asarray(self.table.codes))
        target = self.problem.target
        on_device = {
            name: device.asarray(getattr(target, name)) for name in ("classes", "values", "weight")
        }
        self.problem = replace(self.problem, target=target._replace(**on_device))
        self.used = None if self.used is None else device.asarray(self.used)


@dataclass(frozen=True)
class OutputClasses:
    """The classes of each output of a classifier.

    Trees predict the shares of the classes of all outputs side by side: ``raw`` is float64 of
    shape (n_classes of all outputs, n_rows).

    Parameters
    ----------
    labels : list of ndarray
        The labels of each output, ascending.
    """

    labels: list[np.ndarray]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of classes of each output."""
        return tuple(map(len, self.labels))

    def shares(self, raw: Array) -> list[Any]:
        """Return the rows of ``raw`` that belong to each output."""
        ends = np.cumsum(self.sizes).tolist()
        return [raw[end - n : end] for n, end in zip(self.sizes, ends, strict=True)]

    def largest(self, raw: Array) -> list[Any]:
        """Return the number of the most probable class of each row, output by output."""
        return [share.argmax(axis=0) for share in self.shares(raw)]

    def decoded(self, numbers: list[Any], device: Device) -> Array:
        """Return the labels of class numbers, the outputs side by side."""
        pairs = zip(self.labels, numbers, strict=True)
        return side_by_side([labels_of(k, c, device) for c, k in pairs], device.xp)
