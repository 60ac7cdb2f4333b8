"""The check of one access to memory, compiled by Numba: watched kernels call it by its address.

Addresses carry in their highest bits the array that they were computed from, so that an overrun is
one even where it meets another array. Beside the arrays lies their shadow, two 64-bit words for
each granule: its last write and its last reads, with the thread and the epoch, which counts
barriers. Two accesses to a granule are a race if one of them writes, not both are atomic, and they
come from two threads of a block between the same barriers, or from two blocks. This finds a race
in whichever order the threads take their turns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import cfunc, njit, types
from numba.extending import intrinsic

from .context import KINDS, SPACES, TAG, Word

GENERIC, SHARED, LOCAL = SPACES.index("generic"), SPACES.index("shared"), SPACES.index("local")
READ, WRITE, ATOMIC = range(len(KINDS))

START, END, SPACE, WRITABLE, SHIFT, CELLS, ORIGIN, WRITTEN = range(8)
"""Columns of the table of regions, by tag: bounds; space; whether it may be written; the logarithm
of the granule; the address of the shadow, and the address that its first cell is for (of local
memory: the bytes of a thread's frame); the address of the bytes that say what has been written."""
N_COLUMNS = 8
CELL = 16

FOREIGN, IS_ATOMIC, HAD_PLAIN = np.int64(1 << 31), np.int64(1 << 30), np.int64(1 << 29)
"""Flags of a shadow word: other blocks did the same; the last write was atomic; some write of the
launch was not."""
MANY = np.int64((1 << 29) - 1)
"""In place of the number of a thread: several threads."""
LOW = np.int64((1 << 32) - 1)

KIND, INSTRUCTION, BLOCK, THREAD, ARRAY, OFFSET, TIMES, OTHER = range(8)
"""Columns of the table of faults."""
MOST_FAULTS = 64
FAULT_FUEL = 1 << 22
"""Jumps backwards after the first fault: a loop may have lost its end."""
FAULTS = (
    "an address outside of all arrays",
    "out of bounds",
    "misaligned",
    "a write to a read-only array",
    "the wrong address space",
    "an uninitialised read",
    "a race",
)
WILD, OUTSIDE, MISALIGNED, READ_ONLY, WRONG_SPACE, UNINITIALISED, RACE = range(len(FAULTS))

W_REGIONS, W_FAULTS, W_N_FAULTS = int(Word.REGIONS), int(Word.FAULTS), int(Word.N_FAULTS)
W_N_REGIONS, W_SCRATCH, W_FUEL = int(Word.N_REGIONS), int(Word.SCRATCH), int(Word.FUEL)
W_EPOCH, W_BLOCK_EPOCH = int(Word.EPOCH), int(Word.BLOCK_EPOCH)
W_BLOCK, W_THREAD = int(Word.BLOCK), int(Word.THREAD)


def _memory(bits: int) -> tuple[Any, Any]:
    """Return functions that read and write an integer at an address."""

    @intrinsic
    def read(typingctx: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            return builder.zext(builder.load(pointer), ir.IntType(64)) if bits < 64 else (
                builder.load(pointer)
            )  # fmt: skip

        return types.int64(types.int64), generate

    @intrinsic
    def write(typingctx: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = arguments[1]
            builder.store(builder.trunc(value, ir.IntType(bits)) if bits < 64 else value, pointer)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return read, write


read_word, write_word = _memory(64)
read_byte, write_byte = _memory(8)


@njit(cache=True)
def report(context: Any, kind: int, instruction: int, array: int, offset: int, other: int) -> None:
    """Write a fault down, or count it where one like it has been."""
    n = context[W_N_FAULTS]
    for k in range(n):
        row = context[W_FAULTS] + 64 * k
        if read_word(row) == kind and read_word(row + 8 * INSTRUCTION) == instruction:
            write_word(row + 8 * TIMES, read_word(row + 8 * TIMES) + 1)
            return
    if n == 0:
        context[W_FUEL] = min(context[W_FUEL], FAULT_FUEL)
    if n < MOST_FAULTS:
        row = context[W_FAULTS] + 64 * n
        write_word(row, kind)
        write_word(row + 8 * INSTRUCTION, instruction)
        write_word(row + 8 * BLOCK, context[W_BLOCK])
        write_word(row + 8 * THREAD, context[W_THREAD])
        write_word(row + 8 * ARRAY, array)
        write_word(row + 8 * OFFSET, offset)
        write_word(row + 8 * TIMES, 1)
        write_word(row + 8 * OTHER, other)
        context[W_N_FAULTS] = n + 1


@njit(forceinline=True, cache=True)
def touch(cell: int, epoch: int, began: int, thread: int, kind: int, of_block: bool) -> int:
    """Enter an access into the shadow of a granule, and return what is wrong with it: -1, or the
    kind of the fault, and for a race 256 times the other thread added.

    ``began`` is the epoch in which the block began, and memory of the block has none earlier.
    """
    written, read = read_word(cell), read_word(cell + 8)
    if of_block:
        written = written if written >> 32 >= began else 0
        read = read if read >> 32 >= began else 0
    fault = UNINITIALISED if of_block and kind != WRITE and written == 0 else -1
    writer, reader = written & MANY, read & MANY
    wrote_now, read_now = written >> 32 == epoch, read >> 32 == epoch
    wrote_abroad = written != 0 and (written >> 32 < began or written & FOREIGN != 0)
    read_abroad = read != 0 and (read >> 32 < began or read & FOREIGN != 0)
    of_other = wrote_now and writer != thread
    if kind == ATOMIC:
        races = of_other and written & IS_ATOMIC == 0
        races = races or (wrote_abroad and written & HAD_PLAIN != 0)
    else:
        races = of_other or wrote_abroad
    if races:
        fault = RACE + 256 * writer
    if kind == READ:
        value = MANY if read_now and reader != thread else thread
        write_word(cell + 8, epoch << 32 | value | (FOREIGN if read_abroad else 0))
        return fault
    if read_abroad or (read_now and reader != thread):
        fault = RACE + 256 * reader
    flags = (FOREIGN if wrote_abroad else 0) | (written & HAD_PLAIN)
    value = thread
    if kind == WRITE:
        flags |= HAD_PLAIN
    else:
        if not (wrote_now and writer == thread and written & IS_ATOMIC == 0):
            flags |= IS_ATOMIC
        if of_other:
            value = MANY
    write_word(cell, epoch << 32 | flags | value)
    return fault


@njit(forceinline=True, cache=True)
def follow(
    context: Any, row: int, tag: int, real: int, instruction: int, width: int, kind: int
) -> None:
    """Check an access within bounds for reads of what nobody has written and for races."""
    offset = real - read_word(row + 8 * START)
    bytes_written = read_word(row + 8 * WRITTEN)
    if bytes_written != 0:
        missing = False
        for k in range(bytes_written + offset, bytes_written + offset + width):
            if kind == WRITE:
                write_byte(k, 1)
            elif read_byte(k) == 0:
                missing = True
        if missing:
            report(context, UNINITIALISED, instruction, tag, offset, -1)
    shift = read_word(row + 8 * SHIFT)
    of_block = read_word(row + 8 * SPACE) == SHARED
    first = (real - read_word(row + 8 * ORIGIN)) >> shift
    last = (real + width - 1 - read_word(row + 8 * ORIGIN)) >> shift
    cells = read_word(row + 8 * CELLS)
    for k in range(first, last + 1):
        fault = touch(
            cells + CELL * k, context[W_EPOCH], context[W_BLOCK_EPOCH], context[W_THREAD], kind,
            of_block,
        )  # fmt: skip
        if fault >= 0:
            other = fault >> 8 if fault & 255 == RACE else -1
            report(context, fault & 255, instruction, tag, offset, other)


@cfunc(
    types.int64(
        types.CPointer(types.int64), types.int64, types.int64, types.int64, types.int64, types.int64
    ),
    cache=True,
)
def check(context: Any, address: int, instruction: int, width: int, space: int, kind: int) -> int:
    """Check an access, and return where it shall go: to its address without the tag, or if that is
    not possible to scratch memory.

    Parameters
    ----------
    context : pointer to int64
        See ``context.Word``.
    address, instruction, width : int
        The address with its tag, the number of the instruction, and the bytes.
    space, kind : int
        Numbers in ``context.SPACES`` and ``context.KINDS``.
    """
    tag, real = (address >> TAG) & 0xFFFF, address & ((1 << TAG) - 1)
    if tag == 0 or tag >= context[W_N_REGIONS]:
        report(context, WILD, instruction, 0, real, -1)
        return context[W_SCRATCH]
    row = context[W_REGIONS] + 8 * N_COLUMNS * tag
    start, end = read_word(row), read_word(row + 8 * END)
    own_space = read_word(row + 8 * SPACE)
    if own_space == LOCAL:
        moved = context[W_THREAD] * read_word(row + 8 * ORIGIN)
        start, end = start + moved, end + moved
    if space not in (GENERIC, own_space):
        report(context, WRONG_SPACE, instruction, tag, real - start, -1)
        return context[W_SCRATCH]
    if real < start or real + width > end:
        report(context, OUTSIDE, instruction, tag, real - start, -1)
        return context[W_SCRATCH]
    if real & (width - 1) != 0:
        report(context, MISALIGNED, instruction, tag, real - start, -1)
        return context[W_SCRATCH]
    if own_space == LOCAL:
        return real
    if kind != READ and read_word(row + 8 * WRITABLE) == 0:
        report(context, READ_ONLY, instruction, tag, real - start, -1)
        return context[W_SCRATCH]
    follow(context, row, tag, real, instruction, width, kind)
    return real
