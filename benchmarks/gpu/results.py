"""The results of ``gpu_check``: one JSON file, its goals, tables and picture.

``results["parts"]`` holds for each part its ``cases``, which are what its program measures, and
what ``failed`` or was ``dropped``. The measured values of the goals are in ``results["figures"]``,
by key. All goals are in the report whether or not they have been measured.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..__main__ import program
from ..common import pictures
from ..common.goals import Goal
from ..common.markdown import gaps_of
from ..common.peers import OURS
from ..common.pictures import NothingToDraw
from ..common.records import Record
from .plan import PARTS

XGBOOST, NVFOREST, CUML = "XGBoost", "nvForest", "cuML"
ANY_VALUE = ("resume", "budget", "part", "call", "output")
"""Settings that may differ between runs that make one result."""
Parts = dict[str, Any]


def cases_of(parts: Parts, name: str) -> dict[str, Any]:
    """Return the results of a part, by case."""
    return parts.get(name, {}).get("cases", {})


def at(parts: Parts, part: str, case: str, *keys: str) -> Any:
    """Return a value in the result of a case, None where it is missing."""
    found = cases_of(parts, part).get(case)
    for key in keys:
        found = (found or {}).get(key)
    return found


def auc_below(parts: Parts, part: str, case: str) -> float | None:
    """Return how much our AUC is below XGBoost's."""
    names = (XGBOOST, OURS)
    found = [at(parts, part, case, "libraries", name, "quality", "auc") for name in names]
    return None if None in found else found[0] - found[1]


def seconds_of(parts: Parts, part: str, case: str) -> Any:
    """Return our median, None where it is missing."""
    return at(parts, part, case, "libraries", OURS, "median")


def ms_of_a_tree(parts: Parts, part: str, case: str) -> float | None:
    """Return the time of training, divided by the trees."""
    taken, n_trees = seconds_of(parts, part, case), at(parts, part, case, "n_trees")
    return None if taken is None else 1e3 * taken / n_trees


def exponent(parts: Parts) -> float | None:
    """Return the exponent of the time to train from one million rows to eleven."""
    first, last = (seconds_of(parts, "fit", case) for case in ("1m", "11m"))
    few, many = (at(parts, "fit", case, "n_rows") for case in ("1m", "11m"))
    if first is None or last is None or few == many:
        return None
    return math.log(last / first) / math.log(many / few)


def comparisons(results: Any, above: str = "") -> Iterator[tuple[str, bool]]:
    """Yield what was compared under ``equal``, at any depth, and whether it was the same."""
    for name, value in results.items() if isinstance(results, dict) else ():
        if name == "equal":
            yield from ((f"{above}{what}", same) for what, same in value.items())
        else:
            yield from comparisons(value, f"{above}{name}: ")


def different(parts: Parts) -> float | None:
    """Return how many models differ; None if none was compared."""
    kept = {name: part["cases"] for name, part in parts.items() if name != "unknowns"}
    compared = [same for _, same in comparisons(kept)]
    return float(compared.count(False)) if compared else None


class Asked(NamedTuple):
    """A goal, and how it is computed from the parts of a result."""

    what: str
    at_most: float | None
    compute: Callable[[Parts], float | None]
    unit: str = ""


def by(part: str, case: str, other: str) -> Callable[[Parts], float | None]:
    """Return what finds our median relative to another's."""
    return lambda parts: at(parts, part, case, "libraries", other, "ratio")


FIT = "the time to train"
PREDICT = "rows with 500 trees of depth 8, relative to"
ASKED = {
    "fit_11m": Asked(
        f"{FIT} 11M × 28, depth 8, 100 trees, relative to XGBoost", 0.5, by("fit", "11m", XGBOOST)
    ),
    "fit_11m_auc": Asked(
        "the AUC lost to XGBoost on 11M × 28, depth 8, 100 trees", 0.0005,
        lambda parts: auc_below(parts, "fit", "11m"),
    ),
    "fit_100k": Asked(
        f"{FIT} 100k × 28, depth 6, 100 trees, relative to XGBoost", 0.7,
        by("fit, depth 6", "100k narrow", XGBOOST),
    ),
    "fit_100k_tree": Asked(
        f"{FIT} one tree on 100k × 28, depth 6", 1.5,
        lambda parts: ms_of_a_tree(parts, "fit, depth 6", "100k narrow"), "ms",
    ),
    "fit_covtype": Asked(
        f"{FIT} 500k × 54, 7 classes, 100 rounds, relative to XGBoost", 0.4,
        by("fit, depth 6", "covtype 100 rounds", XGBOOST),
    ),
    "fit_leaves": Asked(
        f"{FIT} 1M × 28, 63 leaves, 100 trees, relative to XGBoost", None,
        by("fit, 63 leaves", "1m", XGBOOST),
    ),
    "forest_covtype": Asked(
        f"{FIT} a forest, 465k × 54, 100 trees of depth 30, relative to cuML", 0.8,
        by("forests", "gpu", CUML),
    ),
    **{
        f"predict_{n.lower()}_{other.lower()}": Asked(
            f"the time to predict {n} {PREDICT} {other}", limit, by("predict", case, other)
        )
        for other, limit in ((XGBOOST, 0.5), (NVFOREST, 1.0))
        for n, case in (("1M", "table"), ("10M", "10M rows"))
    },
    "many_fits": Asked(
        "the time of 50 fits of 10k × 20, 100 trees, at once, relative to XGBoost one by one", 0.1,
        by("small", "many_fits", XGBOOST),
    ),
    "exponent": Asked("the exponent of the time to train, from 1M to 11M rows,", 1.02, exponent),
    "memory": Asked(
        "the peak memory of training, relative to 3 bytes a cell and 40 a row,", 1.0,
        lambda parts: at(parts, "fit", "11m", "memory", "ratio"),
    ),
    "different_models": Asked(
        "the number of models that differ between CPU and GPU", 0, different
    ),
    **{
        f"{what}_pays_from": Asked(
            f"the number of rows (28 features, 100 trees) from which the GPU {does} faster than "
            "the CPU", None,
            lambda parts, what=what: at(parts, "crossover", "boosting", f"{what} pays from"),
            "rows",
        )
        for what, does in (("fit", "trains"), ("predict", "predicts"))
    },
}  # fmt: skip
"""By key."""
NOT_RUN = "not run on hardware"


