"""The cases of ``gpu_check``: what they compare, compute, print and draw, with stand-ins."""

from __future__ import annotations

import itertools
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.common import tables, timing
from benchmarks.gpu import bench as gpu_bench
from benchmarks.gpu import boosting, forests, identity, suites
from benchmarks.gpu.bench import ON_CPU, OURS, XGBOOST, Bench, Card, Rehearsal
from gpuens.devices.policy import boosting_work

needs_xgboost = pytest.mark.skipif(find_spec("xgboost") is None, reason="XGBoost is not installed")


class HostAsCard(Rehearsal):
    """Whatever asks for the card gets the host."""


@pytest.fixture
def bench(monkeypatch):
    """gpuens on the CPU under the name of the card; everything small."""
    made = Bench(HostAsCard(), repeats=1, threads=1, rehearsal=True)
    monkeypatch.setattr(made, "rows", lambda n: min(n, 400), raising=False)
    on_host = {"cuda": "cpu"}
    ours = boosting.ours

    def there(task, device="cuda"):
        return ours(task, on_host.get(device, device))

    monkeypatch.setattr(boosting, "ours", there)
    return made


class TestContest:
    def clock(self, monkeypatch, *seconds):
        """Every call takes the next of these times."""
        told = itertools.cycle(seconds)
        monkeypatch.setattr(timing, "seconds_of", lambda action, threads: (next(told), action()))

    def test_ratios_are_of_medians(self, bench, monkeypatch):
        self.clock(monkeypatch, 2.0, 8.0)
        libraries, results = bench.contest({OURS: lambda: "a", XGBOOST: lambda: "b"}, repeats=1)
        assert libraries[XGBOOST]["ratio"] == 0.25 and "ratio" not in libraries[OURS]
        assert results == {OURS: "a", XGBOOST: "b"}

    def test_one_that_fails_is_out(self, bench):
        calls = []

        def fails():
            calls.append(1)
            raise RuntimeError("out of memory")

        libraries, results = bench.contest({OURS: lambda: 1, XGBOOST: fails}, repeats=3)
        assert set(libraries) == set(results) == {OURS} and len(calls) == 1
        assert len(libraries[OURS]["seconds"]) == 3
        assert bench.gaps == {XGBOOST: "RuntimeError: out of memory"}

    def test_our_own_error_is_raised(self, bench):
        with pytest.raises(ZeroDivisionError):
            bench.contest({OURS: lambda: 1 / 0, XGBOOST: lambda: 1})

    def test_without_us_there_are_no_ratios(self, bench):
        libraries, _ = bench.contest({XGBOOST: lambda: 1})
        assert "ratio" not in libraries[XGBOOST]

    def test_the_card_is_waited_for(self):
        order = []
        card = Rehearsal()
        card.synchronise = lambda: order.append("wait")
        Bench(card).waiting(lambda: order.append("work"))()
        assert order == ["work", "wait"]


