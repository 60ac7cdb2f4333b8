"""The programs that ``gpu_check`` runs: what they compare and compute, with stand-ins."""

from __future__ import annotations

import itertools
import math
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.common import places, tables
from benchmarks.common.peers import GapError
from benchmarks.common.places import Card, Host, Simulator, place_of
from benchmarks.gpu import crossover, gpu_models, gpu_tests, needs
from benchmarks.programs import fit, forests, many_fits, predict

needs_xgboost = pytest.mark.skipif(find_spec("xgboost") is None, reason="XGBoost is not installed")


class Fake(Host):
    """A GPU that is the host: gpuens runs on the CPU."""

    def peak_bytes(self, call):
        return call() and 2480


@pytest.fixture
def gpu(monkeypatch):
    """Let programs measure on a GPU that is the host."""
    fake = Fake()
    for module in (fit, predict, many_fits, forests, crossover, gpu_models):
        monkeypatch.setattr(module, "place_of", lambda device: fake)
    return fake


class TestPlaces:
    def test_a_gpu_by_cupy(self):
        """With a stand-in for CuPy that counts bytes."""
        log = []
        pool = SimpleNamespace(
            total=100, free_all_blocks=lambda: log.append("free"), total_bytes=lambda: pool.total
        )
        runtime = SimpleNamespace(deviceSynchronize=lambda: log.append("wait"))
        cupy = SimpleNamespace(
            cuda=SimpleNamespace(runtime=runtime), get_default_memory_pool=lambda: pool,
            asarray=np.asarray,
        )  # fmt: skip
        card = Card(cupy)
        assert card.peak_bytes(lambda: setattr(pool, "total", 350)) == 250
        assert log == ["free", "wait"]
        assert card.waiting(lambda x: log.append("work") or x)(3) == 3 and log[2:] == [
            "work", "wait"
        ]  # fmt: skip
        seen, before = [], places.datasets_tables.BLOCK
        card.table(lambda n, *, device: seen.append((n, device, places.datasets_tables.BLOCK)), 5)
        assert seen == [(5, "cuda", places.CELLS_AT_ONCE)]
        assert places.datasets_tables.BLOCK == before

    def test_without_a_gpu(self, monkeypatch):
        monkeypatch.setattr(places.placement, "simulated", lambda: False)
        monkeypatch.setattr(places.placement, "gpu_problem", lambda: "no driver")
        assert type(place_of("cpu")) is Host
        with pytest.raises(GapError, match="a GPU: no driver"):
            place_of("cuda")
        monkeypatch.setattr(places.placement, "simulated", lambda: True)
        found = place_of("cuda")
        assert type(found) is Simulator and (found.device, found.others) == ("cuda", "cpu")


class TestFit:
    def options(self, **more):
        given = {"rows": 400, "trees": 2, "depth": 3, "threads": 1, "with_cpu": True}
        return SimpleNamespace(**given, **more)

    def test_depth_without_a_limit_of_leaves(self):
        settings = fit.settings_of(fit.FOR_GPUS["11m"], self.options())
        ours = fit.trainer("gpuens", "cuda", "binary")(settings).get_params()
        assert ours["device"] == "cuda" and ours["max_depth"] == 3
        assert ours["max_leaf_nodes"] is None and ours["min_samples_leaf"] == 1
        assert ours["l2_regularization"] == ours["min_sum_hessian"] == 1

    @needs_xgboost
    def test_all_share_one_setting(self):
        settings = fit.settings_of(fit.FOR_GPUS["11m"], self.options())
        peer = fit.trainer("XGBoost", "cuda", "binary")(settings).get_params()
        assert peer["device"] == "cuda" and peer["tree_method"] == "hist"
        assert (peer["max_depth"], peer["max_bin"], peer["n_estimators"]) == (3, 255, 2)
        assert peer["reg_lambda"] == peer["min_child_weight"] == 1

    @needs_xgboost
    def test_a_library_that_cannot_train_there_is_a_gap(self, monkeypatch):
        assert fit.peers_on.__wrapped__(Simulator) == ({"XGBoost": "cpu"}, [])
        monkeypatch.setattr("xgboost.build_info", lambda: {"USE_CUDA": False})
        found, (gap,) = fit.peers_on.__wrapped__(Card)
        assert not found and "it is built without CUDA" in gap


