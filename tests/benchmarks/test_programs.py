"""The programs run, and their results hold what was measured."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import numpy as np
import pytest

import gpuens
from benchmarks import __main__
from benchmarks.common.peers import BOTH, present
from benchmarks.common.places import Host
from benchmarks.learners import distributions, learners, oblique, ranking, survival, targets, values
from benchmarks.programs import first_model, fit, forests, kernels, memory, predict

TINY = "--rows 500 --trees 2 --repeats 1 --threads 1".split()


class TestFit:
    def test_every_library_has_its_runs_and_its_quality(self, run):
        options = "--rows 600 --trees 2 --repeats 2 --threads 1 --only 1m covtype words"
        record = run(fit, *options.split())
        assert record["settings"]["threads"] == 1
        assert {"cpu", "cores", "ram_gib", "gpus"} <= record["machine"].keys()
        assert {"python", "numpy", "scikit-learn"} <= record["versions"].keys()
        workload = record["results"]["1m"]
        assert workload["title"] == "600 × 28, 2 classes"
        assert list(workload["libraries"]) == ["gpuens", *filter(present, fit.ALL)]
        for row in workload["libraries"].values():
            assert row["runs"] == 2 and row["range"][0] <= row["median"] <= row["range"][1]
            assert 0.4 < row["quality"]["auc"] < 1
        assert "gpuens" in record["results"]["words"]["libraries"]

    def test_array_code_beside_compiled_code(self, run, only_libraries):
        only_libraries("gpuens")
        workload = run(fit, *TINY, "--with-array", "--only", "10k")["results"]["10k"]
        assert list(workload["libraries"]) == ["gpuens", "gpuens in the table's library"]
        assert workload["equal"] == {"compiled and array code": True}


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


class TestFirstModel:
    @pytest.mark.slow
    def test_a_process_of_each_model_and_which_failed(self, run, monkeypatch):
        models = {"tree": first_model.MODELS["tree"], "boosting": ("gpuens", "NoSuchModel()")}
        monkeypatch.setattr(first_model, "MODELS", models)
        results = run(first_model, *TINY, "--only", "processes")["results"]["processes"]
        assert list(results["medians"]) == ["tree"]
        seconds = results["medians"]["tree"]
        parts = sum(seconds[part] for part in ("import", "fit", "predict"))
        assert seconds["total"] == pytest.approx(parts, rel=1e-4)
        assert {"gpuens.kernels", "sklearn", "numpy"} <= results["imports"]["tree"].keys()
        assert results["gaps"][0].startswith("boosting: a new process ended with 1: Attribute")

    def test_processes_that_compile_have_a_cache_of_their_own(self, monkeypatch):
        environments = []

        def model(self, name, *flags, **environment):
            environments.append(environment)
            return {"total": 2.0, "CPU": 1.0}, ""

        monkeypatch.setattr(first_model.Processes, "model", model)
        options = argparse.Namespace(rows=50, trees=1, threads=1)
        found = first_model.compiling(options)["medians"]
        assert list(found) == list(first_model.COMPILED)
        assert {own["GPUENS_KERNELS"] for own in environments} == {"compiled"}
        assert len({own["NUMBA_CACHE_DIR"] for own in environments}) == len(found)

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


def test_memory_is_relative_to_the_input(run, only_libraries):
    only_libraries("gpuens")
    ours = run(memory, *TINY)["results"]["gpuens"]
    (beyond,) = ours["bytes"]
    assert ours["relative"] == pytest.approx(beyond / (500 * 28 * 4), rel=1e-5)


class TestForests:
    @pytest.mark.slow
    def test_all_parts(self, run, write_table):
        noise = np.random.default_rng(0).random(240) < 0.1
        y = np.where(noise, write_table.y, write_table.X[:, 0] > 0)
        folder = write_table("covtype_first20k", y=y.astype("U1"))
        small = "--rows 300 --trees 10 --splits 2 --predict-rows 400 --stumps 40 --repeats 2"
        record = run(forests, "--data", folder, *small.split(), "--threads", 1)
        results = record["results"]
        assert list(results) == list(forests.WORK)
        for name in forests.WORK:
            libraries = results[name]["libraries"]
            assert list(libraries) == list(BOTH)
            assert all(row["runs"] == 2 for row in libraries.values())
        assert results["depth_14"]["title"] == "300 × 28, 2 classes"
        assert results["depth_14"]["n_trees"] == 4
        assert results["predict"]["title"] == "400 × 28, 2 classes"
        for name, key in (("depth_14", "auc"), ("to_purity", "accuracy")):
            assert all(0.4 < r["quality"][key] < 1 for r in results[name]["libraries"].values())
        assert len(list(forests.goals(record))) == len(forests.WORK) + 2

    def test_missing_classes_and_tables_are_gaps(self, run, capsys):
        options = ["--data", "none", *TINY, "--only", "single_tree", "to_purity"]
        results = run(forests, *options)["results"]
        assert results["to_purity"]["gaps"] == [
            "covtype_first20k.npz is not in the folder of the data"
        ]
        assert "skipped: covtype_first20k.npz" in capsys.readouterr().out


class TestKernels:
    def test_operations_are_parts_of_the_whole(self, run):
        found = run(kernels, *TINY, "--only", "cpu", "--features", 5)["results"]["cpu"]["models"]
        assert list(found) == list(kernels.MODELS)
        assert found["boosting"]["fit"]["boosting.add_newton_trees"][1] == 2
        assert found["boosting, half of the rows"]["fit"]["growth.grow"][1] == 2
        assert "cart.grow_cart" in found["forest"]["fit"]
        for parts in found.values():
            whole = parts["fit"]["all"][0]
            assert all(0 <= seconds <= whole for seconds, _ in parts["fit"].values())
            assert list(parts["predict"])[0] == "all" and "prediction.traverse" in parts["predict"]

    def test_operations_are_as_before_afterwards(self):
        def found():
            return [getattr(module, op) for module, op, _ in kernels.operations()]

        before = found()
        with kernels.timed(Host()):
            assert before and all(own is not op for own, op in zip(found(), before, strict=True))
        assert all(own is op for own, op in zip(found(), before, strict=True))


class TestLearners:
    @pytest.fixture
    def only(self, monkeypatch):
        """Let only some libraries seem installed."""

        def only(*names):
            modules = [values.MODULES[name] for name in names]
            monkeypatch.setattr(values, "find_spec", lambda name: name in modules)

        return only

    def test_ranking(self, run, write_table, only, capsys):
        only("LightGBM")
        arrays = {"y": np.arange(240) % 3, "group_sizes": np.full(40, 6)}
        test = np.repeat(np.arange(40) % 4 == 0, 6)
        folder = write_table("lambdarank_lightgbm", is_test=test, **arrays)
        options = "--seeds 2 --folds 1 --rounds 2 --queries 3 --repeats 1 --threads 1 --only"
        found = run(learners, "--data", folder, *options.split(), "ranking")["results"]["ranking"]
        for case, n_runs in (("official split", 2), ("five folds", 1)):
            for own in found[case].values():
                ranks = [own[f"NDCG@{k}"] for k in ranking.RANKS]
                assert all(len(runs) == n_runs for runs in ranks)
                assert own["mean NDCG"] == pytest.approx(np.mean(ranks, axis=0), rel=1e-4)
                assert 0 < min(own["mean NDCG"]) <= max(own["mean NDCG"]) <= 1
        assert list(found["generated documents"]) == ["gpuens", "LightGBM"]
        assert "| five folds: NDCG@10 |" in capsys.readouterr().out

    def test_folds_test_each_query_once(self, monkeypatch, write_table):
        """A model that knows the query gives it the best order where it was not trained on."""
        tested = []

        class Ranker:
            def fit(self, X, y, group):
                self.trained = set(X[:, 0])
                return self

            def predict(self, X):
                tested.append(set(X[:, 0]))
                assert not self.trained & tested[-1]
                return X[:, 1]

        X = np.column_stack([np.repeat(np.arange(40), 6), np.arange(240) % 3, np.zeros((240, 3))])
        folder = write_table(
            "lambdarank_lightgbm", X=X, y=X[:, 1], group_sizes=np.full(40, 6),
            is_test=X[:, 0] < 9,
        )  # fmt: skip
        monkeypatch.setattr(ranking, "rankers", lambda *_: {"gpuens": Ranker()})
        monkeypatch.setattr(ranking, "speed_of_rankings", lambda _: {})
        found = ranking.ranking(argparse.Namespace(data=folder, seeds=0, folds=2))["five folds"]
        for repeat in (tested[:5], tested[5:]):
            assert sum(map(len, repeat)) == len(set.union(*repeat)) == 40
        assert tested[0] != tested[5] and found["gpuens"]["NDCG@5"] == [1.0, 1.0]

    def test_survival(self, run, write_table, only):
        only("XGBoost")
        event, y = np.arange(240) % 3 > 0, np.arange(240) % 17 + 1.0
        folder = write_table("gbsg2", y=y, event=event)
        options = "--rows 300 --rounds 3 --repeats 1 --threads 1 --only survival"
        found = run(learners, "--data", folder, *options.split())["results"]["survival"]
        assert list(found["Cox, gbsg2"]) == ["gpuens", "XGBoost"]
        assert list(found["forest, gbsg2"]) == ["gpuens"]
        for kind in survival.RISKS:
            runs = found[f"{kind}, gbsg2"]["gpuens"]["concordance"]
            assert len(runs) == 5 and all(0 < value < 1 for value in runs)
        assert "metabric.npz is not in" in found["Cox, metabric"]["gaps"][0]
        assert len(found["forest, generated"]["gpuens"]["cpu"]) == 1

    def test_distributions_and_intervals(self, run, write_table, only, monkeypatch):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(400, 3)).astype(np.float32)
        y = X[:, 0] + 0.3 * rng.normal(size=400)
        folder = write_table("california_housing", X=X, y=y)
        only()
        monkeypatch.setattr(distributions, "ROWS", 200)
        options = "--splits 2 --rounds 4 --draws 2 --threads 1 --only distributions intervals"
        results = run(learners, "--data", folder, *options.split())["results"]
        found = results["distributions"]["california_housing"]["gpuens"]
        constant = 0.5 * np.log(2 * np.pi * y.var()) + 0.5
        assert len(found["nll"]) == len(found["cpu"]) == 2 and max(found["nll"]) < constant
        assert "bike.npz is not in" in results["distributions"]["bike"]["gaps"][0]
        assert list(results["intervals"]) == list(distributions.CASES)
        for row in results["intervals"].values():
            assert 0.75 < row["coverage"] <= 1.0 and row["width"] > 0.0
        made = {case: distributions.with_intervals(case, SimpleNamespace(threads=1), 0)
                for case in distributions.CASES}  # fmt: skip
        assert made["cv+"].cv == 10 and made["cv+, 5 folds"].cv == 5
        trees = {case: model.estimator.n_estimators for case, model in made.items()}
        assert trees == dict.fromkeys(made, 100) | {"bag, 50 trees": 50}

    def test_oblique(self, run, write_table, monkeypatch):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 3)).astype(np.float32)
        folder = write_table("sonar", X=X, y=(X[:, 0] + X[:, 1] > 0).astype(int))
        write_table("ames", X=X, y=100.0 * X[:, 0])
        monkeypatch.setattr(oblique, "TREES", 3)
        few = {name: (make, 60, n) for name, (make, _, n) in oblique.GENERATED.items()}
        monkeypatch.setattr(oblique, "GENERATED", few)
        found = run(learners, "--data", folder, "--only", "oblique")["results"]["oblique"]
        assert 0.04 < found["trunk, 100 x 10"]["the best rule"]["error"][0] < 0.05
        libraries = ["gpuens", "gpuens, plain", "scikit-learn"]
        assert list(found["sonar"]) == list(found["ames"]) == libraries
        assert max(found["sonar"]["gpuens"]["error"]) < 0.3
        for own in found["ames"].values():
            assert len(own["error"]) == 3 and 2.0 < min(own["error"]) < 30.0
        assert "vehicle.npz is not in" in found["vehicle"]["gaps"][0]

    def test_targets(self, run, only, monkeypatch):
        only()
        monkeypatch.setattr(targets, "SEEDS", 2)
        monkeypatch.setattr(targets, "ROWS", {"400 rows": 400})
        found = run(learners, *"--rounds 20 --threads 1 --only targets".split())["results"]
        libraries = found["targets"]["400 rows"]
        assert list(libraries) == ["gpuens", "gpuens, a tree each"]
        for own in libraries.values():
            assert len(own["cpu"]) == 2 and 0.7 < min(own["error"]) < max(own["error"]) < 4.0


class TestCommand:
    def test_without_a_name_it_lists_every_program(self, capsys):
        assert __main__.main([]) == 0
        out = capsys.readouterr().out
        assert all(f"  {name}" in out for name in (*__main__.PROGRAMS, "all"))

    def test_all_runs_each_in_a_process(self, monkeypatch):
        ran = []
        monkeypatch.setattr(__main__, "_run", lambda name: ran.append(name) or len(ran) % 2)
        assert __main__.main(["all"]) == 1
        assert ran[0] == "fit" and "gpu_check" not in ran and ran[-1] == "report"

    @pytest.mark.parametrize("name", __main__.PROGRAMS)
    def test_every_program_has_help(self, name, capsys):
        with pytest.raises(SystemExit, match="0"):
            __main__.main([name, "--help"])
        assert f"usage: python -m benchmarks {name}" in capsys.readouterr().out
