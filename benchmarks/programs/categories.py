"""Log loss with categorical features, beside LightGBM and scikit-learn.

31 leaves, at least 20 rows and a hessian of 1e-3 a leaf, lambda = 0, rate 0.1, 255 bins, 100
trees, one category against the others for at most 4, smoothing 10, over several stratified 75/25
splits. LightGBM has three further regularisations of categorical splits: it appears as it comes
("LightGBM": cat_l2 = 10, at least 100 rows a group of categories, at most 32 categories a side)
and without them ("LightGBM, same settings"), which is what gpuens and scikit-learn do. "numbers"
is gpuens with the codes of the categories as numbers.

A ratio divides the means over the splits; below 1 gpuens is better.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from ..common import peers
from ..common.goals import Goal, measured
from ..common.markdown import gaps_of, pivot
from ..common.peers import OURS, measure_each
from ..common.program import Content, Options, Program, Results
from ..common.tables import DATA, Losses, by_split, load, ratios_of

TABLES = ["adult", "airlines_allyears2k"]
SAME = {"cat_l2": 0.0, "cat_smooth": 10.0, "min_data_per_group": 1, "max_cat_threshold": 255}
AT_MOST = 1.01


def models(
    X: np.ndarray, categorical: list[int], options: Options, seed: int
) -> dict[str, tuple[Any, dict]]:
    """Return estimators and what their ``fit`` takes beside the data."""
    settings = peers.Settings(options.trees, 31, threads=options.threads, seed=seed)
    columns = {"categorical_features": categorical}
    lightgbm = {"categorical_feature": categorical}

    def build(library: str, **more: Any) -> Any:
        return peers.estimator(library, "binary", settings, **more)

    found: dict[str, tuple[Any, dict]] = {
        OURS: (build(OURS, **columns), {}),
        "numbers": (build(OURS, categorical_features=None), {}),
    }
    if peers.installed(["LightGBM"]):
        found["LightGBM"] = (build("LightGBM"), lightgbm)
        found["LightGBM, same settings"] = (build("LightGBM", **SAME), lightgbm)
    widest = max((len(np.unique(X[:, f])) for f in categorical), default=0)
    if widest <= 255:  # scikit-learn takes no more
        found["HistGB"] = (build("HistGB", **columns), {})
    return found


def losses_on(arrays: dict[str, np.ndarray], options: Options) -> Losses:
    """Return the losses of every model."""
    categorical = np.flatnonzero(arrays["is_categorical"]).tolist()

    def losses(seed: int) -> dict[str, float]:
        X, X_test, y, y_test = train_test_split(
            arrays["X"], arrays["y"], test_size=0.25, random_state=seed, stratify=arrays["y"]
        )
        contestants = models(arrays["X"], categorical, options, seed)
        return {
            name: log_loss(y_test, peers.probabilities(model.fit(X, y, **more), X_test))
            for name, (model, more) in contestants.items()
        }

    return by_split(options.seeds, losses)


def measure(options: Options) -> Results:
    found = measure_each(
        options.only, lambda name: losses_on(load(options.data, name, options.rows), options)
    )
    losses = measured(found)
    ratios = {name: ratios_of(runs) for name, runs in losses.items()}
    gaps = list(gaps_of(found))
    return {"losses": losses, "ratios": ratios} | ({"gaps": gaps} if gaps else {})


def show(content: Content) -> Iterator[str]:
    """Yield our loss, and its ratio to that of the other models."""
    results = content["results"]
    yield pivot("log loss with categories", {
        name: {OURS: f"{fmean(results['losses'][name][OURS]):.4f}"}
        | {f"÷ {model}": f"{ratio:.4f}" for model, ratio in ratios.items()}
        for name, ratios in results["ratios"].items()
    })  # fmt: skip


def goals(content: Content) -> Iterator[Goal]:
    for table, ratios in content["results"]["ratios"].items():
        if "LightGBM" in ratios:
            what = f"the log loss on {table} with categories, relative to LightGBM"
            yield Goal(what, AT_MOST, ratios["LightGBM"])


PROGRAM = Program(
    "categories", __doc__, measure,
    {
        "data": (DATA, "folder of the tables, NAME.npz"),
        "only": (TABLES, "tables"),
        "seeds": (5, "number of splits"),
        "trees": (100, "rounds of boosting"),
        "threads": (2, "threads"),
        "rows": (None, "use only so many rows of each table"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
