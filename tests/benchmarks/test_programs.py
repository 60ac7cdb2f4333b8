"""The programs of ``benchmarks/programs`` run, and their results hold what was measured."""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeClassifier

import gpuens
from benchmarks import __main__
from benchmarks.accuracy import published
from benchmarks.common import goals, peers, processes
from benchmarks.common.peers import BOTH, GapError, present
from benchmarks.explanation import explain
from benchmarks.learners import distributions, oblique
from benchmarks.programs import (
    adaboost,
    categories,
    fit,
    forests,
    identity,
    inspection,
    losses,
    memory,
    predict,
    purity,
    ranking,
    stacking,
    survival,
)
from benchmarks.report.compare import series_of
from benchmarks.start import first_model, native, startup
from gpuens.datasets import make_higgs_like

TINY = "--rows 500 --trees 2 --repeats 1 --threads 1".split()


class TestFit:
    def test_every_library_has_its_runs_and_its_quality(self, run, tmp_path):
        options = "--rows 600 --trees 2 --repeats 2 --threads 1 --only 1m covtype"
        record = run(fit, *options.split())
        assert record["settings"]["threads"] == 1
        assert {"cpu", "cores", "ram_gib", "gpus"} <= record["machine"].keys()
        assert {"python", "numpy", "scikit-learn"} <= record["versions"].keys()
        workload = record["results"]["1m"]
        assert workload["title"] == "600 × 28, 2 classes"
        assert list(workload["libraries"]) == ["gpuens", *filter(present, fit.ALL)]
        for row in workload["libraries"].values():
            assert len(row["seconds"]) == 2 and 0.4 < row["quality"]["auc"] < 1
        if find_spec("matplotlib"):
            assert len(list(tmp_path.glob("results/fit-*.png"))) == 1


def test_purity_on_one_table(run, monkeypatch):
    few = {"60 × 50": (purity.REGRESSOR, lambda: purity.linear(60, 50, 1.0))}
    monkeypatch.setattr(purity, "TABLES", few)
    record = run(purity, *"--trees 25 --repeats 2 --threads 1".split())
    for part in purity.SCORED:
        found = record["results"][part]["60 × 50"]
        kinds = ("seconds", "busy_seconds")
        assert all(len(found[kind][name]) == 2 for kind in kinds for name in BOTH)
        assert found["ratio"] > 0
    assert len(series_of(record["results"])) == len(purity.SCORED) * len(BOTH)


class TestPredict:
    def test_a_table_and_a_row(self, run, only_libraries):
        only_libraries("gpuens", "HistGB")
        record = run(predict, *TINY, "--batches", 1)
        for part in ("table", "row"):
            assert list(record["results"][part]["libraries"]) == ["gpuens", "HistGB"]
        assert record["results"]["row"]["n_trees"] == 8

    @pytest.mark.parametrize("library", ["XGBoost", "LightGBM"])
    def test_beside(self, run, only_libraries, library):
        if not present(library):
            pytest.skip(f"{library} is not installed")
        only_libraries("gpuens", library)
        record = run(predict, *TINY, "--batches", 1)
        names = list(record["results"]["row"]["libraries"])
        assert names[:2] == ["gpuens", library]
        assert ("XGBoost inplace_predict" in names) == (library == "XGBoost")


