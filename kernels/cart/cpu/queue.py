"""Which node a thread looks at next: nodes that busy threads share with idle ones, and the heap of
trees that grow best first."""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inlined, inner
from ...runtime.cpu.team import atomic_add, atomic_load, pause, yield_thread
from .tables import IDLE, NODES, SERVING, SHARED, TICKET

i64 = np.int64

SHARE_ROWS = 64
"""Nodes with fewer rows are not worth handing over."""
SPINS_BEFORE_YIELD = 200
NUMBERS_AT_ONCE = 64
"""Numbers of nodes that a thread takes at a time; even."""


@inner
def _lock(counts):
    ticket = atomic_add(counts, TICKET, 1)
    spins = 0
    while atomic_load(counts, SERVING) != ticket:
        spins += 1
        pause()
        if spins > SPINS_BEFORE_YIELD:
            yield_thread()


@inner
def _unlock(counts):
    atomic_add(counts, SERVING, 1)


@inner
def share(work, x):
    """Put a node on the shared stack."""
    counts = work.counts
    _lock(counts)
    work.shared[counts[SHARED]] = x
    atomic_add(counts, SHARED, 1)
    _unlock(counts)


@inner
def take_shared(work, n_threads):
    """A node from the shared stack, -1 once all threads are out of work."""
    counts = work.counts
    x = i64(-1)
    atomic_add(counts, IDLE, 1)
    spins = 0
    while True:
        if atomic_load(counts, SHARED) > 0:
            _lock(counts)
            n = counts[SHARED]
            if n > 0:
                x = work.shared[n - 1]
                atomic_add(counts, SHARED, -1)
                atomic_add(counts, IDLE, -1)
            _unlock(counts)
            if x >= 0:
                return x
        elif atomic_load(counts, IDLE) == n_threads:
            return x
        spins += 1
        pause()
        if spins > SPINS_BEFORE_YIELD:
            yield_thread()


@inlined
def someone_waits(work, node, n_threads):
    """Whether a node is worth handing over to an idle thread."""
    if n_threads == 1 or node.end - node.begin < SHARE_ROWS:
        return False
    return atomic_load(work.counts, IDLE) > atomic_load(work.counts, SHARED)


@inner
def two_numbers(work, numbers):
    """The first of two numbers of nodes; a thread takes many at a time, since threads that
    write into the same cache line wait for each other."""
    if numbers[0] == numbers[1]:
        numbers[0] = atomic_add(work.counts, NODES, NUMBERS_AT_ONCE)
        numbers[1] = numbers[0] + NUMBERS_AT_ONCE
    numbers[0] += 2
    return numbers[0] - 2


@inner
def _comes_before(nodes, x, y):
    return nodes[x].gain > nodes[y].gain or (nodes[x].gain == nodes[y].gain and x < y)


@inner
def push(heap, size, nodes, x):
    """Add a node that can be split to a heap of ``size`` nodes, the best first; the new size."""
    if nodes[x].feature < 0:
        return size
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        if not _comes_before(nodes, x, heap[parent]):
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = x
    return size + 1


@inner
def pop(heap, size, nodes):
    """Remove the best entry, which stands at 0; the new size."""
    size -= 1
    x = heap[size]
    i = i64(0)
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and _comes_before(nodes, heap[child + 1], heap[child]):
            child += 1
        if not _comes_before(nodes, heap[child], x):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = x
    return size
