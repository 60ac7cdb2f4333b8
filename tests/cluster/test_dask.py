"""Gradient boosting and forests on a Dask cluster of this machine."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.linear_model import LinearRegression

pytest.importorskip("distributed", reason='Dask is not installed: pip install "gpuens[dask]"')
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe", reason="dask.dataframe is not installed")

import dask  # noqa: E402
import distributed  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402

import gpuens  # noqa: E402
import gpuens.dask  # noqa: E402
from gpuens.cluster.ring import Ring  # noqa: E402
from gpuens.dask import (  # noqa: E402
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    on_scheduler,
    running,
)
from gpuens.dask.worker import fingerprint_of  # noqa: E402
from gpuens.trees import sharing  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.slow]
"""Warnings of Dask, its dependencies and their threads are not ours."""

N = 6_000
BOTH = 300.0
"""Seconds for a new worker, or an answer, on a busy machine."""
PARAMS = {"n_estimators": 5, "random_state": 3, "device": "cpu"}


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 5))
    return X, X[:, 0] * X[:, 1] + X[:, 2], rng.integers(0, 3, N).astype(float)


X, Y, WEIGHT = table()


@pytest.fixture(scope="module")
def client() -> Any:
    """Two worker processes.

    Some tests kill one after the other. Dask takes a worker whose place happens to be empty
    some seconds after a loss for one that does not come back, and closes its nanny.
    """
    settings = {
        "distributed.worker.daemon": True, "logging.distributed": "critical",
        "distributed.deploy.lost-worker-timeout": "1 hour",
    }  # fmt: skip
    with dask.config.set(settings):
        cluster = LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0",
            memory_limit=0,
        )  # fmt: skip
        with cluster, Client(cluster) as client:
            yield client


def arrays(*tables: np.ndarray, rows: Any = 1700) -> list[Any]:
    return [da.from_array(t, chunks=(rows, *t.shape[1:])) for t in tables]


def fingerprint(cls: type, y: Any, weight: Any = None, **params: Any) -> str:
    return cls(**{**PARAMS, **params}).fit(X, y, weight).forest_.fingerprint()


@pytest.mark.parametrize("rows", [1700, (1024, 0, 4000, 976), 6000])
def test_dask_arrays(client, rows):
    given = arrays(X, Y, WEIGHT, rows=rows)
    model = GradientBoostingRegressor(**PARAMS, subsample=0.5).fit(*given)
    plain = gpuens.GradientBoostingRegressor(**PARAMS, subsample=0.5).fit(X, Y, WEIGHT)
    assert model.forest_.fingerprint() == plain.forest_.fingerprint()
    lazy = model.predict(given[0])
    assert lazy.shape == (N,) and lazy.dtype == np.float64
    assert np.array_equal(lazy.compute(), plain.predict(X))
    assert np.array_equal(model.apply(given[0]).compute(), plain.apply(X))
    assert np.array_equal(model.predict(X), plain.predict(X))
    local = pickle.loads(pickle.dumps(model.to_local()))
    assert type(local) is gpuens.GradientBoostingRegressor
    assert np.array_equal(local.predict(X), plain.predict(X))


class Log:
    """Writes a line after every round."""

    def __init__(self, path: Any) -> None:
        self.path = path

    def after_iteration(self, state: Any) -> None:
        with open(self.path, "a") as file:
            file.write(f"{state.iteration} of {state.n_iterations}\n")


def test_a_warm_start(client):
    given = arrays(X, Y)
    model = GradientBoostingRegressor(**PARAMS, subsample=0.5, warm_start=True).fit(*given)
    model.set_params(n_estimators=8).fit(*given)
    plain = gpuens.GradientBoostingRegressor(**{**PARAMS, "n_estimators": 8}, subsample=0.5)
    assert model.forest_.fingerprint() == plain.fit(X, Y).forest_.fingerprint()


def test_dask_data_frames_and_classes(client, tmp_path):
    names = [*"abcde", "town"]
    labels = np.where(Y > 1, "high", np.where(Y > 0, "low", "none"))
    towns = np.char.add("town ", (np.arange(N) // 500 + WEIGHT).astype(int).astype(str))
    own = pd.DataFrame(X, columns=names[:5]).assign(town=towns)
    frame = dd.from_pandas(own.assign(y=labels), npartitions=3)
    log = tmp_path / "log"
    settings: dict[str, Any] = {
        **PARAMS, "categorical_features": ["town"], "early_stopping": True,
        "class_weight": "balanced",
    }  # fmt: skip
    model = GradientBoostingClassifier(client=client, callbacks=[Log(log)], **settings)
    model.fit(frame[names], frame["y"])
    plain = gpuens.GradientBoostingClassifier(**settings).fit(own, labels)
    assert model.forest_.fingerprint() == plain.forest_.fingerprint()
    assert model.evals_result_ == plain.evals_result_
    assert log.read_text() == "".join(f"{k} of 5\n" for k in range(1, 6))
    local = model.to_local()
    assert np.array_equal(model.predict(frame[names]).compute(), local.predict(own))
    assert np.array_equal(model.predict_proba(frame[names]).compute(), local.predict_proba(own))
    model.save(tmp_path / "model")
    assert np.array_equal(gpuens.load(tmp_path / "model").predict(own), local.predict(own))


def test_delayed_parts_and_an_evaluation_set(client):
    cuts = [slice(0, 2000), slice(2000, 2000), slice(2000, N)]
    parts = [[dask.delayed(t[rows]) for rows in cuts] for t in (X, Y)]
    params = {"early_stopping": True, "n_iter_no_change": 1, "learning_rate": 1.0}
    others = {"eval_set": (X[:500], Y[:500] + 1)}
    model = GradientBoostingRegressor(**PARAMS, **params).fit(*parts, **others)
    plain = gpuens.GradientBoostingRegressor(**PARAMS, **params).fit(X, Y, **others)
    assert model.forest_.fingerprint() == plain.forest_.fingerprint()
    assert model.evals_result_ == plain.evals_result_
    predicted = dask.compute(*model.predict(parts[0]))
    assert np.array_equal(np.concatenate(predicted), plain.predict(X))


@pytest.mark.parametrize("params", [{"dropout": 0.5}, {"linear_leaves": True}])
def test_trees_that_are_dropped_and_functions_in_leaves(client, params):
    model = GradientBoostingRegressor(**PARAMS, **params).fit(*arrays(X, Y, WEIGHT))
    assert model.forest_.fingerprint() == fingerprint(
        gpuens.GradientBoostingRegressor, Y, WEIGHT, **params
    )
    model.set_params(n_estimators=7, warm_start=True).fit(*arrays(X, Y, WEIGHT))
    plain = fingerprint(gpuens.GradientBoostingRegressor, Y, WEIGHT, **params, n_estimators=7)
    assert model.forest_.fingerprint() == plain


def test_queries_that_partitions_cut(client):
    y, qid = np.clip(np.round(Y + 1), 0, 4), np.arange(N) // 37
    place = np.arange(N) % 37
    X_parts, y_parts, weights, qids, places = arrays(X, y, WEIGHT, qid, place)
    others = {"eval_set": (X[:370], y[:370]), "eval_qid": qid[:370]}
    model = gpuens.dask.GradientBoostingRanker(**PARAMS, scoring=["ndcg@5", "map"])
    model.fit(X_parts, y_parts, weights, qid=qids, position=places, **others)
    plain = gpuens.GradientBoostingRanker(**PARAMS, scoring=["ndcg@5", "map"])
    plain.fit(X, y, WEIGHT, qid=qid, position=place, **others)
    assert model.forest_.fingerprint() == plain.forest_.fingerprint()
    assert model.evals_result_ == plain.evals_result_
    assert np.array_equal(model.position_bias_, plain.position_bias_)
    assert np.array_equal(model.predict(X_parts).compute(), plain.predict(X))
    with pytest.raises(ValueError, match="X, y and qid must be cut .* got X in 4 parts, y in 4"):
        model.fit(X_parts, y_parts, qid=arrays(qid[:3000])[0])


@pytest.mark.parametrize("loss", ["cox", "aft"])
def test_censored_times(client, loss):
    y = np.zeros(N, [("event", bool), ("time", float)])
    y["event"], y["time"] = WEIGHT > 0, np.exp(Y)
    given = arrays(X, y)
    model = GradientBoostingRegressor(loss, **PARAMS).fit(*given)
    plain = gpuens.GradientBoostingRegressor(loss, **PARAMS).fit(X, y)
    assert model.forest_.fingerprint() == plain.forest_.fingerprint()
    own, expected = (each.predict_survival_function(X[:9]) for each in (model.to_local(), plain))
    assert np.array_equal(own, expected)


@pytest.mark.parametrize("name, is_honest", [
    ("RandomForestClassifier", False), ("ExtraTreesRegressor", False),
    ("RandomForestRegressor", True),
])  # fmt: skip
def test_forests(client, name, is_honest):
    settings: dict[str, Any] = {**PARAMS, "bootstrap": True, "oob_score": True, "n_estimators": 12}
    settings["honest"] = is_honest
    y = np.where(Y > 1, "high", np.where(Y > 0, "low", "none")) if "Classifier" in name else Y
    given = arrays(X, y, WEIGHT, rows=(1024, 0, 4000, 976))
    model = getattr(gpuens.dask, name)(**settings).fit(*given)
    plain = getattr(gpuens, name)(**settings).fit(X, y, WEIGHT)
    assert model.forest_.fingerprint() == plain.forest_.fingerprint()
    assert model.oob_score_ == plain.oob_score_
    methods = ["predict", "apply"] + ["predict_proba"] * ("Classifier" in name)
    for method in methods:
        lazy = getattr(model, method)(given[0])
        assert np.array_equal(lazy.compute(), getattr(plain, method)(X)), method
    assert type(model.to_local()) is getattr(gpuens, name)
    assert np.array_equal(model.to_local().predict(X), plain.predict(X))


def test_bad_input(client):
    X_parts, y_parts = arrays(X, Y)
    model = GradientBoostingRegressor(**PARAMS)
    with pytest.raises(TypeError, match="X must be a dask array, .* For data in memory"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match="cut at the same rows, got X in 4 parts, y in 3 parts"):
        model.fit(X_parts, arrays(Y[:5000])[0])
    halves = [dask.delayed(X[:9]), dask.delayed(X[9:20])]
    with pytest.raises(ValueError, match="in part 1 X has 11 rows, y has 12 rows"):
        model.fit(halves, [dask.delayed(Y[:9]), dask.delayed(Y[8:20])])
    with pytest.raises(ValueError, match="every part is empty"):
        model.fit([dask.delayed(X[:0])], [dask.delayed(Y[:0])])
    on_gpus = "Worker 0 of 2 cannot work on a GPU|have the same one"
    with pytest.raises((RuntimeError, ValueError), match=on_gpus):
        GradientBoostingRegressor(**{**PARAMS, "device": "cuda"}).fit(X_parts, y_parts)
    for cls in (gpuens.dask.RandomForestRegressor, gpuens.dask.BaggingRegressor):
        with pytest.raises((RuntimeError, ValueError), match=on_gpus):
            cls(device="cuda").fit(X_parts, y_parts)
    with pytest.raises(ValueError, match="max_restarts must be an integer >= 0, got -1"):
        GradientBoostingRegressor(max_restarts=-1).fit(X_parts, y_parts)
    with pytest.raises(ValueError, match="heartbeat must be a number of seconds >= 1, got 0"):
        GradientBoostingRegressor(heartbeat=0).fit(X_parts, y_parts)
    wrong = Y.copy()
    wrong[-1] = np.nan  # on the last worker alone
    with pytest.raises(ValueError, match="Input y contains NaN"):
        model.fit(X_parts, arrays(wrong)[0])


def test_several_outputs(client):
    y = np.column_stack([Y > 0, Y > 1]).astype(int)
    given = arrays(X, y)
    settings: dict[str, Any] = {**PARAMS, "max_depth": 4}
    model = gpuens.dask.RandomForestClassifier(**settings).fit(*given)
    plain = gpuens.RandomForestClassifier(**settings).fit(X, y)
    assert model.forest_.fingerprint() == plain.forest_.fingerprint()
    assert np.array_equal(model.predict(given[0]).compute(), plain.predict(X))
    with pytest.raises(
        NotImplementedError, match="predict_proba of several outputs returns a list"
    ):
        model.predict_proba(given[0])


def test_bags_and_isolation_forests(client):
    given = arrays(X, Y, WEIGHT)
    bag = gpuens.dask.BaggingRegressor(n_estimators=4, random_state=3, oob_score=True)
    with pytest.warns(UserWarning, match="do not have OOB scores"):
        plain = gpuens.BaggingRegressor(**bag.to_local().get_params()).fit(X, Y)
    bag.fit(*given[:2])
    assert bag.oob_score_ == plain.oob_score_
    assert np.array_equal(bag.predict(given[0]).compute(), plain.predict(X))
    model = gpuens.dask.IsolationForest(n_estimators=20, random_state=3, contamination=0.1)
    scores = gpuens.IsolationForest(**model.to_local().get_params()).fit(X)
    model.fit(given[0])
    assert model.forest_.fingerprint() == scores.forest_.fingerprint()
    assert model.offset_ == scores.offset_
    for method in ("predict", "score_samples", "decision_function"):
        lazy = getattr(model, method)(given[0])
        assert np.array_equal(lazy.compute(), getattr(scores, method)(X)), method
    with pytest.raises(NotImplementedError, match=r"estimator=.* not supported.*a tree of gpuens"):
        gpuens.dask.BaggingRegressor(LinearRegression()).fit(*given[:2])


SPARSE = scipy.sparse.csr_matrix(np.where(np.tile(X, 4) > 1.5, np.tile(X, 4), 0.0))


@pytest.mark.parametrize("name", ["GradientBoostingRegressor", "RandomForestRegressor"])
def test_sparse_parts(client, name):
    """Parts in any format, an empty one among them."""
    cuts = [slice(0, 2500), slice(2500, 2500), slice(2500, 3000), slice(3000, N)]
    formats = ["csr", "csr", "coo", "csc"]
    X_parts = [
        dask.delayed(SPARSE[rows].asformat(name)) for rows, name in zip(cuts, formats, strict=True)
    ]
    settings: dict[str, Any] = {**PARAMS, "max_depth": 4}
    model = getattr(gpuens.dask, name)(**settings)
    model.fit(X_parts, [dask.delayed(Y[rows]) for rows in cuts])
    plain = getattr(gpuens, name)(**settings).fit(SPARSE, Y)
    assert model.forest_.fingerprint() == plain.forest_.fingerprint()
    predicted = dask.compute(*model.predict(X_parts))
    assert [len(part) for part in predicted] == [2500, 0, 500, 3000]
    assert np.array_equal(np.concatenate(predicted), plain.predict(SPARSE))


@pytest.mark.parametrize("rows", [1700, (1024, 0, 4000, 976)])
def test_dask_arrays_of_sparse_blocks(client, rows):
    given, target = arrays(SPARSE.toarray(), Y, rows=rows)
    given = given.map_blocks(scipy.sparse.csr_matrix)
    params = {**PARAMS, "early_stopping": True}
    model = GradientBoostingRegressor(**params).fit(given, target)
    plain = gpuens.GradientBoostingRegressor(**params).fit(SPARSE, Y)
    assert model.forest_.fingerprint() == plain.forest_.fingerprint()
    assert model.evals_result_ == plain.evals_result_
    lazy = model.predict(given)
    assert lazy.shape == (N,) and lazy.dtype == np.float64
    assert np.array_equal(lazy.compute(), plain.predict(SPARSE))
    dense = [dask.delayed(SPARSE[:1024]), dask.delayed(SPARSE[1024:].toarray())]
    with pytest.raises(ValueError, match="must have the same format: worker 0 has sparse, worker"):
        model.fit(dense, [dask.delayed(Y[:1024]), dask.delayed(Y[1024:])])


def stop_pulse_once() -> None:
    """Let the next ring of this process send its first pulse alone."""
    beat = Ring._beat

    def once(self: Ring, *args: float) -> None:
        Ring._beat = beat  # type: ignore[method-assign]
        self._closing.wait()

    Ring._beat = once  # type: ignore[method-assign]


class Slow:
    """Holds the first round up."""

    def after_iteration(self, state: Any) -> None:
        if state.iteration == 1:
            time.sleep(4.0)


def test_a_worker_that_is_alive_is_not_dropped(client):
    before = set(client.run(os.getpid))
    client.run(stop_pulse_once, workers=[max(before)])
    model = GradientBoostingRegressor(**PARAMS, heartbeat=2, callbacks=[Slow()])
    model.fit(*arrays(X, Y))
    assert model.forest_.fingerprint() == fingerprint(gpuens.GradientBoostingRegressor, Y)
    assert set(client.run(os.getpid)) == before
    # Where both workers fail at the same time, the error that reaches the client first is named.
    silent, closed = "is alive, but has not answered for 2 s: raise heartb", "closed the connection"
    with pytest.raises(RuntimeError, match=f"{silent}|{closed}"):
        client.run(stop_pulse_once, workers=[max(before)])
        model.set_params(max_restarts=0).fit(*arrays(X, Y))


class Quiet:
    """A client whose scheduler has not heard of its one worker for 45 seconds."""

    def __init__(self) -> None:
        self.workers, self.has_imported = {"tcp://a": 45.0}, False

    def run_on_scheduler(self, function: Any, **arguments: Any) -> Any:
        if function is on_scheduler.silence:
            return dict(self.workers)
        if function is on_scheduler.has_stopped:
            return False
        return self.workers.pop(arguments["address"])

    def submit(self, function: Any, *args: Any, **where: Any) -> Any:
        assert where["workers"] == ["tcp://a"]
        is_first = function is gpuens.dask.worker.imported
        return SimpleNamespace(done=lambda: is_first and self.has_imported)


def test_a_worker_that_imports_libraries_may_be_silent_for_longer():
    client: Any = Quiet()
    training = running.Training(client, None, {}, max_restarts=0, heartbeat=10.0)
    assert training.present() == ["tcp://a"]
    client.has_imported = True
    assert training.present() == []
    assert training.excluded == {"tcp://a"} and client.workers == {}


def test_a_worker_that_has_gone_is_not_asked_for_its_snapshot(monkeypatch):
    """The scheduler may hear of its end when it has been asked."""
    client: Any = Quiet()
    training = running.Training(client, None, {}, max_restarts=0, heartbeat=10.0)
    attempt = running._Attempt(training, [], [])
    attempt._workers = ["tcp://a"]
    monkeypatch.setattr(running, "_wait_a_moment", lambda waiting: client.workers.clear())
    assert attempt.last_snapshot() is None and client.workers == {}


def test_a_scheduler_that_was_held_up_reads_first():
    worker = SimpleNamespace(last_seen=time.time() - 100.0)

    async def look() -> Any:
        asyncio.get_running_loop().call_later(0.0, setattr, worker, "last_seen", time.time())
        return await on_scheduler.silence(SimpleNamespace(workers={"tcp://a": worker}))

    assert 0.0 <= asyncio.run(look())["tcp://a"] < 50.0


def wait_for_both(client: Any) -> None:
    """Wait until the nanny of a worker that was killed has started another one."""
    try:
        client.wait_for_workers(2, timeout=BOTH)
    except TimeoutError:
        there = list(client.scheduler_info()["workers"])
        pytest.fail(f"No second worker was started within {BOTH:g} s; there is {there}.")


@contextmanager
def killing(victim: int, when: Callable[[], bool]) -> Iterator[threading.Event]:
    """Kill a process once something is seen inside the block; yields whether that has happened. Who
    looks for it stops at the end of the block, whatever it has seen."""
    killed, is_over = threading.Event(), threading.Event()

    def kill() -> None:
        while not is_over.wait(0.01):
            if when():
                os.kill(victim, signal.SIGKILL)
                killed.set()
                return

    killer = threading.Thread(target=kill, name="killer", daemon=True)
    killer.start()
    try:
        yield killed
    finally:
        is_over.set()
        killer.join(BOTH)
        assert not killer.is_alive(), "the killer waits for an answer of the cluster"


def test_a_worker_that_was_dropped_is_replaced(client):
    """Without its nanny's help the cluster would have a worker less from then on."""
    wait_for_both(client)
    before = client.run(os.getpid)
    running.Training(client, None, {}, max_restarts=0, heartbeat=10.0).drop(max(before))
    wait_for_both(client)
    after = client.run(os.getpid)
    assert before[max(before)] not in after.values()
    assert before[min(before)] in after.values()


