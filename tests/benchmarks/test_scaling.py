"""Ladders of sizes: what a process measures, who climbs on, exponents, tables, the picture."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import numpy as np
import pytest

from benchmarks.common.peers import GapError
from benchmarks.programs import scaling
from benchmarks.programs.scaling import exponent, part_of, short

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


def climb(monkeypatch, run, fails, *options):
    """Climb with processes that are none; some fail."""

    def call(function, library, device, size, limit):
        if fails(library, size):
            raise GapError("a new process ended with -9: killed")
        taken = size["rows"] / 1e6 if library == "gpuens" else size["rows"] / 1e5
        return {"fit": taken, "predict": taken / 10, "memory": 4.0 * size["rows"]}

    monkeypatch.setattr(scaling, "call", call)
    monkeypatch.setattr(scaling.peers, "installed", lambda names: ["XGBoost"])
    return run(scaling, "--repeats", 2, *options)


@pytest.fixture
def record(monkeypatch, run):
    return climb(
        monkeypatch, run, lambda library, size: library == "XGBoost" and size["rows"] > 5000
    )


def test_a_library_that_fails_climbs_no_further(record):
    rows = record["results"]["rows"]
    assert list(rows["sizes"]) == [str(n) for n in scaling.LADDERS["rows"] if n <= 10_000_000]
    assert [n for n, by in rows["sizes"].items() if "XGBoost" in by] == ["1000", "2000", "5000"]
    (gap,) = rows["gaps"]
    assert gap.startswith("XGBoost at 10,000 × 28, 20 trees and beyond: a new process ended")


def test_what_is_shown(record):
    times, _, memory, exponents = scaling.show(record)
    assert times.splitlines()[0].startswith("| seconds to train, by rows (28 features, 20 trees")
    assert "| 5k | 0.005 ± 0 % | 0.05 ± 0 % |" in times and "| 10M | 10 ± 0 % |  |" in times
    assert "| 10M | 40 (0.036) |  |" in memory
    assert exponents.splitlines()[2:] == ["| gpuens | 1.000 | 1.000 |"]
    slope, peak = scaling.goals(record)
    assert slope.measured == pytest.approx(1) and peak.measured == pytest.approx(1 / 28, rel=1e-5)


def test_exponents_are_least_squares_of_logarithms():
    sizes = [100_000, 200_000, 500_000, 1_000_000]
    values = [1.0, 2.5, 4.0, 11.0]
    x, y = np.log(sizes), np.log(values)
    slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    assert exponent([1000, *sizes], [99.0, *values]) == pytest.approx(slope)
    assert exponent(sizes[:2], values[:2]) is None


def test_runs_are_put_together():
    runs = [{"fit": s, "predict": 1.0, "memory": b} for s, b in ((1.0, 500), (4.0, 300), (2.0, 9))]
    part = part_of(runs, 1000)
    assert part["fit"] == {"median": 2.0, "range": [1.0, 4.0], "runs": 3}
    assert part["memory"] == {"peak": 500, "relative": 0.5}
    assert scaling.cell("fit", part["fit"]) == "2 ± 75 %"
    assert [short(n) for n in (999, 1000, 2500, 10_000_000)] == ["999", "1k", "2.5k", "10M"]


@needs_linux
@pytest.mark.parametrize("change", [{}, {"depth": 3}])
def test_a_fit_in_this_process(change):
    size = {"rows": 3000, "features": 5, "trees": 2, "threads": 1, "depth": None, **change}
    found = scaling.measure_here("gpuens", "cpu", size)
    assert found["fit"] > 0 < found["predict"] and 0 <= found["memory"] < 2**28
    assert 0 < found["cuts"] < found["bin"]


@pytest.mark.skipif(not find_spec("matplotlib"), reason="matplotlib is not installed")
def test_the_picture(record):
    from matplotlib.figure import Figure

    figure = Figure()
    scaling.picture(figure, record)
    panels = figure.get_axes()
    assert len(panels) == 3 and panels[0].get_xscale() == panels[0].get_yscale() == "log"
    ours, theirs = panels[0].get_lines()
    assert ours.get_ydata()[-1] == 10.0 and list(theirs.get_xdata()) == [1000, 2000, 5000]
