"""Imports run downward, and only the modules that may ask about devices do."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

GPUENS = (
    "other_names",
    "devices files sklearn_import",
    "config inputs forest numerics",
    "explanation export",
    "estimators survival_metrics",
    "members",
    "tables",
    "distributions",
    "callbacks datasets losses trees",
    "custom_metrics ranking_metrics bagging forests adaboost combining",
    "boosting cluster diversity",
    "dask",
    "conformal exchange stagewise tuning inspection memory_plans predicting_batches warming_up",
    "many_fits",
    "saving",
    "bias_variance plotting",
    "demo command",
    "__init__ __main__",
)
"""The rooms of ``gpuens``, a floor a line, from the bottom: each imports from lower floors only."""
KERNELS = (
    "scalars",
    "runtime",
    "binning statistics",
    "growth",
    "cart prediction ranking survival",
    "explanation leaves",
    "boosting",
    "catalogue",
)
"""The rooms of ``kernels``."""

IMPLEMENTATIONS = ("reference", "cpu", "cuda")
LEFT_TO_THE_HOST = {
    "kernels/binning/cuda/cut_points.py",
    "kernels/cart/cuda/grow_cart.py",
    "kernels/growth/cuda/by_phases.py",
    "kernels/growth/cuda/streamed.py",
}
"""CUDA implementations that leave some problems, or the decisions between phases, to the CPU's."""
CUDA_DOOR = {
    f"kernels/runtime/cuda/{name}.py"
    for name in ("target", "compiling", "simulator", "loops", "narrow")
}
"""What kernels see of CUDA is the target's; it starts them by the second, or runs them in the
third. The fourth has what they loop over."""
ASKS_ABOUT_DEVICES = {
    "kernels/runtime/dispatch.py",
    "gpuens/inputs/arrays.py",
    "gpuens/devices/placement.py",
    "gpuens/devices/array_functions.py",
    "gpuens/devices/among_workers.py",
    "gpuens/devices/gpu_problems.py",
}
DEVICE_WORDS = ("cuda", "cupy", "torch", "is_numpy_array")


def modules(folder: str) -> list[str]:
    """Paths of a package's modules, without the one that leads from gpuens to kernels."""
    paths = (path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in paths if path != "gpuens/kernels/__init__.py")


PATHS = modules("kernels") + modules("gpuens")


@functools.cache
def tree_of(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), path)


@functools.cache
def imports(path: str) -> tuple[tuple[str, ...], ...]:
    """What a module imports, made absolute: ("kernels", "scalars", "gain", "newton_score")."""
    return tuple(imported_by(tree_of(path), Path(path).parent.parts))