class TestPredict:
    @pytest.fixture
    def nvforest(self, monkeypatch):
        def load_model(path, *, model_type, device):
            assert path.stat().st_size > 100 and (model_type, device) == ("xgboost_ubj", "gpu")
            ready = SimpleNamespace(predict_proba=lambda rows: ("optimised", rows.shape))
            return SimpleNamespace(optimize=lambda data: ready)

        monkeypatch.setitem(sys.modules, "nvforest", SimpleNamespace(load_model=load_model))
        monkeypatch.setattr(predict, "find_spec", lambda name: name)

    @needs_xgboost
    @pytest.mark.usefixtures("nvforest")
    def test_nvforest_gets_the_model_of_xgboost_and_is_optimised(self):
        from xgboost import XGBClassifier

        X = np.random.default_rng(0).normal(size=(50, 3))
        model = XGBClassifier(n_estimators=2).fit(X, X[:, 0] > 0)
        assert predict.by_nvforest(model, X)() == ("optimised", (50, 3))

    def test_without_nvforest_it_is_a_gap(self):
        with pytest.raises(GapError, match="nvForest is not installed"):
            predict.by_nvforest(None, None)


class TestCrossover:
    @pytest.mark.parametrize(
        "ratios, rows", [([0.5, 0.4], 10.0), ([3.0, 2.0], None), ([], None),
                         ([2.0, 0.5], math.sqrt(1000))]
    )  # fmt: skip
    def test_from_where_the_gpu_pays(self, ratios, rows):
        points = [(10 ** (k + 1), r) for k, r in enumerate(ratios)]
        assert crossover.pays_from(points) == (rows if rows is None else pytest.approx(rows))

    @pytest.mark.parametrize("kind", ["boosting", "forest"])
    def test_both_devices(self, gpu, kind):
        options = SimpleNamespace(rows=[50, 90], trees=2, threads=1, repeats=1, budget=math.inf)
        found = getattr(crossover, kind)(options)
        assert list(found["fit"]) == list(found["predict"]) == ["50", "90"]
        assert all(found["equal"].values()) and len(found["equal"]) == 2
        text = "\n".join(crossover.show({"results": {kind: found}}))
        assert f"| {kind}: fit, 2 trees | GPU | CPU | GPU ÷ CPU |" in text


@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
def test_the_hosts_time(run):
    from benchmarks.gpu import host_time

    few = "--models", 2, "--rounds", 2, "--round-repeats", 1
    record = run(host_time, "--calls", 2, "--repeats", 1, "--trees", 3, *few)
    launches, predictions = record["results"]["launches"], record["results"]["predictions"]
    assert {"grow_open_nodes", "partition_move"} <= set(launches["microseconds"])
    assert all(row["all others"] > 0 for row in launches["microseconds"].values())
    assert len(predictions["microseconds"]) == 4
    assert all(value > 0 for row in predictions["microseconds"].values() for value in row.values())
    found = [goal.measured for goal in host_time.goals(record)]
    assert found == [launches["mean"]["two others"], predictions["slowest"], None]
    rounds = record["results"]["rounds"]
    assert list(rounds) == ["one model", "2 models", "2 models, early stopping"]
    of_one, of_two, _ = (row["launches"] for row in rounds.values())
    assert 0 < of_one <= of_two <= of_one + 1  # one adds the last tree with the next gradients


