"""The rows of several models with losses of one class, as lines of the same arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..devices.placement import Device
from ..kernels.boosting.many_models import lines_of
from ..kernels.runtime.arrays import Array
from ..kernels.scalars.lazy_jit import lazy_property
from ..numerics.weighted import Later, sums_later, whole_weights


class JointRows:
    """The training rows of models, or evaluation sets, one of each.

    Parameters
    ----------
    rows : sequence of objects with y, weight and raw, as ``TrainingRows``
        Of each model.
    raw : float64, shape (n_trees, n), on the device
        The raw predictions of all; the lines of a model are beside each other, and its rows begin
        them.
    losses : sequence of Loss
        Of the trainings: of one class, and of as many outputs.
    device : Device

    Attributes
    ----------
    n_rows : list of int
        Of each model.
    target : Array
        Of all trees, or lines of each model or tree.
    first_class : int
        See ``kernels.boosting.many_models.gradients_of_models``.
    """

    def __init__(
        self, rows: Sequence[Any], raw: Array, losses: Sequence[Any], device: Device
    ) -> None:
        self.rows, self.raw, self.device = rows, raw, device
        self.n_rows = [int(own.raw.shape[1]) for own in rows]
        self._losses, self.n_outputs = losses, losses[0].n_outputs
        pairs = zip(losses, rows, strict=True)
        found = [loss.joint_targets(own.y, range(self.n_outputs)) for loss, own in pairs]
        self.first_class = found[0][1]
        self.target = self.joined([target for target, _ in found])
        self._means: list[Later] | None = None

    def joined(self, arrays: Sequence[Array], always: bool = False) -> Array:
        """Return the array of rows that models have in common, or the lines of one after the other,
        of which those of fewer rows than others have zeros behind them; ``always`` the lines."""
        xp, n_most = self.device.xp, int(self.raw.shape[1])
        is_whole = not always and arrays[0].ndim == 1 and arrays[0].shape[0] == n_most
        if is_whole and all(are_equal(own, arrays[0]) for own in arrays):
            return arrays[0]
        of_models = [own if own.ndim == 2 else own[None] for own in arrays]
        if all(own.shape[1] == n_most for own in of_models):
            return xp.concat(of_models)
        counts = [len(own) for own in of_models]
        lines = xp.zeros((sum(counts), n_most), dtype=arrays[0].dtype)
        for own, of_model in zip(lines_of(counts), of_models, strict=True):
            lines[own, : of_model.shape[1]] = of_model
        return lines

    def joined_weights(self, weights: Sequence[Array]) -> Array:
        """Return the weights of all models, or lines of each; empty if all are."""
        if not any(own.size for own in weights):
            return weights[0]
        dtype = weights[0].dtype
        pairs = zip(weights, self.n_rows, strict=True)
        return self.joined(
            [own if own.size else self.device.xp.ones(n, dtype=dtype) for own, n in pairs]
        )

    @lazy_property
    def weight(self) -> Array:
        return self.joined_weights([own.weight for own in self.rows])

    @lazy_property
    def whole_weight(self) -> Array:
        """See ``numerics.weighted.whole_weights``, of each model."""
        return self.joined_weights([whole_weights(own.weight, self.device) for own in self.rows])

    @property
    def raw_of_models(self) -> Array:
        return self.raw.reshape(len(self.rows), -1, self.raw.shape[1])

    def of_trees(self, array: Array) -> Array:
        """Return an array that all rows have in common as it is, else a line of each tree."""
        is_repeated = array.ndim == 2 and len(array) < len(self.raw)
        return self.device.xp.repeat(array, self.n_outputs, axis=0) if is_repeated else array

    @lazy_property
    def target_of_trees(self) -> Array:
        target = self.of_trees(self.target)
        return target if target.ndim == 2 else target[None]

    @lazy_property
    def weights_of_trees(self) -> tuple[Array, Array]:
        """The weights and the whole weights."""
        return self.of_trees(self.weight), self.of_trees(self.whole_weight)

    def sample_lines(self, samples: Sequence[Array]) -> Array:
        """Return 0 for the rows of each tree's sample, all where that is empty, and -1 for others:
        int32, shape (n_trees, n)."""
        xp, (n_trees, n_most) = self.device.xp, self.raw.shape
        of_trees = [own for own in samples for _ in range(self.n_outputs)]
        sizes = [n for n in self.n_rows for _ in range(self.n_outputs)]
        if not any(own.size for own in of_trees) and set(sizes) == {n_most}:
            return xp.zeros((n_trees, n_most), dtype=xp.int32)
        found = xp.full(n_trees * n_most, -1, dtype=xp.int32)
        every = xp.arange(n_most, dtype=xp.int32)
        parts = [own if own.size else every[:n] for own, n in zip(of_trees, sizes, strict=True)]
        begin = np.repeat(np.arange(n_trees) * n_most, [int(own.shape[0]) for own in parts])
        found[self.device.asarray(begin) + xp.concat(parts)] = 0
        return found.reshape(n_trees, n_most)

    @lazy_property
    def _sums_of_weights(self) -> list[float]:
        lines = self.weight if self.weight.ndim == 2 else self.weight[None]
        n_rows = self.n_rows if len(lines) > 1 else self.n_rows[:1]
        found = [later() for later in sums_later(lines, n_rows, self.device)]
        return found if len(found) > 1 else found * len(self.rows)

    def change(self) -> None:
        """Note that the raw predictions are others than before: whoever asks for the mean of the
        loss on the rows of a model gets it with those of all."""
        self._means = None
        for k, own in enumerate(self.rows):
            own.mean_of_loss = self.mean_of(k) if self._losses[0].has_plain_mean else None

    def mean_of(self, model: int) -> Callable[[], Later]:
        """Return a function that starts to compute the mean of the loss on a model's rows, with
        those of all others: the first one that is asked does."""

        def mean() -> Later:
            if self._means is None:
                with self.device.active():
                    self._means = self._all_means()
            return self._means[model]

        return mean

    def _all_means(self) -> list[Later]:
        losses = self._losses
        values = type(losses[0]).values_of_models(losses, self)
        if self.weight.size:
            values = values * self.weight
        totals = sums_later(values, self.n_rows, self.device)
        return [self._mean(k, total, losses[k].n_terms) for k, total in enumerate(totals)]

    def _mean(self, k: int, total: Later, n_terms: int) -> Later:
        """Divide a sum as ``numerics.weighted.mean_later`` does."""
        if self.rows[k].weight.size == 0:
            return lambda: total() / (self.n_rows[k] * n_terms)
        return lambda: total() / self._sums_of_weights[k] / n_terms


def kind_of(loss: Any, y: Array) -> tuple[Any, ...]:
    """Return what the losses of models must have in common whose rows are joint."""
    return type(loss), type(loss.formula(0)), loss.n_outputs, y.ndim


def are_equal(one: Array, other: Array) -> bool:
    """Return whether two arrays hold the same values of the same type."""
    if one is other:
        return True
    is_alike = one.shape == other.shape and one.dtype == other.dtype
    return is_alike and bool((one == other).all())
