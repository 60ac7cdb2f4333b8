"""Steps of a round of boosting for several models, whose trees share launches on CUDA. On the CPU,
which has nothing to launch, one model comes after the other."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..growth.grow import GrownTrees
from ..growth.params import NO_RULES, UNLIMITED, FeatureRules, GrowthParams
from ..runtime.arrays import Array
from ..runtime.collective import ONE_WORKER, Workers
from ..runtime.dispatch import implementation
from ..runtime.dtypes import Codes, NodeValues, Scales, Totals
from .newton_trees import Draws


class StackedTables(NamedTuple):
    """The tables of models that grow together: one of all, or those of folds.

    tables : tuple of Codes
        With the same features.
    codes : Codes or None
        On CUDA the rows of all tables, those of one behind those of the other.
    n_bins : tuple of arrays
        Of each table, int32 of shape (n_features,), NumPy; none of evaluation sets.
    """

    tables: tuple[Codes, ...]
    codes: Codes | None
    n_bins: tuple[np.ndarray, ...] = ()

    @property
    def first_rows(self) -> np.ndarray:
        """The first row of each table among those of all, and the end of the last one."""
        return np.cumsum([0, *(own.rows.shape[0] for own in self.tables)])


class ModelTrees(NamedTuple):
    """The rows, draws and settings of the trees that one model grows in a round.

    rows : int32, shape (m,) or (0,)
        The rows of its sample, ascending; empty: all.
    draws : Draws
        See ``add_newton_trees``.
    totals : sequence of Totals
        Of the gradients of each tree.
    params : GrowthParams
    table : int
        The number of the model's table in ``StackedTables``.
    """

    rows: Array
    draws: Draws
    totals: Sequence[Totals]
    params: GrowthParams
    table: int = 0


class StepLimits(NamedTuple):
    """The settings of a model's Newton steps, see ``newton_steps``."""

    l2: float
    min_sum_hessian: float
    largest: float


def batch_of(params: GrowthParams) -> Hashable:
    """Return what models must have in common so that ``grow_models`` takes them together."""
    of_categories = params.cat_smooth, params.max_cat_to_onehot
    return params.is_symmetric, params.max_leaves == UNLIMITED, of_categories


def stack_tables(tables: Sequence[Codes], n_bins: Sequence[np.ndarray]) -> StackedTables:
    """Return tables of the same features for ``grow_models``; several are copied on CUDA.

    Features with categories must have as many bins in all of them.
    """
    return implementation(__name__, tables[0].rows).stack_tables(tables, n_bins)


def grow_models(
    stack: StackedTables,
    g: Array,
    h: Array,
    models: Sequence[ModelTrees],
    rules: FeatureRules = NO_RULES,
    owner: Hashable = None,
) -> list[GrownTrees]:
    """Grow the trees of several models: the composition of ``quantise`` and ``grow`` for each.

    Parameters
    ----------
    stack : StackedTables
    g, h : float32, shape (n_trees, n_rows), contiguous
        Gradients and hessians of the trees of all models, those of a model beside each other. Lines
        of a model with fewer rows than others have any values behind them.
    models : sequence of ModelTrees
        Of the same ``batch_of``, not of symmetric trees; at most ``MOST_OUTPUTS`` trees in all.
    rules : FeatureRules
    owner : hashable
        Who may grow only one batch on the tables at a time: CUDA keeps a workspace for each.

    Returns
    -------
    list of GrownTrees
        Of each model. On CUDA to be read before the owner's next call with these tables.
    """
    return implementation(__name__, g).grow_models(stack, g, h, models, rules, owner)


def gradients_of_models(
    losses: Sequence[Any],
    y: Array,
    raw: Array,
    shift: Array,
    weight: Array,
    g: Array,
    h: Array,
    first_class: int,
    n_rows: Sequence[int],
) -> Sequence[Totals]:
    """Compute the gradients of all outputs of several models that have as many each, see
    ``gradients_of_outputs``.

    Parameters
    ----------
    losses : sequence of named tuples from ``scalars.losses``
        One of all outputs, or one of each, of the same class.
    y : float64, shape (n,), (n_models, n) or (n_outputs, n)
        The target of all outputs, those of each model, or those of each output; on the CPU also
        uint8.
    raw : float64, shape (n_outputs, n), contiguous
        The outputs of a model are beside each other.
    shift, weight : float64, shape (n,), (n_models, n) or (0,)
    g, h : float32, shape (n_outputs, n), contiguous
        Written.
    first_class : int
        Of each model.
    n_rows : sequence of int
        Of each model, at most n.

    Returns
    -------
    sequence of Totals
        By output.
    """
    op = implementation(__name__, raw)
    found: Sequence[Totals] = op.gradients_of_models(
        losses, y, raw, shift, weight, g, h, first_class, n_rows
    )
    return found


def newton_steps_of_models(
    trees: Sequence[GrownTrees],
    g: Array,
    h: Array,
    models: Sequence[ModelTrees],
    limits: Sequence[StepLimits],
) -> list[Sequence[NodeValues]]:
    """Return the Newton steps of each model's trees, see ``newton_steps``; ``trees`` are those of
    ``grow_models`` with the same ``g``, ``h`` and ``models``."""
    return implementation(__name__, g).newton_steps_of_models(trees, g, h, models, limits)


