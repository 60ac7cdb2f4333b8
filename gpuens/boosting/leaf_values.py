"""The values of the leaves of a round's trees."""

from __future__ import annotations

from collections.abc import Sequence

from ..kernels.leaves.inner_nodes import bound_values
from ..kernels.runtime.dtypes import NodeValues
from ..kernels.runtime.each import each
from ..losses.leaves import LeafBatch
from .gradients import Gradients
from .growth import Batch
from .round_data import OutputTree, Round, Training


class LeafValues:
    """The values that the loss gives, bounded by monotone constraints."""

    def __init__(self, training: Training, gradients: Gradients) -> None:
        self.training, self.gradients = training, gradients
        self._is_monotone = bool(training.settings.rules.monotone.any())

    def trees(self, round_: Round, batch: Batch) -> list[OutputTree]:
        """Return the trees of a batch with the values of their nodes."""
        values = batch.values
        if values is None:
            values = round_.loss.leaf_values(self.leaf_batch(round_, batch), batch.outputs)
            if self._is_monotone:
                values = self._bounded(batch, values)
        trees, rate = batch.trees, round_.rate
        return [OutputTree(trees, i, k, values[i], rate) for i, k in enumerate(batch.outputs)]

    def leaf_batch(self, round_: Round, batch: Batch) -> LeafBatch:
        """Return the trees with the rows that they were grown on."""
        training, outputs = self.training, batch.outputs
        rows = training.rows
        return LeafBatch(
            trees=batch.trees,
            g=self.gradients.g[: len(outputs)],
            h=self.gradients.h[: len(outputs)],
            totals=batch.totals,
            read_target=lambda i: training.loss.targets(rows.y, outputs[i], training.device),
            raw=rows.raw[outputs.start : outputs.stop],
            weight=rows.weight,
            whole_weight=training.whole_weight,
            params=training.settings.params,
            learning_rate=round_.rate,
            device=training.device,
        )

    def _bounded(self, batch: Batch, values: Sequence[NodeValues]) -> Sequence[NodeValues]:
        """Clip the values of nodes so that monotone constraints hold."""
        trees, monotone = batch.trees, self.training.settings.rules.monotone

        def bounded(i: int) -> NodeValues:
            nodes = slice(trees.offset[i], trees.offset[i + 1])
            own = values[i].value.copy()
            bound_values(trees.feature[nodes], trees.left[nodes], trees.right[nodes], monotone, own)
            return NodeValues(own, values[i].hessian)

        return each(bounded, range(len(batch.outputs)), self.gradients.g[0])
