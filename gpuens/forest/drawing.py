"""Pictures of trees: where the nodes go, and how matplotlib draws them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .labels import CROPPED, CROPPED_COLOR
from .view import TreeView

LARGEST_FONT = 12.0
"""Points; small trees in large figures do not grow beyond it."""
PADDING = 0.4
"""Between a text and its frame, in font sizes."""
GAP, LEVEL_GAP = 1.5, 3.0
"""Least space between the frames of a level, and between levels, in font sizes."""
FITTINGS = 3
"""Letters do not shrink in proportion, so the fit is repeated."""
WHOLE_FIGURE = 0.01, 0.01, 0.98, 0.93
"""Axes in a figure that has none; leaves room for a title."""


def shown_nodes(view: TreeView, max_depth: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The nodes to draw, and whether each stands for a branch that is cropped.

    A branch below ``max_depth`` splits is represented by its first node.
    """
    depth = view.compute_node_depths() - 1
    deepest = depth.max() if max_depth is None else max_depth
    nodes = np.flatnonzero(depth <= deepest + 1)
    return nodes, depth[nodes] > deepest


def arrange(left: np.ndarray, width: np.ndarray, gap: float) -> np.ndarray:
    """Horizontal places of nodes: parents centred above their children, nothing overlaps,
    subtrees as close as their outlines allow.

    Parameters
    ----------
    left : int, shape (n_nodes,)
        The left child of each node, -1 at a leaf; the right one is ``left + 1``. Children come
        after their parents.
    width : float, shape (n_nodes,)
    gap : float
        Least distance between neighbours.

    Returns
    -------
    float64, shape (n_nodes,)
        Centres, the root's at 0.

    References
    ----------
    Reingold and Tilford, "Tidier drawings of trees", IEEE Transactions on Software Engineering
    7(2), 1981.
    """
    n = left.size
    shift = np.zeros(n)  # from the parent
    outlines: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # of subtrees, level by level
    for node in range(n - 1, -1, -1):
        own, first = np.array([width[node] / 2]), int(left[node])
        if first < 0:
            outlines[node] = -own, own
            continue
        first_low, first_high = outlines.pop(first)
        second_low, second_high = outlines.pop(first + 1)
        common = min(first_high.size, second_low.size)
        half = ((first_high[:common] - second_low[:common]).max() + gap) / 2
        shift[first], shift[first + 1] = -half, half
        low = np.concatenate([first_low - half, second_low[common:] + half])
        high = np.concatenate([second_high + half, first_high[common:] - half])
        outlines[node] = np.concatenate([-own, low]), np.concatenate([own, high])
    place = np.zeros(n)
    for parent in np.flatnonzero(left >= 0):
        both = slice(left[parent], left[parent] + 2)
        place[both] = place[parent] + shift[both]
    return place


def draw(
    view: TreeView,
    text: Callable[[int], str],
    fills: list[str] | None,
    max_depth: int | None,
    rounded: bool,
    fontsize: float | None,
    ax: Any,
) -> list[Any]:
    """Draw a tree into axes, in the manner of ``plot_tree``.

    Parameters
    ----------
    text : callable
        The lines of a node.
    fills : list or None
        The color of every node.
    """
    ax = _axes(ax)
    nodes, cropped = shown_nodes(view, max_depth)
    size = LARGEST_FONT if fontsize is None else float(fontsize)
    boxes = []
    for node, is_cropped in zip(nodes.tolist(), cropped, strict=True):
        content = CROPPED if is_cropped else text(node)
        fill = None if fills is None else CROPPED_COLOR if is_cropped else fills[node]
        boxes.append(_box(ax, content, fill, rounded, size))
    left = np.where(cropped, -1, view.children_left[nodes])
    depth = view.compute_node_depths()[nodes] - 1
    layout = _measure(ax, boxes, left, depth)
    for _ in range(FITTINGS if fontsize is None else 0):
        size *= min(1.0, layout.scale)
        for box in boxes:
            box.set_fontsize(size)
        layout = _measure(ax, boxes, left, depth)
    return boxes + _place(ax, boxes, left, depth, layout)


