"""Sums of the predictions of trees for the rows that they have not seen."""

from __future__ import annotations

import numpy as np

from ..runtime.arrays import Array
from ..runtime.collective import ONE_WORKER, Workers, halved, sum_of_each
from ..runtime.dispatch import implementation


def add_out_of_bag(
    leaf: Array, value: Array, truth: Array, begin: Array, sums: Array, n_models: Array,
    workers: Workers = ONE_WORKER,
) -> tuple[Array, Array]:  # fmt: skip
    """Add the values of trees, one tree after the other, to the sums of the rows that they have
    not seen, in place, and measure the error after each tree.

    The error of a row is that of its mean value ``sums / n_models``, averaged over the outputs: of
    a class 1 where another class has a larger share (ties: the lower class), else 0; of a number
    the squared difference. Outputs are added in their order.

    Parameters
    ----------
    leaf : int32, shape (n_trees, n_rows), contiguous
        Line of ``value`` that a row reaches in each tree, -1 where the tree has seen the row.
    value : float64, shape (n_lines, width)
    truth : float64, shape (n_rows, n_outputs) or (0, 0)
        Class numbers or targets. (0, 0): no errors are wanted, all are 0.
    begin : int64, shape (n_outputs + 1,) or (0,)
        The classes of output o are the columns ``begin[o]:begin[o + 1]`` of ``value``. Empty:
        column o is a number, the prediction of output o.
    sums : float64, shape (n_rows, width)
        Changed in place.
    n_models : int32, shape (n_rows,)
        Trees that have not seen the row; changed in place.
    workers : Workers

    Returns
    -------
    errors : float64, shape (n_trees,)
        Sum after each tree of the errors of the rows that have a prediction, others being 0, in the
        order of ``kernels.statistics.gradients``: halves of chunks of ``SUM_CHUNK`` rows, then
        halves of the chunks. Of the rows of all workers.
    n_new : int64, shape (n_trees,)
        Rows whose first prediction is that of the tree; of all workers.
    """
    op = implementation(__name__, leaf)
    if workers is not ONE_WORKER:
        errors, n_new = op.add_to_chunks(leaf, value, truth, begin, sums, n_models)
        of_all = np.concatenate(workers.collective.gather(errors))
        return halved(of_all), sum_of_each(n_new.sum(axis=0), workers)
    found: tuple[Array, Array] = op.add_out_of_bag(leaf, value, truth, begin, sums, n_models)
    return found
