"""Functions that compiled functions call: each is compiled once for integers."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import gpuens.kernels

TYPED = "inner", "fused"
"""The decorators of functions that are typed on their own."""
KERNELS = Path(gpuens.kernels.__path__[0])
FILES = [
    path for room in ("binning", "cart", "prediction") for path in KERNELS.glob(f"{room}/cpu/*.py")
]


def test_no_call_adds_a_version_for_a_constant():
    """Numba gives a constant integer a type of its own: where one call passes a constant and
    another a value or another constant, the function would be compiled for each of them."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in FILES}
    functions = {
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(d, ast.Name) and d.id in TYPED for d in node.decorator_list)
    }
    passed: defaultdict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in functions
            ):
                for place, argument in enumerate(node.args):
                    is_integer = isinstance(argument, ast.Constant) and type(argument.value) is int
                    kind = ast.unparse(argument) if is_integer else "a value"
                    passed[node.func.id, place][kind] = f"{path.name}:{node.lineno}"
    assert len(functions) > 50 and len(passed) > 100
    mixed = {f"{name}, argument {place}": kinds
             for (name, place), kinds in passed.items() if len(kinds) > 1}  # fmt: skip
    assert "\n".join(f"{name}: {kinds}" for name, kinds in mixed.items()) == ""