class TestStartup:
    @pytest.mark.slow
    def test_processes_that_train_and_that_serve(self, run, only_libraries):
        only_libraries("gpuens", "HistGB")
        results = run(startup, *TINY, "--warm-only")["results"]
        assert list(results["medians"]) == ["gpuens, warm cache", "HistGB"]
        ours = results["medians"]["gpuens, warm cache"]
        assert ours["import + first fit"] == ours["import"] + ours["first fit"]
        loaded = results["loaded"]["medians"]
        assert list(loaded) == ["gpuens, warm cache", "scikit-learn"]
        for seconds in loaded.values():
            parts = sum(seconds[part] for part in ("import", "load", "first predict"))
            assert seconds["import to first predict"] == pytest.approx(parts)

    @pytest.mark.slow
    @pytest.mark.parametrize("library", ["LightGBM", "XGBoost", "scikit-learn", "gpuens"])
    def test_a_forest_from_a_file_has_learned(self, tmp_path, monkeypatch, capsys, library):
        """The program of a process that serves, run in this one."""
        if library != "scikit-learn" and not present(library):
            pytest.skip(f"{library} is not installed")
        X, y = make_higgs_like(400, 20)
        path = startup.save_forest(library, X, y, tmp_path, trees=9, threads=1)
        np.savez(tmp_path / "table.npz", X=X)
        monkeypatch.setattr("sys.argv", ["", str(tmp_path / "table.npz"), str(path), "1"])
        names = {}
        exec(startup.serving_code(library), names)
        seconds = json.loads(capsys.readouterr().out)
        assert seconds.keys() == {"import", "load", "first predict", "first table"}
        model = names["model"]
        p = model.predict(X) if library == "LightGBM" else model.predict_proba(X)[:, 1]
        assert roc_auc_score(y, p) > 0.75

    def test_a_process_that_fails_is_a_gap(self):
        with pytest.raises(GapError, match="ended with 1: ValueError: no such thing"):
            processes.run_python("raise ValueError('no such thing')")


class TestFirstModel:
    @pytest.mark.slow
    def test_a_process_of_each_model_and_which_failed(self, run, monkeypatch):
        models = {"tree": first_model.MODELS["tree"], "boosting": ("gpuens", "NoSuchModel()")}
        monkeypatch.setattr(first_model, "MODELS", models)
        results = run(first_model, *TINY, "--warm-only")["results"]
        assert list(results["medians"]) == ["tree, warm cache"]
        seconds = results["medians"]["tree, warm cache"]
        parts = sum(seconds[part] for part in ("import", "fit", "predict"))
        assert seconds["total"] == pytest.approx(parts)
        assert {"gpuens.kernels", "sklearn", "numpy"} <= results["imports"]["tree"].keys()
        assert results["environment"]["gpuens"]
        assert results["gaps"][0].startswith("boosting: a new process ended with 1: Attribute")

    @pytest.mark.parametrize("name", list(filter(first_model.is_ours, first_model.MODELS)))
    def test_the_estimators_take_their_parameters(self, name):
        """A process that fails is left out of the results."""
        call = "gpuens." + first_model.MODELS[name][1]
        assert eval(call, {"gpuens": gpuens, "trees": 3, "threads": 1}).get_params()

    def test_own_time_of_modules_is_summed_by_package(self):
        stderr = """import time: self [us] | cumulative | imported package
import time:      1500 |       1500 |     scipy._lib
import time:       500 |       2000 |   scipy
import time:        25 |         25 |   gpuens.kernels.scalars
import time:        75 |       2100 | gpuens
a warning | that | another.package wrote"""
        assert first_model.milliseconds_by_package(stderr) == {
            "scipy": 2.0, "gpuens": 0.075, "gpuens.kernels": 0.025,
        }  # fmt: skip


class TestNative:
    CASES = {"tiny": native.Case(200, 3, 2, 2, 1.05)}

    def test_processes_take_turns(self, run, monkeypatch):
        def child(self, code, arguments, environment):
            compile(code, "child", "exec")
            taken.append((arguments, environment["GPUENS_KERNELS"]))
            return ["native library for x86-64-v3", float(len(taken))], ""

        taken: list[tuple] = []
        monkeypatch.setattr(native, "CASES", self.CASES)
        monkeypatch.setattr(native.Interpreter, "run", child)
        results = run(native, "--repeats", "3", "--threads", "1", "--rows", "150")["results"]
        assert taken == [((150, 3, 2, 2, 1), chosen) for chosen in ("native", "compiled") * 3]
        assert results["tiny"]["seconds"] == {"native": [1, 3, 5], "compiled": [2, 4, 6]}
        assert results["tiny"]["ratio"] == 3 / 4

    def test_without_a_library_there_is_nothing_to_measure(self, monkeypatch):
        found = ["compiled by Numba: there is none", 0.0], ""
        monkeypatch.setattr(native.Interpreter, "run", lambda *_: found)
        results = native.measure(native.PROGRAM.parser().parse_args([]))
        assert results == {"gaps": ["no library to measure: compiled by Numba: there is none"]}
        assert list(native.goals({"results": results})) == []

    @pytest.mark.slow
    def test_a_process_names_its_kernels_and_its_time(self):
        (source, time), _ = processes.Interpreter().run(native.CHILD, (200, 3, 2, 2, 1))
        assert source.startswith(("native library", "compiled by Numba")) and time > 0


