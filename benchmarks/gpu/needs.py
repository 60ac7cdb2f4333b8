"""The packages that a test needs to be collected: those that it, the modules beside it and their
``conftest.py`` import before any test begins."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from ..common.machine import ROOT

OWN = ("tests", "benchmarks", "building")
"""Packages of the checkout, whose modules are followed."""


def missing(path: Path) -> list[str]:
    """Return the packages that are not installed without which a test cannot be collected."""
    folders = [folder for folder in path.parents if folder.is_relative_to(ROOT / "tests")]
    files = [path, *(folder / "conftest.py" for folder in folders)]
    needed = {name for file in files if file.is_file() for name in _packages(file)}
    skipped = {name for file in files if file.is_file() for name in _skipped(_tree(file))}
    return sorted(name for name in needed - skipped if not _is_installed(name))


@functools.cache
def _is_installed(name: str) -> bool:
    return find_spec(name) is not None


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@functools.cache
def _packages(path: Path) -> frozenset[str]:
    """Return the packages that a module imports, directly or by modules of the checkout."""
    found: set[str] = set()
    todo, known = [path], {path}
    while todo:
        for name in _imported(_tree(todo.pop())):
            first = name.partition(".")[0]
            if first not in OWN:
                found.add(first)
                continue
            base = ROOT.joinpath(*name.split("."))
            for file in (base.with_suffix(".py"), base / "__init__.py"):
                if file.is_file() and file not in known:
                    known.add(file)
                    todo.append(file)
    return frozenset(found)


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield the names of what is imported as the module is: ``a.b`` for ``from a import b`` too."""
    for node in _executed(tree.body):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _executed(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that an import runs; what is tried may fail."""
    for node in statements:
        yield node
        if isinstance(node, (ast.If, ast.With)):
            yield from _executed([*node.body, *getattr(node, "orelse", [])])


def _skipped(tree: ast.Module) -> Iterator[str]:
    """Yield the packages without which a test skips itself by ``pytest.importorskip``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "importorskip":
            (name, *_) = node.args
            if isinstance(name, ast.Constant):
                yield str(name.value).partition(".")[0]
