"""The distribution: its packages, what importing it costs, and the wheel used elsewhere."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from importlib import import_module
from inspect import ismodule
from pathlib import Path
from shutil import copytree, ignore_patterns
from zipfile import ZipFile

import pytest

import gpuens

ROOT = Path(__file__).resolve().parents[2]


def modules() -> set[str]:
    """The files that a wheel must hold."""
    found = {"gpuens/py.typed"}
    for path in (*ROOT.glob("gpuens/**/*.py"), *ROOT.glob("kernels/**/*.py")):
        name = path.relative_to(ROOT).as_posix()
        found.add(name if name.startswith("gpuens/") else f"gpuens/{name}")
    return found


def test_checkout_has_kernels_inside_gpuens():
    """Without a symbolic link, which a checkout on Windows lacks."""
    assert import_module("gpuens.kernels").__path__ == [str(ROOT / "kernels")]
    assert not any(path.is_symlink() for path in (ROOT / "gpuens").iterdir())


def test_citation_names_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {gpuens.__version__}\n" in text


def test_public_names_are_those_of_the_module():
    rooms = {name for name in dir(gpuens) if ismodule(getattr(gpuens, name))}
    assert set(dir(gpuens)) - rooms == set(gpuens.__all__)
    assert "plotting" in rooms and "annotations" not in dir(gpuens)
    assert gpuens.show_config.__module__ == "gpuens.config"
    with pytest.raises(AttributeError, match="no attribute 'NoSuchEstimator'"):
        _ = gpuens.NoSuchEstimator


def test_editors_see_the_lazy_names():
    """The imports for type checkers and the table of homes name the same modules."""
    tree = ast.parse((ROOT / "gpuens" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    homes, rooms = {}, set()
    for node in block.body:
        for alias in node.names:
            assert alias.asname == alias.name
            if node.module:
                homes[alias.name] = node.module
            else:
                rooms.add(alias.name)
    assert homes == gpuens._HOME
    assert rooms == set(gpuens._ROOMS)


def test_public_modules_are_attributes():
    """Each by the package's own door: what the import of another room has set is taken away."""
    code = (
        "import gpuens\n"
        "for room in gpuens._ROOMS:\n"
        "    vars(gpuens).pop(room, None)\n"
        "    print(getattr(gpuens, room).__name__, room in dir(gpuens))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    expected = [f"gpuens.{room} True" for room in gpuens._ROOMS]
    assert expected and result.stdout.splitlines() == expected


def test_import_is_cheap():
    code = (
        "import gpuens, sys\n"
        "heavy = {'numpy', 'numba', 'sklearn', 'pandas', 'polars', 'pyarrow', 'cupy', 'torch',"
        " 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert (result.stdout.strip(), result.stderr) == ("[]", "")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy of the checkout without git's files and all that is built."""
    folder = tmp_path_factory.mktemp("source") / "gpuens"
    built = ("__pycache__", "prebuilt", "build", "dist", "_build", "gallery", "generated", "sg_*")
    copytree(ROOT, folder, ignore=ignore_patterns(".*", "*.egg-info", "demo-output", *built))
    return folder


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    return built_wheel(source, tmp_path_factory.mktemp("wheel"))


def built_wheel(source, folder):
    run(
        sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index",
        "--quiet", "--wheel-dir", folder, source, cwd=folder,
    )  # fmt: skip
    (found,) = folder.glob("*.whl")
    return found


def run(*command, cwd):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    result = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_wheel_is_pure_python_and_carries_its_license(wheel):
    assert wheel.name == f"gpuens-{gpuens.__version__}-py3-none-any.whl"
    names = set(ZipFile(wheel).namelist())
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name for name in names if ".dist-info/" not in name} == modules()


@pytest.mark.slow
def test_wheel_of_the_source_distribution_is_the_same(source, wheel, tmp_path):
    """And the distribution holds all that tests, documentation and wheels are made of."""
    files = (path.relative_to(source) for path in source.rglob("*") if path.is_file())
    expected = {path.as_posix() for path in files if path.parts[0] != "build"}
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    run(sys.executable, "-c", code, cwd=source)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        assert {name.partition("/")[2] for name in members.getnames()} >= expected
    assert set(ZipFile(built_wheel(archive, tmp_path)).namelist()) == set(ZipFile(wheel).namelist())


@pytest.mark.slow
def test_wheel_fits_a_model_outside_the_checkout(wheel, tmp_path):
    """In an environment of its own, which sees this one's other packages behind its own."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index",
        "--quiet", wheel, cwd=tmp_path,
    )  # fmt: skip
    folder = run(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path
    )
    others = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (Path(folder.strip()) / "others.pth").write_text("\n".join(others))
    code = (
        "import gpuens, gpuens.kernels, numpy as np\n"
        "from sklearn.datasets import make_friedman1\n"
        "X, y = make_friedman1(500, random_state=0)\n"
        "model = gpuens.GradientBoostingRegressor(n_estimators=30, device='cpu').fit(X, y)\n"
        "print(gpuens.__file__, gpuens.kernels.__file__, sep='\\n')\n"
        "print(model.score(X, y) > 0.8)"
    )
    package, kernels, accurate = run(python, "-W", "error", "-c", code, cwd=tmp_path).split()
    for file in (package, kernels):
        assert Path(file).resolve().is_relative_to((tmp_path / "env").resolve())
    assert accurate == "True"
