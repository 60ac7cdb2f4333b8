"""The results of ``gpu_check``: one JSON file, its goals, tables and pictures.

The measured values of the goals are in ``results["figures"]``, by key. All goals are in the report
whether or not they have been measured.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..common import pictures
from ..common.goals import Goal
from ..common.markdown import medians, pivot
from ..common.peers import OURS
from ..common.pictures import NothingToDraw
from ..common.records import Record
from .bench import ON_CPU, XGBOOST
from .plan import HUNDRED, PARTS

ANY_VALUE = ("resume", "budget", "part", "output")
"""Settings that may differ between runs that make one result."""
Parts = dict[str, Any]
OF_LAUNCHES = "launches, "


def cases_of(parts: Parts, name: str) -> dict[str, Any]:
    """Return the results of a part, by case."""
    return parts.get(name, {}).get("cases", {})


def at(parts: Parts, part: str, case: str, *keys: str) -> Any:
    """Return a value in the result of a case, None where it is missing."""
    found = cases_of(parts, part).get(case)
    for key in keys:
        found = (found or {}).get(key)
    return found


def auc_below(parts: Parts, case: str) -> float | None:
    """Return how much our AUC is below XGBoost's."""
    names = (XGBOOST, OURS)
    found = [at(parts, "fit", case, "libraries", name, "quality", "auc") for name in names]
    return None if None in found else found[0] - found[1]


def ladder(parts: Parts, name: str = OURS) -> list[tuple[int, float]]:
    """Return rows and median seconds of the trainings with 20 trees."""
    found = [
        (row["n_rows"], row["libraries"][name]["median"])
        for case, row in cases_of(parts, "fit").items()
        if case.endswith(", 20 trees") and name in row["libraries"]
    ]
    return sorted(found)


def slope(points: list[tuple[int, float]]) -> float | None:
    """Fit the logarithm of the seconds against that of the rows, by least squares."""
    if len({n for n, _ in points}) < 2:
        return None
    x, y = np.log(np.array(points, float)).T
    return float(np.polyfit(x, y, 1)[0])


def exponent(parts: Parts) -> float | None:
    """Return the exponent from a million rows to a hundred million; None if those were dropped."""
    return slope(ladder(parts)) if HUNDRED in cases_of(parts, "fit") else None


def different(parts: Parts) -> float | None:
    """Return how many models differ; None if none was compared."""
    kinds = ("same_model", "identical_to_cpu")
    compared = [
        result[kind]
        for part in parts.values()
        for result in part["cases"].values()
        for kind in kinds
        if kind in result
    ]
    return float(compared.count(False)) if compared else None


def by_cores(parts: Parts) -> list[tuple[int, float]]:
    """Return rows, and the card's time relative to that of all cores."""
    return sorted(
        (row["n_rows"], row["libraries"][ON_CPU]["ratio"])
        for row in cases_of(parts, "cores").values() if ON_CPU in row["libraries"]
    )  # fmt: skip


