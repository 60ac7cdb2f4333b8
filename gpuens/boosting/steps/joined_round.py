"""A round of several models: its gradients, trees and updates are those of all.

A model's error is its own, and the others go on; one of what they do together is that of all.
"""

from __future__ import annotations

import copy
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...kernels.boosting.many_models import (
    add_values_of_models,
    find_leaves_of_models,
    grow_models,
    newton_steps_of_models,
    nodes_of_models,
    scale_samples,
)
from ...kernels.runtime.dtypes import NodeValues, Totals
from ...losses.regression import ValuesOfLines
from ..round_data import OutputTree, Round
from .joined_models import JoinedModels
from .joint_draws import draw_rows
from .sampling import Sampling

Values = list[Sequence[NodeValues]]
"""Those of the trees of each model of a batch."""


@dataclass(eq=False)
class AskedRounds:
    """Rounds that a model, one of ``RoundsTogether``, has asked for: from ``first`` up to ``end``,
    exclusive.

    Attributes
    ----------
    signal : Condition
        Of the thread that waits for them.
    index : int
        The round that was begun last, and ``joined`` with others.
    error : Exception or None
        What ends the training in this round.
    grown : deque of list of OutputTree
        The trees of the rounds that are over, until they are settled.
    n_finished, n_settled : int
        Rounds that the training has taken.
    """

    model: Any
    first: int
    end: int
    signal: threading.Condition
    index: int = -1
    joined: JoinedRound | None = None
    error: Exception | None = None
    grown: deque[list[OutputTree]] = field(default_factory=deque)
    n_finished: int = 0
    n_settled: int = 0
    sampling: Sampling = field(init=False)
    round: Round = field(init=False)
    totals: Sequence[Totals] = field(init=False)

    @property
    def are_begun(self) -> bool:
        """Whether all have been begun, or no further one will be."""
        return self.error is not None or self.index + 1 == self.end

    def finish_next(self) -> None:
        """Complete the next round, and raise the error that ends the training in it."""
        if self.first + self.n_finished == self.index:
            assert self.joined is not None
            self.joined.finish()
            if self.error is not None:
                raise self.error
        self.n_finished += 1

    def settle_next(self) -> list[OutputTree]:
        """Return the trees of the next round."""
        if not self.grown:
            assert self.joined is not None
            self.joined.collect()
            if self.error is not None:
                raise self.error
        self.n_settled += 1
        return self.grown.popleft()


class JoinedRound:
    """A round of all models that have asked for one, the next of each.

    Parameters
    ----------
    batches_of : callable
        Returns the batches of models that rounds are grown in.
    asked : sequence of AskedRounds
    """

    def __init__(self, batches_of: Callable[..., Any], asked: Sequence[AskedRounds]) -> None:
        self._grown: list[tuple[Sequence[AskedRounds], Sequence[Any], Values]] = []
        self._is_over = False
        for own in asked:
            own.index, own.joined = max(own.first, own.index + 1), self
        self._steps = self._run(batches_of, asked)

    def start(self) -> None:
        """Begin: a GPU grows the first batch of trees afterwards."""
        next(self._steps)

    def finish(self) -> None:
        """Complete the round, unless another model has done so already.

        Raises
        ------
        RuntimeError
            It has been interrupted.
        """
        for _ in self._steps:
            pass
        if not self._is_over:
            raise RuntimeError("A round of models that grow together has been interrupted.")

    def collect(self) -> None:
        """Give the models their trees, of which no arrays are kept that are as long as the rows."""
        batches, self._grown = self._grown, []
        for part, grown, values in batches:
            try:
                with part[0].model.training.device.active():
                    for own, trees, found in zip(part, nodes_of_models(grown), values, strict=True):
                        here = [NodeValues(each.value, each.hessian) for each in found]
                        own.grown.append(_output_trees(own, trees, here))
            except Exception as error:
                _fail(part, error)

    def _run(self, batches_of: Callable[..., Any], asked: Sequence[AskedRounds]) -> Iterator[None]:
        batches: Any = []
        try:
            asked = _each(asked, _read_schedule)
            for joined, part in batches_of(asked):
                with joined.device.active():
                    draw_rows(joined, part)
                    _each(part, _begin)
            batches = _measured(batches_of, _those_without_error(asked))
        except Exception as error:
            _fail(asked, error)
        for joined, part in batches:
            try:
                with joined.device.active():
                    grown, values = _begin_growth(joined, part)
                yield
                with joined.device.active():
                    values = _add(joined, part, grown, values)
                    _check([own for own in part if not own.totals[0].is_here], by_totals=True)
            except Exception as error:
                _fail(part, error)
            else:
                self._grown.append((part, grown, values))
        self._is_over = True
        yield


