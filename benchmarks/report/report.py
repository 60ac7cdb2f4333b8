"""Write the results into benchmarks/RESULTS.md, and draw their pictures into docs/images.

Everything comes from JSON files, of each part of a program from the newest that has it; the same
files give the same text. A result that is missing, damaged or lacks what is shown of it is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..__main__ import program
from ..common import pictures
from ..common.goals import Goal, measured
from ..common.machine import ROOT
from ..common.markdown import details, gaps_of
from ..common.program import nothing, parser_of
from ..common.records import RecordError, read_record
from . import conformance

RESULTS_FILE = ROOT / "benchmarks" / "RESULTS.md"
INTRODUCTION = (
    "# Results\n\n"
    "`python -m benchmarks report` writes this page from the newest files in `benchmarks/results`; "
    "`python -m benchmarks` lists the programs that measured them. Times are medians of runs in "
    "which the libraries took turns. A ratio divides the value of gpuens by that of the other "
    "library: below 1 gpuens is better."
)
SECTIONS = {
    "Time to train and to predict": ("fit", "predict", "many_fits"),
    "Accuracy": ("defaults", "choices", "accuracy"),
    "Trees, forests and AdaBoost": ("forests",),
    "Rankings, survival, distributions, oblique forests": ("learners",),
    "Tables larger than memory": ("batches",),
    "Several workers": ("cluster",),
    "Memory and new processes": ("memory", "first_model"),
    "On a GPU": ("gpu", "host_time"),
    "scikit-learn's own tests": ("conformance",),
    "Operations inside whole fits": ("kernels",),
}
PROGRAMS = tuple(name for names in SECTIONS.values() for name in names)
OPEN = {"choices": 3, "accuracy": 2, "learners": 5, "cluster": 2, "kernels": 0}
"""Number of tables that are always visible (default 1); a click opens the others."""
PICTURES = {"fit": "Time to train relative to gpuens"}
PEERS = {"lightgbm": "LightGBM", "xgboost": "XGBoost", "xgboost-cpu": "XGBoost",
         "scikit-learn": "scikit-learn", "catboost": "CatBoost"}  # fmt: skip
DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""Raised by reading a damaged result."""

Record = dict[str, Any]
Records = dict[str, Record]


class Report:
    """The paragraphs so far, the goals, and what could not be shown."""

    def __init__(self, records: Records, problems: Iterable[str] = ()) -> None:
        self.records = records
        self.problems = list(problems)
        self.paragraphs = [INTRODUCTION]
        self.goals = [goal for name in PROGRAMS for goal in self._goals_of(name)]

    def add(self, *paragraphs: str) -> None:
        self.paragraphs += [text for text in paragraphs if text]

    def read(self, name: str, what: str, make: Callable[[Record], Iterable[Any]]) -> list[Any]:
        """Return what a result holds; nothing, and a problem, where it cannot be read."""
        if name not in self.records:
            return []
        try:
            return [found for found in make(self.records[name]) if found]
        except DAMAGED as error:
            kind = type(error).__name__
            self.problems.append(f"the {what} of {name} are damaged: {kind} {error}")
            return []

    def _goals_of(self, name: str) -> list[Goal]:
        if name == "conformance":
            return []
        goals = part_of(name, "goals")
        found = self.read(name, "goals", goals)
        return found or (list(goals(None)) if name == "gpu" else [])

    def section(self, title: str, names: Iterable[str], drawn: dict[str, str]) -> None:
        """Add a section: pictures, headline tables, and the others behind a click."""
        visible, more = [], []
        for name in names:
            tables = self.read(name, "tables", part_of(name, "show"))
            if name == "gpu" and not tables:
                visible.append("No result of a GPU is here: `make gpu-check` measures one.")
            visible += [drawn[name]] if name in drawn else []
            visible += tables[: OPEN.get(name, 1)]
            more += tables[OPEN.get(name, 1) :]
        if visible or more:
            self.add(f"## {title}", *visible, details("More tables", more) if more else "")

    def add_goals(self) -> None:
        """Add the goals: those that are missed, reached, and not measured."""
        reached = [goal.reached for goal in self.goals if goal.at_most is not None]
        self.add(
            "## Goals",
            f"**{reached.count(True)} of {len(reached)} goals are reached, {reached.count(False)} "
            f"are missed, {reached.count(None)} are not measured.**",
        )
        for title, state in (("Missed", False), ("Reached", True), ("Not measured", None)):
            found = [goal for goal in self.goals if goal.reached is state]
            sentences = "\n".join(f"- {sentence(goal)}" for goal in found)
            if found:
                self.add(f"### {title}", details("All", [sentences]) if state else sentences)

    def add_provenance(self) -> None:
        """Add machines and versions, and everything that is missing."""
        places: dict[str, list[str]] = {}
        for name in self.records:
            for place in self.read(name, "origins", origins_of):
                places.setdefault(place, []).append(name)
        self.add("## Machines, versions, and what is missing")
        self.add(*(f"{', '.join(names)}: {place}." for place, names in places.items()))
        gaps = [gap for record in self.records.values() for gap in gaps_of(record["results"])]
        missing = [
            f"`python -m {'tests.conformance --json' if n == 'conformance' else f'benchmarks {n}'}`"
            " has no result"
            for n in PROGRAMS if n not in self.records and n != "gpu"
        ]  # fmt: skip
        parts = [
            f"`python -m benchmarks {name} --only {part}` has no result"
            for name, record in self.records.items() if has_parts(name)
            for part in program(name).PROGRAM.measure if part not in record["results"]
        ]  # fmt: skip
        gaps = list(dict.fromkeys([*gaps, *missing, *parts, *self.problems]))
        if gaps:
            self.add("Not measured:", "\n".join(f"- {gap}" for gap in gaps))


