"""The memory that a training would take, known before it starts."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from .devices.memory_plan import MemoryPlan
from .tables.binned_table import BinnedTable


def memory_plan(
    estimator: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    n_outputs: int | None = None,
    n_workers: int | None = None,
) -> MemoryPlan:
    """Estimate the memory that ``estimator.fit(X, y, sample_weight)`` takes, part by part.

    Gradient boosting makes the same plan at the start of ``fit``: it raises MemoryError before
    training if the data does not fit, and prints the plan if ``verbose`` is 2 or more.

    Parameters
    ----------
    estimator : estimator
        Gradient boosting, a decision tree or a forest of ``gpuens``. It is not changed.
    X : array, data frame, sparse matrix, BinnedTable, or tuple (n_rows, n_features)
        Only its shape, dtype and device are read, and the places of a sparse one's entries. A tuple
        means a float32 table in host memory,
        which need not exist.
    y : array, default=None
        Read for the number of classes or targets.
    sample_weight : array, default=None
        Weights of the rows, which take room too; only whether there are any is read.
    n_outputs : int, default=None
        Number of classes or targets, instead of y.
    n_workers : int, default=None
        Workers of a cluster that share the rows of X: the plan is that of one of them, beside the
        partitions that it holds. For gradient boosting on the CPU, for forests where ``device``
        has their trees grow: on a GPU, beside what ``device="cpu"`` takes on its host.

    Returns
    -------
    MemoryPlan
        ``parts`` (bytes by name), ``total``, ``free`` (bytes that the device has left) and
        ``fits``; ``streams`` where a table is read in the order of its rows because it does not
        fit, and ``n_resident``, of these rows those that stay in the device's memory. As text it
        is one line.
        Numbers of nodes are estimates: they depend on the data.

    Raises
    ------
    TypeError
        The estimator is of another kind.
    ValueError
        X has no rows or no columns; ``n_workers`` is not a whole number from 1, or the estimator or
        X is of a kind that workers do not share.
    RuntimeError
        ``device`` requires a GPU that cannot be used.

    Examples
    --------
    >>> from gpuens import GradientBoostingRegressor, memory_plan
    >>> plan = memory_plan(GradientBoostingRegressor(device="cpu"), (1_000_000, 28))
    >>> plan.parts["bins"]
    60000000
    >>> print(plan)  # doctest: +ELLIPSIS
    Gradient boosting with 1,000,000 x 28 values on cpu takes about ...
    """
    of_kind = getattr(estimator, "_memory_plan", None)
    if of_kind is None:
        raise TypeError(
            "estimator must be one of gradient boosting, trees and forests, got "
            f"{type(estimator).__name__}: memory_plan knows no others."
        )
    if n_workers is not None:
        _require_workers(n_workers, estimator, X)
    plan: MemoryPlan = of_kind(X, y, sample_weight, n_outputs, n_workers)
    return plan


def _require_workers(n_workers: int, estimator: Any, X: Any) -> None:
    if isinstance(n_workers, bool) or not isinstance(n_workers, Integral) or n_workers < 1:
        raise ValueError(f"n_workers must be a whole number from 1, got {n_workers!r}.")
    if not estimator._grows_among_workers:
        raise ValueError(
            f"n_workers={n_workers} is for gradient boosting and forests, whose rows workers can "
            f"share, got {type(estimator).__name__}: set n_workers=None."
        )
    if isinstance(X, BinnedTable):
        raise ValueError(
            f"n_workers={n_workers} is for arrays, data frames, sparse matrices and shapes, whose "
            "rows workers can share, got a BinnedTable: set n_workers=None."
        )
