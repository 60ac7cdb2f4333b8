"""Loss and CPU time of the choices that the guide speaks of.

shapes
    Leaf-wise and symmetric trees, each for the rounds that rows held out find.
bags
    Eight default members that see all rows, as one model (``averaged()``), beside one.
tuned (only where ``--only`` names it)
    ``TunedClassifier`` and ``TunedRegressor`` beside the default with nothing set, and beside
    LightGBM whose settings Optuna searches for as many CPU seconds, until its last trial ends, on
    five folds, each with early stopping; with the number of its trials.

The tables, splits, losses and seconds are those of ``defaults``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from statistics import fmean
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np

from ..common.markdown import pivot, with_error
from ..common.peers import OURS, Task, build, estimator, measure_each, untouched
from ..common.program import Content, Options, Program, Results
from ..common.tables import DATA
from .accuracy import geometric_mean, ratios_to, standard_error, together
from .defaults import TABLES, compare, made_for, measured

Maker = Callable[[Task, Any, Options, int], Any]


class Chosen:
    """A model that a function fits."""

    def __init__(self, fitted: Callable[[Any, np.ndarray], Any]) -> None:
        self._fitted = fitted

    def fit(self, X: Any, y: np.ndarray) -> Any:
        self._model = self._fitted(X, y)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def default(task: Task, frame: Any, options: Options, seed: int, **settings: Any) -> Any:
    return made_for(OURS, task, frame, options, seed).set_params(**settings)


def bag(task: Task, frame: Any, options: Options, seed: int) -> Chosen:
    how = {"n_estimators": options.members, "bootstrap": False, "random_state": seed}
    member = default(task, frame, options, seed)
    bag = build(OURS, f"Bagging{kind_of(task)}", options.threads, estimator=member, **how)
    return Chosen(lambda X, y: bag.fit(X, y).averaged())


def tuned(task: Task, frame: Any, options: Options, seed: int) -> Chosen:
    how = {"budget": f"{options.budget}s", "random_state": seed}
    model = build(OURS, f"Tuned{kind_of(task)}", options.threads, **how)

    def fitted(X: Any, y: np.ndarray) -> Any:
        with patch("gpuens.tuning.boosting.clock", process_time):
            return model.fit(X, y)

    return Chosen(fitted)


def with_optuna(task: Task, frame: Any, options: Options, seed: int) -> Chosen:
    import optuna
    from lightgbm import early_stopping
    from sklearn.model_selection import KFold, StratifiedKFold

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folds = (KFold if task == "regression" else StratifiedKFold)(5, shuffle=True, random_state=seed)
    stopping = early_stopping(50, verbose=False)

    def made(n_trees: int, settings: dict[str, Any]) -> Any:
        shared = replace(untouched(options.threads, seed), n_trees=n_trees)
        return estimator("LightGBM", task, shared, subsample_freq=1, **settings)

    def fitted(X: Any, y: np.ndarray) -> Any:
        end = process_time() + options.budget

        def loss(trial: Any) -> float:
            settings = {name: draw(trial, name) for name, draw in SPACE.items()}
            models = [
                made(MOST_ROUNDS, settings).fit(
                    X.iloc[rows], y[rows], eval_set=[(X.iloc[held_out], y[held_out])],
                    callbacks=[stopping],
                )
                for rows, held_out in folds.split(X, y)
            ]  # fmt: skip
            trial.set_user_attr("rounds", round(fmean(model.best_iteration_ for model in models)))
            return fmean(next(iter(model.best_score_["valid_0"].values())) for model in models)

        def stop_in_time(study: Any, trial: Any) -> None:
            if process_time() > end:
                study.stop()

        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        study.optimize(loss, callbacks=[stop_in_time])
        best = study.best_trial
        model = made(best.user_attrs["rounds"], best.params).fit(X, y)
        model.n_trials_ = len(study.trials)
        return model

    return Chosen(fitted)


def between(low: float, high: float, log: bool = True) -> Callable[[Any, str], float]:
    def draw(trial: Any, name: str) -> float:
        suggest = trial.suggest_int if isinstance(low, int) else trial.suggest_float
        return suggest(name, low, high, log=log)

    return draw


SPACE = {
    "learning_rate": between(0.01, 0.3), "num_leaves": between(4, 128),
    "min_child_samples": between(1, 100), "reg_lambda": between(1e-3, 100.0),
    "reg_alpha": between(1e-8, 10.0), "subsample": between(0.5, 1.0, log=False),
    "colsample_bytree": between(0.3, 1.0, log=False),
}  # fmt: skip
"""Ranges from which Optuna draws settings of LightGBM."""
MOST_ROUNDS = 2000


def kind_of(task: Task) -> str:
    return "Regressor" if task == "regression" else "Classifier"


MAKERS: dict[str, dict[str, Maker]] = {
    "shapes": {
        "leaf-wise": partial(default, grow_policy="lossguide"),
        "symmetric": partial(default, grow_policy="symmetric"),
    },
    "bags": {"one": default, "bag": bag},
    "tuned": {"default": default, "tuned": tuned, "LightGBM with Optuna": with_optuna},
}  # fmt: skip
"""By part; the first is what the others are divided by."""


def measure(part: str, options: Options) -> Results:
    return measure_each(options.tables, lambda name: compare(name, options, MAKERS[part]))


def show(content: Content) -> Iterator[str]:
    """Yield the loss of each choice relative to the part's first, its standard error over the
    tables, and the ratio of their seconds."""
    for part, by_table in content["results"].items():
        tables, (base, *others) = measured({"results": by_table}), MAKERS[part]
        rows = {}
        for name in others:
            ratios = ratios_to(base, tables, name)
            if not ratios:
                continue
            better = sum(ratio < 1.0 for ratio, _ in ratios.values())
            both = [
                entry["fit"] for entry in tables.values() if {base, name} <= entry["fit"].keys()
            ]
            seconds = sum(sum(fit[name]) for fit in both) / sum(sum(fit[base]) for fit in both)
            mean = geometric_mean(ratios)
            spread = standard_error([math.log(ratio) for ratio, _ in ratios.values()])
            rows[f"{part}: {name}"] = together(ratios, 3) | {
                "geometric mean": with_error(mean, spread and mean * spread),
                "better on": str(better), "time to fit ÷": f"{seconds:.2f}",
            }  # fmt: skip
        yield pivot(f"loss ÷ that of {base}", rows)


PROGRAM = Program(
    "choices", __doc__, {part: partial(measure, part) for part in ("shapes", "bags")},
    {
        "data": (DATA, "folder of the tables, NAME.npz with X and y"),
        "tables": (list(TABLES), "tables"),
        "seeds": (3, "number of splits"),
        "threads": (1, "threads"),
        "rows": (None, "train on only so many rows of each split"),
        "members": (8, "models of a bag"),
        "budget": (20, "CPU seconds of a search, with one thread"),
    },
    show, rare={"tuned": partial(measure, "tuned")},
)  # fmt: skip
main = PROGRAM.main
