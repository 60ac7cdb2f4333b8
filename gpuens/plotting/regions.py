"""Decision regions of models of two features: ``DecisionRegionsDisplay``."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import is_classifier, is_outlier_detector, is_regressor

from ..devices.placement import to_numpy
from ..estimators.docstrings import documented
from ..estimators.parameters import integer
from ..inspection.columns import Columns, FrameColumns, columns_of
from .axes import (
    COLORS,
    DRAWN,
    MARKERS,
    SEQUENTIAL,
    attribute_of,
    axes_for,
    choice,
    finite,
    names_for,
    require_fitted,
    tidy,
    vector,
)

RESPONSES = ("predict", "predict_proba")
MARGIN = 0.06
"""Around the rows, as a share of their range."""
FAINT, STRONG = 0.08, 0.5
"""Strength of a region's colour where all classes are equally probable and where one is certain."""
LEVELS = 12


class DecisionRegionsDisplay:
    """The predictions of a model of two features, over the plane.

    Classes have colours, and are paler where they are less probable, if probabilities are asked
    for; numbers and anomaly scores are drawn as levels (with a line where anomalies begin).

    Parameters
    ----------
    xx0, xx1 : float64, shape (n_values,)
        The values of the two features.
    response : array, shape (n_values, n_values)
        Line i, column j is predicted at ``xx1[i], xx0[j]``: positions in ``classes``, or numbers.
    confidence : float64, shape (n_values, n_values), or None, default=None
        The largest probability.
    classes : list or None, default=None
        The labels; None for numbers.
    rows : float64, shape (n_rows, 2), or None, default=None
        Rows to draw over the regions.
    y : array, shape (n_rows,), or None, default=None
        Their target, for the colours.
    feature_names : list of two str, default=None
        Names for the axes; None: "x[0]" and "x[1]".
    response_name : str, default="prediction"
        Name for the scale of colours.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    surface_ : matplotlib image or contours
    scatter_ : list of matplotlib collections
        The rows, by class.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import RandomForestClassifier
    >>> from gpuens.plotting import DecisionRegionsDisplay
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> X = X[["petal length (cm)", "petal width (cm)"]]
    >>> forest = RandomForestClassifier(n_estimators=10, device="cpu").fit(X, y)
    >>> DecisionRegionsDisplay.from_estimator(forest, X, y, grid_resolution=50).response.shape
    (50, 50)
    """

    def __init__(
        self, xx0: np.ndarray, xx1: np.ndarray, response: np.ndarray, *,
        confidence: np.ndarray | None = None, classes: Any = None,
        rows: Any = None, y: Any = None, feature_names: Any = None,
        response_name: str = "prediction",
    ) -> None:  # fmt: skip
        self.xx0, self.xx1, self.response = xx0, xx1, response
        self.confidence, self.classes, self.rows, self.y = confidence, classes, rows, y
        self.feature_names = names_for(feature_names, None, 2)
        self.response_name = response_name

    @classmethod
    @documented(DRAWN, artist="rows", by="scatter", display="DecisionRegionsDisplay")
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, grid_resolution: int = 200,
        response_method: str = "predict", feature_names: Any = None, ax: Any = None,
        **kwargs: Any,
    ) -> DecisionRegionsDisplay:  # fmt: skip
        """Create the display of a fitted model of two features.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, 2)
            Says which part of the plane is drawn; its rows are drawn over it with ``y``.
        y : array, shape (n_rows,), default=None
            Labels or numbers of the rows; None: no rows are drawn.
        grid_resolution : int, default=200
            Points along each feature.
        response_method : {"predict", "predict_proba"}, default="predict"
            Of classifiers: the class alone, or also how probable it is.
        feature_names : list of two str, default=None
            None: the columns of a data frame.
        <shared>

        Raises
        ------
        ValueError, TypeError
            X has not two numeric features, there are too many classes, or a bad parameter.
        """
        require_fitted(estimator)
        choice(response_method, "response_method", RESPONSES)
        n = grid_resolution
        integer(2).check("grid_resolution", n)
        columns = columns_of(X, estimator)
        rows = _two_columns(columns)
        y = None if y is None else vector(y, "y", len(rows))
        xx0, xx1 = (_axis(rows[:, f], n, columns.label(f)) for f in (0, 1))
        points = np.stack(np.meshgrid(xx0, xx1), axis=-1).reshape(-1, 2)
        table = _like(columns, points)
        names = columns.names if feature_names is None else feature_names
        shown = {"rows": rows, "y": y, "feature_names": names_for(names, estimator, 2)}
        if is_classifier(estimator):
            codes, confidence, classes = _classes_at(estimator, table, response_method)
            display = cls(
                xx0, xx1, codes.reshape(n, n), classes=classes, **shown,
                confidence=None if confidence is None else confidence.reshape(n, n),
            )  # fmt: skip
        else:
            values, name = _numbers_at(estimator, table)
            display = cls(xx0, xx1, values.reshape(n, n), response_name=name, **shown)
        return display.plot(ax, **kwargs)

    @documented(DRAWN, artist="rows", by="scatter", display="DecisionRegionsDisplay")
    def plot(self, ax: Any = None, **kwargs: Any) -> DecisionRegionsDisplay:
        """Draw the regions and the rows.

        Parameters
        ----------
        <shared>
        """
        self.ax_ = ax = axes_for(ax)
        self.figure_ = ax.figure
        self.scatter_: list[Any] = []
        style = {"s": 18, "edgecolors": "white", "linewidths": 0.5} | kwargs
        if self.classes is None:
            self._draw_numbers(style)
        else:
            self._draw_classes(style)
        tidy(ax, self.feature_names[0], self.feature_names[1], grid=None)
        ax.set(xlim=(self.xx0[0], self.xx0[-1]), ylim=(self.xx1[0], self.xx1[-1]))
        return self

    def _draw_classes(self, style: dict[str, Any]) -> None:
        from matplotlib.colors import to_rgb
        from matplotlib.patches import Patch

        n_classes = len(self.classes)
        ink = 1.0 - np.array([to_rgb(color) for color in COLORS[:n_classes]])[self.response]
        strength = np.full(self.response.shape, (FAINT + STRONG) / 2)
        if self.confidence is not None:
            lead = (self.confidence - 1 / n_classes) / (1 - 1 / n_classes) if n_classes > 1 else 1.0
            strength = FAINT + (STRONG - FAINT) * np.clip(lead, 0.0, 1.0)
        image = 1.0 - strength[..., None] * ink
        half = [(xx[1] - xx[0]) / 2 for xx in (self.xx0, self.xx1)]
        extent = [
            end for xx, h in zip((self.xx0, self.xx1), half, strict=True)
            for end in (xx[0] - h, xx[-1] + h)
        ]  # fmt: skip
        self.surface_ = self.ax_.imshow(image, origin="lower", extent=extent, aspect="auto")
        handles = []
        for k, label in enumerate(self.classes):
            name = f"class {label}"
            if self.y is None:
                handles.append(Patch(color=COLORS[k], alpha=STRONG, label=name))
                continue
            chosen = self.rows[self.y == label]
            mark = {"color": COLORS[k], "marker": MARKERS[k], "label": name}
            self.scatter_.append(self.ax_.scatter(*chosen.T, **mark | style))
        self.ax_.legend(handles=handles or self.scatter_, fontsize="small", loc="best")

    def _draw_numbers(self, style: dict[str, Any]) -> None:
        ax = self.ax_
        self.surface_ = ax.contourf(
            self.xx0, self.xx1, self.response, levels=LEVELS, cmap=SEQUENTIAL
        )
        ax.figure.colorbar(self.surface_, ax=ax, label=self.response_name)
        is_score = self.response_name != "prediction"
        if is_score and self.response.min() < 0 < self.response.max():
            ax.contour(self.xx0, self.xx1, self.response, levels=[0], colors="white")
        if self.y is None:
            return
        colors: dict[str, Any] = {"color": COLORS[1]}
        if not is_score:
            colors = {"c": finite(self.y, "y"), "norm": self.surface_.norm, "cmap": SEQUENTIAL}
        self.scatter_ = [ax.scatter(*self.rows.T, **colors | style)]


