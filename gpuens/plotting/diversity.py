"""Plots of the diversity of an ensemble: ``DiversityDisplay``, ``KappaErrorDisplay``."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..devices.placement import to_numpy
from ..diversity.inputs import member_predictions
from ..diversity.measures import cohen_kappa, pairwise
from ..estimators.docstrings import documented
from .axes import (
    COLORS,
    DRAWN,
    DRAWN_ON,
    MARKERS,
    SEQUENTIAL,
    axes_for,
    choice,
    finite,
    require_fitted,
    tidy,
    vector,
)

MEASURES = (
    *("q_statistic", "correlation", "disagreement", "agreement", "double_fault", "cohen_kappa"),
)
WRITTEN_MODELS = 10
"""Up to so many models the numbers are written into the cells."""
NAMED_MODELS = 20
"""Up to so many models each has a tick."""


class DiversityDisplay:
    """A measure of diversity for all pairs of the models of an ensemble, as a matrix.

    The diagonal, which compares models with themselves, stays empty.

    Parameters
    ----------
    matrix : float64, shape (n_models, n_models)
        A pairwise measure of ``gpuens.diversity``.
    measure : str, default="diversity"
        What it holds.
    model_names : list of str, default=None
        None: the numbers of the models.

    Attributes
    ----------
    mean : float
        Over all pairs.
    ax_, figure_ : matplotlib axes and figure
    im_, colorbar_ : matplotlib image and colour bar
    text_ : list of matplotlib texts

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import RandomForestClassifier
    >>> from gpuens.plotting import DiversityDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(n_estimators=5, device="cpu").fit(X[::2], y[::2])
    >>> DiversityDisplay.from_estimator(forest, X[1::2], y[1::2]).matrix.shape
    (5, 5)
    """

    def __init__(self, matrix: Any, *, measure: str = "diversity", model_names: Any = None) -> None:
        self.matrix = matrix = finite(matrix, "matrix")
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 2:
            raise ValueError(
                f"matrix must be square and of at least two models, got the shape {matrix.shape}."
            )
        self.measure = measure
        self.model_names = _model_names(model_names, matrix.shape[0])

    @classmethod
    @documented(DRAWN, artist="matrix", by="imshow", display="DiversityDisplay")
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, measure: str = "disagreement",
        model_names: Any = None, ax: Any = None, **kwargs: Any,
    ) -> DiversityDisplay:  # fmt: skip
        """Create the display of the members of a fitted ensemble, on rows that they were not fitted
        on.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
        y : array, shape (n_rows,)
            True labels.
        measure : str, default="disagreement"
            One of the pairwise measures of ``gpuens.diversity``.
        model_names : list of str, default=None
            None: the names that a voting or stacking ensemble has for them, else numbers.
        <shared>

        Raises
        ------
        ValueError, TypeError
            The model has no members that can be compared, or a bad parameter.
        """
        choice(measure, "measure", MEASURES)
        predictions, names = _members(estimator, X, model_names)
        return cls.from_predictions(
            y, predictions, measure=measure, model_names=names, ax=ax, **kwargs
        )

    @classmethod
    def from_predictions(
        cls, y_true: Any, predictions: Any, *, measure: str = "disagreement",
        model_names: Any = None, ax: Any = None, **kwargs: Any,
    ) -> DiversityDisplay:  # fmt: skip
        """Create the display of predictions.

        Parameters
        ----------
        y_true : array, shape (n_rows,)
        predictions : array, shape (n_rows, n_models)
            The labels that each model predicts.
        measure, model_names, ax, **kwargs
            As for ``from_estimator``.
        """
        choice(measure, "measure", MEASURES)
        matrix = pairwise(predictions, y_true)[measure]
        return cls(to_numpy(matrix), measure=measure, model_names=model_names).plot(ax, **kwargs)

    @property
    def mean(self) -> float:
        return float(self.matrix[~np.eye(len(self.matrix), dtype=bool)].mean())

    @documented(DRAWN_ON, artist="matrix", by="imshow", display="DiversityDisplay")
    def plot(self, ax: Any = None, *, colorbar: bool = True, **kwargs: Any) -> DiversityDisplay:
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            None: new ones.
        colorbar : bool, default=True
        <shared>
        """
        self.ax_ = ax = axes_for(ax)
        self.figure_ = ax.figure
        n = len(self.matrix)
        shown = np.where(np.eye(n, dtype=bool), np.nan, self.matrix)
        self.im_ = ax.imshow(shown, **{"cmap": SEQUENTIAL} | kwargs)
        name = self.measure.replace("_", " ")
        self.colorbar_ = ax.figure.colorbar(self.im_, ax=ax, label=name) if colorbar else None
        self.text_ = self._write(shown) if n <= WRITTEN_MODELS else []
        if n <= NAMED_MODELS:
            longest = max(map(len, self.model_names))
            turned = {"rotation": 30, "ha": "right"} if longest > 3 else {}
            ax.set_xticks(range(n), self.model_names, **turned)
            ax.set_yticks(range(n), self.model_names)
        ax.set(xlabel="model", ylabel="model", title=f"mean {name} of the pairs: {self.mean:.3f}")
        return self

    def _write(self, shown: np.ndarray) -> list[Any]:
        """Write the numbers into the cells, in black or white, whichever contrasts."""
        texts = []
        for row, column in np.argwhere(~np.isnan(shown)).tolist():
            value = shown[row, column]
            red, green, blue, _ = self.im_.cmap(self.im_.norm(value))
            color = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
            style = {"ha": "center", "va": "center", "color": color, "fontsize": 8}
            texts.append(self.ax_.text(column, row, f"{value:.2f}", **style))
        return texts


