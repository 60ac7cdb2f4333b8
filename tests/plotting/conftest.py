"""Pictures are drawn without a screen, and closed after each test."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def closed_figures():
    plt = pytest.importorskip("matplotlib.pyplot")
    before = plt.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(before)
