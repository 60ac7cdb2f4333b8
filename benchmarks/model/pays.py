"""From which size a card pays: its modelled time beside the measured time of two cores.

The cores' times are those of the newest results of ``scaling`` and ``predict``. Of the card's, only
the trees are from the model's cases; the rest is assumed, and stated here: the table goes to the
card at ``HOST_COPY``, the first use in a process takes ``START`` seconds, a call of ``predict``
``PREDICTION``. Cut points are found by the host either way. Between two sizes, and beyond them, the
time of the device is taken along a line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpuens.devices.cards import HOST_COPY, PREDICTION

from ..common.markdown import number, table
from ..common.records import RESULTS, RecordError, read_record

START = 0.7
"""Seconds of the first use in a process: CUDA's context, and kernels read from the disk."""
SMALL, LARGE, PREDICTED = "100k × 28", "11M × 28, depth 8", "10M × 28"
CARD = "H100"
TREES = (20, 100, 500)
BYTES = 4
"""Of a cell."""
OUTPUT_BYTES = 16
"""Of a row's probabilities."""
Curve = Callable[[float], float]


class Cores(NamedTuple):
    """Measured seconds of this package on the host's cores, by rows.

    Parameters
    ----------
    setup, cuts, tree : list of (rows, seconds)
        To bin a table, its cut points alone, and one tree.
    row_tree : float
        Seconds of a row in a tree, in prediction.
    n_features : int
    """

    setup: list[tuple[float, float]]
    cuts: list[tuple[float, float]]
    tree: list[tuple[float, float]]
    row_tree: float
    n_features: int


def newest(name: str, folder: Path = RESULTS) -> dict[str, Any] | None:
    """Return the newest result of a program, None without one."""
    found = []
    for path in folder.rglob(f"{name}-*.json"):
        try:
            found.append(read_record(path))
        except RecordError:
            continue
    return max(found, key=lambda record: str(record["date"]), default=None)


def cores_of(scaling: Mapping[str, Any], predict: Mapping[str, Any]) -> Cores:
    """Read what two cores need from the results of ``scaling`` and ``predict``."""
    ladder = scaling["results"]["rows"]
    n_trees = scaling["settings"]["trees"]
    setup, cuts, tree = [], [], []
    for size, libraries in ladder["sizes"].items():
        own, n = libraries["gpuens"], float(size)
        binning = own["bin"]["median"]
        setup.append((n, binning))
        cuts.append((n, own["cuts"]["median"]))
        tree.append((n, (own["fit"]["median"] - binning) / n_trees))
    row = predict["results"]["table"]
    row_tree = row["libraries"]["gpuens"]["median"] / row["n_rows"] / row["n_trees"]
    return Cores(setup, cuts, tree, row_tree, int(ladder["settings"]["features"]))


def curve(points: Sequence[tuple[float, float]]) -> Curve:
    """Return a function through points, along lines between their logarithms; beyond the ends it
    is proportional."""

    def at(n: float) -> float:
        if n <= points[0][0]:
            return points[0][1]
        for (low, first), (high, last) in zip(points[:-1], points[1:], strict=True):
            if n <= high:
                share = math.log(n / low) / math.log(high / low)
                return first * (last / first) ** share
        return points[-1][1] * n / points[-1][0]

    return at


def card_tree(results: Mapping[str, Any], card: str) -> Curve:
    """Return the seconds of a tree on a card by rows: of the device or the host, whichever is
    longer."""
    small, large = results[SMALL], results[LARGE]
    first, last = (case["cards"][card]["device_ms"] / 1e3 for case in (small, large))
    slope = (last - first) / (large["n_rows"] - small["n_rows"])
    host = small["cards"][card]["host_ms"] / 1e3
    return lambda n: max(host, first + slope * (n - small["n_rows"]), slope * n)


def crossing(cores: Curve, card: Curve, least: float = 1e3, most: float = 1e8) -> float | None:
    """Return the rows from which on a card is faster than the cores, None if it never is."""
    n, factor = most, 1.02
    if card(n) > cores(n):
        return None
    while n > least and card(n / factor) <= cores(n / factor):
        n /= factor
    return n


def fit_from(
    results: Mapping[str, Any], cores: Cores, card: str, n_trees: int, start: float
) -> float | None:
    """Return the rows from which on a fit pays."""
    setup, cuts, tree = curve(cores.setup), curve(cores.cuts), curve(cores.tree)
    of_card = card_tree(results, card)
    copied = cores.n_features * BYTES / HOST_COPY
    return crossing(
        lambda n: setup(n) + n_trees * tree(n),
        lambda n: start + cuts(n) + copied * n + n_trees * of_card(n),
    )


def predict_from(
    results: Mapping[str, Any], cores: Cores, card: str, n_trees: int, start: float
) -> float | None:
    """Return the rows from which on a prediction pays."""
    case = results[PREDICTED]
    per_tree = case["cards"][card]["device_ms"] / 1e3 / case["n_rows"] / 500
    copied = (cores.n_features * BYTES + OUTPUT_BYTES) / HOST_COPY
    return crossing(
        lambda n: cores.row_tree * n * n_trees,
        lambda n: start + PREDICTION + (copied + per_tree * n_trees) * n,
        least=1.0,
    )


def tree_from(results: Mapping[str, Any], cores: Cores, card: str) -> float | None:
    """Return the rows from which on a single tree is faster on the card, copies aside."""
    return crossing(curve(cores.tree), card_tree(results, card))


def show(results: Mapping[str, Any], folder: Path = RESULTS) -> Iterator[str]:
    """Yield from how many rows a card pays, by trees."""
    records = newest("scaling", folder), newest("predict", folder)
    if None in records or not {SMALL, LARGE} <= {k for k in results if "cards" in results[k]}:
        return
    cores = cores_of(*records)  # type: ignore[arg-type]
    one = _rows(tree_from(results, cores, CARD))
    rows = [["fit: a tree alone", one, one]]
    for n_trees in TREES:
        cells = [_rows(fit_from(results, cores, CARD, n_trees, start)) for start in (0.0, START)]
        rows.append([f"fit, {n_trees} trees", *cells])
    for n_trees in TREES if "cards" in results.get(PREDICTED, {}) else ():
        cells = [_rows(predict_from(results, cores, CARD, n_trees, s)) for s in (0.0, START)]
        rows.append([f"prediction, {n_trees} trees", *cells])
    head = [f"rows of {cores.n_features} features from which the {CARD} pays, beside two cores",
            "card in use", "new process"]  # fmt: skip
    yield table(head, rows)


def _rows(n: float | None) -> str:
    return "never" if n is None else f"{number(float(f'{n:.2g}')):s}"