class TestMemory:
    @pytest.mark.slow
    def test_peaks_are_relative_to_the_input(self, run, only_libraries):
        only_libraries("gpuens")
        ours = run(memory, *TINY)["results"]["gpuens"]
        assert ours["runs"][0]["input_bytes"] == 500 * 28 * 4
        assert ours["relative"] == ours["runs"][0]["bytes"] / (500 * 28 * 4)

    def test_both_meters_see_an_allocation(self):
        meters = [memory.best_meter()]
        if find_spec("psutil"):
            meters.append(memory.Sampler())
        for meter in meters:
            memory.give_back()  # or the block would take the place of what other tests have freed
            before = meter.start()
            block = np.ones(30_000_000, np.uint8)
            assert meter.peak() - before > 20_000_000, meter.method
            del block


class TestIdentity:
    OPTIONS = "--rows 500 --trees 2 --small-rows 100 --only binary sampled --no-simulator".split()

    def test_models_are_identical(self, run):
        results = run(identity, *self.OPTIONS)["results"]
        assert results["identical"]
        assert set(results["equal"]) == {"threads", "reference", "histogram over blocks"}

    def test_models_that_differ_fail(self, run, monkeypatch):
        numbers = iter(range(100))
        monkeypatch.setattr(identity, "fingerprint", lambda *a, **k: str(next(numbers)))
        assert not run(identity, *self.OPTIONS, code=1)["results"]["identical"]

    def test_a_simulator_that_fails_is_a_difference(self, monkeypatch):
        monkeypatch.setattr(processes.sys, "executable", "false")
        options = argparse.Namespace(simulated_rows=10)
        found = identity.by_simulator(["binary"], options)["binary"]
        assert found["simulator"].startswith("failed: ") and found["simulator"] != found["cpu"]


