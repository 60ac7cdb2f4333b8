"""Pictures of trees: the text and the colour of each node, where nodes go, and matplotlib."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from colorsys import hls_to_rgb
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from .plain import require_plain_trees
from .view import TreeView

LINE_LENGTH = 30
"""Longer lists of values are broken."""
SHOWN_CATEGORIES = 24
"""Characters of a set of categories in a picture."""
CROPPED = "(...)"
CROPPED_COLOR = "#c0c0c0"
LIGHTEST, DARKEST = 1.0, 0.66
"""Lightness of an undecided and of a pure node: black text is legible on both."""


@dataclass(frozen=True)
class Subject:
    """A tree with the names of its impurity and of its classes.

    Parameters
    ----------
    view : TreeView
    criterion : str
    classes : list of sequences, one for each output, or None
        The labels of a classifier; None for regression.
    """

    view: TreeView
    criterion: str
    classes: list[Any] | None

    @property
    def classifies(self) -> bool:
        return self.classes is not None


def read_tree(decision_tree: Any) -> Subject:
    """Return the tree of a fitted estimator, or of a view.

    Raises
    ------
    TypeError
        It is neither.
    ValueError
        Its splits are of sums of features, or its leaves have linear functions.
    sklearn.exceptions.NotFittedError
    """
    if isinstance(decision_tree, TreeView):
        n_classes = decision_tree.n_classes
        numbers = [np.arange(n) for n in n_classes] if n_classes.max() > 1 else None
        return Subject(decision_tree, "impurity", numbers)
    check_is_fitted(decision_tree)
    view = getattr(decision_tree, "tree_", None)
    if not isinstance(view, TreeView):
        require_plain_trees(getattr(decision_tree, "forest_", None), "A tree in text or drawn", "")
        raise TypeError(
            "decision_tree must be a fitted decision tree of gpuens or a TreeView, got "
            f"{type(decision_tree).__name__}. Take one tree of an ensemble: "
            "model.estimators_[0], or TreeView(model.forest_, 0, n_classes)."
        )
    criterion = getattr(decision_tree, "criterion", "impurity")
    if not is_classifier(decision_tree):
        return Subject(view, criterion, None)
    classes = decision_tree.classes_
    return Subject(view, criterion, list(classes) if view.n_outputs > 1 else [classes])


def read_feature_names(names: Any, n_features: int, generic: str) -> list[str]:
    """Return the given names, or generic ones."""
    if names is None:
        return [generic.format(feature) for feature in range(n_features)]
    if isinstance(names, str) or len(names) != n_features:
        raise ValueError(
            f"feature_names must hold {n_features} names, one for each feature, got {names!r}."
        )
    return [str(name) for name in names]


def read_class_names(names: Any, subject: Subject) -> list[list[str]] | None:
    """Return the names of the classes of each output: "y[0]", ... for ``True``, None for None."""
    n_classes = subject.view.n_classes.tolist()
    if names is None or not subject.classifies:
        return None
    if names is True:
        return [[f"y[{k}]" for k in range(n)] for n in n_classes]
    by_output = [names] if len(n_classes) == 1 else list(names)
    if isinstance(names, str) or [np.size(given) for given in by_output] != n_classes:
        raise ValueError(
            f"class_names must hold the names of {n_classes} classes "
            f"(with several outputs, one sequence for each), got {names!r}."
        )
    return [[str(name) for name in given] for given in by_output]


def category_set(categories: Sequence[int], longest: int | None = None) -> str:
    """Return a text such as "{0-3, 7}": ascending, three or more in a row as a range.

    A text longer than ``longest`` characters is cut and ends in "...".
    """
    numbers = np.asarray(categories, np.int64)
    parts = []
    for run in np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1):
        in_a_row = run.size > 2
        parts += [f"{run[0]}-{run[-1]}"] if in_a_row else [str(category) for category in run]
    text = ", ".join(parts)
    if longest is not None and len(text) > longest:
        text = text[:longest].rpartition(",")[0] + ", ..."
    return f"{{{text}}}"


def conditions(
    view: TreeView, node: int, name: str, threshold: str, missing: bool, longest: int | None = None
) -> tuple[str, str]:
    """Return the conditions for a row to go left and to go right.

    Parameters
    ----------
    name, threshold : str
        The feature's name, and the threshold as text.
    missing : bool
        Whether to say where missing values go.
    longest : int or None
        Characters of a set of categories.
    """
    if view.splits_by_categories[node]:
        categories = category_set(view.categories_left(node).tolist(), longest)
        left, right = f"{name} in {categories}", f"{name} not in {categories}"
    elif np.isposinf(view.threshold[node]) and not view.missing_go_to_left[node]:
        return f"{name} is not missing", f"{name} is missing"
    else:
        left, right = f"{name} <= {threshold}", f"{name} >  {threshold}"
    if missing and view.missing_go_to_left[node]:
        left += " or missing"
    elif missing:
        right += " or missing"
    return left, right


def rounded(number: float, precision: int) -> str:
    """Format a number with at most ``precision`` decimals, or significant digits if it is tiny."""
    if 0 < abs(number) < 0.5 * 10.0**-precision or 1e16 <= abs(number) < np.inf:
        return f"{number:.{max(precision, 1)}g}"
    return np.format_float_positional(round(float(number), precision), trim="0")


@dataclass(frozen=True)
class NodeLabels:
    """Settings of the text in a node, under their names in scikit-learn."""

    subject: Subject
    feature_names: list[str]
    class_names: list[list[str]] | None
    label: str
    impurity: bool
    node_ids: bool
    proportion: bool
    precision: int
    show_missing: bool

    def __post_init__(self) -> None:
        if self.label not in ("all", "root", "none"):
            raise ValueError(f"label must be 'all', 'root' or 'none', got {self.label!r}.")

    def text(self, node: int) -> str:
        """Return the lines of one node."""
        view, precision = self.subject.view, self.precision
        named = self.label == "all" or (self.label == "root" and node == 0)
        lines = []
        if self.node_ids:
            lines.append(f"node #{node}" if named else f"#{node}")
        if view.feature[node] >= 0:
            lines.append(self._condition(node))
        entries = []
        if self.impurity and hasattr(view, "impurity"):
            entries.append((self.subject.criterion, rounded(view.impurity[node], precision)))
        entries += [("samples", self._samples(node)), ("value", self._value(node))]
        if self.class_names is not None:
            entries.append(("class", self._class(node)))
        lines += [f"{name} = {entry}" if named else entry for name, entry in entries]
        return "\n".join(lines)

    def _condition(self, node: int) -> str:
        view = self.subject.view
        name, threshold = self.feature_names[view.feature[node]], view.threshold[node]
        return conditions(
            view, node, name, rounded(threshold, self.precision), self.show_missing,
            SHOWN_CATEGORIES,
        )[0]  # fmt: skip

    def _samples(self, node: int) -> str:
        n = self.subject.view.n_node_samples
        return f"{100 * n[node] / n[0]:.1f}%" if self.proportion else str(n[node])

    def _value(self, node: int) -> str:
        """Format a number, or one list for each output; of a classifier, weights or shares."""
        view = self.subject.view
        value = view.value[node]
        if not self.subject.classifies:
            numbers = [rounded(number, self.precision) for number in value[:, 0]]
            return numbers[0] if len(numbers) == 1 else _list(numbers)
        if not self.proportion:
            value = value * view.weighted_n_node_samples[node]
        whole = not self.proportion and np.allclose(value, np.round(value), rtol=1e-9, atol=1e-6)
        written = [
            [f"{x:.0f}" if whole else rounded(x, self.precision) for x in value[output, :n]]
            for output, n in enumerate(view.n_classes)
        ]
        return "\n".join(_list(numbers) for numbers in written)

    def _class(self, node: int) -> str:
        assert self.class_names is not None
        return ", ".join(
            names[k]
            for names, k in zip(
                self.class_names, largest_classes(self.subject.view, node), strict=True
            )
        )


def largest_classes(view: TreeView, node: int) -> list[int]:
    """Return the class that a node predicts, for each output."""
    return view.value[node].argmax(axis=1).tolist()


def _list(numbers: list[str]) -> str:
    return textwrap.fill(f"[{', '.join(numbers)}]", LINE_LENGTH, break_long_words=False)


def colors(subject: Subject) -> list[str]:
    """Return a background color for every node, ``#rrggbb``.

    For a classifier with one output, the largest class determines the hue and its lead over the
    second largest the darkness. Otherwise nodes are darker the larger their predicted value is,
    or with several outputs, the lower their impurity.
    """
    view = subject.view
    hue = np.zeros(view.node_count, np.int64)
    if view.n_outputs > 1:
        strength = -view.impurity
    elif subject.classifies and view.max_n_classes > 1:
        shares = view.value[:, 0]
        hue = shares.argmax(axis=1)
        second, first = np.sort(shares, axis=1)[:, -2:].T
        return _paint(hue / view.max_n_classes, (first - second) / np.maximum(1 - second, 1e-12))
    else:
        strength = view.value[:, 0, 0]
    spread = np.ptp(strength)
    strength = strength - strength.min()
    return _paint(hue, strength / spread if spread > 0 else strength)


def _paint(hue: np.ndarray, strength: np.ndarray) -> list[str]:
    """Return colors of a hue and strength from 0 to 1; hue 0 is orange."""
    lightness = LIGHTEST + (DARKEST - LIGHTEST) * strength
    painted = []
    for h, light in zip((hue + 0.07) % 1.0, lightness, strict=True):
        rgb = hls_to_rgb(h, light, 0.75)
        painted.append("#" + "".join(f"{round(255 * part):02x}" for part in rgb))
    return painted


LARGEST_FONT = 12.0
"""Points; small trees in large figures do not grow beyond it."""
PADDING = 0.4
"""Between a text and its frame, in font sizes."""
GAP, LEVEL_GAP = 1.5, 3.0
"""Least space between the frames of a level, and between levels, in font sizes."""
FITTINGS = 3
"""The fit of the font size is repeated: letters do not shrink in proportion."""
WHOLE_FIGURE = 0.01, 0.01, 0.98, 0.93
"""Axes in a figure that has none; leaves room for a title."""


def shown_nodes(view: TreeView, max_depth: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes to draw, and whether each represents a branch that is cropped.

    A branch below ``max_depth`` splits is represented by its first node.
    """
    depth = view.compute_node_depths() - 1
    deepest = depth.max() if max_depth is None else max_depth
    nodes = np.flatnonzero(depth <= deepest + 1)
    return nodes, depth[nodes] > deepest


def arrange(left: np.ndarray, width: np.ndarray, gap: float) -> np.ndarray:
    """Return horizontal places of nodes: parents centred above their children, nothing overlaps,
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
    """Draw a tree into axes (see ``plot_tree``).

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
    """Return the axes to draw into, emptied."""
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
    """Factor by which the boxes could be larger."""


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
    """Draw an arrow from the lower edge of a box to the upper edge of another, following both."""
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
