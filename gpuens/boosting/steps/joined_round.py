"""A round of several models: its gradients, trees and updates are those of all.

A model's error is its own, and the others go on; one of what they do together is that of all.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...kernels.boosting.many_models import (
    StackedTables,
    add_values_of_models,
    find_leaves_of_models,
    gradients_of_models,
    grow_models,
    lines_of,
    newton_steps_of_models,
    stack_tables,
)
from ...kernels.runtime.arrays import Array
from ...kernels.runtime.dtypes import Totals
from ...numerics.sampling import draw_samples
from ..round_data import OutputTree


@dataclass(eq=False)
class AskedRound:
    """A round that a model, one of ``RoundsTogether``, has asked for: its trees, or the error that
    ends the training."""

    model: Any
    index: int
    joined: JoinedRound | None = None
    round: Any = None
    totals: Sequence[Totals] = ()
    trees: list[OutputTree] = field(default_factory=list)
    error: Exception | None = None

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Work on the model's device, and keep an error for it, while the others go on."""
        try:
            with self.model.training.device.active():
                yield
        except Exception as error:
            self.error = error


class JoinedModels:
    """Models whose raw predictions and gradients are lines of the same arrays, beside each other.

    Attributes
    ----------
    device : Device
    owner : hashable
        Of the workspaces that they grow in.
    stack : StackedTables
    table_of : list of int
        The number of each model's table in it.
    n_rows : list of int
        Of each model. Lines are as long as those of most rows, of which the others have a part.
    raw, g, h : float64 and float32, shape (n_trees, n_rows), on the device
    target, weight : Array
        Of all trees, or lines of each model or tree, where ``is_one_launch``.
    is_one_launch : bool
        Whether one launch may compute the gradients of all.
    """

    def __init__(
        self, models: Sequence[Any], owner: Hashable, before: Sequence[JoinedModels] = ()
    ) -> None:
        self.models, self.owner, self.device = models, owner, models[0].training.device
        self.n_rows = [own.training.n_rows for own in models]
        with self.device.active():
            self.stack = _stack_of(models, before)
            self._join(models)
        places = {id(own): k for k, own in enumerate(self.stack.tables)}
        self.table_of = [places[id(own.training.rows.codes)] for own in models]

    def _join(self, models: Sequence[Any]) -> None:
        shape, xp = (sum(len(own.outputs) for own in models), max(self.n_rows)), self.device.xp
        self.raw = xp.empty(shape, dtype=xp.float64)
        self.g, self.h = (xp.empty(shape, dtype=xp.float32) for _ in range(2))
        for model, own in zip(models, lines_of([len(m.outputs) for m in models]), strict=True):
            # Of several outputs all models have as many rows: their lines are one run of memory.
            of_rows = own, slice(model.training.n_rows)
            self.raw[of_rows] = model.training.rows.raw
            model.training.rows.raw = self.raw[of_rows]
            model.gradients.g, model.gradients.h = self.g[of_rows], self.h[of_rows]
        trainings = [model.training for model in models]
        kinds = {(type(own.loss), own.loss.n_outputs, own.rows.y.ndim) for own in trainings}
        are_plain = all(own.loss.has_plain_gradients for own in trainings)
        self.is_one_launch = are_plain and len(kinds) == 1
        if self.is_one_launch:
            self._join_rows(trainings)

    def _join_rows(self, trainings: Sequence[Any]) -> None:
        """Join the targets and weights of models."""
        xp, n_most = self.device.xp, max(self.n_rows)
        found = [own.loss.joint_targets(own.rows.y, range(own.loss.n_outputs)) for own in trainings]
        self._first_class = found[0][1]
        self.target = _joined([target for target, _ in found], n_most, xp)
        weights = [own.rows.weight for own in trainings]
        if any(own.size for own in weights):
            pairs = zip(weights, self.n_rows, strict=True)
            weights = [own if own.size else xp.ones(n) for own, n in pairs]
            self.weight = _joined(weights, n_most, xp)
        else:
            self.weight = weights[0]

    def compute_gradients(self, asked: Sequence[AskedRound]) -> None:
        """Compute the gradients of a round of all models."""
        losses = [own.round.loss for own in asked]
        plain = losses if self.is_one_launch else []  # others may have no formula
        formulas = {loss.formula(k) for loss in plain for k in range(loss.n_outputs)}
        if len(formulas) == 1:
            n_models, n_rows = len(asked), self.raw.shape[1]
            raw = self.raw.reshape(n_models, -1, n_rows)
            shared = losses[0].shared(self.target, raw, self.device)
            totals = gradients_of_models(
                formulas.pop(), self.target, self.raw, shared, self.weight, self.g, self.h,
                self._first_class, self.n_rows,
            )  # fmt: skip
            for own, lines in zip(asked, lines_of([raw.shape[1]] * n_models), strict=True):
                own.model.gradients.given = totals[lines]
        for own in asked:
            with own.trying():
                if own.model.gradients.given is None:
                    rows = own.model.training.rows
                    own.round.shared = own.round.loss.shared(rows.y, rows.raw, self.device)
                own.totals = own.model.gradients.compute(own.round, own.model.outputs)


def _stack_of(models: Sequence[Any], before: Sequence[JoinedModels]) -> StackedTables:
    """Return the tables of models, those of one of ``before`` that has them all, or a copy."""
    tables = {id(own.training.rows.codes): own.training for own in models}
    for joined in before:
        if tables.keys() <= set(map(id, joined.stack.tables)):
            return joined.stack
    trainings = tables.values()
    return stack_tables([own.rows.codes for own in trainings], [own.n_bins for own in trainings])


