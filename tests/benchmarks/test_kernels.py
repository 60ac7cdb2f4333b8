"""The measurement of operations: what it counts, its clocks, and what it writes."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.kernels import cases as kernels_cases
from benchmarks.kernels import devices as kernels_devices
from benchmarks.kernels import kernels
from benchmarks.kernels.cases import Case, cases
from benchmarks.kernels.devices import OnCpu, OnGpu

N, F = 3000, 11


@pytest.fixture(scope="module")
def by_op():
    """Every case of a small table, called once."""
    place = OnCpu(2)
    found = {}
    with place.active():
        for case in cases(N, F, 4, place):
            if case.prepare is not None:
                case.prepare()
            found[case.op] = (case, case.call())
    return found


def test_bytes_are_those_of_the_arguments_and_results(by_op):
    case, codes = by_op["bin_values"]
    X, _ = case.call.args
    assert case.bytes == X.nbytes + codes.rows.nbytes + codes.columns.nbytes
    case, _ = by_op["gradients, log loss"]
    _, y, raw, _, _, g, h = case.call.args
    assert case.bytes == sum(array.nbytes for array in (y, raw, g, h))
    case, made = by_op["quantise"]
    assert case.bytes == sum(a.nbytes for a in (*case.call.args[:2], made.words))
    case, sums = by_op["histogram, a root"]
    codes, records, begin, _ = case.call.args
    assert case.bytes == codes.rows.nbytes + records.nbytes + sums.nbytes and begin.size == 2
    case, _ = by_op["split, 64 nodes"]
    assert case.bytes == case.call.args[0].nbytes
    case, _ = by_op["probabilities, 2 classes"]
    assert case.bytes == case.call.args[0].nbytes + by_op["probabilities, 2 classes"][1].nbytes
    case, _ = by_op["traverse, 4 trees of depth 6"]
    _, X, raw = case.call.args
    assert case.bytes == X.nbytes + 2 * raw.nbytes


def test_additions_are_those_that_the_sums_hold(by_op):
    for op, share in (("histogram, a root", 1), ("histogram, 32 nodes, rows gathered", 0.5)):
        case, _ = by_op[op]
        _, _, begin, end = case.call.args
        assert case.updates == (end - begin).sum() * F == share * N * F


def test_the_arguments_are_those_of_training(by_op):
    codes = by_op["bin_values"][1]
    assert np.bincount(codes.columns[0], minlength=255).min() > 0
    best = by_op["split, 64 nodes"][1]
    assert np.isfinite(best.score).all() and (best.feature >= 0).all()
    left = by_op["partition, a root"][1]
    assert 0.4 * N < left[0] < 0.6 * N
    leaf = by_op["traverse_codes, depth 6"][0].call.args[-1]
    assert set(leaf) == set(range(63, 127))
    tree = by_op["grow_cart, a root of 2 classes"][1]
    assert tree.feature.size == 3 and tree.statistics[0, 0] >> 36 > 0.4 * N
    case, _ = by_op["scatter_leaves, 64 leaves"]
    assert case.bytes == N * (8 + 64)  # every row is in a line of its own


class Still:
    """A device whose clock says what it is told."""

    name = "CPU"

    def __init__(self, *seconds):
        self.told = iter(seconds)

    def seconds(self, call):
        call()
        return next(self.told)

    def copy_seconds(self, n_bytes):
        return n_bytes / 1000


def test_the_floor_is_the_longer_of_two_times():
    ran = []
    case = Case("op", lambda: ran.append("op"), 500, 40, lambda: ran.append("prepared"))
    row = kernels.measure(case, Still(9, 9, 2, 1, 4), rate=100, repeats=3)
    assert ran == ["prepared", "op"] * 5
    assert row["seconds"] == [2, 1, 4] and row["median"] == 2 and row["spread"] == [1, 4]
    assert row["floor"] == 0.5 and row["share"] == 0.25
    row = kernels.measure(case, Still(9, 9, 2), rate=10, repeats=1)
    assert row["floor"] == 4 and row["share"] == 2


def test_the_additions_of_the_floor_are_made():
    add = kernels_devices.adding()
    words = np.array([0x0706050403020100, 0x0706050403020100], np.uint64)
    histogram = np.zeros(8 * 264, np.int64)
    add(words, 4, histogram)
    assert histogram[[k * 264 + k for k in range(8)]].tolist() == [12] * 8  # 2 (0 + 1 + 2 + 3)
    assert np.count_nonzero(histogram) == 8
    assert OnCpu(2).updates_per_second(rounds=20) > 0
    assert OnCpu(2).copy_seconds(1000) > 0


def test_kernels(tmp_path, capsys):
    options = "--rows 300 --features 5 --trees 2 --repeats 2 --threads 1".split()
    assert kernels.main(["--output", str(tmp_path), *options]) == 0
    (path,) = tmp_path.glob("kernels-*.json")
    results = json.loads(path.read_text())["results"]
    ops = results["cpu"]["ops"]
    assert {"bin_values", "gradients, log loss", "quantise", "histogram, a root"} <= {
        row["op"] for row in ops.values()
    }
    for row in ops.values():
        assert row["size"] == "300 × 5" and len(row["seconds"]) == 2 and row["floor"] > 0
    assert results["cpu"]["gaps"] == []
    out = capsys.readouterr().out
    assert "| operation | ms |" in out
    if "ops" not in results["gpu"]:
        assert results["gpu"]["gaps"][0].startswith("kernels on a GPU: ")


def test_an_operation_that_fails_is_named(monkeypatch, tmp_path, capsys):
    def some(*args):
        yield Case("works", lambda: None, 10)
        yield Case("fails", lambda: 1 / 0, 10)

    monkeypatch.setattr(kernels, "cases", some)
    assert (
        kernels.main(["--output", str(tmp_path), *"--only cpu --rows 9 --repeats 1".split()]) == 0
    )
    (path,) = tmp_path.glob("*.json")
    part = json.loads(path.read_text())["results"]["cpu"]
    assert list(part["ops"]) == ["works; 9 × 28"]
    assert part["gaps"] == ["fails; 9 × 28 on the CPU: division by zero"]


def test_a_gpu_is_timed_by_its_events():
    """With a stand-in for CuPy whose clock goes on by 4 ms at every event."""
    clock = iter(range(0, 10_000, 4))

    class Event:
        def record(self):
            self.at = next(clock)

        def synchronize(self):
            assert self.at > 0

    cuda = SimpleNamespace(Event=Event, get_elapsed_time=lambda a, b: float(b.at - a.at))
    device = OnGpu(SimpleNamespace(asarray=np.array, zeros=np.zeros, cuda=cuda))
    ran = []
    assert device.seconds(lambda: ran.append(1)) == 0.004 and ran == [1]
    assert device.copy_seconds(1000) == 0.004
    most = 4 * kernels_devices.MOST_COPIED
    assert device.put(np.arange(3)).tolist() == [0, 1, 2] and most == 2**30


def test_segments_cover_everything():
    begin, end = kernels_cases.pieces(10, 3)
    assert begin.tolist() == [0, 3, 6] and end.tolist() == [3, 6, 10]
    assert kernels_cases.perfect_tree(np.random.default_rng(0), 2, 3)["left"].tolist() == [
        1, 3, 5, -1, -1, -1, -1]  # fmt: skip