class KappaErrorDisplay:
    """The mean error of every pair of models against their agreement.

    Good ensembles have their cloud at the lower left: accurate models that disagree.

    Parameters
    ----------
    kappa : float64, shape (n_pairs,)
        Cohen's kappa of the labels that two models predict.
    error : float64, shape (n_pairs,)
        Mean of their shares of wrong rows.
    estimator_name : str or None, default=None
        Name for the legend.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    scatter_ : matplotlib collection
        The pairs.
    mean_ : matplotlib line
        The mean of the pairs.

    References
    ----------
    Margineantu and Dietterich, "Pruning adaptive boosting", ICML 1997.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import RandomForestClassifier
    >>> from gpuens.plotting import KappaErrorDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(n_estimators=5, device="cpu").fit(X[::2], y[::2])
    >>> KappaErrorDisplay.from_estimator(forest, X[1::2], y[1::2]).kappa.shape
    (10,)
    """

    def __init__(self, kappa: Any, error: Any, *, estimator_name: str | None = None) -> None:
        self.kappa = vector(kappa, "kappa", numbers=True)
        self.error = vector(error, "error", self.kappa.size, numbers=True)
        self.estimator_name = estimator_name

    @classmethod
    @documented(DRAWN, artist="pairs", by="scatter", display="KappaErrorDisplay")
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, name: str | None = None, ax: Any = None,
        **kwargs: Any,
    ) -> KappaErrorDisplay:  # fmt: skip
        """Create the display of the members of a fitted ensemble, on rows that they were not fitted
        on.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
        y : array, shape (n_rows,)
        name : str, default=None
            For the legend; None: the class of the estimator.
        <shared>
        """
        predictions, _ = _members(estimator, X, None)
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, predictions, name=name, ax=ax, **kwargs)

    @classmethod
    def from_predictions(
        cls, y_true: Any, predictions: Any, *, name: str | None = None, ax: Any = None,
        **kwargs: Any,
    ) -> KappaErrorDisplay:  # fmt: skip
        """Create the display of predictions.

        Parameters
        ----------
        y_true : array, shape (n_rows,)
        predictions : array, shape (n_rows, n_models)
            The labels that each model predicts.
        name, ax, **kwargs
            As for ``from_estimator``.
        """
        kappa = to_numpy(cohen_kappa(predictions, of="labels"))
        error = np.diag(to_numpy(pairwise(predictions, y_true)["double_fault"]))
        first, second = np.triu_indices(len(error), 1)
        mean = (error[first] + error[second]) / 2
        return cls(kappa[first, second], mean, estimator_name=name).plot(ax, **kwargs)

    @documented(DRAWN_ON, artist="pairs", by="scatter", display="KappaErrorDisplay")
    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> KappaErrorDisplay:
        """Draw the pairs; several displays can share axes.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            None: new ones.
        name : str, default=None
            For the legend; None: ``estimator_name``.
        <shared>
        """
        self.ax_ = ax = axes_for(ax)
        self.figure_ = ax.figure
        n = len(ax.collections)
        color, marker = COLORS[n % len(COLORS)], MARKERS[n % len(MARKERS)]
        style = {
            "s": 14, "alpha": 0.4, "linewidths": 0, "color": color, "marker": marker,
            "label": self.estimator_name if name is None else name,
        } | kwargs  # fmt: skip
        self.scatter_ = ax.scatter(self.kappa, self.error, **style)
        centre = {"marker": marker, "color": color, "markeredgecolor": "black", "markersize": 9}
        (self.mean_,) = ax.plot(self.kappa.mean(), self.error.mean(), linestyle="", **centre)
        tidy(ax, "kappa of two models (1: same labels)", "mean error of the two")
        if style["label"] is not None:
            for handle in ax.legend(frameon=False).legend_handles:
                handle.set_alpha(1.0)
        return self


def _members(estimator: Any, X: Any, names: Any) -> tuple[Any, Any]:
    """Return the predictions of the members of an ensemble, and their names if they have any."""
    require_fitted(estimator)
    if not is_classifier(estimator):
        raise TypeError(
            f"estimator must be an ensemble of classifiers, got a {type(estimator).__name__}: "
            "numbers are not right or wrong. See gpuens.diversity.ambiguity_decomposition."
        )
    predictions = member_predictions(estimator, X)
    if names is None:
        listed = list(getattr(estimator, "named_estimators_", ()))
        names = listed if len(listed) == predictions.shape[1] else None
    return predictions, names


def _model_names(names: Any, n: int) -> list[str]:
    listed = [str(name) for name in (range(n) if names is None else names)]
    if len(listed) != n:
        raise ValueError(
            f"model_names has {len(listed)} names, but there are {n} models: pass one for each."
        )
    return listed