class TestForests:
    SMALL = (
        "--rows 300 --trees 10 --splits 2 --predict-rows 400 --wide 400 --repeats 2 --threads 1"
    ).split()

    @pytest.fixture
    def tables(self, write_table):
        noise = np.random.default_rng(0).random(240) < 0.1
        y = np.where(noise, write_table.y, write_table.X[:, 0] > 0)
        for name in ("covtype_first20k", "spambase", "glass", "letter"):
            write_table(name, y=y.astype("U1"))
        return write_table.folder

    @pytest.mark.slow
    def test_all_parts(self, run, tables):
        record = run(forests, "--data", tables, *self.SMALL)
        results = record["results"]
        assert list(results) == [*forests.WORK, "identity"]
        for name in forests.WORK:
            libraries = results[name]["libraries"]
            assert list(libraries) == list(BOTH)
            assert all(len(row["seconds"]) == 2 for row in libraries.values())
        assert results["depth_14"]["title"] == "300 × 28, 2 classes"
        assert results["depth_14"]["n_trees"] == 4
        assert results["predict"]["title"] == "400 × 28, 2 classes"
        for name, key in (("depth_14", "auc"), ("to_purity", "accuracy")):
            assert all(0.4 < r["quality"][key] < 1 for r in results[name]["libraries"].values())
        same = results["single_tree"]["same"]
        assert same["nodes"] == same["equal"] + same["ties"] + same["close"] + same["below"]
        assert all(results["identity"]["equal"].values())
        assert list(forests.goals(record))

    @pytest.mark.slow
    def test_one_seed_a_round(self):
        X, y = make_higgs_like(200, 4)
        options = argparse.Namespace(repeats=2, threads=1, budget=float("inf"))
        _, models = forests.time_fits("RandomForestClassifier", X, y, options, n_estimators=3)
        for fitted in models.values():
            assert [model.random_state for model in fitted] == [0, 1]

    def test_a_missing_table_is_a_named_gap(self, run, tmp_path, monkeypatch, capsys):
        monkeypatch.setattr(forests, "fingerprint", lambda *args: "the same")
        options = [*self.SMALL, "--only", "to_purity", "identity"]
        results = run(forests, "--data", tmp_path, *options)["results"]
        missing = "covtype_first20k.npz is not in the folder of the data"
        assert results["to_purity"] == {"gaps": [missing]}
        assert f"skipped: {missing}" in capsys.readouterr().out

    def test_a_missing_class_is_a_named_gap(self, monkeypatch):
        monkeypatch.setitem(peers.MODULES, "gpuens", ("gpuens.datasets", "gpuens.nothing"))
        options = argparse.Namespace(rows=300, trees=10, threads=1)
        with pytest.raises(GapError, match="gpuens has no RandomForestClassifier"):
            forests.depth_14(options)
        gaps = forests.identity(options)["gaps"]
        assert gaps == [f"gpuens has no {name}" for name in forests.IDENTITY]

    def test_different_fingerprints_fail(self, run, monkeypatch):
        numbers = iter(range(100))
        monkeypatch.setattr(forests, "fingerprint", lambda *args: str(next(numbers)))
        record = run(forests, *self.SMALL, "--only", "identity", code=1)
        (goal,) = forests.goals(record)
        assert goal.measured == len(forests.IDENTITY) and not goal.reached

    @pytest.mark.slow
    def test_published(self, run, tables, capsys):
        options = "--seeds 1 --repeats 2 --trees 40 --threads 1 --tables glass sonar".split()
        record = run(published, "--data", tables, *options)
        out = capsys.readouterr().out
        assert "skipped: sonar.npz" in out and "skipped: satimage.npz" in out
        results = record["results"]
        assert list(results["spambase"]) == ["random forest", "bagging", "pruned tree"]
        assert all(0 <= np.mean(r["errors"]["gpuens"]) < 40 for r in results["spambase"].values())
        glass = results["protocol"]["glass"]
        assert list(glass) == ["selection", "single"]
        assert list(glass["single"]["errors"]) == list(BOTH)
        assert len(glass["single"]["errors"]["gpuens"]) == 2
        assert set(results["out_of_bag"]["letter"]) == {"out of bag", "test"}
        named = [goal.what for goal in published.goals(record)]
        assert len(named) == 5 and not any("sonar" in what or "satimage" in what for what in named)

    def test_pruning_takes_the_smallest_of_equally_good_trees(self, monkeypatch):
        """Noise on top of one split: every alpha keeps that split, large ones nothing else."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(400, 3)).astype(np.float32)
        y = np.where(rng.random(400) < 0.1, 0, X[:, 0] > 0).astype(int)
        model = published.pruned_tree("scikit-learn", X, y, 0, 1)
        full = DecisionTreeClassifier(random_state=0).fit(X, y)
        assert model.get_n_leaves() < full.get_n_leaves() / 4
        monkeypatch.setattr(published, "cross_val_score", lambda *args, **settings: np.zeros(10))
        assert published.pruned_tree("scikit-learn", X, y, 0, 1).get_n_leaves() == 1


class TestAdaBoost:
    SMALL = "--rows 400 --rounds 6 --scale 2 --draws 2 --repeats 2 --threads 1".split()

    @pytest.mark.slow
    def test_with_and_without_the_real_table(self, run, write_table, capsys):
        folder = write_table("spambase", y=write_table.y.astype("U1"))
        results = run(adaboost, "--data", folder, *self.SMALL)["results"]
        assert list(results) == ["stumps", "spambase", "chi_squared", "identity"]
        stumps = results["stumps"]
        assert stumps["rounds_done"] == {"gpuens": 6, "scikit-learn": 3}
        assert all(len(row["seconds"]) == 2 for row in stumps["libraries"].values())
        assert stumps["libraries"]["scikit-learn"]["ratio"] > 0
        errors = results["spambase"]["errors"]["stumps"]
        assert errors["gpuens, exact thresholds"] == errors["scikit-learn"]
        means = results["chi_squared"]["means"]
        assert means["gpuens, exact thresholds"] == means["scikit-learn"]
        assert all(results["identity"]["equal"].values())
        options = ["--only", "spambase", "identity"]
        results = run(adaboost, "--data", "none", *self.SMALL, *options)["results"]
        assert results["spambase"]["gaps"] == ["spambase.npz is not in the folder of the data"]
        assert "skipped: spambase.npz" in capsys.readouterr().out

    def test_half_of_the_rows_are_of_class_1(self):
        X, y = adaboost.chi_squared_table(20_000, 0)
        assert X.shape == (20_000, 10) and abs(y.mean() - 0.5) < 0.02


def test_categories(run, write_table, only_libraries, capsys):
    only_libraries()
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(0, 9, 400), rng.normal(size=400)], axis=1).astype(np.float32)
    y = ((X[:, 0] % 2 == 0) ^ (rng.random(400) < 0.1)).astype(np.int32)
    folder = write_table("adult", X=X, y=y, is_categorical=np.array([True, False]))
    options = "--seeds 2 --trees 20 --rows 300 --threads 1".split()
    results = run(categories, "--data", folder, *options)["results"]
    assert set(results["losses"]["adult"]) == {"gpuens", "numbers", "HistGB"}
    assert all(len(found) == 2 for found in results["losses"]["adult"].values())
    assert results["ratios"]["adult"]["HistGB"] < 1.2
    assert results["gaps"] == ["airlines_allyears2k.npz is not in the folder of the data"]


@pytest.mark.slow
def test_inspection(run, capsys):
    options = "--trees 3 --depth 4 --points 6 --points-of-two 3 --models 5 --repeats 2 --threads 1"
    record = run(inspection, "--rows", 300, *options.split())
    dependence = record["results"]["partial_dependence"]
    assert dependence["n_rows"] == 300 and dependence["n_trees"] == 3
    for name, points in zip(inspection.GRIDS, (6, 9), strict=True):
        assert dependence[name]["points"] == points
        libraries = dependence[name]["libraries"]
        assert list(libraries) == ["gpuens", inspection.BRUTE, inspection.RECURSION]
        assert all(len(row["seconds"]) == 2 for row in libraries.values())
    diversity = record["results"]["diversity"]
    assert diversity["n_models"] == 5 and len(diversity["seconds"]) == 2
    assert [goal.at_most for goal in inspection.goals(record)] == [0.05, 0.05, 2.0]
    out = capsys.readouterr().out
    assert "| partial dependence, 3 trees | gpuens | scikit-learn, brute force |" in out


class TestLosses:
    @pytest.fixture
    def tables(self, write_table):
        rng = np.random.default_rng(0)
        write_table("california_housing", y=np.exp(write_table.X[:, 0]))
        write_table("spambase", y=write_table.X[:, 0] > 0)
        exposure = rng.random(240) + 0.1
        return write_table("datacar", y=rng.poisson(1.0, 240), exposure=exposure)

    OPTIONS = "--splits 1 --rounds 3".split()

    def test_all_parts(self, run, tables, only_libraries, capsys):
        only_libraries("gpuens", "HistGB")
        results = run(losses, "--data", tables, *self.OPTIONS)["results"]
        assert 0 < results["huber"]["mean"] < results["huber"]["constant"]
        assert 0 <= results["spambase"]["mean"] < 50
        assert results["exposure"] == {"gaps": ["LightGBM is not installed"]}
        for name, part in results["same_settings"].items():
            peer = {"HistGB"} - ({"HistGB"} if name.startswith("tweedie") else set())
            assert part["ratios"].keys() == peer
            assert all(0.9 < ratio < 1.1 for ratio in part["ratios"].values())
        assert "| 0.313 |" in capsys.readouterr().out  # the goal

    def test_beside_lightgbm(self, run, tables):
        pytest.importorskip("lightgbm")
        part = run(losses, "--data", tables, *self.OPTIONS, "--only", "exposure")["results"]
        ratios = part["exposure"]["ratios"]
        assert ratios.keys() == {"max_delta_step=0.7", "max_delta_step=1e-09"}
        assert 0.9 < part["exposure"]["worst"] < 1.1

    def test_without_any_table_nothing_is_written(self, tmp_path, capsys):
        options = ["--data", str(tmp_path), "--output", str(tmp_path), "--only", "huber"]
        assert losses.main(options) == 0 and not list(tmp_path.iterdir())
        out = capsys.readouterr().out
        assert "skipped: california_housing.npz is not in the folder of the data" in out
        assert "nothing was measured" in out


class TestStacking:
    @pytest.mark.slow
    def test_members_and_combinations(self, run, write_table, capsys):
        X = write_table.X
        X[:, 4] = np.arange(240) % 3
        X[::9, 0] = np.nan
        labels, categorical = np.array(["a", "b"])[write_table.y], np.arange(5) == 4
        folder = write_table("adult", y=labels, is_categorical=categorical)
        results = run(stacking, "--data", folder, "--trees", 5, "--splits", 2)["results"]
        part = results["adult"]
        members = ["forest", "boosting", "logistic regression"]
        assert part["members"] == members and part["best"] in members
        assert set(part["losses"]) == {*members, *part["seconds"]}
        assert all(len(found) == 2 for found in part["losses"].values())
        means = {what: np.mean(found) for what, found in part["losses"].items()}
        assert means[part["best"]] == min(means[member] for member in members)
        for what, ratio in part["ratios"].items():
            assert ratio == pytest.approx(means[what] / means[part["best"]])
        assert np.allclose(np.sum(part["weights"]["vote, optimal"], axis=1), 1)
        assert "covtype_first20k.npz is not in" in results["covtype_first20k"]["gaps"][0]
        assert "| ÷ the best member |" in capsys.readouterr().out

    def test_the_official_split_is_kept(self):
        arrays = {"X": np.arange(80.0).reshape(40, 2), "y": np.arange(40) % 2}
        official = arrays | {"is_test": np.arange(40) < 10}
        X, X_test, y, y_test = stacking.split(official, 0)
        assert X_test[:, 0].tolist() == list(range(0, 20, 2)) and len(X) == len(y) == 22
        X, X_test, y, y_test = stacking.split(arrays, 0)
        assert len(y_test) == 10 and len(X) == 30


class TestRanking:
    def test_quality_and_speed(self, run, write_table, only_libraries, capsys):
        only_libraries("gpuens", "LightGBM")
        arrays = {"y": np.arange(240) % 3, "group_sizes": np.full(40, 6)}
        test = np.repeat(np.arange(40) % 4 == 0, 6)
        folder = write_table("lambdarank_lightgbm", is_test=test, **arrays)
        options = "--seeds 2 --folds 1 --rounds 2 --queries 3 --repeats 1 --threads 1"
        results = run(ranking, "--data", folder, *options.split())["results"]
        names = list(results["speed"])
        assert names[0] == "gpuens" and list(results["quality"]) == list(results["folds"]) == names
        for name in names:
            for part in ("quality", "folds"):
                found = results[part][name]
                assert len(found["ndcg"]) == 4 and all(0 < value <= 1 for value in found["ndcg"])
                assert found["mean"] == pytest.approx(np.mean(found["ndcg"]))
                assert (np.array(found["standard_errors"]) > 0).any() == (name != "gpuens")
            ratio = results["speed"]["gpuens"]["seconds"][0] / results["speed"][name]["seconds"][0]
            assert results["speed"][name]["ratio"] == pytest.approx(ratio)
        assert "NDCG@10, training" in capsys.readouterr().out

    def test_folds_test_each_query_once(self, monkeypatch):
        """The fit of a fold returns how often the query was tested, and by which fold."""
        query = np.repeat(np.arange(11), 2)
        parts = []

        def tested(options, rows, is_test, seed):
            parts.append(is_test)
            return {"gpuens": np.full((is_test.sum(), 5), float(seed))}

        monkeypatch.setattr(ranking, "read", lambda _: (query, query, query, np.arange(11) < 3))
        monkeypatch.setattr(ranking, "tested", tested)
        found = ranking.folds(argparse.Namespace(folds=2))["gpuens"]
        assert np.sum(parts[:5], axis=0).tolist() == np.sum(parts[5:], axis=0).tolist() == [1] * 11
        assert not np.array_equal(parts[0], parts[5])
        expected = np.mean([seed for seed, part in enumerate(parts) for _ in range(part.sum())])
        assert found["mean"] == pytest.approx(expected)

    def test_standard_errors(self):
        """Differences vary between queries, where the runs agree, and between runs."""
        ours = np.zeros((4, 5))
        by_query = ours + np.array([0.0, 0.0, 1.0, 1.0])[:, None]
        runs = {"gpuens": [ours, ours], "a": [by_query, by_query], "b": [ours, ours + 1.0]}
        found = ranking.compared(runs, "")
        assert found["gpuens"]["standard_errors"] == [0.0] * 5
        assert found["a"]["standard_errors"] == pytest.approx([np.sqrt(1 / 3 / 4)] * 5)
        assert found["b"]["standard_errors"] == pytest.approx([np.sqrt(0.5 / 2)] * 5)
        assert found["b"]["spread"] == pytest.approx(np.sqrt(0.5))


class TestSurvival:
    def test_quality_and_speed(self, run, write_table, only_libraries, capsys):
        only_libraries("gpuens", "XGBoost")
        event, y = np.arange(240) % 3 > 0, np.arange(240) % 17 + 1.0
        folder = write_table("gbsg2", y=y, event=event)
        options = "--rows 300 --repeats 1 --threads 1"
        results = run(survival, "--data", folder, *options.split())["results"]
        found = results["quality"]["gbsg2"]
        kinds = {what.partition(",")[0] for what in found if what.endswith("gpuens")}
        assert kinds == {"Cox", "AFT", "forest"} and all(0 < value < 1 for value in found.values())
        assert "metabric.npz is not in" in results["quality"]["metabric"]["gaps"][0]
        generated = results["speed"]["generated"]
        assert generated["rows"] == 300 and len(generated["seconds"]["gpuens"]) == 1
        assert "concordance on folds" in capsys.readouterr().out


class TestDistributions:
    def test_quality_and_coverage(self, run, write_table, monkeypatch):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(400, 3)).astype(np.float32)
        y = X[:, 0] + 0.3 * rng.normal(size=400)
        folder = write_table("california_housing", X=X, y=y)
        monkeypatch.setattr(distributions, "ROWS", 200)
        monkeypatch.setattr(distributions, "libraries", lambda: {"gpuens": distributions.fit_ours})
        options = "--splits 2 --rounds 4 --draws 2 --threads 1"
        results = run(distributions, "--data", folder, *options.split())["results"]
        found = results["quality"]["california_housing"]["gpuens"]
        constant = 0.5 * np.log(2 * np.pi * y.var()) + 0.5
        assert all(nll < constant for nll in found["nll"]) and found["rounds"] == [4, 4]
        assert "bike.npz is not in" in results["quality"]["bike"]["gaps"][0]
        assert list(results["coverage"]) == list(distributions.CASES)
        for method in results["coverage"].values():
            assert 0.75 < method["coverage"] <= 1.0 and method["width"] > 0.0
        how = argparse.Namespace(threads=1)
        made = {case: distributions.regressor(case, how, 0) for case in distributions.CASES}
        assert made["cv+"].cv == 10 and made["cv+, 5 folds"].cv == 5
        trees = {case: model.estimator.n_estimators for case, model in made.items()}
        assert trees == dict.fromkeys(made, 100) | {"bag, 50 trees": 50}


class TestOblique:
    def test_errors(self, run, write_table):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 3)).astype(np.float32)
        folder = write_table("sonar", X=X, y=(X[:, 0] + X[:, 1] > 0).astype(int))
        write_table("ames", X=X, y=100.0 * X[:, 0])
        options = "--trees 3 --seeds 2 --test 100 --share 0.03 --threads 1 --rows 150"
        results = run(oblique, "--data", folder, *options.split())["results"]
        assert list(results["generated"]) == list(oblique.CASES)
        found = results["generated"]["trunk, 100 x 10"]
        assert 0.04 < found["least"] < 0.05
        assert set(found["forests"]) == {"gpuens", "gpuens, plain", "scikit-learn"}
        assert all(len(own["errors"]) == 2 for own in found["forests"].values())
        ours = results["tables"]["sonar"]["forests"]["gpuens"]
        assert max(ours["errors"]) < 0.3 and len(ours["combinations"]) == 2
        assert "vehicle.npz is not in" in results["tables"]["vehicle"]["gaps"][0]
        assert list(results["numbers"]) == list(oblique.NUMBERS)
        for own in results["numbers"]["ames"]["forests"].values():
            assert len(own["errors"]) == 2 and 2.0 < min(own["errors"]) < 30.0


class TestCommand:
    def test_without_a_name_it_lists_every_program(self, capsys):
        assert __main__.main([]) == 0
        out = capsys.readouterr().out
        assert all(f"  {name}" in out for name in (*__main__.PROGRAMS, "all"))

    def test_all_runs_each_in_a_process(self, monkeypatch):
        ran = []
        monkeypatch.setattr(__main__, "_run", lambda name: ran.append(name) or len(ran) % 2)
        assert __main__.main(["all"]) == 1
        assert ran[0] == "identity" and "scaling" not in ran and "report" in ran

    @pytest.mark.parametrize("name", __main__.PROGRAMS)
    def test_every_program_has_help(self, name, capsys):
        with pytest.raises(SystemExit, match="0"):
            __main__.main([name, "--help"])
        assert f"usage: python -m benchmarks {name}" in capsys.readouterr().out


def test_goals():
    assert not goals.Goal("a", 1.0, 1.01).reached and goals.Goal("a", 1.0, 1.0).reached
    assert goals.Goal("a", 1.0, 0.99, below=True).reached
    assert goals.Goal("a", 1.0, 1.0, below=True).reached is False
    assert goals.Goal("a", None, 1.0).reached is None
    assert (
        goals.Goal("the time", 2, 3.0, "s").sentence()
        == "the time is 3 s; the goal is at most 2 s."
    )


@pytest.mark.slow
def test_explain(run, capsys, monkeypatch):
    pytest.importorskip("xgboost")
    monkeypatch.setattr(explain, "find_spec", lambda name: None if name == "shap" else name)
    sizes = "--trees 6 --depth 3 --rows 30 --pair-trees 3 --pair-rows 10 --training-rows 300"
    options = f"{sizes} --background 9 --background-rows 12 --repeats 2 --threads 1"
    record = run(explain, *options.split())
    values, pairs = record["results"]["values"], record["results"]["interactions"]
    assert (values["n_rows"], pairs["n_rows"]) == (30, 10)
    for part in (values, pairs):
        assert list(part["libraries"]) == ["gpuens", explain.XGBOOST]
        assert all(len(row["seconds"]) == 2 for row in part["libraries"].values())
        assert part["difference"] < 1e-4
    assert values["additivity"]["gpuens"] < 1e-12
    assert [goal.at_most for goal in explain.goals(record)][:2] == [0.15, 0.05]
    assert record["results"]["background"]["gaps"] == ["shap is not installed"]
    assert "| values: 6 trees, 30 rows |" in capsys.readouterr().out
