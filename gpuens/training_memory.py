"""How much memory training takes, by what takes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from . import tree_growth
from .boosting_parameters import growth_params
from .devices import Device
from .growth import batch_size
from .kernels import frontier as fr
from .kernels.cart import SCRATCH_BYTES
from .kernels.cpu.team import get_threads
from .kernels.dtypes import CODE_WORDS, N_SLOTS, ROW_ALIGNMENT
from .kernels.growth_params import GrowthParams
from .memory import format_bytes

FOREST_NODE_BYTES = 70
"""Of a node in a finished forest, without its values."""
LIKELY_SHARE = 0.2
"""Of the leaves that a tree has at most by its rows and depth, the share that it has as a rule."""
SCRATCH_NODE_BYTES = 72
"""Of a growing node, beside its record: what a round works on."""
EXACT_CELL_BYTES = 32
"""Of a value that is a bin of its own: two copies of its code, three of the value."""
WORKING_SHARE = 1 / 8
"""Of all else: what is taken for a moment (peaks on the CPU were 0.8 to 1.5 times the sum)."""
HISTOGRAM_BYTES = 8 * N_SLOTS
"""Of one feature: two planes of int32."""
ADVICE = {
    "table": "float32 values instead of float64, fewer rows or fewer features",
    "histograms": "fewer features, or a smaller max_leaf_nodes or max_depth",
    "tables of nodes": "a smaller max_leaf_nodes or max_depth, or a larger min_samples_leaf",
    "trees": "a smaller n_estimators, max_leaf_nodes or max_depth",
    "evaluation sets": "fewer rows in eval_set",
}
"""What lessens a part, where that is not fewer rows or features."""


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes that training takes at its peak.

    Parameters
    ----------
    task : str
        What is trained on what, for messages.
    device : Device
        Where it would be trained.
    parts : dict of str to int
        Bytes by what takes them.
    free, capacity : int or None
        Bytes that are free on the device, and that it has; None where nobody says.
    """

    task: str
    device: Device
    parts: dict[str, int]
    free: int | None
    capacity: int | None

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        """Whether so much is free, as far as is known."""
        return self.free is None or self.total <= self.free

    def __str__(self) -> str:
        """One line: the sum, its parts, the largest first, and what is free."""
        ordered = sorted(self.parts.items(), key=lambda part: -part[1])
        parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in ordered if size)
        card = "" if self.capacity is None else format_bytes(self.capacity)
        if self.free is None:
            free = f"; it has {card}" if card else ""
        else:
            free = f"; {format_bytes(self.free)} are free" + (f" of {card}" if card else "")
        return (
            f"{self.task} on {self.device} takes about {format_bytes(self.total)} ({parts}){free}"
        )

    def __repr__(self) -> str:
        return f"<MemoryPlan: {self}>"

    def require(self) -> None:
        """Refuse what does not fit.

        Raises
        ------
        MemoryError
            With the numbers, and what to change.
        """
        if self.fits:
            return
        raise MemoryError(f"{self}. {self._too_large()}{self._advice()}")

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Add the plan to the error if the memory ends all the same inside the block.

        Raises
        ------
        MemoryError
        """
        try:
            yield
        except MemoryError as error:
            raise MemoryError(
                f"The memory ended during the training ({error}). The plan was: {self}. "
                f"{self._too_large() or 'Close other programs that hold memory there. '}"
                f"{self._advice()}"
            ) from error

    def _too_large(self) -> str:
        if self.capacity is None or self.total <= self.capacity:
            return ""
        return (
            f"That is more than {self.device} has at all, and training from the disk or in parts "
            "is not supported yet. "
        )

    def _advice(self) -> str:
        largest = max(self.parts, key=lambda name: self.parts[name])
        change = ADVICE.get(largest, "fewer rows or fewer features")
        return f"Most of it is {largest}: pass or set {change}{self._elsewhere()}."

    def _elsewhere(self) -> str:
        return "" if self.capacity is None else ", or use device='cpu'"


def boosting_plan(
    estimator: Any,
    shape: tuple[int, int],
    itemsize: int,
    device: Device,
    *,
    n_outputs: int = 1,
    weighted: bool = False,
    evaluated: Sequence[int] = (),
    is_there: bool = False,
    splits: bool = False,
) -> MemoryPlan:
    """What gradient boosting takes beyond the data that is on the device already.

    Parameters
    ----------
    estimator : estimator
        With the parameters of gradient boosting.
    shape : tuple of int
        Rows and features.
    itemsize : int
        Bytes of a value of the table, 4 or 8.
    device : Device
    n_outputs : int
        Trees of a round.
    weighted : bool
        Whether there are weights of the rows.
    evaluated : sequence of int
        Numbers of rows of the evaluation sets.
    is_there : bool
        Whether the table is on the device already, as numbers that need no conversion.
    splits : bool
        Whether rows are held out for early stopping, which copies the table.

    Returns
    -------
    MemoryPlan
    """
    n, n_features = shape
    params = growth_params(estimator)
    batch = batch_size(n_outputs, n, n_features, device)
    n_numbered = n_outputs + batch * device.runs_ahead  # trees of a round, and of the next
    in_sample = max(1, int(n * float(estimator.subsample)))
    n_nodes = batch * fr.node_capacity(params, in_sample)
    bins = _code_bytes(n_features)
    own = 8 * n_outputs
    free, capacity = device.memory()
    parts = {
        "table": 0 if is_there else n * n_features * itemsize,
        "target and weights": 8 * n * (1 + weighted),
        "table without the rows held out": n * n_features * itemsize if splits else 0,
        "bins": n * bins,
        "raw predictions": n * own,
        "gradients": 8 * batch * n,
        "records": (2 if batch == 1 else 3) * 8 * batch * in_sample,
        "leaves of the rows": 4 * n_numbered * n,
        "histograms": _histograms(n_features, n_nodes, batch, params),
        "candidates of splits": _candidates(n_features, n_nodes, batch, estimator),
        "tables of nodes": n_nodes * (fr.NODE.itemsize + SCRATCH_NODE_BYTES + _sets(estimator)),
        "trees": _on_host(capacity, _forest_bytes(estimator, n_outputs, params, in_sample)),
        "evaluation sets": sum(rows * (bins + own + 4) for rows in evaluated),
    }
    task = f"Gradient boosting with {n:,} x {n_features:,} values"
    return _plan(task, device, parts, free, capacity)


def _plan(
    task: str, device: Device, parts: dict[str, int], free: int | None, capacity: int | None
) -> MemoryPlan:
    parts["working arrays"] = int(WORKING_SHARE * sum(parts.values()))
    return MemoryPlan(task, device, parts, free, capacity)


def _code_bytes(n_features: int) -> int:
    """Bytes of a row's bins: beside each other, and once more by columns."""
    return -(-n_features // ROW_ALIGNMENT) * ROW_ALIGNMENT + n_features


def _histograms(n_features: int, n_nodes: int, n_trees: int, params: GrowthParams) -> int:
    """Growth keeps histograms in a pool of limited size and builds others again, so that any
    number of nodes fits."""
    if params.max_leaves == 1:
        return 0
    return fr.n_slots(n_features, n_nodes, n_trees) * n_features * HISTOGRAM_BYTES


def _candidates(n_features: int, n_nodes: int, n_trees: int, estimator: Any) -> int:
    """The best split of each feature, of the nodes that a round looks at: the new ones, two for
    each histogram, and those to look at again."""
    n_looked = 3 * min(fr.n_slots(n_features, n_nodes, n_trees), n_nodes)
    return n_looked * n_features * (20 + _sets(estimator))


def _sets(estimator: Any) -> int:
    """Bytes of the set of categories of a growing node."""
    return 0 if estimator.categorical_features is None else 4 * CODE_WORDS


def _on_host(capacity: int | None, size: int) -> int:
    """Finished trees, which are joined in a copy, are in the memory of the host: 0 where the plan
    is that of a GPU."""
    return size if capacity is None else 0


def _forest_bytes(estimator: Any, n_outputs: int, params: GrowthParams, in_sample: int) -> int:
    leaves = max(1, in_sample // params.min_samples_leaf)
    if params.max_depth < 31:
        leaves = min(leaves, 2**params.max_depth)
    leaves = max(1, min(int(LIKELY_SHARE * leaves), params.max_leaves))
    n_trees = int(estimator.n_estimators) * n_outputs
    return 2 * n_trees * (2 * leaves - 1) * (FOREST_NODE_BYTES + 8)


def cart_plan(
    estimator: Any,
    shape: tuple[int, int],
    itemsize: int,
    device: Device,
    *,
    width: int = 1,
    n_outputs: int = 1,
    is_there: bool = False,
    held: bool = False,
) -> MemoryPlan:
    """What a decision tree or a forest of them takes.

    Parameters
    ----------
    estimator : estimator
        With the parameters of a tree or a forest.
    width : int
        Values of a leaf: outputs, or classes of all outputs.
    n_outputs : int
    held : bool
        Whether target and bins are on the device already; the trees are then left to the check of
        forests, which follows their growth.

    Returns
    -------
    MemoryPlan
        See ``boosting_plan`` for the other parameters.
    """
    n, n_features = shape
    n_trees = int(getattr(estimator, "n_estimators", 1))
    drawn = 0.632 if getattr(estimator, "bootstrap", False) else 1.0
    leaves = _leaves_of_tree(estimator, max(1, int(n * drawn)))
    n_nodes = 2 * leaves - 1
    statistics = 16 * (1 + width)
    of_tree = 3 * 8 * int(n * drawn) + n_nodes * (tree_growth.NODE_BYTES + statistics)
    batch = max(1, min(n_trees, max(get_threads(), tree_growth.BATCH_BYTES // of_tree)))
    one_bin_a_value = estimator.max_bins is None
    free, capacity = device.memory()
    parts = {
        "table": 0 if is_there else n * n_features * itemsize,
        "target and weights": n * (8 * n_outputs + 8 * n_outputs + 8),
        "bins": n * (EXACT_CELL_BYTES * n_features if one_bin_a_value else _code_bytes(n_features)),
        "records and growing nodes": batch * of_tree,
        "histograms": 0
        if capacity is None
        else _cart_histograms(estimator, n_features, width, batch * leaves),
        "trees": _on_host(capacity, 2 * n_trees * n_nodes * (FOREST_NODE_BYTES + 8 * width)),
    }
    if held:
        parts = {name: parts[name] for name in ("records and growing nodes", "histograms")}
    what = "A tree" if n_trees == 1 else f"A forest of {n_trees:,} trees"
    task = f"{what} on {n:,} x {n_features:,} values"
    return _plan(task, device, parts, free, capacity)


def _cart_histograms(estimator: Any, n_features: int, width: int, n_nodes: int) -> int:
    """On a GPU, of the features of a generation of nodes, and as much to search in; as many at a
    time as there is room for. Trees with a bin for every value are grown by the host."""
    if estimator.max_bins is None:
        return 0
    of_feature = 2 * 8 * (estimator.max_bins + 1) * (1 + width)
    return max(of_feature, min(SCRATCH_BYTES, n_nodes * n_features * of_feature))


def _leaves_of_tree(estimator: Any, n_rows: int) -> int:
    """That a tree has as a rule, at most."""
    leaves = n_rows
    if isinstance(estimator.min_samples_leaf, Integral):
        leaves //= int(estimator.min_samples_leaf)
    if estimator.max_depth is not None and estimator.max_depth < 31:
        leaves = min(leaves, 2 ** int(estimator.max_depth))
    leaves = max(1, int(LIKELY_SHARE * leaves))
    return leaves if estimator.max_leaf_nodes is None else min(leaves, estimator.max_leaf_nodes)
