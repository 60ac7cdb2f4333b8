"""Codes of values by the cuts of a forest, on a CPU."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.kernels.prediction.cpu.cuts import N_SLOTS, code_values, cuts_of
from gpuens.kernels.runtime.compilation import callable_from_python
from gpuens.kernels.runtime.dtypes import MISSING

CASES = {
    "none": (np.array([]), 0),
    "one": (np.array([0.5]), 1),
    "twins": (np.array([0.25, 0.25, 0.25]), 2),
    "spaced evenly": (np.linspace(-3.0, 3.0, 254), 1),
    "spaced unevenly": (np.geomspace(0.1, 10.0, 200), 2),
    "in bunches": ((np.arange(0.0, 40.0)[:, None] + np.arange(6) * 1e-5).ravel(), 3),
    "over many magnitudes": (np.logspace(-30.0, 30.0, 150), 0),
    "next to each other": (1.0 + 2.0**-23 * np.arange(100.0), 2),
    "wider than the type": (np.array([-3e38, 0.0, 1.0, 3e38]), None),
    "with -inf": (np.array([-np.inf, 0.0, 2.0]), 0),
    "close to zero": (1e-45 * np.arange(1.0, 90.0), None),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_code_is_the_number_of_cuts_below(dtype):
    values = np.full((len(CASES), N_SLOTS), np.inf, dtype)
    n_cuts = np.array([len(cuts) for cuts, _ in CASES.values()])
    for line, (cuts, _) in zip(values, CASES.values(), strict=True):
        line[: len(cuts)] = np.sort(cuts)
    laid_out = cuts_of(values, n_cuts)
    code = callable_from_python(code_values)
    rng = np.random.default_rng(0)
    for f, (name, (_, steps)) in enumerate(CASES.items()):
        cuts = values[f, : n_cuts[f]]
        near = [np.nextafter(cuts, dtype(side)) for side in (-np.inf, np.inf)]
        more = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38], dtype)
        share = rng.random((20, max(0, cuts.size - 1))).astype(dtype)
        finite = np.where(np.isfinite(cuts), cuts, 0)
        between = (share * finite[1:] + (1 - share) * finite[:-1]).ravel()
        x = np.concatenate([cuts, *near, more, between])
        codes = np.empty(x.size, np.uint8)
        code(x, laid_out, f, np.empty(x.size, np.uint32), codes)
        expected = np.where(np.isnan(x), MISSING, np.searchsorted(cuts, x))
        np.testing.assert_array_equal(codes, expected, name)
        assert steps is None or laid_out.steps[f] == steps, name
