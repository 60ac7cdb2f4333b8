"""Plots of Shapley values: ``BeeswarmDisplay``, ``WaterfallDisplay`` and
``ShapleyDependenceDisplay``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..devices.placement import to_numpy
from ..estimators.docstrings import documented
from ..estimators.parameters import COUNT, integer
from ..explanation.explainer import TreeExplainer
from .axes import (
    COLORS,
    DRAWN,
    DRAWN_ON,
    GREY,
    SEQUENTIAL,
    axes_for,
    finite,
    name_lines,
    names_for,
    require_fitted,
    tidy,
)

LABEL = "Shapley value (effect on the raw prediction)"
SWARM_BINS = 80
"""Bins of a line of a swarm: points of the same bin are put beside each other."""


class BeeswarmDisplay:
    """The Shapley values of many rows, a line of points for each feature.

    Parameters
    ----------
    values : float64, shape (n_rows, n_features)
        Shapley values.
    data : array or data frame, shape (n_rows, n_features)
        The rows; their values colour the points, grey where they are missing.
    feature_names : list of str, default=None
        None: "x[0]", "x[1]", ...

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    order_ : int64, shape (n_lines,)
        The features, the largest mean absolute value first.
    points_ : list of matplotlib collections
        Of each line.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import GradientBoostingRegressor
    >>> from gpuens.plotting import BeeswarmDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = GradientBoostingRegressor(n_estimators=20, device="cpu").fit(X, y)
    >>> display = BeeswarmDisplay.from_estimator(model, X)
    >>> display.values.shape, len(display.points_)
    ((442, 10), 10)
    """

    def __init__(self, values: Any, data: Any, *, feature_names: Any = None) -> None:
        self.values = _table(values, "values")
        self.data = numbers_of(data, self.values.shape)
        self.feature_names = names_for(feature_names, None, self.values.shape[1])

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, output: int | None = None, feature_names: Any = None,
        max_features: int = 20, ax: Any = None, **kwargs: Any,
    ) -> BeeswarmDisplay:  # fmt: skip
        """Create the display of path-dependent Shapley values.

        Parameters
        ----------
        estimator : fitted estimator
            As for ``gpuens.TreeExplainer``.
        X : array or data frame, shape (n_rows, n_features)
        output : int, default=None
            Number of the output, of models that have several.
        feature_names : list of str, default=None
            None: the columns of the data frame that was fitted.
        max_features, ax, **kwargs
            As for ``plot``.

        Returns
        -------
        BeeswarmDisplay
        """
        values, _ = _explain(estimator, X, output)
        names = names_for(feature_names, estimator, values.shape[1])
        display = cls(values, X, feature_names=names)
        return display.plot(ax=ax, max_features=max_features, **kwargs)

    @documented(DRAWN_ON, artist="points", by="scatter", display="BeeswarmDisplay")
    def plot(self, ax: Any = None, *, max_features: int = 20, **kwargs: Any) -> BeeswarmDisplay:
        """Draw the points.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            None: new ones.
        max_features : int, default=20
            The most important ones are drawn.
        <shared>
        """
        COUNT.check("max_features", max_features)
        self.ax_ = ax = axes_for(ax)
        self.figure_ = ax.figure
        importance = np.abs(self.values).mean(axis=0)
        self.order_ = order = np.argsort(-importance, kind="stable")[:max_features]
        style: dict[str, Any] = {"s": 9, "linewidths": 0} | kwargs
        self.points_ = []
        for line, f in enumerate(order):
            values, ranks = self.values[:, f], _ranks(self.data[:, f])
            at, known = line + _offsets(values), ranks == ranks
            ax.scatter(values[~known], at[~known], color=GREY, **style)
            self.points_.append(
                ax.scatter(
                    values[known],
                    at[known],
                    c=ranks[known],
                    cmap=SEQUENTIAL,
                    vmin=0,
                    vmax=1,
                    **style,
                )  # fmt: skip
            )
        ax.axvline(0, color="black", linewidth=0.8)
        name_lines(ax, [self.feature_names[f] for f in order])
        ax.set_ylim(order.size - 0.5, -0.5)
        tidy(ax, LABEL, "", grid="x")
        bar = self.figure_.colorbar(self.points_[0], ax=ax, ticks=[0, 1], aspect=40)
        bar.ax.set_yticklabels(["low", "high"])
        bar.set_label("value of the feature")
        return self


class WaterfallDisplay:
    """The Shapley values of one row: from the expected value to the prediction.

    Parameters
    ----------
    values : float64, shape (n_features,)
        Shapley values of one row.
    base_value : float
        The expected value.
    data : array, shape (n_features,), default=None
        Values of the features, for the labels.
    feature_names : list of str, default=None
        None: "x[0]", "x[1]", ...

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    order_ : int64, shape (n_features_drawn,)
        Features of the bars, the largest absolute value first.
    bars_ : matplotlib container
        One more than in ``order_`` if the other features share one.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import GradientBoostingRegressor
    >>> from gpuens.plotting import WaterfallDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = GradientBoostingRegressor(n_estimators=20, device="cpu").fit(X, y)
    >>> display = WaterfallDisplay.from_estimator(model, X.iloc[:1], max_features=4)
    >>> len(display.bars_)
    4
    """

    def __init__(
        self, values: Any, base_value: float, *, data: Any = None, feature_names: Any = None
    ) -> None:
        self.values = finite(values, "values")
        if self.values.ndim != 1 or self.values.size == 0:
            raise ValueError(f"values must have the shape (n_features,), got {self.values.shape}.")
        self.base_value = float(finite(base_value, "base_value"))
        self.data = None if data is None else np.asarray(data).reshape(-1)
        self.feature_names = names_for(feature_names, None, self.values.size)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, output: int | None = None, feature_names: Any = None,
        max_features: int = 10, ax: Any = None, **kwargs: Any,
    ) -> WaterfallDisplay:  # fmt: skip
        """Create the display of path-dependent Shapley values of a row.

        Parameters
        ----------
        estimator : fitted estimator
            As for ``gpuens.TreeExplainer``.
        X : array or data frame, shape (1, n_features)
            The row.
        output : int, default=None
            Number of the output, of models that have several.
        feature_names, max_features, ax, **kwargs
            As for ``BeeswarmDisplay.from_estimator`` and ``plot``.

        Returns
        -------
        WaterfallDisplay
        """
        values, base = _explain(estimator, X, output)
        if len(values) != 1:
            raise ValueError(f"X must have one row, got {len(values)}: pass X[i : i + 1].")
        names = names_for(feature_names, estimator, values.shape[1])
        row = X.to_numpy() if hasattr(X, "to_numpy") else to_numpy(X)
        display = cls(values[0], base, data=row, feature_names=names)
        return display.plot(ax=ax, max_features=max_features, **kwargs)

    @documented(DRAWN_ON, artist="bars", by="barh", display="WaterfallDisplay")
    def plot(self, ax: Any = None, *, max_features: int = 10, **kwargs: Any) -> WaterfallDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            None: new ones.
        max_features : int, default=10
            Bars; the last one is that of all other features together.
        <shared>
        """
        COUNT.check("max_features", max_features)
        self.ax_ = ax = axes_for(ax)
        self.figure_ = ax.figure
        ranked = np.argsort(-np.abs(self.values), kind="stable")
        rest = ranked[max_features - 1 :] if ranked.size > max_features else ranked[:0]
        self.order_ = order = ranked[: ranked.size - rest.size]
        values, labels = self.values[order], [self._label(f) for f in order]
        if rest.size:
            values = np.append(values, self.values[rest].sum())
            labels.append(f"{rest.size} other features")
        # The last bar begins at the expected value, the first one ends at the prediction.
        ends = self.base_value + np.cumsum(values[::-1])[::-1]
        colors = [COLORS[1] if value > 0 else COLORS[0] for value in values]
        style = {"height": 0.7, "color": colors} | kwargs
        at = np.arange(values.size)
        self.bars_ = ax.barh(at, values, left=ends - values, **style)
        # On the right of every bar: on the left of one they would lie on the names of features.
        right = np.maximum(ends, ends - values)
        for y, value, end in zip(at, values, right, strict=True):
            ax.annotate(
                f"{value:+.3g}", (end, y), (3, 0), textcoords="offset points", va="center",
                fontsize=8,
            )  # fmt: skip
        ax.use_sticky_edges = False  # so that there is room beside the bars
        ax.margins(x=0.1)
        ax.set_xlim(right=ax.get_xlim()[1] + 0.1 * np.ptp(ax.get_xlim()))  # for the values
        ax.axvline(self.base_value, color=GREY, linewidth=0.8, linestyle="--")
        name_lines(ax, labels)
        ax.invert_yaxis()
        tidy(ax, f"raw prediction (expected {self.base_value:.4g}, here {ends[0]:.4g})", "", "x")
        return self

    def _label(self, feature: int) -> str:
        name = self.feature_names[feature]
        if self.data is None:
            return name
        value = self.data[feature]
        is_real = isinstance(value, (float, np.floating))
        return f"{name} = {value:.4g}" if is_real else f"{name} = {value}"