def leaf_quantiles_of_models(
    leaf: Array,
    values: Array,
    weight: Array,
    quantiles: Sequence[float],
    n_nodes: int,
    workers: Workers = ONE_WORKER,
) -> np.ndarray:
    """Return the quantiles of the values in the leaves of several trees, see ``leaf_quantiles``.

    Parameters
    ----------
    leaf : int32 or on CUDA uint16, shape (n_trees, n)
    values : float64, shape (n_trees, n), contiguous
        Finite in rows that have a leaf.
    weight : int64, shape (n,), (n_trees, n) or (0,)
    quantiles : sequence of float
        Of each tree.
    n_nodes : int
        Of the largest tree.

    Returns
    -------
    float64, shape (n_trees, n_nodes), NumPy
    """
    op = implementation(__name__, values)
    found: np.ndarray = op.leaf_quantiles_of_models(
        leaf, values, weight, quantiles, n_nodes, workers
    )
    return found


def leaf_sums_of_models(
    leaf: Array,
    g: Array,
    h: Array,
    scales: Sequence[Scales],
    n_nodes: int,
    workers: Workers = ONE_WORKER,
) -> np.ndarray:
    """Return the sums of the leaves of several trees, int64 NumPy of shape (n_trees, n_nodes, 2);
    see ``leaf_sums``. All arrays and ``scales`` have a line a tree."""
    op = implementation(__name__, g)
    found: np.ndarray = op.leaf_sums_of_models(leaf, g, h, scales, n_nodes, workers)
    return found


def values_of_models(
    losses: Sequence[Any], y: Array, raw: Array, shift: Array, first_class: int, n_models: int
) -> Array:
    """Return the values of the rows of all outputs of several models, float64 of shape
    (n_outputs, n); see ``row_values``, and ``gradients_of_models`` for the arguments. What is
    behind the rows of a model has any values."""
    op = implementation(__name__, raw)
    return op.values_of_models(losses, y, raw, shift, first_class, n_models)


def scale_samples(
    g: Array, h: Array, rows: Sequence[Array], factors: Sequence[Array], lines: Sequence[slice]
) -> list[list[Totals]]:
    """Multiply the gradients of samples by factors, in place, and return the totals of the trees
    of each model over its sample; they are not finite where float32 is too narrow.

    Parameters
    ----------
    g, h : float32, shape (n_trees, n), contiguous
    rows, factors : sequence of arrays, int32 and float32, shape (n_sampled,)
        Of the models that have samples with factors.
    lines : sequence of slice
        The trees of each.
    """
    op = implementation(__name__, g)
    found: list[list[Totals]] = op.scale_samples(g, h, rows, factors, lines)
    return found


def nodes_of_models(trees: Sequence[GrownTrees]) -> list[GrownTrees]:
    """Return the trees of ``grow_models`` without ``leaf``, which has an entry for each row."""
    found: list[GrownTrees] = implementation(__name__, trees[0].leaf).nodes_of_models(trees)
    return found


def leaves_of_models(trees: Sequence[GrownTrees]) -> Array:
    """Return the leaves of the rows of the trees of ``grow_models``, int32 or on CUDA uint16 of
    shape (n_trees, n); -1 or ``NO_LEAF`` behind the rows of a model."""
    return implementation(__name__, trees[0].leaf).leaves_of_models(trees)


def stack_sets(sets: Sequence[Codes]) -> StackedTables:
    """Return tables for ``add_to_sets``; several are copied on CUDA, without their columns."""
    found: StackedTables = implementation(__name__, sets[0].rows).stack_sets(sets)
    return found


def add_to_sets(
    stack: StackedTables,
    set_of: Sequence[tuple[int, int]],
    raw: Array,
    trees: Sequence[GrownTrees],
    values: Sequence[Sequence[NodeValues]],
    factors: Sequence[float],
) -> None:
    """Add the values of each model's trees, times its factor, to the raw predictions of other rows
    than the trees have been grown on.

    Parameters
    ----------
    stack : StackedTables
        The sets, from ``stack_sets``.
    set_of : sequence of (set, number of rows)
        Of each model: the number of its set, and how many rows that has, 0 where the model has no
        set.
    raw : float64, shape (n_trees, n), contiguous
        Those of a model begin its lines.
    trees, values, factors
        See ``add_values_of_models``.
    """
    implementation(__name__, raw).add_to_sets(stack, set_of, raw, trees, values, factors)


def find_leaves_of_models(
    stack: StackedTables, trees: Sequence[GrownTrees], tables: Sequence[int]
) -> None:
    """Fill in the leaves of the rows that are in none, in the trees of ``grow_models``; see
    ``traverse_codes``. ``tables`` are the numbers of the models' tables."""
    op = implementation(__name__, stack.tables[0].rows)
    op.find_leaves_of_models(stack, trees, tables)


def add_values_of_models(
    raw: Array,
    trees: Sequence[GrownTrees],
    values: Sequence[Sequence[NodeValues]],
    factors: Sequence[float],
) -> None:
    """Add the values of each model's trees, times its factor, to the raw predictions, float64 of
    shape (n_trees, n_rows); see ``add_values_of_trees``. Every row is in a leaf."""
    implementation(__name__, raw).add_values_of_models(raw, trees, values, factors)


def lines_of(counts: Sequence[int]) -> list[slice]:
    """Return the lines of each model in arrays of a line a tree, from its number of trees."""
    ends = np.cumsum([0, *counts]).tolist()
    return [slice(begin, end) for begin, end in zip(ends, ends[1:], strict=False)]
