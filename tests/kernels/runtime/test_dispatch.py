"""The choice of the implementation that runs an operation."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from gpuens.kernels.runtime import dispatch
from gpuens.kernels.runtime.dispatch import Implementation, implementation, using


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A package whose operation ``both`` has a CPU file, and ``plain`` has none."""
    for folder, stems in {"reference": ("both", "plain"), "cpu": ("both",), "cuda": ()}.items():
        (tmp_path / "a_room" / folder).mkdir(parents=True)
        for stem in stems:
            (tmp_path / "a_room" / folder / f"{stem}.py").write_text(f"which = {folder!r}")
    (tmp_path / "a_room" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield "a_room"
    dispatch._module.cache_clear()


@pytest.mark.parametrize("op, chosen, runs", [
    ("both", Implementation.CPU, "cpu"), ("both", Implementation.CUDA, "reference"),
    ("both", Implementation.REFERENCE, "reference"), ("plain", Implementation.CPU, "reference"),
])  # fmt: skip
def test_without_a_file_of_its_own_an_implementation_runs_the_reference(room, op, chosen, runs):
    with using(chosen):
        assert implementation(f"{room}.{op}", np.zeros(1)).which == runs


def test_an_operation_without_any_file_is_an_error(room):
    with pytest.raises(ModuleNotFoundError, match="a_room.reference.nothing"):
        implementation(f"{room}.nothing", np.zeros(1))
