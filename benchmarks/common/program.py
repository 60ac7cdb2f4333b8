"""The shape that all measurements share: options, parts, a result file, tables, goals.

A measurement is a ``Program``: functions that return results as JSON objects, and functions that
turn a result file into tables and goals. The program prints these when it has measured, the report
shows them again from the file. Keys of the results of all programs:

``libraries``
    By library: the ``median`` of its times, their ``range``, the number of ``runs``, and the
    ``ratio`` of our median to it (``timing.compare``).
``gaps``
    A list of texts that name what was missing.
``failed``
    The error of a part; the exit status is 1 then, too.
``equal``
    By case, whether models were identical; the exit status is 1 if any were not.
"""

from __future__ import annotations

import argparse
import math
import os
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from .goals import Goal, goals_table
from .peers import GapError, say_skipped, silence
from .records import RESULTS, Record

Options = argparse.Namespace
Results = dict[str, Any]
Content = dict[str, Any]
"""A result file."""
Measure = Callable[[Options], Results]


class HelpFormatter(
    argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter
):  # fmt: skip
    """Keep descriptions as they are written, and show every default."""


def parser_of(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every program."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}", description=description, formatter_class=HelpFormatter
    )
    folder = Path(os.environ.get("GPUENS_RESULTS", RESULTS))
    parser.add_argument(
        "--output", type=Path, default=folder,
        help="folder of the results; GPUENS_RESULTS in the environment sets the default",
    )  # fmt: skip
    return parser


def positive(text: str) -> int:
    """Parse a whole number from 1, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, got {text!r}")
    return int(text)


def add_options(parser: argparse.ArgumentParser, options: Mapping[str, tuple[Any, str]]) -> None:
    """Add options by name, each with its default and its help.

    The default decides what an option takes: False makes it a flag, a list of texts some of these
    texts, a tuple one of them, the first by default, a list of numbers further numbers, None a
    number.
    """
    for name, (default, text) in options.items():
        how: dict[str, Any] = {"type": positive}
        if default is False:
            how = {"action": "store_true"}
        elif isinstance(default, tuple):
            how, default = {"choices": default}, default[0]
        elif isinstance(default, list) and isinstance(default[0], str):
            how = {"nargs": "+", "choices": default}
        elif isinstance(default, list):
            how = {"nargs": "+", "type": positive}
        elif isinstance(default, float | Path):
            how = {"type": type(default)}
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, help=text, **how)


def timing(repeats: int) -> dict[str, tuple[Any, str]]:
    """Return the options of what ``timing.take_turns`` does."""
    return {
        "repeats": (repeats, "runs of each library"),
        "threads": (2, "threads of each library"),
        "budget": (float("inf"), "seconds after which no further round of runs starts"),
    }


def nothing(content: Content) -> Iterable[Any]:
    """Return neither tables nor goals."""
    return ()


@dataclass(frozen=True)
class Program:
    """A measurement that ``python -m benchmarks`` runs.

    ``tables`` yields Markdown.
    """

    name: str
    description: str | None
    """For ``--help``: the docstring of the module."""
    measure: Measure | Mapping[str, Measure]
    """By name where there are several parts: ``--only`` chooses, ``GapError`` leaves one out."""
    options: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    """See ``add_options``."""
    tables: Callable[[Content], Iterable[str]] = nothing
    goals: Callable[[Content], Iterable[Goal]] = nothing
    rare: Mapping[str, Measure] = field(default_factory=dict)
    """Further parts, measured where ``--only`` names them."""
    on_gpu: bool = False
    """Whether it always uses a GPU."""

    def parser(self) -> argparse.ArgumentParser:
        """Return what reads the options."""
        parser = parser_of(self.name, self.description)
        add_options(parser, self.options)
        if not callable(self.measure):
            parser.add_argument(
                "--only", nargs="+", choices=[*self.measure, *self.rare], metavar="PART",
                default=list(self.measure),
                help=f"parts, of {', '.join([*self.measure, *self.rare])}",
            )  # fmt: skip
            add_options(parser, {"seconds": (math.inf, "seconds after which no part begins")})
        return parser

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Measure, show and write; returns the exit status."""
        options = self.parser().parse_args(argv)
        silence()
        record = Record(self.name, options)
        options.started = time.monotonic()
        with threadpool_limits(getattr(options, "threads", None)):
            results = self.run(options, record)
        if not anything(results):
            print("nothing was measured")
            return 0
        content = record.write(results)
        print(goals_table(self.goals(content)))
        return int(not all_equal(results) or bool(failures(results)))

    def run(self, options: Options, record: Record) -> Results:
        """Measure every part, print its tables, and write what there is so far.

        A part that raises an error is named, and the others are measured. On a GPU this process is
        over then: after some errors a GPU computes nothing more for a process.
        """
        if callable(self.measure):
            results = self.measure(options)
            self._show(record, results)
            return results
        results, parts = {}, {**self.measure, **self.rare}
        end = options.started + options.seconds
        for name in options.only:
            if time.monotonic() > end:
                print(f"{name}: no time was left", flush=True)
                break
            part = parts[name]
            print(name if isinstance(part, partial) else f"{name}: {part.__doc__}", flush=True)
            try:
                results[name] = part(options)
                self._show(record, {name: results[name]})
            except GapError as gap:
                results[name] = {"gaps": [say_skipped(gap)]}
            except Exception as error:
                traceback.print_exc()
                results[name] = {"failed": short(error)}
            if anything(results) or options.seconds < math.inf:  # ``gpu_check`` reads gaps, too
                record.write(results, quiet=True)
            if "failed" in results[name] and (
                self.on_gpu or getattr(options, "device", "cpu") == "cuda"
            ):
                break
        return results

    def _show(self, record: Record, results: Results) -> None:
        for text in filter(None, self.tables({**record.content, "results": results})):
            print(f"\n{text}\n", flush=True)


def anything(results: Any) -> bool:
    """Return whether results hold more than gaps."""
    if isinstance(results, Mapping):
        return any(anything(part) for name, part in results.items() if name != "gaps")
    return True


def failures(results: Any) -> dict[str, str]:
    """Return what failed, by part."""
    parts = results.items() if isinstance(results, Mapping) else ()
    return {
        name: part["failed"]
        for name, part in parts
        if isinstance(part, Mapping) and part.get("failed")
    }


def short(error: BaseException, most: int = 400) -> str:
    """Return an exception in one line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= most else text[: most - 1] + "…"


def all_equal(results: Any, inside: bool = False) -> bool:
    """Return whether nothing under ``equal`` is False, at any depth."""
    if isinstance(results, Mapping):
        return all(all_equal(part, inside or name == "equal") for name, part in results.items())
    return not (inside and results is False)