class TestCases:
    @needs_xgboost
    def test_training(self, bench):
        row = boosting.fit(bench, 100_000)
        assert (row["n_rows"], row["n_features"], row["n_trees"], row["depth"]) == (400, 6, 2, 3)
        assert row["table_bytes"] == 400 * (6 * 4 + 8)
        assert {OURS, XGBOOST} <= set(row["libraries"])
        assert all(0 < lib["quality"]["auc"] <= 1 for lib in row["libraries"].values())
        assert row["ms_a_tree"] == 500 * row["libraries"][OURS]["median"]
        classes = boosting.fit(bench, 100_000, n_classes=100, n_trees=10)
        assert classes["n_classes"] == 5 and classes["libraries"][OURS]["quality"]["log_loss"] > 0

    @needs_xgboost
    def test_all_share_one_setting(self, bench):
        settings = boosting.settings_of(Bench(Rehearsal(), threads=3), 100, 8)
        ours = boosting.ours("binary")(settings).get_params()
        peer = boosting.xgboost(bench, "binary")(settings).get_params()
        assert ours["max_depth"] == peer["max_depth"] == 8 and ours["max_leaf_nodes"] is None
        assert ours["n_estimators"] == peer["n_estimators"] == 100
        assert ours["max_bins"] == peer["max_bin"] == 255
        assert ours["l2_regularization"] == peer["reg_lambda"] == 1
        assert ours["min_sum_hessian"] == peer["min_child_weight"] == 1
        assert ours["min_samples_leaf"] == 1 and peer["tree_method"] == "hist"

    def test_every_class_occurs_among_the_first_rows(self):
        X = np.random.default_rng(0).normal(size=(5000, 4)).astype(np.float32)
        y = boosting.many_classes(Bench(Rehearsal()), X, np.arange(5000) % 2, 100)
        assert sorted(set(y[:4096])) == list(range(100)) and y.dtype == np.int64

    def test_memory_is_told_beside_what_was_asked(self, bench, monkeypatch):
        monkeypatch.setattr(bench.card, "peak_bytes", lambda call: call() and 2520, raising=False)
        monkeypatch.setattr(bench, "rows", lambda n: 30, raising=False)
        row = boosting.memory(bench, 11_000_000)
        assert row["asked_bytes"] == 30 * (3 * 6 + 40) and row["planned_bytes"] > 0
        assert row["ratio"] == 2520 / (30 * 58) and row["bytes_a_row"] == 84

    def test_card_and_cores(self, bench, capsys):
        row = boosting.cores(bench, 1000)
        assert row["identical_to_cpu"] and set(row["libraries"]) == {OURS, ON_CPU}
        work = boosting_work((row["n_rows"], row["n_features"]), row["n_trees"])
        assert row["estimated_seconds"] == {OURS: work.gpu, ON_CPU: work.cpu}
        assert f"s, estimated {work.cpu:.2g} s\n" in capsys.readouterr().out

    @needs_xgboost
    def test_prediction(self, bench, monkeypatch):
        row = boosting.predict(bench, 1000, n_trees=500)
        assert {OURS, XGBOOST} == set(row["libraries"]) and row["seconds_of_one_row"] > 0
        assert bench.gaps == {"nvForest": "ImportError: nvforest is not installed"}
        assert row["seconds_of_leaves"] > 0 and row["leaf_rows"] == 400

    def test_models_are_trained_once_for_all_predictions(self, bench, monkeypatch):
        def built(bench, task):
            bench.gaps[XGBOOST] = "is not installed"
            return {OURS: (boosting.ours(task), True)}

        monkeypatch.setattr(boosting, "builders", built)
        first = boosting.trained(bench, boosting.settings_of(bench, 2, 3))
        again = Bench(bench.card, threads=1, rehearsal=True)
        boosting.predict(again, 300, n_trees=2, depth=3)
        assert list(bench.card.kept.values()) == [(first, {XGBOOST: "is not installed"})]
        assert again.gaps == {XGBOOST: "is not installed", "nvForest": "needs XGBoost's model"}

    @needs_xgboost
    def test_nvforest_gets_the_model_of_xgboost(self, bench, monkeypatch):
        def load_model(path, *, model_type, device):
            assert path.stat().st_size > 100 and (model_type, device) == ("xgboost_ubj", "gpu")
            return SimpleNamespace(predict_proba=lambda rows: rows.shape)

        monkeypatch.setitem(sys.modules, "nvforest", SimpleNamespace(load_model=load_model))
        monkeypatch.setattr(boosting, "find_spec", lambda name: name)
        row = boosting.predict(bench, 1000)
        assert "ratio" in row["libraries"]["nvForest"] and not bench.gaps

    @pytest.fixture
    def cuml(self, monkeypatch):
        class Forest:
            def fit(self, X, y):
                assert y.dtype == np.int32
                return self

            def predict(self, X):
                return np.zeros(len(X), np.int32)

            predict_proba = predict

        monkeypatch.setattr(forests, "find_spec", lambda name: name)
        monkeypatch.setattr(forests.scaling_libraries, "cuml_forest", lambda *_: Forest())

    @pytest.mark.usefixtures("cuml")
    def test_forests(self, bench, monkeypatch):
        forest = forests.RandomForestClassifier
        monkeypatch.setattr(
            forests, "RandomForestClassifier",
            lambda n, **settings: forest(n, **{**settings, "device": "cpu"}),
        )  # fmt: skip
        row = forests.forest(bench, 1000, 100, 30, with_cpu=True)
        assert set(row["libraries"]) == {OURS, "cuML", ON_CPU} and row["identical_to_cpu"]
        assert row["depth"] == 3 and 0 <= row["libraries"]["cuML"]["accuracy"] <= 1

    @needs_xgboost
    def test_many_fits_are_those_of_single_ones(self, bench):
        row = boosting.many_fits(bench, 200)
        assert row["same_as_alone"] and row["n_fits"] == 4
        assert {OURS, boosting.ONE_BY_ONE, XGBOOST} == set(row["libraries"])

    def test_launches_need_their_environment(self, bench, monkeypatch):
        with pytest.raises(RuntimeError, match="direct needs GPUENS_CUDA_LAUNCHER=direct"):
            boosting.launches(bench, "direct", 100)
        times = iter([1.0, 5.0])
        monkeypatch.setattr(bench.card, "seconds", lambda call: call() and next(times))
        row = boosting.launches(bench, "stock", 100)
        assert row["ms_a_tree"] == 2000  # two trees more take four seconds more

    def test_models_are_compared(self, bench, monkeypatch):
        built = identity.built
        monkeypatch.setattr(identity, "built", lambda b, model, device: built(b, model, "cpu"))
        for name in ("boosting, weights, missing", "forest", "stagewise", "three learners"):
            row = identity.compare(bench, name)
            assert row["same_model"] and row["same_predictions"], name
        another = itertools.count()
        monkeypatch.setattr(
            identity, "built",
            lambda b, model, device: built(b, model, "cpu").set_params(max_depth=1 + next(another)),
        )  # fmt: skip
        row = identity.compare(bench, "tree")
        assert not row["same_model"] and not row["same_predictions"]

    def test_generated_tables_stand_in_for_real_ones(self, monkeypatch, tmp_path):
        monkeypatch.setattr(tables, "DATA", tmp_path)
        for table, classes in (("adult", 2), ("letter", 7), ("california_housing", None)):
            X, y, source = identity.table_of(table, 3000)
            assert source == "generated" and X.dtype == np.float32 and len(y) == 3000
            assert y.min() > 0 if classes is None else sorted(set(y)) == list(range(classes))


