"""Boosting of several models of one table, or of folds of one, whose trees grow together.

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
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from sklearn.utils.validation import _num_samples

from ...estimators.training import group_here
from ...kernels.boosting.many_models import (
    ModelTrees,
    StepLimits,
    batch_of,
)
from ...kernels.runtime.collective import ONE_WORKER
from ...kernels.runtime.dtypes import Codes, NodeValues
from ...losses.joint_rows import are_equal
from ...members.side_by_side import TrainingGroup, run_in_group
from ..round_data import GrownRound, OutputTree, Round, Training, TrainingRows
from ..rounds import BoostingRounds
from .joined_models import JoinedModels, has_room, in_kinds, takes_parts_of_lines
from .joined_round import AskedRounds, JoinedRound
from .plain import (
    BATCH_RECORDS_ON_GPU,
    Batch,
    Gradients,
    LeafValues,
    RowSampler,
    TreeGrowth,
    Updates,
    batch_size,
    params_of,
    takes_newton_steps,
)

Result = TypeVar("Result")

ROWS_TO_GROW_TOGETHER = BATCH_RECORDS_ON_GPU // 2
"""Tables with more rows have no second tree in a batch."""

meeting_here: contextvars.ContextVar[Meeting | None] = contextvars.ContextVar(
    "meeting_here", default=None
)
"""The meeting that the models of this thread take part in."""


class MeetingEnded(BaseException):
    """Ends a model that waits for a round which never comes: another one has failed, or Ctrl-C has
    come. Not an ``Exception``, which searches take for a failure of the model."""


def run_together(functions: Sequence[Callable[[], Result]], most: int) -> list[Result]:
    """Return the results of functions, each of which fits a model, and may do other things too;
    the models that can meet (see ``can_meet``) grow together, at most so many at a time. The first
    error ends all.

    The interpreter starts no threads once it is ending: they are then called one by one, maybe a
    second time.

    Raises
    ------
    KeyboardInterrupt
        Nothing is kept.
    """
    n_threads = min(most, len(functions))
    return run_in_group(Meeting(n_threads, n_threads), functions, n_threads)


def group_on_gpu(estimator: Any, X: Any) -> type[Meeting] | None:
    """Return the kind of group in which models with the settings of an estimator grow together on a
    GPU, where a round of one is as many launches as one of all; None if they cannot, having rounds
    of their own or too many rows. On the CPU, where nothing is launched, threads of their own are
    faster."""
    has_own_rounds = estimator.dropout or estimator.line_search or estimator.linear_leaves
    meets = not has_own_rounds and estimator.grow_policy != "symmetric"
    return Meeting if meets and _num_samples(X) <= ROWS_TO_GROW_TOGETHER else None


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


class Meeting(TrainingGroup):
    """The models that grow together.

    All that threads do, they do while they have ``_turn``; those that wait for the others give it
    up. So the arrays that models share need no other lock.

    Parameters
    ----------
    n_at_once, n_models, n_threads : int
        See ``TrainingGroup``. Where their number is known, the models wait for as many as are
        trained at a time.

    Attributes
    ----------
    error : BaseException or None
        The first error of a model, which ended all.
    """

    most = 128  # each is a thread, too
    # Where models have rows of their own, as folds do.
    copied = "bins", "target and weights", "evaluation sets"
    has_own_streams = False

    def __init__(self, n_at_once: int = 1, n_models: int = 0, n_threads: int = 1) -> None:
        super().__init__(n_at_once, n_models, n_threads)
        self._turn = threading.RLock()
        self._n_models = self._n_expected = min(n_at_once, n_models)
        self._n_asking = 0
        # Meetings of one thread follow each other, and share the workspaces of a table.
        self._owner = threading.get_ident()
        self._asked: list[AskedRounds] = []
        self._joined: JoinedRound | None = None
        self._trainings: weakref.WeakSet[Training] = weakref.WeakSet()
        self._models: weakref.WeakSet[RoundsTogether] = weakref.WeakSet()
        self._batches: dict[tuple[int, ...], JoinedModels] = {}

    def taking_part_in(self, function: Callable[[], Result]) -> Callable[[], Result]:
        """Return a function that does the same in another thread, as one of the models; others run
        when it waits for its round, and at the end."""

        def run() -> Result:
            with self._counting:
                self._n_models += self._n_expected == 0
                self._n_expected = max(self._n_expected - 1, 0)
            with self._turn:
                tokens = meeting_here.set(self), group_here.set(self)
                try:
                    with self._place():
                        return function()
                except BaseException as error:
                    if not self._ended:
                        self._ended, self.error = True, error
                    raise
                finally:
                    meeting_here.reset(tokens[0])
                    group_here.reset(tokens[1])
                    with self._counting:
                        self._n_models -= 1
                    self._wake_all() if self._ended else self._wake_first()

        return run

    def end(self) -> BaseException | None:
        """Have all models end that wait for a round, as others that they wait for may never begin;
        return the error of a model that has ended them before, if there is one."""
        self._ended = True  # at once: another Ctrl-C may end the wait for the turn
        with self._turn:
            self._wake_all()
            return self.error

    def _wake_all(self) -> None:
        for own in self._asked:
            own.signal.notify()

    def share_table(self, training: Training) -> None:
        """Let a training have the bins of another one, if they are the same."""
        own, known = training.rows, {id(other.rows.codes): other for other in self._trainings}
        for other in known.values():
            is_same = are_equal(other.n_bins, training.n_bins) and other.device == training.device
            rows = (cast(Codes, each.codes).rows for each in (own, other.rows))
            if is_same and are_equal(*rows):
                own.codes = other.rows.codes
                break
        self._trainings.add(training)

    def share_sets(self, model: RoundsTogether) -> None:
        """Let a model have the bins of the evaluation sets of others on its table, if they are the
        same."""
        table = model.training.rows.codes
        alike = [own for own in self._models if own.training.rows.codes is table]
        known = {id(rows.codes): rows.codes for own in alike for rows in own.others}
        for rows in model.others:
            for codes in known.values():
                are_here = isinstance(codes, Codes) and isinstance(rows.codes, Codes)
                if are_here and are_equal(cast(Codes, codes).rows, cast(Codes, rows.codes).rows):
                    rows.codes = codes
                    break
        self._models.add(model)

    def wait_for(self, models: Sequence[RoundsTogether], first: int, end: int) -> list[AskedRounds]:
        """Ask for rounds of the models of this thread, and wait until they have begun, the last of
        them too; the thread of the first model runs those of all when all have asked.

        Raises
        ------
        MeetingEnded
        """
        signal = threading.Condition(self._turn)
        own = [AskedRounds(model, first, end, signal) for model in models]
        with self._turn:
            self._asked = sorted([*self._asked, *own], key=_number_of)
            self._n_asking += 1
            self._wake_first()
            while not own[0].are_begun:
                if self.has_ended:
                    raise MeetingEnded
                if self._n_asking >= self._n_models and self._asked[0] is own[0]:
                    self._run()
                else:
                    signal.wait()
        return own

    def _wake_first(self) -> None:
        """Have the first model run the rounds if all have asked."""
        if self._asked and self._n_asking >= self._n_models:
            self._asked[0].signal.notify()

    def _run(self) -> None:
        """Run rounds of all models until one of them has those that it has asked for."""
        begun: list[AskedRounds] = []
        while not (begun or self.has_ended):
            before = self._joined
            if before is not None:
                before.finish()
            if all(own.error is None for own in self._asked):
                self._joined = JoinedRound(self._batches_of, self._asked)
                self._joined.start()
                # While a GPU grows the next trees.
                if before is not None and any(own.index > own.first for own in self._asked):
                    before.collect()
            begun = [own for own in self._asked if own.are_begun]
        self._asked = [own for own in self._asked if not own.are_begun]
        signals = {id(own.signal): own.signal for own in begun}
        self._n_asking -= len(signals)
        for signal in signals.values():
            signal.notify()

    def _batches_of(self, asked: Sequence[AskedRounds]) -> list[tuple[JoinedModels, list[Any]]]:
        """Return rounds in batches of models that can grow together and fit into memory; their
        arrays are kept from round to round as long as no model leaves."""
        by_number = {own.model.number: own for own in asked}
        if sorted(itertools.chain.from_iterable(self._batches)) != list(by_number):
            self._join([own.model for own in asked])
        pairs = self._batches.items()
        return [(joined, [by_number[number] for number in key]) for key, joined in pairs]

    def _join(self, models: Sequence[RoundsTogether]) -> None:
        """Find batches of models, each in the first one of those that it fits into."""
        parts: list[list[RoundsTogether]] = []
        alike: dict[Any, list[list[RoundsTogether]]] = {}
        before, self._batches = self._batches, {}
        for model in models:
            known = alike.setdefault(model.joins, [])
            fitting = (own for own in known if model.fits(own))
            is_room = partial(_can_stack, model, parts=parts, before=list(before.values()))
            part = next(filter(is_room, fitting), None)
            if part is None:
                part = []
                known.append(part)
                parts.append(part)
            part.append(model)
        for part in parts:
            self._join_part(part, before)
        if any(model.verbose for model in models):
            sizes = " + ".join(str(len(key)) for key in self._batches)
            print(
                f"{len(models)} models grow in {len(self._batches)} batches: {sizes}.",
                file=sys.stderr,
            )

    def _join_part(
        self, part: Sequence[RoundsTogether], before: dict[tuple[int, ...], JoinedModels]
    ) -> None:
        """Join the models of a batch, or where memory is not enough to copy their tables beside
        each other, those of each table."""
        of_tables: dict[int, list[RoundsTogether]] = {}
        for model in part:
            of_tables.setdefault(id(_codes_of(model)), []).append(model)
        part = list(itertools.chain.from_iterable(in_kinds(part)))
        key = tuple(model.number for model in part)
        others = [*before.values(), *self._batches.values()]
        try:
            self._batches[key] = before.get(key) or JoinedModels(part, self._owner, others)
            return
        except MemoryError:
            if len(of_tables) == 1:
                raise
        # Behind the handler nothing holds the arrays that there was memory for.
        for own in of_tables.values():
            self._join_part(own, before)


class RoundsTogether(BoostingRounds):
    """The rounds of a model that meets others in every one.

    Attributes
    ----------
    number : int
        Of the model among those that meet.
    verbose : bool
    n_unseen : int
        Rounds that are requested at once, where neither a metric nor a callback reads the model
        before the last of them; else 0.
    joins : hashable
        What it has in common with the models that it can grow with.
    bounds_values : bool
        Whether the values of leaves have bounds.
    """

    verbose = False
    n_unseen = 0
    _numbers = itertools.count()

    def __init__(self, training: Training, *others: Any) -> None:
        super().__init__(training, *others)
        rules, params = training.settings.rules, training.settings.params
        codes, n_bins = cast(Codes, training.rows.codes), training.n_bins
        # The order of categories depends on their number; numbers have none behind their last bin.
        of_categories = n_bins[rules.categorical] if rules.categorical.size else n_bins[:0]
        of_features = (rules.monotone, rules.categorical, rules.cat_smooth, of_categories)
        self.joins = (
            len(codes.columns), codes.rows.shape[1], training.device.index, rules.groups,
            *(own.tobytes() for own in of_features), batch_of(params),
        )  # fmt: skip
        self.number = next(self._numbers)
        self.bounds_values = bool(rules.monotone.any())
        self._asked: AskedRounds | None = None

    def _choose_steps(self, are_rows_watched: bool) -> None:
        training = self.training
        self.gradients = Gradients(training, training.loss.n_outputs)
        self._growth = TreeGrowth(training, self.gradients)
        self.sampler = RowSampler(training, self.gradients)
        self._leaf_values = LeafValues(training, self.gradients)
        self._updates = Updates(training, self.others)

    def fits(self, part: Sequence[RoundsTogether]) -> bool:
        """Return whether a batch has room for the trees of this model too: lines of several outputs
        must be whole, unless all that is done with them is done for all models."""
        training, models = self.training, [*part, self]
        n_trees = sum(len(own.outputs) for own in models)
        n_rows = max(own.training.n_rows for own in models)
        are_whole = all(own.takes_parts_of_lines or own.training.n_rows == n_rows for own in models)
        most = batch_size(
            n_trees, n_rows, training.n_bins.size, training.settings.params, training.device
        )
        return are_whole and most == n_trees

    @property
    def outputs(self) -> range:
        return range(self.training.loss.n_outputs)

    @property
    def takes_parts_of_lines(self) -> bool:
        """Whether the rows of the outputs may have gaps between them in memory."""
        return len(self.outputs) == 1 or takes_parts_of_lines(self.training)

    @property
    def takes_steps(self) -> bool:
        """Whether the values of leaves are Newton steps, which may have bounds."""
        return takes_newton_steps(self.training.loss)

    def start(self, index: int) -> Any:
        meeting, asked = meeting_here.get(), self._asked
        if meeting is None:
            return super().start(index)
        if asked is None or not asked.first <= index < asked.end:
            (asked,) = meeting.wait_for([self], index, max(index + 1, self.n_unseen))
        self._asked = asked
        return asked

    def finish(self, started: Any) -> Any:
        if isinstance(started, AskedRounds):
            started.finish_next()
            return started
        self._forget_means([self.training.rows, *self.others])  # of a model that is alone
        return super().finish(started)

    def settle(self, finished: Any) -> None:
        if isinstance(finished, AskedRounds):
            index = finished.first + finished.n_settled
            finished = GrownRound(index, finished.settle_next())
        super().settle(finished)

    def growing(self, asked: AskedRounds, table: int) -> ModelTrees:
        """Return what the trees of a round grow on, with the number of the model's table."""
        training, sample = self.training, asked.round.sample
        draws, params = training.draws(asked.round, self.outputs), params_of(training, sample)
        return ModelTrees(sample.rows, draws, asked.totals, params, table)

    def limits(self, round_: Round) -> StepLimits:
        params = self.training.settings.params
        largest = round_.loss.largest_step(round_.rate)
        return StepLimits(params.l2, params.min_sum_hessian, largest)

    def take(
        self, asked: AskedRounds, trees: Any, values: Sequence[NodeValues]
    ) -> list[NodeValues]:
        """Return the values of the trees of a round, of which the Newton steps may be known."""
        batch = Batch(self.outputs, asked.totals, trees, values or None)
        return [tree.values for tree in self._leaf_values.trees(asked.round, batch)]

    def add_by_itself(self, trees: list[OutputTree], n_done: int, to_training_rows: bool) -> None:
        """Add trees to the evaluation sets but the first ``n_done``, which have got them, and maybe
        to the training rows."""
        others = self.others[n_done:]
        updates = Updates(self.training, others)
        if to_training_rows:
            self._forget_means([self.training.rows])
            updates.add_to_training_rows(trees)
        self._forget_means(others)
        updates.add_to_others(trees)

    def _forget_means(self, of_rows: Sequence[TrainingRows]) -> None:
        """Have the means of the round be computed for this model alone."""
        for rows in of_rows:
            rows.mean_of_loss = None


def _can_stack(
    model: RoundsTogether, part: Sequence[RoundsTogether],
    parts: Sequence[Sequence[RoundsTogether]], before: Sequence[JoinedModels],
) -> bool:  # fmt: skip
    """Return whether a GPU has memory to copy the tables of all batches, if the model belongs to
    ``part``: those that are beside each other already, as in ``before``, are not copied."""
    device, n_bytes = model.training.device, 0
    stacked = [set(map(id, joined.stack.tables)) for joined in before]
    for own in parts if device.runs_ahead else ():
        all_of_part = [*own, model] if own is part else own
        tables = {id(codes): codes for codes in map(_codes_of, all_of_part)}
        is_here = own[0].training.device == device
        if is_here and len(tables) > 1 and not any(tables.keys() <= known for known in stacked):
            stacked.append(set(tables))
            n_bytes += sum(int(codes.rows.size + codes.columns.size) for codes in tables.values())
    return has_room(n_bytes, device)


def _codes_of(model: RoundsTogether) -> Codes:
    return cast(Codes, model.training.rows.codes)


def _number_of(asked: AskedRounds) -> int:
    return asked.model.number
