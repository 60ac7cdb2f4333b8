"""A grammar of hard tables: columns, and the arrays and frames that hold them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from .hard_targets import GENERAL, QUERIES, WEIGHTS, Kinds, queries_of, target_of, weights_of

Rng = np.random.Generator
ROWS = (0, 1, 2, 3, 5, 12, 50, 200)
COLUMNS = (0, 1, 1, 2, 3, 5, 40, 700)
NUMBERS: dict[str, Callable[[Rng, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "constant": lambda rng, n: np.full(n, rng.choice([0.0, 1.5, -1e300, 5e-324])),
    "all missing": lambda rng, n: np.full(n, np.nan),
    "some missing": lambda rng, n: np.where(rng.random(n) < 0.4, np.nan, rng.normal(size=n)),
    "infinite": lambda rng, n: rng.choice([np.inf, -np.inf, 0.0, 1.0, np.nan], n),
    "denormal": lambda rng, n: rng.normal(size=n) * 1e-310,
    "huge": lambda rng, n: rng.normal(size=n) * 1e300,
    "beyond float32": lambda rng, n: rng.normal(size=n) * 1e39,
    "neighbours": lambda rng, n: 1.0 + rng.integers(0, 4, n) * 2.0**-52,
    "signed zeros": lambda rng, n: rng.choice([0.0, -0.0, 1e-45], n),
    "few values": lambda rng, n: rng.integers(0, 3, n).astype(np.float64),
    "one outlier": lambda rng, n: np.where(np.arange(n) == 0, 1e30, rng.normal(size=n)),
    "sorted": lambda rng, n: np.arange(n, dtype=np.float64),
    "large integers": lambda rng, n: rng.integers(2**53, 2**62, n),
    "smallest integers": lambda rng, n: rng.choice(np.array([-(2**63), 0, 2**63 - 1]), n),
    "unsigned": lambda rng, n: rng.integers(0, 2**64, n, dtype=np.uint64),
    "bytes": lambda rng, n: rng.integers(0, 256, n).astype(np.uint8),
    "flags": lambda rng, n: rng.random(n) < 0.5,
    "half": lambda rng, n: rng.normal(size=n).astype(np.float16),
    "single": lambda rng, n: rng.normal(size=n).astype(np.float32),
    "long double": lambda rng, n: rng.normal(size=n).astype(np.longdouble),
}
OTHERS: dict[str, Callable[[Rng, int], Any]] = {
    "text": lambda rng, n: rng.choice(["a", "b", "", "é", "nan"], n).astype(object),
    "text and None": lambda rng, n: rng.choice(np.array(["a", None, "c"], object), n),
    "mixed": lambda rng, n: rng.choice(np.array(["a", 1, 2.5, None, True], object), n),
    "numbers as objects": lambda rng, n: rng.choice(np.array([1, 2.5, None], object), n),
    "categories": lambda rng, n: pd.Categorical(rng.choice(["a", "b", "c"], n)),
    "numeric categories": lambda rng, n: pd.Categorical(rng.integers(0, 300, n)),
    "unused categories": lambda rng, n: pd.Categorical(["a"] * n, categories=["b", "a", "c"]),
    "missing categories": lambda rng, n: pd.Categorical([None] * n, categories=["b"]),
    "dates": lambda rng, n: pd.to_datetime(rng.integers(0, 10**9, n), unit="s"),
    "spans": lambda rng, n: pd.to_timedelta(rng.integers(0, 10**9, n), unit="s"),
    "nullable": lambda rng, n: pd.array(rng.choice(np.array([1, None], object), n), "Int64"),
    "nullable flags": lambda rng, n: pd.array(
        rng.choice(np.array([True, None], object), n), "boolean"
    ),
    "complex": lambda rng, n: rng.normal(size=n) + 1j,
    "lists": lambda rng, n: pd.Series([[1, 2]] * n, dtype=object),
}
HOLDERS = ("C", "F", "strided", "reversed", "read-only", "big-endian", "list", "object", "frame",
           "polars", "sparse", "masked", "matrix", "one dimension", "three dimensions",
           "subclass", "transposed", "broadcast")  # fmt: skip


class Subclass(np.ndarray):
    """An array that is not plain."""


@dataclass(frozen=True)
class Case:
    """A table with its target, the other arguments of ``fit``, and the words that describe it."""

    X: Any
    y: Any
    words: str
    arguments: dict[str, Any] = field(default_factory=dict)


def hard_frame(rng: Rng, n: int, *, target: bool = False) -> pd.DataFrame:
    """Return a data frame of hard columns."""
    columns: dict[Any, Any] = {}
    kinds = NUMBERS | OTHERS
    for k in range(int(rng.integers(1, 6))):
        kind = str(rng.choice(list(kinds)))
        columns[f"{kind} {k}"] = kinds[kind](rng, n)
    frame = pd.DataFrame(columns)
    if target:
        kind = rng.choice(
            ["normal", "few values", "text", "flags", "some missing", "large integers"]
        )
        frame["target"] = kinds[str(kind)](rng, n)
    return frame


def hard_case(
    rng: Rng, targets: Kinds = GENERAL, ranked: bool = False, columns: tuple[int, ...] = COLUMNS
) -> Case:
    """Return a table with one of some numbers of columns, a target of some kinds and weights of
    the grammar, and queries of a ranking."""
    n, m = int(rng.choice(ROWS)), int(rng.choice(columns))
    kinds = HOLDERS, targets, WEIGHTS, QUERIES
    holder, y_kind, weight_kind, query_kind = (str(rng.choice(k)) for k in kinds)
    X, names = hard_table(rng, (n, m), holder)
    words = f"{n} x {m}, {holder}, columns {names}, y {y_kind}, weights {weight_kind}"
    weight = weights_of(rng, n, weight_kind)
    arguments = {} if weight is None else {"sample_weight": weight}
    if ranked:
        arguments |= queries_of(rng, n, query_kind)
        words += f", queries {query_kind}"
    return Case(X, target_of(rng, n, y_kind), words, arguments)


def hard_table(rng: Rng, shape: tuple[int, int], holder: str) -> tuple[Any, list[str]]:
    """Return a table, and the kinds of its columns."""
    n, m = shape
    if holder == "frame":
        frame = hard_frame(rng, n)
        return frame, list(frame.columns)
    kinds = [str(rng.choice(list(NUMBERS))) for _ in range(min(m, 5))]
    parts = [NUMBERS[k](rng, n) for k in kinds]
    with np.errstate(all="ignore"):
        table = np.stack(parts, 1) if parts else np.empty((n, 0))
    if m > 5:
        table = np.tile(table, (1, -(-m // 5)))[:, :m]
    return held(table, holder), kinds


def held(table: np.ndarray, holder: str) -> Any:
    """Return a table in another memory layout or another type."""
    match holder:
        case "F":
            return np.asfortranarray(table)
        case "strided":
            return np.repeat(np.repeat(table, 2, 0), 3, 1)[::2, ::3]
        case "reversed":
            return table[::-1, ::-1]
        case "transposed":
            return np.ascontiguousarray(table.T).T
        case "read-only":
            table = table.copy()
            table.flags.writeable = False
        case "big-endian":
            return table.astype(table.dtype.newbyteorder(">"))
        case "list":
            return table.tolist()
        case "object":
            return table.astype(object)
        case "polars" if find_spec("polars"):
            import polars

            plain = table.astype(np.float64) if table.dtype.kind == "f" else table
            return polars.DataFrame({str(k): plain[:, k] for k in range(table.shape[1])})
        case "sparse":
            from scipy import sparse

            return sparse.csr_matrix(table.astype(np.float64))
        case "masked":
            return np.ma.masked_array(table, np.zeros(table.shape, bool))
        case "matrix":
            return np.asmatrix(table)
        case "one dimension":
            return table.ravel()
        case "three dimensions":
            return table[None]
        case "subclass":
            return table.view(Subclass)
        case "broadcast":
            return np.broadcast_to(table[:1], table.shape) if len(table) else table
    return table