class TestSuites:
    def outcome(self, monkeypatch, status, output):
        monkeypatch.setattr(suites, "run", lambda command, seconds: (status, output))

    def test_failing_tests_are_named(self, bench, monkeypatch, capsys):
        failing = "FAILED tests/gpu/test_gpu.py::test_a - assert 1 == 2"
        self.outcome(monkeypatch, 1, f"..F\n{failing}\n1 failed, 52 passed, 7 skipped in 3.1s\n")
        found = suites.tests(bench)
        assert found["counts"] == {"failed": 1, "passed": 52, "skipped": 7}
        assert found["failures"] == [failing] and found["failed"].startswith("1 tests failed")

    def test_tests_that_were_cut_off_do_not_fail(self, bench, monkeypatch, capsys):
        self.outcome(monkeypatch, None, "....\n4 passed in 3.1s\n")
        found = suites.tests(bench)
        assert found["cut_off"] and "failed" not in found and not found["passed"]

    @pytest.mark.parametrize(
        "reason", ["needs a GPU: no driver", "needs an NVIDIA GPU", "CUDA needs NUMBA_ENABLE…"]
    )
    def test_tests_that_find_no_card_fail(self, monkeypatch, capsys, reason):
        self.outcome(
            monkeypatch, 0, f"ss\nSKIPPED [2] tests/gpu/a.py:3: {reason}\n2 skipped in 1s\n"
        )
        found = suites.tests(Bench(Rehearsal()))
        assert found["failed"].startswith("tests did not find the card: SKIPPED [2]")

    @pytest.mark.parametrize("status, failed", [(0, False), (9, True), (1, True), (None, False)])
    def test_the_sanitizer(self, monkeypatch, status, failed):
        monkeypatch.setattr(suites.shutil, "which", lambda name, path: f"/bin/{name}")
        self.outcome(monkeypatch, status, "text\n========= ERROR SUMMARY: 3 errors\n")
        found = suites.sanitize(Bench(Rehearsal()), "racecheck")
        assert ("failed" in found) == failed and found["errors"] == (status == 9)
        assert found["report"] == ["========= ERROR SUMMARY: 3 errors"]

    def test_a_program_is_ended_at_its_time(self):
        status, output = suites.run(
            [sys.executable, "-S", "-uc", "import time; print('begun'); time.sleep(60)"], 1.0
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
            suites.compile_part(part, 3)
            by_part.append({of(entry) for entry in done})
            entries += len(done)
            done.clear()
        assert not by_part[0] & by_part[1] and not (by_part[0] | by_part[1]) & by_part[2]
        assert entries == len(list(catalogue.entries()))


def test_a_card_by_cupy():
    """With a stand-in for CuPy that counts bytes."""
    log = []
    pool = SimpleNamespace(
        total=100, free_all_blocks=lambda: log.append("free"), total_bytes=lambda: pool.total
    )
    runtime = SimpleNamespace(
        deviceSynchronize=lambda: log.append("wait"), memGetInfo=lambda: (7, 9)
    )
    cupy = SimpleNamespace(
        cuda=SimpleNamespace(runtime=runtime), get_default_memory_pool=lambda: pool,
        ones=np.ones, asarray=np.asarray,
    )  # fmt: skip
    card = Card(cupy)
    assert card.peak_bytes(lambda: setattr(pool, "total", 350)) == 250
    assert log == ["free", "wait"] and card.free_bytes() == 7 and card.is_alive()
    cupy.ones = lambda n: 1 / 0
    assert not card.is_alive()
    seen = []

    def make(n, *, device):
        seen.append((n, device, gpu_bench.datasets_tables.BLOCK))

    before = gpu_bench.datasets_tables.BLOCK
    card.table(make, 5)
    assert (
        seen == [(5, "cuda", gpu_bench.CELLS_AT_ONCE)] and gpu_bench.datasets_tables.BLOCK == before
    )