class TestModels:
    OPTIONS = SimpleNamespace(rows=300, threads=1, tiny=True)

    def test_models_are_compared(self, gpu, monkeypatch):
        for name in ("boosting, weights, missing", "forest", "stagewise", "three learners"):
            row = gpu_models.compare(self.OPTIONS, name)
            assert row["equal"] == {"model": True, "predictions": True}, name
        another, built = itertools.count(), gpu_models.built
        monkeypatch.setattr(gpu, "device", "cuda", raising=False)
        monkeypatch.setattr(
            gpu_models, "built",
            lambda o, model, device: built(o, model, "cpu").set_params(max_depth=1 + next(another)),
        )  # fmt: skip
        row = gpu_models.compare(self.OPTIONS, "tree")
        assert row["equal"] == {"model": False, "predictions": False}

    def test_generated_tables_stand_in_for_real_ones(self, monkeypatch, tmp_path):
        monkeypatch.setattr(tables, "DATA", tmp_path)
        for table, classes in (("adult", 2), ("letter", 7), ("california_housing", None)):
            X, y, source = gpu_models.table_of(table, 3000)
            assert source == "generated" and X.dtype == np.float32 and len(y) == 3000
            assert y.min() > 0 if classes is None else sorted(set(y)) == list(range(classes))


class TestSuites:
    @pytest.fixture(autouse=True)
    def not_simulated(self, monkeypatch):
        monkeypatch.setattr(gpu_tests, "simulated", lambda: False)

    def test_failing_tests_are_named(self):
        failing = "FAILED tests/gpu/test_gpu.py::test_a - assert 1 == 2"
        found = gpu_tests.outcome(1, f"..F\n{failing}\n1 failed, 52 passed, 7 skipped in 3.1s\n")
        assert found["counts"] == {"failed": 1, "passed": 52, "skipped": 7, "not collected": 0}
        assert found["failures"] == [failing] and found["failed"].startswith("1 failed: [")

    @pytest.mark.parametrize("text", ["FAILED tests/a.py::b", "ERROR tests/a.py - x"])
    def test_a_rehearsal_fails_by_what_is_not_collected(self, monkeypatch, text):
        monkeypatch.setattr(gpu_tests.stub, "is_in_place", lambda: True)
        monkeypatch.setattr(gpu_tests, "run", lambda command, seconds: (1, f"{text}\n1 failed"))
        found = gpu_tests.tests(SimpleNamespace(started=0.0, seconds=9.0))
        assert ("failed" in found) == text.startswith("ERROR") and found["failures"]

    def test_a_crash_is_named(self):
        found = gpu_tests.outcome(-11, "Fatal Python error: Segmentation fault\n")
        assert found["failed"] == "pytest ended with -11" and not found["failures"]

    def test_tests_that_were_cut_off_do_not_fail(self):
        found = gpu_tests.outcome(None, "....\n4 passed in 3.1s\n")
        assert found["cut_off"] and "failed" not in found and not found["passed"]

    @pytest.mark.parametrize(
        "reason", ["needs a GPU: no driver", "needs an NVIDIA GPU", "CUDA needs NUMBA_ENABLE…"]
    )
    def test_tests_that_find_no_gpu_fail(self, reason):
        text = f"ss\nSKIPPED [2] tests/gpu/a.py:3: {reason}\n2 skipped in 1s\n"
        found = gpu_tests.outcome(0, text)
        assert found["failed"].startswith("tests did not find the GPU: SKIPPED [2]")

    def test_files_that_cannot_be_collected_are_counted(self):
        text = "ERROR tests/a/test_b.py - ModuleNotFoundError\nERROR tests/c.py::test_d - x\n"
        found = gpu_tests.outcome(1, f"{text}1 passed, 2 errors in 1s\n")
        assert found["counts"]["not collected"] == 1 and found["counts"]["errors"] == 2

    def test_what_lacks_a_package_is_left_out_and_named(self, monkeypatch, capsys):
        ran = []
        monkeypatch.setattr(needs, "_is_installed", lambda name: name != "array_api_strict")
        monkeypatch.setattr(gpu_tests, "run", lambda c, s: ran.extend(c) or (0, "1 passed in 1s"))
        found = gpu_tests.tests(SimpleNamespace(started=0.0, seconds=9.0))
        assert "tests/gpu/test_gpu.py" in ran and found["passed"]
        assert "--continue-on-collection-errors" in ran
        gap = "tests/datasets/test_datasets.py needs array_api_strict"
        assert gap in found["gaps"] and f"skipped: {gap}" in capsys.readouterr().out
        left_out = [gap.partition(" ")[0] for gap in found["gaps"]]
        assert not set(left_out) & set(ran) and len(ran) > len(left_out)

    @pytest.mark.parametrize("lines, status, failed", [
        (["ERROR SUMMARY: 0 errors"], 0, False),
        (["RACECHECK SUMMARY: 0 hazards displayed"], 0, False),
        (["ERROR SUMMARY: 3 errors"], 9, True), ([], 1, True), ([], None, False),
        (["Invalid __global__ read of size 4 bytes", "    at add_tiles+0x1"], None, True),
    ])  # fmt: skip
    def test_the_sanitizer(self, monkeypatch, lines, status, failed):
        """Errors count although its time was over."""
        monkeypatch.setattr(gpu_tests.shutil, "which", lambda name, path: f"/bin/{name}")
        report = [f"========= {line}" for line in ["COMPUTE-SANITIZER", *lines]]
        text = "\n".join(["text", *report])
        monkeypatch.setattr(gpu_tests, "run", lambda command, seconds: (status, text))
        found = gpu_tests.sanitize(SimpleNamespace(started=0.0, seconds=9.0), "racecheck")
        assert ("failed" in found) == failed and found["report"] == report
        assert ("cut_off" in found) == (status is None and not failed)
        assert found["errors"] == any("3 errors" in line or "Invalid" in line for line in lines)

    def test_a_program_is_ended_at_its_time(self):
        status, output = gpu_tests.run(
            [sys.executable, "-S", "-uc", "import time; print('begun'); time.sleep(60)"], 5.0
        )
        assert status is None and output.startswith("begun")

    def test_the_compilers_share_the_kernels(self, monkeypatch):
        from gpuens.devices import placement as devices
        from gpuens.kernels import catalogue

        done = []
        monkeypatch.setattr(devices, "resolve_device", lambda device: devices.CPU)
        monkeypatch.setattr(catalogue, "compile_ahead", done.append)

        def of(entry):
            return entry.kernel.py_func.__module__, entry.kernel.py_func.__qualname__

        by_part, entries = [], 0
        for part in range(3):
            gpu_tests.compile_part(part, 3)
            by_part.append({of(entry) for entry in done})
            entries += len(done)
            done.clear()
        assert not by_part[0] & by_part[1] and not (by_part[0] | by_part[1]) & by_part[2]
        assert entries == len(list(catalogue.entries()))


