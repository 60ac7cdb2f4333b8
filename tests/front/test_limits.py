"""One head can hold each function, module and folder, and a class is known by its name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.front.test_imports import PATHS, ROOT, modules, tree_of

MOST_LINES, MOST_LINES_OF_KERNEL, MOST_LINES_OF_MODULE = 40, 60, 500
"""Lines of code: without docstrings, comments and blank lines, a module also with the latter."""
MOST_FILES, MOST_FILES_OF_TESTS = 15, 20

COMPILED = {
    "device_function", "fused", "inlined", "inner", "kernel", "kernel_without_allocation",
}  # fmt: skip
"""Decorators of functions that kernels consist of."""

LONG_FUNCTIONS = {
    "kernels/growth/cuda": "the search of a split has its steps in one kernel, to share registers",
}
LARGE_FOLDERS = {
    "gpuens": "modules at the front door are imported by users under their names",
}
"""What is larger, and why."""

NAMED_ALIKE = {
    "gpuens/dask": "mirrors estimators for tables of Dask",
    "kernels/scalars/losses.py": "formulas of the public losses of these names",
    "gpuens/losses/distributions.py": "losses of the public distributions of these names",
    "kernels/growth": "tables of growth, which its own modules alone see",
}
"""Where classes have the names of others, and why."""


def body_of(node: ast.FunctionDef) -> list[ast.stmt]:
    return node.body[1:] if ast.get_docstring(node) is not None else node.body


def length(node: ast.FunctionDef, source: list[str]) -> int:
    """Count the lines of a function's body, of which those of functions inside it are no part."""
    nested = [
        range(inner.lineno, (inner.end_lineno or 0) + 1)
        for inner in ast.walk(node)
        if isinstance(inner, ast.FunctionDef) and inner is not node
    ]
    body = body_of(node)
    numbers = range(body[0].lineno, (node.end_lineno or 0) + 1) if body else range(0)
    return sum(
        bool(source[k - 1].strip())
        and not source[k - 1].lstrip().startswith("#")
        and not any(k in lines for lines in nested)
        for k in numbers
    )


def is_compiled(node: ast.FunctionDef) -> bool:
    """Return whether a function is part of kernels, or is made to be."""
    names = (getattr(d, "func", d) for d in node.decorator_list)
    return any(getattr(name, "id", "") in COMPILED for name in names)


def long_functions(tree: ast.Module, text: str) -> Iterator[tuple[str, int]]:
    """Yield the functions of a module that are longer than the limit, and their lines."""
    source = text.split("\n")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            n = length(node, source)
            if n > (MOST_LINES_OF_KERNEL if is_compiled(node) else MOST_LINES):
                yield node.name, n


def bundles(tree: ast.Module) -> Iterator[str]:
    """Yield the tuples of a module that a function writes out and splats into a call."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            inside = list(ast.walk(function))
            made = {name for node in inside for name in tuples_of(node)}
            calls = (node for node in inside if isinstance(node, ast.Call))
            splats = (arg for call in calls for arg in call.args if isinstance(arg, ast.Starred))
            names = (getattr(splat.value, "id", "") for splat in splats)
            yield from (f"{function.name}:{name}" for name in names if name in made)


def tuples_of(node: ast.AST) -> Iterator[str]:
    """Yield the names that an assignment gives tuples of several elements to."""
    if isinstance(node, ast.Assign):
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        for name, made in pairs:
            if isinstance(name, ast.Name) and isinstance(made, ast.Tuple) and len(made.elts) > 1:
                yield name.id


def is_listed(path: str, exceptions: dict[str, str]) -> bool:
    return any(path == known or path.startswith((f"{known}/", f"{known}:")) for known in exceptions)


def without_listed(found: list[str], exceptions: dict[str, str]) -> list[str]:
    """Return what no exception covers; every exception has to cover something."""
    idle = [known for known in exceptions if not any(is_listed(f, {known: ""}) for f in found)]
    assert not idle, f"these keep the limit: {idle}"
    return [path for path in found if not is_listed(path, exceptions)]


def test_functions_are_short():
    found = [
        f"{path}:{name}"
        for path in PATHS
        for name, _ in long_functions(tree_of(path), (ROOT / path).read_text(encoding="utf-8"))
    ]
    assert without_listed(found, LONG_FUNCTIONS) == []


@pytest.mark.parametrize("decorator, n, is_long", [
    ("", 40, False), ("", 41, True), ("@kernel\n", 60, False), ("@kernel\n", 61, True),
])  # fmt: skip
def test_long_functions_are_found(decorator, n, is_long):
    body = "".join(f"    a = {k}\n" for k in range(n))
    inner = "    # why\n\n    def inner():\n" + "        b = 1\n" * 40
    text = f'{decorator}def outer(\n    x,\n):\n    """Return.\n\n    More."""\n{body}{inner}'
    assert [name for name, _ in long_functions(ast.parse(text), text)] == ["outer"] * is_long


def test_arguments_are_passed_by_their_names():
    """``how = a, b, c; f(*how)`` hides from a reader what f gets."""
    assert [f"{path}:{name}" for path in PATHS for name in bundles(tree_of(path))] == []


@pytest.mark.parametrize("body, is_bundle", [
    ("how = a, b; f(*how)", True), ("x, how = 1, (a, b); f(x, *how)", True),
    ("how = a, b; g(how)", False), ("how = g(); f(*how)", False), ("how = (a,); f(*how)", False),
])  # fmt: skip
def test_bundles_are_found(body, is_bundle):
    assert list(bundles(ast.parse(f"def outer(a, b):\n    {body}"))) == ["outer:how"] * is_bundle


def test_modules_are_short():
    def n_lines(path: str) -> int:
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        return sum(not line.lstrip().startswith("#") for line in lines)

    found = [path for path in PATHS if n_lines(path) > MOST_LINES_OF_MODULE]
    assert found == []


def test_folders_have_few_files():
    sizes: dict[str, int] = defaultdict(int)
    for path in PATHS + modules("tests"):
        sizes[Path(path).parent.as_posix()] += 1
    found = [
        folder
        for folder, n in sizes.items()
        if n > (MOST_FILES_OF_TESTS if folder.startswith("tests") else MOST_FILES)
    ]
    assert [f for f in found if f not in LARGE_FOLDERS] == []
    assert [f for f in LARGE_FOLDERS if f not in found] == []


def test_names_of_classes_are_unique():
    places: dict[str, list[str]] = defaultdict(list)
    for path in PATHS:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path)
    shared = [
        f"{path}:{name}"
        for name, found in places.items()
        if len(found) > 1
        for path in found
        if sum(not is_listed(other, NAMED_ALIKE) for other in found) > 1
        or is_listed(path, NAMED_ALIKE)
    ]
    assert without_listed(shared, NAMED_ALIKE) == []
