"""Pieces that all displays share: axes, colours, and reading of small inputs."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import to_numpy
from ..inputs.targets import array_of

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Told apart by colour-blind readers too (Wong, "Color blindness", Nature Methods 8, 2011)."""
MARKERS = ("o", "^", "s", "D", "v", "P", "X")
"""So that classes are told apart without colours."""
GREY = "#767676"
"""For what is not the subject: reference lines, single rows."""
NAME_WIDTH = 40
"""Characters in a line of a name."""
SEQUENTIAL = "cividis"
"""A colour map that looks the same to colour-blind readers (Nunez et al., PLOS ONE 13, 2018)."""


DRAWN_ON = """**kwargs
        Of the <artist>, as ``Axes.<by>`` takes them.

    Returns
    -------
    <display>"""
"""The end of the documentation of what draws, after that of its axes."""

DRAWN = f"""ax : matplotlib axes, default=None
        None: new ones.
    {DRAWN_ON}"""
"""The end of the documentation of what takes axes last."""


def pyplot() -> Any:
    """Import matplotlib's pyplot. Raises an ImportError, which says how to install it."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "gpuens.plotting needs matplotlib, which is not installed. Run: "
            "pip install 'gpuens[viz]'"
        ) from error
    return pyplot


def axes_for(ax: Any) -> Any:
    """Return the axes to draw into: those given, or new ones in a new figure. Raises an ImportError
    without matplotlib, and a TypeError if ``ax`` is not an axes."""
    plt = pyplot()
    if ax is None:
        return plt.subplots(layout="constrained")[1]
    if not hasattr(ax, "plot"):
        raise TypeError(f"ax must be matplotlib axes or None, got {ax!r}.")
    return ax


def tidy(ax: Any, x: str, y: str, grid: str | None = "both") -> None:
    """Label the axes and remove what carries no information."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.spines[["top", "right"]].set_visible(False)
    if grid is not None:
        ax.grid(axis=grid, alpha=0.3)
        ax.set_axisbelow(True)


def name_lines(ax: Any, names: list[str]) -> None:
    """Write a name beside each line of a plot, whole: long ones are wrapped."""
    wrapped = [fill(name, NAME_WIDTH, replace_whitespace=False) for name in names]
    ax.set_yticks(np.arange(len(names)), wrapped, parse_math=False)  # names may contain dollars


def whole_ticks(axis: Any) -> None:
    """Place the ticks of an axis at whole numbers only: rounds, trees, models."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def require_fitted(estimator: Any) -> None:
    """Raise an error unless the argument is a fitted estimator."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise TypeError(f"estimator must be a fitted estimator, got {estimator!r}.")
    check_is_fitted(estimator)


def attribute_of(estimator: Any, attribute: str, remedy: str) -> Any:
    """Return an attribute of a fitted estimator. Raises an AttributeError if the estimator does not
    have it; the message says what to do."""
    require_fitted(estimator)
    if not hasattr(estimator, attribute):
        raise AttributeError(f"{type(estimator).__name__} has no {attribute}: {remedy}.")
    return getattr(estimator, attribute)


def vector(values: Any, name: str, n: int | None = None, numbers: bool = False) -> np.ndarray:
    """Return a column of any library as NumPy, with ``numbers`` as finite float64. Raises a
    ValueError, which calls it ``name``, if it is not a column, is empty, is not of length n, or
    holds anything but finite numbers."""
    column = array_of(values)
    if column.ndim != 1 or column.size == 0:
        raise ValueError(
            f"{name} must be a column of at least one value, got the shape {column.shape}."
        )
    if n is not None and column.size != n:
        raise ValueError(f"{name} has {column.size} values, {n} are needed: pass one for each row.")
    return finite(column, name) if numbers else column


def finite(values: Any, name: str) -> np.ndarray:
    """Return finite numbers as float64. Raises a ValueError if not all are finite numbers."""
    array = to_numpy(values)
    try:
        array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers, got dtype {array.dtype}.") from error
    if not np.isfinite(array).all():
        wrong = array[~np.isfinite(array)].flat[0]
        raise ValueError(f"{name} must hold finite numbers, got {wrong}.")
    return array


def choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """Return one of the allowed words, or raise a ValueError."""
    if not (isinstance(value, str) and value in choices):
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}.")
    return value


def names_for(names: Any, estimator: Any, n_features: int) -> list[str]:
    """Return the names of features: those given, those of ``fit``, or "x[0]", "x[1]", ... Raises a
    ValueError if there is another number of names than of features."""
    if names is None:
        names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return [f"x[{feature}]" for feature in range(n_features)]
    listed = [str(name) for name in np.asarray(names).tolist()]
    if len(listed) != n_features:
        raise ValueError(
            f"feature_names has {len(listed)} names, but there are {n_features} features: pass one "
            "for each."
        )
    return listed


def probabilities_of(estimator: Any, X: Any, pos_label: Any) -> tuple[np.ndarray, Any]:
    """Return a classifier's probabilities of a class (None: the second of two), float64 (n_rows,),
    and the class. Raises a ValueError, TypeError or AttributeError if there is no such class, no
    classifier, or one without ``predict_proba``."""
    attribute_of(estimator, "predict_proba", "pass a classifier that has probabilities")
    classes = list(attribute_of(estimator, "classes_", "pass a classifier of one output"))
    if pos_label is None and len(classes) != 2:
        raise ValueError(
            f"pos_label must be one of the classes {[_plain(c) for c in classes]} where there are "
            "not two of them, got None."
        )
    if pos_label is None:
        pos_label = classes[1]
    if pos_label not in classes:
        raise ValueError(
            f"pos_label must be one of the classes {[_plain(c) for c in classes]}, got "
            f"{pos_label!r}."
        )
    return to_numpy(estimator.predict_proba(X))[:, classes.index(pos_label)], _plain(pos_label)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