def pays_from(parts: Parts) -> float | None:
    """Return the rows from which on the card is faster than all cores: between two tables by the
    logarithms; the smallest table if it is faster everywhere, None if nowhere at the end."""
    points = by_cores(parts)
    if not points or points[-1][1] > 1:
        return None
    for (n, r), (more, less) in zip(points[-2::-1], points[:0:-1], strict=True):
        if r > 1:
            share = math.log(r) / (math.log(r) - math.log(less))
            return math.exp(math.log(n) + share * (math.log(more) - math.log(n)))
    return float(points[0][0])


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
        f"{FIT} 11M × 28, depth 8, 100 trees, relative to XGBoost", 0.5,
        by("fit", "11M × 28, depth 8", XGBOOST),
    ),
    "fit_11m_auc": Asked(
        "the AUC lost to XGBoost on 11M × 28, depth 8, 100 trees", 0.0005,
        lambda parts: auc_below(parts, "11M × 28, depth 8"),
    ),
    "fit_100k": Asked(
        f"{FIT} 100k × 28, depth 6, 100 trees, relative to XGBoost", 0.7,
        by("fit", "100k × 28", XGBOOST),
    ),
    "fit_100k_tree": Asked(
        f"{FIT} one tree on 100k × 28, depth 6", 1.5,
        lambda parts: at(parts, "fit", "100k × 28", "ms_a_tree"), "ms",
    ),
    "fit_covtype": Asked(
        f"{FIT} 500k × 54, 7 classes, 100 rounds, relative to XGBoost", 0.4,
        by("fit", "500k × 54, 7 classes", XGBOOST),
    ),
    "forest_covtype": Asked(
        f"{FIT} a forest, 465k × 54, 100 trees of depth 30, relative to cuML", 0.8,
        by("forests", "465k × 54, 100 trees, depth 30", "cuML"),
    ),
    **{
        f"predict_{n.lower()}_{other.lower()}": Asked(
            f"the time to predict {n} {PREDICT} {other}", limit, by("predict", f"{n} × 28", other)
        )
        for other, limit in ((XGBOOST, 0.5), ("nvForest", 1.0))
        for n in ("1M", "10M")
    },
    "many_fits": Asked(
        "the time of 50 fits of 10k × 20, 100 trees, at once, relative to XGBoost one by one", 0.1,
        by("small", "50 × 10k × 20", XGBOOST),
    ),
    "exponent": Asked("the exponent of the time to train, from 1M to 100M rows,", 1.02, exponent),
    "memory": Asked(
        "the peak memory of training, relative to 3 bytes a cell and 40 a row,", 1.0,
        lambda parts: at(parts, "fit", "memory, 11M × 28", "ratio"),
    ),
    "different_models": Asked(
        "the number of models that differ between CPU and GPU", 0, different
    ),
    "cores_16": Asked(
        f"{FIT} 1M × 28 on the GPU, relative to 16 CPU cores,", None,
        by("cores", "1,000,000 × 28", ON_CPU),
    ),
    "pays_from": Asked(
        "the number of rows from which on the GPU trains faster than all CPU cores", None,
        pays_from, "rows",
    ),
}  # fmt: skip
"""By key."""
NOT_RUN = "not run on hardware"


def goals(content: dict[str, Any] | None) -> Iterator[Goal]:
    """Yield all goals; without a result none has been measured."""
    results = content["results"] if content else {}
    measured = dict(results.get("figures", {}))
    fits = results.get("fit", [])
    same = [part["identical_to_cpu"] for part in fits if "identical_to_cpu" in part]
    if same:
        measured.setdefault("different_models", same.count(False))
    for key, asked in ASKED.items():
        yield Goal(asked.what, asked.at_most, measured.get(key), asked.unit, NOT_RUN)


def figures_of(parts: Parts) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the measured values by key, and what is reported beside them."""
    figures = {key: asked.compute(parts) for key, asked in ASKED.items()}
    others: dict[str, Any] = {
        "ladder": {name: ladder(parts, name) for name in (OURS, XGBOOST)},
        "exponent_of_what_was_measured": slope(ladder(parts)),
        "exponent_of_xgboost": slope(ladder(parts, XGBOOST)),
        "card_by_cores": by_cores(parts),
        "launches": launches(parts),
    }
    return {key: value for key, value in figures.items() if value is not None}, others


def launches(parts: Parts) -> dict[str, Any]:
    """Return milliseconds a tree by variant and table, and whether all grew the same trees."""
    times: dict[str, dict[str, float]] = {}
    marks: dict[str, set[str]] = {}
    for name in parts:
        if name.startswith(OF_LAUNCHES):
            for case, row in cases_of(parts, name).items():
                times.setdefault(row["variant"], {})[case] = row["ms_a_tree"]
                marks.setdefault(case, set()).add(row["fingerprint"])
    return {"ms_a_tree": times, "same_models": {c: len(m) == 1 for c, m in marks.items()}}


def with_libraries(parts: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the results of a part that compare libraries, as a list."""
    return [row for row in cases_of(parts, name).values() if "libraries" in row]


