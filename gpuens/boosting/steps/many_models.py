"""Boosting of several models of one table, whose trees grow together.

Each model is trained by its own ``fit`` in a thread of its own, of which one runs at a time, as
coroutines do. In every round all models meet: the last one to ask for its round is followed by the
gradients, the growth and the updates of all, in a few launches of a GPU; then each goes on with its
trees, metrics, callbacks and early stopping. A model that stops leaves, and the others meet without
it. So a model is bit for bit the one that its ``fit`` trains alone::

    model 0   read, bin, ask |                 | trees, metrics, ask |             | ...
    model 1                  | read, bin, ask  |                     | trees, stop |
    all                                     round 0                              round 1 of 0 ...
"""

from __future__ import annotations

import contextvars
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from ...devices.placement import places_beside
from ...estimators.training import one_of_many
from ...kernels.boosting.many_models import (
    ModelTrees,
    StepLimits,
    add_values_of_models,
    batch_of,
    grow_models,
    lines_of,
    newton_steps_of_models,
)
from ...kernels.runtime.arrays import Array
from ...kernels.runtime.collective import ONE_WORKER
from ...kernels.runtime.dtypes import Codes, Totals, Update
from ...kernels.statistics.gradients import gradients_of_outputs
from ...losses import Loss
from ..round_data import GrownRound, OutputTree, Round, Training
from ..rounds import BoostingRounds
from .plain import Batch, Gradients, LeafValues, RowSampler, Updates, batch_size, params_of

Result = TypeVar("Result")

meeting_here: contextvars.ContextVar[Meeting | None] = contextvars.ContextVar(
    "meeting_here", default=None
)
"""The meeting that the models of this thread take part in."""


def run_together(functions: Sequence[Callable[[], Result]], most: int) -> list[Result]:
    """Return the results of functions, each of which fits a model, and may do other things too;
    the models that can meet (see ``can_meet``) grow together, at most so many at a time.

    Raises
    ------
    KeyboardInterrupt
        Nothing is kept.
    """
    n_threads = min(most, len(functions))
    meeting = Meeting(n_threads)

    with ThreadPoolExecutor(n_threads) as pool:
        contexts = [contextvars.copy_context() for _ in functions]
        try:
            started = zip(contexts, map(meeting.taking_part_in, functions), strict=True)
            futures = [pool.submit(context.run, function) for context, function in started]
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            errors = [future.exception() for future in futures if future in done]
            # The others end with KeyboardInterrupt, as the meeting does.
            for error in sorted(filter(None, errors), key=_is_interrupt):
                raise error
            return [future.result() for future in futures]
        except BaseException:
            meeting.end()
            pool.shutdown(cancel_futures=True)
            raise


def can_meet(training: Training) -> bool:
    """Return whether a model's rounds can be joined with those of others: plain trees on a table in
    the memory of one device."""
    settings, rows = training.settings, training.rows
    n_outputs = training.loss.n_outputs
    is_plain = not (settings.one_tree or settings.in_pieces or settings.line_search)
    is_plain = is_plain and settings.ridge is None and not settings.params.is_symmetric
    most = batch_size(
        n_outputs, training.n_rows, training.n_bins.size, settings.params, training.device
    )
    return (
        is_plain
        and most == n_outputs
        and isinstance(rows.codes, Codes)
        and rows.workers is ONE_WORKER
    )


def joins_on_gpu(training: Training) -> bool:
    """Return whether trainings that a search starts together should be joined: on a GPU."""
    return training.device.runs_ahead and can_meet(training)


