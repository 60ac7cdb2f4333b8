"""Export of decision trees: as text, as a picture, and in the language of Graphviz."""

from __future__ import annotations

from typing import Any

from .drawing import (
    CROPPED,
    CROPPED_COLOR,
    NodeLabels,
    colors,
    conditions,
    draw,
    largest_classes,
    read_class_names,
    read_feature_names,
    read_tree,
    shown_nodes,
)
from .view import TreeView

__all__ = ["export_graphviz", "export_text", "plot_tree"]


def export_text(
    decision_tree: Any,
    *,
    feature_names: Any = None,
    class_names: Any = None,
    max_depth: int | None = 10,
    spacing: int = 3,
    decimals: int = 2,
    show_weights: bool = False,
    show_missing: bool = False,
) -> str:
    """Write the rules of a decision tree as text.

    Parameters
    ----------
    decision_tree : fitted decision tree or TreeView
        The tree to write.
    feature_names : sequence of str, default=None
        None: "feature_0", "feature_1", ...
    class_names : sequence of str, default=None
        In the order of ``classes_``; with several outputs, one sequence for each. None: the
        labels of ``classes_``.
    max_depth : int or None, default=10
        Branches that are deeper than this many splits are truncated. None: no limit.
    spacing : int, default=3
        Width of one level.
    decimals : int, default=2
        Of thresholds, values and weights.
    show_weights : bool, default=False
        Whether leaves list the weight of each class.
    show_missing : bool, default=False
        Whether to say which side missing values go to.

    Returns
    -------
    str
        Lines, as scikit-learn's ``export_text`` writes them. Splits by categories read
        "x in {0, 3-5}"; a split that sends all values left, "x is not missing".

    Examples
    --------
    >>> from gpuens import GradientBoostingRegressor
    >>> from gpuens.forest.export import export_text
    >>> from gpuens.forest.view import TreeView
    >>> model = GradientBoostingRegressor(
    ...     n_estimators=1, learning_rate=1.0, min_samples_leaf=2, l2_regularization=0.0
    ... ).fit([[20], [30], [40], [50]], [1.0, 1.0, 4.0, 4.0])
    >>> print(export_text(TreeView(model.forest_, 0, n_classes=[1]), feature_names=["age"]))
    |--- age <= 35.00
    |   |--- value: [-1.50]
    |--- age >  35.00
    |   |--- value: [1.50]
    <BLANKLINE>
    """
    for name, number, least in (("spacing", spacing, 1), ("decimals", decimals, 0)):
        if number < least:
            raise ValueError(f"{name} must be an integer >= {least}, got {number!r}.")
    _check_max_depth(max_depth)
    subject = read_tree(decision_tree)
    view = subject.view
    names = read_feature_names(feature_names, view.n_features, "feature_{}")
    classes = read_class_names(class_names, subject) or subject.classes
    lines: list[str] = []
    todo: list[Any] = [(0, 1)]  # texts, and nodes with their depths
    while todo:
        task = todo.pop()
        if isinstance(task, str):
            lines.append(task)
            continue
        node, depth = task
        indent = ("|" + " " * spacing) * (depth - 1) + "|" + "-" * spacing
        if view.children_left[node] < 0:
            lines.append(indent + _leaf_text(view, node, classes, decimals, show_weights))
        elif max_depth is not None and depth > max_depth + 1:
            lines.append(f"{indent} truncated branch of depth {_branch_depth(view, node)}")
        else:
            threshold = f"{view.threshold[node]:.{decimals}f}"
            name = names[view.feature[node]]
            left, right = conditions(view, node, name, threshold, show_missing)
            todo += [(view.children_right[node], depth + 1), f"{indent} {right}"]
            todo += [(view.children_left[node], depth + 1), f"{indent} {left}"]
    return "\n".join(lines) + "\n"