class Results:
    """Everything found so far, by part and case, written after every case; ``content`` is that of
    a file that this run continues."""

    def __init__(self, record: Record, content: dict[str, Any] | None = None) -> None:
        self.record = record
        self.content = content or {"parts": {}}

    def part(self, name: str) -> dict[str, Any]:
        """Return a part's entry: ``cases``, ``failed``, ``dropped``, ``cut_off``, ``seconds``."""
        kinds: dict[str, Any] = {"cases": {}, "failed": {}, "dropped": {}, "cut_off": {}}
        empty = {"title": PARTS[name].title, **kinds}
        return self.content["parts"].setdefault(name, {**empty, "seconds": 0.0})

    def missing(self, name: str) -> list[str]:
        """Return the cases of a part that have no result yet."""
        done = self.content["parts"].get(name, {}).get("cases", {})
        return [case for case in PARTS[name].cases if case not in done]

    def take(self, name: str, case: str, event: dict[str, Any]) -> None:
        """Take the event of a case."""
        part = self.part(name)
        for kind in ("failed", "dropped", "cut_off"):
            part[kind].pop(case, None)
        if event["event"] == "done":
            result = {**event["result"], "case_seconds": event["seconds"]}
            if "failed" in result:
                part["failed"][case] = {"error": result["failed"], "result": result}
            elif "cut_off" in result:
                part["dropped"][case] = result["cut_off"]
                part["cut_off"][case] = result
            else:
                part["cases"][case] = result
        elif event["event"] == "failed":
            part["failed"][case] = {k: v for k, v in event.items() if k != "event"}
        else:
            part["dropped"][case] = event["reason"]
        self.write()

    def write(self) -> dict[str, Any]:
        """Write everything, with what other programs read; returns it."""
        parts = self.content["parts"]
        self.content["fit"] = with_libraries(parts, "fit") + with_libraries(parts, "cores")
        self.content["predict"] = with_libraries(parts, "predict")
        self.content["figures"], self.content["others"] = figures_of(parts)
        self.content["dropped"] = self.all_of("dropped")
        self.content["failed"] = {
            key: value["error"] for key, value in self.all_of("failed").items()
        }
        self.content["complete"] = not any(self.missing(name) for name in PARTS)
        return self.record.write(self.content, quiet=True)

    def all_of(self, kind: str) -> dict[str, Any]:
        """Return what failed, or was dropped, of all parts."""
        return {
            f"{name}: {case}": value
            for name, part in self.content["parts"].items()
            for case, value in part[kind].items()
        }

    def differ(self) -> list[str]:
        """Return the models that differ between the card and the host, or depend on the way kernels
        are started."""
        launched = self.content.get("others", {}).get("launches", {}).get("same_models", {})
        return [f"launches: {case}" for case, same in launched.items() if not same] + [
            f"{name}: {case}"
            for name, part in self.content["parts"].items()
            for case, result in part["cases"].items()
            if False in (
                result.get("same_model", True), result.get("same_predictions", True),
                result.get("identical_to_cpu", True), result.get("same_as_alone", True),
            )
        ]  # fmt: skip


def take_over(record: Record, file: str, parser: argparse.ArgumentParser) -> Results:
    """Go on with a file's results, or with the latest of this kind if ``file`` is empty."""
    results = record.resume(file, parser, ANY_VALUE, unfinished=False)
    return Results(record, results)


def show(content: dict[str, Any]) -> Iterator[str]:
    """Yield tables of the models that were compared, of times, and of ways to start kernels."""
    parts = content["results"]["parts"]
    yield medians("median time to train on the GPU", {
        f"{part['n_rows']:,} × {part['n_features']}, {part['n_trees']} trees": part["libraries"]
        for part in content["results"].get("fit", [])
    })  # fmt: skip
    yield pivot("models of the card and of the host", {
        name: {
            "table": f"{row['table']} ({row['source']})", "rows": f"{row['n_rows']:,}",
            "model": "same" if row["same_model"] else "DIFFERENT",
            "predictions": "same" if row["same_predictions"] else "DIFFERENT",
            "fingerprint": row["fingerprints"]["cuda"][:12],
        }
        for name, row in cases_of(parts, "identity").items()
    })  # fmt: skip
    yield pivot("times", dict(times(parts)))
    by_variant = content["results"]["others"]["launches"]["ms_a_tree"]
    yield pivot("milliseconds a tree, by the way kernels are started", {
        variant: {f"{size} × 28, depth 6": f"{row[size]:.3f}" for size in sorted(row)}
        for variant, row in by_variant.items()
    })  # fmt: skip