def _two_columns(columns: Columns) -> np.ndarray:
    """Return the rows, float64 of shape (n_rows, 2)."""
    n_features = columns.shape[1]
    if n_features != 2:
        raise ValueError(
            f"X has {n_features} features, but regions are drawn of exactly 2: fit the model to "
            "two columns. PartialDependenceDisplay shows two features of a model of many."
        )
    for feature in (0, 1):
        if columns.is_text(feature):
            raise ValueError(
                f"X's feature {columns.label(feature)} holds text, but both features must be "
                "numbers to be drawn as axes."
            )
    return np.stack([to_numpy(columns.numbers(f)).astype(np.float64) for f in (0, 1)], axis=1)


def _axis(values: np.ndarray, n: int, label: str) -> np.ndarray:
    """Return points from a little below the values to a little above."""
    values = values[np.isfinite(values)]
    if values.size == 0:
        raise ValueError(f"X's feature {label} has no finite value, so it has no range to draw.")
    low, high = values.min(), values.max()
    margin = MARGIN * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, n)


def _like(columns: Columns, points: np.ndarray) -> Any:
    """Return points as a table of the type that the model was given."""
    if isinstance(columns, FrameColumns):
        named = dict(zip(columns.frame.columns, points.T, strict=True))
        return nw.from_dict(named, backend=columns.frame.implementation).to_native()
    is_single = str(getattr(columns.table(), "dtype", "")) == "float32"
    return points.astype(np.float32) if is_single else points


def _classes_at(
    estimator: Any, table: Any, response_method: str
) -> tuple[np.ndarray, np.ndarray | None, list[Any]]:
    classes = attribute_of(estimator, "classes_", "pass a classifier of one output")
    if isinstance(classes, list):
        raise ValueError("estimator predicts several outputs: fit a classifier for each.")
    if len(classes) > len(COLORS):
        raise ValueError(
            f"estimator has {len(classes)} classes, at most {len(COLORS)} can be told apart by "
            "colours: fit it to fewer, or to one class against the others."
        )
    if response_method == "predict_proba":
        attribute_of(estimator, response_method, "pass response_method='predict'")
        probability = to_numpy(estimator.predict_proba(table))
        return probability.argmax(axis=1), probability.max(axis=1), list(classes)
    predicted = to_numpy(estimator.predict(table))
    return np.searchsorted(classes, predicted), None, list(classes)


def _numbers_at(estimator: Any, table: Any) -> tuple[np.ndarray, str]:
    if is_regressor(estimator):
        values = to_numpy(estimator.predict(table))
        if values.ndim == 2 and values.shape[1] > 1:
            raise ValueError(
                f"estimator predicts {values.shape[1]} outputs: fit a regressor for each."
            )
        return values.reshape(-1), "prediction"
    if is_outlier_detector(estimator):
        return to_numpy(estimator.decision_function(table)), "decision function (below 0: anomaly)"
    raise TypeError(
        "estimator must be a classifier, a regressor or an outlier detector, got a "
        f"{type(estimator).__name__}."
    )
