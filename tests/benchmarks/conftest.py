"""Running programs with a folder of their own, and small tables under the names of real ones."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.common import peers
from gpuens.datasets import make_higgs_like


@pytest.fixture
def run(tmp_path):
    """Run a program; returns the content of the file that it wrote."""

    def run(program, *options, code=0):
        folder = tmp_path / "results"
        assert program.main(["--output", str(folder), *map(str, options)]) == code
        (path,) = folder.glob("*.json")
        return json.loads(path.read_text())

    return run


@pytest.fixture
def write_table(tmp_path):
    """Write a table of 240 rows and five features, unless told otherwise."""
    folder = tmp_path / "tables"
    folder.mkdir()
    X, y = make_higgs_like(240, 5)

    def write_table(name, **arrays):
        test = np.arange(len(arrays.get("X", X))) % 3 == 0
        np.savez(folder / f"{name}.npz", **{"X": X, "y": y, "is_test": test, **arrays})
        return folder

    write_table.X, write_table.y, write_table.folder = X, y, folder
    return write_table


@pytest.fixture
def only_libraries(monkeypatch):
    """Let only some libraries seem installed."""

    def only(*names):
        monkeypatch.setattr(peers, "installed", lambda asked: [n for n in asked if n in names])

    return only
