"""What the training rows outside the samples of a forest's trees say about it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..devices.placement import Device, to_numpy
from ..forest.forest import Forest
from ..members.samples import left_out
from ..trees.cart import TrainingData


class OutOfBagErrors:
    """Sums of the trees' predictions of the rows that they have not seen, and the error of their
    means after every tree.

    Parameters
    ----------
    estimator : ForestOfTrees
        Knows the rows of a tree's sample, and the errors of predictions.
    data : TrainingData
    device : Device

    Attributes
    ----------
    sums : float64, shape (width, n_rows), NumPy
    n_models : int64, shape (n_rows,), NumPy
        Trees that did not see the row.
    path : list of float
        Mean error over the rows that have a prediction; NaN where there is none.
    """

    def __init__(self, estimator: Any, data: TrainingData, device: Device) -> None:
        self.estimator, self.device = estimator, device
        self.values = data.values
        self.truth = data.y.reshape(data.y.shape[0], -1)
        n_rows = data.values.shape[0]
        self.sums = np.zeros((data.problem.width, n_rows))
        self.n_models = np.zeros(n_rows, np.int64)
        self.path: list[float] = []

    def add(self, t: int, tree: Forest) -> None:
        """Add tree t."""
        rows = left_out(self.estimator._counts_on_host(t))
        raw = to_numpy(tree.raw_predict(self.values, self.device))
        self.sums[:, rows] += raw[:, rows]
        self.n_models[rows] += 1
        seen = self.n_models > 0
        errors = self.estimator._row_errors(
            self.sums[:, seen] / self.n_models[seen], self.truth[seen]
        )
        self.path.append(float(errors.mean()) if errors.size else float("nan"))

    def mean(self) -> np.ndarray:
        """The mean prediction of each row.

        Returns
        -------
        float64, shape (width, n_rows), NumPy
            NaN in the rows that every tree has seen; a UserWarning says how many there are.
        """
        unseen = self.n_models == 0
        if unseen.any():
            warnings.warn(
                "Some inputs do not have OOB scores. This probably means too few trees were used "
                f"to compute any reliable OOB estimates. ({np.count_nonzero(unseen)} of "
                f"{unseen.size} rows were in every sample; raise n_estimators.)",
                stacklevel=5,
            )
        mean = np.full(self.sums.shape, np.nan)
        np.divide(self.sums, self.n_models, out=mean, where=~unseen)
        return mean


def permutation_importances(
    estimator: Any,
    values: Any,
    truth: np.ndarray,
    weight: np.ndarray,
    n_repeats: int,
    rng: np.random.Generator,
    device: Device,
) -> np.ndarray:
    """How much the error of each tree on the rows outside its sample rises once a feature is
    shuffled among these (Breiman 2001, section 10).

    Parameters
    ----------
    estimator : ForestOfTrees
        Fitted.
    values : float32 or float64, shape (n_rows, n_features), on the device
    truth : shape (n_rows, n_outputs), NumPy
        Class numbers or targets.
    weight : float64, shape (n_rows,), NumPy
    n_repeats : int
        Shuffles of each feature, whose mean counts.

    Returns
    -------
    float64, shape (n_features, n_trees), NumPy
        0 where a tree does not use a feature, or has no rows outside its sample.
    """

    def error(table: np.ndarray, rows: np.ndarray, tree: Forest) -> float:
        raw = to_numpy(tree.raw_predict(device.asarray(table), device))
        return float(np.average(estimator._row_errors(raw, truth[rows]), weights=weight[rows]))

    rises = np.zeros((values.shape[1], estimator.forest_.n_trees))
    for t, tree in enumerate(trees_of(estimator.forest_)):
        rows = left_out(estimator._counts_on_host(t))
        if rows.size == 0 or not weight[rows].sum() > 0:
            continue
        table = to_numpy(values[device.asarray(rows)]).copy()
        whole = error(table, rows, tree)
        for f in np.unique(tree.feature[tree.feature >= 0]):
            kept = table[:, f].copy()
            for _ in range(n_repeats):
                table[:, f] = rng.permutation(kept)
                rises[f, t] += (error(table, rows, tree) - whole) / n_repeats
            table[:, f] = kept
    return rises


def trees_of(forest: Forest) -> Iterator[Forest]:
    """Its trees, each as a forest."""
    return (forest.slice(t, t + 1) for t in range(forest.n_trees))
