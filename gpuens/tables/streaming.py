"""Reading the codes of a table in the order of the rows: from a file, or for a GPU from any memory
of the host.

On the CPU some slabs of rows stay in memory, and the others are read in each pass, past the
system's cache, while rows that are there are walked over. Pages of a mapping would come by faults,
and the system would have to take others away for them in every pass.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import numpy as np

from ..kernels.growth import streamed_codes
from ..kernels.growth.streamed_codes import StreamedCodes, kept_slabs
from ..kernels.runtime.system import descriptors_past_cache, read_at, will_read
from .file import MappedArray
from .prefetch import begun

BLOCK_BYTES = 4096
"""Size of a block of direct reads, which begin and end with one in the file and in memory."""
AHEAD = 2
"""Slabs that are read at the same time, while another one is walked over."""


def streamed(codes: Any, n_resident: int = 0) -> StreamedCodes:
    """Return ``Codes`` that are read in the order of the rows, and of which so many stay in the
    memory of the device. What growth keeps with them, it keeps with a view that is theirs alone,
    not with the table."""
    rows = codes.rows
    slabs = Slabs(codes, n_resident)
    return StreamedCodes(rows.view(), codes.columns, _announcer(rows), slabs, n_resident)


class Slabs:
    """Slabs of rows of codes in memory or mapped, of which ``n_resident`` rows are kept, without
    their padding: the same ones in each pass. A pass opens the file and closes it. Where that is
    not the file that is mapped any more, and for rows in memory, slabs are parts of the array."""

    def __init__(self, codes: Any, n_resident: int) -> None:
        self._rows, n_features = codes.rows, len(codes.columns)
        to_keep = sorted(kept_slabs(len(codes.rows), n_resident))
        self._place = {slab: k * streamed_codes.SLAB_ROWS for k, slab in enumerate(to_keep)}
        n_kept = sum(min(streamed_codes.SLAB_ROWS, len(codes.rows) - slab) for slab in to_keep)
        self._kept = np.empty((n_kept, n_features), np.uint8)
        self._is_there: set[int] = set()
        self._rooms: list[np.ndarray] = []

    def __call__(
        self, slabs: Sequence[tuple[int, int]]
    ) -> Generator[tuple[int, int, np.ndarray], None, None]:
        """Yield the first and the last row, exclusive, of each slab, and its codes; slabs next to
        each other come together where they are in memory. Raises an OSError if the file cannot be
        read, or has become shorter."""
        with _opened(self._rows) as file:
            if file is None:
                for begin, end in _joined(slabs):
                    yield begin, end, self._rows[begin:end]
            else:
                yield from self._read(file, slabs)

    def _read(
        self, file: RowsFile, slabs: Sequence[tuple[int, int]]
    ) -> Generator[tuple[int, int, np.ndarray], None, None]:
        to_read = deque(slab for slab in slabs if slab[0] not in self._is_there)
        reads: deque[tuple[np.ndarray, Future[np.ndarray]]] = deque()
        free = deque(self._rooms)
        with ThreadPoolExecutor(AHEAD) as pool:  # whose end waits for what is being read
            for is_there, run in groupby(slabs, lambda slab: slab[0] in self._is_there):
                for slab in _joined(run) if is_there else list(run):
                    while to_read and len(reads) < AHEAD:
                        room = free.popleft() if free else self._room(file)
                        reads.append((room, begun(pool, self._fill, file, to_read.popleft(), room)))
                    if is_there:
                        yield *slab, self._part(*slab)
                        continue
                    room, read = reads.popleft()
                    yield *slab, read.result()
                    if slab[0] in self._place:
                        self._is_there.add(slab[0])
                    free.append(room)

    def _fill(self, file: RowsFile, slab: tuple[int, int], room: np.ndarray) -> np.ndarray:
        """Read a slab, and copy it to its place if it is to be kept."""
        rows = file.read(*slab, room)
        if slab[0] not in self._place:
            return rows
        kept = self._part(*slab)
        kept[:] = rows[:, : kept.shape[1]]
        return kept

    def _part(self, begin: int, end: int) -> np.ndarray:
        """Return the place of slabs next to each other that are kept."""
        first = self._place[begin]
        return self._kept[first : first + end - begin]

    def _room(self, file: RowsFile) -> np.ndarray:
        self._rooms.append(file.room(min(streamed_codes.SLAB_ROWS, len(self._rows))))
        return self._rooms[-1]


def _joined(slabs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Join slabs next to each other."""
    first = last = -1
    for begin, end in slabs:
        if begin != last and last >= 0:
            yield first, last
        first, last = (first if begin == last else begin), end
    if last >= 0:
        yield first, last


