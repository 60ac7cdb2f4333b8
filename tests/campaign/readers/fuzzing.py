"""Coverage-guided fuzzing of a reader: inputs that reach new edges become parents of others."""

from __future__ import annotations

import os
import time
import tracemalloc
from abc import abstractmethod
from pathlib import Path

import numpy as np

from ..attack import Attack, FoundError, place_of, unnamed
from .coverage import Edges

TRACED_FIRST, TRACED_LATER = 300, 20
"""The first trials of a slice are all traced, later ones in twenty: tracing takes long."""
MEASURED = 100
"""One in so many trials is measured for memory."""
SLACK, FACTOR = 16 * 2**20, 4
"""Bytes that reading may take, besides so many times the size of the file."""
SLOW = 10.0
"""Seconds of the processor within which a small file must be read."""
MOST_KEPT = 2000
MINIMISING = 5.0
"""Seconds for the search of a smaller input."""


class Fuzzer(Attack):
    """Tries damaged inputs of one reader."""

    limit = 60.0
    watched: tuple[str, ...] = ()
    """Folders whose edges guide the search."""

    def __init__(self, seed: int, folder: Path, known: set[str]) -> None:
        super().__init__(seed, folder, known)
        self.edges = Edges(self.watched)
        self.seeds = self._kept("seeds") or self._make_seeds()
        self.corpus = self._kept("corpus")
        self.latest = os.open(self.scratch / "latest", os.O_CREAT | os.O_WRONLY)
        self.traced = 0
        for data in [*self.seeds, *self.corpus]:  # also what is imported takes memory and time
            self._cover(data)

    @abstractmethod
    def sources(self) -> list[bytes]:
        """Return whole inputs."""

    @abstractmethod
    def damage(self, data: bytes, rng: np.random.Generator) -> bytes:
        """Return a damaged copy."""

    @abstractmethod
    def read(self, data: bytes) -> None:
        """Read an input and use what was read; errors of the named kinds are caught.

        Raises
        ------
        FoundError, or any other error
            It is a finding.
        """

    def trial(self, number: int) -> None:
        rng = np.random.default_rng([self.seed, number])
        data = self._parent(rng)
        for _ in range(int(rng.geometric(0.6))):  # once in most trials: more is refused sooner
            data = self.damage(data, rng)
        os.pwrite(self.latest, data, 0)
        os.ftruncate(self.latest, len(data))
        try:
            if number % MEASURED == 0:
                self._measure(data)
            elif self.traced < TRACED_FIRST or number % TRACED_LATER == 0:
                self.traced += 1
                if self._cover(data) and len(self.corpus) < MOST_KEPT:
                    self.corpus.append(data)
            else:
                self._timed(data)
        except FoundError as found:
            raise self._kept_input(found, data) from found

    def end(self) -> None:
        folder = self.folder / "corpus"
        folder.mkdir(exist_ok=True)
        for number, data in enumerate(self.corpus):
            path = folder / f"{number:05}"
            if not path.exists():
                path.write_bytes(data)

    def _parent(self, rng: np.random.Generator) -> bytes:
        if self.corpus and rng.random() < 0.6:
            return self.corpus[int(rng.integers(len(self.corpus)))]
        return self.seeds[int(rng.integers(len(self.seeds)))]

    def _kept(self, name: str) -> list[bytes]:
        return [path.read_bytes() for path in sorted((self.folder / name).glob("*"))]

    def _make_seeds(self) -> list[bytes]:
        folder = self.folder / "seeds"
        folder.mkdir(exist_ok=True, parents=True)
        made = self.sources()
        for number, data in enumerate(made):
            (folder / f"{number:05}").write_bytes(data)
        return made

    def _checked(self, data: bytes) -> None:
        try:
            self.read(data)
        except FoundError:
            raise
        except BaseException as error:
            raise unnamed(error, f"{len(data)} bytes") from error

    def _cover(self, data: bytes) -> int:
        return self.edges.run(lambda: self._checked(data))

    def _timed(self, data: bytes) -> None:
        start = time.process_time()
        self._checked(data)
        took = time.process_time() - start
        if took > SLOW:
            raise FoundError("hang", f"{len(data)} bytes took {took:.0f} s", "slow")

    def _measure(self, data: bytes) -> None:
        tracemalloc.start()
        try:
            self._checked(data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        if peak > SLACK + FACTOR * len(data):
            raise FoundError("memory", f"{len(data)} bytes took {peak} bytes of memory", "memory")

    def _kept_input(self, found: FoundError, data: bytes) -> FoundError:
        """Write the input to a file, the smallest one that is found if it is a new one."""
        if found.place in self.known:
            return FoundError(found.kind, found.text, found.place)
        smaller = self._minimised(data, found)
        path = self.folder / f"input-{time.time_ns()}"
        path.write_bytes(smaller)
        text = f"{path}, {len(smaller)} bytes, begins {smaller[:80]!r}"
        return FoundError(found.kind, found.text, found.place, text)

    def _minimised(self, data: bytes, found: FoundError) -> bytes:
        end, size = time.monotonic() + MINIMISING, max(1, len(data) // 2)
        while size and time.monotonic() < end:
            at = 0
            while at < len(data) and time.monotonic() < end:
                shorter = data[:at] + data[at + size :]
                if self._same(shorter, found):
                    data = shorter
                else:
                    at += size
            size //= 2
        return data

    def _same(self, data: bytes, found: FoundError) -> bool:
        try:
            self._checked(data)
        except FoundError as other:
            return (other.kind, other.place) == (found.kind, found.place)
        return False


def refused(error: BaseException, named: type | tuple[type, ...]) -> None:
    """Check that an error is of a named kind and says something.

    Raises
    ------
    FoundError
    """
    if not isinstance(error, named):
        raise unnamed(error, "refused by") from error
    if len(str(error)) < 20:
        text = f"{type(error).__name__} says only {str(error)!r}"
        raise FoundError("unnamed error", text, place_of(error)) from error
