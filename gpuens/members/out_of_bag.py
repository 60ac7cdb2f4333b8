"""What the models of an ensemble predict for the training rows that they did not see."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..devices.placement import Device, to_numpy

Metric = Callable[[np.ndarray, np.ndarray], Any]


def left_out(counts: Any) -> Any:
    """The rows that are not in a sample, ascending.

    Parameters
    ----------
    counts : integers, shape (n,), NumPy or CuPy
        How often each row is in the sample.
    """
    return (counts == 0).nonzero()[0]


class OutOfBag:
    """Sums of the out-of-bag predictions of each training row.

    Predictions are added model by model; two devices get the same sums if they do so in the
    same order.

    Parameters
    ----------
    n_rows : int
    width : int
        Columns of a prediction: classes or outputs.
    device : Device
        Of the predictions.

    Attributes
    ----------
    sums : float64, shape (n_rows, width), on the device
        Sums of probabilities, votes or predicted values.
    n_models : int32, shape (n_rows,), on the device
        Models that did not see the row.
    """

    def __init__(self, n_rows: int, width: int, device: Device) -> None:
        self.sums = device.xp.zeros((n_rows, width))
        self.n_models = device.xp.zeros(n_rows, np.int32)

    def add(self, rows: Any, predictions: Any) -> None:
        """Add what one model predicts.

        Parameters
        ----------
        rows : integers, shape (m,), on the device
            Different rows, which the model did not see.
        predictions : float64, shape (m, width) or, for one column, (m,); on the device
        """
        self.sums[rows] += predictions.reshape(-1, self.sums.shape[1])
        self.n_models[rows] += 1

    def mean(self) -> np.ndarray:
        """The mean prediction of each row.

        Returns
        -------
        float64, shape (n_rows, width), NumPy
            NaN in the rows that every model has seen; a UserWarning says how many there are.
        """
        sums, n_models = to_numpy(self.sums), to_numpy(self.n_models)
        unseen = n_models > 0
        if not unseen.all():
            warnings.warn(
                "Some inputs do not have OOB scores. This probably means too few estimators "
                "were used to compute any reliable oob estimates. "
                f"({np.count_nonzero(~unseen)} of {unseen.size} rows were in every sample; "
                "their prediction is NaN. Raise n_estimators.)",
                stacklevel=4,
            )
        mean = np.full(sums.shape, np.nan)
        np.divide(sums, n_models[:, None], out=mean, where=unseen[:, None])
        return mean


def out_of_bag_score(
    metric: Metric, target: np.ndarray, mean: np.ndarray, predict: Callable[[np.ndarray], Any]
) -> float:
    """The score of the rows that have an out-of-bag prediction.

    Parameters
    ----------
    metric : callable ``(y_true, y_pred) -> float``
    target : ndarray, shape (n_rows,) or (n_rows, n_outputs)
        As the user gave it.
    mean : float64, shape (n_rows, width)
        From ``OutOfBag.mean``.
    predict : callable
        From rows of ``mean`` to what is compared with ``target``.

    Returns
    -------
    float
        NaN if there is no such row.
    """
    unseen = ~np.isnan(mean[:, 0])
    if not unseen.any():
        return float("nan")
    return float(metric(target[unseen], predict(mean[unseen])))
