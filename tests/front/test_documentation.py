"""The code in README.md and docs/ runs, and prints the output below it; other code imports what it
names."""

from __future__ import annotations

import ast
import builtins
import inspect
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import BaseEstimator

import gpuens
from gpuens import plotting
from tests.support.page import BLOCK, blocks

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [ROOT / "README.md", *(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts)]
)
SUBMODULES = (
    "bias_variance", "callbacks", "custom_metrics", "dask", "datasets", "distributions",
    "diversity", "inspection", "losses", "plotting", "ranking_metrics", "survival_metrics",
)  # fmt: skip


def support_matrix() -> list[tuple[list[str], dict[str, str]]]:
    """The rows of README's table of estimators: their names, and the cells by column."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Estimators")[2]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    head, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    found = []
    for first, *cells in rows[1:]:
        names: list[str] = []
        for name in re.findall(r"`([^`]+)`", first):
            if name == "…Regressor":
                names.append(names[-1].replace("Classifier", "Regressor"))
            elif name.endswith("…"):
                names += [name[:-1] + "Classifier", name[:-1] + "Regressor"]
            else:
                names.append(name)
        found.append((names, dict(zip(head[1:], cells, strict=True))))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_code_on_the_page_runs(page, tmp_path):
    """Where no packages are but those that the page tells its reader to install."""
    command = [sys.executable, "-W", "error", "-m", "tests.support.page", str(page)]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path, "MPLBACKEND": "agg"}
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_packages_that_a_page_does_not_name_are_hidden(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nimport pandas\n```\n")
    command = [sys.executable, "-m", "tests.support.page", str(page)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "the page does not install pandas" in ran.stderr
    page.write_text('It needs pandas: `pip install "gpuens[tables]"`.\n' + page.read_text())
    assert subprocess.run(command, cwd=ROOT).returncode == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_name_in_code_is_defined_on_its_page(page):
    """Also in code that is not run."""
    known = set(vars(builtins))
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["language"] != "python":
            continue
        nodes = list(ast.walk(ast.parse(block["code"])))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        known |= {node.id for node in names if not isinstance(node.ctx, ast.Load)}
        known |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        binds = (ast.FunctionDef, ast.ClassDef, ast.ExceptHandler)
        known |= {node.name for node in nodes if isinstance(node, binds) and node.name}
        known |= {
            (node.asname or node.name).partition(".")[0]
            for node in nodes
            if isinstance(node, ast.alias)
        }
        assert {node.id for node in names} <= known


def test_readme_is_short_and_its_links_lead_somewhere():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.encode()) <= 8192
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/internals/rooms.md"])
def test_files_that_are_named_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:gpuens|kernels|tests|docs|benchmarks)/[\w./]+)`", text)
    assert named and [path for path in named if not (ROOT / path).exists()] == []


def is_defined_in(module: Any, value: Any) -> bool:
    """Whether a value is a public class of a module that has no ``__all__``."""
    is_own = getattr(value, "__module__", None) == module.__name__
    return inspect.isclass(value) and is_own and not value.__name__.startswith("_")


def public_names() -> set[str]:
    """Full names of all that users may import."""
    names = {f"gpuens.{name}" for name in gpuens.__all__ if not name.startswith("_")}
    for submodule in SUBMODULES:
        module = import_module(f"gpuens.{submodule}")
        own = [name for name, value in vars(module).items() if is_defined_in(module, value)]
        names |= {f"gpuens.{submodule}.{name}" for name in getattr(module, "__all__", own)}
    return names


def test_every_public_name_is_in_the_reference():
    listed = set()
    for page in (ROOT / "docs" / "api").glob("*.rst"):
        module = None
        for line in page.read_text(encoding="utf-8").splitlines():
            if found := re.match(r"\.\. (?:current)?module:: (\S+)", line):
                module = found[1]
            elif found := re.match(r"   (\w+)$", line):
                listed.add(f"{module}.{found[1]}")
    assert listed == public_names()


def test_every_display_is_in_the_gallery():
    examples = [path.read_text(encoding="utf-8") for path in (ROOT / "docs/examples").glob("*.py")]
    displays = [name for name in plotting.__all__ if name.endswith("Display")]
    assert [d for d in displays if not any(f"{d}.from_" in text for text in examples)] == []


@pytest.mark.parametrize("row", support_matrix(), ids=lambda row: row[0][0])
def test_readme_says_what_estimators_support(row):
    names, cells = row
    for name in names:
        cls = getattr(gpuens, name)
        parameters = inspect.signature(cls).parameters
        takes_weights = "sample_weight" in inspect.signature(cls.fit).parameters
        assert cells["save"] == "✓" and hasattr(cls, "save")
        assert "device" in parameters and cells["CPU"] == "✓"
        if {"estimator", "estimators"} & set(parameters):
            assert cells["GPU"] == cells["categories"] == cells["missing values"] == "m"
        else:
            assert cells["GPU"] == cells["missing values"] == "✓"
            assert (cells["categories"] == "✓") == ("categorical_features" in parameters)
            assert cls().__sklearn_tags__().input_tags.allow_nan
        assert (cells["weights"] != "–") == takes_weights


def test_readme_names_every_estimator():
    estimators = {
        name
        for name in gpuens.__all__
        if not name.startswith("_")
        and isinstance(getattr(gpuens, name), type)
        and not name.endswith("SearchCV")
        and not name.startswith("Imported")  # which are not trained
        and issubclass(getattr(gpuens, name), BaseEstimator)
    }
    assert {name for names, _ in support_matrix() for name in names} == estimators
