"""Models that are trained side by side: members of ensembles, their copies on folds, settings.

A small table keeps only one thread busy: starting the others for every tree costs more than they
save. So each thread trains whole models, one after another. A large table keeps all threads busy
that ``n_jobs`` of a model allows: there are as many models at a time as it takes to use all. On a
GPU, where a launch takes longer than its work, boosted models grow together instead (see
``Meeting`` of ``boosting``).
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeVar

import numpy as np
from sklearn import config_context, get_config

from ..devices.placement import Device, gpu_of, places_beside
from ..estimators.parameters import share_of_threads, threads_of
from ..estimators.training import group_here
from ..kernels.scalars.lazy_jit import in_python

Result = TypeVar("Result")
Functions = Sequence[Callable[[], Result]]
Fit = tuple[Any, Callable[[], Any]]
"""A function that fits an estimator, or one with the same settings, and may do other things too;
the estimator comes first."""

CELLS_WORTH_THREADS = 2_000_000
"""Tables with more cells than this keep as many threads busy as the ``n_jobs`` of a model allows:
those of a group are trained one at a time, or as many as it takes for all threads."""
UNKNOWN_CELL_BYTES = 64
"""Bytes of a value of a table on a GPU that a training without a plan is taken to need."""
SECONDS_BETWEEN_LOOKS = 0.05


class TrainingGroup:
    """Trainings on threads, ``n_at_once`` of ``n_models`` (0: not known, else the last ones get the
    threads that others leave), which share the threads of the CPU and end together: after an error
    or Ctrl-C each stops before its next round. ``error`` is what ended the group, if it is not the
    first error in the order of the models."""

    most: ClassVar[int | None] = None
    """Models at a time unless the user says otherwise; None: as many as threads."""
    copied: ClassVar[tuple[str, ...]] = ()
    """The parts of the plan of a training that are copied into arrays of all."""
    has_own_streams: ClassVar[bool] = True
    """Whether each thread has a stream of a GPU, as several work at a time."""
    error: BaseException | None = None

    def __init__(self, n_at_once: int = 1, n_models: int = 0, n_threads: int = 1) -> None:
        self._n_at_once, self._n_threads = n_at_once, n_threads
        self._n_left = n_models or n_at_once
        self._counts, self._counting = n_models > 0, threading.Lock()
        self._ended, self._outer = False, group_here.get()
        self._place = places_beside(self.has_own_streams)

    @property
    def has_ended(self) -> bool:
        """Whether trainings must stop; those of a group inside another one stop with it."""
        return self._ended or (self._outer is not None and self._outer.has_ended)

    def end(self) -> BaseException | None:
        """Have all trainings stop; return the error that has ended the group before."""
        self._ended = True
        return self.error

    @contextmanager
    def here(self) -> Iterator[None]:
        """Make what is trained inside the block part of the group, on its share of the threads."""
        group, share = group_here.get(), share_of_threads.get()
        try:  # from here on, as Ctrl-C may come between any two lines
            group_here.set(self)
            if self._n_threads > 1:
                share_of_threads.set(self._share)
            yield
        finally:
            group_here.set(group)
            share_of_threads.set(share)

    def taking_part_in(self, function: Callable[[], Result]) -> Callable[[], Result]:
        """Return a function that does the same in another thread, as one of the trainings."""

        def run() -> Result:
            try:
                with self._place(), self.here():
                    if self.has_ended:
                        raise KeyboardInterrupt
                    return function()
            finally:
                with self._counting:
                    self._n_left -= self._counts

        return run

    def _share(self) -> int:
        """Return how many threads a training that begins now may keep busy."""
        return max(1, self._n_threads // max(1, min(self._n_at_once, self._n_left)))


def is_own(estimator: Any) -> bool:
    """Return whether an estimator is of this package."""
    return type(estimator).__module__.partition(".")[0] == __name__.partition(".")[0]


def threads_of_models(models: Sequence[Any]) -> int:
    """Return how many threads models may keep busy, one after the other."""
    return max((threads_of(getattr(model, "n_jobs", None)) for model in models), default=1)


def _threads_of_one(model: Any) -> int:
    """Return how many threads a model keeps busy by itself on a large table: the most that
    ``n_jobs`` of it, or else of the estimators inside it, allows; all if none of them has one, as
    other libraries may use all without a parameter for it."""
    parts = [part for part in model.get_params().values() if hasattr(part, "get_params")]
    n_jobs = [part.n_jobs for part in parts if hasattr(part, "n_jobs")]
    if getattr(model, "n_jobs", None) is not None or not parts:
        n_jobs.append(getattr(model, "n_jobs", None))
    if not n_jobs and is_own(model):
        return 1  # an ensemble of this package, of estimators that have one thread
    few = all(isinstance(n, (int, np.integer)) and n > 0 for n in n_jobs)
    return threads_of(max(n_jobs) if n_jobs and few else None)


class PlannedGroup(NamedTuple):
    """The kind of a group, how many of its models to train at a time, and their numbers."""

    kind: type[TrainingGroup]
    n_at_once: int
    numbers: list[int]


def train_side_by_side(
    fits: Sequence[Fit], X: Any, y: Any, n_threads: int, most: int | None = None
) -> list[Any]:
    """Return the results of the functions of ``fits``: pairs of an estimator and of a function,
    called without arguments, that fits it or one with the same settings to rows of X and y.
    ``n_threads`` are those of the CPU that they may keep busy, ``most`` the models that grow
    together on a GPU (None: as many as its memory holds). After a KeyboardInterrupt nothing is
    kept."""
    results: dict[int, Any] = {}
    estimators = [estimator for estimator, _ in fits]
    for kind, n_at_once, numbers in planned_groups(estimators, X, y, n_threads, most):
        n_at_once = min(n_at_once, len(numbers))
        group = kind(n_at_once, len(numbers), n_threads)
        functions = [fits[k][1] for k in numbers]
        if n_at_once == 1:
            with group.here():
                found = [function() for function in functions]
        else:
            found = run_in_group(group, functions, n_at_once)
        results.update(zip(numbers, found, strict=True))
    return [results[k] for k in range(len(fits))]


def run_in_group(
    group: TrainingGroup, functions: Functions[Result], n_at_once: int
) -> list[Result]:
    """Return the results of functions that train the models of a group, on so many threads. The
    first error ends all; of those that failed by themselves the first in their order is raised. The
    interpreter starts no threads once it is ending: they are then called one by one, maybe a second
    time."""
    if not in_python.get():
        with ThreadPoolExecutor(n_at_once) as pool:
            try:
                if futures := _started(pool, group, functions):
                    failed = _wait_for(futures)
                    if not failed:
                        return [future.result() for future in futures]
                    error = group.end()
                    pool.shutdown(cancel_futures=True)
                    raise_as_it_is(error or _first_error(futures, failed))
            except BaseException:
                group.end()
                pool.shutdown(cancel_futures=True)
                raise
            group.end()
    with TrainingGroup().here():
        return [function() for function in functions]


def _started(
    pool: ThreadPoolExecutor, group: TrainingGroup, functions: Functions[Result]
) -> list[Future[Result]]:
    """Start functions in threads, each in a context and with the settings of scikit-learn of its
    own; return none if none can start."""
    settings = get_config()

    def configured(function: Callable[[], Result]) -> Result:
        with config_context(**settings):
            return function()

    contexts = [contextvars.copy_context() for _ in functions]
    started = zip(contexts, map(group.taking_part_in, functions), strict=True)
    try:
        return [pool.submit(context.run, configured, function) for context, function in started]
    except RuntimeError:
        return []


def _wait_for(futures: Sequence[Future[Any]]) -> list[Future[Any]]:
    """Wait until all are done, or one has failed; return those that have failed. Not every system
    wakes a thread for Ctrl-C that waits for a lock: it looks up by itself now and then."""
    left, failed = set(futures), False
    while left and not failed:
        done, left = wait(left, SECONDS_BETWEEN_LOOKS, FIRST_EXCEPTION)
        failed = any(future.exception() is not None for future in done)
    return [future for future in futures if future.done() and future.exception() is not None]


def _first_error(futures: Sequence[Future[Any]], failed: Sequence[Future[Any]]) -> BaseException:
    """Return the first error of models that failed before the group was ended, or by themselves
    while it was: what ends a model is no ``Exception``."""
    errors = {future: future.exception() for future in futures if not future.cancelled()}
    return next(
        error
        for future, error in errors.items()
        if error is not None and (future in failed or isinstance(error, Exception))
    )


def raise_as_it_is(error: BaseException) -> NoReturn:
    """Raise an error of another thread, in the context that it has there."""
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context


def planned_groups(
    estimators: Sequence[Any], X: Any, y: Any, n_threads: int, most: int | None
) -> list[PlannedGroup]:
    """Return the groups in which estimators are trained, one group after the other. On a GPU the
    trainings of a group have room in its free memory. Large tables are trained on one at a time, or
    as many as it takes to keep all threads busy."""
    is_large = _n_cells(X) > CELLS_WORTH_THREADS
    of_each = {id(own): own for own in estimators}
    planned = {key: _kind_and_room(own, X, y, most, is_large) for key, own in of_each.items()}
    found: dict[type[TrainingGroup], list[int]] = {}
    for k, model in enumerate(estimators):
        found.setdefault(planned[id(model)][0], []).append(k)
    groups = []
    for kind, numbers in found.items():
        n_at_once = (kind.most or n_threads) if most is None or kind.most is None else most
        if kind is TrainingGroup and is_large:
            of_one = max(_threads_of_one(estimators[k]) for k in numbers)
            n_at_once = max(1, n_at_once // of_one)
        rooms = [room for own, room in planned.values() if own is kind and room is not None]
        groups.append(PlannedGroup(kind, min([n_at_once, *rooms]), numbers))
    return groups


def _n_cells(X: Any) -> int:
    """Return the number of values of a table. Lists are not converted: their rows may be of any
    kind and length, of which the first is taken; 0 where there is none."""
    if hasattr(X, "shape"):
        return int(np.prod(X.shape))
    try:
        return len(X) * int(np.size(X[0]))
    except (TypeError, ValueError, LookupError):
        return 0


def _kind_and_room(
    estimator: Any, X: Any, y: Any, most: int | None, is_large: bool
) -> tuple[type[TrainingGroup], int | None]:
    """Return the group that an estimator is trained in, and how many such trainings have room on
    the GPU that they are for; None on the CPU, or where its free memory is unknown."""
    of_gpu = None if most == 1 else getattr(estimator, "_group_on_gpu", lambda X: None)(X)
    kind = of_gpu or TrainingGroup
    room = trainings_at_once(estimator, X, y, kind.copied)
    if of_gpu is None and is_large and room is not None:
        room = 1  # it keeps a GPU busy alone
    return TrainingGroup if room is None else kind, room


def trainings_at_once(
    estimator: Any, X: Any, y: Any = None, copied: Sequence[str] = ()
) -> int | None:
    """Return how many trainings like this one fit into the free memory of a GPU side by side, at
    least 1, if each takes the parts of its plan that are ``copied`` twice; None if it is not for a
    GPU, or free memory is unknown.

    Where no plan is known, or the settings are wrong, which ``fit`` reports, a training counts as
    ``UNKNOWN_CELL_BYTES`` for each value of a table that is on the GPU already.
    """
    of_kind = getattr(estimator, "_memory_plan", None)
    index = gpu_of(X)
    try:
        plan = None if of_kind is None else of_kind(X, y)
    except (ValueError, TypeError):
        plan = None
    if plan is not None:
        size = plan.total + sum(plan.parts.get(name, 0) for name in copied)
        free = plan.free if plan.device.is_gpu else None
    elif index is not None:
        size = UNKNOWN_CELL_BYTES * X.shape[0] * X.shape[1]
        free, _ = Device("cuda", index).memory()
    else:
        return None
    return None if free is None else max(1, free // size)