def _read_schedule(own: AskedRounds) -> None:
    own.sampling = own.model.sampler.scheme(own.index)


def _begin(own: AskedRounds) -> None:
    own.round = own.model.begin(own.index, adapts=False)


def _measured(batches_of: Callable[..., Any], asked: Sequence[AskedRounds]) -> Any:
    """Compute the gradients of all models, and return the batches of those that have finite ones:
    the others' lines are taken out of the arrays."""
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


def _compute_gradients(joined: JoinedModels, asked: Sequence[AskedRounds]) -> None:
    """Compute the gradients of a round of the models of a batch, and check those that growth or
    values of leaves wait for; of others the numbers are on their way from a GPU."""
    for alike in joined.kinds:
        of_kind = asked[alike.own]
        if alike.joint is None:
            _each(of_kind, _compute_own_gradients)
            continue
        samples = [own.round.sample for own in of_kind]
        losses: Sequence[Any] = [own.round.loss for own in of_kind]
        rows = [sample.rows for sample in samples]
        losses = type(losses[0]).in_round_of_models(losses, alike.joint, rows)
        found = joined.gradients(alike, losses)
        for own, loss, totals in zip(of_kind, losses, found, strict=True):
            own.round.loss, own.totals = loss, totals
        numbers = [k for k, sample in enumerate(samples, alike.own.start) if sample.factor.size]
        if losses[0].exact_leaves or losses[0].checks_rows or numbers or found[0][0].is_here:
            _check(of_kind)
        if numbers:
            _scale(joined, [(asked[k], joined.lines[k]) for k in numbers])


def _compute_own_gradients(own: AskedRounds) -> None:
    """Compute the gradients of a model by itself."""
    training, round_ = own.model.training, own.round
    rows, device, drawn = training.rows, training.device, round_.sample.rows
    round_.loss = round_.loss.in_round(
        round_.index, rows.y, rows.raw, training.whole_weight, drawn, device
    )
    round_.shared = round_.loss.shared(rows.y, rows.raw, device)
    own.totals = own.model.gradients.compute(round_, own.model.outputs)


def _scale(joined: JoinedModels, sampled: Sequence[tuple[AskedRounds, slice]]) -> None:
    """Multiply the gradients of samples, with the lines of their trees, by the rows' factors."""
    rows, factors = zip(*(own.round.sample for own, _ in sampled), strict=True)
    found = scale_samples(joined.g, joined.h, rows, factors, [lines for _, lines in sampled])
    for (own, _), totals in zip(sampled, found, strict=True):
        own.totals = totals
    _check([own for own, _ in sampled], by_totals=True)


def _check(asked: Sequence[AskedRounds], by_totals: bool = False) -> None:
    """Give the models an error whose gradients are not finite."""
    totals = np.array([tuple(each) for own in asked for each in own.totals])
    if not (totals < math.inf).all() or (not by_totals and asked[0].round.loss.checks_rows):
        _each(asked, _check_totals if by_totals else _check_gradients)


def _check_totals(own: AskedRounds) -> None:
    for totals in own.totals:
        own.round.loss.check_totals(totals, own.round)


