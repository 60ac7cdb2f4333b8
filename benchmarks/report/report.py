"""Write the results into README.md, between its two markers, and draw their pictures.

Everything comes from the newest JSON file of each program; the same files give the same text. A
result that is missing, damaged or lacks what is shown of it is named in the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ..accuracy.accuracy import estimators_table
from ..common.machine import ROOT
from ..common.records import RecordError, options_of, read_record
from . import conformance_results, drawing, tables
from .figures import FIGURES
from .markdown import details, gaps_of
from .text import (
    DAMAGED,
    Record,
    Records,
    Report,
    count_line,
    figures_table,
    identity_line,
    kernels_text,
    measured_on,
)

START, END = "<!-- results -->", "<!-- /results -->"
PROGRAMS = ("identity", *FIGURES, "kernels", "gpu")


def boosting_part(report: Report, pictures: dict[str, str]) -> None:
    """Speed beside the peers: what a visitor looks for first."""
    picture = f"![Time to train relative to gpuens]({pictures['fit']})" if "fit" in pictures else ""
    report.section(
        "Time to train and to predict", picture,
        report.show("fit", tables.fit_table),
        report.show("predict", tables.predict_table),
        more=[report.figures_table("fit", "predict", "many_fits")],
        summary="What is asked of these times",
    )  # fmt: skip
    report.section(
        "Accuracy",
        report.show("accuracy", tables.comparisons_table),
        report.show("accuracy", lambda r: tables.estimators_summary(r)
                    if "estimators" in r["results"] else ""),
        more=[report.figures_table("accuracy"),
              report.show("accuracy", lambda r: estimators_table(r["results"]["estimators"])
                          if "estimators" in r["results"] else "")],
        summary="Table by table, with standard errors and published values",
    )  # fmt: skip


def ensembles_part(report: Report) -> None:
    """Forests, variants of boosting, combinations."""
    report.section(
        "Trees, bagging and forests beside scikit-learn's",
        report.figures_table("forests"),
        more=[report.figures_table("published"),
              report.show("published", tables.published_table)],
        summary="Error rates beside published ones",
    )  # fmt: skip
    report.section(
        "AdaBoost, losses, categories",
        report.figures_table("adaboost", "losses", "categories"),
        more=[report.show("adaboost", tables.adaboost_table),
              report.show("losses", tables.losses_table),
              report.show("categories", tables.categories_table)],
        summary="Beside the other libraries at the same settings",
    )  # fmt: skip
    report.section(
        "Stacks, votes, inspection", report.figures_table("stacking", "inspection"),
        more=[report.show("stacking", tables.stacking_table),
              report.show("inspection", tables.inspection_table)],
        summary="Members and combinations one by one",
    )  # fmt: skip


def machine_part(report: Report, pictures: dict[str, str]) -> None:
    """What training costs beside time, and how both grow."""
    picture = f"![Time and memory by rows]({pictures['scaling']})" if "scaling" in pictures else ""
    report.section(
        "Growth with the data", picture, report.figures_table("scaling"),
        more=[report.show("scaling", tables.scaling_tables)], summary="Every size",
    )  # fmt: skip
    report.section(
        "Memory and new processes", report.figures_table("startup", "memory"),
        more=[report.show("startup", tables.startup_table),
              report.show("memory", tables.memory_table)],
        summary="Beside the other libraries",
    )  # fmt: skip


def proofs_part(report: Report) -> None:
    """GPUs, kernels, identity, scikit-learn's own tests."""
    report.section("On a GPU", figures_table(report.on_gpu),
                   more=[report.show("gpu", tables.gpu_tables)],
                   summary="Times by number of rows")  # fmt: skip
    report.section("The same model everywhere", report.show("identity", identity_line), summary="")
    report.section("scikit-learn's own tests", report.show("conformance", conformance_results.line),
                   more=[report.show("conformance", conformance_results.text)],
                   summary="Share of the tests that pass, and why the others do not")  # fmt: skip
    report.section("Operations beside their floors", more=[report.show("kernels", kernels_text)],
                   summary="Time, bytes and additions of every operation")  # fmt: skip


