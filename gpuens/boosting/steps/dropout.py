"""Dropout of trees (DART; Rashmi and Gilad-Bachrach 2015): rounds whose gradients leave some of the
trees before out, and the weights that trees get.

Raw predictions do not depend on the order in which trees come and go. The values of the trees are
whole multiples of a power of two, one for each output, which is chosen with its first tree: sums
and differences of such numbers are exact, so that taking a tree out and putting it back with
another weight leaves no rounding, and a training that is resumed has the raw predictions that one
without a break has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import fsum
from typing import Any, NamedTuple

import numpy as np

from ...devices.placement import Device
from ...estimators.training import TrainingResult
from ...forest.forest import Forest
from ...forest.plain import require_plain_trees
from ...inputs.binning import Binner
from ...kernels.growth.sparse_codes import SparseCodes
from ...kernels.growth.streamed_codes import StreamedCodes
from ...kernels.prediction.traverse import traverse_codes
from ...kernels.runtime.arrays import Array
from ...kernels.runtime.collective import largest_of_all
from ...kernels.runtime.dtypes import CODE_WORDS, MISSING, NO_SETS, Codes, NodeValues
from ...kernels.scalars.primitives import vectorise
from ...kernels.scalars.rng import draw, subkey
from ...kernels.statistics.add_leaf_values import add_leaf_values
from ..data.tables import FeatureTable
from ..forest_builder import ForestBuilder
from ..parameters import BoostingParameters, DropoutSettings, dropout_settings
from ..round_data import (
    BoostingResult,
    Drop,
    DropoutState,
    GrownRound,
    OutputTree,
    Round,
    TrainingRows,
)
from ..rounds import BoostingRounds
from ..start import StartsFromPredictions
from .plain import Batch

PURPOSE_DROPOUT = np.uint64(0x202)
"""Purpose of the draws, different from those in ``rng`` and of the groups of categories."""
BITS = 50
"""Bits of the largest number that a quantum is chosen for; float64 has three more."""
ROOM = 10
"""Bits by which raw predictions are expected to exceed the first values of nodes."""


class BinnedTree(NamedTuple):
    """A tree that walks on codes (see ``traverse_codes``), NumPy arrays; ``value`` is what its
    nodes add to raw prediction ``output``."""

    output: int
    feature: np.ndarray
    bin: np.ndarray
    missing_left: np.ndarray
    left: np.ndarray
    right: np.ndarray
    left_codes: np.ndarray
    value: np.ndarray

    @classmethod
    def of_grown(cls, tree: OutputTree) -> BinnedTree:
        """Return a tree of the last round, whose values are those of its nodes."""
        grown, nodes = tree.trees, tree.nodes
        sets = grown.left_codes[nodes] if grown.left_codes.size else grown.left_codes
        return cls(
            tree.output, grown.feature[nodes], grown.bin[nodes], grown.missing_left[nodes],
            grown.left[nodes], grown.right[nodes], sets, tree.values.value,
        )  # fmt: skip

    @classmethod
    def of_forest(cls, forest: Forest, t: int, binner: Binner) -> BinnedTree:
        """Return a tree that was grown on the bins of ``binner``."""
        tree = forest.slice(t, t + 1)
        split, by_category = tree.feature >= 0, tree.category_begin >= 0
        place = binner.places(tree.feature)
        bins = np.full(tree.feature.size, -1, np.int32)
        for node in np.flatnonzero(split & ~by_category):
            cuts = binner.thresholds[place[node]]
            bins[node] = np.searchsorted(cuts, tree.threshold[node])
        sets = np.zeros((bins.size, CODE_WORDS), np.uint32) if by_category.any() else NO_SETS
        for node in np.flatnonzero(by_category):
            begin, feature = tree.category_begin[node], int(tree.feature[node])
            words = tree.categories[begin : begin + (tree.n_categories[feature] + 31) // 32]
            sets[node] = binner.left_codes(feature, words)
            sets[node, MISSING // 32] |= np.uint32(tree.missing_left[node]) << (MISSING % 32)
        # Arrays of a forest are read-only: kernels would be compiled once more for their types.
        return cls(
            int(tree.output[0]), place.copy(), bins, tree.missing_left.copy(), tree.left.copy(),
            tree.right.copy(), sets, tree.value[:, 0].copy(),
        )  # fmt: skip

    def leaves(self, codes: Codes | SparseCodes | StreamedCodes, device: Device) -> Array:
        """Return the leaf of every row."""
        feature = self.feature
        if isinstance(codes, SparseCodes):
            codes, feature = codes.with_features(feature)
        leaf: Array = device.xp.full(codes.rows.shape[0], -1, dtype=device.xp.int32)
        traverse_codes(
            codes, np.array([0, feature.size]), feature, self.bin, self.missing_left, self.left,
            self.right, leaf[None], self.left_codes,
        )  # fmt: skip
        return leaf


class Change(NamedTuple):
    """A round whose trees got other values in round ``by``; the rate and the values before."""

    by: int
    round: int
    rate: float
    values: list[np.ndarray]


def multiples(values: Any, quantum: float, xp: Any = np) -> Any:
    """Round numbers to multiples of a power of two; 0 changes nothing."""
    return xp.round(values / quantum) * quantum if quantum > 0.0 else values


def quantum_for(largest_raw: float, largest_value: float) -> float:
    """Return the power of two whose multiples raw predictions and values are rounded to.

    Sums of multiples are exact while they are below ``2**53`` times it: 8 times ``largest_raw``
    and 8192 times ``largest_value`` at least. 0 where it would not be a normal number.
    """
    exponents = [np.frexp(largest_raw)[1]] if largest_raw > 0.0 else []
    exponents.append(np.frexp(largest_value)[1] + ROOM)
    quantum = float(np.ldexp(1.0, int(max(exponents)) - BITS))
    return quantum if quantum >= np.finfo(np.float64).tiny else 0.0


class Dropout:
    """Leaves trees out of rounds.

    Parameters
    ----------
    settings : DropoutSettings
    seed : int
        Key of the draws.
    binner : Binner
        Of the codes of all rows.
    forest : Forest
        The trees before.
    state : DropoutState or None
        None: these are never left out.
    depth : int
        Rounds that ``keep`` may have to take back, at least 1.
    """

    def __init__(
        self,
        settings: DropoutSettings,
        seed: int,
        binner: Binner,
        forest: Forest,
        state: DropoutState | None,
        depth: int,
    ) -> None:
        self._settings, self._seed, self._depth = settings, seed, depth
        self._n_outputs = n = forest.n_outputs
        if state is None:
            nothing = np.empty(0)
            no_changes = np.empty((0, 2), np.int64)
            state = DropoutState(
                forest.n_trees // n, np.zeros(n), nothing, no_changes, nothing, nothing
            )
        self.first = state.first
        self._quantum = state.quantum
        self._rate = state.rate.tolist()
        trees = range(self.first * n, forest.n_trees)
        self._trees = [BinnedTree.of_forest(forest, t, binner) for t in trees]
        self._changes: list[Change] = []
        begin = 0
        pairs = zip(state.undo.tolist(), state.undo_rate.tolist(), strict=True)
        for (by, changed), rate in pairs:
            values = []
            for tree in self._trees_of(changed):
                values.append(state.undo_value[begin : begin + tree.value.size])
                begin += tree.value.size
            self._changes.append(Change(by, changed, rate, values))

    def state(self) -> DropoutState:
        """Return the state, for training that goes on."""
        values = [value for change in self._changes for value in change.values]
        return DropoutState(
            self.first,
            self._quantum,
            np.array(self._rate, np.float64),
            np.array([(c.by, c.round) for c in self._changes], np.int64).reshape(-1, 2),
            np.array([change.rate for change in self._changes], np.float64),
            np.concatenate([np.empty(0), *values]),
        )

    def round_start(self, raw: Array, device: Device) -> None:
        """Round the raw predictions of the trees that are never left out, in place."""
        for k in range(self._n_outputs):
            raw[k] = multiples(raw[k], float(self._quantum[k]), device.xp)

    def begin(self, index: int, rate: float, rows: TrainingRows, device: Device) -> Drop:
        """Draw the rounds that a round leaves out, and take their trees out of the raw predictions
        of the training rows."""
        rounds = self._draw(index)
        k, scale, share = len(rounds), 1.0, 1.0
        if rounds and self._settings.normalisation == "tree":
            scale, share = k / (k + rate), 1.0 / (k + rate)
        elif rounds:
            scale = share = 1.0 / (1.0 + rate)
        drop = Drop(rounds, scale, share, rate * share, self._quantum.copy())
        for dropped in rounds:
            if drop.restored is None:
                drop.restored = device.xp.zeros_like(rows.raw)
            for t, tree in self._numbered(dropped):
                new = multiples(scale * tree.value, float(self._quantum[tree.output]))
                drop.rescaled[t] = new
                leaf = tree.leaves(rows.codes, device)
                _add(rows.raw[tree.output], leaf, -tree.value)
                _add(drop.restored[tree.output], leaf, new)
        return drop

    def _draw(self, index: int) -> list[int]:
        """Return the rounds that a round leaves out. One number decides whether there are any, and
        one about every round; they depend on the seed and on both rounds only."""
        settings, n = self._settings, len(self._rate)
        key = int(vectorise(subkey)(np.uint64(self._seed), PURPOSE_DROPOUT, np.uint64(index)))
        numbers = np.arange(self.first + n + 1, dtype=np.uint64)
        bits = vectorise(draw)(np.full(numbers.size, key, np.uint64), numbers) * 2.0**-32
        if n == 0 or bits[0] < settings.skip:
            return []
        chance = np.full(n, settings.rate)
        if not settings.uniform:
            chance = np.minimum(1.0, chance * (np.array(self._rate) * (n / fsum(self._rate))))
        own = bits[self.first + 1 :]
        dropped = np.flatnonzero(own < chance)
        if settings.most is not None and dropped.size > settings.most:
            by_draw = np.argsort(own[dropped] / chance[dropped], kind="stable")
            dropped = np.sort(dropped[by_draw[: settings.most]])
        return [self.first + int(i) for i in dropped]

    def settled(
        self,
        drop: Drop,
        tree: OutputTree,
        everywhere: Sequence[TrainingRows],
        device: Device,
    ) -> OutputTree:
        """Return a tree of the round with the values that it adds.

        The first tree of an output chooses its quantum, and the raw predictions before it are
        rounded: those of the training rows, which come first, and those of evaluation sets.
        """
        k, values = tree.output, tree.values
        largest = float(abs(values.value).max())
        if drop.quantum[k] == 0.0 and largest > 0.0:
            rows = everywhere[0]
            before = largest_of_all(float(abs(rows.raw[k]).max()), rows.workers)
            drop.quantum[k] = quantum_for(before, largest)
            for rows in everywhere:
                rows.raw[k] = multiples(rows.raw[k], float(drop.quantum[k]), device.xp)
        value = multiples(tree.factor * drop.share * values.value, float(drop.quantum[k]))
        return tree._replace(values=NodeValues(value, values.hessian), factor=1.0)

    def end(
        self, drop: Drop, rows: TrainingRows, others: Sequence[TrainingRows], device: Device
    ) -> None:
        """Put the trees that were left out back into all raw predictions, with their new values."""
        if drop.restored is not None:
            rows.raw += drop.restored
            drop.restored = None
        for t, value in drop.rescaled.items():
            tree = self._trees[t - self.first * self._n_outputs]
            for other in others:
                leaf = tree.leaves(other.codes, device)
                _add(other.raw[tree.output], leaf, value - tree.value)

    def settle(
        self, index: int, drop: Drop, grown: Sequence[OutputTree], forest: ForestBuilder
    ) -> None:
        """Make a round part of the model, before its trees are."""
        for dropped in drop.rounds:
            values = [tree.value for tree in self._trees_of(dropped)]
            rate = self._rate[dropped - self.first]
            self._changes.append(Change(index, dropped, rate, values))
        for dropped in drop.rounds:
            new = [drop.rescaled[t] for t, _ in self._numbered(dropped)]
            self._set(dropped, self._rate[dropped - self.first] * drop.scale, new, forest)
        self._quantum = drop.quantum
        self._trees += [BinnedTree.of_grown(tree) for tree in grown]
        self._rate.append(drop.rate)
        self._changes = [change for change in self._changes if change.by > index - self._depth]

    def keep(self, n_rounds: int, forest: ForestBuilder) -> None:
        """Go back to the model of the first rounds, with the values that its trees had then."""
        while self._changes and self._changes[-1].by >= n_rounds:
            change = self._changes[-1]
            self._set(change.round, change.rate, change.values, forest)
            self._changes.pop()
        n = max(n_rounds - self.first, 0)
        del self._trees[n * self._n_outputs :], self._rate[n:]
        self.first = min(self.first, n_rounds)

    def _set(
        self, changed: int, rate: float, values: list[np.ndarray], forest: ForestBuilder
    ) -> None:
        self._rate[changed - self.first] = rate
        for (t, tree), value in zip(self._numbered(changed), values, strict=True):
            self._trees[t - self.first * self._n_outputs] = tree._replace(value=value)
            forest.revise(t, value)

    def _trees_of(self, index: int) -> list[BinnedTree]:
        begin = (index - self.first) * self._n_outputs
        return self._trees[begin : begin + self._n_outputs]

    def _numbered(self, index: int) -> list[tuple[int, BinnedTree]]:
        """Return the trees of a round with their numbers in the forest."""
        return list(enumerate(self._trees_of(index), index * self._n_outputs))


class DropoutRounds(BoostingRounds):
    """Rounds of boosting that leave trees out while they compute gradients."""

    fuses = False

    def __init__(self, dropout: Dropout, *of_rounds: Any) -> None:
        super().__init__(*of_rounds)
        self._dropout = dropout

    def leave_out(self, index: int, rate: float) -> Drop:
        return self._dropout.begin(index, rate, self.training.rows, self.training.device)

    def add(
        self, round_: Round, trees: list[OutputTree], batch: Batch | None = None
    ) -> list[OutputTree]:
        drop, training = round_.drop, self.training
        assert drop is not None
        rows = [training.rows, *self.others]
        settled = [self._dropout.settled(drop, tree, rows, training.device) for tree in trees]
        return super().add(round_, settled, batch)

    def end(self, round_: Round) -> None:
        assert round_.drop is not None
        training = self.training
        self._dropout.end(round_.drop, training.rows, self.others, training.device)
        super().end(round_)

    def settle(self, finished: GrownRound) -> None:
        assert finished.drop is not None
        self._dropout.settle(finished.index, finished.drop, finished.trees, self.builder)
        super().settle(finished)

    def keep(self, n_rounds: int) -> None:
        self._dropout.keep(n_rounds, self.builder)
        super().keep(n_rounds)

    def result(self, result: TrainingResult) -> BoostingResult:
        return replace(super().result(result), dropout=self._dropout.state())


class DropsTrees(BoostingParameters, StartsFromPredictions):
    """A sum of trees whose training may leave some of them out (``dropout``)."""

    _seed: int
    _dropout: DropoutState
    do_early_stopping_: bool

    def _dropout_after(
        self, before: BoostingResult | None, forest: ForestBuilder, binner: Binner
    ) -> Dropout:
        """Return the dropout of the rounds that follow; the builder holds the trees before."""
        settings = dropout_settings(self)
        watches = self.do_early_stopping_ and self.keep_best
        depth = int(self.n_iter_no_change) if watches else 1
        state = before.dropout if before else None
        trees = forest.freeze()
        require_plain_trees(trees, "dropout", "")
        dropout = Dropout(settings, self._seed, binner, trees, state, depth)
        return dropout

    def _features_to_drop(self, before: BoostingResult | None) -> np.ndarray:
        """Return the columns that trees look at which may be left out, int32."""
        if before is None or before.dropout is None:
            return np.empty(0, np.int32)
        used = before.forest.feature[before.forest.feature >= 0]
        return np.unique(used)

    def _raw_before_dropout(
        self, trees: Forest, dropout: Dropout, table: FeatureTable, device: Device
    ) -> Array:
        """Return the raw predictions of rows before the next round: the sum of the trees that are
        never left out, rounded, and the exact sum of the others."""
        n = dropout.first * trees.n_outputs
        raw = self._raw_before(trees.slice(0, n), table, device)
        dropout.round_start(raw, device)
        if n < trees.n_trees:
            others = trees.slice(n, trees.n_trees)
            raw += table.raw_predict(replace(others, base=np.zeros_like(trees.base)), device)
        return raw


def _add(raw: Array, leaf: Array, value: np.ndarray) -> None:
    add_leaf_values(raw, leaf, NodeValues(value, value), 1.0)
