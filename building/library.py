"""Builds the native libraries of the kernels for the CPU (see ``kernels/runtime/native.py``).

Two processes for each level of processors compile, by Numba and for that level, everything that
``workload`` runs, and one of them links the machine code with ``calls.c``. The levels are built at
the same time.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpuens.kernels.runtime import native

ROOT = Path(__file__).resolve().parents[1]
LINKERS = ("gcc", "cc", "clang")
CALLS = Path(__file__).with_name("calls.c")
BUILDERS = (CALLS, CALLS.with_name("level.py"), CALLS.with_name("workload.py"))
"""Files that decide, with the sources of the kernels, which kernels are built and how."""


class Target(NamedTuple):
    """A system and an architecture that libraries are built for, each on itself.

    Attributes
    ----------
    triple : str
        What LLVM calls them, as object files name them. Windows' is that of the C compiler, not
        Numba's: the functions that code with large frames calls have other names there.
    suffix : str
        Of libraries.
    flags : tuple of str
        Of the C compiler that links. A library needs nothing but the system's own C library.
    tag : str
        Of wheels: the oldest system.
    """

    triple: str
    suffix: str
    flags: tuple[str, ...]
    tag: str


_PLAIN = ("-shared", "-O2", "-ffreestanding")
_ELF = (
    *_PLAIN, "-fPIC", "-fvisibility=hidden", "-nostartfiles",
    "-Wl,-z,noexecstack", "-Wl,-s", "-Wl,--gc-sections",
)  # fmt: skip
_MACH = (*_PLAIN, "-fPIC", "-fvisibility=hidden", "-Wl,-dead_strip", "-Wl,-x")
TARGETS = {
    ("Linux", "x86-64"): Target(
        "x86_64-unknown-linux-gnu", ".so", _ELF, "manylinux_2_17_x86_64"
    ),
    ("Linux", "arm64"): Target("aarch64-unknown-linux-gnu", ".so", _ELF, "manylinux_2_17_aarch64"),
    ("Darwin", "x86-64"): Target(
        "x86_64-apple-macosx10.15.0", ".dylib",
        (*_MACH, "-mmacosx-version-min=10.15"), "macosx_10_15_x86_64",
    ),
    ("Darwin", "arm64"): Target(
        "arm64-apple-macosx11.0.0", ".dylib",
        (*_MACH, "-mmacosx-version-min=11.0"), "macosx_11_0_arm64",
    ),
    ("Windows", "x86-64"): Target(
        "x86_64-w64-windows-gnu", ".dll", (*_PLAIN, "-static-libgcc", "-Wl,-s"), "win_amd64"
    ),
}  # fmt: skip


def target() -> Target | None:
    """Return the target that is this machine, None where none is."""
    return TARGETS.get((platform.system(), native.architecture()))


def linker() -> str | None:
    """Return the compiler of C that links the library, or None where there is none."""
    return next(filter(None, map(shutil.which, LINKERS)), None)


def problem() -> str | None:
    """Return why this machine cannot build the library, or None."""
    if target() is None:
        known = ", ".join(f"{system} on {architecture}" for system, architecture in TARGETS)
        return f"it is built on {known}, not {platform.system()} on {platform.machine()}"
    if linker() is None:
        return f"none of {', '.join(LINKERS)} is installed"
    return None


def is_current(levels: Sequence[str]) -> bool:
    """Return whether the checkout holds the libraries of some levels, built from its sources."""
    try:
        table = json.loads((native.FOLDER / native.TABLE).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    if not set(levels) <= set(table["libraries"]) or table.get("builders") != _builders():
        return False  # not opened: Windows could not replace a library that is
    try:
        native.open_library()
    except native.Unusable:
        return False
    return True


def _builders() -> list[str]:
    return [native.digest_of(path) for path in BUILDERS]


def build(levels: Sequence[str], folder: Path = native.FOLDER) -> None:
    """Compile the libraries of some levels into a folder."""
    if reason := problem():
        sys.exit(f"The native library of the kernels was not built: {reason}.")
    started = time.time()
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        children = {level: _started(level, made) for level in levels}
        failed = [level for level, child in children.items() if child.wait()]
        if failed:
            sys.exit(f"The native library for {' and '.join(failed)} was not built.")
        table = joined(made)
        changed = [name for name in table["sources"]
                   if (native.PACKAGE / name).stat().st_mtime > started]  # fmt: skip
        if changed:
            sys.exit(f"{', '.join(changed)} changed while the kernels were compiled: build again.")
        install(table, made, folder)
    n = sum(map(len, table["kernels"].values()))
    size = sum((folder / file).stat().st_size for file, _ in table["libraries"].values())
    print(f"{n} kernels for {' and '.join(levels)}: {size / 1e6:.2f} MB in {folder}, "
          f"{time.time() - started:.0f} s")  # fmt: skip


def cpu_name(level: str) -> str:
    """Return LLVM's name of the processors of a level."""
    return "generic" if native.architecture() == "arm64" else level


def file_of(level: str) -> str:
    """Return the name of a library on this machine."""
    found = target()
    assert found is not None
    return f"cpu-{level}{found.suffix}"


def _started(level: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start the process that compiles for a level."""
    env = {
        **os.environ,
        "NUMBA_CPU_NAME": cpu_name(level),
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(folder / f"cache-{level}"),
        "NUMBA_ENABLE_CUDASIM": "0",
        "GPUENS_KERNELS": "compiled",
    }
    command = [sys.executable, "-m", "building.level", level, str(folder)]
    return subprocess.Popen(command, env=env, cwd=ROOT)


def joined(folder: Path) -> dict[str, Any]:
    """Return the table of all levels in a folder, which have the same kernels."""
    levels = [level for level in native.levels() if (folder / f"{level}.json").exists()]
    tables = [json.loads((folder / f"{level}.json").read_text("utf-8")) for level in levels]
    if any(table != tables[0] for table in tables):
        sys.exit("The levels were not compiled from the same kernels: did sources change?")
    files = {level: file_of(level) for level in levels}
    return {
        "format": native.FORMAT,
        "libraries": {level: [file, native.digest_of(folder / file)]
                      for level, file in files.items()},
        "stamp": native.stamp_of(tables[0]["sources"]),
        "builders": _builders(),
        **tables[0],
    }  # fmt: skip


def install(table: dict[str, Any], made: Path, folder: Path) -> None:
    """Move libraries to where they are looked for, their table last."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / native.TABLE).unlink(missing_ok=True)
    for old in folder.glob("cpu-*"):  # replaced, not written to: a process may have it open
        old.unlink()
    for file, _ in table["libraries"].values():
        shutil.move(made / file, folder / file)
    text = json.dumps(table, separators=(",", ":"))
    (folder / native.TABLE).write_text(text, encoding="utf-8")