class Meeting:
    """The models that are trained together.

    All that threads do, they do while they have ``_turn``; those that wait for the others give it
    up. So the arrays that models share need no other lock.

    Parameters
    ----------
    n_expected : int
        Models that are certain to take part, for whom the others wait.
    """

    def __init__(self, n_expected: int = 0) -> None:
        self._place = places_beside(own_streams=False)
        self._turn, self._counting = threading.Condition(), threading.Lock()
        self._n_models = self._n_expected = n_expected
        self._n_asking, self._has_ended = 0, False
        self._asked: list[AskedRound] = []
        self._trainings: weakref.WeakSet[Training] = weakref.WeakSet()
        self._batches: dict[tuple[int, ...], JoinedModels] = {}

    def taking_part_in(self, function: Callable[[], Result]) -> Callable[[], Result]:
        """Return a function that does the same in another thread, as one of the models; others run
        when it waits for its round, and at the end."""

        def run() -> Result:
            with self._counting:
                self._n_models += self._n_expected == 0
                self._n_expected = max(self._n_expected - 1, 0)
            with self._turn, self._place():
                tokens = meeting_here.set(self), one_of_many.set(True)
                try:
                    return function()
                except BaseException:
                    self._has_ended = True
                    raise
                finally:
                    meeting_here.reset(tokens[0])
                    one_of_many.reset(tokens[1])
                    with self._counting:
                        self._n_models -= 1
                    self._turn.notify_all()

        return run

    def end(self) -> None:
        """Have all models end that wait for a round."""
        with self._turn:
            self._has_ended = True
            self._turn.notify_all()

    def share_table(self, training: Training) -> None:
        """Let a training have the bins of another one, if they are the same."""
        own, known = training.rows, {id(other.rows.codes): other for other in self._trainings}
        for other in known.values():
            is_same = _are_equal(other.n_bins, training.n_bins) and other.device == training.device
            rows = (cast(Codes, each.codes).rows for each in (own, other.rows))
            if is_same and _are_equal(*rows):
                own.codes = other.rows.codes
                break
        self._trainings.add(training)

    def wait_for(self, models: Sequence[RoundsTogether], index: int) -> list[AskedRound]:
        """Ask for a round of the models of this thread, and wait until it has begun; the thread of
        the first model begins it when all have asked.

        Raises
        ------
        KeyboardInterrupt
            The meeting has ended.
        """
        own = [AskedRound(model, index) for model in models]
        with self._turn:
            self._asked += own
            self._n_asking += 1
            self._turn.notify_all()
            while own[0].joined is None:
                if self._has_ended:
                    raise KeyboardInterrupt
                is_first = own[0] is min(self._asked, key=_number_of)
                if is_first and self._n_asking >= self._n_models:
                    self._begin()
                    self._turn.notify_all()
                else:
                    self._turn.wait()
        return own

    def _begin(self) -> None:
        asked, self._asked = sorted(self._asked, key=_number_of), []
        self._n_asking = 0
        joined = JoinedRound(self._batches_of, asked)
        for own in asked:
            own.joined = joined
        joined.start()

    def _batches_of(self, asked: Sequence[AskedRound]) -> list[tuple[JoinedModels, list[Any]]]:
        """Return rounds in batches of models that can grow together and fit into memory; their
        arrays are kept from round to round as long as no model leaves."""
        parts: list[list[AskedRound]] = []
        latest: dict[Any, list[AskedRound]] = {}
        for own in asked:
            part = latest.get(own.model.joins)
            if part is None or not own.model.fits(part):
                part = latest[own.model.joins] = []
                parts.append(part)
            part.append(own)
        keys = [tuple(own.model.number for own in part) for part in parts]
        before, self._batches = self._batches, {}
        if any(own.model.verbose for own in asked) and keys != list(before):
            sizes = " + ".join(str(len(part)) for part in parts)
            print(f"{len(asked)} models grow in {len(parts)} batches: {sizes}.", file=sys.stderr)
        for key, part in zip(keys, parts, strict=True):
            kept = before.pop(key, None)
            self._batches[key] = kept or JoinedModels([own.model for own in part])
        return list(zip(self._batches.values(), parts, strict=True))


