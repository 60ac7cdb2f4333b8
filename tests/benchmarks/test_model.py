"""The model of GPUs: its arithmetic on launches made up, and a tiny fit on the PTX machine."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("numba_cuda")

from benchmarks.common.records import FORMAT
from benchmarks.model import (
    calls,
    expected,
    figures,
    gpu_model,
    groups,
    launcher,
    layouts,
    pays,
    profile,
    summary,
    times,
)
from benchmarks.model.cards import (
    ATOMIC_PASS,
    LAUNCH_GAP,
    LINES_AHEAD,
)
from benchmarks.model.cases import Case
from benchmarks.model.large_nodes import (
    Levels,
    levels_of,
    part_of,
    with_large_nodes,
    without_huge,
)
from benchmarks.model.launches import Launch, Work, extrapolated, line, scaled
from gpuens.devices.cards import (
    CARDS,
    COPY_SHARE,
    HOST_COPY,
    LAUNCH,
    OTHER_CALL,
    PREDICTION,
)
from gpuens.kernels.cart.problem import MOST_LARGE
from tests.ptx.costs import Linked
from tests.ptx.counts import Counts

H100, A10 = CARDS["H100"], CARDS["A10"]
CODE = Linked(registers=32, instructions=100, integer_share=0.5, scale=1.0)
NO_COUNTS = Counts(*(0.0 for _ in Counts._fields))
CLOCKS = 132 * 1.98e9
"""Of an H100, all multiprocessors together, a second."""


@pytest.fixture(autouse=True)
def _linked(monkeypatch):
    monkeypatch.setattr(times, "linked", lambda ptx, architecture: CODE)


def launch(kernel="add_tiles", blocks=1056.0, threads=256, cycles=0.0, longest=0.0, **counts):
    return Launch(
        kernel, "ptx", blocks, threads, 0, NO_COUNTS._replace(**counts), {},
        dict.fromkeys(("data center", "RTX"), cycles),
        dict.fromkeys(("data center", "RTX"), longest),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("counts", "resource", "clocks"),
    [
        ({"issued": 4e6}, "issue", 1e6),
        ({"float64": 1e6}, "float64", 0.5e6),
        ({"convert": 1e6}, "convert", 2e6),
        ({"shared_passes": 1e6}, "shared", 1e6),
        ({"atomic_passes": 1e6}, "shared", ATOMIC_PASS * 1e6),
        ({"lines": 1e6}, "l1", 1e6),
    ],
)
def test_a_launch_takes_what_binds_it(counts, resource, clocks):
    time = times.time_of(launch(**counts), H100)
    assert time.binds == resource
    assert time.seconds == time.by_resource[resource] == pytest.approx(clocks / CLOCKS)


def test_float64_is_slow_on_cards_for_graphics():
    fast, slow = (times.time_of(launch(float64=1e6), card) for card in (H100, A10))
    assert slow.seconds / fast.seconds == pytest.approx(32 * CLOCKS / (72 * 1.695e9))


def test_few_blocks_use_few_multiprocessors():
    one, all_ = (times.time_of(launch(blocks=n, issued=4e6), H100) for n in (1.0, 1056.0))
    assert one.seconds == pytest.approx(132 * all_.seconds)


def test_only_large_arrays_come_from_memory():
    arrays = {"table": (300e6, 1e6), "nodes": (1e6, 5e5)}
    large = replace(launch(), arrays=arrays)
    assert times.moved(large, H100) == 32e6
    seconds = times.time_of(large, H100).by_resource["memory"]
    assert seconds == pytest.approx(32e6 / (COPY_SHARE * 3350e9))
    assert times.moved(replace(launch(), arrays={"t": (20e6, 1e6)}), H100) == 0
    assert times.moved(replace(launch(), arrays={"t": (20e6, 1e6)}), A10) == 32e6


def test_blocks_at_once():
    small = launch(threads=256)
    assert times.blocks_at_once(small, H100, CODE) == 8  # threads
    assert times.blocks_at_once(small, A10, CODE) == 6
    assert times.blocks_at_once(small, H100, CODE._replace(registers=128)) == 2
    assert times.blocks_at_once(replace(small, shared_bytes=32 * 1024), A10, CODE) == 3


def test_latency():
    """Blocks share their places on the card, and none is faster than the slowest."""
    many = launch(blocks=10_000.0, cycles=132 * 8 * 1000.0, longest=100.0)
    assert times.latency(many, H100, CODE) == pytest.approx(1000 / 1.98e9)
    assert times.latency(replace(many, longest=many.cycles), H100, CODE) == pytest.approx(
        132 * 8 * 1000 / 1.98e9
    )


def test_code_is_fetched_before_anything_else():
    """800 instructions are 100 lines; an H100's second-level cache answers after 263 clocks."""
    clocks = 100 / LINES_AHEAD * 263
    time = times.time_of(replace(launch(longest=1e5), code=800.0), H100)
    assert (time.code, time.binds) == (pytest.approx(clocks / 1.98e9), "latency")
    assert time.seconds == pytest.approx((1e5 + clocks) / 1.98e9)
    assert times.time_of(replace(launch(longest=1.0), code=800.0), H100).binds == "code"
    few, more = (Work([replace(launch(), code=n)], Counter()) for n in (700.0, 800.0))
    (found,) = scaled(extrapolated(few, more, 3), 2.0).launches
    assert found.code == 800.0
    rows = summary.of(CASE, more)["rows"]
    assert rows[groups.CODE]["cards"]["H100"]["ms"] == pytest.approx(1e3 * clocks / 1.98e9)
    assert rows[groups.ROOT]["cards"]["H100"]["ms"] == rows[groups.CODE]["cards"]["H100"]["ms"]


