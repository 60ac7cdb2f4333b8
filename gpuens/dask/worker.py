"""The part of a training that runs in the worker processes."""

from __future__ import annotations

import socket
import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from distributed import get_worker

from ..cluster.rendezvous import Address, Place, join_ring, open_listener
from ..estimators.training import TrainingState
from ..kernels.runtime.collective import Alone, Share, sharing
from .collections import Part, joined

SECONDS_BETWEEN_SNAPSHOTS = 1.0


class Job(NamedTuple):
    """The share of a worker in a training.

    Parameters
    ----------
    place : Place
    first, n_all : int
        Its first row, and the rows of all workers.
    heartbeat, patience : float
        See ``join_ring``.
    """

    place: Place
    first: int
    n_all: int
    heartbeat: float
    patience: float


_listeners: dict[str, socket.socket] = {}
_snapshots: dict[str, Any] = {}
"""By the tokens of the trainings that this process takes part in."""


def open_door(token: str) -> Address:
    """Open a listener for a training, and return its address."""
    forget(token)
    host = urlsplit(get_worker().address).hostname or "127.0.0.1"
    _listeners[token] = listener = open_listener(host)
    return host, listener.getsockname()[1]


def snapshot_of(token: str) -> Any:
    """Return the last model of a training that this process keeps, or None."""
    return _snapshots.get(token)


def forget(token: str) -> None:
    """Drop what is kept of a training."""
    _snapshots.pop(token, None)
    listener = _listeners.pop(token, None)
    if listener is not None:
        listener.close()


def train(job: Job, model: Any, before: Any, others: dict[str, Any], *parts: Part) -> Any:
    """Train on this worker's rows; returns the model on rank 0, elsewhere its fingerprint.

    Parameters
    ----------
    job : Job
    model : estimator
        Not fitted.
    before : estimator or None
        A snapshot of the same training, with which it goes on.
    others : dict
        Further arguments of ``fit``.
    *parts : Part
        The rows of this worker.
    """
    worker = get_worker()
    X, y, weight = joined(parts)
    if before is not None:  # without callbacks
        model = before.set_params(warm_start=True, callbacks=model.callbacks)
    threads = worker.state.nthreads if model.n_jobs is None else model.n_jobs
    keeper = Keeper(job.place.token, worker)
    own = model.get_params()
    model.set_params(callbacks=[*(model.callbacks or []), keeper], n_jobs=threads)
    if len(job.place.addresses) == 1:
        _listeners.pop(job.place.token).close()
        with sharing(Share(Alone(), 0, job.n_all, job.n_all)):
            model.fit(X, y, weight, **others)
    else:
        listener = _listeners.pop(job.place.token)
        with join_ring(job.place, listener, job.heartbeat, job.patience) as ring:
            with sharing(Share(ring, job.first, X.shape[0], job.n_all)):
                model.fit(X, y, weight, **others)
    model.set_params(**own)
    return model if job.place.rank == 0 else model.forest_.fingerprint()


class Keeper:
    """A callback that keeps the model now and then, and ends a training whose client is
    gone."""

    runs_on_every_worker = True

    def __init__(self, token: str, worker: Any) -> None:
        self._token, self._worker = token, worker
        self._key = worker.get_current_task()
        self._last = time.monotonic()

    def after_iteration(self, state: TrainingState) -> None:
        task = self._worker.state.tasks.get(self._key)
        if task is None or task.state == "cancelled":
            raise InterruptedError("the client has gone away, or has cancelled the training")
        if time.monotonic() - self._last >= SECONDS_BETWEEN_SNAPSHOTS:
            _snapshots[self._token] = state.model()
            self._last = time.monotonic()
