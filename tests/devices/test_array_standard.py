"""Arrays of a device are worked on with the Array API standard alone: read from the code."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import array_api_strict
import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("gpuens", "kernels")
NAMESPACES = ("xp", "_xp")
"""What variables and attributes are called that hold the namespace of an array."""
GIVE_NAMESPACES = ("module_of", "array_namespace")
"""Functions that return one."""
BUILTIN_TYPES = ("bool", "int", "float")
"""Python's, which NumPy takes for its own."""


NEWER = ("broadcast_shapes", "isin")
"""Names that the standard has had since 2025.12 only."""
COMPARED = "is"
"""In the place of a name: the namespace is compared with a library."""


class Use(NamedTuple):
    """A name that code takes from the namespace of an array, with the arguments of its call."""

    place: str
    name: str
    call: ast.Call | None


def is_namespace(node: ast.expr) -> bool:
    """Return whether an expression is the namespace of an array."""
    if isinstance(node, ast.Call):
        return last_name(node.func) in GIVE_NAMESPACES
    return last_name(node) in NAMESPACES


def last_name(node: ast.expr) -> str:
    """Return the name of a variable or an attribute."""
    return getattr(node, "id", getattr(node, "attr", ""))


def uses(source: str, file: str) -> Iterator[Use]:
    """Yield what a module takes from namespaces, with the path of what is in a part of one."""
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_namespace(node.value):
            name, top = node.attr, node
            while isinstance(parents.get(top), ast.Attribute):
                top = parents[top]
                name += f".{top.attr}"
            above = parents.get(top)
            call = above if isinstance(above, ast.Call) and above.func is top else None
            yield Use(f"{file}:{node.lineno}", name, call)
        elif isinstance(node, ast.Compare) and is_namespace(node.left):
            yield from (
                Use(f"{file}:{node.lineno}", COMPARED, None)
                for other in node.comparators
                if last_name(other) in ("np", "cupy")
            )


def fault(use: Use) -> str | None:
    """Return what the standard says against a use."""
    if use.name == COMPARED:
        return "a namespace is compared with a library: ask the device"
    if use.name in NEWER:
        return f"xp.{use.name} is not in the standard of 2024.12"
    found = array_api_strict
    for part in use.name.split("."):
        if not hasattr(found, part):
            return f"xp.{use.name} is not in the standard"
        found = getattr(found, part)
    if use.call is None or not callable(found):
        return None
    return fault_of_call(use, inspect.signature(found))


def fault_of_call(use: Use, signature: inspect.Signature) -> str | None:
    """Return what is wrong with the arguments: the standard has fewer, most by keyword only."""
    spread = [a for a in use.call.args if isinstance(a, ast.Starred)]
    keywords = {k.arg: None for k in use.call.keywords if k.arg is not None}
    if not spread and len(keywords) == len(use.call.keywords):
        try:
            signature.bind(*use.call.args, **keywords)
        except TypeError as error:
            return f"xp.{use.name}: {error}"
    for keyword in use.call.keywords:
        kind = ast.unparse(keyword.value)
        if keyword.arg == "dtype" and (kind.startswith("np.") or kind in BUILTIN_TYPES):
            return f"xp.{use.name}: {kind} is not a type of the namespace"
    return None


def modules() -> list[Path]:
    """Return the files of the library."""
    return [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]


def test_no_name_outside_the_standard_is_taken_from_a_namespace():
    found, n_uses = [], 0
    for file in modules():
        source = file.read_text(encoding="utf-8")
        if not any(word in source for word in NAMESPACES + GIVE_NAMESPACES):
            continue
        for use in uses(source, str(file.relative_to(ROOT))):
            n_uses += 1
            if (problem := fault(use)) is not None:
                found.append(f"{use.place}: {problem}")
    assert n_uses > 500  # the rule still finds what it judges
    assert not found, "\n".join(found)


@pytest.mark.parametrize("code, problem", [
    ("device.xp.flatnonzero(x)", "xp.flatnonzero is not in the standard"),
    ("self._xp.minimum.at(x, i, v)", "xp.minimum.at is not in the standard"),
    ("module_of(x).concatenate([x, y])", "xp.concatenate is not in the standard"),
    ("array_namespace(x).linalg.lstsq(x)", "xp.linalg.lstsq is not in the standard"),
    ("xp.empty(3, xp.int32)", "xp.empty: too many positional arguments"),
    ("xp.equal(x, y, out=z)", "xp.equal: got an unexpected keyword argument 'out'"),
    ("xp.empty(3, dtype=np.int32)", "xp.empty: np.int32 is not a type of the namespace"),
    ("xp.ones(3, dtype=bool)", "xp.ones: bool is not a type of the namespace"),
    ("device.xp is np", "a namespace is compared with a library: ask the device"),
    ("xp is module_of(x)", None), ("xp.linalg.svd(x)", None),
    ("xp.full(3, 0, dtype=xp.int32, device=place)", None), ("xp.sort(*x, **y)", None),
    ("np.flatnonzero(x)", None),
])  # fmt: skip
def test_what_is_found(code, problem):
    found = [fault(use) for use in uses(code, "file")]
    assert list(filter(None, found)) == ([] if problem is None else [problem])
