"""Measurements that need a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from .machine import ROOT
from .peers import GapError


def run_python(code: str, *arguments: Any, **environment: str) -> Any:
    """Run code in a new process; returns what its last line holds as JSON, and raises GapError if
    the process fails."""
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)], cwd=ROOT,
        env={**os.environ, **environment}, capture_output=True, text=True,
    )  # fmt: skip
    if child.returncode:
        last = (child.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise GapError(f"a new process ended with {child.returncode}: {last}")
    return json.loads(child.stdout.splitlines()[-1])