class ShapleyDependenceDisplay:
    """The Shapley values of a feature against its values.

    Parameters
    ----------
    values : float64, shape (n_rows,)
        Shapley values of the feature.
    data : array, shape (n_rows,)
        Its values; missing ones are left out.
    color : array, shape (n_rows,), default=None
        Values of another feature, which colour the points.
    feature_name, color_name : str, default="x" and "other feature"
        Names for the axis and the scale of colours.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    points_ : matplotlib collection

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import GradientBoostingRegressor
    >>> from gpuens.plotting import ShapleyDependenceDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = GradientBoostingRegressor(n_estimators=20, device="cpu").fit(X, y)
    >>> display = ShapleyDependenceDisplay.from_estimator(model, X, "bmi", color="s5")
    >>> display.ax_.get_xlabel()
    'bmi'
    """

    def __init__(
        self, values: Any, data: Any, *, color: Any = None, feature_name: str = "x",
        color_name: str = "other feature",
    ) -> None:  # fmt: skip
        self.values = _table(np.asarray(to_numpy(values))[:, None], "values")[:, 0]
        shape = (self.values.size, 1)
        self.data = numbers_of(np.asarray(to_numpy(data)).reshape(-1, 1), shape)[:, 0]
        self.color = None
        if color is not None:
            self.color = numbers_of(np.asarray(to_numpy(color)).reshape(-1, 1), shape)[:, 0]
        self.feature_name, self.color_name = feature_name, color_name

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, feature: int | str, *, color: int | str | None = None,
        output: int | None = None, feature_names: Any = None, ax: Any = None, **kwargs: Any,
    ) -> ShapleyDependenceDisplay:  # fmt: skip
        """Create the display of path-dependent Shapley values.

        Parameters
        ----------
        estimator : fitted estimator
            As for ``gpuens.TreeExplainer``.
        X : array or data frame, shape (n_rows, n_features)
        feature : int or str
            Number or name.
        color : int or str, default=None
            Another feature, which colours the points.
        output, feature_names, ax, **kwargs
            As for ``BeeswarmDisplay.from_estimator``.

        Returns
        -------
        ShapleyDependenceDisplay
        """
        values, _ = _explain(estimator, X, output)
        names = names_for(feature_names, estimator, values.shape[1])
        data = numbers_of(X, values.shape)
        f = _position(feature, names, "feature")
        other = None if color is None else _position(color, names, "color")
        display = cls(
            values[:, f], data[:, f], feature_name=names[f],
            color=None if other is None else data[:, other],
            color_name="" if other is None else names[other],
        )  # fmt: skip
        return display.plot(ax=ax, **kwargs)

    @documented(DRAWN, artist="points", by="scatter", display="ShapleyDependenceDisplay")
    def plot(self, ax: Any = None, **kwargs: Any) -> ShapleyDependenceDisplay:
        """Draw the points.

        Parameters
        ----------
        <shared>
        """
        self.ax_ = ax = axes_for(ax)
        self.figure_ = ax.figure
        known = self.data == self.data
        style: dict[str, Any] = {"s": 12, "linewidths": 0}
        if self.color is None:
            style["color"] = COLORS[0]
        else:
            known &= self.color == self.color
            style |= {"c": self.color[known], "cmap": SEQUENTIAL}
        self.points_ = ax.scatter(self.data[known], self.values[known], **style | kwargs)
        if self.color is not None:
            self.figure_.colorbar(self.points_, ax=ax, aspect=40).set_label(self.color_name)
        tidy(ax, self.feature_name, LABEL)
        return self


