"""Weights of the models of an ensemble, learned from their predictions of held-out rows.

These functions of predictions implement ``weights="accuracy"``, ``"optimal"`` and ``"greedy"`` of
``VotingClassifier`` and ``VotingRegressor``. The three share their parameters:

predictions : array, any library and device
    With ``loss="squared_error"`` the values of the models, shape (n_rows, n_models) or, where y
    has several outputs, (n_rows, n_models, n_outputs). With "log_loss" their probabilities,
    shape (n_rows, n_models, n_classes). With "zero_one" the numbers of the classes that they
    vote for, integers, shape (n_rows, n_models).
y : array, shape (n_rows,), or (n_rows, n_outputs) for values
    Values, or the numbers of the classes.
sample_weight : array of shape (n_rows,), default=None
loss : {"squared_error", "log_loss", "zero_one"}, default="squared_error"

They return float64 NumPy arrays of shape (n_models,) that are not negative and sum to one, the
same, bit for bit, on every device. Bad arguments raise a ValueError that names the argument, what
it got and what it wants.

Examples
--------
>>> import numpy as np
>>> from gpuens.combining.weights import optimal_weights
>>> y = np.array([1.0, 2.0, 3.0, 4.0])
>>> predictions = np.stack([y + 1, y - 1, y * 0], axis=1)
>>> optimal_weights(predictions, y).round(3)
array([0.5, 0.5, 0. ])
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np

from ..devices.array_functions import contiguous
from ..devices.placement import CPU, Device, to_numpy
from ..estimators.parameters import COUNT, NONE, SHARE, one_of, seed_of
from ..inputs.targets import read_sample_weight
from ..kernels.runtime.arrays import Array
from ..members.rows import home_of
from ..numerics.fixed_point import inner
from ..numerics.sampling import subset
from .losses import MeanLogLoss, MeanSquaredError, ModelLoss, ZeroOne

FEW_MODELS = 10
"""With fewer models, bags of half of them would leave out the good ones too often."""
MANY_BAGS = 20
ROUNDING = 1e-6
"""Distance by which a probability may lie outside [0, 1]."""


def accuracy_weights(
    predictions: Any, y: Any, sample_weight: Any = None, *, loss: str = "squared_error"
) -> np.ndarray:
    """Return weights in proportion to the share of correct rows, or to R².

    An R² below zero counts as zero; with several outputs R² is the mean over them. If all are
    zero, the weights are equal, with a warning.
    """
    read = _read(predictions, y, sample_weight, loss)
    with read.device.active():
        scores = read.r2() if loss == "squared_error" else read.accuracy()
    if not scores.max() > 0:
        what = "has an R² above zero" if loss == "squared_error" else "gets a row right"
        warnings.warn(f"No model {what}: all get equal weights.", stacklevel=2)
        scores = np.ones_like(scores)
    return scores / scores.sum()


def optimal_weights(
    predictions: Any, y: Any, sample_weight: Any = None, *, loss: str = "squared_error"
) -> np.ndarray:
    """Return the weights whose average has the least squared error or log loss.

    On these rows it is never worse than equal weights or the best model. Where several weights
    are equally good, such as for copies of a model, they are shared out evenly. Breiman,
    "Stacked regressions", Machine Learning 24, 1996; probabilities below 2**-52 are raised to it.
    """
    read = _read(predictions, y, sample_weight, loss)
    with read.device.active():
        prepared = read.loss()
        found = [prepared.minimum(), np.full(read.n_models, 1.0 / read.n_models)]
        found += list(np.eye(read.n_models))
        values = [prepared.value(weights) for weights in found]
    return found[int(np.argmin(values))]


def greedy_weights(
    predictions: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    loss: str = "squared_error",
    n_rounds: int = 50,
    n_initial: int = 5,
    n_bags: int | None = None,
    bag_share: float = 0.5,
    random_state: Any = None,
) -> np.ndarray:
    """Return weights by ensemble selection: how often each model was taken.

    Caruana et al., "Ensemble selection from libraries of models", 2004: with replacement, sorted
    initialisation, and bagging of the models.

    Parameters
    ----------
    predictions, y, sample_weight, loss
        See the module.
    n_rounds : int, default=50
        Most models in an ensemble, repetitions counted.
    n_initial : int, default=5
        Most models that an ensemble starts with.
    n_bags : int or None, default=None
        Random parts of the models that are selected from; the weights are the mean over them.
        None: 20 if there are at least 10 models, else one bag with all of them, as 1 means.
    bag_share : float, default=0.5
        Share of the models in each of several bags.
    random_state : int, RandomState instance or None, default=None
        Seed of the bags. None is a fixed seed.
    """
    COUNT.check("n_rounds", n_rounds)
    COUNT.check("n_initial", n_initial)
    (NONE | COUNT).check("n_bags", n_bags)
    SHARE.check("bag_share", bag_share)
    seed = seed_of(random_state)
    read = _read(predictions, y, sample_weight, loss)
    if n_bags is None:
        n_bags = 1 if read.n_models < FEW_MODELS else MANY_BAGS
    with read.device.active():
        return bagged_selection(
            read.loss(),
            int(n_rounds),
            min(int(n_initial), int(n_rounds)),
            int(n_bags),
            float(bag_share),
            seed,
        )


class _Read:
    """The arguments, checked and on one device."""

    def __init__(
        self, predictions: Array, y: Array, weight: Array | None, kind: str, device: Device
    ) -> None:
        self.kind, self.device = kind, device
        self.predictions, self.y, self.weight = predictions, y, weight
        self.n_rows, self.n_models = predictions.shape[:2]

    @property
    def shares(self) -> Array:
        """The weights of the rows, which sum to one."""
        xp = self.device.xp
        if self.weight is None:
            return xp.full(self.n_rows, 1.0 / self.n_rows)
        total = inner(self.weight[None, :], xp.ones((1, self.n_rows)))
        return self.weight / float(total[0, 0])

    def loss(self) -> ModelLoss:
        """Return the loss, ready for weights."""
        xp, y = self.device.xp, self.y
        if self.kind == "squared_error":
            values = self.predictions.reshape(self.n_rows, self.n_models, -1)
            return MeanSquaredError(
                values.transpose(1, 2, 0), y.reshape(self.n_rows, -1).T, self.shares, self.device
            )
        if self.kind == "log_loss":
            of_class = self.predictions[xp.arange(self.n_rows), :, y]
            shares = None if self.weight is None else self.shares
            return MeanLogLoss(contiguous(of_class.T), shares, self.device)
        n_classes = int(max(self.predictions.max(), y.max())) + 1
        return ZeroOne(self.predictions.T, y, self.shares, n_classes, self.device)

    def accuracy(self) -> np.ndarray:
        """Return the share of the rows that each model gets right."""
        votes = self.predictions
        if votes.ndim == 3:
            votes = votes.argmax(axis=2)
        right = (votes == self.y[:, None]).astype(np.float64)
        return to_numpy(inner(right.T, self.shares[None, :]))[:, 0]

    def r2(self) -> np.ndarray:
        """R² of each model, at least 0, the mean over the outputs."""
        values = self.predictions.reshape(self.n_rows, self.n_models, -1)
        targets, shares = self.y.reshape(self.n_rows, -1), self.shares
        total = np.zeros(self.n_models)
        for output in range(targets.shape[1]):
            y = targets[:, output]
            centred = y - inner(y[None, :], shares[None, :])[0, 0]
            variance = float(inner((centred * centred)[None, :], shares[None, :])[0, 0])
            errors = (values[:, :, output] - y[:, None]).T
            squared = to_numpy(inner(errors * errors, shares[None, :]))[:, 0]
            perfect = (squared == 0).astype(np.float64)
            total += 1.0 - squared / variance if variance > 0 else perfect
        return np.maximum(total / targets.shape[1], 0.0)


def _read(predictions: Any, y: Any, sample_weight: Any, loss: str) -> _Read:
    one_of("squared_error", "log_loss", "zero_one").check("loss", loss)
    device = home_of("auto", predictions, y=y, sample_weight=sample_weight)
    with device.active():
        predictions, y = device.asarray(predictions), device.asarray(y)
        _check_shapes(tuple(predictions.shape), tuple(y.shape), loss)
        _check_numbers(predictions, y, loss)
        weight = read_sample_weight(sample_weight, y.shape[0], device)
        kind = np.int64 if loss == "zero_one" else np.float64
        predictions = predictions.astype(kind)
        y = y.astype(np.float64 if loss == "squared_error" else np.int64)
        return _Read(predictions, y, weight, loss, device)


def _check_shapes(shape: tuple[int, ...], of_y: tuple[int, ...], loss: str) -> None:
    wanted = {
        "squared_error": "(n_rows, n_models), or (n_rows, n_models, n_outputs) for several outputs",
        "log_loss": "(n_rows, n_models, n_classes)",
        "zero_one": "(n_rows, n_models)",
    }[loss]
    n_axes = {"squared_error": len(of_y) + 1, "log_loss": 3, "zero_one": 2}[loss]
    if len(shape) != n_axes or 0 in shape:
        raise ValueError(
            f"predictions must have the shape {wanted} with at least one row and one model, got "
            f"{shape}."
        )
    outputs = shape[2:] if loss == "squared_error" else ()
    if of_y != (shape[0], *outputs):
        raise ValueError(
            f"y must have the shape {(shape[0], *outputs)}, one entry for each row of predictions, "
            f"got {of_y}."
        )


def _check_numbers(predictions: Array, y: Array, loss: str) -> None:
    for name, values in (("predictions", predictions), ("y", y)):
        if values.dtype.kind not in "fiub":
            raise ValueError(f"{name} must hold numbers, got dtype {values.dtype}.")
        if values.dtype.kind == "f" and not bool(abs(values).max() < np.inf):
            raise ValueError(f"{name} must hold finite numbers, got NaN or infinity.")
    if loss == "squared_error":
        return
    classes = {"y": y} if loss == "log_loss" else {"predictions": predictions, "y": y}
    for name, values in classes.items():
        if values.dtype.kind not in "iub" or int(values.min()) < 0:
            raise ValueError(
                f"{name} must hold the numbers of classes, integers >= 0, with loss={loss!r}, got "
                f"dtype {values.dtype} and the smallest {values.min()}."
            )
    if loss == "log_loss":
        if int(y.max()) >= predictions.shape[2]:
            raise ValueError(
                f"y holds the class {int(y.max())}, but predictions has {predictions.shape[2]} "
                "columns for the classes 0, 1, ..."
            )
        low, high = float(predictions.min()), float(predictions.max())
        if low < -ROUNDING or high > 1.0 + ROUNDING:
            raise ValueError(
                "predictions must hold probabilities with loss='log_loss', got values from "
                f"{low} to {high}."
            )


def bagged_selection(
    loss: ModelLoss, n_rounds: int, n_initial: int, n_bags: int, bag_share: float, seed: int
) -> np.ndarray:
    """Select from random parts of the models, ``bag_share`` of them rounded up, and average
    (Caruana et al. 2004, section 2.3). One bag holds all models."""
    everything = np.arange(loss.n_models)
    singly = np.array(
        [loss.of_sum(loss.added(loss.empty, model), 1) for model in everything.tolist()]
    )
    if n_bags == 1:
        counts = select(loss, everything, singly, n_rounds, n_initial)
        return counts / counts.sum()
    n_models = math.ceil(bag_share * loss.n_models)
    weights = np.zeros(loss.n_models)
    for bag in range(n_bags):
        models = subset(loss.n_models, n_models, seed, bag, CPU)
        counts = select(loss, models, singly, n_rounds, n_initial)
        weights += counts / counts.sum()
    return weights / n_bags


def select(
    loss: ModelLoss, models: np.ndarray, singly: np.ndarray, n_rounds: int, n_initial: int
) -> np.ndarray:
    """Return how often each model is taken, up to the round with the lowest loss; among equally
    good ones the first is.

    ``models`` are the ascending numbers of those to select from, ``singly`` the losses of all
    models alone. The ensemble starts with the best, the two best, ..., or the ``n_initial`` best
    models, whichever is the best ensemble, and has ``n_rounds`` at most, repetitions counted."""
    best_first = models[np.argsort(singly[models], kind="stable")][:n_initial]
    chosen, losses = _add_all(loss, best_first)
    chosen = chosen[: int(np.argmin(losses)) + 1]
    total = functools.reduce(loss.added, chosen, loss.empty)
    path = [min(losses)]
    for n_added in range(len(chosen) + 1, n_rounds + 1):
        trials = [loss.of_sum(loss.added(total, model), n_added) for model in models.tolist()]
        best = int(np.argmin(trials))
        total = loss.added(total, int(models[best]))
        chosen.append(int(models[best]))
        path.append(trials[best])
    n_kept = len(chosen) - len(path) + 1 + int(np.argmin(path))
    return np.bincount(chosen[:n_kept], minlength=loss.n_models).astype(np.float64)


def _add_all(loss: ModelLoss, models: np.ndarray) -> tuple[list[int], list[float]]:
    """Add models in their order; their numbers, and the loss after each."""
    total, losses = loss.empty, []
    for n_added, model in enumerate(models.tolist(), 1):
        total = loss.added(total, model)
        losses.append(loss.of_sum(total, n_added))
    return models.tolist(), losses
