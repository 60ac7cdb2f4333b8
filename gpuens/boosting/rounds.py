"""What a round of boosting is while its trees grow, and when they have grown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..inputs.binning import Binner
from ..kernels.growth.grow import GrownTrees
from ..kernels.runtime.dtypes import Totals
from ..losses import Loss
from .builder import ForestBuilder
from .line_search import OutputTree
from .sampling import Sample


class StartedBatch(NamedTuple):
    """Trees that may still be growing, for some of the outputs."""

    outputs: range
    totals: Sequence[Totals]
    trees: GrownTrees


@dataclass
class StartedRound:
    """A round whose trees are growing.

    ``unchecked`` are the totals of gradients that were not known yet; ``searching`` says whether
    a line search will follow; ``where`` names the round in messages.
    """

    index: int
    loss: Loss
    shared: Any
    sample: Sample
    searching: bool
    unchecked: list[Totals] = field(default_factory=list)
    batch: StartedBatch = field(init=False)

    @property
    def where(self) -> str:
        return f"round {self.index + 1}"

    @property
    def waits(self) -> bool:
        """Whether the host waits for the gradients anyway, or must look at every one of them."""
        weighs = self.sample.factor.size > 0
        return weighs or self.searching or self.loss.exact_leaves or self.loss.checks_rows


@dataclass
class GrownRound:
    """The trees of a round, of which the raw predictions know.

    The values of tree k count ``factors[k]`` times. On a GPU they may be on their way to the host.
    """

    trees: list[OutputTree]
    factors: list[float]

    def append_to(self, forest: ForestBuilder, binner: Binner) -> None:
        """Add the trees to a forest."""
        for tree, factor in zip(self.trees, self.factors, strict=True):
            value, cover = factor * tree.values.value, tree.values.hessian
            forest.append(tree.trees, tree.i, value, cover, tree.output, binner)
