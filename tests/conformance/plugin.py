"""A pytest plugin: other classes under scikit-learn's names, and a file of outcomes.

It works in the process that runs scikit-learn's tests, loaded with ``-p``.
"""

from __future__ import annotations

import json
import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption(
        "--conformance-replace",
        action="append",
        default=[],
        metavar="NAME=NAME",
        help="a full name in scikit-learn, and the full name of what takes its place",
    )
    group.addoption(
        "--conformance-deselect",
        action="append",
        default=[],
        metavar="TEST",
        help="a test that does not run: its name, with or without parameters",
    )
    group.addoption(
        "--conformance-only",
        action="append",
        default=[],
        metavar="TEST",
        help="run nothing but these tests",
    )
    group.addoption(
        "--conformance-outcomes", metavar="FILE", help="where to write one JSON line a report"
    )


def pytest_configure(config: pytest.Config) -> None:
    replace(dict(pair.split("=") for pair in config.getoption("--conformance-replace")))
    path = config.getoption("--conformance-outcomes")
    if path:
        config.pluginmanager.register(Outcomes(Path(path)))


def replace(names: dict[str, str]) -> None:
    """Put objects in the place of others: full names to full names.

    All of scikit-learn is imported first, so that its own code goes on with its own classes, as
    it does for a user who imports ours.
    """
    import_everything("sklearn")
    objects = {old: find(new) for old, new in names.items()}
    for old, new in objects.items():
        find(old)
        module, _, name = old.rpartition(".")
        setattr(import_module(module), name, new)


def find(full_name: str) -> Any:
    """The object of a module by its full name."""
    module, _, name = full_name.rpartition(".")
    return getattr(import_module(module), name)


def import_everything(package: str) -> None:
    """Import all public modules and subpackages directly below a package."""
    for module in pkgutil.iter_modules(import_module(package).__path__):
        if not module.name.startswith("_") and module.name not in ("conftest", "tests"):
            import_module(f"{package}.{module.name}")


def names_of(node_id: str) -> tuple[str, str]:
    """A test's name without its file: with its parameters, and without."""
    name = node_id.split("::", 1)[1]
    return name, name.split("[", 1)[0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skip = set(config.getoption("--conformance-deselect"))
    only = set(config.getoption("--conformance-only"))
    kept, dropped = [], []
    for item in items:
        names = set(names_of(item.nodeid))
        (kept if not names & skip and (not only or names & only) else dropped).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=dropped)


class Outcomes:
    """Writes the start and every report of each test at once, so that a crash leaves them."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def _write(self, node_id: str, outcome: str, message: str = "", seconds: float = 0.0) -> None:
        line = {"test": names_of(node_id)[0], "outcome": outcome, "message": message,
                "seconds": seconds}  # fmt: skip
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        for item in items:
            self._write(item.nodeid, "deselected")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write(nodeid, "started")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        message = message_of(report) if report.failed else ""
        self._write(report.nodeid, report.outcome, message, report.duration)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._write(nodeid, "finished")

    def pytest_unconfigure(self) -> None:
        self._file.close()


def message_of(report: pytest.TestReport) -> str:
    """Why a test failed, in one line, and where."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return str(report.longrepr).strip().splitlines()[-1]
    text = next((line for line in crash.message.splitlines() if line.strip()), "")
    return f"{text} ({Path(crash.path).name}:{crash.lineno})"