def imported_by(tree: ast.Module, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            found = [(*base, alias.name) for alias in node.names]
        elif isinstance(node, ast.Call) and node.args:
            found = named_by_string(node, package)
        else:
            continue
        yield from (parts[1:] if parts[:2] == ("gpuens", "kernels") else parts for parts in found)


def named_by_string(call: ast.Call, package: tuple[str, ...]) -> list[tuple[str, ...]]:
    """What ``import_module`` imports, as far as its first argument is written out."""
    function, name = call.func, call.args[0]
    if getattr(function, "id", getattr(function, "attr", "")) not in (
        "import_module",
        "__import__",
    ):
        return []
    if isinstance(name, ast.JoinedStr):
        name = name.values[0]
    if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
        return []
    dots = len(name.value) - len(name.value.lstrip("."))
    written = tuple(part for part in name.value.split(".") if part)
    return [(*package[: len(package) - dots + 1], *written) if dots else written]


def room(parts: tuple[str, ...]) -> str:
    """The folder, or the module at the front door, that holds a module."""
    return parts[1].removesuffix(".py")


def implementation(parts: tuple[str, ...]) -> str | None:
    """The implementation that a module of ``kernels`` belongs to; None where it is shared."""
    return next((part for part in parts[2:3] if part in IMPLEMENTATIONS), None)


def floor(parts: tuple[str, ...]) -> int:
    """The floor of a module; below all others for what ``__init__`` itself holds."""
    floors = GPUENS if parts[0] == "gpuens" else KERNELS
    name = room(parts)
    found = [n for n, names in enumerate(floors) if name in names.split()]
    assert found or name[:2] == "__" or name[0].isupper(), f"{name} is on no floor"
    return found[0] if found else -1


def may_import(path: str, target: tuple[str, ...]) -> bool:
    """The rule: rooms of lower floors only, in ``kernels`` also no other implementation but the
    reference, and nothing of ``gpuens``."""
    parts = Path(path).parts
    if target[0] not in ("gpuens", "kernels"):
        return True
    if target[0] != parts[0]:
        return parts[0] == "gpuens"
    if len(target) < 2 or target[:2] == ("gpuens", "kernels"):
        return True
    if room(parts) != room(target) and floor(parts) <= floor(target):
        return False
    if parts[0] == "gpuens" or room(parts) == "catalogue":
        return True
    own, other = implementation(parts), implementation(target)
    if own is None:
        return other is None
    if target[1:3] == ("runtime", "dispatch"):
        return False
    return other in (own, "reference", None) or path in LEFT_TO_THE_HOST


def test_imports_run_downward():
    """See GPUENS and KERNELS for what is below what."""
    wrong = [(p, target) for p in PATHS for target in imports(p) if not may_import(p, target)]
    assert wrong == []


def module_of(target: tuple[str, ...]) -> str | None:
    """The path of the module that an import names, or that has the name; None outside."""
    for parts in (target, target[:-1]):
        if not parts:
            continue
        for path in ("/".join(parts) + ".py", "/".join(parts) + "/__init__.py"):
            if path in KNOWN:
                return path
    return None


KNOWN = frozenset(PATHS)
FRONT_DOOR = "gpuens/__init__.py"
"""Loads everything by name when it is asked for. ``save`` of estimators and callbacks goes through
it, since saving knows every class."""


def imported_modules(path: str) -> set[str]:
    found = {module_of(target) for target in imports(path)} - {None, path, FRONT_DOOR}
    return {name for name in found if name is not None}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The modules that import each other, directly or not, by circles."""
    below = {start: {start} for start in graph}
    for start, reached in below.items():
        todo = [start]
        while todo:
            new = graph[todo.pop()] - reached
            reached |= new
            todo += new
    found = {frozenset(b for b in below[a] if a in below[b]) for a in graph}
    return sorted(sorted(circle) for circle in found if len(circle) > 1)


def test_no_module_imports_itself_through_others():
    """Imports in functions, for type checkers and by string included."""
    assert circles({path: imported_modules(path) for path in PATHS}) == []


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "f"}, "f": {"e"}}
    assert circles(graph) == [["b", "c"], ["e", "f"]]


@pytest.mark.parametrize("source, found", [
    ("def f():\n    from ..losses import base", ("gpuens", "losses", "base")),
    ("if TYPE_CHECKING:\n    from .forest import Forest", ("gpuens", "room", "forest", "Forest")),
    ("x = import_module('gpuens.saving')", ("gpuens", "saving")),
    ("x = importlib.import_module(f'gpuens.export.{name}')", ("gpuens", "export")),
    ("x = import_module(f'..export.{name}', __package__)", ("gpuens", "export")),
    ("x = import_module('gpuens.kernels.runtime.disk')", ("kernels", "runtime", "disk")),
])  # fmt: skip
def test_imports_of_all_kinds_are_seen(source, found):
    assert list(imported_by(ast.parse(source), ("gpuens", "room"))) == [found]


@pytest.mark.parametrize("path, target, allowed", [
    ("kernels/scalars/losses.py", "kernels.scalars.elementary", True),
    ("kernels/scalars/losses.py", "kernels.runtime.dtypes", False),
    ("kernels/growth/cpu/split.py", "kernels.runtime.dtypes", True),
    ("kernels/growth/cpu/split.py", "kernels.growth.reference.split", True),
    ("kernels/growth/cpu/split.py", "kernels.growth.cuda.search", False),
    ("kernels/growth/cpu/split.py", "kernels.growth.params", True),
    ("kernels/growth/cuda/by_phases.py", "kernels.growth.cpu.tables", True),
    ("kernels/growth/cpu/split.py", "kernels.leaves.newton_steps", False),
    ("kernels/growth/cpu/split.py", "kernels.runtime.dispatch", False),
    ("kernels/growth/reference/split.py", "kernels.growth.cpu.split", False),
    ("kernels/growth/grow.py", "kernels.runtime.dispatch", True),
    ("kernels/growth/grow.py", "kernels.growth.cpu.split", False),
    ("kernels/runtime/dtypes.py", "kernels.growth.grow", False),
    ("kernels/growth/grow.py", "gpuens.forest.forest", False),
    ("gpuens/trees/growth.py", "gpuens.kernels.growth.grow", True),
    ("gpuens/trees/growth.py", "gpuens.inputs.binning", True),
    ("gpuens/trees/growth.py", "gpuens.losses.base", False),
    ("gpuens/inputs/binning.py", "gpuens.trees.growth", False),
])  # fmt: skip
def test_the_rule_itself(path, target, allowed):
    assert may_import(path, tuple(target.split("."))) is allowed


def test_only_the_door_imports_numba_cuda():
    others = [p for p in PATHS if p not in CUDA_DOOR]
    assert [p for p in others if ("numba", "cuda") in {parts[:2] for parts in imports(p)}] == []


def test_kernels_are_defined_in_their_rooms():
    """So that the stamp of compiled kernels covers those rooms only."""
    compilation = ("kernels", "runtime", "compilation")
    found = [(path, parts) for path in modules("gpuens") for parts in imports(path)]
    assert [path for path, parts in found if parts[:3] == compilation] == []


def device_branches(tree: ast.Module) -> list[int]:
    """Lines of conditions that mention a device or a device's library."""
    conditions = (ast.If, ast.IfExp, ast.While, ast.Assert, ast.comprehension)
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, conditions):
            tests = node.ifs if isinstance(node, ast.comprehension) else [node.test]
        elif isinstance(node, ast.Match):
            tests = [node.subject, *(case.pattern for case in node.cases)]
        else:
            continue
        lines += [t.lineno for t in tests if any(map(names_a_device, ast.walk(t)))]
    return lines


def names_a_device(node: ast.AST) -> bool:
    words = (getattr(node, field, None) for field in ("id", "attr", "value"))
    return any(isinstance(w, str) and any(d in w.lower() for d in DEVICE_WORDS) for w in words)


def test_no_branches_on_the_device():
    others = [p for p in PATHS if p not in ASKS_ABOUT_DEVICES and "/cuda/" not in p]
    assert {p: lines for p in others if (lines := device_branches(tree_of(p)))} == {}


@pytest.mark.parametrize("source, found", [
    ("if device == 'cuda': pass", [1]), ("x = a if is_cupy_array(y) else b", [1]),
    ("match device:\n    case 'cuda': pass", [2]),
    ("while not torch.cuda.is_available(): pass", [1]), ("if n > 0:\n    device = 'cuda'", []),
])  # fmt: skip
def test_device_branches_are_found(source, found):
    assert device_branches(ast.parse(source)) == found
