"""The panels of ``PartialDependenceDisplay``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .axes import COLORS, GREY, SEQUENTIAL, axes_for, pyplot, tidy

PANEL_WIDTH, PANEL_HEIGHT = 3.2, 2.8
"""In inches, of a figure that is made for the panels."""
SPACE = 0.05
"""Above and below all curves, as a share of their range."""
LEVELS = 9
LONG_LABEL = 4
"""Letters from which on the names of categories are turned."""


@dataclass(frozen=True)
class Panel:
    """The dependence on one feature or two.

    features : tuple of int
    names : tuple of str
    is_categorical : tuple of bool
    grids : tuple of ndarray
        The values of each feature.
    average : float64, shape (n_values,) or (n_values, n_values), or None
    individual : float64, shape (n_rows, n_values), or None
    deciles : tuple of float64, shape (9,), or None
        Of the features that are numbers.
    """

    features: tuple[int, ...]
    names: tuple[str, ...]
    is_categorical: tuple[bool, ...]
    grids: tuple[np.ndarray, ...]
    average: Any
    individual: Any
    deciles: tuple[Any, ...]

    @property
    def is_pair(self) -> bool:
        """Whether it shows two features."""
        return len(self.features) == 2


def draw_panels(
    panels: Sequence[Panel], ax: Any, n_cols: int, response_name: str, line_kw: dict[str, Any],
    ice_lines_kw: dict[str, Any], contour_kw: dict[str, Any],
) -> tuple[list[Any], list[tuple[Any, Any, Any]]]:  # fmt: skip
    """Draw all panels; their axes, and of each the average, the rows' curves and the levels."""
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
    shape = math.ceil(n / n_cols), n_cols
    if isinstance(ax, (list, tuple, np.ndarray)):
        axes = list(np.asarray(ax, object).ravel())
        if len(axes) != n:
            raise ValueError(f"ax has {len(axes)} axes for {n} panels: pass one for each.")
        return [axes_for(own) for own in axes]
    if ax is not None and n == 1:
        return [axes_for(ax)]
    if ax is None:
        size = shape[1] * PANEL_WIDTH, shape[0] * PANEL_HEIGHT
        figure = pyplot().figure(figsize=size, layout="constrained")
        grid = figure.add_gridspec(*shape)
    else:
        ax = axes_for(ax)
        figure = ax.figure
        ax.set_axis_off()
        grid = ax.get_subplotspec().subgridspec(*shape) if ax.get_subplotspec() else None
        if grid is None:
            raise ValueError(
                "ax was not made by subplots, so it cannot be divided: pass one for each panel."
            )
    return [figure.add_subplot(grid[i // n_cols, i % n_cols]) for i in range(n)]


def _starts_line(axes: Sequence[Any], i: int) -> bool:
    spec = axes[i].get_subplotspec()
    return spec is None or spec.is_first_col()


def _limits(panels: Sequence[Panel]) -> tuple[float, float]:
    """Of the vertical axis that the panels of one feature share."""
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
    """Curves of a feature, or bars of its categories."""
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
    """Levels over two features; cells where one has categories."""
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
    """Short ticks inside the axes, at their edge."""
    low, high = ax.get_xlim() if direction == "x" else ax.get_ylim()
    inside = deciles[(deciles >= low) & (deciles <= high)]
    across = ax.get_xaxis_transform() if direction == "x" else ax.get_yaxis_transform()
    lines = ax.vlines if direction == "x" else ax.hlines
    lines(inside, 0, 0.04, transform=across, color=color, linewidth=1)
    (ax.set_xlim if direction == "x" else ax.set_ylim)(low, high)
