"""Out-of-bag sums (contract: ``kernels.statistics.out_of_bag``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.collective import halved
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import run, threads_for
from ...runtime.dtypes import SUM_CHUNK
from ...scalars.gain import square
from .gradients import halve


@inner
def _row_error(sums, n, truth, begin):
    """Return the error of the mean of n predictions of a row, averaged over the outputs."""
    n = np.float64(n)
    total = 0.0
    for o in range(truth.size):
        if begin.size > 0:
            best = begin[o]
            for k in range(begin[o] + 1, begin[o + 1]):
                # Strictly: the lowest of the classes with the largest share, as in predictions.
                if sums[k] / n > sums[best] / n:
                    best = k
            if best - begin[o] != truth[o]:
                total += 1.0
        else:
            total += square(sums[o] / n - truth[o])
    return total / truth.size


@kernel
def _worker(
    thread, n_threads, barrier, leaf, value, truth, begin, sums, n_models, of_chunks, new_of_chunks
):  # fmt: skip
    """Chunks of rows, each of which all trees are added to."""
    n_trees, n = leaf.shape
    n_chunks = new_of_chunks.shape[0]
    own, scratch = np.empty(SUM_CHUNK), np.empty(SUM_CHUNK)
    for chunk in range(n_chunks * thread // n_threads, n_chunks * (thread + 1) // n_threads):
        first = chunk * SUM_CHUNK
        last = min(first + SUM_CHUNK, n)
        # Errors of earlier trees' means, for the rows that this batch does not touch.
        own[:] = 0.0
        if truth.shape[0] > 0:
            for i in range(first, last):
                if n_models[i] > 0:
                    own[i - first] = _row_error(sums[i], n_models[i], truth[i], begin)
        for tree in range(n_trees):
            for i in range(first, last):
                # Tree by tree, as after each of them the errors of all rows are summed up.
                at = leaf[tree, i]
                if at < 0:
                    continue
                for k in range(sums.shape[1]):
                    sums[i, k] += value[at, k]
                new_of_chunks[chunk, tree] += n_models[i] == 0
                n_models[i] += 1
                if truth.shape[0] > 0:
                    own[i - first] = _row_error(sums[i], n_models[i], truth[i], begin)
            for i in range(SUM_CHUNK):  # a slice would compile the text of its error
                scratch[i] = own[i]
            of_chunks[chunk, tree] = halve(scratch, np.int64(SUM_CHUNK))


def add_to_chunks(
    leaf: Array, value: Array, truth: Array, begin: Array, sums: Array, n_models: Array
) -> tuple[np.ndarray, np.ndarray]:
    """Add as ``add_out_of_bag`` does, and return its results for each chunk of rows, shape
    (n_chunks, n_trees)."""
    shape = -(-leaf.shape[1] // SUM_CHUNK), leaf.shape[0]
    errors, n_new = np.empty(shape), np.zeros(shape, np.int64)
    run(_worker, threads_for(leaf.size), leaf, value, truth, begin, sums, n_models, errors, n_new)
    return errors, n_new


def add_out_of_bag(
    leaf: Array, value: Array, truth: Array, begin: Array, sums: Array, n_models: Array
) -> tuple[Array, Array]:
    errors, n_new = add_to_chunks(leaf, value, truth, begin, sums, n_models)
    return halved(errors), n_new.sum(axis=0)
