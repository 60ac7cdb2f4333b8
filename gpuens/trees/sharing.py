"""Trees on a table whose rows several workers share.

Every worker gets the codes, targets and weights of all rows, and grows some of the trees on them
alone. Columns are dealt to the workers, each of which bins its own as it would in memory.

All that is done on the host, which also predicts the rows of a worker. A worker that has a GPU then
brings codes, targets and weights there, and grows its trees as it would in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, NoReturn

import numpy as np

from ..devices.among_workers import device_of_worker
from ..devices.placement import CPU, Device, resolve_device
from ..devices.policy import NO_WORK, Work, size_of
from ..devices.sparse_tables import SparseTable
from ..forest.forest import Forest
from ..inputs.labels import Labels, labels_of_all
from ..inputs.shared_tables import (
    ENTRY_BYTES,
    MESSAGE_BYTES,
    entries_of_all,
    sparse_columns_of_all,
)
from ..kernels.cart.problem import CartParams, CartTable, grows_on_device
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import Share, current_share, not_sharing, objects_of_all
from ..kernels.runtime.cpu.team import get_threads
from .growth import DEALT_BYTES, cart_plan
from .table import cart_table, side_by_side
from .training_data import TrainingData

EXCHANGE_SECONDS = 1.0
"""Seconds between two exchanges of trees, about."""


def apart(share: Share | None) -> AbstractContextManager[None]:
    """Let the operations inside the block see tables that this worker has as a whole."""
    return nullcontext() if share is None else not_sharing()


def rows_of_workers(values: Any) -> Any:
    """Return the values of the rows of all workers, shape (n_all, ...); None stays None."""
    share = current_share()
    if share is None or values is None:
        return values
    return np.concatenate(share.collective.gather(np.ascontiguousarray(values)))


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
    share: Share,
    after_batch: Callable[[int, Forest, Any], bool] | None = None,
    finish: Callable[[range, Forest], list[Forest]] | None = None,
) -> Forest:
    """Grow some trees on every worker, and return all of them, in order, on each.

    Workers exchange trees about once a second: then they notice that one of them is lost, and all
    have the same trees.

    Parameters
    ----------
    grow : callable
        ``grow(numbers)`` returns the trees of these numbers. It is called without a share.
    trees : range
        The numbers of the trees.
    share : Share
    after_batch : callable, default=None
        ``after_batch(done, forest, None)`` is called after each exchange, with the number of trees
        that were there before it and the trees that it brought. A true result ends the growth.
    finish : callable, default=None
        ``finish(numbers, forest)`` with the trees of an exchange, as they were grown on all
        workers, returns those of this worker as they are to be kept.
    """
    found: list[Forest] = []
    rank, size, done = share.collective.rank, share.collective.size, 0
    each = max(objects_of_all(get_threads(), share))
    while done < len(trees):
        numbers = trees[done : done + each * size]
        own, begun = numbers[rank::size], time.perf_counter()
        with not_sharing():
            forest = grow(own) if own else None
        grown = objects_of_all((forest, time.perf_counter() - begun), share)
        trees_of_all = _dealt_in_turn([forest for forest, _ in grown if forest is not None])
        if finish is not None:
            finished = objects_of_all(finish(numbers, trees_of_all), share)
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
    forest: Forest, values: Any, wanted: dict[int, np.ndarray], share: Share
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
    share : Share
    """
    at_once = max(1, MESSAGE_BYTES // (4 * share.n_all))
    found: dict[int, np.ndarray] = {}
    for first in range(0, forest.n_trees, at_once):
        last = min(first + at_once, forest.n_trees)
        with not_sharing():
            own = forest.slice(first, last).apply(values)
        leaf = np.concatenate(share.collective.gather(np.ascontiguousarray(own)))
        found |= {t: leaf[rows, t - first] for t, rows in wanted.items() if first <= t < last}
    return found


def refuse(name: str, value: Any, instead: str) -> NoReturn:
    """Raise NotImplementedError for a setting that workers which share rows do not support."""
    raise NotImplementedError(
        f"{name}={value!r} is not supported where several workers share the rows: {instead}, or "
        "train on one machine."
    )


def require_shareable(estimator: Any) -> None:
    """Raise NotImplementedError for estimators that workers which share the rows do not train."""
    if current_share() is not None and not estimator._grows_among_workers:
        raise NotImplementedError(
            f"{type(estimator).__name__} cannot be trained where several workers share the rows: "
            "use a random forest or extremely randomised trees, or train on one machine."
        )


def device_to_grow_on(
    device: str, X: Any, work: Callable[[Any], Work | None], **others: Any
) -> Device:
    """Choose where trees are grown (see ``resolve_device``): where workers share the rows, each
    chooses for itself (see ``device_of_worker``).

    Parameters
    ----------
    device : str
    X : table
        Of this worker.
    work : callable
        Returns the work of all trees on a table, None if it is not known.
    **others : array or None
    """
    share = current_share()
    if share is None:
        return resolve_device(device, X, work=work(X) or NO_WORK, **others)
    whole = np.broadcast_to(np.float32(), (share.n_all, size_of(X)[1]))
    own = (work(whole) or NO_WORK).among(share.collective.size)
    return device_of_worker(device, share, X, own, **others)


def device_to_read_on(device: Device) -> Device:
    """Return where the table is read and binned for trees that are grown on a device: on the host
    where workers share the rows."""
    return device if current_share() is None else CPU


def bring_to(device: Device, data: TrainingData, estimator: Any, params: CartParams) -> Device:
    """Bring what a worker's trees are grown on to a device, and return it; the CPU instead of a GPU
    that does not grow such trees.

    Raises
    ------
    MemoryError
        The GPU has too little memory; the message says how much is needed.
    """
    if not device.is_gpu:
        return device
    if not grows_on_device(data.table, params):
        return CPU
    assert data.share is not None
    plan = cart_plan(
        estimator, data.shape, data.itemsize, device,
        width=data.problem.width, n_outputs=data.truth.shape[1], n_own=data.share.n_own,
        cell_bytes=data.table.codes.dtype.itemsize,
    )  # fmt: skip
    plan.require()
    with plan.explaining(), device.active():
        data.move_to(device)
    return device


def labels_of_workers(labels: Labels) -> Labels:
    """Return the labels of the rows of all workers."""
    share = current_share()
    if share is None:
        return labels
    return labels_of_all(labels, share)


def table_of_workers(X: Array | SparseTable, **settings: Any) -> CartTable:
    """Return ``cart_table`` of the rows of all workers, on each of them."""
    share = current_share()
    return cart_table(X, **settings) if share is None else _dealt_table(X, share, **settings)


def _dealt_table(
    X: Array | SparseTable,
    share: Share,
    *,
    n_categories: np.ndarray,
    monotone: np.ndarray,
    **settings: Any,
) -> CartTable:
    n_features, size = X.shape[1], share.collective.size
    column_bytes = share.n_all * X.dtype.itemsize
    if isinstance(X, SparseTable):
        column_bytes = ENTRY_BYTES * int(entries_of_all(X).sum()) // n_features
    at_once = max(1, DEALT_BYTES // max(1, column_bytes))
    parts: list[CartTable] = []
    for begin in range(0, n_features, at_once * size):
        ends = np.minimum(begin + at_once * np.arange(size + 1), n_features)
        columns = [slice(*pair) for pair in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
        mine = columns[share.collective.rank]
        table = _columns_of_all(X, columns, share)
        own = None
        if table is not None:
            with not_sharing():
                own = cart_table(
                    table, n_categories=n_categories[mine], monotone=monotone[mine], **settings
                )
        parts += [part for part in objects_of_all(own, share) if part is not None]
    return side_by_side(parts)


def _columns_of_all(
    X: Array | SparseTable, columns: list[slice], share: Share
) -> np.ndarray | SparseTable | None:
    """Return the columns that this worker bins, of the rows of all workers."""
    mine: np.ndarray | SparseTable | None = None
    for rank, some in enumerate(columns):
        if some.start == some.stop:
            continue
        of_all: np.ndarray | SparseTable
        if isinstance(X, SparseTable):
            of_all = sparse_columns_of_all(X, some, share)
        else:
            of_all = np.concatenate(share.collective.gather(np.ascontiguousarray(X[:, some])))
        if rank == share.collective.rank:
            mine = of_all
        del of_all
    return mine
