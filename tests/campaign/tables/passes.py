"""Growth in passes over the rows of a file, as of tables larger than memory: the same models."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuens import BinnedTable
from tests.support.streaming import streaming

from ..attack import wrong
from .generated_tables import CHOICES, GeneratedTables, check_error, drawn
from .hard_tables import Case

BOOSTING = tuple(name for name in CHOICES if name.startswith("GradientBoosting"))
MOST_BATCHES = 4
REPEATED = (1, 1, 20, 100)
"""How often the rows of a table are repeated: thousands of them are read at once."""


class Passes(GeneratedTables):
    """Boosting on a table in a file, bit for bit the model of growth node by node, or the same
    error."""

    weight = 1.0

    def trial(self, number: int) -> None:
        rng = np.random.default_rng([self.seed, number])
        model, case = drawn(rng, BOOSTING)
        model.set_params(n_jobs=int(rng.integers(1, 3)))
        words = f"{model!r} on {case.words}".replace("\n", " ")
        path = self.scratch / "table"
        path.unlink(missing_ok=True)
        given = batches_of(case, rng)
        try:
            bins = {"max_bins": model.max_bins, "categorical_features": "from_dtype"}
            table = BinnedTable.from_batches(lambda: iter(given), path=path, **bins)
        except Exception as error:
            check_error(error, model, words)
            return
        queries = {k: v for k, v in case.arguments.items() if k != "sample_weight"}
        plain = outcome(model, table, queries, words)
        with streaming():
            passes = outcome(model, table, queries, words)
        limited = any(each.startswith(MemoryError.__name__) for each in (plain, passes))
        if plain != passes and not limited:  # both take memory, but not the same
            raise wrong(f"{plain}, but in passes {passes}", type(model).__name__, words)


def batches_of(case: Case, rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Return a table in batches, with its rows repeated unless that is not possible."""
    columns = [case.X, case.y]
    if (weight := case.arguments.get("sample_weight")) is not None:
        columns.append(weight)
    n, queries = np.shape(case.X)[0], len(case.arguments) - len(columns) + 2
    fit_together = all(np.shape(column)[:1] == (n,) for column in columns if has_shape(column))
    if not all(map(has_shape, columns)) or not fit_together or n == 0:
        return [tuple(columns)]
    n_copies = 1 if queries else int(rng.choice(REPEATED))
    rows = np.tile(np.arange(n), n_copies)
    ends = np.sort(rng.integers(1, rows.size + 1, int(rng.integers(MOST_BATCHES))))
    parts = [part for part in np.split(rows, ends) if part.size]
    return [tuple(rows_of(column, part) for column in columns) for part in parts]


def has_shape(column: Any) -> bool:
    return hasattr(column, "shape") or isinstance(column, list)


def rows_of(table: Any, rows: np.ndarray) -> Any:
    """Return some rows of an array, a list or a data frame."""
    if isinstance(table, list):
        return [table[row] for row in rows]
    return table.iloc[rows] if hasattr(table, "iloc") else table[rows]


def outcome(model: Any, table: BinnedTable, queries: dict[str, Any], words: str) -> str:
    """Return the fingerprint of the model, or the error that ``fit`` has ended with."""
    try:
        model.fit(table, None, **queries)
    except Exception as error:
        check_error(error, model, words)
        return f"{type(error).__name__}: {error}"
    return model.forest_.fingerprint()