def _explain(estimator: Any, X: Any, output: int | None) -> tuple[np.ndarray, float]:
    """Return Shapley values (n_rows, n_features) of an output, and its expected value."""
    require_fitted(estimator)
    explainer = TreeExplainer(estimator)
    values = to_numpy(explainer.shap_values(X))
    expected = np.atleast_1d(explainer.expected_value)
    if output is None and expected.size > 1:
        raise ValueError(
            f"output must be a number from 0 to {expected.size - 1}, the model has "
            f"{expected.size} outputs; got None."
        )
    chosen = 0 if output is None else output
    integer(0).check("output", chosen)
    if chosen >= expected.size:
        raise ValueError(f"output must be below {expected.size}, got {output!r}.")
    return values if values.ndim == 2 else values[:, :, chosen], float(expected[chosen])


def numbers_of(data: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return a table as float64, with a number for each text of a column. Raises a ValueError if
    its shape is not that of the Shapley values."""
    table = np.asarray(data.to_numpy() if hasattr(data, "to_numpy") else to_numpy(data))
    if table.shape != shape:
        raise ValueError(f"data must have the shape {shape} of the values, got {table.shape}.")
    if table.dtype.kind in "fiub":
        return table.astype(np.float64)
    return np.stack([_column_of_numbers(column) for column in table.T], axis=1)


def _column_of_numbers(column: np.ndarray) -> np.ndarray:
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        return np.unique([str(value) for value in column], return_inverse=True)[1].astype(float)


def _table(values: Any, name: str) -> np.ndarray:
    table = finite(values, name)
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"{name} must have the shape (n_rows, n_features), got {table.shape}.")
    return table


def _position(feature: Any, names: list[str], name: str) -> int:
    """Return the number of a feature that is given by number or name."""
    if isinstance(feature, str):
        if feature not in names:
            raise ValueError(f"{name} must be a feature, got {feature!r}; there are {names}.")
        return names.index(feature)
    integer(0).check(name, feature)
    if feature >= len(names):
        raise ValueError(f"{name} must be below the {len(names)} features, got {feature}.")
    return int(feature)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return the share of smaller values, from 0 to 1; NaN for NaN, one half for a constant."""
    known = values == values
    distinct, place = np.unique(values[known], return_inverse=True)
    ranks = np.full(values.size, np.nan)
    ranks[known] = place / (distinct.size - 1) if distinct.size > 1 else 0.5
    return ranks


def _offsets(values: np.ndarray) -> np.ndarray:
    """Return by how much points leave their line, so that those of a bin lie beside each other."""
    span = values.max() - values.min()
    bins = ((values - values.min()) / (span or 1.0) * SWARM_BINS).astype(np.int64)
    order = np.argsort(bins, kind="stable")
    first = np.searchsorted(bins[order], bins[order])
    number = np.empty(values.size, np.int64)
    number[order] = np.arange(values.size) - first
    side = np.where(number % 2 == 0, 1, -1) * ((number + 1) // 2)
    return 0.4 * side / max(1, np.abs(side).max())
