"""Pieces that all generated tables share: their arguments, and rows made block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from ..devices.placement import resolve_device
from ..estimators.parameters import is_count, is_number, seed_of
from ..kernels.runtime.arrays import Array
from .draws import BlockDraws

RULE_SEED = 2014
"""Seed of what ties the labels to the features; ``random_state`` draws the rows only."""
PILOT_ROWS = 8192
"""Rows of a fixed table by which classes are balanced."""
MOST_ROWS = 2**32
"""The row is a counter of 32 bits."""
BLOCK = 2**18
"""Cells made at once: they fit a core's cache, and take about 10 MB with all that is kept beside
them. Four times as many made NumPy half as fast."""
LARGE_BLOCK = 2**23
"""Cells made at once on a device, where each block costs some launches: about 300 MB."""

Block = Callable[[BlockDraws], tuple[Any, Any]]
"""The features (float32, shape (n_features, n_rows)) and the target (shape (n_rows,)) of a block
of rows."""

ARGUMENTS = """random_state : int, RandomState instance or None, default=0
        Draws the rows. What ties ``y`` to ``X`` is always the same, so that two calls with
        different states give training and test rows of one problem. None is the same as 0.
    rows : (int, int), default=None
        Make only the rows from the first number up to, without, the second: bit for bit
        what the whole table has there.
    xp : module, default=None
        The namespace of the arrays: ``numpy``, ``cupy``, ``torch``, or another one that follows
        the Array API standard and whose arrays can be written to. All hold the same bits.
    device : str or device, default=None
        With ``xp`` a device of that library, without it "cpu" (NumPy arrays, the default),
        "cuda" or "cuda:<number>" (CuPy arrays on that GPU), or "auto" (a GPU if one is
        usable)."""


def make_table(
    block: Block,
    n_features: int,
    n_rows: int,
    random_state: Any,
    *,
    rows: Any = None,
    xp: Any = None,
    device: Any = None,
    target: str = "int64",
) -> tuple[Array, Array]:
    """Make X (float32) and y (dtype ``target``) from the function that makes a block of their rows
    and the user's arguments. Errors name the argument, what it got and what it wants."""
    check_counts(n_rows=n_rows)
    begin, end = _row_range(rows, int(n_rows))
    seed = seed_of(random_state)
    with _place(xp, device) as (xp, device):
        X = xp.empty((end - begin, n_features), dtype=xp.float32, device=device)
        step = max(1, (BLOCK if isinstance(X, np.ndarray) else LARGE_BLOCK) // n_features)
        y = xp.empty(end - begin, dtype=getattr(xp, target), device=device)
        for first in range(begin, end, step):
            last = min(first + step, end)
            columns, values = block(BlockDraws(xp, device, seed, first, last))
            X[first - begin : last - begin, :] = columns.T
            y[first - begin : last - begin] = values
    return X, y


def pilot() -> BlockDraws:
    """Return the draws of a fixed table in NumPy, by which classes are balanced."""
    return BlockDraws(array_namespace(np.empty(0)), None, RULE_SEED, 0, PILOT_ROWS)


def rule(draws: BlockDraws) -> BlockDraws:
    """Return the draws that define a problem's rule, in the library of the table's."""
    return BlockDraws(draws.xp, draws.device, RULE_SEED, 0, 1)


def column(values: Any, draws: BlockDraws) -> Array:
    """Return numbers of a rule as a float32 array of shape (n, 1)."""
    return draws.xp.asarray(np.asarray(values, np.float32)[:, None], device=draws.device)


def labels(condition: Array, draws: BlockDraws) -> Array:
    """Return classes 1 and 0 (int64) by whether a condition holds."""
    return draws.xp.astype(condition, draws.xp.int64)


def check_counts(least: int = 1, **counts: Any) -> None:
    """Check arguments that are numbers of rows, features or classes. Raises a ValueError if one is
    not an integer, below ``least``, or beyond what a counter can hold."""
    for name, value in counts.items():
        if not is_count(value, least):
            raise ValueError(f"{name} must be an integer >= {least}, got {value!r}.")
        if value > MOST_ROWS:
            raise ValueError(
                f"{name} must be at most 2**32, got {value!r}: a cell's draw counts with 32 bits. "
                "For more, change random_state."
            )


def check_not_negative(**numbers: Any) -> None:
    """Check arguments that are finite numbers >= 0."""
    for name, value in numbers.items():
        if not (is_number(value) and 0 <= value < float("inf")):
            raise ValueError(f"{name} must be a finite number >= 0, got {value!r}.")


def _row_range(rows: Any, n_rows: int) -> tuple[int, int]:
    if rows is None:
        return 0, n_rows
    if isinstance(rows, (tuple, list)) and len(rows) == 2 and all(is_count(r, 0) for r in rows):
        begin, end = int(rows[0]), int(rows[1])
        if begin < end <= n_rows:
            return begin, end
    raise ValueError(
        f"rows must be None or two integers (begin, end) with 0 <= begin < end <= n_rows={n_rows}, "
        f"got {rows!r}."
    )


@contextmanager
def _place(xp: Any, device: Any) -> Iterator[tuple[Any, Any]]:
    """Return the Array API namespace and its device for the arguments ``xp`` and ``device``."""
    if xp is not None:
        yield _namespace(xp), device
        return
    home = resolve_device("cpu" if device is None else device)
    with home.active():
        yield _namespace(home.xp), None


def _namespace(xp: Any) -> Any:
    try:
        return array_namespace(xp.empty(0))
    except (AttributeError, TypeError) as error:
        raise TypeError(
            "xp must be a module of arrays that follows the Array API standard, such as numpy, "
            f"cupy or torch, got {xp!r}."
        ) from error
