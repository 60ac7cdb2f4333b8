"""What ladders are planned by and reported as: estimates, exponents, tables, pictures."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.scaling import libraries as scaling_libraries
from benchmarks.scaling.plan import decades, expected_bytes, expected_seconds, n_turns, short
from benchmarks.scaling.results import exponent, exponents, library_part, markdown, picture
from tests.benchmarks.test_scaling import POINT


def test_exponents_are_least_squares_of_logarithms():
    sizes = [100_000, 200_000, 500_000, 1_000_000]
    exact = exponent(sizes, [3e-6 * n**1.25 for n in sizes])
    assert exact["exponent"] == pytest.approx(1.25) and exact["r2"] == pytest.approx(1)
    assert exact["worst"] == pytest.approx(1) and exact["from"] == 1e5 and exact["to"] == 1e6
    values = [1.0, 2.5, 4.0, 11.0]
    x, y = np.log(sizes), np.log(values)
    slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    off = y - y.mean() - slope * (x - x.mean())
    noisy = exponent(sizes, values)
    assert noisy["exponent"] == pytest.approx(slope)
    assert noisy["r2"] == pytest.approx(1 - (off**2).sum() / ((y - y.mean()) ** 2).sum())
    assert noisy["worst"] == pytest.approx(np.exp(abs(off).max()))
    assert exponent(sizes[:2], values[:2]) is None


def test_exponents_of_rows_leave_out_small_tables():
    def rung(n, seconds):
        return {"n_rows": n, "libraries": {"gpuens": {"fit": {"median": seconds}}}}

    rungs = [rung(n, n**2 / 1e12) for n in (100_000, 1_000_000, 10_000_000)]
    found = exponents("rows", [rung(1000, 9.0), rung(50_000, 9.0), *rungs])
    assert found["gpuens"]["fit"]["exponent"] == pytest.approx(2)
    assert found["gpuens"]["fit"]["points"] == 3


def test_runs_of_a_library_are_put_together():
    turns = [{"fit": s, "memory": b, "stages": {"split": s / 10}, "quality": {"log_loss": 0.5}}
             for s, b in ((1.0, 500), (3.0, 300), (2.0, 100))]  # fmt: skip
    part = library_part(turns, 1000)
    assert part["fit"] == {"seconds": [1.0, 3.0, 2.0], "median": 2.0, "spread": 1.0}
    assert part["memory"] == {"bytes": [500, 300, 100], "peak": 500, "relative": 0.5}
    assert part["stages"]["split"]["median"] == 0.2 and part["quality"] == {"log_loss": 0.5}
    assert "predict" not in part


def test_the_ladder_and_its_estimates():
    assert list(decades(1000, 30_000)) == [1000, 2000, 5000, 10_000, 20_000]
    assert [short(n) for n in (999, 1000, 2500, 10_000_000)] == ["999", "1k", "2.5k", "10M"]
    options = SimpleNamespace(rung_seconds=60.0, repeats=3, most_repeats=15)
    assert [n_turns(s, options) for s in (0.1, 10.0, 100.0)] == [15, 6, 3]
    part = {"fit": {"seconds": [2.0, 9.0]}, "predict": {"seconds": [0.7, 0.5]},
            "memory": {"peak": 1e6}}  # fmt: skip
    rungs = [vars(POINT) | {"libraries": {"gpuens": part}}]
    larger = replace(POINT, n_rows=4000)
    assert expected_seconds(larger, rungs, "gpuens") == 10.0
    assert expected_bytes(larger, rungs, "gpuens") == 4e6 + 4 * 4000 * 28
    assert expected_seconds(larger, rungs, "LightGBM") == 0
    assert expected_bytes(larger, rungs, "LightGBM") == 4 * 4000 * 28


def test_every_entry_of_the_registry_is_named_once():
    for entries in scaling_libraries.ESTIMATORS.values():
        names = [entry.name for entry in entries]
        assert len(set(names)) == len(names) and names[0] == "gpuens"


def rung_of(n_rows, seconds, missing=None, **more):
    """A rung on which every library has run twice."""
    libraries = {
        name: library_part([{"fit": s, "predict": s, "memory": 10**6} for s in (t, 2 * t)], 10**5)
        for name, t in seconds.items()
    }
    point = replace(POINT, n_rows=n_rows, **more)
    return vars(point) | {"libraries": libraries, "missing": missing or {}}


RECORD = {
    "results": {
        "title": "Scaling",
        "gaps": ["XGBoost at 2k × 28 and beyond: its process was killed"],
        "axes": {
            "rows": {
                "title": "28 features",
                "rungs": [
                    rung_of(1000, {"gpuens": 1.0, "XGBoost": 3.0}),
                    rung_of(2000, {"gpuens": 2.0}, {"XGBoost": "its process was killed"}),
                ],
                "exponents": {},
            },
            "trees": {
                "title": "1k rows",
                "rungs": [rung_of(1000, {"gpuens": t / 9}, n_trees=t) for t in (1, 2, 4)],
                "exponents": {},
            },
        },
    }
}


def test_the_table_holds_medians_spreads_and_gaps():
    lines = markdown(RECORD).splitlines()
    assert "| 1k | 1.5 ± 33 % | 4.5 ± 33 % |" in lines  # runs of 1 and 2, and of 3 and 6
    assert "| 2k | 3 ± 33 % | – |" in lines
    assert "| 1k | 1 (10.000) | 1 (10.000) |" in lines  # MB, and relative to the input
    assert "- XGBoost at 2k × 28 and beyond: its process was killed" in lines
    assert "| 4 | 0.667 ± 33 % |" in lines


@pytest.mark.skipif(not find_spec("matplotlib"), reason="matplotlib is not installed")
def test_the_picture_names_gaps():
    from matplotlib.figure import Figure

    figure = Figure()
    picture(figure, RECORD)
    panels = figure.get_axes()
    assert len(panels) == 6
    assert panels[0].get_xscale() == panels[0].get_yscale() == "log"
    line = panels[0].get_lines()[0]
    assert list(line.get_xdata()) == [1000, 2000] and list(line.get_ydata()) == [1.5, 3.0]
    crosses = [line for line in panels[0].get_lines() if line.get_marker() == "x"]
    assert [(list(c.get_xdata()), list(c.get_ydata())) for c in crosses] == [([1000], [4.5])]
    assert "XGBoost at 2k × 28" in figure.get_supxlabel()
    assert [label.get_text() for label in panels[3].get_xticklabels()] == ["1", "2", "4"]