def goals(content: dict[str, Any] | None) -> Iterator[Goal]:
    """Yield all goals; without a result none has been measured."""
    measured = content["results"].get("figures", {}) if content else {}
    for key, asked in ASKED.items():
        yield Goal(asked.what, asked.at_most, measured.get(key), asked.unit, NOT_RUN)


KINDS = ("cases", "failed", "dropped", "details")
"""Entries of a part that go by case: results, errors, why a case was not run, and the findings of
failed cases."""


class Results:
    """Everything found so far, by part and case, written after every case; ``content`` is that of
    a file that this run continues."""

    def __init__(self, record: Record, content: dict[str, Any] | None = None) -> None:
        self.record = record
        self.content = content or {"parts": {}}

    def part(self, name: str) -> dict[str, Any]:
        """Return a part's entry: its ``title`` and ``seconds``, and ``KINDS``."""
        kinds: dict[str, Any] = {kind: {} for kind in KINDS}
        empty = {"title": PARTS[name].title, **kinds}
        return self.content["parts"].setdefault(name, {**empty, "seconds": 0.0})

    def missing(self, name: str) -> list[str]:
        """Return the cases of a part that have no result yet."""
        done = self.content["parts"].get(name, {}).get("cases", {})
        return [case for case in PARTS[name].cases if case not in done]

    def take(self, name: str, case: str, result: dict[str, Any]) -> None:
        """Take the result of a case, or the reason why there is none."""
        part = self.part(name)
        for kind in KINDS:
            part[kind].pop(case, None)
        if result.get("failed"):
            part["failed"][case] = result["failed"]
            result = {key: value for key, value in result.items() if key != "failed"}
            if result:
                part["details"][case] = result
        elif "cut_off" in result or set(result) == {"dropped"}:
            part["dropped"][case] = result.get("cut_off") or result["dropped"]
        else:
            part["cases"][case] = result
        self.write()

    def write(self) -> dict[str, Any]:
        """Write everything, with what other programs read; returns it."""
        parts = self.content["parts"]
        found = {key: asked.compute(parts) for key, asked in ASKED.items()}
        self.content["figures"] = {key: v for key, v in found.items() if v is not None}
        for kind in ("failed", "dropped"):
            self.content[kind] = self.all_of(kind)
        self.content["complete"] = not any(self.missing(name) for name in PARTS)
        return self.record.write(self.content, quiet=True)

    def all_of(self, kind: str) -> dict[str, Any]:
        """Return what failed, or was dropped, of all parts."""
        return {
            f"{name}: {case}": value
            for name, part in self.content["parts"].items()
            for case, value in part[kind].items()
        }

    def differ(self, but: Sequence[str] = ()) -> list[str]:
        """Return what should be the same and is not, in all parts but these."""
        parts = self.content["parts"]
        kept = {name: part["cases"] for name, part in parts.items() if name not in but}
        return [what for what, same in comparisons(kept) if not same]


def take_over(record: Record, file: str, parser: argparse.ArgumentParser) -> Results:
    """Go on with a file's results, or with the latest of this kind if ``file`` is empty."""
    results = record.resume(file, parser, ANY_VALUE, unfinished=False)
    return Results(record, results)


def show(content: dict[str, Any]) -> Iterator[str]:
    """Yield the tables of every part's program."""
    parts = content["results"]["parts"]
    for name, part in parts.items():
        if not part["cases"]:
            continue
        plan = PARTS[name]
        results = part["cases"] if plan.has_parts else part["cases"][plan.program]
        tables = getattr(program(plan.program), "PROGRAM").tables  # noqa: B009
        for text in filter(None, tables({**content, "results": results})):
            yield f"{part['title']}\n\n{text}"
    gaps = dict.fromkeys(gaps_of(parts))
    if gaps:
        yield "missing: " + "; ".join(gaps)


def draw_libraries(figure: Any, record: dict[str, Any]) -> None:
    """Draw the time of every library relative to ours, a group of bars a case."""
    parts = record["results"]["parts"]
    groups = {
        f"{part}: {case}": {name: timed["median"] for name, timed in row["libraries"].items()}
        for part in parts
        for case, row in cases_of(parts, part).items()
        if len(row.get("libraries", {})) > 1 and OURS in row["libraries"] and case != "row"
    }
    if not groups:
        raise NothingToDraw("no case has two libraries")
    figure.set_size_inches(9, 1.3 + 0.26 * (sum(map(len, groups.values())) + len(groups)))
    axes = figure.subplots()
    pictures.bars(axes, groups, OURS)
    axes.set(xscale="log", xlabel="time ÷ time of gpuens on the card (longer bars are slower)")
    axes.set_xlim(right=axes.get_xlim()[1] * 3)
