"""The client's side of a training: who has which rows, waiting, and going on after a loss."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import distributed
from dask.delayed import Delayed
from distributed import Client, Future, KilledWorker

from ..cluster.rendezvous import Place
from ..cluster.ring import WorkerLostError
from ..tables.worker_rows import pieces_of, ranges_of
from . import on_scheduler
from .collections import length_of, rows_of
from .worker import Job, fingerprint_of, forget, imported, open_door, snapshot_of, train

PATIENCE = 60.0
"""Seconds within which workers must answer, beyond the heartbeat: one may have to finish another
task first."""
POLL = 1.0
"""Seconds between two looks at whether all workers are still there."""
GLANCE = 0.25
"""Seconds for which the result of a look is used again: once something was amiss, a look takes
50 ms."""
IMPORTING = 60.0
"""Seconds for which a worker that imports libraries may be silent, beyond the heartbeat: while a
library is loaded, nothing else runs in its process, and a busy machine takes long over it."""
SLOW = 20.0
"""Seconds for which a worker that has imported them may be silent: it may unpack large parts."""
MOMENT = 1.0
"""Seconds in which workers notice that another one has failed."""
FETCHING = 1.0
"""Seconds after which a result that is fetched may be lost; at each look twice as many."""
LOST = WorkerLostError, KilledWorker, distributed.client.FutureCancelledError


class _LostError(Exception):
    """An attempt has lost workers."""


@dataclass
class Training:
    """A training of ``model``, an estimator of ``gpuens``, on a cluster. ``others`` are further
    arguments of ``fit``, which every worker gets as a whole."""

    client: Client
    model: Any
    others: dict[str, Any]
    max_restarts: int
    heartbeat: float
    before: Any = None
    excluded: set[str] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)
    """Workers that the next attempt does without."""
    imports: dict[str, Future] = field(default_factory=dict)
    """The first task of each worker."""
    is_alarmed: bool = False
    """Whether a task has failed or a worker was lost: from then on the scheduler reads all news
    before it says who is there."""
    looked: float = -math.inf
    silence: dict[str, float] = field(default_factory=dict)
    """When the scheduler was asked, and for how long it had not heard of each worker."""

    def run(self, parts: Sequence[Delayed]) -> Any:
        """Return the fitted model. Raises a RuntimeError if workers were lost more often than
        ``max_restarts`` or none is left, and the error of a worker that is not the loss of another
        one."""
        held = self.client.compute(list(parts))
        counted = [
            self.client.submit(length_of, part, number, pure=False)
            for number, part in enumerate(held)
        ]
        lengths = self._found(self.client.submit(list, counted, pure=False))
        if sum(lengths) == 0:
            raise ValueError("X has no rows: every part is empty.")
        lost = None
        for _ in range(self.max_restarts + 1):
            attempt = _Attempt(self, held, lengths)
            try:
                return attempt.run()
            except _LostError as error:
                lost, self.looked, self.is_alarmed = error, -math.inf, True
                self.before = attempt.last_snapshot() or self.before
            finally:
                attempt.clean_up()
        raise RuntimeError(
            f"Training was given up: workers were lost {self.max_restarts + 1} times, which is "
            f"more than max_restarts={self.max_restarts}. The last time: {lost}"
        )

    def _found(self, future: Future) -> Any:
        """Return the result of a task that any worker may compute. What a silent worker has, or
        works on, is computed again by others: Dask waits five minutes and more for it."""
        seconds = FETCHING
        while True:
            self.workers()
            if not future.done():
                _wait_a_moment([future])
                continue
            try:
                return future.result(timeout=seconds)
            except TimeoutError:
                seconds *= 2

    def present(self) -> list[str]:
        """Return the addresses of the workers that can take part. The scheduler forgets those that
        it has not heard of for a heartbeat if they were stopped, and for long in any case: their
        machine may be gone. While workers train, they notice that of each other sooner."""
        if time.monotonic() - self.looked > GLANCE:
            limit = 0.0 if self.is_alarmed else self.heartbeat
            self.silence = self.client.run_on_scheduler(on_scheduler.silence, limit=limit)
            self.looked = time.monotonic()
        silence = self.silence
        for worker in set(silence) - self.excluded:
            has_imported = self._first_task(worker).done()
            excess = silence[worker] - self.heartbeat
            is_gone = excess > (SLOW if has_imported else IMPORTING)
            if is_gone or (excess > 0.0 and self._is_stopped(worker)):
                self.drop(worker)
        return sorted(set(silence) - self.excluded)

    def _is_stopped(self, worker: str) -> bool:
        """Return whether the process of a silent worker is stopped or has ended, as far as its
        nanny knows."""
        return bool(self.client.run_on_scheduler(on_scheduler.has_stopped, address=worker))

    def _first_task(self, worker: str) -> Future:
        """Return a task that imports what training takes, and nothing else."""
        if worker not in self.imports:
            self.imports[worker] = self.client.submit(imported, **only_on(worker))
        return self.imports[worker]

    def drop(self, worker: str) -> None:
        """Have the scheduler forget a worker that is gone: its data is computed again, and its
        nanny, if there is one, starts another worker."""
        if worker in self.excluded:
            return
        self.excluded.add(worker)
        self.imports.pop(worker, None)
        self.client.run_on_scheduler(on_scheduler.remove, address=worker)

    def workers(self) -> list[str]:
        """Return ``present``, once there is one: those that are not busy, if there are any."""
        deadline = time.monotonic() + PATIENCE
        while not (found := self.present()):
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"The cluster has had no worker for {PATIENCE:g} s: start workers, and call "
                    "fit again."
                )
            time.sleep(POLL)
        free = [worker for worker in found if worker not in self.busy]
        self.busy = set()
        return free or found

    def is_silent(self, worker: str) -> bool:
        """Return whether a worker is stopped, or the scheduler does not hear of it for a heartbeat
        from now on."""
        if self._is_stopped(worker):
            return True
        begun = time.monotonic()
        while True:
            silence = self.client.run_on_scheduler(on_scheduler.silence).get(worker)
            waited = time.monotonic() - begun
            if silence is None or waited > self.heartbeat:
                return True
            if silence < waited:
                return False
            time.sleep(POLL / 10)


class _Attempt:
    """One attempt, by the workers that are there."""

    def __init__(self, training: Training, parts: Sequence[Future], lengths: list[int]) -> None:
        self._training, self._client = training, training.client
        self._parts, self._lengths = parts, lengths
        self._token = secrets.token_hex(16)
        self._workers: list[str] = []
        self._futures: list[Future] = []

    def run(self) -> Any:
        """Return the fitted model. Raises a _LostError if a worker is gone."""
        training = self._training
        workers = training.workers()
        ranges = ranges_of(self._lengths, len(workers))
        self._workers = self._placed(ranges, workers)
        # Workers that train do nothing else: all parts must be there before the first begins.
        rows = [self._rows(first, last) for first, last in ranges]
        self._wait([part for of_worker in rows for part in of_worker])
        addresses = self._on_each(open_door, self._token)
        n_all = sum(self._lengths)
        for rank, (first, _) in enumerate(ranges):
            place = Place(rank, addresses, self._token)
            job = Job(place, first, n_all, training.heartbeat, PATIENCE)
            self._futures.append(
                self._client.submit(
                    train, job, training.model, training.before, training.others,
                    *rows[rank], **only_on(self._workers[rank]),
                )
            )  # fmt: skip
        model, *others = self._results(self._futures)
        if any(fingerprint != fingerprint_of(model) for fingerprint in others):
            raise RuntimeError(
                "The workers have trained different models: please report this, with the versions "
                "of gpuens, NumPy and Numba on all of them."
            )
        return model

    def last_snapshot(self) -> Any:
        """Return the model with the most rounds or trees that a worker has kept, or None."""
        asked = {
            worker: self._client.submit(snapshot_of, self._token, **only_on(worker))
            for worker in self._left()
        }
        deadline = time.monotonic() + PATIENCE
        # A lost worker's neighbours may know of it before the scheduler, who then asks it in vain.
        while waiting := [asked[w] for w in self._left() if w in asked and not asked[w].done()]:
            if time.monotonic() > deadline:
                break
            _wait_a_moment(waiting)
        models = []
        for future in asked.values():
            if future.done():
                with suppress(Exception):  # its worker is gone, too
                    models.append(future.result(timeout=PATIENCE))
        kept = [model for model in models if model is not None]
        return max(kept, key=_rounds_of, default=None)

    def clean_up(self) -> None:
        """Let the workers forget this attempt."""
        self._client.cancel(self._futures, force=True)
        for worker in self._left():
            distributed.fire_and_forget(self._client.submit(forget, self._token, **only_on(worker)))

    def _left(self) -> list[str]:
        present = set(self._training.present())
        return [worker for worker in self._workers if worker in present]

    def _placed(self, ranges: list[tuple[int, int]], workers: list[str]) -> list[str]:
        """Return a worker for each range: if it is free, the one that holds most of its rows."""
        holders = self._client.who_has(list(self._parts))
        free = list(workers)
        chosen = []
        for first, last in ranges:
            rows = dict.fromkeys(free, 0)
            for part, begin, end in pieces_of(self._lengths, first, last):
                for holder in holders.get(self._parts[part].key, ()):
                    if holder in rows:
                        rows[holder] += end - begin
            chosen.append(max(free, key=lambda worker: rows[worker]))
            free.remove(chosen[-1])
        return chosen

    def _rows(self, first: int, last: int) -> list[Future]:
        """Return the parts of a range; those at its ends are divided where they are held."""
        found = []
        for part, begin, end in pieces_of(self._lengths, first, last):
            whole = self._parts[part]
            if end - begin < self._lengths[part]:
                whole = self._client.submit(rows_of, whole, begin, end, pure=False)
            found.append(whole)
        return found

    def _on_each(self, function: Any, *args: Any) -> list[Any]:
        futures = [
            self._client.submit(function, *args, **only_on(worker)) for worker in self._workers
        ]
        return self._results(futures, PATIENCE)

    def _results(self, futures: Sequence[Future], patience: float = float("inf")) -> list[Any]:
        """Wait for all, and return their results; raises what ``_wait`` raises. A worker may be
        lost when it has finished, before its result is here: no other worker may compute it again,
        and Dask would wait for that one for ever."""
        results: list[Any] = []
        seconds = FETCHING
        while len(results) < len(futures):
            self._wait(futures, patience)
            try:
                results.append(futures[len(results)].result(timeout=seconds))
            except (TimeoutError, *LOST):
                self._training.is_alarmed = True
                seconds *= 2
                if gone := self._gone():
                    self._explain(futures, gone, False)
        return results

    def _gone(self) -> set[str]:
        return set(self._workers) - set(self._training.present())

    def _wait(self, futures: Sequence[Future], patience: float = float("inf")) -> None:
        """Wait for all. Raises a _LostError if a worker is gone or ``patience`` is over, and the
        first error of a worker that is not the loss of another one."""
        deadline = time.monotonic() + patience
        while waiting := [future for future in futures if not future.done()]:
            late = time.monotonic() > deadline
            has_failed = any(future.status == "error" for future in futures)
            self._training.is_alarmed |= late or has_failed
            gone = self._gone()
            if gone or late or has_failed:
                self._explain(futures, gone, late)
            _wait_a_moment(waiting)
        self._explain(futures, set(), False)

    def _explain(self, futures: Sequence[Future], gone: set[str], is_late: bool) -> None:
        """Raise what has ended the attempt, if anything has."""
        self._wait_for_errors(futures, gone)
        errors = [_error_of(future) for future in futures]
        lost = [error for error in errors if isinstance(error, LOST)]
        others = [error for error in errors if error is not None and not isinstance(error, LOST)]
        if others:
            raise others[0]
        silent = {
            self._workers[error.silent]
            for error in lost
            if isinstance(error, WorkerLostError) and error.silent >= 0
        }
        late = set()
        if is_late:
            late = {w for w, f in zip(self._workers, futures, strict=True) if not f.done()}
        gone |= {worker for worker in silent | late if self._training.is_silent(worker)}
        for worker in gone:
            self._training.drop(worker)
        if gone:
            raise _LostError(f"{', '.join(sorted(gone))} does not answer any more.")
        if late:
            self._training.busy = late
            raise _LostError(
                f"{', '.join(sorted(late))} has not begun within {PATIENCE:g} s: other tasks keep "
                "it busy."
            )
        if silent:
            raise _LostError(
                f"{', '.join(sorted(silent))} is alive, but has not answered for "
                f"{self._training.heartbeat:g} s: raise heartbeat."
            )
        if lost:
            raise _LostError(str(lost[0]))

    def _wait_for_errors(self, futures: Sequence[Future], gone: set[str]) -> None:
        """Give the errors of workers, of which one may have caused the others, a moment to come;
        none comes of those that are gone."""
        trained = zip(self._workers, self._futures, strict=False)
        in_vain = {future.key for worker, future in trained if worker in gone}
        deadline = time.monotonic() + MOMENT
        while time.monotonic() < deadline:
            if all(future.done() or future.key in in_vain for future in futures):
                return
            time.sleep(MOMENT / 20)


def _error_of(future: Future) -> BaseException | None:
    """Return the error of a task, if it has failed."""
    if future.status not in ("error", "cancelled"):
        return None  # one that has finished may be lost from now on: its error never comes
    try:
        error: BaseException | None = future.exception(timeout=MOMENT)
    except TimeoutError:
        return None
    except Exception as failure:  # the future itself was cancelled
        error = failure
    return error


def only_on(worker: str) -> dict[str, Any]:
    """Return how a task is submitted to one worker."""
    return {"workers": [worker], "allow_other_workers": False, "pure": False, "retries": 0}


def _rounds_of(model: Any) -> int:
    """Return the number of rounds of a boosted model, or of the trees of a forest."""
    return int(model.n_iter_ if hasattr(model, "n_iter_") else model.forest_.n_trees)


def _wait_a_moment(futures: Sequence[Future]) -> None:
    """Wait until one of them is done, but not long."""
    with suppress(TimeoutError):
        distributed.wait(futures, timeout=POLL, return_when="FIRST_COMPLETED")