def _axes(ax: Any) -> Any:
    """The axes to draw into, empty."""
    if ax is None:
        figure = _pyplot().gcf()
        ax = figure.gca() if figure.axes else figure.add_axes(WHOLE_FIGURE)
    ax.clear()
    ax.set_axis_off()
    return ax


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "plot_tree needs matplotlib, which is not installed. Run: pip install 'gpuens[viz]'"
        ) from error
    return pyplot


def _box(ax: Any, text: str, fill: str | None, rounded: bool, size: float) -> Any:
    frame = {
        "boxstyle": f"{'round' if rounded else 'square'}, pad={PADDING}",
        "facecolor": ax.get_facecolor() if fill is None else fill,
        "linewidth": 0.8,
    }
    style = {"bbox": frame, "ha": "center", "va": "center", "zorder": 3, "fontsize": size}
    if fill is not None:
        style["color"] = "black"
    return ax.text(0.5, 0.5, text, transform=ax.transAxes, **style)


class _Layout(NamedTuple):
    """In pixels: centres of the boxes, extent of the drawing, heights of its levels."""

    x: np.ndarray
    low: float
    high: float
    levels: np.ndarray
    scale: float
    """How much larger the boxes could be."""


def _measure(ax: Any, boxes: list[Any], left: np.ndarray, depth: np.ndarray) -> _Layout:
    unit = boxes[0].get_fontsize() * ax.get_figure(root=True).dpi / 72.0
    extents = [box.get_window_extent() for box in boxes]
    width = np.array([extent.width for extent in extents]) + 2 * PADDING * unit
    height = np.array([extent.height for extent in extents]) + 2 * PADDING * unit
    x = arrange(left, width, GAP * unit)
    low, high = (x - width / 2).min(), (x + width / 2).max()
    levels = np.zeros(depth.max() + 1)
    np.maximum.at(levels, depth, height)
    total = levels.sum() + LEVEL_GAP * unit * (levels.size - 1)
    frame = ax.get_window_extent()
    return _Layout(x, low, high, levels, min(frame.width / (high - low), frame.height / total))


def _place(
    ax: Any, boxes: list[Any], left: np.ndarray, depth: np.ndarray, layout: _Layout
) -> list[Any]:
    """Move the boxes to their places, filling the axes, and draw the arrows. Returns the words
    beside the root's."""
    height, levels = ax.get_window_extent().height, layout.levels
    gap = (height - levels.sum()) / max(levels.size - 1, 1)
    lower = height - np.cumsum(levels) - gap * np.arange(levels.size)
    x = (layout.x - layout.low) / (layout.high - layout.low)
    y = (lower + levels / 2)[depth] / height if levels.size > 1 else np.array([0.5])
    for box, at in zip(boxes, zip(x, y, strict=True), strict=True):
        box.set_position(at)
    size = boxes[0].get_fontsize()
    for node in np.flatnonzero(left >= 0):
        for child in (int(left[node]), int(left[node]) + 1):
            _arrow(ax, boxes[node], boxes[child], size)
    if left[0] < 0:
        return []
    style = {"transform": ax.transAxes, "va": "bottom", "fontsize": size}
    middle = (lower[0] - gap / 2) / height
    return [
        ax.text((x[0] + x[child]) / 2, middle, word, ha=side, **style)
        for child, word, side in ((1, "True ", "right"), (2, " False", "left"))
    ]


def _arrow(ax: Any, parent: Any, child: Any, size: float) -> None:
    """From the lower edge of a box to the upper edge of another, wherever they move."""
    arrow = {
        "arrowstyle": "->",
        "color": parent.get_bbox_patch().get_edgecolor(),
        "linewidth": 0.8,
        "patchA": parent.get_bbox_patch(),
        "patchB": child.get_bbox_patch(),
        "shrinkA": 0,
        "shrinkB": 0,
    }
    ends = {"xy": (0.5, 1), "xycoords": child, "xytext": (0.5, 0), "textcoords": parent}
    ax.annotate("", **ends, arrowprops=arrow, fontsize=size, zorder=4)
