"""Loss and CPU time of the choices that the guide speaks of, beside the default with nothing set.

shapes
    Leaf-wise and symmetric trees, each for the rounds that rows held out find.
bags
    Eight default members that see all rows, as one model (``averaged()``), beside one.

The tables, splits, losses and seconds are those of ``defaults``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ..common.markdown import pivot
from ..common.peers import OURS, Task, build, measure_each
from ..common.program import Content, Options, Program, Results
from ..common.tables import DATA
from .accuracy import ratios_to, together
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


def kind_of(task: Task) -> str:
    return "Regressor" if task == "regression" else "Classifier"


MAKERS: dict[str, dict[str, Maker]] = {
    "shapes": {
        "leaf-wise": partial(default, grow_policy="lossguide"),
        "symmetric": partial(default, grow_policy="symmetric"),
    },
    "bags": {"one": default, "bag": bag},
}  # fmt: skip
"""By part; the first is what the others are divided by."""


def measure(part: str, options: Options) -> Results:
    return measure_each(options.tables, lambda name: compare(name, options, MAKERS[part]))


def show(content: Content) -> Iterator[str]:
    """Yield the loss of each choice relative to the part's first, and that of their seconds."""
    for part, by_table in content["results"].items():
        tables, (base, *others) = measured({"results": by_table}), MAKERS[part]
        rows = {}
        for name in others:
            ratios = ratios_to(base, tables, name)
            better = sum(ratio < 1.0 for ratio, _ in ratios.values())
            both = [
                entry["fit"] for entry in tables.values() if {base, name} <= entry["fit"].keys()
            ]
            seconds = sum(sum(fit[name]) for fit in both) / sum(sum(fit[base]) for fit in both)
            rows[f"{part}: {name}"] = together(ratios, 3) | {
                "better on": str(better), "time to fit ÷": f"{seconds:.2f}",
            }  # fmt: skip
        yield pivot(f"loss ÷ that of {base}", rows)


PROGRAM = Program(
    "choices", __doc__, {part: partial(measure, part) for part in MAKERS},
    {
        "data": (DATA, "folder of the tables, NAME.npz with X and y"),
        "tables": (list(TABLES), "tables"),
        "seeds": (3, "number of splits"),
        "threads": (1, "threads"),
        "rows": (None, "train on only so many rows of each split"),
        "members": (8, "models of a bag"),
    },
    show,
)  # fmt: skip
main = PROGRAM.main
