"""Imports run downward, and only the modules that may ask about devices do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LAYERS = (
    (
        *("binning", "boosting_categories", "cart_table", "criteria", "sampling", "bootstrap"),
        *("forest", "tree_structure", "node_numbers"),
        *("loss_base", "loss_location", "loss_positive", "loss_classes", "loss_functions"),
        *("loss_custom", "loss_arrays", "losses"),
    ),
    ("pruning", "tree_drawing", "tree_export", "tree_labels", "tree_view"),
    (
        *("callbacks", "metrics", "growth", "tree_growth", "tree_parameters", "bagging_samples"),
        *("bagging_members", "isolation_parameters", "isolation_scores", "isolation_trees"),
        *("leaf_targets", "line_search", "constraints", "rounds"),
    ),
    ("boosting", "adaboost_members", "adaboost_rounds", "training_memory"),
    (
        *("base", "cart_estimator", "tree_estimator", "trees", "forests", "quantile_forest"),
        *("forest_out_of_bag", "forest_progress", "fitted_forest", "forest_estimator"),
        *("isolation_forest", "bagging_base", "bagging_forest", "bagging", "combination"),
        *("boosting_estimator", "boosting_regressor", "boosting_classifier", "gradient_boosting"),
        *("adaboost_trees", "adaboost_base", "adaboost", "three_learner"),
        "adaboost_regressor",
        *("greedy_selection", "model_weights", "linear_ridge", "linear_logistic"),
        *("members", "training_set", "voting_parameters", "voting_base", "voting"),
        *("stagewise_steps", "stagewise_learners", "stagewise_rounds", "stagewise_parameters"),
        *("stagewise_base", "stagewise_regressor", "stagewise_classifier"),
        *("stacking_columns", "stacking_parameters", "stacking_base", "stacking"),
        *("model_records", "model_encoding", "model_decoding", "saving"),
    ),
    (
        *("diversity_input", "diversity_members", "diversity_pairwise", "diversity_of_ensemble"),
        *("diversity_average", "diversity_regression", "bias_variance_input", "bias_variance"),
        *("inspection_columns", "inspection_features"),
        *("inspection_scoring", "inspection_importances", "inspection_permutation"),
        *("inspection_drop_column", "inspection_interaction", "partial_dependence_grid"),
        *("partial_dependence_recursion", "partial_dependence_trees", "partial_dependence_brute"),
        *("partial_dependence", "inspection", "interop", "plotting", "distribution", "diversity"),
        *("datasets", "dask", "demo", "memory_plans", "warming_up"),
        *("plotting_axes", "plotting_panels", "plotting_calibration", "plotting_curves"),
        *("plotting_dependence", "plotting_diversity", "plotting_importances", "plotting_regions"),
        *("plotting_sample_weights", "plotting_tree", "gallery"),
    ),
)
"""The modules of gpuens, from the bottom. A module that is not listed is a helper below all."""

IMPLEMENTATIONS = ("reference", "cpu", "cuda")
MADE_OF_OPERATIONS = {f"kernels/reference/{name}.py" for name in ("grow", "newton_steps")}
"""Implementations that are driven from the host and call other operations."""
LEFT_TO_THE_HOST = {"kernels/cart/cuda/grow_cart.py"}
"""CUDA implementations that give some problems to the CPU's."""

CUDA_DOOR = {f"kernels/cuda/{name}.py" for name in ("target", "launching", "simulator")}
"""What kernels see of CUDA is the target's; it starts them by the second, or runs them in the
third."""
ASKS_ABOUT_DEVICES = {
    *(
        "kernels/runtime/dispatch.py",
        "gpuens/inputs/arrays.py",
        "gpuens/devices/placement.py",
        "gpuens/devices/gpu_problems.py",
    )
}
DEVICE_WORDS = ("cuda", "cupy", "torch", "is_numpy_array")


def modules(folder: str) -> list[str]:
    """Paths of a package's modules, without the link from gpuens to kernels."""
    paths = (path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in paths if not path.startswith("gpuens/kernels/"))


KERNELS, GPUENS = modules("kernels"), modules("gpuens")
OPERATIONS = {
    Path(p).stem for p in KERNELS if (ROOT / "kernels/reference" / Path(p).name).is_file()
}


def tree_of(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), path)


