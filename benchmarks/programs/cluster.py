"""Training by two workers on this machine, beside one process and beside the peers on Dask.

workers
    Two workers of one thread, beside one process of two threads on the same rows, which both have
    in memory: seconds of fits in turn. The two models must be identical.
peers
    Two workers of one thread each: gpuens.dask beside lightgbm.dask and xgboost.dask at the same
    settings, on the same persisted Dask arrays.

A ratio divides medians; below 1 gpuens (or the cluster) is better. Rows have 28 features and two
classes; every library trains on blocks that workers hold already.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from gpuens import GradientBoostingClassifier
from gpuens.datasets import make_higgs_like

from ..common import peers
from ..common.goals import Goal, measured
from ..common.markdown import pivot
from ..common.peers import OURS, GapError
from ..common.program import Content, Options, Program, Results
from ..common.timing import compare, interleaved

BLOCKS = 4
FEATURES = 28
LEAVES, RATE, ROWS_OF_LEAF = 63, 0.1, 20
WORKERS = "two workers"
ALONE = "one process"
LARGEST_OF_WORKERS = 1.25
LARGEST_OF_PEERS = 0.6
Block = tuple[np.ndarray, np.ndarray]


def block(number: int, n_rows: int) -> Block:
    """Return some rows of the table."""
    return make_higgs_like(n_rows, FEATURES, number)


def blocks_of(n_rows: int) -> list[int]:
    """Return the rows of each block."""
    ends = np.linspace(0, n_rows, BLOCKS + 1).astype(int)
    return np.diff(ends).tolist()


@contextmanager
def cluster(n_workers: int = 2) -> Iterator[Any]:
    """Start worker processes of one thread.

    Dask limits the threads of the processes that it starts in the environment of this one, where
    processes of other programs would inherit the limit: it is restored.
    """
    if find_spec("distributed") is None:
        raise GapError('Dask is not installed: pip install "gpuens[dask]"')
    import dask
    from distributed import Client, LocalCluster

    before = dict(os.environ)
    with dask.config.set({"logging.distributed": "critical"}):
        workers = LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, memory_limit=0,
            dashboard_address="127.0.0.1:0",
        )  # fmt: skip
        try:
            with workers, Client(workers) as client:
                yield client
        finally:
            os.environ.clear()
            os.environ.update(before)


def arrays_on(client: Any, n_rows: int) -> tuple[Any, Any]:
    """Return X and y as Dask arrays whose blocks the workers hold."""
    import dask.array
    from dask import delayed
    from distributed import wait

    X, y = [], []
    for number, rows in enumerate(blocks_of(n_rows)):
        made = delayed(block)(number, rows)
        X.append(dask.array.from_delayed(made[0], (rows, FEATURES), np.float32))
        y.append(dask.array.from_delayed(made[1], (rows,), np.int64))
    found = client.persist([dask.array.concatenate(X), dask.array.concatenate(y)])
    wait(found)
    return found[0], found[1]


def ours(options: Options) -> dict[str, Any]:
    return {
        "n_estimators": options.trees, "max_leaf_nodes": LEAVES, "learning_rate": RATE,
        "min_samples_leaf": ROWS_OF_LEAF, "random_state": 0, "device": "cpu",
    }  # fmt: skip


def workers(options: Options) -> Results:
    """Measure two workers beside one process."""
    made = [block(number, rows) for number, rows in enumerate(blocks_of(options.rows))]
    X, y = (np.concatenate(parts) for parts in zip(*made, strict=True))
    del made
    with cluster() as client:
        from gpuens.dask import GradientBoostingClassifier as OnDask

        lazy = arrays_on(client, options.rows)
        few = arrays_on(client, 8192)
        alone = GradientBoostingClassifier(**ours(options), n_jobs=2)
        shared = OnDask(client=client, **ours(options), n_jobs=1)
        OnDask(client=client, n_estimators=2, n_jobs=1).fit(*few)
        alone.fit(X[:8192], y[:8192])
        actions = {WORKERS: partial(shared.fit, *lazy), ALONE: partial(alone.fit, X, y)}
        seconds, fitted = interleaved(actions, options.repeats, 2)
    prints = {name: model.forest_.fingerprint() for name, model in fitted.items()}
    return {
        "rows": options.rows,
        "libraries": compare(seconds, WORKERS),
        "equal": {"two workers and one process": prints[WORKERS] == prints[ALONE]},
    }


def on_dask(client: Any, options: Options) -> dict[str, Any]:
    """Return the estimators of the installed libraries, not fitted."""
    from gpuens.dask import GradientBoostingClassifier as OnDask

    found = {OURS: OnDask(client=client, **ours(options), n_jobs=1)}
    available = peers.installed(["LightGBM", "XGBoost"])
    shared = {"n_estimators": options.trees, "learning_rate": RATE, "n_jobs": 1}
    if "LightGBM" in available:
        from lightgbm.dask import DaskLGBMClassifier

        found["LightGBM"] = DaskLGBMClassifier(
            **shared, client=client, num_leaves=LEAVES, min_child_samples=ROWS_OF_LEAF,
            max_bin=255, verbose=-1,
        )  # fmt: skip
    if "XGBoost" in available:
        from xgboost.dask import DaskXGBClassifier

        found["XGBoost"] = DaskXGBClassifier(
            **shared, max_leaves=LEAVES, max_depth=0, grow_policy="lossguide",
            tree_method="hist", max_bin=255, verbosity=0,
        )  # fmt: skip
        found["XGBoost"].client = client
    return found


def beside(options: Options) -> Results:
    """Measure gpuens.dask beside the other libraries on Dask."""
    with cluster() as client:
        X, y = arrays_on(client, options.peer_rows)
        few = arrays_on(client, 8192)
        models = on_dask(client, options)
        for model in models.values():
            model.fit(*few)
        actions = {name: partial(model.fit, X, y) for name, model in models.items()}
        seconds, _ = interleaved(actions, options.repeats, 2)
    return {"rows": options.peer_rows, "libraries": compare(seconds, OURS)}


def show(content: Content) -> Iterator[str]:
    """Yield times by part."""
    for name, part in measured(content["results"]).items():
        yield pivot(f"seconds to fit {part['rows']:,} rows, {name}", {
            library: {
                "median": f"{row['median']:.2f}",
                "ratio": f"{row['ratio']:.2f}" if "ratio" in row else "",
            }
            for library, row in part["libraries"].items()
        })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    results = measured(content["results"])
    if "workers" in results:
        value = results["workers"]["libraries"][ALONE]["ratio"]
        what = "the time of two workers of one thread, relative to one process of two threads"
        yield Goal(what, LARGEST_OF_WORKERS, value)
    others = {
        name: row["ratio"]
        for name, row in results.get("peers", {}).get("libraries", {}).items()
        if "ratio" in row
    }
    if others:
        faster = max(others, key=others.__getitem__)
        what = f"the time of gpuens.dask relative to the faster peer on Dask ({faster})"
        yield Goal(what, LARGEST_OF_PEERS, others[faster])


PROGRAM = Program(
    "cluster", __doc__,
    {"workers": workers, "peers": beside},
    {
        "rows": (2_000_000, "rows of the part `workers`"),
        "peer_rows": (1_000_000, "rows of the part `peers`"),
        "trees": (50, "rounds of boosting"),
        "repeats": (3, "fits of each"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
