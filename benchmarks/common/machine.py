"""The machine and the versions that a measurement was made with."""

from __future__ import annotations

import contextlib
import io
import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gpuens import show_config

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "gpuens", "lightgbm", "xgboost", "xgboost-cpu", "scikit-learn", "catboost", "numpy", "numba",
    "numba-cuda", "cupy-cuda12x", "cupy-cuda13x", "py-boost", "cuml-cu12", "cuml-cu13",
    "nvforest-cu12", "nvforest-cu13",
)  # fmt: skip


def describe_machine() -> dict[str, Any]:
    """Processor, cores that this process may use, memory, GPUs, system, and how busy it was."""
    with contextlib.redirect_stdout(io.StringIO()):
        config = show_config()
    return {
        "cpu": _cpu_model(),
        "cores": config["threads"],
        "ram_gib": round(_ram_bytes() / 2**30, 1),
        "gpus": [gpu["name"] for gpu in config["gpus"]],
        "gpu_problem": config["gpu_problem"],
        "system": platform.system(),
        "load_before": [round(load, 2) for load in _load()],
    }


def machine_name(machine: dict[str, Any]) -> str:
    """A short name for files."""
    return slug(f"{machine['cpu']} {machine['cores']} cores")


def slug(text: str) -> str:
    """Lower case, with hyphens for all that a file name should not hold."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def versions() -> dict[str, str]:
    """Versions of Python and of every package that takes part and is installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    found["gpuens"] = own_version()
    return found


def own_version() -> str:
    """gpuens' version, with the commit where the checkout knows it."""
    from gpuens import __version__

    git = ["git", "-C", str(ROOT)]
    try:
        head = [*git, "rev-parse", "--short=10", "HEAD"]
        commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
        changes = [*git, "diff", "--quiet", "HEAD", "--", "gpuens", "kernels"]
        changed = subprocess.run(changes, capture_output=True).returncode != 0
    except (OSError, subprocess.CalledProcessError):
        return __version__
    return f"{__version__} ({commit}{', changed' if changed else ''})"


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _ram_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0


def _load() -> tuple[float, ...]:
    return os.getloadavg() if hasattr(os, "getloadavg") else ()
