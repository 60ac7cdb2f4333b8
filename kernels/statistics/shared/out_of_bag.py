"""Out-of-bag sums of a share of the rows (contract: ``kernels.statistics.out_of_bag``). The errors
and numbers of rows that are returned are those of all rows."""

from __future__ import annotations

import numpy as np

from ...runtime.arrays import Array
from ...runtime.collective import current_share, halved
from ..cpu.out_of_bag import add_to_chunks

__all__ = ["add_out_of_bag"]


def add_out_of_bag(
    leaf: Array, value: Array, truth: Array, begin: Array, sums: Array, n_models: Array
) -> tuple[Array, Array]:
    share = current_share()
    assert share is not None
    errors, n_new = add_to_chunks(leaf, value, truth, begin, sums, n_models)
    total = n_new.sum(axis=0)
    share.collective.add(total)
    return halved(np.concatenate(share.collective.gather(errors))), total