def _check_gradients(own: AskedRounds) -> None:
    training, found, loss = own.model.training, own.model.gradients, own.round.loss
    for k in own.model.outputs:
        target, raw = loss.targets(training.rows.y, k, training.device), training.rows.raw[k]
        loss.check_gradients(own.totals[k], found.g[k], found.h[k], target, raw, own.round)


def _begin_growth(joined: JoinedModels, part: Sequence[AskedRounds]) -> tuple[Any, Values]:
    """Return the trees of a batch, which may be growing, and their values, if they are Newton
    steps."""
    rules = joined.models[0].training.settings.rules
    pairs = zip(part, joined.table_of, strict=True)
    models = [own.model.growing(own, table) for own, table in pairs]
    grown = grow_models(joined.stack, joined.g, joined.h, models, rules, joined.owner)
    take_steps = [own.model.takes_steps for own in part]
    if not any(take_steps):
        return grown, [()] * len(part)
    limits = [own.model.limits(own.round) for own in part]
    found = newton_steps_of_models(grown, joined.g, joined.h, models, limits)
    return grown, [own if takes else () for own, takes in zip(found, take_steps, strict=True)]


def _add(
    joined: JoinedModels, part: Sequence[AskedRounds], grown: Sequence[Any], values: Values
) -> Values:
    """Give the trees of a batch their values, which are returned, and add them to predictions."""
    for alike in joined.kinds:
        of_kind = part[alike.own]
        if alike.joint is not None and isinstance(of_kind[0].round.loss, ValuesOfLines):
            losses, totals = [own.round.loss for own in of_kind], [own.totals for own in of_kind]
            values[alike.own] = joined.leaf_values(alike, losses, grown, totals)
    for k, own in enumerate(part):
        if own.model.bounds_values or not values[k]:
            values[k] = _tried(own, own.model.take, own, grown[k], values[k]) or ()
    if any(own.round.sample.rows.size for own in part):  # growth has seen no other leaves
        find_leaves_of_models(joined.stack, grown, joined.table_of)
    are_well = all(own.error is None for own in part)
    if are_well:
        rates = [own.round.rate for own in part]
        add_values_of_models(joined.raw, grown, values, rates)
        joined.change(grown, values, rates)
    n_done = len(joined.sets) if are_well else 0
    for own, trees, found in zip(part, grown, values, strict=True):
        if not are_well or len(own.model.others) > n_done:  # the lines of others have no values
            _tried(
                own, own.model.add_by_itself, _output_trees(own, trees, found), n_done, not are_well
            )
    return values


def _output_trees(own: AskedRounds, trees: Any, values: Sequence[NodeValues]) -> list[OutputTree]:
    return [OutputTree(trees, k, k, each, own.round.rate) for k, each in enumerate(values)]


def _each(
    asked: Sequence[AskedRounds], step: Callable[[AskedRounds], None]
) -> Sequence[AskedRounds]:
    """Do a step of each model by itself, and return those without an error."""
    for own in asked:
        _tried(own, step, own)
    return _those_without_error(asked)


def _tried(own: AskedRounds, step: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a step of one model; an error is kept for it, while the others go on."""
    if own.error is not None:
        return None
    try:
        return step(*args)
    except Exception:
        try:
            with own.model.training.device.active():  # whose errors say more
                raise
        except Exception as error:
            own.error = error
        return None


def _those_without_error(asked: Sequence[AskedRounds]) -> Sequence[AskedRounds]:
    return [own for own in asked if own.error is None]


def _fail(asked: Sequence[AskedRounds], error: Exception) -> None:
    """Give an error to all models that have none, to each a copy of its own: they raise it in
    different threads, and note different things."""
    for own in _those_without_error(asked):
        own.error = _copy_of(error)


def _copy_of(error: Exception) -> Exception:
    try:
        own = copy.copy(error)
    except Exception:  # its constructor takes other arguments than it keeps
        own = RuntimeError(f"{type(error).__name__}: {error}")
    own.__notes__ = list(getattr(error, "__notes__", ()))
    own.__cause__ = error
    return own
