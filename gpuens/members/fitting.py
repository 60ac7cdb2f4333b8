"""Fitting the members of a bag on their rows and features, and predicting with them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from joblib import effective_n_jobs
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.utils import InputTags, check_array, get_tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter, validate_data

from ..devices.lazy_tables import require_in_memory
from ..devices.placement import CPU, Device, gpu_of, is_sparse, on_host, resolve_device, to_numpy
from ..devices.policy import NO_WORK, Work
from ..forest.forest import Forest
from ..inputs.arrays import (
    check_frame,
    is_frame,
    read_table,
    require_readable,
    require_shape,
    require_two_axes,
)
from ..inputs.frames import require_unique_columns
from ..inputs.targets import read_target, shape_of
from ..kernels.runtime.arrays import Array
from .samples import Samples, SamplingPlan
from .side_by_side import is_own, threads_of_models, train_side_by_side

TAKE_GPU_ARRAYS = {"cuml", "gpuens", "xgboost"}
"""Packages whose estimators get arrays as they are, also those in the memory of a GPU."""


def device_for(
    estimator: Any, device: str, X: Any, *, work: Work | None = None, **others: Any
) -> Device:
    """Return the device on which members get their arrays. "auto" leaves arrays where they are for
    the packages in ``TAKE_GPU_ARRAYS``, and brings them to the host for all others; it decides by
    ``work`` about data in host memory, and leaves it there where that is not known."""
    work = NO_WORK if work is None else work
    if device != "auto":
        return resolve_device(device, X, work=work, **others)
    packages = _packages(estimator)
    if packages & TAKE_GPU_ARRAYS and ("gpuens" in packages or gpu_of(X) is not None):
        return resolve_device(device, X, work=work, **others)
    for name, array in {"X": X, **others}.items():
        require_in_memory(array, name)
    return CPU


def training_work(estimator: Any, X: Any, y: Any, times: Any = 1) -> Work | None:
    """Return the work of fitting clones of an estimator, None if it is not known."""
    known = getattr(estimator, "_training_work", None)
    work = None if known is None else known(X, y)
    return None if work is None else work.times(times)


def prediction_work_of(members: Sequence[Any], X: Any) -> Work | None:
    """Return the work of predicting with members of one kind, None if it is not known."""
    known = getattr(members[0], "_prediction_work", None) if len(members) else None
    work = None if known is None else known(X)
    return None if work is None else work.times(len(members))


def _packages(estimator: Any) -> set[str]:
    """Return the packages of an estimator and of its parameters, such as a pipeline's steps."""
    parts = [estimator, *estimator.get_params(deep=True).values()]
    return {type(part).__module__.partition(".")[0] for part in parts}


def read_features(
    X: Any, device: Device, *, estimator: Any, reset: bool, sparse: bool, allow_nd: bool = False
) -> Any:
    """Read features for members: only the shape is checked, values may have any type. With
    ``reset`` the estimator gets ``n_features_in_``, ``feature_names_in_`` and ``_passes_frames``,
    else it is compared with them. Returns an array, with ``sparse`` a CSR or CSC matrix, or the
    data frame itself where an array would lose what members need: the types of columns of
    categories, or the names that parameters of the members refer to."""
    if is_frame(X):
        require_unique_columns(X, "X")
    if reset:
        estimator._passes_frames = False
        if is_frame(X):
            from .frames import needs_frame

            estimator._passes_frames = needs_frame(estimator, on_host(X))
    if device.holds(X):
        return read_table(X, device, estimator=estimator, reset=reset)
    if not is_sparse(X):
        require_readable(X, "X")
        require_container(X)
        require_two_axes(on_host(X), estimator)
    if is_frame(X):  # scikit-learn fails at frames without columns
        require_shape(tuple(X.shape), estimator)
        if getattr(estimator, "_passes_frames", False):
            X = on_host(X)
            check_frame(X, estimator, reset, "X")
            return X
    try:
        values = validate_data(
            estimator,
            on_host(X),
            reset=reset,
            accept_sparse=["csr", "csc"] if sparse else False,
            dtype=None,
            ensure_all_finite=False,
            allow_nd=allow_nd,
        )
    except (TypeError, ValueError) as error:
        if not is_frame(X) or not re.search("Cannot cast|could not be promoted", str(error)):
            raise
        raise TypeError(
            f"X is a data frame whose columns have no type in common ({error}). Turn dates and "
            "spans of time into numbers, and encode text (sklearn.preprocessing.OrdinalEncoder)."
        ) from error
    return values if issparse(values) else device.asarray(values)


def require_container(X: Any) -> None:
    """Raise a TypeError for text and dicts, which have a length but no rows, and for what has
    neither shape nor length."""
    of_rows = hasattr(X, "__len__") and not isinstance(X, (str, bytes, Mapping))
    if getattr(X, "shape", None) is None and not (of_rows or hasattr(X, "__array__")):
        raise TypeError(f"X must be an array, a data frame or a list, got {type(X).__name__}.")