@dataclass(eq=False)
class AskedRound:
    """A round that a model has asked for: its trees, or the error that ends the training."""

    model: RoundsTogether
    index: int
    joined: JoinedRound | None = None
    round: Any = None
    totals: Sequence[Totals] = ()
    trees: list[OutputTree] = field(default_factory=list)
    error: Exception | None = None

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Keep an error for the model, while the others go on."""
        try:
            yield
        except Exception as error:
            self.error = error


class RoundsTogether(BoostingRounds):
    """The rounds of a model that meets others in every one.

    Attributes
    ----------
    number : int
        Of the model among those that meet.
    verbose : bool
    joins : hashable
        What it has in common with the models that it can grow with.
    """

    gradients: GivenGradients
    verbose = False
    _numbers = itertools.count()

    def __init__(self, training: Training, *others: Any) -> None:
        super().__init__(training, *others)
        rules, params = training.settings.rules, training.settings.params
        of_features = [own.tobytes() for own in (rules.monotone, rules.categorical)]
        self.joins = (
            id(training.rows.codes), training.device.index, rules.groups, *of_features,
            rules.cat_smooth.tobytes(), batch_of(params),
        )  # fmt: skip
        self.number = next(self._numbers)

    def _choose_steps(self, are_rows_watched: bool) -> None:
        training = self.training
        self.gradients = GivenGradients(training, training.loss.n_outputs)
        self._sampler = RowSampler(training, self.gradients)
        self._leaf_values = LeafValues(training, self.gradients)
        self._updates = Updates(training, self.others)

    def fits(self, part: Sequence[AskedRound]) -> bool:
        """Return whether a batch has room for the trees of this model too."""
        training = self.training
        n_trees = training.loss.n_outputs + sum(len(own.model.outputs) for own in part)
        most = batch_size(
            n_trees, training.n_rows, training.n_bins.size, training.settings.params,
            training.device,
        )  # fmt: skip
        return most == n_trees

    @property
    def outputs(self) -> range:
        return range(self.training.loss.n_outputs)

    @property
    def takes_steps(self) -> bool:
        """Whether the values of leaves are Newton steps as they are."""
        is_plain = type(self.training.loss).leaf_values is Loss.leaf_values
        return is_plain and not self.training.settings.rules.monotone.any()

    def start(self, index: int) -> Any:
        meeting = meeting_here.get() or Meeting(1)
        return meeting.wait_for([self], index)[0]

    def finish(self, started: Any) -> GrownRound:
        if started.joined is not None:
            started.joined.finish()
        if started.error is not None:
            raise started.error
        self.end(started.round)
        return GrownRound(started.index, started.trees)

    def growing(self, asked: AskedRound) -> ModelTrees:
        """Return what the trees of a round grow on."""
        training, sample = self.training, asked.round.sample
        draws, params = training.draws(asked.round, self.outputs), params_of(training, sample)
        return ModelTrees(sample.rows, draws, asked.totals, params)

    def limits(self, round_: Round) -> StepLimits:
        params = self.training.settings.params
        largest = round_.loss.largest_step(round_.rate)
        return StepLimits(params.l2, params.min_sum_hessian, largest)

    def take(self, asked: AskedRound, trees: Any, values: Any) -> None:
        """Take the trees of a round, whose values may be known, and find the leaves of the rows
        that they have not been grown on."""
        batch = Batch(self.outputs, asked.totals, trees, values)
        asked.trees = self._leaf_values.trees(asked.round, batch)
        for tree in asked.trees if asked.round.sample.rows.size else ():
            tree.find_leaves(self.training.rows.codes, tree.leaf)

    def add_to_others(self, trees: list[OutputTree]) -> None:
        self._updates.add_to_others(trees)


class GivenGradients(Gradients):
    """Gradients of which those of the next round may have been computed with other models'."""

    given: Sequence[Totals] | None = None

    def _fill(self, round_: Round, outputs: range, update: Update | None) -> Sequence[Totals]:
        found, self.given = self.given, None
        return super()._fill(round_, outputs, update) if found is None else found


