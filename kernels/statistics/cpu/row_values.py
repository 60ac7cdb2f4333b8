"""Values of a formula (contract: ``kernels.statistics.row_values``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime.compilation import kernel
from ...runtime.cpu.team import run, threads_for
from ...scalars.losses import value
from .custom import compiled_for


@kernel
def _worker(thread, n_threads, barrier, loss, y, raw, shift, out):
    n = raw.size
    begin, end = n * thread // n_threads, n * (thread + 1) // n_threads
    if shift.size == 0:
        for i in range(begin, end):
            out[i] = value(loss, y[i], raw[i])
    else:
        for i in range(begin, end):
            out[i] = value(loss, y[i], raw[i] - shift[i])


def row_values(loss: Any, y: Any, raw: Any, shift: Any) -> Any:
    out = np.empty(raw.shape[0])
    run(compiled_for(_worker, loss), threads_for(raw.size), loss, y, raw, shift, out)
    return out
