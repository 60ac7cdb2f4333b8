"""The arrays that models which grow together share: of their rows and their evaluation sets."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...devices.placement import Device
from ...kernels.boosting.many_models import (
    StackedTables,
    add_to_sets,
    gradients_of_models,
    leaves_of_models,
    lines_of,
    stack_sets,
    stack_tables,
)
from ...kernels.runtime.arrays import Array
from ...kernels.runtime.dtypes import Codes, NodeValues, Totals
from ...kernels.scalars.lazy_jit import lazy_property
from ...losses.joint_rows import JointRows, are_equal, kind_of
from ...losses.leaves import LeafLines
from ..round_data import Training
from .plain import BATCH_RECORDS_ON_GPU


class AlikeModels(NamedTuple):
    """Models of a batch, beside each other, whose losses are of one kind.

    own : slice
        The models among those of the batch.
    lines : slice
        Of their trees.
    joint : JointRows or None
        Their training rows, if formulas give the gradients.
    """

    own: slice
    lines: slice
    joint: JointRows | None


def in_kinds(models: Sequence[Any]) -> Collection[list[Any]]:
    """Return the models with losses of each kind, those of the first kind first.

    Of a kind those of most evaluation sets are first, so that the lines of all models that have a
    second set, as any, follow each other.
    """
    kinds: dict[Hashable, list[Any]] = {}
    for model in models:
        loss, y = model.training.loss, model.training.rows.y
        is_plain = loss.has_plain_gradients
        kinds.setdefault(kind_of(loss, y) if is_plain else id(model), []).append(model)
    for of_kind in kinds.values():
        of_kind.sort(key=lambda model: -len(model.others))
    return kinds.values()


class JoinedModels:
    """Models whose raw predictions and gradients are lines of the same arrays, beside each other.

    Attributes
    ----------
    models : list
        Those with losses of one kind follow each other.
    device : Device
    owner : hashable
        Of the workspaces that they grow in.
    stack : StackedTables
    table_of : list of int
        The number of each model's table in it.
    n_rows : list of int
        Of each model. Lines are as long as those of most rows, of which the others have a part.
    raw, g, h : float64 and float32, shape (n_trees, n_rows), on the device
    kinds : list of AlikeModels
    sets : list of JoinedSets
        The first evaluation set of each model, the second, and so on, as many as can be joined.
    """

    def __init__(
        self, models: Sequence[Any], owner: Hashable, before: Sequence[JoinedModels] = ()
    ) -> None:
        kinds, self.models = in_kinds(models), list(models)
        self.owner, self.device = owner, models[0].training.device
        self.n_rows = [own.training.n_rows for own in self.models]
        self.lines = lines_of([len(own.outputs) for own in self.models])
        with self.device.active():
            self.stack = _stack_of(self.models, before)
            self._join()
            self.kinds = [self._alike(own) for own in lines_of([len(of_kind) for of_kind in kinds])]
            known = [own for joined in before for own in joined.sets]
            self.sets: list[JoinedSets] = self._joined_sets(known)
        places = {id(own): k for k, own in enumerate(self.stack.tables)}
        self.table_of = [places[id(own.training.rows.codes)] for own in self.models]

    def _join(self) -> None:
        shape, xp = (self.lines[-1].stop, max(self.n_rows)), self.device.xp
        self.raw = xp.zeros(shape, dtype=xp.float64)
        self.g, self.h = (xp.empty(shape, dtype=xp.float32) for _ in range(2))
        for model, own in zip(self.models, self.lines, strict=True):
            # The lines of several outputs of fewer rows than others have are no run of memory.
            of_rows = own, slice(model.training.n_rows)
            self.raw[of_rows] = model.training.rows.raw
            model.training.rows.raw = self.raw[of_rows]
            model.gradients.g, model.gradients.h = self.g[of_rows], self.h[of_rows]

    def _joined_sets(self, before: Sequence[JoinedSets]) -> list[JoinedSets]:
        found: list[JoinedSets] = []
        for k in range(max(len(own.others) for own in self.models)):
            of_models = [own.others[k : k + 1] for own in self.models]
            if not can_join(self, of_models):
                break
            try:
                found.append(JoinedSets(self, of_models, before))
            except MemoryError:  # models go on with this set, and those behind it, by themselves
                break
        return found

    def _alike(self, own: slice) -> AlikeModels:
        models = self.models[own]
        lines = slice(self.lines[own.start].start, self.lines[own.stop - 1].stop)
        losses, rows = [m.training.loss for m in models], [m.training.rows for m in models]
        joint = None
        if losses[0].has_plain_gradients:
            joint = JointRows(rows, self.raw[lines], losses, self.device)
        return AlikeModels(own, lines, joint)

    @lazy_property
    def weight(self) -> Array:
        """The weights of all models, or a line of each; empty if all are 1."""
        weights, xp = [own.training.rows.weight for own in self.models], self.device.xp
        if not any(own.size for own in weights):
            return weights[0]
        if all(are_equal(own, weights[0]) for own in weights):
            return weights[0]
        lines = xp.ones((len(weights), max(self.n_rows)), dtype=xp.float64)
        for line, own in enumerate(weights):
            lines[line, : own.size] = own
        return lines

    def gradients(self, alike: AlikeModels, losses: Sequence[Any]) -> list[Sequence[Totals]]:
        """Compute the gradients of the models of a kind, whose losses are these; return the totals
        of each."""
        rows, n_models = alike.joint, len(losses)
        assert rows is not None
        formulas = [loss.formula(k) for loss in losses for k in range(rows.n_outputs)]
        shared = losses[0].shared(rows.target, rows.raw_of_models, self.device)
        totals = gradients_of_models(
            formulas if len(set(formulas)) > 1 else formulas[:1], rows.target, rows.raw, shared,
            rows.weight, self.g[alike.lines], self.h[alike.lines], rows.first_class, rows.n_rows,
        )  # fmt: skip
        return [totals[own] for own in lines_of([rows.n_outputs] * n_models)]

    def leaf_values(
        self, alike: AlikeModels, losses: Sequence[Any], grown: Sequence[Any],
        totals: Sequence[Sequence[Totals]],
    ) -> list[Sequence[NodeValues]]:  # fmt: skip
        """Return the values of the trees of the models of a kind, by ``values_of_lines`` of their
        losses; ``grown`` are the trees of all models of the batch."""
        rows = alike.joint
        assert rows is not None
        trees = [(own, i) for own in grown[alike.own] for i in range(len(own.offset) - 1)]
        nodes = [slice(own.offset[i], own.offset[i + 1]) for own, i in trees]
        weight, whole_weight = rows.weights_of_trees
        lines = LeafLines(
            [own.left[at] for (own, _), at in zip(trees, nodes, strict=True)],
            [own.right[at] for (own, _), at in zip(trees, nodes, strict=True)],
            leaves_of_models(grown)[alike.lines], self.g[alike.lines], self.h[alike.lines],
            list(itertools.chain.from_iterable(totals)),
            [n for n in rows.n_rows for _ in range(rows.n_outputs)],
            lambda: rows.target_of_trees, rows.raw, weight, whole_weight, self.device,
            self.models[0].training.rows.workers,
        )  # fmt: skip
        parameters = [loss.parameter_of_values(k) for loss in losses for k in range(rows.n_outputs)]
        found = type(losses[0]).values_of_lines(lines, parameters)
        return [found[own] for own in lines_of([rows.n_outputs] * len(losses))]

    def change(self, grown: Sequence[Any], values: Sequence[Any], factors: Sequence[float]) -> None:
        """Add the values of the trees of all models to the evaluation sets that are joined, and
        have the means of losses be those of the round."""
        for sets in self.sets:
            sets.add(grown, values, factors)
        for alike in self.kinds:
            if alike.joint is not None:
                alike.joint.change()


class JoinedSets:
    """An evaluation set of each model of a batch, or of some: their raw predictions are lines of an
    array.

    Parameters
    ----------
    joined : JoinedModels
    of_models : sequence of list
        The set of each model, or none.
    before : sequence of JoinedSets
        Whose copies of tables may be used.

    Attributes
    ----------
    stack : StackedTables

    Raises
    ------
    MemoryError
        The sets of the models are as before.
    """

    def __init__(
        self, joined: JoinedModels, of_models: Sequence[Sequence[Any]], before: Sequence[JoinedSets]
    ) -> None:
        self._of_models, device = of_models, joined.device
        rows = [own for each in of_models for own in each]
        tables = {id(own.codes): own.codes for own in rows}
        shape = len(joined.raw), max(own.raw.shape[1] for own in rows)
        self.stack = _stack_of_sets(tables, before, 8 * shape[0] * shape[1], device)
        self._raw = device.xp.zeros(shape, dtype=device.xp.float64)
        self._joint = list(self._joint_rows(joined))
        numbers = {id(own): k for k, own in enumerate(self.stack.tables)}
        self._set_of = [(0, 0)] * len(of_models)
        for k, lines in enumerate(joined.lines):
            for own in of_models[k]:
                n = int(own.raw.shape[1])
                self._raw[lines, :n] = own.raw
                own.raw, self._set_of[k] = self._raw[lines, :n], (numbers[id(own.codes)], n)

    def _joint_rows(self, joined: JoinedModels) -> Iterator[JointRows]:
        """Yield the rows of the models of each kind that have the set, who are its first."""
        for alike in joined.kinds:
            rows = [own for of_model in self._of_models[alike.own] for own in of_model]
            if rows and alike.joint is not None:
                last = alike.own.start + len(rows) - 1
                lines = slice(alike.lines.start, joined.lines[last].stop)
                losses = [own.training.loss for own in joined.models[alike.own.start : last + 1]]
                yield JointRows(rows, self._raw[lines], losses, joined.device)

    def add(self, grown: Sequence[Any], values: Sequence[Any], factors: Sequence[float]) -> None:
        """Add the values of the trees of all models."""
        add_to_sets(self.stack, self._set_of, self._raw, grown, values, factors)
        for joint in self._joint:
            joint.change()


def can_join(joined: JoinedModels, of_models: Sequence[Sequence[Any]]) -> bool:
    """Return whether evaluation sets can be joined: in the memory of the device, of as many rows
    where there are several outputs whose lines must be whole, and so small that their leaves have
    room."""
    rows = [own for each in of_models for own in each]
    sizes = {int(own.raw.shape[1]) for own in rows}
    are_parts = all(own.takes_parts_of_lines for own in joined.models)
    is_small = len(joined.raw) * max(sizes) <= BATCH_RECORDS_ON_GPU
    are_here = all(isinstance(own.codes, Codes) for own in rows)
    return (are_parts or len(sizes) == 1) and is_small and are_here


def takes_parts_of_lines(training: Training) -> bool:
    """Return whether the outputs of a model need not be whole lines, where several share arrays: on
    a GPU, where all that reads them together is launched for all models."""
    return training.device.runs_ahead and training.loss.has_plain_gradients


def _stack_of(models: Sequence[Any], before: Sequence[JoinedModels]) -> StackedTables:
    """Return the tables of models, those of one of ``before`` that has them all, or a copy."""
    tables = {id(own.training.rows.codes): own.training for own in models}
    trainings = tables.values()
    return _known(tables, before) or stack_tables(
        [own.rows.codes for own in trainings], [own.n_bins for own in trainings]
    )


def _stack_of_sets(
    tables: Mapping[int, Codes], before: Sequence[JoinedSets], n_bytes: int, device: Device
) -> StackedTables:
    """Return tables of evaluation sets, by their identity, as ``_stack_of`` does, if there is
    memory for a copy and ``n_bytes`` beside it."""
    if known := _known(tables, before):
        return known
    own = tuple(tables.values())
    n_copied = sum(int(codes.rows.size) for codes in own) if len(own) > 1 else 0
    if not has_room(n_copied + n_bytes, device):
        raise MemoryError("Out of memory for a copy of evaluation sets.")
    return stack_sets(own)


def _known(
    tables: Mapping[int, Any], before: Sequence[JoinedModels | JoinedSets]
) -> StackedTables | None:
    """Return tables that are beside each other and have all of these."""
    found = (own.stack for own in before if tables.keys() <= set(map(id, own.stack.tables)))
    return next(found, None)


def has_room(n_bytes: int, device: Device) -> bool:
    """Return whether a GPU has free memory for a copy; others copy nothing."""
    free = device.memory()[0] if n_bytes and device.runs_ahead else None
    return free is None or n_bytes <= free
