"""The values of new trees in the raw predictions of the training rows and the evaluation sets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..kernels.runtime.arrays import Array
from ..kernels.runtime.dtypes import Update
from ..kernels.runtime.each import each
from ..kernels.statistics.add_leaf_values import add_leaf_values, add_values_of_trees
from ..losses import Loss
from .linear_leaves import add_values
from .round_data import OutputTree, Round, Training, TrainingRows


class Updates:
    """Adds trees to raw predictions."""

    def __init__(self, training: Training, others: Sequence[TrainingRows]) -> None:
        self._training, self._others = training, others

    def pending(self) -> Update | None:
        """Return values that the raw predictions of the training rows have not got yet, for those
        who are about to read them."""
        return None

    def add(self, round_: Round, trees: list[OutputTree]) -> None:
        """Add the trees of some outputs, one after the other, to all raw predictions."""
        rows = self._training.rows

        def see(tree: OutputTree) -> None:
            tree.find_leaves(rows.codes, tree.leaf)

        if round_.sample.rows.size:  # growth has only seen the leaves of the sample
            each(see, trees, rows.raw[0])
        self.add_to_training_rows(trees)
        self.add_to_others(trees)

    def add_to_training_rows(self, trees: list[OutputTree]) -> None:
        """Add trees whose leaves are known."""
        rows, begin = self._training.rows, 0
        while begin < len(trees):  # one batch of them after the other
            grown, output = trees[begin].trees, trees[begin].output
            own = trees[begin : begin + len(grown.leaf)]
            if own[0].linear is None:
                values, factors = [tree.values for tree in own], [tree.factor for tree in own]
                raw = rows.raw[output : output + len(own)]
                add_values_of_trees(raw, grown.leaf, values, factors)
            else:
                for tree in own:
                    self._add_tree(tree, tree.leaf, rows)
            begin += len(own)

    def add_to_others(self, trees: list[OutputTree]) -> None:
        """Add trees to the raw predictions of the evaluation sets."""

        def add(tree: OutputTree) -> None:
            for other in self._others:
                leaf = self._training.device.xp.full(other.raw.shape[1], -1, dtype=np.int32)
                tree.find_leaves(other.codes, leaf)
                self._add_tree(tree, leaf, other)

        if self._others:
            each(add, trees, self._training.rows.raw[0])

    def _add_tree(self, tree: OutputTree, leaf: Array, rows: TrainingRows) -> None:
        raw = rows.raw[tree.output]
        if tree.linear is None:
            add_leaf_values(raw, leaf, tree.values, tree.factor)
        else:
            assert rows.table is not None
            add_values(tree, rows.table, leaf, raw, self._training.device)


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


def takes_newton_steps(training: Training) -> bool:
    """Return whether the raw predictions get the Newton steps of the trees as they are."""
    settings = training.settings
    revises = settings.line_search or settings.rules.monotone.any() or settings.ridge is not None
    return type(training.loss).leaf_values is Loss.leaf_values and not revises