def test_numbers_go_on_along_a_line():
    assert line(10.0, 16.0, 3) == 28.0
    assert line(10.0, 9.0, 3) == 10.0
    small = Work([launch(issued=10.0, cycles=8.0)], Counter(fill=2))
    large = Work([launch(blocks=2112.0, issued=16.0, cycles=16.0)], Counter(fill=2))
    (found,) = extrapolated(small, large, 3).launches
    assert (found.counts.issued, found.blocks) == (28.0, 1056 + 3 * 1056)
    assert found.cycles["RTX"] == 32.0
    (found,) = extrapolated(small, large, 3, over_nodes=["add_tiles"]).launches
    assert (found.counts.issued, found.blocks) == (16.0, 1056 + 3 * 1056)
    assert extrapolated(small, large, 3).others == {"fill": 2}
    (found,) = scaled(large, 2.0).launches
    assert (found.counts.issued, found.blocks, found.longest) == (
        32.0,
        4224,
        large.launches[0].longest,
    )


def test_the_slowest_block_shares_work_with_more_blocks():
    """12 cycles of each block, and 640 that the blocks share."""
    small, large = launch(blocks=32.0), launch(blocks=64.0)
    small.longest.update(RTX=12 + 640 / 32)
    large.longest.update(RTX=12 + 640 / 64)
    (found,) = extrapolated(Work([small], Counter()), Work([large], Counter()), 131).launches
    assert found.blocks == 4224
    assert found.longest["RTX"] == pytest.approx(12 + 640 / 4224)


def test_the_slowest_block_of_large_nodes_has_the_rows_of_the_whole_table():
    """Two levels with nodes of 2000 and 100 rows in the small fit, 10 cycles a row and 50 more; the
    third level is in the large fit alone, and the last launches have nothing to do."""
    small, large = np.array([2000, 100]), np.array([40_000, 3000, 200])
    launches, slowest = [], []
    for level in range(4):
        own = 50.0 + 10 * small[level] if level < 2 else 0.0
        wanted = 50.0 + 10 * min(large[level], MOST_LARGE) if level < 3 else own
        for kernel, is_large in (
            ("search_items", True), ("write_splits", True), ("write_splits", False),
            ("move_rows", False), ("move_rows", True),
        ):  # fmt: skip
            launches.append(launch(kernel, longest=own if is_large else 7.0))
            slowest.append(wanted if is_large else 7.0)
    found = with_large_nodes(Work(launches, Counter(), waits=4), small, large)
    assert [each.longest["RTX"] for each in found.launches] == pytest.approx(slowest)
    assert found.waits == 4


def test_launches_over_large_nodes_lack_the_rows_of_huge_ones():
    """The second of two launches of a round is over small nodes where splits are written."""
    kernels = ["search_items", "write_cuts", "write_cuts", "search_nodes"]
    launches = [launch(kernel, cycles=8.0, longest=2.0) for _ in range(3) for kernel in kernels]
    levels = Levels(np.array([40_000, 9000]), np.array([1.0, 0.25]))
    found = without_huge(Work(launches, Counter()), levels).launches
    assert [each.cycles["RTX"] for each in found] == [0, 0, 8, 8, 6, 6, 8, 8, 8, 8, 8, 8]
    assert [each.longest["RTX"] for each in found] == [0, 0, *[2] * 10]


