"""Write the results into README.md, between its two markers, and draw their picture.

Everything comes from the newest JSON file of each program; the same files give the same text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from . import drawing
from .counterparts import OURS, THEIRS
from .figures import FIGURES, measured_parts
from .machine import ROOT
from .records import newest, options_of

START, END = "<!-- results -->", "<!-- /results -->"
FORESTS = ("forests", "published")
"""Programs with a part of the text of their own."""
PEERS = ("lightgbm", "xgboost", "xgboost-cpu", "scikit-learn", "catboost")
NAMES = {"lightgbm": "LightGBM", "xgboost": "XGBoost", "xgboost-cpu": "XGBoost",
         "catboost": "CatBoost"}  # fmt: skip

LIBRARIES = (OURS, THEIRS)
Records = dict[str, dict[str, Any]]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; numbers stand on the right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    lines = [" | ".join(cells) for cells in (head, rule, *rows)]
    return "\n".join(f"| {line} |" for line in lines)


def measured_on(record: dict[str, Any]) -> str:
    """Machine, versions and day of a result."""
    machine, versions = record["machine"], record["versions"]
    peers = [f"{NAMES.get(p, p)} {versions[p]}" for p in PEERS if p in versions]
    gpus = "".join(f", {gpu}" for gpu in dict.fromkeys(machine["gpus"]))
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['ram_gib']:.0f} GiB{gpus}; "
        f"gpuens {versions['gpuens']}, Python {versions['python']}, {', '.join(peers)}; "
        f"{record['date'][:10]}"
    )


def number(value: float, unit: str = "") -> str:
    """Three digits, and not fewer than are before the point."""
    text = f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
    if 0.9 < value < 1.1:
        text = f"{value:.4f}"
    return f"{text} {unit}".strip()


def asked(value: float, unit: str) -> str:
    return f"{value:g} {unit}".strip()


def fit_table(record: dict[str, Any]) -> str:
    """Seconds to train, by workload and library."""
    workloads = record["results"].values()
    libraries = list(dict.fromkeys(name for w in workloads for name in w["libraries"]))
    rows = []
    for workload in workloads:
        times = workload["libraries"]
        cells = [drawing.seconds(times[n]["median"]) if n in times else "" for n in libraries]
        rows.append([workload["title"], *cells])
    return table(["median time to train", *libraries], rows)


def figures_table(records: Records, names: Iterable[str]) -> str:
    """Every figure asked for, and what was measured."""
    rows = []
    for name in names:
        if name in records:
            for figure in FIGURES[name](records[name]):
                value = number(figure.measured, figure.unit)
                reached = "yes" if figure.reached else "**no**"
                rows.append([figure.what, asked(figure.at_most, figure.unit), value, reached])
    return table(["figure", "at most", "measured", "reached"], rows)


def identity_line(record: dict[str, Any]) -> str:
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


def published_table(record: dict[str, Any]) -> str:
    """Error rates beside published ones."""
    rows = []
    for part in map(measured_parts, record["results"].values()):
        for name, entry in part.items():
            for kind, row in {"": entry}.items() if "errors" in entry else entry.items():
                values = row.get("published", ())
                values = values if isinstance(values, list | tuple) else [values]
                errors = row["errors"]
                means = [f"{fmean(errors[n]):.2f}" if n in errors else "" for n in LIBRARIES]
                text = ", ".join(filter(None, (name, kind)))
                rows.append([text, " / ".join(f"{value:g}" for value in values), *means])
    return table(["error in %", "published / re-run", *LIBRARIES], rows)


def gaps_of(results: Any) -> Iterator[str]:
    """All that was missing, at any depth of the results."""
    for name, part in results.items() if isinstance(results, dict) else ():
        yield from part if name == "gaps" else gaps_of(part)


def forests_part(records: Records) -> Iterator[str]:
    """Trees, bagging and forests."""
    yield "Trees, bagging and forests beside scikit-learn's:"
    yield figures_table(records, FORESTS)
    if "published" in records:
        yield published_table(records["published"])
    gaps = [gap for name in FORESTS if name in records for gap in gaps_of(records[name]["results"])]
    if gaps:
        yield f"Not measured: {'; '.join(dict.fromkeys(gaps))}."


def gpu_part(record: dict[str, Any]) -> Iterator[str]:
    """Times on a GPU."""
    parts = record["results"]["fit"]
    libraries = list(dict.fromkeys(name for part in parts for name in part["libraries"]))
    rows = []
    for part in parts:
        times = part["libraries"]
        cells = [drawing.seconds(times[n]["median"]) if n in times else "" for n in libraries]
        shape = f"{part['n_rows']:,} × {part['n_features']}, {part['n_trees']} trees"
        rows.append([shape, *cells])
    yield table(["median time to train on the GPU", *libraries], rows)
    yield f"Measured on: {measured_on(record)}."


def section(records: Records, picture: str | None) -> str:
    """All of it as Markdown."""
    paragraphs = []
    if picture:
        paragraphs.append(f"![Time to train relative to gpuens]({picture})")
    if "fit" in records:
        paragraphs.append(fit_table(records["fit"]))
    boosting = [name for name in FIGURES if name not in FORESTS]
    paragraphs.append(figures_table(records, boosting))
    if "identity" in records:
        paragraphs.append(identity_line(records["identity"]))
    if not records.keys().isdisjoint(FORESTS):
        paragraphs += forests_part(records)
    places: dict[str, list[str]] = {}
    for name, record in records.items():
        if name != "gpu":
            places.setdefault(measured_on(record), []).append(name)
    for place, names in places.items():
        paragraphs.append(f"Measured ({', '.join(names)}) on: {place}.")
    if "gpu" in records:
        paragraphs += gpu_part(records["gpu"])
    return "\n\n".join(paragraphs)


def put_between_markers(text: str, new: str, path: Path) -> str:
    """The text with the part between the markers replaced."""
    if text.count(START) != 1 or text.count(END) != 1 or text.index(START) > text.index(END):
        raise SystemExit(f"{path} must hold {START} once and {END} once after it.")
    before, rest = text.split(START)
    return f"{before}{START}\n\n{new}\n\n{END}{rest.split(END)[1]}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = options_of("report", __doc__)
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md", help="file to rewrite")
    options = parser.parse_args(argv)
    names = ("identity", *FIGURES, "gpu")
    found = {name: newest(name, options.output) for name in names}
    records = {name: record for name, record in found.items() if record is not None}
    if not records:
        print(f"skipped: no results in {options.output}; python -m benchmarks makes them")
        return 0
    picture = None
    if "fit" in records:
        picture = "docs/images/fit.png"
        drawing.draw(drawing.fit_times, records["fit"], options.readme.parent / picture)
    if not options.readme.is_file():
        raise SystemExit(f"{options.readme} is missing; it must hold {START} and {END}.")
    text = options.readme.read_text(encoding="utf-8")
    new = put_between_markers(text, section(records, picture), options.readme)
    options.readme.write_text(new, encoding="utf-8")
    print(f"wrote {options.readme}")
    return 0
