"""The rows that members are fitted on: where they are, and the form that each member gets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from ..devices.lazy_tables import require_in_memory
from ..devices.placement import CPU, Device, gpu_of, is_gpu_frame, on_host, resolve_device, to_numpy
from ..inputs.arrays import is_frame
from ..inputs.frames import frame_to_numpy
from .fitting import TAKE_GPU_ARRAYS, require_container, take, whole
from .side_by_side import Fit, is_own, threads_of_models, train_side_by_side


def home_of(device: str, X: Any, **others: Any) -> Device:
    """Return the device on which the predictions of models of any package are combined. "auto"
    follows the arrays and, unlike ``resolve_device``, leaves host data on the host: a weighted
    average is not worth a copy to a GPU."""
    arrays = {"X": X, **others}
    for name, array in arrays.items():
        require_in_memory(array, name)
    if device == "auto" and all(gpu_of(array) is None for array in arrays.values()):
        return CPU
    return resolve_device(device, X, **others)


def takes_gpu_arrays(estimator: Any) -> bool:
    """Return whether an estimator gets arrays as they are, also those in the memory of a GPU: those
    of ``TAKE_GPU_ARRAYS`` do, and pipelines that hold no others."""
    if isinstance(estimator, Pipeline):
        return all(takes_gpu_arrays(step) for _, step in estimator.steps)
    return type(estimator).__module__.partition(".")[0] in TAKE_GPU_ARRAYS


class MemberRows:
    """Rows of a table in the forms that members need, each made once. Frames, lists and sparse
    matrices stay what they are, arrays are at ``home``; ``everywhere`` is whether members get these
    whatever their package."""

    def __init__(self, X: Any, home: Device, everywhere: bool = False) -> None:
        self.home, self.everywhere = home, everywhere
        self.X = _at_home(X, home)
        self.n = n_rows_of(self.X)
        self._on_host: Any = None

    def like(self, X: Any) -> MemberRows:
        """Another table for the same members."""
        return MemberRows(X, self.home, self.everywhere)

    def gets_home_arrays(self, estimator: Any) -> bool:
        """Return whether an estimator gets arrays on ``home``."""
        return self.home == CPU or self.everywhere or takes_gpu_arrays(estimator)

    def table(self, estimator: Any) -> Any:
        """Return the table in the form that an estimator gets."""
        if self.gets_home_arrays(estimator):
            return self.X
        if self._on_host is None:
            self._on_host = on_host(self.X)
        return self._on_host

    def vector(self, estimator: Any, values: Any) -> Any:
        """Return targets or weights, which are on ``home``, in the form that an estimator gets."""
        return values if self.gets_home_arrays(estimator) else to_numpy(values)

    def part(self, rows: np.ndarray) -> MemberRows:
        """Return some of the rows, in all forms made so far."""
        part = self.like(take(self.X, rows, self.home))
        if self._on_host is not None:
            part._on_host = take(self._on_host, rows, CPU)
        return part

    def numbers(self) -> Any:
        """Return the table as float64 on ``home``, or as a sparse matrix."""
        if issparse(self.X):
            return self.X
        try:
            values = frame_to_numpy(self.X, "X") if is_frame(self.X) else self.X
            return self.home.asarray(values, np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"passthrough=True needs an X of numbers ({error}). Encode its columns, or set "
                "passthrough=False."
            ) from error


def _at_home(X: Any, home: Device) -> Any:
    """Return arrays on ``home``; frames on the host, lists and sparse matrices as they are."""
    if home.holds(X) and not is_gpu_frame(X):
        return home.asarray(X)
    X = on_host(X)
    if issparse(X):
        return X if X.format in ("csr", "csc") else X.tocsr()  # rows can be taken from these
    return X if home == CPU or not isinstance(X, np.ndarray) else home.asarray(X)


def readable(X: Any) -> Any:
    """Return a table with a shape or length: itself, or a NumPy array of what has neither."""
    if isinstance(X, memoryview):
        return np.asarray(X)
    known = hasattr(X, "shape") or hasattr(X, "__len__")
    return np.asarray(X) if hasattr(X, "__array__") and not known else X


def n_rows_of(X: Any) -> int:
    """Return the number of rows of any table. Raises a ValueError or a TypeError if it has none."""
    shape = getattr(X, "shape", None)
    require_container(X)
    if shape == ():
        raise ValueError("Expected 2D array, got scalar array instead. X must have rows.")
    n_rows = len(X) if shape is None else int(shape[0])
    if n_rows == 0:
        shape = "" if shape is None else f" (shape={tuple(shape)})"
        raise ValueError(f"Found array with 0 sample(s){shape} while a minimum of 1 is required.")
    return n_rows


def fit_one(
    name: str, estimator: Any, X: Any, y: Any, parameters: dict[str, Any], message: str = ""
) -> Any:
    """Fit one member, and return it."""
    routed = bool(get_config().get("enable_metadata_routing", False))
    if isinstance(estimator, Pipeline) and "sample_weight" in parameters and not routed:
        last = estimator.steps[-1][0]  # pipelines pass on parameters named after their steps
        parameters = {f"{last}__sample_weight": parameters["sample_weight"]}
    with _timed(message):
        try:
            estimator.fit(X, y, **parameters)
        except TypeError as error:
            if "unexpected keyword argument 'sample_weight'" not in str(error):
                raise
            raise TypeError(
                f"Underlying estimator {_weighted_part(estimator)} does not support sample "
                f"weights. Drop {name!r}, or fit without sample_weight."
            ) from error
    return whole(estimator)


def _weighted_part(estimator: Any) -> str:
    """Return the name of the class that should take the weights."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    return type(last).__name__