def test_a_worker_that_is_killed(client):
    """Training goes on with the others, to the same model."""
    wait_for_both(client)
    params = {**PARAMS, "n_estimators": 400}
    expected = fingerprint(gpuens.GradientBoostingRegressor, Y, n_estimators=400)
    given = arrays(X, Y)

    def trains() -> bool:
        return any("train" in str(key) for keys in client.processing().values() for key in keys)

    with killing(list(client.run(os.getpid).values())[1], trains) as killed:
        model = GradientBoostingRegressor(**params).fit(*given)
    assert killed.is_set()
    assert model.forest_.fingerprint() == expected
    wait_for_both(client)
    with (
        killing(list(client.run(os.getpid).values())[1], trains) as killed,
        pytest.raises(RuntimeError, match="lost 1 times, which is more than max_restarts=0"),
    ):
        GradientBoostingRegressor(**params, max_restarts=0).fit(*given)
    assert killed.is_set()


@pytest.fixture
def dropped(monkeypatch) -> list[str]:
    """The workers that trainings drop, for no other reason than that they do not run: Dask itself
    drops one that was stopped minutes later."""
    found: list[str] = []
    drop = running.Training.drop

    def drop_and_note(training: running.Training, worker: str) -> None:
        found.append(worker)
        drop(training, worker)

    monkeypatch.setattr(running.Training, "drop", drop_and_note)
    monkeypatch.setattr(running, "SLOW", 1e9)
    return found


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
def test_a_worker_that_is_lost_when_it_has_finished(client, monkeypatch, dropped, name):
    """Its result is lost on the way to the client."""
    wait_for_both(client)
    wait, victims = running._Attempt._wait, []

    def wait_and_lose(attempt: Any, futures: Any, *patience: Any) -> None:
        wait(attempt, futures, *patience)
        if futures is attempt._futures and not victims:
            victims.append(attempt._workers[0])
            os.kill(client.run(os.getpid)[victims[0]], getattr(signal, name))
            while name == "SIGKILL" and victims[0] in client.run_on_scheduler(on_scheduler.silence):
                time.sleep(0.01)

    monkeypatch.setattr(running._Attempt, "_wait", wait_and_lose)
    model = GradientBoostingRegressor(**PARAMS, heartbeat=3).fit(*arrays(X, Y))
    assert victims and victims[0] not in client.run(os.getpid)
    assert dropped and set(dropped) == set(victims)
    assert model.forest_.fingerprint() == fingerprint(gpuens.GradientBoostingRegressor, Y)


