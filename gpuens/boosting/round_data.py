"""The records of boosting: rows, settings, the trees of a round, and a trained model.

All modules of the room share them, and none of these is imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..devices.placement import Device
from ..estimators.training import Evaluations
from ..forest.forest import Forest
from ..inputs.binning import Binner
from ..kernels.boosting.newton_trees import Draws
from ..kernels.growth.grow import GrownTrees
from ..kernels.growth.params import NO_RULES, FeatureRules, GrowthParams
from ..kernels.growth.sparse_codes import SparseCodes
from ..kernels.growth.streamed_codes import StreamedCodes
from ..kernels.leaves.linear_sums import LinearFits
from ..kernels.prediction.traverse import traverse_codes
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, Workers
from ..kernels.runtime.dtypes import Codes, NodeValues, Totals
from ..kernels.scalars.lazy_jit import lazy_property
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.rng import PURPOSE_ROUNDING, PURPOSE_TREE, draw
from ..losses import Loss
from ..numerics.weighted import Later, whole_weights
from .data.tables import FeatureTable
from .parameters import Schedule
from .steps.sampling import Sample, Sampling


class RawRows(NamedTuple):
    """A set of rows before binning.

    Parameters
    ----------
    data : str
        Its name in ``evals_result_``.
    table : FeatureTable
    target : float64, shape (n_rows,) or (n_rows, n_targets)
        Where the user's is until all sets are read: CuPy would compile each function that reads it.
        Then on the device, (n_rows,) or (n_targets, n_rows).
    weight : float64, shape (n_rows,) or (0,)
        Empty where every weight is 1.
    """

    data: str
    table: FeatureTable
    target: Array
    weight: Array


@dataclass
class TrainingRows:
    """The rows of a training or evaluation set, on the device.

    Parameters
    ----------
    codes : Codes, SparseCodes or StreamedCodes
    y : float64 or ``Loss.target_type``, shape (n_rows,) or (n_targets, n_rows)
    weight : float64, shape (n_rows,) or (0,)
        Empty where every weight is 1.
    raw : float64, shape (n_outputs, n_rows)
        Raw predictions of the trees so far; updated.
    table : float32 or float64, shape (n_rows, n_features), or None
        The features, for linear functions in leaves.
    workers : Workers
        Those that share the rows. Every one has evaluation sets as a whole.
    mean_of_loss : callable or None
        Starts to compute the mean of the loss after the last round, with those of other models.
    """

    codes: Codes | SparseCodes | StreamedCodes
    y: Array
    weight: Array
    raw: Array
    table: Array | None = None
    workers: Workers = ONE_WORKER
    mean_of_loss: Callable[[], Later] | None = field(init=False, default=None)


@dataclass(frozen=True)
class RoundSettings:
    """The settings of the rounds of boosting.

    With ``line_search`` the values of a round's trees are multiplied by the factor that minimises
    the loss, and by the learning rate. ``min_decrease`` is the least gain of a split for each unit
    of weight of the tree's rows. ``ridge`` is that of linear functions in the leaves; None: they
    have constants. ``in_pieces`` is ``MemoryPlan.in_pieces``. With ``one_tree`` all outputs of a
    round share a tree.
    """

    params: GrowthParams
    learning_rate: Schedule
    sampling: Sampling
    seed: int
    line_search: bool = False
    rules: FeatureRules = NO_RULES
    min_decrease: float = 0.0
    ridge: float | None = None
    in_pieces: bool = False
    one_tree: bool = False


@dataclass(frozen=True, eq=False)
class Training:
    """Data and settings that all steps of all rounds share.

    Parameters
    ----------
    rows : TrainingRows
        Their raw predictions are updated.
    binner : Binner
        Of their codes.
    loss : Loss
    settings : RoundSettings
    device : Device
    """

    rows: TrainingRows
    binner: Binner
    loss: Loss
    settings: RoundSettings
    device: Device

    @lazy_property
    def n_bins(self) -> np.ndarray:
        return self.binner.n_bins

    @property
    def n_rows(self) -> int:
        """This worker's rows."""
        return int(self.rows.raw.shape[1])

    @lazy_property
    def keys(self) -> tuple[int, int]:
        """Keys of the draws for rounding and for the features of trees; drawn with integers of
        Python, which is fastest."""
        seed = int(self.settings.seed)
        return _draw(seed, int(PURPOSE_ROUNDING)), _draw(seed, int(PURPOSE_TREE))

    @lazy_property
    def whole_weight(self) -> Array:
        """The weights as integers, for quantiles."""
        return whole_weights(self.rows.weight, self.device, self.rows.workers)

    def draws(self, round_: Round, trees: range) -> Draws:
        """Return the keys of some trees of a round."""
        rounding, tree = self.keys
        n_trees = 1 if self.settings.one_tree else self.loss.n_outputs
        return Draws(rounding, tree, round_.index * n_trees + trees.start)

    def tree_keys(self, round_: Round, trees: range) -> np.ndarray:
        """Return the key of each of these trees, for the sampling of features, uint64."""
        draws = self.draws(round_, trees)
        keys = [_draw(draws.tree, draws.first + i) for i in range(len(trees))]
        return np.array(keys, np.uint64)


