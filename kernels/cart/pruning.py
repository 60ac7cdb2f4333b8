"""The order in which minimal cost-complexity pruning cuts the branches of a tree."""

from __future__ import annotations

import heapq

import numpy as np

from ..runtime.compilation import kernel


@kernel
def merge_blocks(feature, parent, decrease, alpha, block):
    """Group the inner nodes into blocks that are cut together.

    Cutting a branch raises the impurity by the sum of its splits' decreases, and removes as many
    leaves as it has splits: the alpha of a branch is the mean decrease of its splits. So the
    branches to be cut are blocks of connected nodes whose means fall from every block to those
    below it, the isotonic regression of the decreases over the tree. The block with the
    largest mean of all joins the one above it, or has its final mean if there is none.
    """
    n = feature.size
    total = decrease.copy()
    count = np.ones(n, np.int64)
    final = np.zeros(n, np.bool_)
    heap = [(0.0, 0) for _ in range(0)]
    for node in range(n):
        if feature[node] >= 0:
            block[node] = node
            heap.append((-total[node], -node))  # of equal means, children come first
    heapq.heapify(heap)
    while len(heap) > 0:
        key, negative = heapq.heappop(heap)
        node = -negative
        if block[node] != node or final[node] or -key != total[node] / count[node]:
            continue
        above = parent[node]
        while above >= 0 and block[above] != above:
            block[above] = block[block[above]]
            above = block[above]
        if above < 0 or final[above]:
            final[node] = True
            continue
        block[node] = above
        total[above] += total[node]
        count[above] += count[node]
        heapq.heappush(heap, (-(total[above] / count[above]), -above))
    for node in range(n):
        if feature[node] >= 0:
            block[node] = block[block[node]]
            alpha[node] = total[block[node]] / count[block[node]]
