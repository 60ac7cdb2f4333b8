"""Run the code of a page where no packages are but those that it told the reader to install:
``python -m tests.support.page PAGE``."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tomllib
from collections.abc import Iterable
from importlib.abc import MetaPathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<why>[^>]+) -->\n\n?)?"
    r"^```(?P<language>[\w{}-]*)\n(?P<code>.*?)^```$(?:\n\n```\n(?P<printed>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
"""A block of code, the comment that keeps it from being run, and the output that follows it."""


def blocks(page: Path) -> list[re.Match[str]]:
    """The blocks of Python code on a page that are to be run."""
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [block for block in found if block["language"] == "python" and not block["why"]]


def with_requirements(requirements: Iterable[str], found: set[str] | None = None) -> set[str]:
    """Names of the packages that pip installs for requirements, as far as they are there."""
    found = set() if found is None else found
    for requirement in map(Requirement, requirements):
        name = canonicalize_name(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if name not in found:
            found.add(name)
            with contextlib.suppress(PackageNotFoundError):
                with_requirements(requires(name) or (), found)
    return found


def absent_packages(page: Path) -> set[str]:
    """The packages that an extra would bring, but that the page has its reader not install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    installed = list(project["dependencies"])
    for line in re.findall(r"needs [^`]*`pip install ([^`]+)`", page.read_text("utf-8")):
        for word in line.replace('"', "").split():
            ours = re.fullmatch(r"gpuens\[([\w,]+)\]", word)
            installed += [r for e in ours[1].split(",") for r in extras[e]] if ours else [word]
    everything = with_requirements(r for requirements in extras.values() for r in requirements)
    return everything - with_requirements(installed) - {"gpuens"}  # which the extra "all" names


class Absent(MetaPathFinder):
    """Hides packages from ``import`` and from ``find_spec``."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"the page does not install {name}", name=name)


def hide(page: Path) -> None:
    """Hide what the page does not install."""
    absent = absent_packages(page)
    modules = {
        module
        for module, packages in packages_distributions().items()
        if all(canonicalize_name(name) in absent for name in packages)
    }
    sys.meta_path.insert(0, Absent(modules))


def run(page: Path) -> None:
    """Run the code and compare what it prints.

    Raises
    ------
    AssertionError
        It prints something else than the page shows below it.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        line = page.read_text(encoding="utf-8")[: block.start("code")].count("\n")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile("\n" * line + block["code"], str(page), "exec"), names)
        assert printed.getvalue() == (block["printed"] or ""), printed.getvalue()


if __name__ == "__main__":
    hide(Path(sys.argv[1]))
    run(Path(sys.argv[1]))
