"""The ladders of ``python -m benchmarks scaling``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import log_loss, root_mean_squared_error

from benchmarks.common import timing
from benchmarks.common.machine import ROOT
from benchmarks.common.peers import GapError, Settings
from benchmarks.programs import memory
from benchmarks.scaling import libraries as scaling_libraries
from benchmarks.scaling import scaling
from benchmarks.scaling import tables as scaling_tables
from benchmarks.scaling import worker as scaling_worker
from benchmarks.scaling.plan import Point
from benchmarks.scaling.tables import Table, Tables

STAND_INS = '''
import os, signal, time
import numpy as np
from benchmarks.scaling.libraries import Library

class Mean:
    """Predicts how often class 1 occurs."""

    def fit(self, X, y):
        self.p = float(np.mean(y))
        return self

    def predict_proba(self, X):
        return np.tile([1 - self.p, self.p], (len(X), 1))

class Killed(Mean):
    def fit(self, X, y):
        if len(X) > 2500:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y)

class Full(Mean):
    def fit(self, X, y):
        if len(X) > 2500:
            raise MemoryError("no room for\\n%d rows" % len(X))
        return super().fit(X, y)

class Hangs(Mean):
    def fit(self, X, y):
        if len(X) > 2500:
            time.sleep(600)
        return super().fit(X, y)

def entry(name, cls):
    return Library(name, "numpy", lambda task, settings: cls())

ESTIMATORS = {
    "gradient_boosting": (
        entry("gpuens", Mean), entry("LightGBM", Killed), entry("XGBoost", Full),
        entry("HistGB", Hangs), Library("nothing", "no_such_module", None),
    )
}
'''
POINT = Point(1000, 28, 20, None, 2)


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """Stand-ins in the places of the libraries."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "standin_libraries.py").write_text(STAND_INS)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(scaling, "REGISTRY", "standin_libraries")
    monkeypatch.setattr(scaling_tables, "BLOCK_CELLS", 1)
    yield folder
    sys.modules.pop("standin_libraries", None)