def provenance(report: Report) -> None:
    """Machines and versions, and all that is missing."""
    places: dict[str, list[str]] = {}
    for name, record in report.records.items():
        place = report.show(name, measured_on) if "machine" in record else ""
        if place:
            places.setdefault(place, []).append(name)
    lines = [f"Measured ({', '.join(names)}) on: {place}." for place, names in places.items()]
    gaps = [gap for record in report.records.values() for gap in gaps_of(record["results"])]
    unknown = [name for name in PROGRAMS if name not in report.records and name != "gpu"]
    missing = [f"`python -m benchmarks {name}` has no result" for name in unknown]
    if "conformance" not in report.records:
        missing.append("`python -m tests.conformance --json` has no result")
    gaps = [*dict.fromkeys([*gaps, *missing, *report.problems])]
    if gaps:
        lines.append("Not measured:\n\n" + "\n".join(f"- {gap}" for gap in gaps))
    if lines:
        report.add(details("Machines, versions, and what is missing", lines))


def section(
    records: Records, pictures: dict[str, str] | None = None, problems: Iterable[str] = ()
) -> str:
    """All of it as Markdown.

    Parameters
    ----------
    records : dict of str to record
        By program; ``conformance`` and ``gpu`` among them.
    pictures : dict of str to str, optional
        Paths from the README, by program.
    problems : iterable of str
        Result files that could not be read.
    """
    report, pictures = Report(records, problems), pictures or {}
    everything = [figure for found in report.figures.values() for figure in found]
    report.add(count_line([*everything, *report.on_gpu]))
    missed = [figure for figure in everything if figure.reached is False]
    if missed:
        report.add(details("What is not reached", [figures_table(missed)]))
    boosting_part(report, pictures)
    ensembles_part(report)
    machine_part(report, pictures)
    proofs_part(report)
    provenance(report)
    return "\n\n".join(report.paragraphs)


def is_shown(record: Record) -> bool:
    """Of ``scaling`` the ladder of rows of gradient boosting."""
    if record["benchmark"] != "scaling":
        return True
    usual = record["settings"].get("estimator", "gradient_boosting") == "gradient_boosting"
    return usual and "rows" in record["results"].get("axes", {})


def read_all(folder: Path) -> tuple[Records, list[str]]:
    """The newest result of every program, and the files that could not be read."""
    records: Records = {}
    problems: list[str] = []
    for path in sorted(folder.glob("*.json")):
        try:
            if path.name.startswith("conformance"):
                record = conformance_results.read(path)
            else:
                record = read_record(path)
        except RecordError as error:
            problems.append(str(error).replace(str(path), path.name))
            continue
        name = record["benchmark"]
        if is_shown(record) and record["date"] >= records.get(name, {"date": ""})["date"]:
            records[name] = record
    order = [*PROGRAMS, "conformance"]
    known = {name: records[name] for name in order if name in records}
    return known, problems


def draw_pictures(records: Records, readme: Path) -> dict[str, str]:
    """Pictures beside the README; returns their paths from it."""
    from ..scaling.drawing import growth  # it imports this module's table

    made = {}
    for name, picture in (("fit", drawing.fit_times), ("scaling", growth)):
        if name in records:
            path = f"docs/images/{name}.png"
            try:
                drawing.draw(picture, records[name], readme.parent / path)
            except DAMAGED as error:
                print(f"skipped: no picture of {name}: {type(error).__name__} {error}")
                continue
            made[name] = path
    return made


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
    records, problems = read_all(options.output)
    for problem in problems:
        print(f"skipped: {problem}")
    if not records:
        print(f"skipped: no results in {options.output}; python -m benchmarks makes them")
        return 0
    if not options.readme.is_file():
        raise SystemExit(f"{options.readme} is missing; it must hold {START} and {END}.")
    text = options.readme.read_text(encoding="utf-8")
    put_between_markers(text, "", options.readme)
    pictures = draw_pictures(records, options.readme)
    new = put_between_markers(text, section(records, pictures, problems), options.readme)
    options.readme.write_text(new, encoding="utf-8")
    print(f"wrote {options.readme}")
    return 0
