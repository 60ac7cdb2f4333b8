"""Plots of partial dependence: ``PartialDependenceDisplay``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..devices.placement import CPU, to_numpy
from ..estimators.parameters import COUNT, seed_of
from ..forest.sum_of_trees import SumOfTrees
from ..inspection.columns import (
    Columns,
    categorical_positions,
    columns_of,
    feature_names_of,
    positions_of,
)
from ..inspection.dependence import (
    check_choices,
    check_estimator,
    partial_dependence,
    recursion_of,
    response_of,
)
from ..numerics.sampling import subset
from .axes import COLORS, GREY, SEQUENTIAL, axes_for, names_for, pyplot, require_fitted, tidy

RESOLUTION, RESOLUTION_OF_PAIRS = 100, 25
WORDS = {
    "predict": "mean prediction",
    "predict_proba": "mean probability",
    "decision_function": "mean decision function",
}


class PartialDependenceDisplay:
    """Partial dependence of features (lines, on request with the rows' own curves) and of pairs of
    features (level plots), a panel for each.

    Lines share their vertical axis, so that panels can be compared; ticks at the bottom are the
    deciles of the feature. Categories have bars; pairs with categories have cells.

    Parameters
    ----------
    panels : list of Panel
        What is drawn: ``features``, ``names``, ``grids``, ``average``, ``individual``, ``deciles``.
    response_name : str, default="partial dependence"
        Name for the axis of the responses.

    Attributes
    ----------
    axes_ : list of matplotlib axes
        Of the panels; ``ax_`` is the first.
    figure_ : matplotlib figure
    lines_ : list of matplotlib line, bars or None
        The average in each panel.
    ice_lines_ : list of matplotlib collection or None
        The rows' curves in each panel.
    contours_ : list of matplotlib contours, mesh or None
        The pairs.

    References
    ----------
    Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics
    29, 2001.
    Goldstein, Kapelner, Bleich and Pitkin, "Peeking inside the black box", Journal of
    Computational and Graphical Statistics 24, 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import RandomForestRegressor
    >>> from gpuens.plotting import PartialDependenceDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(n_estimators=20, device="cpu").fit(X, y)
    >>> display = PartialDependenceDisplay.from_estimator(forest, X, ["bmi", ("bmi", "bp")])
    >>> [panel.average.shape for panel in display.panels]
    [(100,), (25, 25)]
    """

    def __init__(
        self, panels: Sequence[Panel], *, response_name: str = "partial dependence"
    ) -> None:
        self.panels = list(panels)
        self.response_name = response_name

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, features: Any, *, kind: str = "average",
        centered: bool = False, target: Any = None, sample_weight: Any = None,
        categorical_features: Any = None, feature_names: Any = None,
        response_method: str = "auto", percentiles: tuple[float, float] = (0.05, 0.95),
        grid_resolution: int | None = None, method: str = "auto", subsample: int = 50,
        random_state: Any = None, n_cols: int = 3, ax: Any = None, **kwargs: Any,
    ) -> PartialDependenceDisplay:  # fmt: skip
        """Create the display of a fitted classifier or regressor of any library.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
        features : int, str, or list of int, str and pairs of these
            A panel for each.
        kind : {"average", "individual", "both"}, default="average"
            "individual": a curve for each row; "both": and their mean. Pairs have the average only.
        centered : bool, default=False
            Whether curves begin at 0.
        target : label or int, default=None
            The class, of more than two, or the number of the output.
        subsample : int, default=50
            Most rows whose curves are drawn. The average is that of all rows.
        random_state : int, RandomState instance or None, default=None
            Draws these rows; None is a fixed seed.
        grid_resolution : int, default=None
            Points of a feature; None: 100, and 25 for each feature of a pair.
        sample_weight, categorical_features, feature_names, response_method, percentiles, method
            As for ``gpuens.inspection.partial_dependence``.
        n_cols, ax, **kwargs
            As for ``plot``.

        Returns
        -------
        PartialDependenceDisplay

        Raises
        ------
        ValueError
            A feature that is not there, a pair of more than two, no ``target`` where one is needed,
            or a bad parameter.
        """
        require_fitted(estimator)
        check_estimator(estimator, response_method)
        check_choices(response_method=response_method, method=method, kind=kind)
        COUNT.check("subsample", subsample)
        COUNT.check("n_cols", n_cols)
        columns = columns_of(X, estimator)
        names = feature_names_of(columns, feature_names)
        wanted = [positions_of(f, columns, names) for f in _listed(features)]
        categorical = categorical_positions(categorical_features, columns, names, estimator)
        labels = names_for(names, estimator, columns.shape[1])
        rows = subset(columns.shape[0], min(subsample, columns.shape[0]), seed_of(random_state),
                      0, CPU)  # fmt: skip
        common = {"sample_weight": sample_weight, "response_method": response_method,
                  "percentiles": percentiles, "centered": centered}  # fmt: skip
        panels = []
        for positions in wanted:
            pair = len(positions) == 2
            usual = RESOLUTION_OF_PAIRS if pair else RESOLUTION
            own = "average" if pair else kind
            found = partial_dependence(
                estimator, X, positions, kind=own, method=method if own == "average" else "auto",
                grid_resolution=usual if grid_resolution is None else grid_resolution,
                categorical_features=sorted(categorical) or None, **common,
            )  # fmt: skip
            panels.append(_panel(found, positions, labels, categorical, columns, estimator,
                                 target, rows))  # fmt: skip
        name = _response_name(estimator, kind, sample_weight, response_method, method, target)
        display = cls(panels, response_name=f"change of the {name}" if centered else name)
        return display.plot(ax, n_cols=n_cols, **kwargs)

    def plot(
        self, ax: Any = None, *, n_cols: int = 3, line_kw: Any = None, ice_lines_kw: Any = None,
        contour_kw: Any = None,
    ) -> PartialDependenceDisplay:  # fmt: skip
        """Draw the panels.

        Parameters
        ----------
        ax : matplotlib axes or list of them, default=None
            Axes for each panel; one that is divided among them; None: a new figure.
        n_cols : int, default=3
            Most panels beside each other.
        line_kw, ice_lines_kw, contour_kw : dict, default=None
            Of the averages, the rows' curves and the pairs, as ``Axes.plot``, ``LineCollection``
            and ``Axes.contourf`` take them.

        Returns
        -------
        PartialDependenceDisplay
        """
        COUNT.check("n_cols", n_cols)
        self.axes_, artists = draw_panels(
            self.panels, ax, n_cols, self.response_name, line_kw or {}, ice_lines_kw or {},
            contour_kw or {},
        )  # fmt: skip
        self.ax_ = self.axes_[0]
        self.figure_ = self.ax_.figure
        self.lines_, self.ice_lines_, self.contours_ = map(list, zip(*artists, strict=True))
        return self


def _listed(features: Any) -> list[Any]:
    """Return one entry for each panel: a feature, or a list of two."""
    listed = [features] if isinstance(features, (str, int, np.integer)) else list(features)
    if not listed:
        raise ValueError("features names no feature: pass at least one position or name.")
    for entry in listed:
        if isinstance(entry, (tuple, list)) and len(entry) not in (1, 2):
            raise ValueError(
                f"features has {entry!r}, but a panel shows one feature or a pair: pass positions, "
                "names, and tuples of two."
            )
    return [list(entry) if isinstance(entry, tuple) else entry for entry in listed]


def _panel(
    found: Any, positions: Sequence[int], labels: Sequence[str], categorical: set[int],
    columns: Columns, estimator: Any, target: Any, rows: np.ndarray,
) -> Panel:  # fmt: skip
    some = "average" if "average" in found else "individual"
    output = _output(estimator, target, found[some].shape[0])
    average = to_numpy(found["average"])[output] if "average" in found else None
    individual = to_numpy(found["individual"])[output][rows] if "individual" in found else None
    is_categorical = tuple(f in categorical for f in positions)
    return Panel(
        tuple(positions),
        tuple(labels[f] for f in positions),
        is_categorical,
        tuple(to_numpy(grid) for grid in found["grid_values"]),
        average,
        individual,
        tuple(None if c else _deciles(columns, f)
              for f, c in zip(positions, is_categorical, strict=True)),
    )  # fmt: skip


def _deciles(columns: Columns, feature: int) -> np.ndarray:
    values = to_numpy(columns.numbers(feature))
    return np.quantile(values[np.isfinite(values)], np.arange(0.1, 1.0, 0.1))


def _output(estimator: Any, target: Any, n_outputs: int) -> int:
    """Return which of the outputs is drawn."""
    if n_outputs == 1:
        if target is not None and is_classifier(estimator) and target != estimator.classes_[-1]:
            raise ValueError(
                f"target must be {estimator.classes_[-1]!r} or None, the class whose dependence is "
                f"computed where there are two, got {target!r}."
            )
        return 0
    known = list(estimator.classes_) if is_classifier(estimator) else list(range(n_outputs))
    if target is None or target not in known:
        some = ", ".join(str(label) for label in known[:20])
        what = "classes" if is_classifier(estimator) else "outputs"
        raise ValueError(f"target must be one of the {what} {some}, got {target!r}.")
    return known.index(target)


def _response_name(
    estimator: Any, kind: str, sample_weight: Any, response_method: str, method: str, target: Any
) -> str:
    """Return the label of the vertical axis."""
    trees = recursion_of(estimator, method if kind == "average" else "auto", kind, sample_weight,
                         response_method)  # fmt: skip
    if trees is None:
        response = response_of(estimator, response_method)
    elif isinstance(trees, SumOfTrees):
        response = trees.response or ""
    else:
        response = "decision_function" if is_classifier(estimator) else "predict"
    words = WORDS[response] if kind != "individual" else WORDS[response].removeprefix("mean ")
    if not is_classifier(estimator):
        return words if target is None else f"{words} of output {target}"
    return f"{words} of class {estimator.classes_[-1] if target is None else target}"


PANEL_WIDTH, PANEL_HEIGHT = 3.2, 2.8
"""In inches, of a figure that is made for the panels."""
SPACE = 0.05
"""Above and below all curves, as a share of their range."""
LEVELS = 9
LONG_LABEL = 4
"""Letters from which on the names of categories are turned."""


@dataclass(frozen=True)
class Panel:
    """The dependence on one feature or two: the values of each feature (``grids``), the average at
    these, the curves of the rows (n_rows, n_values) or None, and the deciles of features that are
    numbers."""

    features: tuple[int, ...]
    names: tuple[str, ...]
    is_categorical: tuple[bool, ...]
    grids: tuple[np.ndarray, ...]
    average: Any
    individual: Any
    deciles: tuple[Any, ...]

    @property
    def is_pair(self) -> bool:
        """Return whether the panel shows two features."""
        return len(self.features) == 2


def draw_panels(
    panels: Sequence[Panel], ax: Any, n_cols: int, response_name: str, line_kw: dict[str, Any],
    ice_lines_kw: dict[str, Any], contour_kw: dict[str, Any],
) -> tuple[list[Any], list[tuple[Any, Any, Any]]]:  # fmt: skip
    """Draw all panels; return their axes, and for each the average, the rows' curves and the
    levels."""
    axes = _axes_of_panels(len(panels), ax, n_cols)
    limits = _limits(panels)
    artists = []
    for i, (panel, own) in enumerate(zip(panels, axes, strict=True)):
        if panel.is_pair:
            artists.append((None, None, _draw_pair(panel, own, response_name, contour_kw)))
            continue
        average, rows = _draw_one(panel, own, line_kw, ice_lines_kw)
        own.set_ylim(limits)
        first = i == 0 or panels[i - 1].is_pair or _starts_line(axes, i)
        tidy(own, panel.names[0], response_name if first else "")
        own.tick_params(labelleft=bool(first))
        artists.append((average, rows, None))
    return axes, artists


def _axes_of_panels(n: int, ax: Any, n_cols: int) -> list[Any]:
    n_cols = min(n, n_cols)
    n_rows = math.ceil(n / n_cols)
    if isinstance(ax, (list, tuple, np.ndarray)):
        axes = list(np.asarray(ax, object).ravel())
        if len(axes) != n:
            raise ValueError(f"ax has {len(axes)} axes for {n} panels: pass one for each.")
        return [axes_for(own) for own in axes]
    if ax is not None and n == 1:
        return [axes_for(ax)]
    if ax is None:
        size = n_cols * PANEL_WIDTH, n_rows * PANEL_HEIGHT
        figure = pyplot().figure(figsize=size, layout="constrained")
        grid = figure.add_gridspec(n_rows, n_cols)
    else:
        ax = axes_for(ax)
        figure = ax.figure
        ax.set_axis_off()
        place = ax.get_subplotspec()
        if place is None:
            raise ValueError(
                "ax was not made by subplots, so it cannot be divided: pass one for each panel."
            )
        grid = place.subgridspec(n_rows, n_cols)
    return [figure.add_subplot(grid[i // n_cols, i % n_cols]) for i in range(n)]


def _starts_line(axes: Sequence[Any], i: int) -> bool:
    spec = axes[i].get_subplotspec()
    return spec is None or spec.is_first_col()


def _limits(panels: Sequence[Panel]) -> tuple[float, float]:
    """Return the limits of the vertical axis that the panels of one feature share."""
    drawn = [
        values for panel in panels if not panel.is_pair
        for values in (panel.average, panel.individual) if values is not None
    ]  # fmt: skip
    if not drawn:
        return 0.0, 1.0
    low, high = min(float(v.min()) for v in drawn), max(float(v.max()) for v in drawn)
    space = SPACE * (high - low) or 0.5
    return low - space, high + space


def _draw_one(
    panel: Panel, ax: Any, line_kw: dict[str, Any], ice_lines_kw: dict[str, Any]
) -> tuple[Any, Any]:
    """Draw the curves of a feature, or bars for its categories."""
    from matplotlib.collections import LineCollection

    (values,), (categorical,), (deciles,) = panel.grids, panel.is_categorical, panel.deciles
    at = np.arange(len(values)) if categorical else values
    rows = None
    if panel.individual is not None:
        curves = [np.stack([at, curve], axis=1) for curve in panel.individual]
        of_rows: dict[str, Any] = {"colors": GREY, "linewidths": 0.6, "alpha": 0.5}
        rows = ax.add_collection(LineCollection(curves, **of_rows | ice_lines_kw))
        ax.autoscale_view()
    average = None
    if panel.average is not None:
        style: dict[str, Any] = {"color": COLORS[0], "linewidth": 2.0} | line_kw
        if categorical:
            style = {"linestyle": "", "marker": "o", "markersize": 7} | style
        (average,) = ax.plot(at, panel.average, **style)
    if categorical:
        _name_categories(ax.set_xticks, values)
        ax.set_xlim(-0.5, len(values) - 0.5)
    elif deciles is not None:
        _mark_deciles(ax, deciles, "x", "black")
    return average, rows


def _draw_pair(panel: Panel, ax: Any, response_name: str, contour_kw: dict[str, Any]) -> Any:
    """Draw levels over two features, or cells where one has categories."""
    at = [
        np.arange(len(values)) if categorical else values
        for values, categorical in zip(panel.grids, panel.is_categorical, strict=True)
    ]
    if any(panel.is_categorical):
        drawn = ax.pcolormesh(*at, panel.average.T, shading="nearest", cmap=SEQUENTIAL)
    else:
        style = {"levels": LEVELS, "cmap": SEQUENTIAL} | contour_kw
        drawn = ax.contourf(*at, panel.average.T, **style)
        for direction, deciles in zip("xy", panel.deciles, strict=True):
            _mark_deciles(ax, deciles, direction, COLORS[1])
    for set_ticks, values, categorical in zip(
        (ax.set_xticks, ax.set_yticks), panel.grids, panel.is_categorical, strict=True
    ):
        if categorical:
            _name_categories(set_ticks, values)
    ax.figure.colorbar(drawn, ax=ax, label=response_name)
    tidy(ax, panel.names[0], panel.names[1], grid=None)
    return drawn


def _name_categories(set_ticks: Any, values: np.ndarray) -> None:
    names = [f"{value:g}" if isinstance(value, float) else str(value) for value in values.tolist()]
    is_x = set_ticks.__name__ == "set_xticks"
    turned = {"rotation": 30, "ha": "right"} if is_x and max(map(len, names)) > LONG_LABEL else {}
    set_ticks(range(len(names)), names, **turned)


def _mark_deciles(ax: Any, deciles: np.ndarray, direction: str, color: str) -> None:
    """Draw short ticks inside the axes, at their edge."""
    low, high = ax.get_xlim() if direction == "x" else ax.get_ylim()
    inside = deciles[(deciles >= low) & (deciles <= high)]
    across = ax.get_xaxis_transform() if direction == "x" else ax.get_yaxis_transform()
    lines = ax.vlines if direction == "x" else ax.hlines
    lines(inside, 0, 0.04, transform=across, color=color, linewidth=1)
    (ax.set_xlim if direction == "x" else ax.set_ylim)(low, high)
