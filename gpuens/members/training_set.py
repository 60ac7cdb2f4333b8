"""What members are fitted on, and how: all of it, or some of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ..devices.placement import CPU
from .rows import Rows, fit_one, in_processes, take


@dataclass(frozen=True)
class Metadata:
    """What the ``fit`` of each member gets beside X and y.

    Parameters
    ----------
    weighted : set of str
        The members that get the weights of the rows.
    others : dict of str to dict
        All else, by member.
    """

    weighted: set[str]
    others: dict[str, dict[str, Any]]

    def part(self, rows: np.ndarray, n_rows: int) -> Metadata:
        """The same for some of the rows: of what holds an entry for each of all rows."""
        others = {
            name: {key: _part(value, rows, n_rows) for key, value in given.items()}
            for name, given in self.others.items()
        }
        return Metadata(self.weighted, others)


def _part(value: Any, rows: np.ndarray, n_rows: int) -> Any:
    if isinstance(value, (str, bytes, dict)) or not hasattr(value, "__len__"):
        return value
    if getattr(value, "shape", (n_rows,)) == () or len(value) != n_rows:
        return value
    if type(value).__name__ == "Series":
        value = value.to_numpy()
    return take(value, rows, CPU)


@dataclass(frozen=True)
class TrainingSet:
    """Rows with targets and weights.

    Parameters
    ----------
    rows : Rows
    target : array, shape (n_rows,) or (n_rows, n_outputs), at home
        Class numbers (int64) or values (float64).
    weight : float64, shape (n_rows,), at home, or None
    metadata : Metadata
    """

    rows: Rows
    target: Any
    weight: Any
    metadata: Metadata

    def part(self, rows: np.ndarray) -> TrainingSet:
        """Some of the rows; itself if they are all in their order."""
        n, home = self.rows.n, self.rows.home
        if rows.size == n and bool((rows == np.arange(n)).all()):
            return self
        at_home = home.asarray(rows)
        weight = None if self.weight is None else self.weight[at_home]
        return TrainingSet(
            self.rows.part(rows), self.target[at_home], weight, self.metadata.part(rows, n)
        )

    def task(self, name: str, estimator: Any, message: str = "") -> tuple[Any, ...]:
        """The arguments of ``fit_one`` for a clone of an estimator."""
        given = dict(self.metadata.others[name])
        if name in self.metadata.weighted and self.weight is not None:
            given["sample_weight"] = self.rows.vector(estimator, self.weight)
        target = self.rows.vector(estimator, self.target)
        return name, clone(estimator), self.rows.table(estimator), target, given, message

    def fit(
        self, members: Sequence[tuple[str, Any]], messages: Sequence[str], n_jobs: int | None
    ) -> list[Any]:
        """Clones of named estimators, fitted on all rows."""
        tasks = [
            self.task(*member, message) for member, message in zip(members, messages, strict=True)
        ]
        return in_processes(fit_one, tasks, n_jobs, self.rows.home)
