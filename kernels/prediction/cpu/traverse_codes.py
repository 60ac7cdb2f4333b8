"""Leaves of binned rows (contract: ``kernels.prediction.traverse_codes``)."""

from __future__ import annotations

from typing import Any

from ...runtime.compilation import kernel
from ...runtime.cpu.team import run, threads_for
from ...runtime.dtypes import NO_SETS, Codes
from ...scalars.routing import code_goes_left, is_left_category


@kernel
def _worker(
    thread,
    n_threads,
    barrier,
    rows,
    feature,
    bin_,
    missing_left,
    left,
    right,
    left_codes,
    leaf,
):
    n = leaf.size
    for i in range(n * thread // n_threads, n * (thread + 1) // n_threads):
        if leaf[i] >= 0:
            continue
        node = 0
        while feature[node] >= 0:
            code = rows[i, feature[node]]
            goes_left = code_goes_left(code, bin_[node], missing_left[node] != 0)
            if bin_[node] < 0:
                goes_left = is_left_category(left_codes[node, code >> 5], code)
            node = left[node] if goes_left else right[node]
        leaf[i] = node


def traverse_codes(
    codes: Codes,
    feature: Any,
    bin_: Any,
    missing_left: Any,
    left: Any,
    right: Any,
    leaf: Any,
    left_codes: Any = NO_SETS,
) -> None:
    tree = (feature, bin_, missing_left, left, right, left_codes)
    run(_worker, threads_for(16 * leaf.size), codes.rows, *tree, leaf)
