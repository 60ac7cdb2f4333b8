"""The lists of tests that fail: reading, writing, and comparing with what a run gave.

A test's name without parameters stands for all its parameters.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import sklearn

from .running import Outcome

TODO = "TODO reason"


@dataclass(frozen=True)
class Listing:
    """One file of ``lists/``.

    Parameters
    ----------
    version : str
        The release of scikit-learn whose tests are meant, "1.9".
    failing : dict of str to str
        Tests and why they fail.
    deselected : dict of str to str
        Tests that do not run, and why; they count as failed.
    """

    version: str
    failing: dict[str, str] = field(default_factory=dict)
    deselected: dict[str, str] = field(default_factory=dict)


def installed_version() -> str:
    """scikit-learn's, without its last part."""
    return ".".join(sklearn.__version__.split(".")[:2])


def read(path: Path) -> Listing:
    """A list; an empty one for the installed release if there is no file."""
    if not path.exists():
        return Listing(installed_version())
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return Listing(
        content["scikit-learn"], content.get("failing", {}), content.get("deselected", {})
    )


def write(path: Path, listing: Listing) -> None:
    """A list as TOML, one line a test."""
    lines = [f"scikit-learn = {json.dumps(listing.version)}"]
    for title in ("deselected", "failing"):
        tests: dict[str, str] = getattr(listing, title)
        if tests:
            lines += ["", f"[{title}]"]
            lines += [f"{_quoted(test)} = {_quoted(reason)}" for test, reason in tests.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _quoted(text: str) -> str:
    """A JSON string is a TOML string."""
    return json.dumps(text, ensure_ascii=False)


def bare(test: str) -> str:
    """A test's name without parameters."""
    return test.split("[", 1)[0]


def reason_of(test: str, reasons: Mapping[str, str]) -> str | None:
    """The reason given for a test, or for all its parameters."""
    return reasons.get(test, reasons.get(bare(test)))


def problems(listing: Listing, outcomes: Mapping[str, Outcome]) -> list[str]:
    """All that speaks against a list, after a run of its file; one line for all cases of a test."""
    found: dict[tuple[str, str], list[str]] = {}
    for test, outcome in outcomes.items():
        reason = reason_of(test, listing.failing)
        if outcome.result == "failed" and reason is None:
            text = f"fails and is not listed: {outcome.message}"
            found.setdefault((bare(test), "fails"), [test, text]).append(test)
        elif outcome.result == "passed" and reason is not None:
            text = f"passes; take it off the list (it says: {reason})"
            found.setdefault((bare(test), "passes"), [test, text]).append(test)
    lines = []
    for first, text, *tests in found.values():
        others = f" (and {len(tests) - 1} more of its cases)" if len(tests) > 1 else ""
        lines.append(f"{first}{others} {text}")
    known = {*outcomes, *map(bare, outcomes)}
    for test, reason in {**listing.deselected, **listing.failing}.items():
        if test not in known:
            lines.append(f"{test} is listed and does not exist; take it off the list")
        if not reason.strip() or reason.startswith("TODO"):
            lines.append(f"{test} is listed without a reason")
    return lines


def updated(listing: Listing, outcomes: Mapping[str, Outcome]) -> Listing:
    """The list that a run asks for, with the reasons of the old one where it has them."""
    failed = [test for test, outcome in outcomes.items() if outcome.result == "failed"]
    passed = {bare(test) for test, outcome in outcomes.items() if outcome.result == "passed"}
    known: dict[str, str] = {}
    for test, reason in listing.failing.items():
        known.setdefault(bare(test), reason)
    failing = {}
    for test in failed:
        # One line for all parameters of a test if none passes and no two have different reasons.
        reasons = {reason_of(t, listing.failing) for t in failed if bare(t) == bare(test)}
        together = bare(test) not in passed and len(reasons - {None}) <= 1
        name = bare(test) if together else test
        reason = reason_of(test, listing.failing) or known.get(bare(test)) or TODO
        failing.setdefault(name, reason)
    return Listing(installed_version(), failing, listing.deselected)


@dataclass(frozen=True)
class Counts:
    """Numbers of tests, and of their cases, which are the parameters that they run with.

    A test passes if none of its cases fails. What is deselected counts as failed; what is
    skipped does not count.
    """

    passed: int
    failed: int
    cases_passed: int
    cases_failed: int
    skipped: int

    @property
    def tests(self) -> int:
        """Those that were not skipped."""
        return self.passed + self.failed

    @property
    def cases(self) -> int:
        """Those that were not skipped."""
        return self.cases_passed + self.cases_failed

    @property
    def share(self) -> float:
        """Of the tests, how many pass."""
        return self.passed / max(1, self.tests)

    @property
    def share_of_cases(self) -> float:
        """Of the cases, how many pass."""
        return self.cases_passed / max(1, self.cases)


def count(outcomes: Mapping[str, Outcome], by_case: bool = False) -> Counts:
    """Count what a run gave; every case as a test of its own if ``by_case``."""
    kinds = ("passed", "skipped", "failed", "deselected")
    cases = {kind: [t for t, o in outcomes.items() if o.result == kind] for kind in kinds}
    wrong = cases["failed"] + cases["deselected"]
    name = str if by_case else bare
    failed = {name(test) for test in wrong}
    passed = {name(test) for test in cases["passed"]} - failed
    return Counts(len(passed), len(failed), len(cases["passed"]), len(wrong), len(cases["skipped"]))