class Here:
    """A worker without a process."""

    def __init__(self, job, limit):
        self.job, self.measured = job, None

    def ask(self, turn):
        try:
            self.measured = self.measured or scaling_worker.Measured(self.job)
            return self.measured.turn(turn) if turn >= 0 else {"ready": True}
        except Exception as error:
            raise GapError(scaling_worker._one_line(error)) from error

    def close(self):
        self.measured = None


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the program without processes; returns its results."""
    monkeypatch.setattr(scaling, "Worker", Here)
    monkeypatch.setattr(scaling_tables, "BLOCK_CELLS", 1)  # blocks of 1000 rows
    for module in (memory, timing):  # collecting all that pytest holds takes long
        monkeypatch.setattr(module, "gc", SimpleNamespace(collect=lambda: 0))

    def run(*options, status=0):
        base = ["--output", str(tmp_path / "out"), "--threads", "1", "--repeats", "2"]
        base += ["--most-repeats", "2", "--trees", "3"]
        assert scaling.main([*base, *map(str, options)]) == status
        return latest(tmp_path / "out")["results"]

    return run


def latest(folder):
    path = max(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
    return json.loads(path.read_text())


def present(estimator):
    names = scaling_libraries.ESTIMATORS[estimator]
    return [entry.name for entry in names if entry.device == "cpu" and find_spec(entry.module)]


@pytest.mark.slow
def test_a_library_that_is_killed_fails_or_hangs_is_a_gap(registry, tmp_path, capsys):
    """In real processes: nothing of it reaches the program or the other libraries."""
    names = "gpuens LightGBM XGBoost HistGB nothing"
    options = f"--libraries {names} --points 1000 3000 --run-limit 10"
    options += " --repeats 2 --most-repeats 2 --threads 1"
    assert scaling.main(["--output", str(tmp_path), *options.split()]) == 0
    results = latest(tmp_path)["results"]
    first, second = results["axes"]["rows"]["rungs"]
    assert list(first["libraries"]) == ["gpuens", "LightGBM", "XGBoost", "HistGB"]
    assert list(second["libraries"]) == ["gpuens"] and first["missing"] == {}
    missing = second["missing"]
    assert "killed by SIGKILL, as the system does when memory runs out" in missing["LightGBM"]
    assert missing["XGBoost"] == "failed: MemoryError: no room for 3000 rows"
    assert missing["HistGB"] == "took longer than 10 s (--run-limit)"
    assert results["complete"] and len(results["gaps"]) == 4
    assert "nothing: no_such_module is not installed" in results["gaps"][0]
    assert "LightGBM at 3k × 28, 20 trees, 1 thread and beyond: its pro" in results["gaps"][1]
    (text,) = [path.read_text() for path in tmp_path.glob("*.md")]
    assert text in capsys.readouterr().out
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| 3k ")]
    assert lines[0][2].strip() == lines[0][3].strip() == "–"
    assert all(f"- {gap}" in text for gap in results["gaps"])
    for part in first["libraries"].values():
        assert len(part["fit"]["seconds"]) == len(part["memory"]["bytes"]) == 2
        assert part["memory"]["relative"] == max(part["memory"]["bytes"]) / (1000 * 28 * 4)
    assert not list(Path(scaling_tables.tempfile.gettempdir()).glob(f"*-{os.getpid()}-*"))


@pytest.mark.slow
def test_goes_on_after_being_killed(registry, tmp_path, capsys):
    """SIGKILL while the second rung is measured: the first stays as it was, nobody runs on."""
    script = tmp_path / "script.py"
    script.write_text(
        "from benchmarks.scaling import scaling\n"
        "if __name__ == '__main__':\n"
        "    scaling.REGISTRY = 'standin_libraries'\n"
        "    scaling.main()\n"
    )
    options = ["--output", str(tmp_path), "--libraries", "HistGB", "--threads", "1"]
    options += ["--points", "500", "2600", "--repeats", "1", "--most-repeats", "1"]
    path = os.pathsep.join([str(ROOT), str(registry)])
    child = subprocess.Popen(
        [sys.executable, str(script), *options], env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    for line in child.stdout:  # it hangs on 2600 rows
        if line.startswith("[2/2]"):
            break
    workers = below(child.pid)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    before = latest(tmp_path)
    rungs = before["results"]["axes"]["rows"]["rungs"]
    assert [rung["n_rows"] for rung in rungs] == [500]
    assert not before["results"]["complete"]
    options.append("--resume")
    with pytest.raises(SystemExit, match="2"):
        scaling.main([*options, "--trees", "7"])
    assert "settings: trees: 20 → 7" in capsys.readouterr().err
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling, "Worker", Here)
        patch.setattr("time.sleep", lambda seconds: None)
        assert scaling.main(options) == 0
    after = latest(tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 1 and after["results"]["complete"]
    again = after["results"]["axes"]["rows"]["rungs"]
    assert [rung["n_rows"] for rung in again] == [500, 2600] and again[:1] == rungs
    assert after["date"] == before["date"]
    assert all(has_ended(worker) for worker in workers)


def below(pid):
    """The processes that a process has started, where psutil can tell."""
    if find_spec("psutil") is None:
        return []
    import psutil

    return psutil.Process(pid).children(recursive=True)


def has_ended(process):
    import psutil

    try:
        process.wait(timeout=30)
    except psutil.TimeoutExpired:
        return False
    return True


def test_ctrl_c_keeps_what_is_measured(registry, run, monkeypatch):
    ask = Here.ask

    def interrupted(self, turn):
        if self.job.point.n_rows == 2000:
            raise KeyboardInterrupt
        return ask(self, turn)

    monkeypatch.setattr(Here, "ask", interrupted)
    options = "--libraries gpuens --max-rows 5000"
    results = run(*options.split(), status=130)
    assert [rung["n_rows"] for rung in results["axes"]["rows"]["rungs"]] == [1000]
    assert not results["complete"]
    monkeypatch.setattr(Here, "ask", ask)
    results = run(*options.split(), "--resume")
    assert [rung["n_rows"] for rung in results["axes"]["rows"]["rungs"]] == [1000, 2000, 5000]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"machine": {"cores": 3}}, "machine: cores: 3 → "),
        ({"versions": {"numpy": "1.0"}}, "versions: numpy: 1.0 → "),
        ({"settings": {"features": 5}}, "settings: features: 5 → 28"),
        ({"benchmark": "fit"}, "is of 'fit', not of 'scaling'"),
        ({"format": 7}, "has format 7, this program reads format 1"),
    ],
)
def test_resume_refuses_other_files(registry, run, tmp_path, capsys, change, text):
    options = ["--libraries", "gpuens", "--max-rows", "1000"]
    run(*options)
    (path,) = (tmp_path / "out").glob("*.json")
    record = json.loads(path.read_text())
    for key, value in change.items():
        record[key] = record[key] | value if isinstance(value, dict) else value
    path.write_text(json.dumps(record))
    before = path.read_bytes()
    with pytest.raises(SystemExit, match="2"):
        run(*options, "--resume", path)
    err = capsys.readouterr().err
    assert text in err and str(path) in err
    assert path.read_bytes() == before


def test_resume_needs_an_unfinished_file(registry, run, capsys):
    with pytest.raises(SystemExit, match="2"):
        run("--libraries", "gpuens", "--resume")
    assert "no unfinished scaling-" in capsys.readouterr().err


def test_a_damaged_file_is_not_gone_on_with(registry, run, tmp_path, capsys):
    path = tmp_path / "scaling-x.json"
    path.write_text('{"benchmark": "scal')
    with pytest.raises(SystemExit, match="2"):
        run("--libraries", "gpuens", "--resume", path)
    assert f"{path} is damaged: not valid JSON" in capsys.readouterr().err


def test_the_budget_ends_the_ladder_and_a_larger_one_goes_on(registry, run):
    options = ["--libraries", "gpuens", "--max-rows", "2000"]
    results = run(*options, "--budget", "1")  # the start of a process alone takes longer
    assert results["axes"]["rows"]["rungs"] == [] and not results["complete"]
    assert "the --budget would not last" in results["gaps"][0]
    results = run(*options, "--budget", "600", "--resume")
    assert len(results["axes"]["rows"]["rungs"]) == 2
    assert results["gaps"] == [] and results["complete"]


def test_memory_ends_the_ladder(registry, run):
    limit = 3.9 * 1500 * 28 / 2**30  # between tables of 1000 and 2000 rows
    results = run("--libraries", "gpuens", "--max-rows", "2000", "--memory", limit)
    assert [rung["n_rows"] for rung in results["axes"]["rows"]["rungs"]] == [1000]
    assert "gpuens at 2k × 28" in results["gaps"][0] and "it would need about" in results["gaps"][0]
    assert results["complete"]


def test_a_full_disk_is_a_gap(registry, run, monkeypatch):
    nothing = SimpleNamespace(free=1000)
    monkeypatch.setattr(scaling_tables.shutil, "disk_usage", lambda folder: nothing)
    results = run("--libraries", "gpuens", "--max-rows", "1000")
    assert "GiB left, the table needs" in results["gaps"][0]
    assert "Set TMPDIR" in results["gaps"][0]


def test_failures_of_gpuens_are_told_by_the_exit_status(registry, run, monkeypatch):
    def fails(self, turn):
        raise GapError("failed: ValueError: no")

    monkeypatch.setattr(Here, "ask", fails)
    results = run("--libraries", "gpuens", "--max-rows", "5000", status=1)
    assert len(results["gaps"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["gradient_boosting", "random_forest"])
def test_losses_are_those_of_the_same_models(run, estimator):
    """Log loss of the results against that of gpuens and scikit-learn by themselves."""
    ours = present(estimator)
    options = f"--estimator {estimator} --points 600 --features 6 --libraries"
    (rung,) = run(*options.split(), *ours)["axes"]["rows"]["rungs"]
    assert list(rung["libraries"]) == ours
    X, y, X_test, y_test = rows_of("binary", 600, 6)
    entries = {entry.name: entry for entry in scaling_libraries.ESTIMATORS[estimator]}
    for name in ours:
        model = entries[name].build("binary", Settings(3, threads=1)).fit(X, y)
        p = np.asarray(model.predict_proba(X_test), np.float64)
        loss = log_loss(y_test, p / p.sum(axis=1, keepdims=True))
        assert rung["libraries"][name]["quality"]["log_loss"] == pytest.approx(loss, rel=1e-6)
        assert name == "gpuens" or rung["libraries"][name]["fit"]["ratio"] == pytest.approx(
            rung["libraries"]["gpuens"]["fit"]["median"] / rung["libraries"][name]["fit"]["median"]
        )
    if estimator == "gradient_boosting":
        assert list(rung["libraries"]["gpuens"]["stages"]) == [
            "cut points", "bin_values", "gradients", "quantise", "histogram", "split", "partition",
        ]  # fmt: skip


def rows_of(task, n_rows, n_features):
    """What the workers train and test on."""
    with Tables(task) as tables:
        table = tables.table(n_rows, n_features)  # of the blocks that ``run`` has set
        return *table.open(), *table.test()


def test_regression_and_seven_classes(run):
    options = ["--estimator", "decision_tree", "--points", "800", "--libraries", "all"]
    (rung,) = run(*options, "--task", "regression")["axes"]["rows"]["rungs"]
    X, y, X_test, y_test = rows_of("regression", 800, 28)
    from sklearn.tree import DecisionTreeRegressor

    model = DecisionTreeRegressor(max_depth=14, random_state=0).fit(X, y)
    error = root_mean_squared_error(y_test, model.predict(X_test))
    assert rung["libraries"]["scikit-learn"]["quality"]["rmse"] == pytest.approx(error)
    (rung,) = run(*options, "--task", "multiclass")["axes"]["rows"]["rungs"]
    assert rung["n_features"] == 54 and 0 < rung["libraries"]["gpuens"]["quality"]["log_loss"]


@pytest.mark.parametrize(
    ("axis", "sizes"),
    [("features", [4, 9]), ("depth", [2, 3]), ("trees", [2, 5]), ("threads", [1])],
)
def test_other_axes(registry, run, axis, sizes):
    results = run("--along", axis, "--points", *sizes, "--rows", 300, "--libraries", "gpuens")
    rungs = results["axes"][axis]["rungs"]
    field = {"features": "n_features", "trees": "n_trees"}.get(axis, axis)
    assert [rung[field] for rung in rungs] == sizes
    assert all(rung["n_rows"] == 300 for rung in rungs)


@pytest.mark.parametrize("library", present("gradient_boosting"))
def test_depth_is_every_librarys_only_limit(library):
    """Deep, pure problems fill trees of depth 3 in every library: 8 leaves."""
    entry = next(e for e in scaling_libraries.ESTIMATORS["gradient_boosting"] if e.name == library)
    model = entry.build("binary", Settings(3, threads=1, max_depth=3))
    parameters = model.get_params()
    depth = parameters.get("depth") or parameters["max_depth"]
    assert depth == 3
    leaves = parameters.get("num_leaves") or parameters.get("max_leaf_nodes")
    assert leaves in (None, 8) and not parameters.get("max_leaves")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--points 3 --along rows trees", "--points needs one axis"),
        ("--task multiclass --features 5", "multiclass has a table of 54 features"),
        ("--libraries LightGBN", "--libraries: no LightGBN; gradient_boosting is in gpuens"),
        ("--max-rows 0", "must be a whole number from 1"),
    ],
)
def test_bad_options(options, text, capsys):
    with pytest.raises(SystemExit, match="2"):
        scaling.main(options.split())
    assert text in " ".join(capsys.readouterr().err.split())


def test_without_a_gpu_its_libraries_are_named(run, monkeypatch, capsys):
    monkeypatch.setattr(
        "gpuens.devices.placement.gpu_problem", lambda: "no NVIDIA driver was found"
    )
    assert scaling.main(["--device", "cuda", "--libraries", "CatBoost CUDA"]) == 0
    out = capsys.readouterr().out
    assert "skipped: CatBoost CUDA: " in out and "none of the libraries can be used" in out


def test_a_gpu_is_waited_for_and_its_memory_watched(registry, monkeypatch):
    """With a stand-in for CuPy: 100 bytes are free before the fit, 40 in it."""
    import standin_libraries

    calls = []
    free = [100]

    class Device:
        def synchronize(self):
            calls.append("wait")

    class OnGpu(standin_libraries.Mean):
        def fit(self, X, y):
            free[0] = 40
            return super().fit(X, y)

        def predict_proba(self, X):
            free[0] = 90
            return super().predict_proba(X)

    cupy = ModuleType("cupy")
    runtime = SimpleNamespace(memGetInfo=lambda: (free[0], 1000))
    cupy.cuda = SimpleNamespace(Device=Device, runtime=runtime)
    cupy.asarray = lambda array: calls.append("copy") or array
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_all_blocks=lambda: None)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    entry = scaling_libraries.Library("XGBoost", "numpy", lambda t, s: OnGpu(), "cuda")
    monkeypatch.setattr(standin_libraries, "ESTIMATORS", {"gradient_boosting": (entry,)})
    table = Table("nowhere", "binary", 100, 3)
    monkeypatch.setattr(Table, "open", lambda self: scaling_tables.make("binary", 100, 3, 0))
    job = scaling_worker.Job(
        "standin_libraries", "gradient_boosting", "XGBoost", "binary", replace(POINT), table
    )
    measured = scaling_worker.Measured(job)
    free[0] = 100
    found = measured.turn(0)
    assert found["device_memory"] == 60
    assert calls.count("wait") == 2 and calls.count("copy") == 2  # fit, predict; X, the test rows


def test_tables_grow_and_are_removed():
    X_long, y_long = scaling_tables.make("binary", 7_000_000 // 700, 700, 0)
    with Tables("binary") as tables:
        folder = tables.folder
        short_table = tables.table(50, 700)
        X, y = short_table.open()
        X[0, 0] = 77.0  # a library may write into its input
        long = tables.table(10_500, 700)
        X_new, y_new = long.open()
        assert X_new.shape == (10_500, 700) and y_new.shape == (10_500,)
        assert np.array_equal(X_new[:10_000], X_long) and np.array_equal(y_new[:10_000], y_long)
        assert np.array_equal(X_new[10_000:10_500], scaling_tables.make(
            "binary", 10_000, 700, 1)[0][:500])  # fmt: skip
        assert not np.array_equal(long.test()[0][0], X_long[0])
        del X, X_new
    assert not folder.exists()


def test_abandoned_tables_are_removed(tmp_path, monkeypatch):
    psutil = pytest.importorskip("psutil")
    monkeypatch.setattr(scaling_tables.tempfile, "gettempdir", lambda: str(tmp_path))
    running = tmp_path / f"{scaling_tables.PREFIX}{os.getpid()}-a"
    ended = tmp_path / f"{scaling_tables.PREFIX}123456-b"
    for folder in (running, ended):
        folder.mkdir()
    monkeypatch.setattr(psutil, "pid_exists", lambda pid: pid == os.getpid())
    scaling_tables.remove_abandoned()
    assert running.is_dir() and not ended.exists()
