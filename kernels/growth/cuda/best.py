"""The best splits of nodes, written by a block from those of their features."""

from __future__ import annotations

import numpy as np

from ...runtime.cuda.blocks import NOWHERE
from ...runtime.cuda.loops import rolled
from ...runtime.cuda.narrow import narrow
from ...runtime.cuda.target import cuda, device_function
from ...runtime.dtypes import CODE_WORDS, NUMERIC
from .. import control as growth_control
from .. import frontier as fr
from .block import BLOCK, GROUPS, control, width_for
from .candidates import LOW, NO_SPLIT, S32
from .tables import params_of

i32, i64 = np.int32, np.int64

take_gain = control(growth_control.take_gain)


@device_function
def give_back(x, node, top):
    """Put a node's histogram slot back; ``top[0]`` is the number of free ones. Which slot a
    histogram gets does not matter."""
    if x.nodes[node].slot >= 0:
        x.free_slots[i64(cuda.atomic.add(top, 0, i32(1)))] = x.nodes[node].slot
        x.nodes[node].slot = -1


@device_function
def best_of(score, first, n_features, lane, width, scores, features, t):
    """Bring the best score of a node's features, and the feature, to the first of ``width``
    threads; NOWHERE: there is none. Of equal scores the first feature's counts."""
    best = NO_SPLIT
    best_feature = NOWHERE
    # A lower feature comes first, and only a higher score replaces it.
    for f in rolled(range(lane, n_features, width)):
        if score[first + f] > best:
            best = score[first + f]
            best_feature = i32(f)
    scores[t] = best
    features[t] = best_feature
    half = width >> 1
    cuda.syncthreads()  # each thread has its best one
    while half > 0:
        if lane < half:
            other = scores[t + half]
            ties = other == scores[t] and features[t + half] < features[t]
            if other > scores[t] or ties:
                scores[t] = other
                features[t] = features[t + half]
        cuda.syncthreads()  # the upper half has been read
        half >>= 1


@device_function
def write_split(x, node, f, at, number, left_sums, left_codes):
    """Write the split of a node by a feature, whose entry in what the search has found is
    ``at``, into the table."""
    by_categories = False
    if x.rules.shape[0] > 0:
        by_categories = x.rules[f].kind != NUMERIC
    if by_categories:
        to, found = narrow(x.left_codes[node]), narrow(left_codes[at])
        for w in rolled(range(CODE_WORDS)):
            to[w] = found[w]
    own = x.nodes[node]
    own.feature = f
    own.bin = -1 if by_categories else number[at] >> 1
    own.missing_left = number[at] & 1
    own.left_g = left_sums[at] >> S32
    own.left_h = left_sums[at] & LOW


@device_function
def take_best(frontier, params, x, n_looked, n_features, found, scores, features, top, t):
    """Write the best split of every node that was looked at, and its gain; a node without one
    gives its histogram up.

    Parameters
    ----------
    found : tuple
        What the search has found for each node and feature: score, number, sums on the left,
        codes on the left.
    scores, features : float64 and int32, shape (BLOCK,), shared
    top : int32, shape (1,), shared
        Free slots.
    """
    score, number, left_sums, left_codes = found
    power = width_for(n_looked, GROUPS)
    width = i64(1) << power
    # A group of ``width`` threads a node; the block takes turns of BLOCK / width nodes, in which
    # all threads meet, those without a node, too.
    lane = t & (width - 1)
    k = i64(t) >> power
    for _ in rolled(range((n_looked + (BLOCK >> power) - 1) >> (GROUPS - power))):
        node = i64(-1)
        if k < n_looked:
            node = x.looked[k]
        n_own = n_features if node >= 0 else i64(0)
        best_of(score, k * n_features, n_own, lane, width, scores, features, t)
        if node >= 0 and lane == 0:
            f = features[t]
            if f != NOWHERE:
                write_split(x, node, f, k * n_features + f, number, left_sums, left_codes)
            take_gain(frontier, params_of(params, x.nodes[node].tree), node, scores[t])
            if not x.nodes[node].gain > fr.NO_GAIN:
                give_back(x, node, top)
        cuda.syncthreads()  # the first thread has read what the next turn writes
        k += BLOCK >> power
