"""Small results for the host."""

from __future__ import annotations

import numpy as np

from gpuens.kernels.runtime.fetch import fetch


def test_values_are_those_of_when_they_were_sent_for(target, same):
    values = np.arange(6.0).reshape(2, 3)
    array = target.array(values)
    fetched = target.run(fetch, array)
    array[...] = array + 1.0
    same(fetched(), values)
    same(fetched(), values)
    assert type(fetched()) is np.ndarray