def test_the_nodes_of_each_level():
    rows = np.array([40_000, 30_000, 10_000, 6000, 4000, 50_000, 15_000, 35_000])
    forest = SimpleNamespace(
        offset=np.array([0, 5, 8]),
        feature=np.array([0, -1, 0, -1, -1, 0, -1, -1]),
        left=np.array([1, -1, 3, -1, -1, 1, -1, -1]),
        right=np.array([2, -1, 4, -1, -1, 2, -1, -1]),
        n_samples=rows,
    )
    found = levels_of(forest)
    assert found.largest.tolist() == [50_000, 35_000, 6000]
    np.testing.assert_allclose(found.huge_share, [1.0, 65 / 90, 0.0])
    assert isinstance(found, Levels)
    part = part_of(launch(issued=8.0, cycles=4.0, longest=3.0), 0.25, 2.0)
    assert (part.counts.issued, part.cycles["RTX"], part.longest["RTX"]) == (2.0, 1.0, 6.0)
    assert part_of(launch(longest=3.0), 0.0, 2.0).longest["RTX"] == 0.0


def test_fits_with_different_launches_are_refused():
    one, two = Work([launch()], Counter()), Work([launch(), launch("open_nodes")], Counter())
    with pytest.raises(ValueError, match="open_nodes"):
        extrapolated(one, two, 3)


def test_blocks_of_all_rows_of_a_grid_are_sampled():
    assert profile.sampled((12, 1, 1)) == [0, 6]
    assert profile.sampled((1, 1, 1)) == [0]
    assert profile.sampled((4, 2, 1)) == [0, 2, 4, 6]
    assert profile.evenly(16, 4) == [0, 4, 8, 12]
    assert profile.evenly(2, 4) == [0, 1]


CASE = Case("Boosting, made up", 11_000_000, 28, lambda: Work([], Counter()))


@pytest.fixture
def result():
    launches = [
        launch("gradients_of_chunks", issued=CLOCKS * 4 * 0.2e-3),
        launch("open_nodes", blocks=1.0, longest=1.98e6),
        launch(shared_passes=CLOCKS * 0.5e-3, atomics=1e6),
        launch(atomic_passes=CLOCKS * 1e-3),
        launch("custom"),
    ]
    return summary.of(CASE, Work(launches, Counter(fill=3, wait=1)))


def test_launches_in_groups(result):
    rows = result["rows"]
    on_h100 = {name: row["cards"]["H100"] for name, row in rows.items()}
    assert on_h100[groups.ROOT]["ms"] == pytest.approx(0.5)
    assert on_h100[groups.LEVELS]["ms"] == pytest.approx(1.0 * ATOMIC_PASS)
    assert on_h100["control"] == {"ms": pytest.approx(1.0), "binds": "latency", "gb": 0.0}
    assert on_h100[groups.GAPS]["ms"] == pytest.approx(9 * LAUNCH_GAP * 1e3)
    assert on_h100["custom"]["ms"] == 0
    together = sum(row["ms"] for name, row in on_h100.items() if name not in groups.PARTS)
    assert result["cards"]["H100"]["device_ms"] == pytest.approx(together)
    host = result["cards"]["A10"]
    assert host["host_ms"] == pytest.approx((5 * LAUNCH + 4 * OTHER_CALL) * 1e3)


def content_of(result):
    return {
        "format": FORMAT, "benchmark": "gpu_model", "date": "2026-01-01T00:00:00+00:00",
        "machine": {}, "versions": {}, "settings": {}, "results": {groups.CHECKED: result},
    }  # fmt: skip


def test_the_tables(result, monkeypatch):
    monkeypatch.setattr(gpu_model, "NOTES", {"control": "because"})
    control = result["rows"]["control"]["cards"]["H100"]
    launches, check = gpu_model.show(content_of(result))
    assert "| histogram, root | 1 |" in launches
    assert "**" in launches
    assert "because" not in check
    goal, of_launches, *_ = gpu_model.goals(content_of(result))
    assert of_launches.measured is None
    assert goal.measured == 2  # the flush and the gaps are far below their estimates
    control["ms"] = 10.0
    assert "because" in list(gpu_model.show(content_of(result)))[1]