def takes_weights(estimator: Any) -> bool:
    """Return whether the ``fit`` of an estimator, or of a pipeline's last step, takes weights."""
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    return bool(has_fit_parameter(last, "sample_weight"))


@contextmanager
def _timed(message: str) -> Iterator[None]:
    """Print a message and the time that the block took; nothing for an empty message."""
    start = time.perf_counter()
    yield
    if message:
        who, what = message.split(" ", 1)
        what = f" {what}, total={time.perf_counter() - start:6.1f}s"
        print(f"{who} {what:.>60}")


def run_fits(fits: Sequence[Fit], rows: MemberRows, target: Any, n_jobs: int | None) -> list[Any]:
    """Return the results of functions, each of which fits an estimator to rows of a table. Those of
    this package are trained side by side in this process, on as many threads as they keep busy
    alone; the others are spread over processes through joblib, or fitted one after the other if
    arrays are on a GPU."""
    stays = [is_own(estimator) for estimator, _ in fits]
    own = [fit for fit, here in zip(fits, stays, strict=True) if here]
    others = [fit for fit, here in zip(fits, stays, strict=True) if not here]
    jobs = n_jobs if others and rows.home == CPU else 1
    away = Parallel(n_jobs=jobs)(delayed(fit)() for _, fit in others)
    n_threads = threads_of_models([estimator for estimator, _ in own])
    results = iter(away), iter(train_side_by_side(own, rows.X, target, n_threads))
    return [next(results[here]) for here in stays]


def require_fitted(name: str, estimator: Any) -> None:
    """Raise a NotFittedError if an estimator reports that it is not fitted."""
    if hasattr(estimator, "__sklearn_tags__"):
        check_is_fitted(
            estimator,
            msg=f"The member {name!r}, a %(name)s, is not fitted. Fit it, or do not "
            "pass 'prefit'. Clones are not fitted; wrap it in sklearn.frozen.FrozenEstimator.",
        )


@dataclass(frozen=True)
class Metadata:
    """Arguments that the ``fit`` of each member gets beside X and y: the names of the members that
    get the weights of the rows, and other arguments by member."""

    weighted: set[str]
    others: dict[str, dict[str, Any]]

    def part(self, rows: np.ndarray, n_rows: int) -> Metadata:
        """Return the same for some of the rows: values with an entry for each row are cut."""
        others = {
            name: {key: _part(value, rows, n_rows) for key, value in given.items()}
            for name, given in self.others.items()
        }
        return Metadata(self.weighted, others)


def _part(value: Any, rows: np.ndarray, n_rows: int) -> Any:
    if isinstance(value, (str, bytes, dict)) or not hasattr(value, "__len__"):
        return value
    if getattr(value, "shape", (n_rows,)) == () or len(value) != n_rows:
        return value
    if type(value).__name__ == "Series":
        value = value.to_numpy()
    return take(value, rows, CPU)


@dataclass(frozen=True)
class TrainingSet:
    """Rows with targets, class numbers (int64) or values (float64), and weights on the same
    device."""

    rows: MemberRows
    target: Any
    weight: Any
    metadata: Metadata

    def part(self, rows: np.ndarray) -> TrainingSet:
        """Return some of the rows; itself if these are all in order."""
        n, home = self.rows.n, self.rows.home
        if rows.size == n and bool((rows == np.arange(n)).all()):
            return self
        at_home = home.asarray(rows)
        weight = None if self.weight is None else self.weight[at_home]
        return TrainingSet(
            self.rows.part(rows), self.target[at_home], weight, self.metadata.part(rows, n)
        )

    def fit_one(self, name: str, estimator: Any, message: str = "") -> Any:
        """Return a clone of a named estimator, fitted on all rows."""
        given = dict(self.metadata.others[name])
        if name in self.metadata.weighted and self.weight is not None:
            given["sample_weight"] = self.rows.vector(estimator, self.weight)
        target = self.rows.vector(estimator, self.target)
        table = self.rows.table(estimator)
        return fit_one(name, clone(estimator), table, target, given, message)
