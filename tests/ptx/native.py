"""The part of the machine that runs beside a compiled kernel: blocks, barriers, thread orders.

Compiled by Numba, because a launch has millions of turns: blocks one after another, and in a block
all threads, in the order chosen, from one barrier to the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from .context import DONE, RAN_AWAY, Word

ORDERS = ("plain", "reversed", "turning", "random")
PLAIN, REVERSED, TURNING, RANDOM = range(4)

ENDED, DIVERGED, STOPPED = 0, 1, 2
"""How a launch ended."""

W_THREADS_X, W_THREADS_Y = int(Word.THREADS_X), int(Word.THREADS_Y)
W_BLOCKS_X, W_BLOCKS_Y = int(Word.BLOCKS_X), int(Word.BLOCKS_Y)
W_BLOCK_X, W_BLOCK, W_THREAD_X, W_THREAD = (
    int(Word.BLOCK_X), int(Word.BLOCK), int(Word.THREAD_X), int(Word.THREAD)
)  # fmt: skip
W_EPOCH, W_BLOCK_EPOCH = int(Word.EPOCH), int(Word.BLOCK_EPOCH)


@intrinsic
def call_phase(typingctx: Any, phase: Any, context: Any, frame: Any, resume: Any) -> Any:
    """Call a compiled kernel by its address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        i64, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
        function = ir.FunctionType(i64, [pointer, pointer, i64]).as_pointer()
        address, of_context, of_frame, point = arguments
        return builder.call(
            builder.inttoptr(address, function),
            [builder.inttoptr(of_context, pointer), builder.inttoptr(of_frame, pointer), point],
        )

    return types.int64(types.int64, types.int64, types.int64, types.int64), generate


@njit(cache=True)
def draw(state: Any) -> int:
    """Advance a generator (xorshift64*, Vigna 2016), and return 31 bits."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return np.int64((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33))


@njit(cache=True)
def arrange(order: int, turn: int, sequence: Any, state: Any) -> None:
    """Write the sequence in which the threads take their turns."""
    n = sequence.size
    if order == RANDOM:
        for i in range(n - 1, 0, -1):
            j = (draw(state) * (i + 1)) >> 31
            sequence[i], sequence[j] = sequence[j], sequence[i]
    elif order == TURNING:
        for i in range(n):
            sequence[i] = (i + turn * 37) % n


@njit(cache=True)
def run_blocks(
    phase: int,
    context: Any,
    blocks: Any,
    frames: Any,
    points: Any,
    order: int,
    seed: int,
) -> tuple[int, int]:
    """Run blocks, and return how that ended and in which block.

    Parameters
    ----------
    phase : int
        The address of the kernel.
    context : int64 array
        See ``context.Word``.
    blocks : int64 array
        The numbers of the blocks.
    frames : uint8 array of shape (threads, bytes)
    points : int64 array of length threads
        Where each thread is: the result of ``phase``. On a divergence it remains as it was.
    order, seed : int
        The order of the threads.
    """
    n = points.size
    at_context = context.ctypes.data
    state = np.array([np.uint64(seed) * np.uint64(2) + np.uint64(0x9E3779B97F4A7C15)])
    sequence = np.arange(n)
    if order == REVERSED:
        sequence = sequence[::-1].copy()
    in_a_row = context[W_THREADS_X] == n  # as all blocks of gpuens are
    first_frame, frame_bytes = frames.ctypes.data, frames.shape[1]
    for block in blocks:
        set_block(context, block)
        points[:] = 0
        context[W_EPOCH] += 1
        context[W_BLOCK_EPOCH] = context[W_EPOCH]
        running, turn = True, 0
        while running:
            arrange(order, turn, sequence, state)
            reached = DONE
            running = False
            diverged = False
            for t in sequence:
                if turn > 0 and points[t] == DONE:
                    continue
                if in_a_row:
                    context[W_THREAD] = context[W_THREAD_X] = t
                else:
                    set_thread(context, t)
                point = call_phase(phase, at_context, first_frame + t * frame_bytes, points[t])
                points[t] = point
                if point == RAN_AWAY:
                    return STOPPED, block
                if point != DONE:
                    running = True
                    diverged = diverged or (reached != DONE and reached != point)
                    reached = point
            if diverged:
                return DIVERGED, block
            context[W_EPOCH] += 1
            turn += 1
    return ENDED, -1


@njit(cache=True)
def set_block(context: Any, block: int) -> None:
    context[W_BLOCK] = block
    rest = block // context[W_BLOCKS_X]
    context[W_BLOCK_X] = block % context[W_BLOCKS_X]
    context[W_BLOCK_X + 1] = rest % context[W_BLOCKS_Y]
    context[W_BLOCK_X + 2] = rest // context[W_BLOCKS_Y]


@njit(cache=True)
def set_thread(context: Any, thread: int) -> None:
    context[W_THREAD] = thread
    rest = thread // context[W_THREADS_X]
    context[W_THREAD_X] = thread % context[W_THREADS_X]
    context[W_THREAD_X + 1] = rest % context[W_THREADS_Y]
    context[W_THREAD_X + 2] = rest // context[W_THREADS_Y]