def _joined(arrays: Sequence[Array], n_most: int, xp: Any) -> Array:
    """Return the array of rows that models have in common, or the lines of one after the other, of
    which those of fewer rows than ``n_most`` have zeros behind them."""
    if arrays[0].ndim == 1 and all(are_equal(own, arrays[0]) for own in arrays):
        return arrays[0]
    of_models = [own if own.ndim == 2 else own[None] for own in arrays]
    if all(own.shape[1] == n_most for own in of_models):
        return xp.concat(of_models)
    lines = xp.zeros((sum(len(own) for own in of_models), n_most), dtype=arrays[0].dtype)
    counts = [len(own) for own in of_models]
    for own, of_model in zip(lines_of(counts), of_models, strict=True):
        lines[own, : of_model.shape[1]] = of_model
    return lines


class JoinedRound:
    """A round of all models that have asked for one.

    Parameters
    ----------
    batches_of : callable
        Returns the batches of models that rounds are grown in.
    asked : sequence of AskedRound
    """

    def __init__(self, batches_of: Callable[..., Any], asked: Sequence[AskedRound]) -> None:
        self._steps = self._run(batches_of, asked)

    def start(self) -> None:
        """Begin: a GPU grows the first batch of trees afterwards."""
        next(self._steps)

    def finish(self) -> None:
        """Complete the round, unless another model has done so already."""
        for _ in self._steps:
            pass

    def _run(self, batches_of: Callable[..., Any], asked: Sequence[AskedRound]) -> Iterator[None]:
        try:
            _draw_rows(asked)
        except Exception as error:
            _fail(asked, error)
        for own in asked if all(own.error is None for own in asked) else ():
            with own.trying():
                own.round = own.model.begin(own.index)
        well, batches = [own for own in asked if own.error is None], []
        try:
            batches = self._measured(batches_of, well)
        except Exception as error:
            _fail(well, error)
        for joined, part in batches:
            try:
                with joined.device.active():
                    grown, values = self._begin_growth(joined, part)
                yield
                with joined.device.active():
                    self._add(joined, part, grown, values)
            except Exception as error:
                _fail(part, error)
        yield

    def _measured(self, batches_of: Callable[..., Any], asked: Sequence[AskedRound]) -> Any:
        """Compute the gradients of all models, and return the batches of those that have finite
        ones: the others' lines are taken out of the arrays."""
        while True:
            batches = batches_of(asked)
            for joined, part in batches:
                try:
                    with joined.device.active():
                        joined.compute_gradients(part)
                except Exception as error:
                    _fail(part, error)
            well = [own for own in asked if own.error is None]
            if len(well) == len(asked):
                return batches
            asked = well

    def _begin_growth(
        self, joined: JoinedModels, part: Sequence[AskedRound]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the trees of a batch, which may be growing, and their values, if they are Newton
        steps."""
        g, h, rules = joined.g, joined.h, joined.models[0].training.settings.rules
        pairs = zip(part, joined.table_of, strict=True)
        models = [own.model.growing(own, table) for own, table in pairs]
        grown = grow_models(joined.stack, g, h, models, rules, joined.owner)
        if not all(own.model.takes_steps for own in part):
            return grown, [None] * len(part)
        limits = [own.model.limits(own.round) for own in part]
        return grown, newton_steps_of_models(grown, g, h, models, limits)

    def _add(
        self, joined: JoinedModels, part: Sequence[AskedRound], grown: Sequence[Any],
        values: Sequence[Any],
    ) -> None:  # fmt: skip
        """Give the models of a batch their trees, and add these to the predictions."""
        for own, trees, steps in zip(part, grown, values, strict=True):
            with own.trying():
                own.model.take(own, trees, steps)
        if any(own.round.sample.rows.size for own in part):  # growth has seen no other leaves
            find_leaves_of_models(joined.stack, grown, joined.table_of)
        well = [own for own in part if own.error is None]
        if len(well) == len(part):
            found = [[tree.values for tree in own.trees] for own in part]
            add_values_of_models(joined.raw, grown, found, [own.trees[0].factor for own in part])
        for own in well:
            with own.trying():
                if len(well) < len(part):  # the lines of others have no values
                    own.model.add_to_training_rows(own.trees)
                own.model.add_to_others(own.trees)


def _draw_rows(asked: Sequence[AskedRound]) -> None:
    """Draw the samples of the models whose rows have equal chances, of those of a device in one
    operation."""
    parts: dict[Hashable, list[AskedRound]] = {}
    for own in asked:
        training = own.model.training
        if own.model.sampler.equal_draw(own.index) is not None:
            parts.setdefault(training.device.index, []).append(own)
    for part in parts.values():
        training = part[0].model.training
        draws = [own.model.sampler.equal_draw(own.index) for own in part]
        with training.device.active():
            found = draw_samples(draws, training.rows.weight, training.device)
        for own, rows in zip(part, found, strict=True):
            own.model.sampler.given = rows


def _fail(asked: Sequence[AskedRound], error: Exception) -> None:
    """Give an error to all models that have none, to each a copy of its own: they raise it in
    different threads, and note different things."""
    for own in asked:
        if own.error is None:
            own.error = _copy_of(error)


def _copy_of(error: Exception) -> Exception:
    try:
        own = copy.copy(error)
    except Exception:  # its constructor takes other arguments than it keeps
        own = RuntimeError(f"{type(error).__name__}: {error}")
    own.__notes__ = list(getattr(error, "__notes__", ()))
    own.__cause__ = error
    return own


def are_equal(one: Array, other: Array) -> bool:
    """Return whether two arrays hold the same values of the same type."""
    if one is other:
        return True
    is_alike = one.shape == other.shape and one.dtype == other.dtype
    return is_alike and bool((one == other).all())
