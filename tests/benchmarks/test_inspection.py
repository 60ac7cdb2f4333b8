"""The measurement of inspection and diversity runs, and what it writes can be read."""

from __future__ import annotations

import json

import pytest

from benchmarks.__main__ import PROGRAMS
from benchmarks.programs import inspection

SMALL = (
    "--rows 300 --trees 3 --depth 4 --points 6 --points-of-two 3 --models 5 --repeats 2 --threads 1"
).split()


@pytest.mark.slow
def test_inspection(tmp_path, capsys):
    assert "inspection" in PROGRAMS
    assert inspection.main(["--output", str(tmp_path), *SMALL]) == 0
    (path,) = tmp_path.glob("*.json")
    results = json.loads(path.read_text())["results"]
    dependence = results["partial_dependence"]
    assert dependence["n_rows"] == 300 and dependence["n_trees"] == 3
    for name, points in (("one feature", 6), ("two features", 9)):
        part = dependence[name]
        assert part["points"] == points and part["at_most"] == 0.05
        libraries = part["libraries"]
        assert list(libraries) == ["gpuens", inspection.BRUTE, inspection.RECURSION]
        assert all(len(row["seconds"]) == 2 for row in libraries.values())
        assert part["reached"] == (libraries[inspection.BRUTE]["ratio"] <= 0.05)
    assert results["diversity"]["n_models"] == 5 and len(results["diversity"]["seconds"]) == 2
    out = capsys.readouterr().out
    assert "5 models, 300 rows" in out and "gpuens ÷ it" in out
