"""Parts of tables on GPUs: CuPy's arrays, and frames of cuDF, as dask-cudf has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed")

from gpuens import GradientBoostingRegressor
from gpuens.dask.collections import Part, joined, length_of, rows_of
from gpuens.kernels.runtime.collective import Alone, Workers, sharing
from tests.cluster.test_shared_rows import TARGETS, X
from tests.support import cudf_stand_in, strict_cupy

N = 2_000
TABLE, Y = np.nan_to_num(X[:N, :3]), TARGETS["reg"][:N]
CUTS = ((0, 700), (700, 900), (900, N))


def arrays(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> list[Part]:
    return [Part(cupy.asarray(TABLE[a:b]), cupy.asarray(Y[a:b]), None) for a, b in CUTS]


def frames(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> list[Part]:
    cudf = cudf_stand_in.install(monkeypatch)
    names = [f"x{k}" for k in range(3)]
    return [
        Part(cudf.DataFrame(dict(zip(names, TABLE[a:b].T, strict=True))), cudf.Series(Y[a:b]), None)
        for a, b in CUTS
    ]


@pytest.mark.parametrize("parts_of", [arrays, frames])
def test_they_are_divided_and_joined_there(parts_of, cupy, monkeypatch):
    first, second, third = parts_of(cupy, monkeypatch)
    assert [length_of(part, k) for k, part in enumerate((first, second, third))] == [700, 200, 1100]
    whole = joined([rows_of(first, 0, 300), rows_of(first, 300, 700), second, third])
    plain = GradientBoostingRegressor(n_estimators=3, device="cpu").fit(TABLE, Y)
    with sharing(Workers(Alone(), 0, N, N)):
        model = GradientBoostingRegressor(n_estimators=3).fit(whole.X, whole.y)
    assert {gpu for gpu, _ in strict_cupy.log().places} == {0}
    assert model.forest_.fingerprint() == plain.forest_.fingerprint()


def test_parts_in_two_places(cupy, monkeypatch):
    first, second, _ = arrays(cupy, monkeypatch)
    with pytest.raises(TypeError, match="must be on its GPU, or all in the memory of the host"):
        joined([first, second._replace(X=TABLE[700:900])])
