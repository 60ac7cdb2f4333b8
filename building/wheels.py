"""Builds two wheels: one for every machine, and one with compiled kernels for machines like this.

The second is the first with the folder ``gpuens/kernels/prebuilt``. Everything in that folder of
the checkout goes in.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gpuens.kernels.runtime import native

from .library import ROOT, target

MOST_BYTES = 5_000_000
"""Half are the kernels for GPUs; another architecture or family of kernels shows here."""


def build(output: Path) -> Path:
    """Write both wheels into a folder, and return the second, whose references are checked."""
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        _run("build", "--wheel", "--outdir", str(made), str(_sources(made)))
        (pure,) = made.glob("*-py3-none-any.whl")
        shutil.copy(pure, output)
        _run("wheel", "unpack", "--dest", str(made), str(pure))
        (unpacked,) = (path for path in made.iterdir() if path.name.startswith("gpuens-")
                       and path.is_dir())  # fmt: skip
        shutil.copytree(native.FOLDER, unpacked / "gpuens" / "kernels" / native.FOLDER.name)
        _for_the_platform(unpacked)
        _run("wheel", "pack", "--dest-dir", str(output), str(unpacked))
    (wheel,) = output.glob(f"*-py3-none-{_tag()}.whl")
    if wheel.stat().st_size > MOST_BYTES:
        sys.exit(f"{wheel} has more than {MOST_BYTES / 1e6:.1f} MB.")
    if platform.system() == "Linux":
        _check(wheel)
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.2f} MB")
    return wheel


def _sources(folder: Path) -> Path:
    """Copy what a wheel is built from: setuptools writes into the folder that it builds in."""
    sources = folder / "sources"
    ignored = shutil.ignore_patterns("__pycache__", native.FOLDER.name)
    for name in ("gpuens", "kernels"):
        shutil.copytree(ROOT / name, sources / name, ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    return sources


def _for_the_platform(unpacked: Path) -> None:
    """Name the platform in the description of the wheel."""
    (path,) = unpacked.glob("*.dist-info/WHEEL")
    text = path.read_text(encoding="utf-8")
    text = text.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
    path.write_text(text.replace("Tag: py3-none-any", f"Tag: py3-none-{_tag()}"), "utf-8")


def _tag() -> str:
    system = target()
    assert system is not None
    return system.tag


def _check(wheel: Path) -> None:
    """Refuse a wheel that needs a newer system than its name promises."""
    command = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    text = " ".join(report.split())
    found = re.search(r'is consistent with the following platform tag: "([^"]*)"', text)
    tags = found.group(1) if found else ""
    if not re.fullmatch(rf"manylinux_2_(\d|1[0-7])_{platform.machine()}", tags):
        sys.exit(f"{wheel.name} does not keep to {_tag()}:\n{report}")


def _run(module: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", module, *arguments], check=True, stdout=sys.stderr)
