"""Sizes from which a GPU pays for data in host memory, which ``device="auto"`` goes by.

The choice never changes a model, only how long it takes. It compares two estimates: the seconds
that the work takes on the threads of the CPU, and on a GPU with the copy of the table. Where the
CPU needs less than ``least_seconds``, no GPU is taken whatever the estimates are: the first use of
one in a process creates a context, and loads or compiles kernels, which takes about a second.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from .threads import available_threads

MOST_ROWS = 2**31 - 1


@dataclass(frozen=True)
class Speeds:
    """The constants of the estimates.

    Those of the CPU are measured on two threads (``benchmarks/results``: fit, predict, forests).
    **Those of the GPU are computed, not measured**: the rates of an A10 by NVIDIA's data sheet and
    architecture paper (GA102), and what work takes of them by the instructions and accesses of the
    compiled kernels. On a machine with a GPU
    ``python -m benchmarks crossover`` prints the seconds of fits and predictions on both devices,
    beside these estimates: set the constants by them.

    Parameters
    ----------
    least_seconds : float
        The CPU's seconds below which no GPU is taken.
    margin : float
        How many times as long the CPU must take: the estimates are rough, and a GPU that is
        hardly faster is left to others.
    scaling : float
        t threads are as fast as ``t ** scaling`` of one.
    cpu_boosting, cpu_cart, cpu_predict : float
        One thread's rows times features a second in boosting, rows times features times levels
        in trees of the kind of forests, and rows times trees in prediction.
    cpu_tree : float
        Seconds of a boosted tree without rows.
    clocks : float
        Clocks a second of all multiprocessors of a card together. Which one there is is not known
        before it is used: an A10 is the slowest of the newer ones.
    memory, bus : float
        Bytes a second between its chip and its memory, and between the card and pinned memory of
        the host: the published ones times the share that copies reach, 4.3 of 4.8 TB/s on an H200
        for the first, assumed for the second.
    host_copy : float
        Bytes a second of a thread of the host that copies to pinned memory or from there. Assumed.
    launch, other_call, prediction : float
        Seconds of the host for a launch (4 µs of Python, as ``benchmarks.gpu.host_time`` measures
        them with the driver stubbed, and 4 µs of the driver, assumed), for a fill or a copy by
        CuPy, and for the checks, copies and launches of a prediction. Assumed.
    boosting_bytes : float
        Bytes between the chip and its memory, for a row times a feature of a boosted tree.
    cart_clocks, predict_clocks : float
        Clocks of a multiprocessor, for a row times a feature times a level in trees of the kind of
        forests, and for a row times a tree in prediction.
    tree_launches, tree_calls, level_launches : int
        Launches and other calls for a boosted tree, and launches for a level of another tree.
    """

    least_seconds: float = 1.0
    margin: float = 1.5
    scaling: float = 0.8
    cpu_boosting: float = 270e6
    cpu_cart: float = 210e6
    cpu_predict: float = 260e6
    cpu_tree: float = 0.2e-3
    clocks: float = 72 * (1.695 * 1e9)
    memory: float = 0.9 * 600 * 1e9
    bus: float = 0.8 * 32 * 1e9
    host_copy: float = 12e9
    launch: float = 8e-6
    other_call: float = 12e-6
    prediction: float = 0.5e-3
    boosting_bytes: float = 24.0
    cart_clocks: float = 25.0
    predict_clocks: float = 1.5
    tree_launches: int = 45
    tree_calls: int = 7
    level_launches: int = 12


SPEEDS = Speeds()
VALUE_BYTES = 4
LABELS_SEEN = 1000


class Work(NamedTuple):
    """The size of a task, and the estimates of its duration.

    Parameters
    ----------
    rows, features, trees : int
    cpu : float
        Seconds on the CPU.
    gpu : float
        Seconds on a GPU once it has the table; infinite for what the host does in any case.
    """

    rows: int
    features: int
    trees: int
    cpu: float
    gpu: float

    @property
    def on_gpu(self) -> float:
        """Seconds on a GPU, with the copy of the table."""
        return self.gpu + self.rows * self.features * VALUE_BYTES / min(
            SPEEDS.host_copy, SPEEDS.bus
        )

    @property
    def pays_on_gpu(self) -> bool:
        """Return whether data in host memory should be worked on by a GPU."""
        return self.cpu >= SPEEDS.least_seconds and self.cpu >= SPEEDS.margin * self.on_gpu

    def times(self, n: Any) -> Work:
        """Return the work of doing the same ``n`` times with one copy of the table.

        Settings of members come here before they are checked: what is not a number counts once.
        """
        n = max(1, int(n)) if isinstance(n, Integral) else 1
        return self._replace(trees=self.trees * n, cpu=self.cpu * n, gpu=self.gpu * n)

    def among(self, n: int) -> Work:
        """Return the work of each of n workers that grow some of the trees on a copy of the
        table."""
        return self._replace(trees=-(-self.trees // n), cpu=self.cpu / n, gpu=self.gpu / n)

    def __str__(self) -> str:
        if self == NO_WORK:
            return "the data is in host memory"
        task = f"{self.rows:,} x {self.features:,} values and {self.trees:,} trees"
        if math.isinf(self.gpu):
            return f"{task}, which the host works on in any case"
        return (
            f"{task} take about {_seconds(self.cpu)} on the CPU and {_seconds(self.on_gpu)} on a "
            "GPU, by estimate"
        )


def boosting_work(size: tuple[int, int], n_trees: Any) -> Work:
    """Return the work of growing trees by histograms of gradients."""
    cells = size[0] * size[1]
    cpu = SPEEDS.cpu_tree + cells / (SPEEDS.cpu_boosting * _threads())
    host = SPEEDS.tree_launches * SPEEDS.launch + SPEEDS.tree_calls * SPEEDS.other_call
    gpu = host + cells * SPEEDS.boosting_bytes / SPEEDS.memory
    return Work(*size, 1, cpu, gpu).times(n_trees)


def cart_work(
    size: tuple[int, int],
    n_trees: Any,
    *,
    looked_at: int,
    max_depth: int | None,
    n_sorted: int = 0,
    on_host: bool = False,
) -> Work:
    """Return the work of growing trees level by level on samples of the rows.

    Parameters
    ----------
    size : tuple (n_rows, n_features)
    n_trees : int
    looked_at : int
        Features that a node looks at.
    n_sorted : int
        Features by which a GPU keeps the rows sorted.
    on_host : bool
        Whether the host grows the trees wherever the data is.
    """
    levels = max(1, math.ceil(math.log2(max(2, size[0]))))
    levels = levels if max_depth is None else max(1, min(levels, max_depth))
    cpu = size[0] * looked_at * levels / (SPEEDS.cpu_cart * _threads())
    values = size[0] * (looked_at + n_sorted) * levels
    host = SPEEDS.level_launches * SPEEDS.launch * levels
    gpu = math.inf if on_host else host + values * SPEEDS.cart_clocks / SPEEDS.clocks
    return Work(*size, 1, cpu, gpu).times(n_trees)


@functools.lru_cache(maxsize=64)  # services predict tables of the same size again and again
def prediction_work(size: tuple[int, int], n_trees: int) -> Work:
    """Return the work of predicting with trees."""
    visits = size[0] * n_trees
    cpu = visits / (SPEEDS.cpu_predict * _threads())
    gpu = SPEEDS.prediction + visits * SPEEDS.predict_clocks / SPEEDS.clocks
    return Work(*size, n_trees, cpu, gpu)


NO_WORK = Work(0, 0, 0, 0.0, math.inf)
"""Leaves data in host memory to the CPU."""


def sum_of(works: Iterable[Work]) -> Work:
    """Return the work of several tasks on one table."""
    found = list(works) or [NO_WORK]
    trees, cpu, gpu = (sum(part) for part in list(zip(*found, strict=True))[2:])
    return Work(*found[0][:2], trees, cpu, gpu)


def outputs_in(y: Any, of_classes: bool) -> int:
    """Return how many trees a round needs for a target that has not been read yet.

    Only the first labels of a classification are looked at, so it may need more.
    """
    shape = getattr(y, "shape", None)
    if not of_classes:
        return int(shape[1]) if shape is not None and len(shape) == 2 else 1
    first = y.head(LABELS_SEEN) if hasattr(y, "head") else y[:LABELS_SEEN] if _is_plain(y) else ()
    n_classes = len({str(label) for label in first})
    return n_classes if n_classes > 2 else 1


def _is_plain(y: Any) -> bool:
    return isinstance(y, (list, tuple)) or (isinstance(y, np.ndarray) and y.ndim == 1)


def size_of(X: Any) -> tuple[int, int]:
    """Return the rows and features of any table, (0, 0) if it does not say: readers check it."""
    shape: Any = getattr(X, "shape", None)
    is_plain = type(shape) is tuple and len(shape) == 2
    if is_plain and type(shape[0]) is type(shape[1]) is int:  # a row is predicted in some 30 µs
        return shape
    if shape is None:
        is_list = isinstance(X, (list, tuple)) and len(X) > 0
        first = X[0] if is_list else ()
        return (len(X), len(first) if hasattr(first, "__len__") else 1) if is_list else (0, 0)
    if not 1 <= len(shape) <= 2 or not all(isinstance(n, Integral) for n in shape):
        return 0, 0
    return int(shape[0]), int(shape[1]) if len(shape) == 2 else 1


def least_rows(work_of: Callable[[int], Work]) -> int | None:
    """Return the number of rows, to two digits, from which a GPU pays; None if it never does.

    Parameters
    ----------
    work_of : callable
        The work with a number of rows.
    """
    rows = 1
    while not work_of(rows).pays_on_gpu:
        rows += 10 ** max(0, int(math.log10(rows)) - 1)
        if rows > MOST_ROWS:
            return None
    return rows


def thresholds() -> dict[str, str]:
    """Return the sizes from which a GPU pays on this machine, in words, for usual work."""
    n_features, n_trees, n_looked_at = 28, 100, 5
    found = {
        "gradient boosting": least_rows(lambda n: boosting_work((n, n_features), n_trees)),
        "forests": least_rows(
            lambda n: cart_work((n, n_features), n_trees, looked_at=n_looked_at, max_depth=None)
        ),
        "prediction": least_rows(lambda n: prediction_work((n, n_features), n_trees)),
    }
    return {
        task: "never" if rows is None else f"from {rows:,} rows of {n_features} features"
        for task, rows in found.items()
    }


def _threads() -> float:
    return float(available_threads() ** SPEEDS.scaling)


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1g} s"
