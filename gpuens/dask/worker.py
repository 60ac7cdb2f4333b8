"""The part of a training that runs in the worker processes."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from distributed import get_worker

from ..cluster.nccl import RingOfGPUs
from ..cluster.rendezvous import Address, Place, join_ring, open_listener
from ..estimators.training import TrainingState
from ..forest.forest import Forest
from ..forests.estimator import ForestOfTrees
from ..forests.growing import pruned
from ..kernels.runtime.collective import Alone, Workers, sharing
from ..trees.sharing import watching
from .collections import Part, joined

SECONDS_BETWEEN_SNAPSHOTS = 1.0


class Job(NamedTuple):
    """The share of a worker in a training: its first row and the rows of all workers; ``heartbeat``
    and ``patience`` as in ``join_ring``."""

    place: Place
    first: int
    n_all: int
    heartbeat: float
    patience: float


_listeners: dict[str, socket.socket] = {}
_snapshots: dict[str, Callable[[], Any]] = {}
"""By the tokens of the trainings that this process takes part in."""


def imported() -> None:
    """Do nothing: for this function its module is imported, and with it what training takes."""


def open_door(token: str) -> Address:
    """Open a listener for a training, and return its address."""
    forget(token)
    host = urlsplit(get_worker().address).hostname or "127.0.0.1"
    _listeners[token] = listener = open_listener(host)
    return host, listener.getsockname()[1]


def snapshot_of(token: str) -> Any:
    """Return the last model of a training that this process keeps, or None."""
    make = _snapshots.get(token)
    return None if make is None else make()


def forget(token: str) -> None:
    """Drop what is kept of a training."""
    _snapshots.pop(token, None)
    listener = _listeners.pop(token, None)
    if listener is not None:
        listener.close()


def train(job: Job, model: Any, before: Any, others: dict[str, Any], *parts: Part) -> Any:
    """Train on this worker's rows, going on with the snapshot ``before`` if there is one; return
    the model on rank 0, elsewhere its fingerprint. ``others`` are further arguments of ``fit``."""
    worker = get_worker()
    X, y, weight, *of_queries = joined(parts)
    further = {n: v for n, v in zip(Part._fields[3:], of_queries, strict=True) if v is not None}
    if before is not None:  # without callbacks
        callbacks = {"callbacks": model.callbacks} if hasattr(model, "callbacks") else {}
        model = before.set_params(warm_start=True, **callbacks)
    own = model.get_params(deep=False)
    threads = worker.state.nthreads if model.n_jobs is None else model.n_jobs
    model.set_params(n_jobs=threads)
    keeper = Keeper(job.place.token, worker)
    with _seat(job, X.shape[0]), _kept(model, keeper):
        model.fit(X, y, weight, **further, **others)
    model.set_params(**own)
    return model if job.place.rank == 0 else fingerprint_of(model)


def fingerprint_of(model: Any) -> tuple[str, ...]:
    """Return the fingerprint of a model, or those of its members."""
    parts = [model] if hasattr(model, "forest_") else model.estimators_
    return tuple(part.forest_.fingerprint() for part in parts)


@contextmanager
def _seat(job: Job, n_own: int) -> Iterator[None]:
    """Let the fits inside the block work on this worker's rows, as one of all workers."""
    listener = _listeners.pop(job.place.token)
    if len(job.place.addresses) == 1:
        listener.close()
        with sharing(Workers(Alone(), 0, job.n_all, job.n_all)):
            yield
    else:
        with join_ring(job.place, listener, job.heartbeat, job.patience, RingOfGPUs) as ring:
            with sharing(Workers(ring, job.first, n_own, job.n_all)):
                yield


def _kept(model: Any, keeper: Keeper) -> AbstractContextManager[None]:
    """Have ``keeper`` keep what the model has learned."""
    if hasattr(model, "callbacks"):
        model.set_params(callbacks=[*(model.callbacks or []), keeper])
        return nullcontext()
    if not isinstance(model, ForestOfTrees):  # begins again after a loss
        return watching(lambda trees: keeper.require_client())
    before = getattr(model, "forest_", None)
    return watching(lambda trees: keeper.after_trees(model, before, trees))


class Keeper:
    """Keeps the model of a training now and then, and ends a training whose client is gone. It is
    a callback of boosting."""

    runs_on_every_worker = True

    def __init__(self, token: str, worker: Any) -> None:
        self._token, self._worker = token, worker
        self._key = worker.get_current_task()
        self._last = time.monotonic()

    def after_iteration(self, state: TrainingState) -> None:
        self.require_client()
        if time.monotonic() - self._last >= SECONDS_BETWEEN_SNAPSHOTS:
            model = state.model()
            _snapshots[self._token] = lambda: model
            self._last = time.monotonic()

    def after_trees(self, model: Any, before: Forest | None, trees: list[Forest]) -> None:
        """Keep a forest after an exchange of trees (see ``trees.sharing.watching``)."""
        self.require_client()
        grown, learned = list(trees), vars(model).copy()
        _snapshots[self._token] = lambda: _unfinished(type(model), learned, before, grown)

    def require_client(self) -> None:
        """Raise InterruptedError if the client does not want the model any more."""
        task = self._worker.state.tasks.get(self._key)
        if task is None or task.state == "cancelled":
            raise InterruptedError("the client has gone away, or has cancelled the training")


def _unfinished(
    kind: type, learned: dict[str, Any], before: Forest | None, trees: list[Forest]
) -> Any:
    """Return a forest with the trees that it has so far."""
    model = kind()
    vars(model).update(learned)
    grown = pruned(Forest.concatenate(trees), model.ccp_alpha)
    model.forest_ = grown if before is None else Forest.concatenate([before, grown])
    return model
