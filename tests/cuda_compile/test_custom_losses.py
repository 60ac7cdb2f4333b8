"""Custom losses compile for CUDA; what the documentation says about products and sums holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from numba import config, types

if config.ENABLE_CUDASIM:
    pytest.skip("compiling needs a process without the simulator", allow_module_level=True)
pytest.importorskip("numba_cuda")

from numba.cuda import compile_ptx, dispatcher

from gpuens.kernels import catalogue
from gpuens.kernels.statistics.cuda.gradients import gradients_kernel, row_values_kernel
from gpuens.losses import CustomLoss, exp, log, mul, sigmoid, softplus

TWO = "0d4000000000000000"
ARGUMENTS = {entry.name: entry.arguments for entry in catalogue.entries()}


@pytest.fixture(autouse=True)
def no_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compiling a function that a kernel calls asks for the device, to no avail."""
    device = SimpleNamespace(compute_capability=(9, 0), id=0)
    monkeypatch.setattr(dispatcher, "get_current_device", lambda: device)
    yield


def fused(loss: CustomLoss) -> list[tuple[str, str]]:
    """The factors of products that are fused with a sum and are not exact, as twice a number is."""
    factors = re.findall(r"\bfma\.rn\.f64\s+\S+, (\S+), (\S+), \S+;", ptx_of(loss))
    return [pair for pair in factors if TWO not in pair]


def ptx_of(loss: CustomLoss) -> str:
    cls = type(loss.formula(0))
    kernels = {
        "gradients_SquaredError": gradients_kernel(cls),
        "row_values_SquaredError": row_values_kernel(cls),
    }
    return "".join(
        compile_ptx(kernel.py_func, types.void(*ARGUMENTS[name]), cc=(9, 0))[0]
        for name, kernel in kernels.items()
    )


def test_offered_functions_are_not_fused():
    def value(y, score):
        return softplus(score) - mul(y, score) + log(exp(score) + 1.0)

    def gradient(y, score):
        total = 0.0
        for k in range(3):
            total += mul(sigmoid(score), y) if score > k else score / 3.0
        return total

    def hessian(y, score):
        return score > 0.0

    assert fused(CustomLoss(value, gradient, hessian)) == []


def test_plain_products_are():
    """Why the documentation asks for ``mul``."""

    def value(y, score):
        return y * score + score

    assert fused(CustomLoss(value, lambda y, score: score - y))
