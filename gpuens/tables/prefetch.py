"""Reading and writing in the background, while what has been read is worked on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")
END: Any = object()


def begun(pool: ThreadPoolExecutor, function: Callable[..., Item], *arguments: Any) -> Future[Item]:
    """Call a function in the background, or at once: an interpreter that is ending starts no
    threads."""
    try:
        return pool.submit(function, *arguments)
    except RuntimeError:
        done: Future[Item] = Future()
        done.set_result(function(*arguments))
        return done


def read_ahead(items: Generator[Item, None, None]) -> Iterator[Item]:
    """Yield the items of a generator, which makes the next one in the background. What it raises is
    raised when its turn comes."""
    with closing(items), ThreadPoolExecutor(1) as pool:  # whose end waits for what is being read
        following = begun(pool, next, items, END)
        while (item := following.result()) is not END:
            following = begun(pool, next, items, END)
            yield item


@contextmanager
def write_behind(write: Callable[..., None]) -> Iterator[Callable[..., None]]:
    """Return a function that calls ``write`` in the background, once the call before has ended.
    What that raises is raised by the next call, or at the end of the block."""
    with ThreadPoolExecutor(1) as pool:
        last: Future[None] = Future()
        last.set_result(None)

        def behind(*arguments: Any) -> None:
            nonlocal last
            last.result()
            last = begun(pool, write, *arguments)

        yield behind
        last.result()
