"""Reading in the background."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest

from gpuens.tables.prefetch import read_ahead, write_behind


class Reading:
    """A generator of numbers that notes what happens to it."""

    def __init__(self, n: int, fails_at: int | None = None) -> None:
        self.n, self.fails_at = n, fails_at
        self.begun = [threading.Event() for _ in range(n + 1)]
        self.threads: set[int] = set()
        self.is_closed = False

    def __call__(self):
        try:
            for i in range(self.n + 1):
                self.begun[i].set()
                self.threads.add(threading.get_ident())
                if i == self.fails_at:
                    raise OSError("The disk has gone.")
                if i < self.n:
                    yield i
        finally:
            self.is_closed = True


@pytest.mark.parametrize("n", [0, 1, 5])
def test_all_items_in_their_order(n):
    reading = Reading(n)
    assert list(read_ahead(reading())) == list(range(n))
    assert reading.is_closed


def test_the_next_item_is_made_before_it_is_asked_for():
    reading = Reading(3)
    items = read_ahead(reading())
    assert next(items) == 0
    assert reading.begun[1].wait(60)
    assert threading.get_ident() not in reading.threads
    assert not reading.begun[2].is_set()
    assert list(items) == [1, 2]


def test_an_error_comes_when_it_is_the_turn_of_its_item():
    reading = Reading(3, fails_at=2)
    items = read_ahead(reading())
    assert [next(items), next(items)] == [0, 1]
    with pytest.raises(OSError, match="The disk has gone"):
        next(items)
    assert reading.is_closed


def test_whoever_stops_closes_the_generator():
    reading = Reading(5)
    items = read_ahead(reading())
    next(items)
    items.close()
    assert reading.is_closed


def test_without_threads(monkeypatch):
    monkeypatch.setattr(ThreadPoolExecutor, "submit", Mock(side_effect=RuntimeError))
    reading = Reading(4)
    assert list(read_ahead(reading())) == [0, 1, 2, 3]
    assert reading.threads == {threading.get_ident()}


class TestWriteBehind:
    def test_everything_is_written_in_order_by_another_thread(self):
        written: list[tuple[int, int]] = []
        with write_behind(lambda i: written.append((i, threading.get_ident()))) as write:
            for i in range(5):
                write(i)
        assert [i for i, _ in written] == [0, 1, 2, 3, 4]
        assert threading.get_ident() not in {thread for _, thread in written}

    def test_the_caller_goes_on_while_something_is_written(self):
        goes_on = threading.Event()
        with write_behind(lambda: goes_on.wait(60)) as write:
            write()
            goes_on.set()

    @pytest.mark.parametrize("more", [0, 1])
    def test_an_error_is_raised_by_the_next_call_or_at_the_end(self, more):
        written = []

        def write(i):
            if i == 1:
                raise OSError("No space left")
            written.append(i)

        with pytest.raises(OSError, match="No space left"), write_behind(write) as behind:
            for i in range(2 + more):
                behind(i)
        assert written == [0]

    def test_the_error_of_the_block_goes_first(self):
        def fails():
            raise OSError("No space left")

        with pytest.raises(KeyError, match="mine"), write_behind(fails) as write:
            write()
            raise KeyError("mine")

    def test_without_threads(self, monkeypatch):
        monkeypatch.setattr(ThreadPoolExecutor, "submit", Mock(side_effect=RuntimeError))
        written = []
        with write_behind(written.append) as write:
            write(3)
            assert written == [3]