def read_outputs(y: Any, n_rows: int, device: Device, *, estimator: Any) -> Any:
    """Read the target of a regression: float64, shape (n_rows,) or (n_rows, n_outputs), on the
    device."""
    shape = shape_of(y)
    if len(shape) != 2 or shape[1] == 1:
        return read_target(y, n_rows, device, estimator=estimator)
    if device.holds(y):
        values = device.asarray(y, np.float64)
    else:
        values = device.asarray(check_array(on_host(y), dtype=np.float64, input_name="y"))
    if shape[0] != n_rows or not bool(abs(values).max() < np.inf):
        raise ValueError(
            f"y must hold finite numbers for each of the {n_rows} rows of X, got shape {shape}"
            f"{'' if shape[0] != n_rows else ' with NaN or infinity'}."
        )
    return values


def input_tags(estimator: Any) -> InputTags:
    """Return the input tags of an estimator, or the defaults if it has no tags."""
    return get_tags(estimator).input_tags if hasattr(estimator, "__sklearn_tags__") else InputTags()


def takes_any_array(estimator: Any) -> bool:
    """Return whether an estimator claims to work on arrays of any library."""
    return hasattr(estimator, "__sklearn_tags__") and get_tags(estimator).array_api_support


def fit_members(
    base: Any,
    plan: SamplingPlan,
    members: range,
    X: Any,
    y: Any,
    device: Device,
    n_jobs: int | None,
    verbose: int,
) -> list[Any]:
    """Fit members of a bag, each on its own rows and features of the whole table. The device is
    that of y, and of X unless ``grows_batches``, which reads X wherever it is.

    Members of this package share X and, where n_jobs is 1, the threads of the base estimator.
    Others, which may hold Python's lock, get processes through joblib, and what it prints."""
    if grows_batches(base, plan, X):
        samples = Samples(plan, members, device)
        features = [plan.features(m) for m in members]
        seeds = [plan.random_states(m, 1)[0] for m in members]
        return base._fit_batch(X, y, None, samples, features, seeds)
    jobs = jobs_for(X, device, n_jobs)
    if is_own(base):
        fits = [(base, partial(_fit_own, verbose, base, plan, m, X, y, device)) for m in members]
        n_threads = jobs if jobs > 1 else threads_of_models([base])
        return train_side_by_side(fits, X, y, n_threads)
    with Parallel(n_jobs=jobs, verbose=verbose) as parallel:
        return parallel(delayed(_fit_member)(base, plan, m, X, y, device) for m in members)


def _fit_own(verbose: int, base: Any, plan: SamplingPlan, member: int, *data: Any) -> Any:
    model = _fit_member(base, plan, member, *data)
    if verbose:
        print(f"Member {member + 1} is fitted.\n", end="", file=sys.stderr, flush=True)
    return model


def grows_batches(base: Any, plan: SamplingPlan, X: Any) -> bool:
    """Return whether the members are trees that grow together."""
    reads = not issparse(X) or getattr(base, "_keeps_sparse", False)
    return _fits_batches(base) and plan.repeats_little and reads


def _fits_batches(base: Any) -> bool:
    """Return whether ``_fit_batch`` of an estimator belongs to its ``fit``: a user's subclass can
    override one of them."""
    for cls in type(base).__mro__:
        if "_fit_batch" in vars(cls) or "fit" in vars(cls):
            return "_fit_batch" in vars(cls)
    return False


def _fit_member(base: Any, plan: SamplingPlan, member: int, X: Any, y: Any, device: Device) -> Any:
    """Fit a member on its sample, by weights if the estimator takes them: that copies no rows."""
    estimator = _seeded(clone(base), plan, member)
    features = plan.features(member)
    if has_fit_parameter(estimator, "sample_weight"):
        counts = plan.counts(member, device).astype(np.float64)
        estimator.fit(_part(X, None, features, device), y, sample_weight=counts)
    else:
        rows = device.asarray(plan.rows(member))
        estimator.fit(_part(X, rows, features, device), y[rows])
    return whole(estimator)


def whole(estimator: Any) -> Any:
    """Return an estimator that was fitted as a part of another one. Raises a KeyboardInterrupt if
    Ctrl-C has ended its training: it keeps what was finished, which others do not want."""
    forest: Any = getattr(estimator, "forest_", None)
    if hasattr(estimator, "stopped_"):
        interrupted = estimator.stopped_ == "interrupted"
    else:
        is_forest = isinstance(forest, Forest) and hasattr(estimator, "n_estimators")
        interrupted = is_forest and forest.n_trees < estimator.n_estimators
    if interrupted:
        raise KeyboardInterrupt
    return estimator