def times(parts: Parts) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a row for each contestant of every case."""
    for name, part in parts.items():
        for case, result in part["cases"].items():
            for library, row in result.get("libraries", {}).items():
                quality = row.get("quality", {})
                if "accuracy" in row:
                    quality = {"accuracy": row["accuracy"]}
                yield (
                    f"{name}: {case}: {library}",
                    {
                        "seconds": f"{row['median']:.4f}",
                        "gpuens ÷ it": f"{row['ratio']:.3f}" if "ratio" in row else "",
                        "quality": ", ".join(f"{kind} {v:.5f}" for kind, v in quality.items()),
                    },
                )


def draw_libraries(figure: Any, record: dict[str, Any]) -> None:
    """Draw the time of every library relative to ours, a group of bars a case."""
    parts = record["results"]["parts"]
    groups = {
        f"{part}: {case}": {name: timed["median"] for name, timed in row["libraries"].items()}
        for part in ("fit", "forests", "predict", "small")
        for case, row in cases_of(parts, part).items()
        if len(row.get("libraries", {})) > 1 and OURS in row["libraries"]
    }
    if not groups:
        raise NothingToDraw("no case has two libraries")
    figure.set_size_inches(9, 1.3 + 0.26 * (sum(map(len, groups.values())) + len(groups)))
    axes = figure.subplots()
    pictures.bars(axes, groups, OURS)
    axes.set(xscale="log", xlabel="time ÷ time of gpuens on the card (longer bars are slower)")
    axes.set_xlim(right=axes.get_xlim()[1] * 3)


def draw_rows(figure: Any, record: dict[str, Any]) -> None:
    """Draw seconds to train by rows: the ladder of 20 trees beside XGBoost, and card and cores."""
    ladder = {
        name: points for name, points in record["results"]["others"]["ladder"].items() if points
    }
    cores: dict[str, list[tuple[int, float]]] = {}
    for row in cases_of(record["results"]["parts"], "cores").values():
        for name, timed in row["libraries"].items():
            cores.setdefault(name, []).append((row["n_rows"], timed["median"]))
    panels = [("20 trees of depth 6", ladder), ("100 trees of depth 6", cores)]
    panels = [(title, curves) for title, curves in panels if curves]
    if not panels:
        raise NothingToDraw("neither the ladder nor the host's cores were measured")
    figure.set_size_inches(5 * len(panels), 3.8)
    for axes, (title, curves) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
    ):
        for name, points in curves.items():
            style = "--" if name == ON_CPU else "-"
            axes.plot(*zip(*sorted(points), strict=True), style, marker="o", label=name,
                      color=pictures.colour(name))  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="time to train in s")
        axes.set_title(title, fontsize=10)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)


def draw_launches(figure: Any, record: dict[str, Any]) -> None:
    """Draw milliseconds a tree by the way kernels are started."""
    by_variant = record["results"]["others"]["launches"]["ms_a_tree"]
    if not by_variant:
        raise NothingToDraw("no way to start kernels was measured")
    sizes = sorted({size for row in by_variant.values() for size in row})
    figure.set_size_inches(6, 1 + 0.5 * len(by_variant))
    axes = figure.subplots()
    for k, size in enumerate(sizes):
        places = [i + (k - (len(sizes) - 1) / 2) * 0.36 for i in range(len(by_variant))]
        values = [row.get(size, 0.0) for row in by_variant.values()]
        shade = pictures.colour(OURS) if k else pictures.OTHER
        axes.barh(places, values, 0.34, color=shade, label=f"{size} rows")
    axes.set_yticks(range(len(by_variant)), list(by_variant))
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds a tree of depth 6, 28 features")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)


PICTURES: dict[str, Callable[[Any, dict[str, Any]], None]] = {
    "": draw_libraries, "-rows": draw_rows, "-launches": draw_launches
}  # fmt: skip
"""By the suffix of the file's name."""
