"""Calibration curves: ``CalibrationDisplay``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..estimators.docstrings import documented
from ..estimators.parameters import COUNT
from .axes import COLORS, DRAWN, DRAWN_ON, GREY, axes_for, choice, probabilities_of, tidy, vector

STRATEGIES = ("uniform", "quantile")
NORMAL_95 = 1.959964
"""So many standard deviations to each side hold 95 % of a normal distribution."""


class CalibrationDisplay:
    """The frequency of a class among the rows for which it is predicted with a given probability.

    Rows are put into bins by their probability; a point stands for a bin, its bar for the 95 %
    interval of the share (Wilson 1927). Bins without rows are left out.

    Parameters
    ----------
    prob_true, prob_pred : float64, shape (n_bins,)
        Share of the class, and mean probability, in the bins that have rows.
    counts : int64, shape (n_bins,)
        Rows of each bin.
    y_prob : float64, shape (n_rows,)
        The predicted probabilities.
    estimator_name : str or None, default=None
        Name for the legend.
    pos_label : label or None, default=None
        The class.

    Attributes
    ----------
    expected_error : float
        The mean distance of the points from the diagonal, by numbers of rows.
    ax_, figure_ : matplotlib axes and figure
    errorbar_, line_ : matplotlib artists
        The points, and the diagonal.

    References
    ----------
    Niculescu-Mizil and Caruana, "Predicting good probabilities with supervised learning",
    ICML 2005; the expected error: Naeini, Cooper and Hauskrecht, "Obtaining well calibrated
    probabilities using Bayesian binning", AAAI 2015; the interval: Wilson, "Probable inference, the
    law of succession, and statistical inference", JASA 22, 1927.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuens import RandomForestClassifier
    >>> from gpuens.plotting import CalibrationDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(n_estimators=20, device="cpu").fit(X[::2], y[::2])
    >>> display = CalibrationDisplay.from_estimator(forest, X[1::2], y[1::2])
    >>> int(display.counts.sum()) == len(y[1::2]), round(display.expected_error, 1)
    (True, 0.0)
    """

    def __init__(
        self, prob_true: Any, prob_pred: Any, *, counts: Any, y_prob: Any,
        estimator_name: str | None = None, pos_label: Any = None,
    ) -> None:  # fmt: skip
        self.prob_true, self.prob_pred = prob_true, prob_pred
        self.counts, self.y_prob = counts, y_prob
        self.estimator_name, self.pos_label = estimator_name, pos_label

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, n_bins: int = 10, strategy: str = "uniform",
        pos_label: Any = None, name: str | None = None, ax: Any = None, **kwargs: Any,
    ) -> CalibrationDisplay:  # fmt: skip
        """Create the display of a fitted classifier with ``predict_proba``, on rows that it was not
        fitted on.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
        y : array, shape (n_rows,)
        n_bins, strategy, ax, **kwargs
            As for ``from_predictions``.
        pos_label : label, default=None
            The class that is looked at; None: the second of two.
        name : str, default=None
            For the legend; None: the class of the estimator.
        """
        y_prob, pos_label = probabilities_of(estimator, X, pos_label)
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(
            y, y_prob, n_bins=n_bins, strategy=strategy, pos_label=pos_label, name=name, ax=ax,
            **kwargs,
        )  # fmt: skip

    @classmethod
    @documented(DRAWN, artist="points", by="errorbar", display="CalibrationDisplay")
    def from_predictions(
        cls, y_true: Any, y_prob: Any, *, n_bins: int = 10, strategy: str = "uniform",
        pos_label: Any = None, name: str | None = None, ax: Any = None, **kwargs: Any,
    ) -> CalibrationDisplay:  # fmt: skip
        """Create the display of predicted probabilities.

        Parameters
        ----------
        y_true : array, shape (n_rows,)
        y_prob : array, shape (n_rows,)
            Probabilities of ``pos_label``.
        n_bins : int, default=10
        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width, or about equal numbers of rows.
        pos_label : label, default=None
            None: the larger of at most two labels.
        name : str, default=None
            For the legend.
        <shared>

        Raises
        ------
        ValueError
            Probabilities outside of [0, 1], more than two labels, or a bad parameter.
        """
        y_prob = vector(y_prob, "y_prob", numbers=True)
        if y_prob.min() < 0 or y_prob.max() > 1:
            raise ValueError(
                f"y_prob must be probabilities from 0 to 1, got {y_prob.min():g} to "
                f"{y_prob.max():g}. Pass a column of predict_proba."
            )
        labels = vector(y_true, "y_true", y_prob.size)
        COUNT.check("n_bins", n_bins)
        edges = _edges(y_prob, n_bins, choice(strategy, "strategy", STRATEGIES))
        happened, pos_label = _happened(labels, pos_label)
        which = np.clip(np.searchsorted(edges, y_prob, side="left") - 1, 0, edges.size - 2)
        counts = np.bincount(which, minlength=edges.size - 1)
        used = counts > 0
        of_bins = (np.bincount(which, w, counts.size)[used] / counts[used]
                   for w in (happened, y_prob))  # fmt: skip
        display = cls(
            *of_bins, counts=counts[used], y_prob=y_prob, estimator_name=name, pos_label=pos_label
        )
        return display.plot(ax=ax, **kwargs)

    @property
    def expected_error(self) -> float:
        distance = np.abs(self.prob_true - self.prob_pred)
        return float((self.counts * distance).sum() / self.counts.sum())

    @documented(DRAWN_ON, artist="points", by="errorbar", display="CalibrationDisplay")
    def plot(
        self, ax: Any = None, *, name: str | None = None, ref_line: bool = True, **kwargs: Any
    ) -> CalibrationDisplay:
        """Draw the curve; several displays can share axes.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            None: new ones.
        name : str, default=None
            For the legend; None: ``estimator_name``.
        ref_line : bool, default=True
            Whether to draw the diagonal of perfect calibration.
        <shared>
        """
        self.ax_ = ax = axes_for(ax)
        self.figure_ = ax.figure
        n_before = len(ax.containers)
        self.line_ = None
        if ref_line and not any(line.get_label() == "perfect" for line in ax.lines):
            (self.line_,) = ax.plot([0, 1], [0, 1], ":", color=GREY, label="perfect")
        style = {
            "marker": "o", "markersize": 5, "capsize": 2, "elinewidth": 1,
            "color": COLORS[n_before % len(COLORS)],
            "label": self.estimator_name if name is None else name,
        } | kwargs  # fmt: skip
        to_ends = _interval(self.prob_true, self.counts)
        self.errorbar_ = ax.errorbar(self.prob_pred, self.prob_true, to_ends, **style)
        of = "the class" if self.pos_label is None else f"class {self.pos_label}"
        tidy(ax, f"mean predicted probability of {of}", f"share of {of}")
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
        ax.legend(frameon=False)
        return self


def _interval(share: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the distances from shares to the ends of their intervals, float64 (2, n_bins)."""
    z = NORMAL_95**2 / counts
    centre = (share + z / 2) / (1 + z)
    half = np.sqrt(z * share * (1 - share) + z * z / 4) / (1 + z)
    return np.maximum([share - (centre - half), centre + half - share], 0.0)


def _edges(y_prob: np.ndarray, n_bins: int, strategy: str) -> np.ndarray:
    if strategy == "uniform":
        return np.linspace(0, 1, n_bins + 1)
    edges = np.unique(np.quantile(y_prob, np.linspace(0, 1, n_bins + 1)))
    return edges if edges.size > 1 else np.array([0.0, 1.0])


def _happened(labels: np.ndarray, pos_label: Any) -> tuple[np.ndarray, Any]:
    """Return where the labels are of the class, as 0 and 1, and the class."""
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError("y_true has NaN: pass rows whose labels are known.")
    if pos_label is not None:
        return (labels == pos_label).astype(np.float64), pos_label
    distinct = np.unique(labels)
    if distinct.size > 2:
        raise ValueError(
            f"y_true has {distinct.size} labels, so pos_label must say whose probabilities y_prob "
            f"holds: one of {distinct[:20].tolist()}."
        )
    return (labels == distinct[-1]).astype(np.float64), distinct[-1].item()