def test_a_worker_that_was_stopped_before(client, dropped):
    """It holds parts of the table, or has been given tasks."""
    wait_for_both(client)
    given = [table.persist() for table in arrays(X, Y)]
    distributed.wait(given)
    GradientBoostingRegressor(**PARAMS).fit(*given)  # both have imported what training takes
    victim = max(client.run(os.getpid))
    os.kill(client.run(os.getpid)[victim], signal.SIGSTOP)
    model = GradientBoostingRegressor(**PARAMS, heartbeat=3).fit(*given)
    assert set(dropped) == {victim}
    assert model.forest_.fingerprint() == fingerprint(gpuens.GradientBoostingRegressor, Y)


def has_kept_trees() -> bool:
    return bool(gpuens.dask.worker._snapshots)


def test_a_worker_of_a_forest_that_is_killed(client):
    """The others go on with the trees that were sent."""
    wait_for_both(client)
    settings: dict[str, Any] = {**PARAMS, "n_estimators": 300, "max_depth": 8}
    expected = fingerprint(gpuens.RandomForestRegressor, Y, WEIGHT, **settings)
    victim = list(client.run(os.getpid).values())[1]

    def has_kept() -> bool:
        return any(client.run(has_kept_trees).values())

    with killing(victim, has_kept) as killed:
        model = gpuens.dask.RandomForestRegressor(**settings).fit(*arrays(X, Y, WEIGHT))
    assert killed.is_set() and victim not in client.run(os.getpid).values()
    assert model.forest_.fingerprint() == expected