def imports(path: str) -> Iterator[tuple[str, ...]]:
    """What a module imports, made absolute: ("kernels", "scalars", "gain", "newton_score")."""
    package = Path(path).parent.parts
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            found = [(*base, alias.name) for alias in node.names]
        else:
            continue
        yield from (parts[1:] if parts[:2] == ("gpuens", "kernels") else parts for parts in found)


def own_imports(path: str) -> set[tuple[str, ...]]:
    """The modules of this project that a module imports, without the names taken from them."""

    def is_module(parts: tuple[str, ...]) -> bool:
        found = ROOT.joinpath(*parts)
        return found.is_dir() or found.with_suffix(".py").is_file()

    return {
        next(parts[:n] for n in range(len(parts), 0, -1) if is_module(parts[:n]))
        for parts in imports(path)
        if parts[0] in ("kernels", "gpuens")
    }


def may_import(path: str, target: tuple[str, ...]) -> bool:
    """The rule of ``kernels``: scalars, then what is shared, then implementations and contracts,
    which meet in the dispatch only."""
    folder, stem = Path(path).parts[1], Path(path).stem
    package, module = target[1] if len(target) > 1 else "", target[-1]
    if target[0] != "kernels" or folder == "scalars":
        return target[:2] == ("kernels", "scalars")
    if path in LEFT_TO_THE_HOST and target == ("kernels", "cpu", stem):
        return True
    if package in IMPLEMENTATIONS:
        return folder in IMPLEMENTATIONS and package in (folder, "reference")
    if module in OPERATIONS:
        return folder in IMPLEMENTATIONS and (module == stem or path in MADE_OF_OPERATIONS)
    return module != "dispatch" or stem in OPERATIONS and folder not in IMPLEMENTATIONS


@pytest.mark.parametrize("path", KERNELS)
def test_kernels_import_downward(path):
    assert [target for target in own_imports(path) if not may_import(path, target)] == []


@pytest.mark.parametrize(
    ("path", "target", "allowed"),
    [
        ("kernels/scalars/losses.py", "kernels.scalars.elementary", True),
        ("kernels/scalars/losses.py", "kernels.runtime.dtypes", False),
        ("kernels/growth/cpu/split.py", "kernels.runtime.dtypes", True),
        ("kernels/growth/cpu/split.py", "kernels.growth.reference.split", True),
        ("kernels/growth/cpu/split.py", "kernels.growth.cuda.split", False),
        ("kernels/growth/cpu/split.py", "kernels.growth.split", True),
        ("kernels/growth/cpu/split.py", "kernels.growth.histogram", False),
        ("kernels/growth/cpu/split.py", "kernels.runtime.dispatch", False),
        ("kernels/growth/reference/split.py", "kernels.growth.cpu.split", False),
        ("kernels/growth/split.py", "kernels.runtime.dispatch", True),
        ("kernels/growth/split.py", "kernels.growth.cpu.split", False),
        ("kernels/runtime/dtypes.py", "kernels.growth.split", False),
        ("kernels/growth/split.py", "gpuens.forest.forest", False),
    ],
)
def test_the_rule_itself(path, target, allowed):
    assert may_import(path, tuple(target.split("."))) is allowed


def layer(module: str) -> int:
    return next((n for n, names in enumerate(LAYERS, 1) if module in names), 0)


@pytest.mark.parametrize("path", [path for path in GPUENS if path != "gpuens/__init__.py"])
def test_gpuens_imports_downward(path):
    own = Path(path).with_suffix("").parts[1]
    for target in own_imports(path):
        if target[0] == "gpuens" and len(target) > 1:
            other = target[1]
            assert layer(other) <= layer(own), f"{path} imports {other}: see LAYERS"


@pytest.mark.parametrize("path", KERNELS + GPUENS)
def test_only_the_door_imports_numba_cuda(path):
    if path not in CUDA_DOOR:
        assert [parts for parts in imports(path) if parts[:2] == ("numba", "cuda")] == []


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


@pytest.mark.parametrize("path", sorted({*KERNELS, *GPUENS} - ASKS_ABOUT_DEVICES))
def test_no_branches_on_the_device(path):
    if not path.startswith("kernels/cuda/"):
        assert device_branches(tree_of(path)) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("if device == 'cuda': pass", [1]),
        ("x = a if is_cupy_array(y) else b", [1]),
        ("match device:\n    case 'cuda': pass", [2]),
        ("while not torch.cuda.is_available(): pass", [1]),
        ("if n > 0:\n    device = 'cuda'", []),
    ],
)
def test_device_branches_are_found(source, found):
    assert device_branches(ast.parse(source)) == found