class RowsFile:
    """The rows of a table in an open file, from the byte ``first``, ``row_bytes`` each."""

    def __init__(self, descriptor: int, path: str, first: int, row_bytes: int) -> None:
        self._descriptor, self._path = descriptor, path
        self._first, self._row_bytes = first, row_bytes

    def room(self, n_rows: int) -> np.ndarray:
        """Return memory for rows and for what is read before and behind them: uint8."""
        n_bytes = -(-n_rows * self._row_bytes // BLOCK_BYTES) * BLOCK_BYTES + BLOCK_BYTES
        memory = np.empty(n_bytes + BLOCK_BYTES, np.uint8)
        first = -memory.ctypes.data % BLOCK_BYTES
        return memory[first : first + n_bytes]

    def read(self, begin: int, end: int, room: np.ndarray) -> np.ndarray:
        """Return the rows from ``begin`` to ``end``, exclusive, which lie in ``room``: uint8, shape
        (n_rows, row_bytes)."""
        n_bytes = (end - begin) * self._row_bytes
        first = self._first + begin * self._row_bytes
        skipped = first % BLOCK_BYTES
        n_read, n_wanted = 0, skipped + n_bytes
        n_in_blocks = -(-n_wanted // BLOCK_BYTES) * BLOCK_BYTES
        while True:
            part = room[n_read:n_in_blocks].data
            n = read_at(self._descriptor, part, first - skipped + n_read)
            if n_read + n >= n_wanted:
                break
            if n < BLOCK_BYTES:
                raise OSError(
                    f"{self._path} has become shorter while its rows were read: it ends before "
                    f"row {end:,}. Make the table again with BinnedTable.from_batches."
                )
            n_read += n - n % BLOCK_BYTES
        return room[skipped:n_wanted].reshape(-1, self._row_bytes)


@contextmanager
def _opened(rows: np.ndarray) -> Iterator[RowsFile | None]:
    """Open the file that rows are mapped from; None if they are in memory, if its name is that of
    another file by now, or if this system cannot read it so."""
    mapped = _mapped_of(rows)
    descriptor = None if mapped is None else _descriptor_of(mapped)
    if mapped is None or descriptor is None:
        yield None
        return
    first = mapped.offset + rows.ctypes.data - mapped.ctypes.data
    try:
        yield RowsFile(descriptor, str(mapped.filename), first, rows.strides[0])
    finally:
        os.close(descriptor)


def _mapped_of(rows: np.ndarray) -> MappedArray | None:
    """Return the array of a file that rows are a view of; None if there is none."""
    found: Any = rows
    while isinstance(found, np.ndarray) and not isinstance(found, MappedArray):
        found = found.base
    return found if isinstance(found, MappedArray) else None


def _descriptor_of(mapped: MappedArray) -> int | None:
    """Open the file of an array, past the system's cache where its file system has that; None where
    it cannot be read so."""
    for descriptor in descriptors_past_cache(str(mapped.filename)):
        if mapped.is_of(descriptor):
            return descriptor
        os.close(descriptor)
    return None


def _announcer(rows: np.ndarray) -> Callable[[int, int], None]:
    """Return a function that tells the system which rows of a mapped array a GPU reads next."""
    file = _mapped_file(rows)
    if file is None:
        return lambda begin, end: None
    first = rows.ctypes.data - np.frombuffer(file, np.uint8).ctypes.data
    row_bytes = rows.strides[0]
    return lambda begin, end: will_read(file, first + begin * row_bytes, first + end * row_bytes)


def _mapped_file(array: np.ndarray) -> mmap.mmap | None:
    """Return the mapping that holds an array; None if there is none."""
    base = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return base if isinstance(base, mmap.mmap) else None