def die_at_exchange(number: int) -> None:
    """Let this process be killed when it has grown the trees of an exchange."""
    exchange, calls = sharing.objects_of_all, []

    def counted(value: Any, share: Any) -> list[Any]:
        if isinstance(value, tuple):  # trees, and the seconds that they took
            calls.append(1)
            if len(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
        return exchange(value, share)

    sharing.objects_of_all = counted  # type: ignore[assignment]


def left_behind() -> list[str]:
    """Return what trainings have left in this process."""
    pulses = [thread.name for thread in threading.enumerate() if thread.name == "gpuens-pulse"]
    return [*gpuens.dask.worker._snapshots, *gpuens.dask.worker._listeners, *pulses]


@pytest.mark.parametrize("name", ["BaggingRegressor", "IsolationForest"])
def test_a_worker_of_trees_that_are_not_kept_is_killed(client, name):
    """The others begin again, and nothing is left of the first attempt."""
    wait_for_both(client)
    settings: dict[str, Any] = {"n_estimators": 60, "random_state": 3}
    plain = getattr(gpuens, name)(**settings).fit(X, Y)
    before = client.run(os.getpid)
    victim = max(before)
    client.run(die_at_exchange, 3, workers=[victim])
    model = getattr(gpuens.dask, name)(**settings).fit(*arrays(X, Y))
    after = client.run(os.getpid)
    assert before[victim] not in after.values() and before[min(before)] in after.values()
    assert fingerprint_of(model.to_local()) == fingerprint_of(plain)
    deadline = time.monotonic() + BOTH
    while any(client.run(left_behind).values()) or any(client.processing().values()):
        assert time.monotonic() < deadline, (client.run(left_behind), client.processing())
        time.sleep(0.1)
    wait_for_both(client)
