"""``python -m tests.conformance``: the share of scikit-learn's own tests that pass."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import listing
from .listing import Counts, Listing
from .results import Row, reached, table, write
from .running import BrokenRunError, Outcome, available, run
from .suites import SUITES, Suite


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    made.add_argument("--only", nargs="+", choices=SUITES, default=list(SUITES), metavar="NAME",
                      help=f"files: {', '.join(SUITES)} (default: all)")  # fmt: skip
    made.add_argument("--update", action="store_true", help="rewrite the lists, keeping reasons")
    made.add_argument("--failures", action="store_true", help="show every failure and its message")
    made.add_argument("--trace", nargs="+", metavar="TEST", default=[],
                      help="run these tests alone, with pytest's output")  # fmt: skip
    made.add_argument("--json", type=Path, metavar="FILE", help="write the table there, too")
    made.add_argument("--package", default="gpuens", help="where the classes come from (gpuens)")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    rows: list[Row] = []
    wrong: list[str] = []
    for suite in (SUITES[name] for name in options.only):
        if not available(suite.module):
            print(f"skipped: this scikit-learn comes without {suite.module}", file=sys.stderr)
            continue
        known = listing.read(suite.path)
        if options.trace:
            _trace(suite, options)
            continue
        print(f"{suite.shown} …", file=sys.stderr, flush=True)
        try:
            outcomes = run(suite.module, suite.replacements(options.package),
                           deselected=known.deselected,
                           environment=suite.environment)  # fmt: skip
        except BrokenRunError as error:
            wrong.append(str(error))
            rows.append((suite, None, Counter()))
            continue
        if options.failures:
            _show_failures(outcomes)
        if options.update:
            known = listing.updated(known, outcomes)
            listing.write(suite.path, known)
        rows.append((suite, *_counted(suite, known, outcomes)))
        wrong += [f"{suite.name}: {text}" for text in listing.problems(known, outcomes)]
    if rows:
        print(table(rows))
        if options.json:
            write(options.json, rows)
    for text in wrong:
        print(text, file=sys.stderr)
    return int(bool(wrong) or any(not reached(suite, counts) for suite, counts, _ in rows))


def _trace(suite: Suite, options: argparse.Namespace) -> None:
    """Run a few tests in sight."""
    try:
        run(suite.module, suite.replacements(options.package), only=options.trace, trace=True,
            environment=suite.environment)  # fmt: skip
    except BrokenRunError as error:
        print(error, file=sys.stderr)


def _counted(
    suite: Suite, known: Listing, outcomes: Mapping[str, Outcome]
) -> tuple[Counts, Counter[str]]:
    """Numbers of tests, and of cases that fail by reason."""
    reasons: Counter[str] = Counter()
    listed = {**known.failing, **known.deselected}
    for test, outcome in outcomes.items():
        if outcome.result in ("failed", "deselected"):
            reasons[listing.reason_of(test, listed) or "not listed"] += 1
    return listing.count(outcomes, suite.by_case), reasons


def _show_failures(outcomes: Mapping[str, Outcome]) -> None:
    for test, outcome in outcomes.items():
        if outcome.result == "failed":
            print(f"{test}\n    {outcome.message}")


if __name__ == "__main__":
    sys.exit(main())
