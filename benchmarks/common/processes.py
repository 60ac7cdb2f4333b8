"""Measurements that need a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .machine import ROOT
from .peers import GapError


def call(function: Callable[..., Any], *arguments: Any, limit: float | None = None) -> Any:
    """Call a function of a module in a new process; return its result, which JSON can hold.

    Raises GapError if the process fails or takes longer than ``limit`` seconds.
    """
    name = function.__name__
    code = (
        f"import json\nfrom {function.__module__} import {name}\n"
        f"print(json.dumps({name}{arguments!r}))"
    )
    return run_python(code, limit=limit)[0]


def run_python(
    code: str, arguments: Iterable[Any] = (), environment: Mapping[str, str] | None = None,
    flags: Iterable[str] = (), limit: float | None = None,
) -> tuple[Any, str]:  # fmt: skip
    """Run code in a new process; return what its last line holds as JSON, and its stderr.

    Raises GapError if the process fails or takes longer than ``limit`` seconds.
    """
    try:
        child = subprocess.run(
            [sys.executable, "-W", "ignore", *flags, "-c", code, *map(str, arguments)],
            cwd=ROOT, env={**os.environ, **(environment or {})}, capture_output=True, text=True,
            timeout=limit,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise GapError(f"a new process took longer than {limit:g} s") from None
    if child.returncode:
        last = (child.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise GapError(f"a new process ended with {child.returncode}: {last}")
    return json.loads(child.stdout.splitlines()[-1]), child.stderr
