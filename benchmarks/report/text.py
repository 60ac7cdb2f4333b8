"""What the report is made of: its text as it grows, tables of figures, and single lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..kernels.kernels import ops_table
from .figures import FIGURES, Figure, gpu
from .markdown import details, number, table

PEERS = ("lightgbm", "xgboost", "xgboost-cpu", "scikit-learn", "catboost")
NAMES = {"lightgbm": "LightGBM", "xgboost": "XGBoost", "xgboost-cpu": "XGBoost",
         "catboost": "CatBoost"}  # fmt: skip
DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What reading a result raises that is not what it should be."""

Record = dict[str, Any]
Records = dict[str, Record]


class Report:
    """The text so far, and what could not be shown."""

    def __init__(self, records: Records, problems: Iterable[str] = ()) -> None:
        self.records = records
        self.problems = list(problems)
        self.paragraphs: list[str] = []
        there = [name for name in FIGURES if name in records]
        self.figures = {name: self._figures_of(name) for name in there}
        self.on_gpu = self._gpu_figures()

    def _gpu_figures(self) -> list[Figure]:
        """All of them, measured or not."""
        try:
            return list(gpu(self.records.get("gpu")))
        except DAMAGED as error:
            text = f"figures of gpu: its result is damaged: {type(error).__name__} {error}"
            self.problems.append(text)
            return list(gpu(None))

    def add(self, *paragraphs: str) -> None:
        self.paragraphs += [text for text in paragraphs if text]

    def show(self, name: str, make: Callable[[Record], str | Iterator[str]]) -> str:
        """What a program's result says; empty, and a problem, where it cannot be read."""
        if name not in self.records:
            return ""
        try:
            made = make(self.records[name])
            return made if isinstance(made, str) else "\n\n".join(made)
        except DAMAGED as error:
            self.problems.append(f"the result of {name} is damaged: {type(error).__name__} {error}")
            return ""

    def _figures_of(self, name: str) -> list[Figure]:
        """A program's figures; none, and a problem, where its result cannot be read."""
        try:
            return list(FIGURES[name](self.records[name]))
        except DAMAGED as error:
            text = f"figures of {name}: its result is damaged: {type(error).__name__}"
            self.problems.append(f"{text} {error}")
            return []

    def figures_table(self, *names: str) -> str:
        found = [figure for name in names for figure in self.figures.get(name, [])]
        return figures_table(found) if found else ""

    def section(self, title: str, *visible: str, more: Sequence[str] = (), summary: str) -> None:
        """A part of the report: what everybody sees, and what opens with a click. Nothing at all
        if there is nothing to show."""
        visible, more = tuple(filter(None, visible)), tuple(filter(None, more))
        if visible or more:
            self.add(f"### {title}", *visible, details(summary, more) if more else "")


def asked(value: float | None, unit: str, below: bool) -> str:
    if value is None:
        return ""
    return f"{'below ' if below else ''}{value:g} {unit}".strip()


def figures_table(figures: Iterable[Figure]) -> str:
    """Every figure asked for, and what was measured."""
    rows = []
    for figure in figures:
        value = figure.instead
        if figure.measured is not None:
            value = number(figure.measured, figure.unit)
        reached = {True: "yes", False: "**no**", None: ""}[figure.reached]
        limit = asked(figure.at_most, figure.unit, figure.below)
        rows.append([figure.what, limit, value, reached])
    return table(["figure", "at most", "measured", "reached"], rows)


def count_line(figures: Sequence[Figure]) -> str:
    """How many figures are reached."""
    reached = [figure.reached for figure in figures if figure.at_most is not None]
    text = f"{reached.count(True)} of {len(reached)} figures asked for are reached"
    open_ = reached.count(None)
    missed = f", {reached.count(False)} are not"
    return f"**{text}{missed}{f', {open_} are not measured' if open_ else ''}.**"


def identity_line(record: Record) -> str:
    """What was found to be identical."""
    different = [
        f"{kind}: {case}"
        for kind, cases in record["results"]["equal"].items()
        for case, same in cases.items()
        if not same
    ]
    kinds = ", ".join(record["results"]["equal"])
    if different:
        return f"**Different fingerprints**: {'; '.join(different)} (compared: {kinds})."
    return f"Identical fingerprints (compared: {kinds})."


def measured_on(record: Record) -> str:
    """Machine, versions and day of a result."""
    machine, versions = record["machine"], record["versions"]
    peers = [f"{NAMES.get(p, p)} {versions[p]}" for p in PEERS if p in versions]
    gpus = "".join(f", {gpu}" for gpu in dict.fromkeys(machine["gpus"]))
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['ram_gib']:.0f} GiB{gpus}; "
        f"gpuens {versions['gpuens']}, Python {versions['python']}, {', '.join(peers)}; "
        f"{record['date'][:10]}"
    )


def kernels_text(record: Record) -> Iterator[str]:
    """Operations beside their floors, by device."""
    for name, part in record["results"].items():
        if part.get("ops"):
            floors = part["floors"]
            yield (
                f"{name.upper()}: a copy moves {floors['copied_bytes_per_second'] / 1e9:.3g} GB/s, "
                f"histograms take {floors['updates_per_second'] / 1e9:.3g} additions a ns."
            )
            yield ops_table(part)