def test_what_is_asked(result):
    """The launches are those of ``result``: 5, of 0.2, 1, 0.5 and 2 ms on the device."""
    result["rows"][groups.LEVELS]["counts"] |= {"atomic_accesses": 1e6, "atomic_passes": 2e6}
    asked = {goal.what: goal for goal in figures.figures({groups.CHECKED: result})}
    found = {what: goal.measured for what, goal in asked.items() if goal.measured is not None}
    device = result["cards"]["H100"]["device_ms"]
    assert list(found.values()) == [
        5, device, pytest.approx(2.0), pytest.approx(100 / device), pytest.approx(2.0)
    ]  # fmt: skip
    assert len(asked) == 11
    (text,) = figures.show({groups.CHECKED: result})
    assert text.count("\n") == 1 + len(found)
    waiting = {figures.FOREST: result | {"n_waits": 3}}
    waits = [goal for goal in figures.figures(waiting) if "waits" in goal.what]
    assert [goal.reached for goal in waits] == [True]


def test_results_are_copied_to_the_host():
    work = Work([launch()], Counter(wait=1), waits=1, downloaded=24e9)
    result = summary.of(CASE, work)
    assert result["n_waits"] == 1
    on_h100 = result["rows"][groups.DOWNLOADED]["cards"]["H100"]
    assert on_h100 == {"ms": pytest.approx(1000.0), "binds": "memory of the host", "gb": 24.0}
    assert summary.downloaded_on(6.4e9, CARDS["T4"])["ms"] == pytest.approx(500.0)
    assert summary.downloaded_on(6.4e9, CARDS["T4"])["binds"] == "PCIe"
    assert scaled(work, 3.0).downloaded == 72e9


def test_what_is_expected_of_a_card(result, tmp_path):
    assert expected.expected("NVIDIA H200", groups.CHECKED, folder=tmp_path) is None
    path = tmp_path / "gpu_model-here-2026-01-01.json"
    path.write_text(json.dumps(content_of(result)))
    found = expected.expected("NVIDIA H100 80GB HBM3", groups.CHECKED, folder=tmp_path)
    assert found.device == pytest.approx(result["cards"]["H100"]["device_ms"] / 1e3)
    assert found.seconds == max(found.device, found.host)
    assert expected.card_of("NVIDIA GeForce RTX 4090") == "RTX 4090"
    assert expected.card_of("NVIDIA A100-SXM4-80GB") is None
    text = expected.beside("NVIDIA A10", {groups.CHECKED: 0.01, "1M": 1.0}, folder=tmp_path)
    assert text.count("\n") == 2
    assert expected.beside("NVIDIA T4", {groups.CHECKED: 0.01}, folder=tmp_path) == ""


def test_the_hosts_time_for_launches():
    found = launcher.measure(launches=4, repeats=1)
    assert {"grow_open_nodes", "partition_move"} <= set(found["microseconds"])
    assert all(row["all others"] > 0 for row in found["microseconds"].values())
    content = content_of({}) | {"results": {gpu_model.LAUNCHER: found}}
    n_arguments = found["microseconds"]["grow_open_nodes"]["arguments"]
    assert f"| grow_open_nodes | {n_arguments} | " in "".join(gpu_model.show(content))
    _, goal, *_ = gpu_model.goals(content)
    assert goal.measured == found["mean"]["two others"]


CORES = pays.Cores(
    setup=[(1e3, 1e-3), (1e7, 1.0)], cuts=[(1e3, 1e-3), (1e7, 1.0)],
    tree=[(1e3, 1e-3), (1e5, 1e-2), (1e7, 1.0)], row_tree=2e-9, n_features=28,
)  # fmt: skip


def cards(device_ms, host_ms=0.0):
    return {"H100": {"device_ms": device_ms, "host_ms": host_ms}}


RESULTS = {
    pays.SMALL: {"n_rows": 100_000, "cards": cards(1.0, 10.0)},
    pays.LARGE: {"n_rows": 11_000_000, "cards": cards(5.0)},
    pays.PREDICTED: {"n_rows": 10_000_000, "cards": cards(50.0)},
}


def test_from_which_size_a_card_pays():
    alone = pays.tree_from(RESULTS, CORES, "H100")
    assert alone == pytest.approx(1e5, rel=0.05)  # there the cores take the host's 10 ms
    warm = pays.fit_from(RESULTS, CORES, "H100", 100, 0.0)
    cold = pays.fit_from(RESULTS, CORES, "H100", 100, 1.0)
    assert alone <= warm < cold
    few = pays.fit_from(RESULTS, CORES, "H100", 10, 1.0)
    assert few > cold
    n = pays.predict_from(RESULTS, CORES, "H100", 100, 0.0)
    copied = (28 * pays.BYTES + pays.OUTPUT_BYTES) / HOST_COPY
    assert n * (100 * 2e-9 - copied - 100 * 1e-11) == pytest.approx(PREDICTION, rel=0.05)
    assert pays.predict_from(RESULTS, CORES, "H100", 1, 0.0) is None  # the copy takes longer


