"""The measurement of operations on a GPU, and its floors."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np

from benchmarks.kernels import cases as kernels_cases
from benchmarks.kernels import devices as kernels_devices
from benchmarks.kernels import kernels


class Event:
    def record(self):
        self.at = time.perf_counter()

    def synchronize(self):
        pass


def elapsed(a, b):
    return 1e3 * (b.at - a.at)


def with_clock(cupy):
    """CuPy as far as the measurement uses it."""
    cuda = SimpleNamespace(Event=Event, get_elapsed_time=elapsed)
    return SimpleNamespace(asarray=cupy.asarray, zeros=cupy.zeros, cuda=cuda)


def test_every_operation_runs(host, monkeypatch, capsys):
    monkeypatch.setattr(kernels_cases, "NODES", 4)
    monkeypatch.setattr(kernels_cases, "DEPTH", 2)
    monkeypatch.setattr(kernels_devices, "MOST_COPIED", 2**10)
    monkeypatch.setattr(kernels, "MOST_COPIED", 2**10)
    monkeypatch.setattr(kernels, "WARM_UP", 0)
    device = kernels_devices.OnGpu(with_clock(host.cupy))
    monkeypatch.setattr(device, "updates_per_second", lambda: 1e9)
    options = SimpleNamespace(rows=[70], features=3, trees=2, repeats=1)
    found = kernels.measure_device(device, options)
    assert found["gaps"] == []
    names = [row["op"].split(",")[0] for row in found["ops"].values()]
    assert names == [
        "bin_values", "gradients", "quantise", "histogram", "histogram", "split", "partition",
        "partition", "traverse_codes", "scatter_leaves", "leaf_sums", "add_leaf_values",
        "linear_sums", "add_linear_values", "traverse", "probabilities", "grow_cart",
    ]  # fmt: skip
    root = found["ops"]["histogram, a root; 70 × 3"]
    assert root["updates"] == 2 * 70 * 3  # g and h apart
    assert "GPU:" in capsys.readouterr().out


def test_the_additions_of_the_floor(host):
    """Against the same random words in Python."""
    from gpuens.kernels.runtime.cuda.target import launch

    add, block = kernels_devices.shared_memory_kernel()
    out = host.cupy.zeros(128, np.int32)
    launch(add, out.size, block, 3, out)
    out = out.get()
    for number in range(2):
        hits = 0
        for state in range(number * block + 1, (number + 1) * block + 1, 32):  # the first lanes
            for _ in range(3):
                state ^= (state << 13) & 0xFFFFFFFF
                state ^= state >> 17
                state ^= (state << 5) & 0xFFFFFFFF
                hits += sum((state >> 8 * k) & 31 == 0 for k in range(4))
        assert out[number] == hits