class OutputTree(NamedTuple):
    """Tree ``i`` of a batch, for column ``output``. The model gets the ``values`` of its nodes
    times ``factor``; ``linear`` are the functions in its leaves, where they have some."""

    trees: GrownTrees
    i: int
    output: int
    values: NodeValues
    factor: float
    linear: LinearFits | None = None

    @property
    def leaf(self) -> Array:
        """The leaf of every training row (see ``GrownTrees``)."""
        return self.trees.leaf[self.i]

    @property
    def nodes(self) -> slice:
        """The tree's entries in the arrays of the batch."""
        return slice(self.trees.offset[self.i], self.trees.offset[self.i + 1])

    def find_leaves(self, codes: Codes | SparseCodes | StreamedCodes, leaf: Array) -> None:
        """Fill in the leaves of rows that are in none, in place."""
        trees, nodes = self.trees, self.nodes
        feature = trees.feature[nodes]
        if isinstance(codes, SparseCodes):
            codes, feature = codes.with_features(feature)
        traverse_codes(
            codes,
            np.array([0, feature.size]),
            feature,
            trees.bin[nodes],
            trees.missing_left[nodes],
            trees.left[nodes],
            trees.right[nodes],
            leaf[None],
            trees.left_codes[nodes],
        )


@dataclass
class Drop:
    """The trees that a round leaves out, and the weights that follow.

    Parameters
    ----------
    rounds : list of int
        Ascending.
    scale : float
        Factor on the values of their trees.
    share : float
        Factor on the values of the round's own trees, beside the learning rate.
    rate : float
        The learning rate of the round, times ``share``.
    quantum : float64, shape (n_outputs,)
        After the round.
    rescaled : dict
        The new values of trees that were left out, by number.
    restored : float64, shape (n_outputs, n_rows), or None
        The sum of these values, for the training rows.
    """

    rounds: list[int]
    scale: float
    share: float
    rate: float
    quantum: np.ndarray
    rescaled: dict[int, np.ndarray] = field(default_factory=dict)
    restored: Array | None = None


@dataclass
class Round:
    """A round on its way.

    ``rate`` is the factor on its trees; ``drop`` holds the trees that the raw predictions of the
    training rows lack until it ends; ``shared`` is ``Loss.shared``, once it is computed;
    ``unchecked`` holds totals of gradients that are still on their way from a GPU.
    """

    index: int
    loss: Loss
    rate: float
    sample: Sample
    drop: Drop | None = None
    shared: Array = field(init=False)
    unchecked: list[Totals] = field(default_factory=list)

    def __str__(self) -> str:
        return f"round {self.index + 1}"


@dataclass(frozen=True)
class GrownRound:
    """The trees of a round, which the raw predictions include. On a GPU they may still be on their
    way to the host."""

    index: int
    trees: list[OutputTree]
    drop: Drop | None = None


@dataclass(frozen=True, eq=False)
class DropoutState:
    """State of dropout beside the trees of a model, for training that goes on.

    Parameters
    ----------
    first : int
        Rounds at the beginning that are never left out.
    quantum : float64, shape (n_outputs,)
        The values of an output's trees are its multiples; 0 before there are any.
    rate : float64, shape (n_rounds - first,)
        The learning rate of each round, times the factors of later rounds.
    undo : int64, shape (n_undo, 2)
        The latest changes, in their order: the round that made a change, and the round whose trees
        it was about.
    undo_rate : float64, shape (n_undo,)
        The rates before each change.
    undo_value : float64
        The values of the nodes of these trees before each change, one after the other.
    """

    first: int
    quantum: np.ndarray
    rate: np.ndarray
    undo: np.ndarray
    undo_rate: np.ndarray
    undo_value: np.ndarray


@dataclass
class BoostingResult:
    """A trained model: its forest, rounds and metrics, and why the training ended.

    ``n_iter`` counts the rounds in ``forest``, those of a warm start included; ``error`` is that
    of a callback; ``dropout`` is None without dropout.
    """

    forest: Forest
    n_iter: int
    evals: Evaluations
    stopped: str
    error: Exception | None = None
    dropout: DropoutState | None = None


_draw = vectorise(draw)