def part_of(name: str, function: str) -> Callable[..., Iterable[Any]]:
    """Return a function of the module that makes a result: ``show`` or ``goals``."""
    if name == "conformance":
        return conformance.show
    return getattr(program("gpu_check" if name == "gpu" else name), function, nothing)


def sentence(goal: Goal) -> str:
    """Return a goal as a sentence."""
    text = goal.sentence()
    return text[0].upper() + text[1:]


def origins_of(record: Record) -> list[str]:
    """Return where and when the parts of a result were measured."""
    return [measured_on(source) for source in record.get("sources", [record])]


def measured_on(record: Record) -> str:
    """Return machine, versions and day of a result."""
    machine, versions = record["machine"], record["versions"]
    peers = [
        f"{name} {versions[package]}" for package, name in PEERS.items() if package in versions
    ]
    gpus = "".join(f", {gpu}" for gpu in dict.fromkeys(machine["gpus"]))
    when = ", ".join(filter(None, [record["date"][:10], record.get("of")]))
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['ram_gib']:.0f} GiB{gpus}; "
        f"gpuens {versions['gpuens']}, Python {versions['python']}, {', '.join(peers)}; {when}"
    )


def text_of(
    records: Records, drawn: dict[str, str] | None = None, problems: Iterable[str] = ()
) -> str:
    """Return everything as Markdown, ``drawn`` pictures and result files that cannot be read
    included."""
    report = Report(records, problems)
    for title, names in SECTIONS.items():
        report.section(title, names, drawn or {})
    report.add_goals()
    report.add_provenance()
    return "\n\n".join(report.paragraphs) + "\n"


def read_all(folder: Path) -> tuple[Records, list[str]]:
    """Return the newest results of every program, and the files that could not be read.

    What ``--device cuda`` measured is left out: ``gpu_check`` reports it.
    """
    found: dict[str, list[Record]] = {}
    problems: list[str] = []
    for path in sorted(folder.rglob("*.json")):
        try:
            record = (
                conformance.read(path) if path.name.startswith("conformance") else read_record(path)
            )
        except RecordError as error:
            problems.append(str(error).replace(str(path), path.name))
            continue
        if record.get("settings", {}).get("device") != "cuda":
            found.setdefault(record["benchmark"], []).append(record)
    return {name: newest(found[name]) for name in PROGRAMS if name in found}, problems


def newest(found: Iterable[Record]) -> Record:
    """Return the newest record; of a program with parts with the newest result of each, and the
    records that these are from as ``sources``, or the ``sources`` that these name themselves."""
    by_date = sorted(found, key=lambda record: record["date"])
    last = by_date[-1]
    if not has_parts(last["benchmark"]):
        return last
    results: dict[str, Any] = {}
    sources: dict[str, Record] = {}
    for record in by_date:
        for part, result in record["results"].items():
            if part not in results or measured({part: result}):
                results[part], sources[part] = result, record
    used = [record for record in by_date if any(record is source for source in sources.values())]
    heads = [head for record in used for head in record.get("sources", [record])]
    return {**last, "results": results, "sources": heads}


def has_parts(name: str) -> bool:
    """Return whether a program measures several parts."""
    if name in ("conformance", "gpu"):
        return False
    return isinstance(program(name).PROGRAM.measure, Mapping)


def draw_pictures(records: Records, folder: Path) -> Iterator[tuple[str, str]]:
    """Draw the pictures into ``docs/images`` of a folder; yields programs, and Markdown."""
    for name, title in PICTURES.items():
        if name in records:
            picture = part_of(name, "picture")
            try:
                pictures.draw(picture, records[name], folder / "docs" / "images" / f"{name}.png")
            except DAMAGED as error:
                print(f"skipped: no picture of {name}: {type(error).__name__} {error}")
                continue
            yield name, f"![{title}](../docs/images/{name}.png)"


def main(argv: Sequence[str] | None = None) -> int:
    parser = parser_of("report", __doc__)
    parser.add_argument("--file", type=Path, default=RESULTS_FILE, help="file to write")
    options = parser.parse_args(argv)
    records, problems = read_all(options.output)
    for problem in problems:
        print(f"skipped: {problem}")
    if not records:
        print(f"skipped: no results in {options.output}; python -m benchmarks all makes them")
        return 0
    drawn = dict(draw_pictures(records, options.file.parents[1]))
    options.file.write_text(text_of(records, drawn, problems), encoding="utf-8")
    print(f"wrote {options.file}")
    return 0
