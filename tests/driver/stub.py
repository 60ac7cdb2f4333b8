"""A driver that is none: processes in which the real cuda-bindings, cuda-core and numba-cuda work
with a stub of ``libcuda``, which logs each call and executes nothing (see ``machine.c``)."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCES = ("machine.c", "memory.c", "code.c")
LIBRARY = "libcuda.so.1"
CUPY = "from tests.driver import runtime\n\nruntime.install()\n"
"""CuPy's place: see ``runtime``."""
CUPYX = "import cupy  # which takes the place of this module too\n"
FOLDER = "STUB_FOLDER"
"""The variable that names the folder of the stub, in processes that work with it."""
CODE = "prebuilt"
"""A folder in it: kernels that take the place of those that came compiled (see ``headers``)."""
Call = dict[str, Any]
"""A line of the log."""


@functools.cache
def problem() -> str | None:
    """Return what the stub cannot do without, None if all is there."""
    if sys.platform != "linux":
        return "the stub of the driver is a library for Linux"
    if compiler() is None:
        return "no C compiler was found (cc, gcc or clang)"
    for package, module in (("cuda-bindings", "cuda.bindings"), ("cuda-core", "cuda.core")):
        if find_spec("cuda") is None or find_spec(module) is None:
            return f"{package} is not installed"
    if headers() is None:
        return "cuda.h was not found (it comes with nvidia-cuda-runtime, and with the toolkit)"
    return None


def is_in_place() -> bool:
    """Return whether this process works with the stub."""
    return FOLDER in os.environ


def compiler() -> str | None:
    """Return the program that compiles C."""
    return next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


def headers() -> Path | None:
    """Return the folder of ``cuda.h``."""
    from cuda.pathfinder import find_nvidia_header_directory

    folders = [find_nvidia_header_directory("cudart"), "/usr/local/cuda/include"]
    found = (Path(folder) for folder in folders if folder)
    return next((folder for folder in found if (folder / "cuda.h").is_file()), None)


def build(folder: Path) -> None:
    """Compile the stub into a folder, with what takes CuPy's place beside it."""
    command = [str(compiler()), "-shared", "-fPIC", "-O1", "-Wno-format-zero-length"]
    command += [f"-Wl,-soname,{LIBRARY}", f"-I{headers()}", "-o", str(folder / LIBRARY)]
    command += [str(HERE / name) for name in SOURCES] + ["-ldl", "-lpthread"]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    for package, text in (("cupy", CUPY), ("cupyx", CUPYX)):
        (folder / package).mkdir(exist_ok=True)
        (folder / package / "__init__.py").write_text(text)


def environment(folder: Path, **settings: Any) -> dict[str, str]:
    """Return the environment of a process that works with the stub in a folder; settings are its
    variables without ``STUB_``, in lower case."""
    own = {"LD_LIBRARY_PATH": [str(folder)], "PYTHONPATH": [str(folder), str(ROOT)]}
    paths = {
        name: os.pathsep.join([*values, *filter(None, [os.environ.get(name)])])
        for name, values in own.items()
    }
    given = {f"STUB_{name.upper()}": str(value) for name, value in settings.items()}
    given[FOLDER] = str(folder)
    return {**os.environ, **paths, **given}


def run(folder: Path, code: str, **settings: Any) -> tuple[str, list[Call]]:
    """Run Python code in a process of its own; returns its output and the calls of the driver."""
    log = folder / "log"
    log.unlink(missing_ok=True)
    child = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True,
        env=environment(folder, log=log, **settings),
    )  # fmt: skip
    calls = calls_in(log)
    assert child.returncode == 0, f"{child.stdout}\n{child.stderr}\n{calls[-5:]}"
    return child.stdout, calls


def calls_in(log: Path) -> list[Call]:
    """Return the calls in a log."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def named(calls: list[Call], name: str) -> list[Call]:
    """Return the calls of a function."""
    return [call for call in calls if call["call"] == name]
