"""The runs in a result file, whichever program has written it.

Programs hold their runs in a few forms, found by their keys wherever they stand:

``seconds``, ``microseconds``, ``bytes``
    A list with one entry a run, or such lists by name.
``runs``
    A list of one object a run, whose numbers are seconds, or bytes under that name.
``losses``, ``errors``
    Whatever stands below: lists of one loss for each split, or single losses.
``floor``
    A single time, that of the machine itself.
``quality``
    Losses and scores of one model; a score counts as its distance from 1.
``splits`` or ``seeds``, beside their ``mean``
    Losses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..common.peers import OURS

Kind = Literal["time", "memory", "loss"]
TIMES = ("seconds", "microseconds")
LOSSES = ("losses", "errors")
SCORES = ("auc", "accuracy")
QUALITIES = ("log_loss", "rmse", *SCORES)
PACKAGES = {
    "LightGBM": ("lightgbm",), "XGBoost": ("xgboost", "xgboost-cpu"), "HistGB": ("scikit-learn",),
    "scikit-learn": ("scikit-learn",), "CatBoost": ("catboost",), "Py-Boost": ("py-boost",),
    "cuML": ("cuml-cu12", "cuml-cu13"), "nvForest": ("nvforest-cu12", "nvforest-cu13"),
    "floor": (),
}  # fmt: skip
"""The packages behind the names of the libraries; a longer name begins with one of these. ``floor``
is the machine itself, whose copies and additions ``kernels`` measures beside every operation."""
SIZES = ("n_rows", "n_features", "n_trees", "depth", "threads")
"""What tells the entries of a list from one another."""


@dataclass(frozen=True)
class Series:
    """The runs of one measurement: smaller is better."""

    path: tuple[str, ...]
    kind: Kind
    runs: tuple[float, ...]

    @property
    def library(self) -> str:
        """The library that was measured: gpuens where the path names no other."""
        return next((name for name in self.path if library_of(name) != OURS), OURS)

    @property
    def peer(self) -> str | None:
        """The other library, as in ``PACKAGES``; None for gpuens."""
        found = library_of(self.library)
        return None if found == OURS else found

    @property
    def where(self) -> tuple[str, ...]:
        """The path without the name of the library."""
        return tuple(name for name in self.path if not is_library(name))

    def __str__(self) -> str:
        return " · ".join(name for name in self.path if name not in DULL)


DULL = ("libraries", "axes", "rungs")
"""Parts of a path that say nothing to a reader."""


def library_of(name: str) -> str:
    """The library that a name begins with, gpuens if it is none of the others."""
    found = [peer for peer in PACKAGES if name == peer or name.startswith((f"{peer} ", f"{peer},"))]
    found += [peer for peer in PACKAGES if name.startswith(f"{peer}'s")]
    return found[0] if found else OURS


def is_library(name: str) -> bool:
    """Whether a name begins with that of a library, gpuens included."""
    return library_of(name) != OURS or name == OURS or name.startswith((f"{OURS} ", f"{OURS},"))


def series_of(results: Any) -> list[Series]:
    """All runs in the results of a program."""
    return list(_walk(results, ()))


def _walk(node: Any, path: tuple[str, ...]) -> Iterator[Series]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _entry(node, key, value, path)
    elif isinstance(node, list):
        for i, value in enumerate(node):
            if isinstance(value, Mapping):
                yield from _walk(value, (*path, _label(value, i)))


def _entry(node: Mapping[str, Any], key: str, value: Any, path: tuple[str, ...]) -> Any:
    if key in TIMES and _numbers(value):
        yield Series(path, "time", tuple(value))
    elif key in TIMES and isinstance(value, Mapping):
        for name, runs in value.items():
            if _numbers(runs):
                yield Series((*path, key, name), "time", tuple(runs))
    elif key == "bytes" and _numbers(value):
        yield Series(path, "memory", tuple(value))
    elif key == "floor" and _numbers([value]):
        yield Series((*path, key), "time", (value,))
    elif key == "runs" and isinstance(value, list) and all(isinstance(v, Mapping) for v in value):
        yield from _transposed(value, path)
    elif key in LOSSES:
        yield from _losses(value, path)
    elif key in ("splits", "seeds") and "mean" in node and _numbers(value):
        yield Series(path, "loss", tuple(value))
    elif key == "quality" and isinstance(value, Mapping):
        for name in QUALITIES:
            if _numbers([value.get(name)]):
                loss = 1.0 - value[name] if name in SCORES else value[name]
                yield Series((*path, name), "loss", (loss,))
    elif key != "gaps":
        yield from _walk(value, (*path, key))


def _transposed(runs: Sequence[Mapping[str, Any]], path: tuple[str, ...]) -> Iterator[Series]:
    """Objects of the same form, one a run, as one series for each of their numbers."""
    for key in runs[0] if runs else ():
        values = [run.get(key) for run in runs]
        if all(isinstance(value, Mapping) for value in values):
            yield from _transposed(values, (*path, key))
        elif key == "bytes" and _numbers(values):
            yield Series(path, "memory", tuple(values))
        elif key != "input_bytes" and _numbers(values):
            yield Series((*path, key), "time", tuple(values))


def _losses(node: Any, path: tuple[str, ...]) -> Iterator[Series]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _losses(value, (*path, key))
    elif _numbers(node):
        yield Series(path, "loss", tuple(node))
    elif _numbers([node]):
        yield Series(path, "loss", (node,))


def _numbers(values: Any) -> bool:
    return (
        isinstance(values, list)
        and bool(values)
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    )


def _label(value: Mapping[str, Any], i: int) -> str:
    """What an entry of a list is called: by its sizes, else by its place."""
    sizes = [f"{value[name]} {name.removeprefix('n_')}" for name in SIZES if value.get(name)]
    return ", ".join(sizes) or f"{i}"
