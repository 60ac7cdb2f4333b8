"""Items shared among threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gpuens.kernels.runtime.cpu.team import MIN_WORK_PER_THREAD, get_threads, using_threads
from gpuens.kernels.runtime.dispatch import Implementation, using
from gpuens.kernels.runtime.each import each
from gpuens.kernels.scalars.lazy_jit import lazy_property

SHORT, LONG = np.zeros(10), np.zeros(4 * MIN_WORK_PER_THREAD)


@pytest.mark.parametrize("n_threads", [1, 2, 4])
@pytest.mark.parametrize("array", [SHORT, LONG], ids=["short", "long"])
def test_results_come_in_the_order_of_the_items(n_threads, array):
    with using_threads(n_threads):
        assert each(lambda k: k * k, range(7), array) == [0, 1, 4, 9, 16, 25, 36]
        assert each(lambda k: k, range(0), array) == []


def test_short_items_run_at_the_same_time_on_one_thread_each():
    """Two calls that wait for each other end only if both are running."""
    barrier = threading.Barrier(2, timeout=300)

    def call(k):
        barrier.wait()
        return get_threads(), threading.get_ident()

    with using_threads(2):
        found = each(call, range(2), SHORT)
        assert get_threads() == 2
    assert [n for n, _ in found] == [1, 1]
    assert len({thread for _, thread in found}) == 2


def test_long_items_have_all_threads_one_after_the_other():
    with using_threads(2):
        found = each(lambda k: (get_threads(), threading.get_ident()), range(3), LONG)
    assert found == [(2, threading.get_ident())] * 3


@pytest.mark.parametrize("implementation", [Implementation.REFERENCE, Implementation.CUDA])
def test_elsewhere_the_caller_does_everything(implementation):
    with using(implementation), using_threads(4):
        found = each(lambda k: threading.get_ident(), range(5), SHORT)
    assert set(found) == {threading.get_ident()}


def test_errors_reach_the_caller():
    def call(k):
        if k == 3:
            raise ValueError("item 3")
        return k

    with using_threads(2), pytest.raises(ValueError, match="item 3"):
        each(call, range(6), SHORT)


class Slow:
    """An object whose value may be that of another one, computed by another thread."""

    def __init__(self, other: Slow | None = None) -> None:
        self.other = other

    @lazy_property
    def value(self) -> int:
        if self.other is None:
            return 1
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(getattr, self.other, "value").result(timeout=300)


def test_lazy_properties_hold_no_lock():
    """A fork would leave it held."""
    assert Slow(Slow()).value == 1
    assert isinstance(Slow.value, lazy_property)
