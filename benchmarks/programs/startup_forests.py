"""Random forests in files, as each library saves and loads them.

All have the same number of trees, at most ``DEPTH`` levels, and a square root of the features to
choose from at a node (a tree, in LightGBM).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..common import counterparts, peers
from ..common.counterparts import THEIRS

DEPTH = 10
LOAD = {
    peers.OURS: ("import gpuens", "gpuens.load(path).set_params(n_jobs=threads)"),
    THEIRS: ("import joblib, sklearn.ensemble", "joblib.load(path).set_params(n_jobs=threads)"),
    "LightGBM": ("import lightgbm", "lightgbm.Booster(model_file=path)"),
    "XGBoost": ("import xgboost", "xgboost.XGBRFClassifier(n_jobs=threads)"),
}
"""The import, and what loads a file."""
AFTER = {"XGBoost": "model.load_model(path)"}
PREDICT = {"LightGBM": "model.predict({rows}, num_threads=threads)"}
CHILD = """
from time import perf_counter as clock
t0 = clock()
{imports}
t1 = clock()
import json, sys
import numpy as np
X = np.load(sys.argv[1])["X"]
path, threads = sys.argv[2], int(sys.argv[3])
t2 = clock()
model = {load}
{after}
t3 = clock()
{one}
t4 = clock()
{all}
t5 = clock()
print(json.dumps({{"import": t1 - t0, "load": t3 - t2, "first predict": t4 - t3,
                   "first table": t5 - t4}}))
"""


def code(library: str) -> str:
    """The program of a process that serves."""
    imports, load = LOAD[library]
    call = PREDICT.get(library, "model.predict_proba({rows})")
    one, everything = call.format(rows="X[:1]"), call.format(rows="X")
    after = AFTER.get(library, "")
    return CHILD.format(imports=imports, load=load, after=after, one=one, all=everything)


def save(library: str, X: np.ndarray, y: np.ndarray, folder: Path, options: Any) -> Path:
    """Train a forest and write it; returns its file."""
    if library in (peers.OURS, THEIRS):
        settings = {"n_estimators": options.trees, "max_depth": DEPTH, "random_state": 0}
        forest = counterparts.build(
            library, "RandomForestClassifier", options.threads, **settings
        ).fit(X, y)
        path = folder / ("forest.gpuens" if library == peers.OURS else "forest.joblib")
        if library == peers.OURS:
            forest.save(path)
        else:
            import joblib

            joblib.dump(forest, path)
        return path
    share = X.shape[1] ** -0.5
    shared: dict[str, Any] = {"n_estimators": options.trees, "max_depth": DEPTH, "random_state": 0,
                              "n_jobs": options.threads}  # fmt: skip
    if library == "LightGBM":
        from lightgbm import LGBMClassifier

        bags: dict[str, Any] = {"boosting_type": "rf", "subsample": 0.632, "subsample_freq": 1}
        leaves: dict[str, Any] = {"num_leaves": 2**DEPTH, "colsample_bytree": share, "verbose": -1}
        path = folder / "forest.txt"
        LGBMClassifier(**shared, **bags, **leaves).fit(X, y).booster_.save_model(path)
        return path
    from xgboost import XGBRFClassifier

    path = folder / "forest.json"
    XGBRFClassifier(**shared, subsample=0.632, colsample_bynode=share).fit(X, y).save_model(path)
    return path
