"""Programs of ``gpu_check`` with the machine in the place of a GPU."""

from __future__ import annotations

import json

import pytest

from benchmarks.gpu import gpu_data, gpu_unknowns
from benchmarks.programs import fit, kernels


@pytest.fixture
def run(host, tmp_path):
    def run(program, options, code=0):
        assert program.main(["--output", str(tmp_path), *options.split()]) == code
        (path,) = tmp_path.glob("*.json")
        return json.loads(path.read_text())["results"]

    return run


def test_what_is_unknown_of_a_gpu(run, host, monkeypatch):
    for name, value in {"SMALL": (1, 50), "CALLS": 1, "SMALL_TREES": 2}.items():
        monkeypatch.setattr(gpu_data, name, value)
    parts = "zero_size launch atomics kernels_of_a_tree into_gpu by_chunks"
    parts += " small_predictions"
    options = f"--only {parts} --launches 2 --rounds 2"
    found = run(gpu_unknowns, f"{options} --rows 900 --depth 3 --trees 2 --repeats 1")
    assert list(found["small_predictions"]["microseconds"]) == ["1 rows", "50 rows"]
    assert len(found["zero_size"]["equal"]) == 2 and all(found["zero_size"]["equal"].values())
    assert len(found["atomics"]["equal"]) == 6 and all(found["atomics"]["equal"].values())
    assert len(found["launch"]["microseconds"]) == 6
    kernels = found["kernels_of_a_tree"]["kernels"]
    names = ("open_roots", "open_nodes", "choose_nodes")
    assert [kernels[name]["launches"] for name in names] == [1, 2, 3]
    data = found["into_gpu"]
    assert data["equal"] == {"cut points": True, "bins": True} and len(data["ms"]) == 5
    chunks = found["by_chunks"]
    assert len(chunks["equal"]) == 4 and all(chunks["equal"].values())
    assert [name.partition(" (")[2] for name in chunks["ms"]][1:] == [
        f"{n} rows, streamed: True)" for n in (900, 452, 0)
    ]
    assert {"write_sizes", "with_twenty", "add_pairs", "spin"} <= {
        launch.name for launch in host.launches
    }


def test_a_training_has_the_fingerprint_of_the_cpu(run):
    found = run(
        fit, "--device cuda --with-cpu --only 1m --rows 700 --trees 2 --depth 4 --repeats 1"
    )
    row = found["1m"]
    assert row["equal"] == {"CPU and GPU": True}
    assert {"gpuens", "gpuens on the CPU"} <= set(row["libraries"])


def test_operations_inside_a_fit_are_timed(run):
    found = run(kernels, "--only gpu --rows 300 --features 4 --trees 2 --repeats 1")["gpu"]
    fit_of, predict = (found["models"]["boosting"][part] for part in ("fit", "predict"))
    assert fit_of["growth.grow"][1] == 2 and "prediction.traverse" in predict
    assert all(seconds <= fit_of["all"][0] for seconds, _ in fit_of.values())
