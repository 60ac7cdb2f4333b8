"""Rankings beside LightGBM and XGBoost at the same settings.

quality
    The official split of LightGBM's own example: NDCG at 1, 3, 5 and 10 on its test queries, the
    mean over seeds, each of which draws 80 % of the rows and features of every tree. There are only
    50 test queries: one fit more or less decides nothing, so the spread over seeds is reported too.
speed
    Documents in queries of 100, generated: CPU seconds to fit, the libraries in turn. A ratio
    divides medians; below 1 gpuens is better.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import fmean, median, stdev
from typing import Any

import numpy as np

from gpuens import GradientBoostingRanker
from gpuens.ranking_metrics import NDCG

from ..common import peers
from ..common.goals import Goal, measured
from ..common.markdown import pivot
from ..common.peers import OURS
from ..common.program import Content, Options, Program, Results
from ..common.tables import DATA, load, official_split

RANKS = (1, 3, 5, 10)
LARGEST_GAP = 0.005
"""By which NDCG at one rank may be below that of the better library."""
LARGEST_RATIO = 0.6
DOCUMENTS = 100
"""Size of a query that is generated."""
SHARE = 0.8
LEAVES, ROWS_OF_LEAF, TRUNCATION = 31, 20, 30


def models(options: Options, share: float, seed: int) -> dict[str, Any]:
    """Return a LambdaMART of each installed library."""
    shared: dict[str, Any] = {
        "n_estimators": options.rounds, "learning_rate": 0.1, "subsample": share,
        "colsample_bytree": share, "n_jobs": options.threads, "random_state": seed,
    }  # fmt: skip
    found: dict[str, Any] = {
        OURS: GradientBoostingRanker(
            **shared, max_leaf_nodes=LEAVES, min_samples_leaf=ROWS_OF_LEAF, device="cpu"
        )
    }
    if "LightGBM" in peers.installed(["LightGBM"]):
        from lightgbm import LGBMRanker

        found["LightGBM"] = LGBMRanker(
            **shared, num_leaves=LEAVES, min_child_samples=ROWS_OF_LEAF, reg_lambda=1.0,
            subsample_freq=1, lambdarank_truncation_level=TRUNCATION, verbose=-1,
        )  # fmt: skip
    if "XGBoost" in peers.installed(["XGBoost"]):
        from xgboost import XGBRanker

        found["XGBoost"] = XGBRanker(
            **shared, objective="rank:ndcg", max_leaves=LEAVES, max_depth=0, reg_lambda=1.0,
            grow_policy="lossguide", tree_method="hist", min_child_weight=1e-3,
            lambdarank_pair_method="topk", lambdarank_num_pair_per_sample=TRUNCATION,
        )  # fmt: skip
    return found


def quality(options: Options) -> Results:
    """Measure NDCG on the official split of LightGBM's example."""
    table = load(options.data, "lambdarank_lightgbm")
    is_test = table["is_test"].astype(bool)
    query = np.repeat(np.arange(table["group_sizes"].size), table["group_sizes"])
    X, X_test, y, y_test = official_split(table)
    group, group_test = (
        np.unique(query[rows], return_counts=True)[1] for rows in (~is_test, is_test)
    )
    runs: dict[str, list[list[float]]] = {}
    for seed in range(options.seeds):
        for name, model in models(options, SHARE, seed).items():
            score = model.fit(X, y, group=group).predict(X_test)
            found = [NDCG(k)(y_test, score, group=group_test) for k in RANKS]
            runs.setdefault(name, []).append(found)
            print(f"  seed {seed}: {name:<10}", *(f"{value:.4f}" for value in found), flush=True)
    return {
        name: {
            "ndcg": [fmean(column) for column in zip(*rows, strict=True)],
            "mean": fmean(map(fmean, rows)),
            "spread": stdev(map(fmean, rows)) if len(rows) > 1 else 0.0,
        }
        for name, rows in runs.items()
    }


def generated(n_queries: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return documents of 20 features, their relevances 0 … 4, and the sizes of the queries."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_queries * DOCUMENTS, 20)).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * np.sin(3.0 * X[:, 3])
    score += rng.normal(size=score.size).astype(np.float32)
    y = np.digitize(score, np.quantile(score, [0.5, 0.75, 0.9, 0.97]))
    return X, y, np.full(n_queries, DOCUMENTS)


def speed(options: Options) -> Results:
    """Measure the CPU time of fits to documents that are generated."""
    X, y, group = generated(options.queries)
    warm = X[:DOCUMENTS], y[:DOCUMENTS], group[:1]
    seconds: dict[str, list[float]] = {}
    scores: dict[str, float] = {}
    for repeat in range(options.repeats):
        made = models(options, 1.0, 0)
        names = list(made)
        for name in names[repeat % len(names) :] + names[: repeat % len(names)]:
            if repeat == 0:
                models(options, 1.0, 0)[name].fit(warm[0], warm[1], group=warm[2])
            taken = cpu_seconds(partial(made[name].fit, X, y, group=group))
            seconds.setdefault(name, []).append(taken)
            print(f"  round {repeat + 1}: {name:<10} {taken:.2f} s of CPU time", flush=True)
            scores[name] = NDCG(10)(y, made[name].predict(X), group=group)
    ours = median(seconds[OURS])
    return {
        name: {"seconds": runs, "ratio": ours / median(runs), "ndcg": scores[name]}
        for name, runs in seconds.items()
    }


def cpu_seconds(action: Callable[[], Any]) -> float:
    """Return the seconds that all threads of the process work."""
    start = time.process_time()
    action()
    return time.process_time() - start


def show(content: Content) -> Iterator[str]:
    """Yield NDCG and times of each library."""
    results = measured(content["results"])
    yield pivot("NDCG on LightGBM's example", {
        name: {f"@{k}": f"{value:.4f}" for k, value in zip(RANKS, row["ndcg"], strict=True)}
        | {"mean": f"{row['mean']:.4f}", "spread over seeds": f"{row['spread']:.4f}"}
        for name, row in results.get("quality", {}).items() if name != "gaps"
    })  # fmt: skip
    yield pivot("fit of documents that are generated", {
        name: {
            "CPU seconds": f"{median(row['seconds']):.1f}", "gpuens ÷": f"{row['ratio']:.2f}",
            "NDCG@10, training": f"{row['ndcg']:.4f}",
        }
        for name, row in results.get("speed", {}).items() if name != "gaps"
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    results = measured(content["results"])
    found = dict(results.get("quality", {}))
    found.pop("gaps", None)
    ours = found.pop(OURS, None)
    if ours and found:
        for i, k in enumerate(RANKS):
            gap = max(row["ndcg"][i] for row in found.values()) - ours["ndcg"][i]
            yield Goal(f"NDCG@{k} of the better library minus that of gpuens", LARGEST_GAP, gap)
        gap = max(row["mean"] for row in found.values()) - ours["mean"]
        yield Goal("the mean NDCG of the better library minus that of gpuens", 0.0, gap)
    if "LightGBM" in results.get("speed", {}):
        what = "the CPU time to fit a ranking, relative to LightGBM"
        yield Goal(what, LARGEST_RATIO, results["speed"]["LightGBM"]["ratio"])


PROGRAM = Program(
    "ranking", __doc__,
    {"quality": quality, "speed": speed},
    {
        "data": (DATA, "folder of the real tables"),
        "seeds": (20, "fits of each library to the real table"),
        "rounds": (100, "rounds of boosting"),
        "queries": (10_000, "queries that are generated"),
        "repeats": (3, "fits of each library to these"),
        "threads": (2, "threads"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