class TestNeeds:
    """What a test imports before it begins, by itself or through others of the checkout."""

    def missing(self, monkeypatch, tmp_path, text, *installed):
        monkeypatch.setattr(needs, "_is_installed", lambda name: name in installed)
        path = tmp_path / "test_something.py"
        path.write_text(text)
        return needs.missing(path)

    @pytest.mark.parametrize("text, expected", [
        ("import polars as pl\nfrom pandas.api import x", ["pandas", "polars"]),
        ("def test():\n    import polars", []),
        ("try:\n    import polars\nexcept ImportError:\n    pass", []),
        ("if True:\n    import polars", ["polars"]),
        ("import pytest\npytest.importorskip('numba_cuda')\nimport numba_cuda", ["pytest"]),
        ("from tests.support import ptx_option", ["pytest"]),
    ])  # fmt: skip
    def test_imports(self, monkeypatch, tmp_path, text, expected):
        found = self.missing(monkeypatch, tmp_path, text, "numpy", "dataclasses", "types", "typing",
                             "__future__")  # fmt: skip
        assert found == expected

    def test_those_of_the_folders(self):
        path = needs.ROOT / "tests/kernels/statistics/test_quantise.py"
        assert {"pytest", "numpy"} <= {
            name for file in (path, path.parents[1] / "conftest.py") if file.exists()
            for name in needs._packages(file)
        }  # fmt: skip
        assert needs.missing(path) == []
