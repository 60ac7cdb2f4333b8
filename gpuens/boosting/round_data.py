"""The data of a round of boosting: its rows, its settings, and its trees while they grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..kernels.growth.grow import GrownTrees
from ..kernels.growth.params import NO_RULES, FeatureRules, GrowthParams
from ..kernels.growth.sparse_codes import SparseCodes
from ..kernels.growth.streamed_codes import StreamedCodes
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.dtypes import Codes, NodeValues, Totals
from ..losses import Loss
from .dropout import Drop
from .parameters import Schedule
from .sampling import Sample, Sampling


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
    """

    codes: Codes | SparseCodes | StreamedCodes
    y: Array
    weight: Array
    raw: Array
    table: Array | None = None


@dataclass(frozen=True)
class RoundSettings:
    """The settings of the rounds of boosting.

    With ``line_search`` the values of a round's trees are multiplied by the factor that minimises
    the loss, and by the learning rate. ``min_decrease`` is the least gain of a split for each unit
    of weight of the tree's rows. ``ridge`` is that of linear functions in the leaves; None: they
    have constants. ``in_pieces`` is ``MemoryPlan.in_pieces``.
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


class StartedBatch(NamedTuple):
    """The trees of some outputs, which may still be growing; with ``values`` where the raw
    predictions of the training rows include them already."""

    outputs: range
    totals: Sequence[Totals]
    trees: GrownTrees
    values: Sequence[NodeValues] | None = None


@dataclass
class StartedRound:
    """A round whose trees are growing.

    ``rate`` is the factor on its trees, ``unchecked`` holds totals of gradients that are still on
    their way from a GPU; ``searching`` is whether a line search follows; ``where`` names the round
    in messages; ``drop`` holds the trees that the raw predictions of the training rows lack until
    it ends.
    """

    index: int
    loss: Loss
    rate: float
    shared: Array
    sample: Sample
    searching: bool
    drop: Drop | None = None
    unchecked: list[Totals] = field(default_factory=list)
    batch: StartedBatch = field(init=False)

    @property
    def where(self) -> str:
        return f"round {self.index + 1}"

    @property
    def waits(self) -> bool:
        """Whether the host reads the gradients or their totals before the trees grow."""
        scales = self.sample.factor.size > 0
        return scales or self.searching or self.loss.exact_leaves or self.loss.checks_rows
