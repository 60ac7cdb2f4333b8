"""Rankings beside LightGBM and XGBoost at the same settings.

quality
    The official split of LightGBM's own example: NDCG at 1, 3, 5 and 10 on its test queries, the
    mean over seeds, each of which draws 80 % of the rows and features of every tree. There are only
    50 test queries, so the goals show a 95 % interval of each difference.
folds
    The same on all 251 queries of the example, in five folds of whole queries: every query is a
    test query once in a repetition, and each repetition has other folds and seeds.
speed
    Documents in queries of 100, generated: CPU seconds to fit, the libraries in turn. A ratio
    divides medians; below 1 gpuens is better.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from gpuens import GradientBoostingRanker
from gpuens.ranking_metrics import NDCG

from ..common import peers
from ..common.goals import Goal, measured
from ..common.markdown import pivot
from ..common.peers import OURS
from ..common.program import Content, Options, Program, Results
from ..common.tables import DATA, load

RANKS = (1, 3, 5, 10)
LARGEST_GAP = 0.005
"""By which NDCG at one rank may be below that of the better library."""
LARGEST_RATIO = 0.6
FOLDS = 5
NORMAL_95 = 1.96
"""Standard errors to either side of the mean in an interval of 95 %."""
DOCUMENTS = 100
"""Size of a query that is generated."""
PARTS = {"quality": "LightGBM's example", "folds": "five folds of its queries"}
"""The comparisons of NDCG, and where they are."""
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


def read(options: Options) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y and the query of each row, and whether each query is one of the test."""
    table = load(options.data, "lambdarank_lightgbm")
    sizes = table["group_sizes"]
    query = np.repeat(np.arange(sizes.size), sizes)
    is_test = table["is_test"].astype(bool)[np.cumsum(sizes) - 1]
    return table["X"], table["y"], query, is_test


def ndcg_by_query(y: np.ndarray, score: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return NDCG at each rank and their mean, shape (n_queries, ranks + 1)."""
    ends = np.cumsum(sizes)[:-1]
    found = [
        [NDCG(k)(of_query, ranked, group=[of_query.size]) for k in RANKS]
        for of_query, ranked in zip(np.split(y, ends), np.split(score, ends), strict=True)
    ]
    return np.column_stack([found, np.mean(found, axis=1)])


def tested(
    options: Options, rows: tuple[np.ndarray, ...], is_test: np.ndarray, seed: int
) -> dict[str, np.ndarray]:
    """Fit each library to the other queries; return its NDCG on those of the test."""
    X, y, query = rows
    test = is_test[query]
    sizes, sizes_test = (np.unique(query[part], return_counts=True)[1] for part in (~test, test))
    found = {}
    for name, model in models(options, SHARE, seed).items():
        score = model.fit(X[~test], y[~test], group=sizes).predict(X[test])
        found[name] = ndcg_by_query(y[test], score, sizes_test)
    return found


def compared(runs: dict[str, list[np.ndarray]], what: str) -> Results:
    """Return the means of each library, and the standard errors of what ours has more or less.

    The queries and the runs are both draws: the squared error is the variance of the differences
    of the queries over their number, and that of the runs over theirs.

    Parameters
    ----------
    runs : dict of lists of float arrays, shape (n_queries, ranks + 1)
        By library, from each run.
    what : str
        What is printed before each row.
    """
    results = {}
    for name, found in runs.items():
        values, gaps = np.stack(found), np.stack(runs[OURS]) - np.stack(found)
        n_runs, n_queries = values.shape[:2]
        squared = np.var(gaps.mean(axis=0), axis=0, ddof=1) / n_queries
        of_runs = values.mean(axis=1)
        if n_runs > 1:
            squared += np.var(gaps.mean(axis=1), axis=0, ddof=1) / n_runs
        *ndcg, mean = (float(value) for value in of_runs.mean(axis=0))
        results[name] = {
            "ndcg": ndcg, "mean": mean, "standard_errors": np.sqrt(squared).tolist(),
            "spread": float(of_runs[:, -1].std(ddof=1)) if n_runs > 1 else 0.0,
        }  # fmt: skip
        print(f"  {what}: {name:<10}", *(f"{value:.4f}" for value in ndcg), flush=True)
    return results


def quality(options: Options) -> Results:
    """Measure NDCG on the official split of LightGBM's example."""
    *rows, is_test = read(options)
    runs: dict[str, list[np.ndarray]] = {}
    for seed in range(options.seeds):
        for name, found in tested(options, tuple(rows), is_test, seed).items():
            runs.setdefault(name, []).append(found)
    return compared(runs, "official split")


def folds(options: Options) -> Results:
    """Measure NDCG on folds of all queries of LightGBM's example."""
    *rows, is_test = read(options)
    runs: dict[str, list[np.ndarray]] = {}
    for repeat in range(options.folds):
        split = KFold(FOLDS, shuffle=True, random_state=repeat).split(is_test)
        for fold, (_, chosen) in enumerate(split):
            part = np.isin(np.arange(is_test.size), chosen)
            seed = FOLDS * repeat + fold
            for name, found in tested(options, tuple(rows), part, seed).items():
                of_repeat = runs.setdefault(name, [])
                if fold == 0:
                    of_repeat.append(np.empty((is_test.size, found.shape[1])))
                of_repeat[-1][part] = found
    return compared(runs, "folds")


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
    for part, where in PARTS.items():
        yield pivot(f"NDCG on {where}", {
            name: {f"@{k}": f"{value:.4f}" for k, value in zip(RANKS, row["ndcg"], strict=True)}
            | {"mean": f"{row['mean']:.4f}", "spread over runs": f"{row['spread']:.4f}"}
            for name, row in results.get(part, {}).items() if name != "gaps"
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
    for part, where in PARTS.items():
        found = dict(results.get(part, {}))
        found.pop("gaps", None)
        if (ours := found.pop(OURS, None)) and found:
            values = {name: [*row["ndcg"], row["mean"]] for name, row in found.items()}
            for i, own in enumerate([*ours["ndcg"], ours["mean"]]):
                best = max(values, key=lambda name: values[name][i])
                gap, error = values[best][i] - own, NORMAL_95 * found[best]["standard_errors"][i]
                rank = f"NDCG@{RANKS[i]}" if i < len(RANKS) else "the mean NDCG"
                what = f"{rank} of {best}, the better library, minus that of gpuens on {where}"
                within = f"95 % interval {gap - error:.3f} to {gap + error:.3f}"
                limit = LARGEST_GAP if i < len(RANKS) else 0.0
                yield Goal(f"{what} ({within})", limit, gap)
    if "LightGBM" in results.get("speed", {}):
        what = "the CPU time to fit a ranking, relative to LightGBM"
        yield Goal(what, LARGEST_RATIO, results["speed"]["LightGBM"]["ratio"])


PROGRAM = Program(
    "ranking", __doc__,
    {"quality": quality, "folds": folds, "speed": speed},
    {
        "data": (DATA, "folder of the real tables"),
        "seeds": (20, "fits of each library to the official split"),
        "folds": (10, "repetitions of the five folds"),
        "rounds": (100, "rounds of boosting"),
        "queries": (10_000, "queries that are generated"),
        "repeats": (3, "fits of each library to these"),
        "threads": (2, "threads"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
