"""Runs one test file in a process of its own and reads what came out of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SEED = "42"
"""Of those of scikit-learn's tests that can run with any seed."""
TAIL = 40
"""Lines of a broken run that are shown."""


RESULTS = ("passed", "skipped", "deselected", "failed")


@dataclass(frozen=True)
class Outcome:
    """What became of one test.

    Parameters
    ----------
    result : "passed", "failed", "skipped" or "deselected"
    message : str
        Why it failed, in one line.
    seconds : float
    """

    result: str
    message: str = ""
    seconds: float = 0.0


class BrokenRunError(Exception):
    """The tests did not come to their end, or could not be imported."""


def available(module: str) -> bool:
    """Whether the installed scikit-learn comes with a test module, or a file is there."""
    try:
        return Path(module).is_file() or find_spec(module) is not None
    except ImportError:  # of the package around it
        return False


def run(
    module: str,
    replacements: Mapping[str, str],
    *,
    deselected: Iterable[str] = (),
    only: Iterable[str] = (),
    python_path: Path | None = None,
    environment: Iterable[tuple[str, str]] = (),
    trace: bool = False,
    timeout: float = 900.0,
) -> dict[str, Outcome]:
    """Run the tests of a module with other classes under scikit-learn's names.

    Parameters
    ----------
    module : str
        A module's full name, or the path of a file.
    replacements : dict of str to str
        Full names in scikit-learn, and of what takes their place.
    deselected, only : iterable of str
        Tests that do not run, or that alone run: names with or without parameters.
    python_path : path
        A further folder to import replacements from.
    environment : iterable of (str, str)
        Variables of the process.
    trace : bool
        Show pytest's output.
    timeout : float
        Seconds.

    Returns
    -------
    dict of str to Outcome
        By the test's name without its file, in their order.

    Raises
    ------
    BrokenRunError
        If the process crashed, took too long, or could not collect the tests.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # An empty configuration: pytest would look for one in the folders above.
        (folder / "pytest.ini").write_text("[pytest]\n")
        outcomes = folder / "outcomes.jsonl"
        command = [
            sys.executable, "-m", "pytest", "-p", "tests.conformance.plugin",
            "-p", "no:cacheprovider", "--rootdir", name, "-c", str(folder / "pytest.ini"),
            "--conformance-outcomes", str(outcomes),
            *(f"--conformance-replace={old}={new}" for old, new in replacements.items()),
            *(f"--conformance-deselect={test}" for test in deselected),
            *(f"--conformance-only={test}" for test in only),
            *(["--tb=long"] if trace else ["-q"]), "--pyargs", module,
        ]  # fmt: skip
        variables = _environment(python_path) | dict(environment)
        code, output = _finish(command, folder, variables, trace, timeout)
        lines = outcomes.read_text().splitlines() if outcomes.exists() else []
        found, unfinished = _read(lines)
    # pytest's codes: 0 all passed, 1 some failed, others that it did not get so far.
    if code not in (0, 1) or unfinished or not found:
        where = f" in {unfinished}" if unfinished else ""
        raise BrokenRunError(f"{module} broke off{where} (exit code {code}):\n{output}")
    return found


def _finish(
    command: list[str], folder: Path, environment: dict[str, str], trace: bool, timeout: float
) -> tuple[int | str, str]:
    """Exit code and the last lines of the output, which goes to a file: workers that outlive a
    killed process would hold a pipe open."""
    with (folder / "output.txt").open("w+", encoding="utf-8", errors="replace") as output:
        target = None if trace else output
        try:
            code: int | str = subprocess.run(
                command, cwd=folder, env=environment, stdout=target, stderr=target,
                stdin=subprocess.DEVNULL, timeout=timeout,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            code = f"none after {timeout:g} s"
        output.seek(0)
        return code, "\n".join(output.read().splitlines()[-TAIL:])


def _environment(python_path: Path | None) -> dict[str, str]:
    """This process's variables, the checkout among the paths, and fixed seeds."""
    paths = [str(ROOT), *([str(python_path)] if python_path else [])]
    if os.environ.get("PYTHONPATH"):
        paths.append(os.environ["PYTHONPATH"])
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONHASHSEED": "0",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # a second for each run; the tests use none
        "SKLEARN_TESTS_GLOBAL_RANDOM_SEED": SEED,
    }


def _read(lines: Iterable[str]) -> tuple[dict[str, Outcome], str]:
    """Outcomes by test, and the test that began and did not end."""
    found: dict[str, Outcome] = {}
    running = ""
    for line in lines:
        report = json.loads(line)
        test, result = report["test"], report["outcome"]
        if result in ("started", "finished"):
            running = test if result == "started" else ""
            continue
        before = found.get(test, Outcome("passed"))
        # Set-up, call and tear-down report each; what is not "passed" stays.
        worst = max(before.result, result, key=RESULTS.index)
        message = before.message or report["message"]
        found[test] = Outcome(worst, message, before.seconds + report["seconds"])
    return found, running
