"""Time of partial dependence and of measures of diversity.

Partial dependence of one feature and of two by one weighted pass down a forest's trees, beside
scikit-learn's brute force and its own recursion on a forest trained alike; the forests are trained
outside of the clock. Diversity: all pairwise measures of many models from one matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn.ensemble import RandomForestRegressor as SklearnForest
from sklearn.inspection import partial_dependence as sklearn_partial_dependence

from gpuens import RandomForestRegressor, diversity
from gpuens.datasets import make_higgs_like
from gpuens.inspection import partial_dependence

from ..common.goals import Goal, measured
from ..common.markdown import medians
from ..common.peers import OURS
from ..common.program import Content, Options, Program, Results, timing
from ..common.timing import take_turns

BRUTE, RECURSION = "scikit-learn, brute force", "scikit-learn, recursion"
GRIDS = ("one feature", "two features")


def dependence(options: Options) -> Results:
    """Measure partial dependence of a forest, one feature and two."""
    X, y = make_higgs_like(options.rows, random_state=0)
    target = y + X[:, 0] * X[:, 1]
    settings = {"n_estimators": options.trees, "max_depth": options.depth, "max_features": 1 / 3,
                "n_jobs": options.threads, "random_state": 0}  # fmt: skip
    ours = RandomForestRegressor(**settings, device="cpu").fit(X, target)
    theirs = SklearnForest(**settings).fit(X, target)
    n_nodes = int(ours.forest_.feature.size)
    results: Results = {"n_rows": len(X), "n_trees": options.trees, "n_nodes": n_nodes}
    for name, points in zip(GRIDS, (options.points, options.points_of_two), strict=True):
        features = [0, 1][: GRIDS.index(name) + 1]
        grid = {"grid_resolution": points, "kind": "average"}
        by_sklearn = partial(sklearn_partial_dependence, theirs, X, features, **grid)
        actions = {
            OURS: partial(partial_dependence, ours, X, features, method="recursion", **grid),
            BRUTE: partial(by_sklearn, method="brute"),
            RECURSION: partial(by_sklearn, method="recursion"),
        }
        actions[OURS]()
        libraries, _ = take_turns(actions, options)
        results[name] = {"points": points ** len(features), "libraries": libraries}
    return results


def pairwise(options: Options) -> Results:
    """Measure all pairwise measures of diversity between many models."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, options.rows)
    wrong = rng.random((options.rows, options.models)) < 0.3
    predictions = np.where(wrong, rng.integers(0, 10, wrong.shape), y[:, None])
    diversity.pairwise(predictions[:1000], y[:1000])
    libraries, _ = take_turns({OURS: partial(diversity.pairwise, predictions, y)}, options)
    return {"n_rows": options.rows, "n_models": options.models, **libraries[OURS]}


def show(content: Content) -> Iterator[str]:
    """Yield times of partial dependence."""
    part = content["results"].get("partial_dependence", {})
    if part.get(GRIDS[0]):
        corner = f"partial dependence, {part['n_trees']} trees"
        yield medians(corner, {name: part[name]["libraries"] for name in GRIDS})


def goals(content: Content) -> Iterator[Goal]:
    results = measured(content["results"])
    part = results.get("partial_dependence", {})
    for name in GRIDS:
        if name in part:
            of = f"{name}, {part['n_trees']} trees"
            what = f"the time of partial dependence ({of}), relative to scikit-learn's brute force"
            yield Goal(what, 0.05, part[name]["libraries"][BRUTE]["ratio"])
    if "diversity" in results:
        part = results["diversity"]
        what = f"the time of all pairwise diversities of {part['n_models']} models"
        yield Goal(f"{what}, {part['n_rows']:,} rows", 2.0, part["median"], "s")


PROGRAM = Program(
    "inspection", __doc__, {"partial_dependence": dependence, "diversity": pairwise},
    {
        **timing(3),
        "rows": (100_000, "rows of the tables"),
        "trees": (40, "trees of the forests"),
        "depth": (14, "largest depth of the trees"),
        "points": (100, "points of the grid of one feature"),
        "points_of_two": (10, "points of each of two features"),
        "models": (200, "models to compare"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
