"""The figures, tables and pictures of ``gpu_check``, from made-up results."""

from __future__ import annotations

import math

import pytest
from matplotlib.figure import Figure

from benchmarks.gpu import (
    drawing as drawing_gpu,
)
from benchmarks.gpu import (
    figures as gpu_figures,
)
from benchmarks.gpu import (
    plan as gpu_plan,
)
from benchmarks.gpu import (
    tables as gpu_tables,
)
from benchmarks.gpu.bench import ON_CPU, OURS, XGBOOST


def library(median, **more):
    return {"median": median, "seconds": [median], **more}


def parts():
    """Made-up results."""
    fits = {
        f"{name}, 20 trees": {"n_rows": n, "libraries": {OURS: library(s)}}
        for name, n, s in (("1M × 28", 10**6, 0.1), ("10M × 28", 10**7, 1.0),
                           ("100M × 28", 10**8, 10.0))
    }  # fmt: skip
    fits["11M × 28, depth 8"] = {
        "n_rows": 11_000_000,
        "libraries": {
            OURS: library(2.0, quality={"auc": 0.801}),
            XGBOOST: library(4.0, ratio=0.5, quality={"auc": 0.8012}),
        },
    }
    fits["100k × 28"] = {"n_rows": 10**5, "ms_a_tree": 1.25, "libraries": {OURS: library(0.1)}}
    fits["memory, 11M × 28"] = {"ratio": 0.9}
    cores = {
        f"{n:,} × 28": {
            "n_rows": n, "identical_to_cpu": True,
            "libraries": {OURS: library(1.0), ON_CPU: library(1 / r, ratio=r)},
        }
        for n, r in ((10**6, 0.25), (10**4, 4.0), (1000, 9.0))
    }  # fmt: skip
    same = {"same_model": True, "same_predictions": True, "table": "adult", "source": "real",
            "n_rows": 5, "fingerprints": {"cuda": "0123456789abcdef"}}  # fmt: skip
    launched = {
        f"launches, {variant}": {
            "100k": {"variant": variant, "ms_a_tree": ms, "fingerprint": "same"},
            "10k": {"variant": variant, "ms_a_tree": ms / 2, "fingerprint": mark},
        }
        for variant, ms, mark in (("stock", 3.0, "a"), ("graphs", 1.0, "b"))
    }
    found = {"fit": fits, "cores": cores, "identity": {"tree": same}, **launched}
    return {name: {"cases": cases} for name, cases in found.items()}


class TestFigures:
    def test_they_are_computed(self):
        figures, told = gpu_figures.figures_of(parts())
        assert figures == {
            "fit_11m": 0.5, "fit_11m_auc": pytest.approx(0.0002), "fit_100k_tree": 1.25,
            "exponent": pytest.approx(1.0), "memory": 0.9, "different_models": 0,
            "cores_16": 0.25, "pays_from": pytest.approx(10**5),
        }  # fmt: skip
        assert told["launches"] == {
            "ms_a_tree": {"stock": {"100k": 3.0, "10k": 1.5}, "graphs": {"100k": 1.0, "10k": 0.5}},
            "same_models": {"100k": True, "10k": False},
        }

    def test_an_exponent_needs_the_largest_table(self):
        made = parts()
        del made["fit"]["cases"][gpu_plan.HUNDRED]
        figures, told = gpu_figures.figures_of(made)
        assert "exponent" not in figures
        assert told["exponent_of_what_was_measured"] == pytest.approx(1.0)

    @pytest.mark.parametrize(
        "ratios, rows", [([0.5, 0.4], 10.0), ([3.0, 2.0], None), ([], None),
                         ([2.0, 0.5], math.sqrt(1000))]
    )  # fmt: skip
    def test_from_where_the_card_pays(self, ratios, rows, monkeypatch):
        points = [(10 ** (k + 1), r) for k, r in enumerate(ratios)]
        monkeypatch.setattr(gpu_figures, "by_cores", lambda parts: points)
        assert gpu_figures.pays_from({}) == (rows if rows is None else pytest.approx(rows))

    def test_every_key_is_asked_for(self):
        from benchmarks.report.figures_gpu import ASKED

        assert set(gpu_figures.COMPUTE) == set(ASKED)
        rows = list(gpu_figures.asked_and_measured({"fit_11m": 0.6}))
        assert rows[0].reached is False and rows[1].instead == "not measured"

    def test_cases_that_figures_name_are_planned(self):
        for part, case in (
            ("fit", "11M × 28, depth 8"), ("fit", "100k × 28"), ("fit", "500k × 54, 7 classes"),
            ("fit", "memory, 11M × 28"), ("predict", "10M × 28"), ("predict", "1M × 28"),
            ("small", "50 × 10k × 20"), ("cores", "1,000,000 × 28"),
            ("forests", "465k × 54, 100 trees, depth 30"),
        ):  # fmt: skip
            assert case in gpu_plan.PARTS[part].cases


def results():
    made = parts()
    figures, told = gpu_figures.figures_of(made)
    return {"parts": made, "figures": figures, "others": told}


def test_tables():
    found = dict(gpu_tables.tables_of(results()))
    assert found["models of the card and of the host"][1] == [
        "tree", "adult (real)", "5", "same", "same", "0123456789ab"
    ]  # fmt: skip
    assert ["", "XGBoost", "4.0000", "0.500", "auc 0.80120"] in found["times"]
    assert found["milliseconds a tree by the way kernels are started"] == [
        ["launches", "100k × 28, depth 6", "10k × 28, depth 6"],
        ["stock", "3.000", "1.500"], ["graphs", "1.000", "0.500"],
    ]  # fmt: skip
    empty = {"parts": {}, "others": {"launches": {"ms_a_tree": {}}}}
    assert list(gpu_tables.tables_of(empty)) == []


class TestPictures:
    @pytest.mark.parametrize("picture", drawing_gpu.PICTURES.values())
    def test_they_are_drawn(self, picture, tmp_path):
        figure = Figure(layout="constrained")
        picture(figure, {"results": results()})
        figure.savefig(tmp_path / "picture.png")
        assert figure.axes[0].get_xlabel()

    def test_bars_are_the_ratios(self):
        figure = Figure()
        drawing_gpu.libraries(figure, {"results": results()})
        (bar,) = figure.axes[0].patches
        assert bar.get_width() == 2.0

    @pytest.mark.parametrize("picture", drawing_gpu.PICTURES.values())
    def test_nothing_to_draw_is_said(self, picture):
        nothing = {"ladder": {OURS: []}, "launches": {"ms_a_tree": {}}}
        with pytest.raises(drawing_gpu.NothingToDraw):
            picture(Figure(), {"results": {"parts": {}, "others": nothing}})
