"""The oldest NumPy and scikit-learn that are supported, beside those that are installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from .attack import ROOT, Attack, FoundError

OLDEST = ("numpy==2.0.*", "scikit-learn==1.6.*", "numba==0.61.*", "pandas==2.2.*",
          "array-api-compat==1.11.*", "safetensors==0.4.3", "tqdm==4.66.*",
          "narwhals==2.0.1", "hypothesis", "scipy", "pytest")  # fmt: skip
N_CASES = 40
SECONDS = 900.0


class Versions(Attack):
    """The same hard tables in both environments: the same predictions, and only named errors."""

    limit = 2 * SECONDS
    weight = 0.5

    @classmethod
    def missing(cls) -> str | None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps",
                   "--ignore-installed", OLDEST[0]]  # fmt: skip
        try:
            tried = subprocess.run(command, capture_output=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return "pip does not answer"
        return "pip reaches no index" if tried.returncode else None

    def __init__(self, seed: int, folder: Path, known: set[str]) -> None:
        super().__init__(seed, folder, known)
        self.python = folder / "environment" / "bin" / "python"
        self.ready = folder / "ready"

    def trial(self, number: int) -> None:
        if not self.ready.exists():
            self._install()
        first = number * N_CASES
        here, there = (self._outcomes(python, first) for python in (sys.executable, self.python))
        for case, (mine, other) in enumerate(zip(here, there, strict=True), first):
            if mine["input"] == other["input"] and mine["outcome"] != other["outcome"]:
                text = f"case {case}, {mine['words']}: {mine['outcome']} and {other['outcome']}"
                kind = "wrong result" if _is_hash(mine, other) else "unnamed error"
                place = f"{mine['model']}, {str(mine['outcome'])[:40]}"
                if kind == "unnamed error" and "wrong" not in (mine["kind"], other["kind"]):
                    continue  # both refuse, or one version reads what the other refuses
                raise FoundError(kind, text, place, text)

    def _install(self) -> None:
        """Make the environment, once a campaign."""
        own = str(self.python.parents[1])
        made = [sys.executable, "-m", "venv", own]
        for command in (made, [str(self.python), "-m", "pip", "install", "--quiet", *OLDEST]):
            subprocess.run(command, check=True, timeout=SECONDS)
        self.ready.touch()

    def _outcomes(self, python: Any, first: int) -> list[dict[str, Any]]:
        command = [str(python), "-m", "tests.campaign.tables.elsewhere", str(self.seed), str(first)]
        settings = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        settings["NUMBA_CACHE_DIR"] = str(self.folder / "kernels")
        done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or len(lines) != N_CASES:
            text = f"status {done.returncode}: {done.stderr[-1000:]}"
            kind = "crash" if done.returncode < 0 else "unnamed error"
            raise FoundError(kind, text, done.stderr.strip().splitlines()[-1][:200])
        return [json.loads(line) for line in lines]


def _is_hash(mine: dict[str, Any], other: dict[str, Any]) -> bool:
    return mine["kind"] == other["kind"] == "fitted"
