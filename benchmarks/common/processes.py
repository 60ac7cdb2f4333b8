"""Measurements that need a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .machine import ROOT
from .peers import GapError


def run_python(code: str, *arguments: Any, **environment: str) -> Any:
    """Run code in a new process; returns what its last line holds as JSON, and raises GapError if
    the process fails."""
    return Interpreter().run(code, arguments, environment)[0]


class Interpreter:
    """Starts processes of an interpreter: those of this one use the checkout, those of another one
    what is installed for it."""

    def __init__(self, python: str | Path | None = None, folder: Path = ROOT) -> None:
        self.python = str(python or sys.executable)
        self.folder = ROOT if self.python == sys.executable else folder

    def run(
        self, code: str, arguments: Iterable[Any] = (),
        environment: Mapping[str, str] | None = None, flags: Iterable[str] = (),
    ) -> tuple[Any, str]:  # fmt: skip
        """Run code in a new process; returns what its last line holds as JSON, and its stderr.

        Raises GapError if the process fails.
        """
        child = subprocess.run(
            [self.python, "-W", "ignore", *flags, "-c", code, *map(str, arguments)],
            cwd=self.folder, env={**os.environ, **(environment or {})}, capture_output=True,
            text=True,
        )  # fmt: skip
        if child.returncode:
            last = (child.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise GapError(f"a new process ended with {child.returncode}: {last}")
        return json.loads(child.stdout.splitlines()[-1]), child.stderr
