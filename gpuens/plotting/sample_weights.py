"""Plots of the weights that AdaBoost gives to rows: ``SampleWeightsDisplay``."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..adaboost.base import AdaBoost
from ..adaboost.learners import AnyLearners, TreeLearners, are_trees
from ..adaboost.rounds import RowWeights
from ..devices.placement import Device, to_numpy
from ..estimators.docstrings import documented
from ..estimators.parameters import integer
from ..inputs.labels import read_labels
from ..inputs.targets import read_sample_weight, read_target
from ..kernels.runtime.arrays import Array
from ..members.fitting import device_for
from .axes import (
    COLORS,
    DRAWN_ON,
    GREY,
    MARKERS,
    axes_for,
    finite,
    require_fitted,
    tidy,
    whole_ticks,
)

BANDS = ((0.05, 0.95, "#E3E3E3"), (0.25, 0.75, "#C4C4C4"))
"""Shares of the rows between which a band lies, and its colour."""


def staged_sample_weights(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> np.ndarray:
    """Recompute the weights of the training rows in every round of AdaBoost from the weights of the
    learners and their predictions.

    Parameters
    ----------
    estimator : fitted AdaBoostClassifier or AdaBoostRegressor of this package
        Its rounds are run again for the weights.
    X : array, sparse matrix or data frame, shape (n_rows, n_features)
        What it was fitted to.
    y : array, shape (n_rows,)
        Its target.
    sample_weight : array of shape (n_rows,), default=None
        Its weights, if it got any.

    Returns
    -------
    float64, shape (n_rounds, n_rows), NumPy
        Line t is what learner t was trained with; each sums up to 1. The same bits as in ``fit``.

    Raises
    ------
    TypeError, ValueError
        Another estimator, or data that it cannot have been fitted to.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuens import AdaBoostClassifier
    >>> from gpuens.plotting import staged_sample_weights
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AdaBoostClassifier(n_estimators=3, device="cpu").fit(X, y)
    >>> staged_sample_weights(model, X, y).shape
    (3, 569)
    """
    require_fitted(estimator)
    if not isinstance(estimator, AdaBoost):
        raise TypeError(
            "estimator must be an AdaBoostClassifier or AdaBoostRegressor of this package, got a "
            f"{type(estimator).__name__}: no other model has weights of rows to replay."
        )
    model = copy.copy(estimator)
    base = model.estimator_
    work = model._prediction_work(X)
    device = device_for(base, model.device, X, work=work, y=y, sample_weight=sample_weight)
    with model._working_on(device):
        before = model._trees if are_trees(base) else model._members
        kind: type[Any] = TreeLearners if are_trees(base) else AnyLearners
        learners = kind(model, base, X, device, before)
        target = _target(model, y, learners.n_rows, device)
        weight = read_sample_weight(sample_weight, learners.n_rows, device)
        rows = RowWeights(weight, learners.n_rows, device)
        rule = model._rule(target, device)
        staged = []
        for t in range(len(model)):
            if t > 0:
                before_it = model.estimator_weights_[t - 1].item()
                rule.reweight(learners.predictions(t - 1), before_it, rows)
            staged.append(to_numpy(rows.values).copy())
    return np.stack(staged)


def _target(model: Any, y: Any, n_rows: int, device: Device) -> Array:
    if not is_classifier(model):
        return read_target(y, n_rows, device, estimator=model)
    labels = read_labels(y, n_rows, device, estimator=model)
    if labels.classes.tolist() != model.classes_.tolist():
        raise ValueError(
            f"y has the classes {labels.classes.tolist()}, but the model was fitted to "
            f"{model.classes_.tolist()}: pass the rows that it was fitted to."
        )
    return labels.codes


class SampleWeightsDisplay:
    """The weights of the training rows over the rounds of AdaBoost.

    Rows that the learners get wrong grow heavy. Weights are shown as multiples of the mean weight;
    the bands hold 90 % and 50 % of the rows, the lines are the rows that were heaviest in the end:
    noise and outliers are found among them.

    Parameters
    ----------
    weights : float64, shape (n_rounds, n_rows)
        Not negative; each round is divided by its sum.

    Attributes
    ----------
    relative : float64, shape (n_rounds, n_rows)
        Multiples of the mean weight.
    ax_, figure_ : matplotlib axes and figure
    lines_ : list of matplotlib lines
        The median, then the heaviest rows.
    bands_ : list of matplotlib collections
    rows_ : int64, shape (n_lines,)
        The heaviest rows in the last round, the heaviest first.

    References
    ----------
    Freund and Schapire, "A decision-theoretic generalization of on-line learning and an
    application to boosting", JCSS 55, 1997.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuens import AdaBoostClassifier
    >>> from gpuens.plotting import SampleWeightsDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AdaBoostClassifier(n_estimators=10, device="cpu").fit(X, y)
    >>> SampleWeightsDisplay.from_estimator(model, X, y).relative.shape
    (10, 569)
    """

    def __init__(self, weights: Any) -> None:
        weights = finite(weights, "weights")
        if weights.ndim != 2 or 0 in weights.shape:
            raise ValueError(
                f"weights must have the shape (n_rounds, n_rows), got {weights.shape}."
            )
        if weights.min() < 0 or not weights.sum(axis=1).all():
            raise ValueError("weights must not be negative, nor zero for all rows of a round.")
        self.weights = weights

    @property
    def relative(self) -> np.ndarray:
        return self.weights / self.weights.mean(axis=1, keepdims=True)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, sample_weight: Any = None, *, n_rows: int = 3,
        ax: Any = None, **kwargs: Any,
    ) -> SampleWeightsDisplay:  # fmt: skip
        """Create the display of a fitted AdaBoost model of this package.

        Parameters
        ----------
        X, y, sample_weight
            What it was fitted to.
        n_rows, ax, **kwargs
            As for ``plot``.

        Returns
        -------
        SampleWeightsDisplay

        Raises
        ------
        TypeError, ValueError
            As for ``staged_sample_weights``.
        """
        integer(0).check("n_rows", n_rows)
        weights = staged_sample_weights(estimator, X, y, sample_weight)
        return cls(weights).plot(ax, n_rows=n_rows, **kwargs)

    @documented(DRAWN_ON, artist="lines", by="plot", display="SampleWeightsDisplay")
    def plot(self, ax: Any = None, *, n_rows: int = 3, **kwargs: Any) -> SampleWeightsDisplay:
        """Draw the weights.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            None: new ones.
        n_rows : int, default=3
            How many of the heaviest rows are drawn.
        <shared>
        """
        integer(0).check("n_rows", n_rows)
        self.ax_ = ax = axes_for(ax)
        self.figure_ = ax.figure
        relative = self.relative
        shown = relative[:, self.weights.max(axis=0) > 0]  # rows without weight keep none
        rounds = np.arange(1, len(relative) + 1)
        self.bands_ = []
        for low, high, color in BANDS:
            ends = np.quantile(shown, (low, high), axis=1)
            label = f"{high - low:.0%} of the rows"
            self.bands_.append(ax.fill_between(rounds, *ends, color=color, lw=0, label=label))
        median = np.median(shown, axis=1)
        self.lines_ = ax.plot(rounds, median, "--", color=GREY, label="median row")
        self.rows_ = np.argsort(-relative[-1], kind="stable")[:n_rows]
        every = max(1, len(rounds) // 8)
        for i, row in enumerate(self.rows_.tolist()):
            style = {
                "color": COLORS[i % len(COLORS)], "marker": MARKERS[i % len(MARKERS)],
                "markevery": every, "markersize": 4, "linewidth": 1.2, "label": f"row {row}",
            } | kwargs  # fmt: skip
            self.lines_ += ax.plot(rounds, relative[:, row], **style)
        ax.set_yscale("log")
        tidy(ax, "round", "weight (1: mean of all rows)")
        whole_ticks(ax.xaxis)
        ax.legend(frameon=False, fontsize="small", ncols=2)
        return self
