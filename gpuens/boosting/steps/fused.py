"""Steps of a round done in one, where nothing else looks at what is between them."""

from __future__ import annotations

from collections.abc import Sequence

from ...kernels.boosting.newton_trees import add_newton_trees
from ...kernels.runtime.dtypes import Totals, Update
from ..round_data import OutputTree, Round, Training
from .plain import Batch, TreeGrowth, Updates, params_of, takes_newton_steps


class FusedGrowth(TreeGrowth):
    """Trees of Newton steps, grown and added to the raw predictions in one call, where all rows
    take part: on the CPU the calls take as long as the growth of a small table."""

    def start(self, round_: Round, outputs: range, totals: Sequence[Totals]) -> Batch:
        if round_.sample.rows.size:
            return super().start(round_, outputs, totals)
        training, rows = self.training, self.training.rows
        trees, values = add_newton_trees(
            rows.codes,
            training.n_bins,
            self.gradients.g[: len(outputs)],
            self.gradients.h[: len(outputs)],
            totals,
            rows.raw[outputs.start : outputs.stop],
            training.draws(round_, outputs),
            round_.rate,
            round_.loss.largest_step(round_.rate),
            params_of(training, round_.sample),
            training.settings.rules,
            training.rows.workers,
        )
        return Batch(outputs, totals, trees, values)


class JoinedUpdates(Updates):
    """Adds the values of a tree to the training rows in the pass that computes the next gradients:
    a GPU reads and writes the raw predictions once a round."""

    _update: Update | None = None

    def pending(self) -> Update | None:
        update, self._update = self._update, None
        return update

    def add_to_training_rows(self, trees: list[OutputTree]) -> None:
        (tree,) = trees
        self._update = Update(tree.leaf, tree.values, tree.factor)


def can_join(training: Training, are_rows_watched: bool) -> bool:
    """Return whether nothing but the gradients reads the raw predictions of the training rows."""
    loss, settings = training.loss, training.settings
    reads = settings.sampling.scheme in ("goss", "mvs") or settings.line_search or loss.reads_raw
    one_tree = loss.n_outputs == 1 and settings.ridge is None
    return training.device.runs_ahead and one_tree and not (reads or are_rows_watched)


def can_fuse(training: Training) -> bool:
    """Return whether a CPU adds the Newton steps of the trees as they are."""
    settings = training.settings
    revises = settings.line_search or settings.rules.monotone.any() or settings.ridge is not None
    takes_steps = takes_newton_steps(training.loss) and not revises
    return takes_steps and not training.device.runs_ahead
