"""The distribution: its packages, what importing it costs, and the wheel used elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pytest

import gpuens

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())


def packages_below(folder: Path, name: str) -> set[str]:
    """Every folder with Python files, as the package that it would be."""
    found = set()
    for path, folders, files in os.walk(folder):  # does not follow the link to kernels/
        folders[:] = [f for f in folders if f != "__pycache__"]
        if any(file.endswith(".py") for file in files):
            found.add(".".join((name, *Path(path).relative_to(folder).parts)))
    return found


def test_every_package_is_listed():
    folders = packages_below(ROOT / "gpuens", "gpuens")
    folders |= packages_below(ROOT / "kernels", "gpuens.kernels")
    assert set(SETTINGS["tool"]["setuptools"]["packages"]) == folders


def test_every_package_has_an_init_file():
    places = SETTINGS["tool"]["setuptools"]["package-dir"]
    for package in SETTINGS["tool"]["setuptools"]["packages"]:
        inside = package.removeprefix("gpuens.kernels") if "kernels" in package else package
        base = ROOT / places["gpuens.kernels"] if "kernels" in package else ROOT
        assert (base.joinpath(*inside.strip(".").split(".")) / "__init__.py").is_file(), package


def test_checkout_has_kernels_inside_gpuens():
    link = ROOT / "gpuens" / "kernels"
    assert link.is_symlink()
    assert os.readlink(link) == os.path.join("..", "kernels")


def test_public_names_are_those_of_the_module():
    assert set(gpuens.__all__) <= set(dir(gpuens))
    assert gpuens.show_config.__module__ == "gpuens.config"
    with pytest.raises(AttributeError, match="no attribute 'NoSuchEstimator'"):
        _ = gpuens.NoSuchEstimator


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
def wheel(tmp_path_factory):
    """The wheel of a copy of the sources, so that nothing built earlier gets into it."""
    source = tmp_path_factory.mktemp("source")
    for folder in ("gpuens", "kernels"):
        copytree(ROOT / folder, source / folder, True, ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        copy(ROOT / file, source)
    built = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index",
        "--quiet", "--wheel-dir", built, source, cwd=source,
    )  # fmt: skip
    (found,) = built.glob("*.whl")
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
    listing = run(sys.executable, "-m", "zipfile", "--list", wheel, cwd=wheel.parent)
    assert "licenses/LICENSE" in listing
    assert "gpuens/kernels/dispatch.py" in listing
    assert "tests/" not in listing


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
