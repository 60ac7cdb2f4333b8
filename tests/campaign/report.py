"""The table of a campaign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from .attack import KINDS, Finding


@dataclass
class Tally:
    """What became of one attack; ``skipped`` is what the machine lacks for it."""

    trials: int = 0
    seconds: float = 0.0
    skipped: str | None = None
    findings: list[Finding] = field(default_factory=list)

    def distinct(self) -> dict[tuple[str, str, str], tuple[Finding, int]]:
        """Return the findings with the smallest reproductions, and how often there were such."""
        counts = Counter(found.signature for found in self.findings)
        best: dict[tuple[str, str, str], Finding] = {}
        for found in self.findings:
            before = best.get(found.signature)
            if before is None or _rank(found) < _rank(before):
                best[found.signature] = found
        return {signature: (found, counts[signature]) for signature, found in best.items()}


def _rank(found: Finding) -> tuple[bool, int]:
    return not found.smallest, len(found.smallest)


def report(tallies: Mapping[str, Tally], title: str) -> str:
    """Return the report in Markdown."""
    head = ["attack", "trials", "minutes", "a second", *KINDS]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for name, tally in tallies.items():
        rows.append(_row(name, tally))
    counts = [sum(_distinct(t, kind) for t in tallies.values()) for kind in KINDS]
    trials, seconds = (sum(getattr(t, f) for t in tallies.values()) for f in ("trials", "seconds"))
    rows.append(["all", f"{trials:,}", f"{seconds / 60:.1f}", "", *map(str, counts)])
    lines = [f"# {title}", "", *("| " + " | ".join(row) + " |" for row in rows), ""]
    for tally in tallies.values():
        for found, count in tally.distinct().values():
            lines += [*_described(found, count), ""]
    return "\n".join(lines)


def summary(tallies: Mapping[str, Tally]) -> str:
    """Return the result of a campaign in a few lines, the last of a run."""
    ran = {name: tally for name, tally in tallies.items() if tally.trials}
    trials = sum(tally.trials for tally in ran.values())
    seconds = sum(tally.seconds for tally in ran.values())
    lines = [f"{len(ran)} attacks, {trials:,} trials, {seconds / 60:.1f} minutes."]
    for name, tally in tallies.items():
        if tally.skipped is not None:
            lines.append(f"Not run: {name}, {tally.skipped}.")
        elif not tally.trials:
            lines.append(f"Not run: {name}, no trial was finished in the time.")
    counts = {kind: sum(_distinct(t, kind) for t in tallies.values()) for kind in KINDS}
    found = ", ".join(f"{kind}: {count}" for kind, count in counts.items() if count)
    return "\n".join([*lines, f"FOUND {found}" if found else "Nothing was found."])


def _row(name: str, tally: Tally) -> list[str]:
    if tally.skipped is not None:
        return [name, f"skipped: {tally.skipped}", *[""] * (2 + len(KINDS))]
    speed = tally.trials / tally.seconds if tally.seconds else 0.0
    found = [str(_distinct(tally, kind)) for kind in KINDS]
    return [name, f"{tally.trials:,}", f"{tally.seconds / 60:.1f}", f"{speed:,.1f}", *found]


def _distinct(tally: Tally, kind: str) -> int:
    return sum(found.kind == kind for found, _ in tally.distinct().values())


def _described(found: Finding, count: int) -> list[str]:
    lines = [
        f"## {found.attack}: {found.kind}, {count} times",
        "",
        f"{found.text}",
        "",
        f"At: {found.place}. Again: `python -m tests.campaign --only {found.attack} --seed "
        f"{found.seed} --trial {found.trial}`",
    ]
    return [*lines, "", "```", found.smallest, "```"] if found.smallest else lines