class JoinedModels:
    """Models whose raw predictions and gradients are lines of the same arrays, beside each other.

    Attributes
    ----------
    raw, g, h : float64 and float32, shape (n_trees, n_rows), on the device
    target : Array or None
        Of all trees, or of each, where one launch may compute the gradients of all.
    """

    def __init__(self, models: Sequence[RoundsTogether]) -> None:
        self.models, first = models, models[0].training
        shape, xp = (sum(len(own.outputs) for own in models), first.n_rows), first.device.xp
        self.raw = xp.empty(shape, dtype=xp.float64)
        self.g, self.h = (xp.empty(shape, dtype=xp.float32) for _ in range(2))
        for model, own in zip(models, lines_of([len(m.outputs) for m in models]), strict=True):
            self.raw[own] = model.training.rows.raw
            model.training.rows.raw = self.raw[own]
            model.gradients.g, model.gradients.h = self.g[own], self.h[own]
        self.target = self._common_target()

    def _common_target(self) -> Array | None:
        """Return the target, or None: losses of several outputs share more than a launch, and
        weights that differ would need one each."""
        trainings = [model.training for model in self.models]
        first = trainings[0]
        for own in trainings:
            loss = type(own.loss)
            is_plain = loss.gradients is Loss.gradients and loss.shared is Loss.shared
            if own.loss.n_outputs > 1 or not is_plain or loss is not type(first.loss):
                return None
            if not _are_equal(own.rows.weight, first.rows.weight):
                return None
        targets = [own.loss.targets(own.rows.y, 0, own.device) for own in trainings]
        if all(_are_equal(own, targets[0]) for own in targets):
            return targets[0]
        return first.device.xp.stack(targets)

    def compute_gradients(self, asked: Sequence[AskedRound]) -> None:
        """Compute the gradients of a round of all models."""
        losses = [own.round.loss for own in asked]
        if self.target is not None and len({loss.formula(0) for loss in losses}) == 1:
            nothing, weight = self.raw[0, :0], self.models[0].training.rows.weight
            totals = gradients_of_outputs(
                losses[0].formula(0), self.target, self.raw, nothing, weight, self.g, self.h
            )
            for own, found in zip(asked, totals, strict=True):
                own.model.gradients.given = [found]
        for own in asked:
            with own.trying():
                own.totals = own.model.gradients.compute(own.round, own.model.outputs)


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
            with own.trying():
                own.round = own.model.begin(own.index)
        well = [own for own in asked if own.error is None]
        for joined, part in self._measured(batches_of, well):
            try:
                steps = self._grow(joined, part)
                next(steps)
                yield
                next(steps, None)
            except Exception as error:
                for own in part:
                    own.error = error
        yield

    def _measured(self, batches_of: Callable[..., Any], asked: Sequence[AskedRound]) -> Any:
        """Compute the gradients of all models, and return the batches of those that have finite
        ones: the others' lines are taken out of the arrays."""
        while True:
            batches = batches_of(asked)
            for joined, part in batches:
                joined.compute_gradients(part)
            well = [own for own in asked if own.error is None]
            if len(well) == len(asked):
                return batches
            asked = well

    def _grow(self, joined: JoinedModels, part: Sequence[AskedRound]) -> Iterator[None]:
        """Grow the trees of a batch, and behind the ``yield`` add them to the predictions."""
        training = joined.models[0].training
        codes, g, h = cast(Codes, training.rows.codes), joined.g, joined.h
        models = [own.model.growing(own) for own in part]
        grown = grow_models(codes, training.n_bins, g, h, models, training.settings.rules)
        values: Sequence[Any] = [None] * len(part)
        if all(own.model.takes_steps for own in part):
            limits = [own.model.limits(own.round) for own in part]
            values = newton_steps_of_models(grown, g, h, models, limits)
        yield
        for own, trees, steps in zip(part, grown, values, strict=True):
            own.model.take(own, trees, steps)
        found = [[tree.values for tree in own.trees] for own in part]
        add_values_of_models(joined.raw, grown, found, [own.trees[0].factor for own in part])
        for own in part:
            own.model.add_to_others(own.trees)


def _is_interrupt(error: BaseException) -> bool:
    return isinstance(error, KeyboardInterrupt)


def _number_of(asked: AskedRound) -> int:
    return asked.model.number


def _are_equal(one: Array, other: Array) -> bool:
    """Return whether two arrays hold the same values of the same type."""
    if one is other:
        return True
    is_alike = one.shape == other.shape and one.dtype == other.dtype
    return is_alike and bool((one == other).all())
