"""A round of several models: its gradients, trees and updates are those of all.

A model's error is its own, and the others go on; one of what they do together is that of all.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...kernels.boosting.many_models import (
    add_values_of_models,
    find_leaves_of_models,
    grow_models,
    newton_steps_of_models,
    scale_samples,
)
from ...kernels.runtime.dtypes import Totals
from ...losses.regression import ValuesOfLines
from ..round_data import OutputTree
from .joined_models import AlikeModels, JoinedModels
from .joint_draws import draw_rows
from .sampling import Sampling


@dataclass(eq=False)
class AskedRound:
    """A round that a model, one of ``RoundsTogether``, has asked for: its trees, or the error that
    ends the training."""

    model: Any
    index: int
    joined: JoinedRound | None = None
    sampling: Sampling | None = None
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
        for own in asked:
            with own.trying():  # it may call a schedule of the user's
                own.sampling = own.model.sampler.scheme(own.index)
        well, batches = _those_without_error(asked), []
        try:
            for joined, part in batches_of(well):
                with joined.device.active():
                    draw_rows(joined, part)
        except Exception as error:
            _fail(well, error)
        for own in _those_without_error(well):
            with own.trying():
                own.round = own.model.begin(own.index, adapts=False)
        well = _those_without_error(well)
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
                        _compute_gradients(joined, part)
                except Exception as error:
                    _fail(part, error)
            well = _those_without_error(asked)
            if len(well) == len(asked):
                return batches
            asked = well

    def _begin_growth(
        self, joined: JoinedModels, part: Sequence[AskedRound]
    ) -> tuple[Sequence[Any], list[Any]]:
        """Return the trees of a batch, which may be growing, and their values, if they are Newton
        steps."""
        g, h, rules = joined.g, joined.h, joined.models[0].training.settings.rules
        pairs = zip(part, joined.table_of, strict=True)
        models = [own.model.growing(own, table) for own, table in pairs]
        grown = grow_models(joined.stack, g, h, models, rules, joined.owner)
        if not any(own.model.takes_steps for own in part):
            return grown, [None] * len(part)
        limits = [own.model.limits(own.round) for own in part]
        found = newton_steps_of_models(grown, g, h, models, limits)
        are_taken = [own.model.takes_steps for own in part]
        return grown, [
            own if is_taken else None for own, is_taken in zip(found, are_taken, strict=True)
        ]

    def _add(
        self, joined: JoinedModels, part: Sequence[AskedRound], grown: Sequence[Any],
        values: list[Any],
    ) -> None:  # fmt: skip
        """Give the models of a batch their trees, and add these to the predictions."""
        for alike in joined.kinds:
            of_kind = part[alike.own]
            if alike.joint is not None and isinstance(of_kind[0].round.loss, ValuesOfLines):
                losses, totals = [own.round.loss for own in of_kind], [o.totals for o in of_kind]
                values[alike.own] = joined.leaf_values(alike, losses, grown, totals)
        for own, trees, steps in zip(part, grown, values, strict=True):
            with own.trying():
                own.model.take(own, trees, steps)
        if any(own.round.sample.rows.size for own in part):  # growth has seen no other leaves
            find_leaves_of_models(joined.stack, grown, joined.table_of)
        well = _those_without_error(part)
        if len(well) == len(part):
            found = [[tree.values for tree in own.trees] for own in part]
            factors = [own.trees[0].factor for own in part]
            add_values_of_models(joined.raw, grown, found, factors)
            joined.change(grown, found, factors)
        for own in well:
            with own.trying():
                if len(well) < len(part):  # the lines of others have no values
                    own.model.add_to_training_rows(own.trees)
                n_done = len(joined.sets) if len(well) == len(part) else 0
                own.model.add_to_others(own.trees, n_done)


def _compute_gradients(joined: JoinedModels, asked: Sequence[AskedRound]) -> None:
    """Compute the gradients of a round of the models of a batch."""
    for alike in joined.kinds:
        if alike.joint is not None:
            _compute_those_of_a_kind(joined, alike, asked[alike.own])
    scaled = [k for k, own in enumerate(asked) if own.round.sample.factor.size]
    scaled = [k for k in scaled if asked[k].model.gradients.given is not None]
    if scaled:
        rows, factors = zip(*(asked[k].round.sample for k in scaled), strict=True)
        lines = [joined.lines[k] for k in scaled]
        found = scale_samples(joined.g, joined.h, rows, factors, lines)
        for k, totals in zip(scaled, found, strict=True):
            asked[k].model.gradients.scaled = totals
    for own in asked:
        with own.trying():
            if own.model.gradients.given is None:
                training, round_, drawn = own.model.training, own.round, own.round.sample.rows
                rows, device, whole = training.rows, training.device, training.whole_weight
                round_.loss = round_.loss.in_round(
                    round_.index, rows.y, rows.raw, whole, drawn, device
                )
                round_.shared = round_.loss.shared(rows.y, rows.raw, device)
            own.totals = own.model.gradients.compute(own.round, own.model.outputs)


def _compute_those_of_a_kind(
    joined: JoinedModels, alike: AlikeModels, asked: Sequence[AskedRound]
) -> None:
    """Adapt the losses of models of a kind to the round, and compute their gradients."""
    losses, samples = [own.round.loss for own in asked], [own.round.sample.rows for own in asked]
    losses = type(losses[0]).in_round_of_models(losses, alike.joint, samples)
    found = joined.gradients(alike, losses)
    for own, loss, totals in zip(asked, losses, found, strict=True):
        own.round.loss, own.model.gradients.given = loss, totals


def _those_without_error(asked: Sequence[AskedRound]) -> list[AskedRound]:
    return [own for own in asked if own.error is None]


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
