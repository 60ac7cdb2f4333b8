"""Loss with nothing set, beside the other libraries with nothing set.

Every library comes as its authors ship it. It is told the seed, the number of threads, and which
columns are categories; CatBoost gets these as text, as it wants them, the others as pandas'
categories. The splits are 75/25, stratified for classes; of large tables only some rows are trained
on, and the result says how many. Log loss for classes, root mean squared error for numbers.

A ratio divides the means over the splits; below 1 gpuens is better. Times are CPU seconds of fits
and predictions over all tables and splits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from ..common import peers
from ..common.goals import Goal
from ..common.markdown import pivot, with_error
from ..common.peers import OURS, say_skipped
from ..common.program import Content, Options, Program, Results, short
from ..common.tables import DATA, Table, load
from .accuracy import geometric_mean, ratios_to, standard_error, together
from .lines import mean_log_loss, root_mean_square

TABLES = (
    "adult", "airlines_allyears2k", "ames", "bike", "breast_cancer_wisconsin", "california_housing",
    "california_housing_missing", "covtype_first20k", "diamonds", "german_credit", "glass",
    "higgs_lightgbm", "image_segmentation", "ionosphere", "letter", "lightgbm_multiclass",
    "pima_diabetes", "satimage", "sonar", "spambase", "vehicle", "vowel", "waveform5000",
)  # fmt: skip
LIBRARIES = (OURS, "LightGBM", "XGBoost", "HistGB", "CatBoost")
MOST_TESTED = 6000
"""Rows of a split that are predicted at most."""
MOST = {"CatBoost": 0.99, "LightGBM": 0.75, "XGBoost": 0.83}
WORST = {"CatBoost": 1.05, "LightGBM": 1.01, "XGBoost": 1.01, "HistGB": 1.01}
MOST_TIME = 0.2
"""Goals: the geometric mean and the worst table, relative to a library; time beside CatBoost's."""


def frame_of(arrays: dict[str, np.ndarray]) -> Any:
    """Return a table whose categorical columns say so, with all categories of all rows."""
    import pandas as pd

    frame = pd.DataFrame(arrays["X"]).add_prefix("f")
    for column in frame.columns[arrays["is_categorical"]]:
        names = [None if np.isnan(code) else f"c{code:.0f}" for code in frame[column]]
        frame[column] = pd.Categorical(names)
    return frame


def made_for(library: str, task: peers.Task, frame: Any, options: Options, seed: int) -> Any:
    """Return an estimator with nothing set but the seed, the threads and the categories."""
    settings = replace(peers.untouched(options.threads, seed), n_trees=None)
    columns = list(frame.columns[frame.dtypes == "category"])
    declared: dict[str, dict[str, Any]] = {
        "XGBoost": {"enable_categorical": True},
        "HistGB": {"early_stopping": "auto"},
        "CatBoost": {"cat_features": columns},
    }
    return peers.estimator(library, task, settings, **declared.get(library, {}))


def given_to(library: str, frame: Any) -> Any:
    """Return the table as a library takes categories."""
    if library != "CatBoost":
        return frame
    columns = frame.columns[frame.dtypes == "category"]
    return frame.assign(**{
        column: frame[column].astype(object).fillna("missing") for column in columns
    })  # fmt: skip


def measure(name: str, options: Options) -> Results:
    libraries = peers.installed(LIBRARIES)
    return compare(name, options, {library: partial(made_for, library) for library in libraries})


def compare(
    name: str,
    options: Options,
    makers: Mapping[str, Callable[[peers.Task, Any, Options, int], Any]],
) -> Results:
    """Return the losses and CPU seconds of models on all splits of a table; ``makers`` make one
    from the task, the whole table, the options and the seed."""
    arrays = load(options.data, name)
    frame, table = frame_of(arrays), Table(name, arrays["X"], arrays["y"])
    metric = root_mean_square if table.task == "regression" else mean_log_loss
    found: Results = {"losses": {}, "fit": {}, "predict": {}, "rows": 0}
    gaps = []
    for library, make in makers.items():
        runs = []
        try:
            for seed in range(options.seeds):
                rows, held_out = split_of(table, seed, options.rows)
                found["rows"] = rows.size
                model = make(table.task, frame, options, seed)
                X = given_to(library, frame)
                clock = [time.process_time()]
                model.fit(X.iloc[rows], table.y[rows])
                clock.append(time.process_time())
                if hasattr(model, "n_trials_"):  # of a search
                    found.setdefault("trials", {}).setdefault(library, []).append(model.n_trials_)
                loss = metric(model, X.iloc[held_out], table.y[held_out])
                runs.append((loss, clock[1] - clock[0], time.process_time() - clock[1]))
        except Exception as error:
            gaps.append(say_skipped(peers.GapError(f"{library} on {name}: {short(error)}")))
            continue
        columns = zip(*runs, strict=True)
        for key, column in zip(("losses", "fit", "predict"), columns, strict=True):
            found[key][library] = list(column)
    return found | ({"gaps": gaps} if gaps else {})


def split_of(table: Table, seed: int, most: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the rows to train on and of those to predict."""
    rows = Table(table.name, np.arange(len(table.y)), table.y).split(seed)
    return rows[0][:most], rows[1][:MOST_TESTED]


def measured(content: Content) -> Results:
    """Return the results of all tables that were measured."""
    return {name: entry for name, entry in content["results"].items() if "losses" in entry}


def show(content: Content) -> Iterator[str]:
    by_table = measured(content)
    yield pivot("loss of gpuens ÷ that of, nothing set", {
        peer: together(found, 3) | {
            "time to fit ÷": f"{time_ratio(by_table, peer, 'fit'):.2f}",
            "time to predict ÷": f"{time_ratio(by_table, peer, 'predict'):.2f}",
        }
        for peer in LIBRARIES[1:] if (found := ratios_to(peer, by_table))
    })  # fmt: skip
    yield pivot("mean ± standard error, nothing set", {
        f"{name}, {entry['rows']:,} rows": {
            library: with_error(fmean(runs), standard_error(runs))
            for library, runs in entry["losses"].items()
        }
        for name, entry in by_table.items()
    })  # fmt: skip


def time_ratio(by_table: Results, peer: str, what: str) -> float:
    """Return our time relative to that of a library, on the tables that both have learned."""
    both = [entry[what] for entry in by_table.values() if {OURS, peer} <= entry[what].keys()]
    ours, theirs = (sum(sum(times[library]) for times in both) for library in (OURS, peer))
    return ours / theirs


def goals(content: Content) -> Iterator[Goal]:
    by_table = measured(content)
    for peer in LIBRARIES[1:]:
        ratios = ratios_to(peer, by_table)
        if not ratios:
            continue
        if peer in MOST:
            mean = geometric_mean(ratios)
            yield Goal(f"the geometric mean of the loss relative to {peer}'s", MOST[peer], mean)
        worst = max(ratio for ratio, _ in ratios.values())
        yield Goal(f"the loss relative to {peer}'s, on the worst table,", WORST[peer], worst)
        if peer == "CatBoost":
            ratio = time_ratio(by_table, peer, "fit")
            yield Goal(f"the time of all fits relative to {peer}'s", MOST_TIME, ratio)


PROGRAM = Program(
    "defaults", __doc__, {name: partial(measure, name) for name in TABLES},
    {
        "data": (DATA, "folder of the tables, NAME.npz with X and y"),
        "seeds": (5, "number of splits"),
        "threads": (1, "threads"),
        "rows": (None, "train on only so many rows of each split"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