@pytest.mark.slow
def test_a_tiny_fit():
    """All launches of a round on the machine, with counts that follow from the table."""
    from benchmarks.model import cases

    work = cases.one_round(
        2, *tiny(np.random.default_rng(0)), {"max_depth": 1, "max_leaf_nodes": None}
    )
    kernels = Counter(each.kernel for each in work.launches)
    assert kernels["gradients_of_chunks"] == kernels["number_leaves"] == 1
    assert kernels["add_tiles"] == kernels["move_apart"] == 1
    root = next(each for each in work.launches if each.kernel == "add_tiles")
    # A warp adds g and h of ten rows of 3 features in a pass each, though one has a single bin.
    assert 2 * 300 / 10 <= root.counts.atomic_passes <= 2 * 300 / 8
    assert root.arrays["codes"][1] == 300 * 8 / 32
    assert root.counts.unseen == 0
    assert work.others["fill"] >= 2


def tiny(rng):
    X = rng.normal(size=(300, 3)).astype("f4")
    X[:, 2] = 1.0
    return X, (X[:, 0] + 0.1 * X[:, 1] > 0).astype(int)


def test_the_host_of_predictions(monkeypatch):
    monkeypatch.setattr(calls, "TREES", (3,))
    monkeypatch.setattr(calls, "CALLS", 2)
    monkeypatch.setattr(calls, "REPEATS", 1)
    found = calls.measure()
    assert len(found["microseconds"]) == 4
    for row in found["microseconds"].values():
        assert all(value > 0 for value in row.values())
        assert row["1 rows, plain"] <= calls.slowest(found)
    values, labels, *_ = found["microseconds"].values()
    assert 0 < values["arrays"] < labels["arrays"]
    assert calls.slowest({}) is None
    found["slowest"] = calls.slowest(found)
    content = content_of({}) | {"results": {gpu_model.CALLS: found}}
    assert "labels of two classes, 3 trees" in "".join(gpu_model.show(content))
    (goal,) = (goal for goal in gpu_model.goals(content) if "a prediction of up to" in goal.what)
    assert goal.measured == found["slowest"]


def histogram_launch(n_threads=512, **counts):
    counts = {"atomic_passes": 2.0, "atomic_accesses": 2.0} | counts
    return replace(launch("add_tiles", threads=n_threads, **counts), shared_bytes=64 * 1024)


def test_what_another_layout_of_histograms_gains_at_most(monkeypatch):
    """Issue slots of idle lanes, down to the bytes; and waits."""
    monkeypatch.setattr(layouts, "linked", lambda ptx, architecture: CODE)
    busy = {n: layouts.busy(n) for n in (1, 5, 16, 20, 28, 32, 54)}
    assert busy == {1: 1, 5: 30 / 32, 16: 1, 20: 20 / 32, 28: 28 / 32, 32: 1, 54: 27 / 32}
    assert busy[54] == pytest.approx(np.mean([1, 22 / 32]))
    table = layouts.Table(H100, layouts.M, 20)
    slots = 4e-4 * CLOCKS * 4
    bytes_of = {"records": (300e6, 3e-4 * COPY_SHARE * 3350e9 / 32)}
    root = replace(histogram_launch(issued=slots), arrays=bytes_of)
    found = layouts.result_of(table, [root, launch("move_apart", issued=slots)])
    tree = 8e-4 + 2 * LAUNCH_GAP
    assert found["tree_ms"] == pytest.approx(1e3 * tree)
    assert (found["ms"], found["binds"]) == (pytest.approx(0.4), "issue slots")
    assert found["gains"]["all lanes"] == pytest.approx(100 * 1e-4 / tree)
    assert (found["blocks"], found["blocks by shared memory"], found["passes"]) == (3, 3, 1)
    waiting = replace(root, longest=dict.fromkeys(root.longest, 1e-3 * H100.clock))
    found = layouts.result_of(table, [waiting])
    assert found["gains"]["all lanes"] == pytest.approx(100 * 3.75e-4 / (1e-3 + LAUNCH_GAP))
    assert found["gains"]["no waits"] == pytest.approx(100 * 7e-4 / (1e-3 + LAUNCH_GAP))
    results = {"tables": {table.name: found}}
    assert figures.most_gained(results) == found["gains"]["no waits"]
    assert figures.most_gained({}) is None
    content = content_of({}) | {"results": {gpu_model.LAYOUTS: results}}
    assert "H100, 1M × 20" in "".join(gpu_model.show(content))
    assert any("another layout" in goal.what for goal in gpu_model.goals(content))
