"""Trees on a table whose rows several workers share.

Every worker gets the codes, targets and weights of all rows, and grows some of the trees on them
alone. Columns are dealt to the workers, each of which bins its own as it would in memory.

All that is done on the host, which also predicts the rows of a worker. A worker that has a GPU then
brings codes, targets and weights there, and grows its trees as it would in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

import numpy as np

from ..devices.among_workers import device_of_worker
from ..devices.placement import CPU, Device, resolve_device
from ..devices.policy import NO_WORK, Work, size_of
from ..devices.sparse_tables import SparseTable
from ..forest.forest import Forest
from ..inputs.shared_tables import (
    ENTRY_BYTES,
    MESSAGE_BYTES,
    entries_of_all,
    sparse_columns_of_all,
)
from ..kernels.cart.problem import CartParams, CartTable, grows_on_device
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, Workers, objects_of_all
from ..kernels.runtime.cpu.team import get_threads
from .growth import DEALT_BYTES, cart_plan
from .table import cart_table, side_by_side
from .training_data import TrainingData

EXCHANGE_SECONDS = 1.0
"""Seconds between two exchanges of trees, about."""


def rows_of_workers(values: Any, workers: Workers) -> Any:
    """Return the values of the rows of all workers, shape (n_all, ...); None stays None."""
    if workers is ONE_WORKER or values is None:
        return values
    return np.concatenate(workers.collective.gather(np.ascontiguousarray(values)))


Watch = Callable[[list[Forest]], None]

_watch: ContextVar[Watch | None] = ContextVar("gpuens_grown_trees", default=None)


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Call ``watch(forests)`` after every exchange of trees inside the block, with all trees that
    have been grown so far, in order."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def grow_among_workers(
    grow: Callable[[range], Forest],
    trees: range,
    workers: Workers,
    after_batch: Callable[[int, Forest, Any], bool] | None = None,
    finish: Callable[[range, Forest], list[Forest]] | None = None,
) -> Forest:
    """Grow some trees on every worker, and return all of them, in order, on each.

    Workers exchange trees about once a second: then they notice that one of them is lost, and all
    have the same trees.

    Parameters
    ----------
    grow : callable
        ``grow(numbers)`` returns the trees of these numbers.
    trees : range
        The numbers of the trees.
    after_batch : callable, default=None
        ``after_batch(done, forest, None)`` is called after each exchange, with the number of trees
        that were there before it and the trees that it brought. A true result ends the growth.
    finish : callable, default=None
        ``finish(numbers, forest)`` with the trees of an exchange, as they were grown on all
        workers, returns those of this worker as they are to be kept.
    """
    found: list[Forest] = []
    rank, size, done = workers.collective.rank, workers.collective.size, 0
    each = max(objects_of_all(get_threads(), workers))
    while done < len(trees):
        numbers = trees[done : done + each * size]
        own, begun = numbers[rank::size], time.perf_counter()
        forest = grow(own) if own else None
        grown = objects_of_all((forest, time.perf_counter() - begun), workers)
        trees_of_all = _dealt_in_turn([forest for forest, _ in grown if forest is not None])
        if finish is not None:
            finished = objects_of_all(finish(numbers, trees_of_all), workers)
            trees_of_all = _dealt_in_turn([Forest.concatenate(own) for own in finished if own])
        found.append(trees_of_all)
        stop = after_batch is not None and after_batch(done, found[-1], None)
        if (watch := _watch.get()) is not None:
            watch(found)
        if stop:
            break
        done += len(numbers)
        slowest = max(seconds for _, seconds in grown)
        each = max(1, min(4 * each, int(each * EXCHANGE_SECONDS / max(slowest, 1e-9))))
    return Forest.concatenate(found)


def _dealt_in_turn(forests: list[Forest]) -> Forest:
    """Return the trees that were dealt to workers, one after the other, in their order."""
    size = len(forests)
    if size == 1:
        return forests[0]
    n_trees = sum(forest.n_trees for forest in forests)
    return Forest.concatenate(
        [forests[t % size].slice(t // size, t // size + 1) for t in range(n_trees)]
    )


def leaves_of_rows(
    forest: Forest, values: Any, wanted: dict[int, np.ndarray], workers: Workers
) -> dict[int, np.ndarray]:
    """Return the leaves that rows of all workers end in.

    Parameters
    ----------
    forest : Forest
        The same on all workers.
    values : float32 or float64, shape (n_own, n_features)
        The rows of this worker.
    wanted : dict of int64 arrays
        By the places of trees in the forest, the numbers of the rows whose leaves this worker
        needs.
    """
    at_once = max(1, MESSAGE_BYTES // (4 * workers.n_all))
    found: dict[int, np.ndarray] = {}
    for first in range(0, forest.n_trees, at_once):
        last = min(first + at_once, forest.n_trees)
        own = forest.slice(first, last).apply(values)
        leaf = np.concatenate(workers.collective.gather(np.ascontiguousarray(own)))
        found |= {t: leaf[rows, t - first] for t, rows in wanted.items() if first <= t < last}
    return found


def refuse(name: str, value: Any, instead: str) -> NoReturn:
    """Raise NotImplementedError for a setting that workers which share rows do not support."""
    raise NotImplementedError(
        f"{name}={value!r} is not supported where several workers share the rows: {instead}, or "
        "train on one machine."
    )


def require_shareable(estimator: Any, workers: Workers) -> None:
    """Raise NotImplementedError for estimators that workers which share the rows do not train."""
    if workers is not ONE_WORKER and not estimator._grows_among_workers:
        raise NotImplementedError(
            f"{type(estimator).__name__} cannot be trained where several workers share the rows: "
            "use a random forest or extremely randomised trees, or train on one machine."
        )


def device_to_grow_on(
    device: str, X: Any, work: Callable[[Any], Work | None], workers: Workers, **others: Any
) -> Device:
    """Choose where trees are grown (see ``resolve_device``): where workers share the rows, each
    chooses for itself (see ``device_of_worker``).

    Parameters
    ----------
    X : table
        Of this worker.
    work : callable
        Returns the work of all trees on a table, None if it is not known.
    **others : array or None
    """
    if workers is ONE_WORKER:
        return resolve_device(device, X, work=lambda: work(X) or NO_WORK, **others)
    whole = np.broadcast_to(np.float32(), (workers.n_all, size_of(X)[1]))
    own = (work(whole) or NO_WORK).among(workers.collective.size)
    return device_of_worker(device, workers, X, own, **others)


def device_to_read_on(device: Device, workers: Workers) -> Device:
    """Return where the table is read and binned for trees that are grown on a device: on the host
    where workers share the rows."""
    return device if workers is ONE_WORKER else CPU


def bring_to(device: Device, data: TrainingData, estimator: Any, params: CartParams) -> Device:
    """Bring what a worker's trees are grown on to a device, and return it; the CPU instead of a GPU
    that does not grow such trees. Raises a MemoryError if the GPU has too little memory; the
    message says how much is needed."""
    if not device.is_gpu:
        return device
    if not grows_on_device(data.table, params):
        return CPU
    plan = cart_plan(
        estimator, data.shape, data.itemsize, device,
        width=data.problem.width, n_outputs=data.truth.shape[1], n_own=data.workers.n_own,
        cell_bytes=data.table.codes.dtype.itemsize,
    )  # fmt: skip
    plan.require()
    with plan.explaining(), device.active():
        data.move_to(device)
    return device


def table_of_workers(
    X: Array | SparseTable,
    n_categories: np.ndarray,
    monotone: np.ndarray,
    workers: Workers,
    **settings: Any,
) -> CartTable:
    """Return ``cart_table`` of the rows of all workers, on each of them."""
    if workers is ONE_WORKER:
        return cart_table(X, n_categories=n_categories, monotone=monotone, **settings)
    n_features, size = X.shape[1], workers.collective.size
    column_bytes = workers.n_all * X.dtype.itemsize
    if isinstance(X, SparseTable):
        column_bytes = ENTRY_BYTES * int(entries_of_all(X, workers).sum()) // n_features
    at_once = max(1, DEALT_BYTES // max(1, column_bytes))
    parts: list[CartTable] = []
    for begin in range(0, n_features, at_once * size):
        ends = np.minimum(begin + at_once * np.arange(size + 1), n_features)
        columns = [slice(*pair) for pair in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
        mine = columns[workers.collective.rank]
        table = _columns_of_all(X, columns, workers)
        own = None
        if table is not None:
            own = cart_table(
                table, n_categories=n_categories[mine], monotone=monotone[mine], **settings
            )
        parts += [part for part in objects_of_all(own, workers) if part is not None]
    return side_by_side(parts)


def _columns_of_all(
    X: Array | SparseTable, columns: list[slice], workers: Workers
) -> np.ndarray | SparseTable | None:
    """Return the columns that this worker bins, of the rows of all workers."""
    mine: np.ndarray | SparseTable | None = None
    for rank, some in enumerate(columns):
        if some.start == some.stop:
            continue
        of_all: np.ndarray | SparseTable
        if isinstance(X, SparseTable):
            of_all = sparse_columns_of_all(X, some, workers)
        else:
            of_all = np.concatenate(workers.collective.gather(np.ascontiguousarray(X[:, some])))
        if rank == workers.collective.rank:
            mine = of_all
        del of_all
    return mine