def plot_tree(
    decision_tree: Any,
    *,
    max_depth: int | None = None,
    feature_names: Any = None,
    class_names: Any = None,
    label: str = "all",
    filled: bool = False,
    impurity: bool = True,
    node_ids: bool = False,
    proportion: bool = False,
    rounded: bool = False,
    precision: int = 3,
    ax: Any = None,
    fontsize: float | None = None,
    show_missing: bool = False,
) -> list[Any]:
    """Draw a decision tree with matplotlib.

    Parameters
    ----------
    decision_tree : fitted decision tree or TreeView
        The tree to draw.
    max_depth : int or None, default=None
        Splits on the longest path that is drawn; branches below appear as "(...)".
    feature_names : sequence of str, default=None
        None: "x[0]", "x[1]", ...
    class_names : sequence of str or True, default=None
        Names to show for the largest class of a node, in the order of ``classes_``; with several
        outputs, one sequence for each. True: "y[0]", "y[1]", ...; None: not shown.
    label : {"all", "root", "none"}, default="all"
        Nodes whose numbers are named ("samples = 5").
    filled : bool, default=False
        Paint the nodes by their largest class and its lead, by their predicted value, or with
        several outputs by their purity.
    impurity, node_ids : bool, default=True, False
        Whether to show each node's impurity, and its number.
    proportion : bool, default=False
        Show shares instead of numbers of rows and weights of classes.
    rounded : bool, default=False
        Draw boxes with round corners.
    precision : int, default=3
        Decimals of impurities, thresholds and values.
    ax : matplotlib axes, default=None
        Where to draw; cleared before. None: the current axes.
    fontsize : float, default=None
        In points; None: as large as the axes allow, at most 12.
    show_missing : bool, default=False
        Whether to say which side missing values go to.

    Returns
    -------
    list of matplotlib texts
        The boxes from the root downwards, then "True" and "False" beside the root's arrows.

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    labels = _labels(
        decision_tree, max_depth, feature_names, class_names, label=label, impurity=impurity,
        node_ids=node_ids, proportion=proportion, precision=precision, show_missing=show_missing,
    )  # fmt: skip
    fills = colors(labels.subject) if filled else None
    return draw(labels.subject.view, labels.text, fills, max_depth, rounded, fontsize, ax)


def export_graphviz(
    decision_tree: Any,
    out_file: Any = None,
    *,
    max_depth: int | None = None,
    feature_names: Any = None,
    class_names: Any = None,
    label: str = "all",
    filled: bool = False,
    leaves_parallel: bool = False,
    impurity: bool = True,
    node_ids: bool = False,
    proportion: bool = False,
    rotate: bool = False,
    rounded: bool = False,
    special_characters: bool = False,
    precision: int = 3,
    fontname: str = "helvetica",
    show_missing: bool = False,
) -> str | None:
    """Write a decision tree in DOT, the language of Graphviz.

    Parameters
    ----------
    decision_tree : fitted decision tree or TreeView
        The tree to draw.
    out_file : str, path or text file, default=None
        Where to write; None returns the text.
    max_depth : int or None, default=None
        Splits on the longest path that is drawn; branches below appear as "(...)".
    feature_names : sequence of str, default=None
        None: "x[0]", "x[1]", ...
    class_names : sequence of str or True, default=None
        Names to show for the largest class of a node, in the order of ``classes_``; with several
        outputs, one sequence for each. True: "y[0]", "y[1]", ...; None: not shown.
    label : {"all", "root", "none"}, default="all"
        Nodes whose numbers are named ("samples = 5").
    filled : bool, default=False
        Paint the nodes by their largest class and its lead, by their predicted value, or with
        several outputs by their purity.
    impurity, node_ids : bool, default=True, False
        Whether to show each node's impurity, and its number.
    proportion : bool, default=False
        Show shares instead of numbers of rows and weights of classes.
    rounded : bool, default=False
        Draw boxes with round corners.
    precision : int, default=3
        Decimals of impurities, thresholds and values.
    leaves_parallel : bool, default=False
        Draw all leaves at the bottom.
    rotate : bool, default=False
        From left to right instead of top down.
    special_characters : bool, default=False
        Write "≤" instead of "<=".
    fontname : str, default="helvetica"
        The font of all text.
    show_missing : bool, default=False
        Whether to say which side missing values go to.

    Returns
    -------
    str or None
        The text if there is no ``out_file``.
    """
    labels = _labels(
        decision_tree, max_depth, feature_names, class_names, label=label, impurity=impurity,
        node_ids=node_ids, proportion=proportion, precision=precision, show_missing=show_missing,
    )  # fmt: skip
    fills = colors(labels.subject) if filled else None
    head = _dot_head(fontname, filled, rounded, leaves_parallel, rotate)
    lines = head + _dot_lines(labels, fills, max_depth, leaves_parallel, rotate)
    text = "\n".join([*lines, "}"])
    if special_characters:
        text = text.replace(" <= ", " ≤ ")
    if out_file is None:
        return text
    if hasattr(out_file, "write"):
        out_file.write(text)
    else:
        with open(out_file, "w", encoding="utf-8") as file:
            file.write(text)
    return None


def _dot_head(
    fontname: str, filled: bool, rounded: bool, leaves_parallel: bool, rotate: bool
) -> list[str]:
    style = [word for word, wanted in (("filled", filled), ("rounded", rounded)) if wanted]
    painted = f', style="{", ".join(style)}", color="black"' if style else ""
    head = [
        "digraph Tree {",
        f'node [shape=box, fontname="{fontname}"{painted}] ;',
        f'edge [fontname="{fontname}"] ;',
    ]
    if leaves_parallel:
        head.append("graph [ranksep=equally, splines=polyline] ;")
    if rotate:
        head.append("rankdir=LR ;")
    return head


def _dot_lines(
    labels: NodeLabels,
    fills: list[str] | None,
    max_depth: int | None,
    leaves_parallel: bool,
    rotate: bool,
) -> list[str]:
    view = labels.subject.view
    nodes, cropped = shown_nodes(view, max_depth)
    lines, leaves = [], []
    for node, is_cropped in zip(nodes.tolist(), cropped, strict=True):
        text = CROPPED if is_cropped else labels.text(node)
        text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        fill = ""
        if fills is not None:
            fill = f', fillcolor="{CROPPED_COLOR if is_cropped else fills[node]}"'
        lines.append(f'{node} [label="{text}"{fill}] ;')
        if is_cropped or view.children_left[node] < 0:
            leaves.append(node)
    shown = set(nodes.tolist())
    for node in sorted(shown - set(leaves)):
        for child, word, angle in (
            (view.children_left[node], "True", 45),
            (view.children_right[node], "False", -45),
        ):
            side = (
                f'labeldistance=2.5, labelangle={-angle if rotate else angle}, headlabel="{word}"'
            )
            lines.append(f"{node} -> {child}{f' [{side}]' if node == 0 else ''} ;")
    if leaves_parallel:
        lines.append(f"{{rank=same ; {'; '.join(map(str, leaves))}}} ;")
    return lines


def _labels(
    decision_tree: Any, max_depth: int | None, feature_names: Any, class_names: Any, **settings: Any
) -> NodeLabels:
    _check_max_depth(max_depth)
    subject = read_tree(decision_tree)
    features = read_feature_names(feature_names, subject.view.n_features, "x[{}]")
    return NodeLabels(subject, features, read_class_names(class_names, subject), **settings)


def _leaf_text(
    view: TreeView, node: int, classes: list[Any] | None, decimals: int, weights: bool
) -> str:
    if classes is None:
        return f" value: {_numbers(view.value[node, :, 0], decimals)}"
    largest = largest_classes(view, node)
    text = ", ".join(str(names[k]) for names, k in zip(classes, largest, strict=True))
    if not weights:
        return f" class: {text}"
    by_class = view.value[node] * view.weighted_n_node_samples[node]
    listed = [_numbers(by_class[o, :n], decimals) for o, n in enumerate(view.n_classes)]
    return f" weights: {', '.join(listed)} class: {text}"


def _numbers(numbers: Any, decimals: int) -> str:
    return f"[{', '.join(f'{number:.{decimals}f}' for number in numbers)}]"


def _branch_depth(view: TreeView, node: int) -> int:
    """Return the number of levels of the branch below a node, including the node."""
    n_levels, level = 0, [node]
    while level:
        n_levels += 1
        inner = [parent for parent in level if view.children_left[parent] >= 0]
        level = [
            child for side in (view.children_left, view.children_right) for child in side[inner]
        ]
    return n_levels


def _check_max_depth(max_depth: int | None) -> None:
    if max_depth is not None and max_depth < 0:
        raise ValueError(f"max_depth must be None or an integer >= 0, got {max_depth!r}.")