def names_of_seeds(estimator: Any) -> list[str]:
    """Return the names of the parameters of an estimator, and of those inside it, that are
    seeds."""
    names = sorted(estimator.get_params(deep=True))
    return [n for n in names if n == "random_state" or n.endswith("__random_state")]


def _seeded(estimator: Any, plan: SamplingPlan, member: int) -> Any:
    names = names_of_seeds(estimator)
    seeds = plan.random_states(member, len(names))
    return estimator.set_params(**dict(zip(names, seeds, strict=True)))


def jobs_for(X: Any, device: Device, n_jobs: int | None) -> int:
    """Return the number of processes: one if the data is on a GPU, otherwise that of ``n_jobs``."""
    return 1 if device.holds(X) else int(effective_n_jobs(n_jobs))


def in_order(
    function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], n_jobs: int
) -> Iterator[tuple[Any, Any]]:
    """Iterate over pairs of a task and ``function(*task)``, in the order of the tasks. No more
    results are held than there are jobs, so that sums over many members take little memory."""
    if n_jobs == 1:
        yield from ((task, function(*task)) for task in tasks)
        return
    waiting = iter(tasks)
    with Parallel(n_jobs=n_jobs) as parallel:
        while wave := list(islice(waiting, n_jobs)):
            results = parallel(delayed(function)(*task) for task in wave)
            yield from zip(wave, results, strict=True)


def class_shares(
    member: Any,
    features: np.ndarray,
    X: Any,
    rows: Any,
    n_classes: int,
    voting: str,
    device: Device,
) -> Any:
    """Return a member's probabilities for some rows (None: all), or its votes as zeros and ones:
    float64, shape (n_rows, n_classes), 0 for the classes that the member has not seen."""
    table = _part(X, rows, features, device)
    if voting == "hard" or (voting == "auto" and not hasattr(member, "predict_proba")):
        votes = device.asarray(member.predict(table)).astype(np.int64)
        return (votes[:, None] == device.xp.arange(n_classes)).astype(np.float64)
    probabilities = device.asarray(member.predict_proba(table), np.float64)
    if probabilities.shape[1] == n_classes:
        return probabilities
    shares = device.xp.zeros((probabilities.shape[0], n_classes))
    shares[:, to_numpy(member.classes_).astype(np.int64)] = probabilities
    return shares


def decisions(
    member: Any, features: np.ndarray, X: Any, rows: Any, n_classes: int, device: Device
) -> Any:
    """Return a member's decision function for some rows (None: all)."""
    known = getattr(member, "classes_", None)
    if known is not None and len(known) != n_classes:
        raise ValueError(
            f"The sample of a member has {len(known)} of the {n_classes} classes, so decision "
            "functions cannot be averaged. Raise max_samples, or use predict_proba."
        )
    return device.asarray(member.decision_function(_part(X, rows, features, device)), np.float64)


def values_of(member: Any, features: np.ndarray, X: Any, rows: Any, device: Device) -> Any:
    """Return a member's predictions for some rows (None: all), float64 (n_rows, n_outputs)."""
    values = device.asarray(member.predict(_part(X, rows, features, device)), np.float64)
    return values.reshape(values.shape[0], -1)


def _part(X: Any, rows: Any, features: np.ndarray, device: Device) -> Any:
    """Return some rows and columns of a table."""
    if rows is not None:
        X = take(X, rows, device)
    return columns_of(X, features)


def columns_of(X: Any, features: np.ndarray) -> Any:
    """Return some columns of a table, ascending, or the table itself if these are all. Columns of a
    frame that are drawn twice get names of their own."""
    if features.size == X.shape[1] and (np.diff(features) > 0).all():
        return X
    if not is_frame(X):
        return X[:, features]
    table = nw.from_native(X, eager_only=True)
    distinct = np.unique(features)
    if distinct.size == features.size:
        return table[:, features.tolist()].to_native()
    first = [0, *(np.flatnonzero(np.diff(features)) + 1).tolist()]
    draw = np.arange(features.size) - np.repeat(first, np.diff([*first, features.size]))
    names = [f"{table.columns[f]}.{k}" for f, k in zip(features, draw, strict=True)]
    drawn = (nw.nth(int(f)).alias(n) for f, n in zip(features, names, strict=True))
    return table.select(drawn).to_native()


def take(values: Any, rows: Array, home: Device) -> Any:
    """Return some rows of an array on ``home``, a data frame, a sparse matrix or a list."""
    if isinstance(values, (list, tuple)):
        return [values[row] for row in rows.tolist()]
    if is_frame(values):
        return nw.from_native(values, eager_only=True)[to_numpy(rows)].to_native()
    if issparse(values) or not home.holds(values):
        return values[rows]
    return values[home.asarray(rows)]
