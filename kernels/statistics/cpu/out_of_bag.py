"""Out-of-bag sums (contract: ``kernels.statistics.out_of_bag``)."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.compilation import inner, kernel
from ...runtime.cpu.team import run, threads_for, wait
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
                if sums[k] / n > sums[best] / n:
                    best = k
            if best - begin[o] != truth[o]:
                total += 1.0
        else:
            total += square(sums[o] / n - truth[o])
    return total / truth.size


@kernel
def _worker(
    thread, n_threads, barrier, leaf, value, truth, begin, sums, n_models, of_chunks, new_of_chunks,
    errors, n_new,
):  # fmt: skip
    """Chunks of rows, each of which all trees are added to, then trees."""
    n_trees, n = leaf.shape
    n_chunks = new_of_chunks.shape[1]
    own, scratch = np.empty(SUM_CHUNK), np.empty(SUM_CHUNK)
    for chunk in range(n_chunks * thread // n_threads, n_chunks * (thread + 1) // n_threads):
        first = chunk * SUM_CHUNK
        last = min(first + SUM_CHUNK, n)
        own[:] = 0.0
        if truth.shape[0] > 0:
            for i in range(first, last):
                if n_models[i] > 0:
                    own[i - first] = _row_error(sums[i], n_models[i], truth[i], begin)
        for tree in range(n_trees):
            for i in range(first, last):
                at = leaf[tree, i]
                if at < 0:
                    continue
                for k in range(sums.shape[1]):
                    sums[i, k] += value[at, k]
                new_of_chunks[tree, chunk] += n_models[i] == 0
                n_models[i] += 1
                if truth.shape[0] > 0:
                    own[i - first] = _row_error(sums[i], n_models[i], truth[i], begin)
            for i in range(SUM_CHUNK):  # a slice would compile the text of its error
                scratch[i] = own[i]
            of_chunks[tree, chunk] = halve(scratch, np.int64(SUM_CHUNK))
    wait(barrier, n_threads)
    for tree in range(n_trees * thread // n_threads, n_trees * (thread + 1) // n_threads):
        errors[tree] = halve(of_chunks[tree], of_chunks.shape[1])
        n_new[tree] = new_of_chunks[tree].sum()


def add_out_of_bag(
    leaf: Array, value: Array, truth: Array, begin: Array, sums: Array, n_models: Array
) -> tuple[Array, Array]:
    n_trees, n = leaf.shape
    n_chunks = -(-n // SUM_CHUNK)
    of_chunks = np.zeros((n_trees, 1 << (n_chunks - 1).bit_length()))
    new_of_chunks = np.zeros((n_trees, n_chunks), np.int64)
    errors, n_new = np.empty(n_trees), np.empty(n_trees, np.int64)
    args = (leaf, value, truth, begin, sums, n_models, of_chunks, new_of_chunks, errors, n_new)
    run(_worker, threads_for(leaf.size), *args)
    return errors, n_new
