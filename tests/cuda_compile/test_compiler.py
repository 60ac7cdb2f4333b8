"""Whether the compiler of an environment works, and what is said where it does not."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from numba import config

if config.ENABLE_CUDASIM:
    pytest.skip("compiling needs a process without the simulator", allow_module_level=True)
pytest.importorskip("numba_cuda")
pytest.importorskip("cuda.bindings.nvjitlink")

from gpuens.devices import gpu_problems
from gpuens.kernels.runtime.cuda import compiling

DRIVER = (13, 0)
NEWEST_NUMPY = """
import warnings

import numpy as np

if hasattr(np, "row_stack"):  # as NumPy 2.5
    np.__all__ = [name for name in np.__all__ if name != "row_stack"]
    del np.row_stack
    timedelta64 = np.timedelta64

    def warning(*value):
        if len(value) == 1:
            text = "The 'generic' unit for NumPy timedelta is deprecated"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
        return timedelta64(*value)

    np.timedelta64 = warning

from gpuens.kernels.runtime.cuda import compiling

filters = list(warnings.filters)
compiling.numba_cuda()
assert not hasattr(np, "row_stack") and warnings.filters == filters
compiling.read_declarations()
"""


@pytest.mark.parametrize("simulated", [False, True])
def test_newest_numpy_serves_where_warnings_are_errors(simulated, monkeypatch):
    """Nothing of it is left behind."""
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", str(int(simulated)))
    code = NEWEST_NUMPY.split("filters =")[0] if simulated else NEWEST_NUMPY
    code += "from gpuens.kernels.runtime.cuda import target\n"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_numpys_namespace_stays_as_it_was():
    before = dict(vars(np))
    with compiling.newest_numpy_allowed():
        assert vars(np)["row_stack"] is before.get("row_stack", np.vstack)
    assert vars(np) == before
    with pytest.raises(ZeroDivisionError), compiling.newest_numpy_allowed():
        1 / 0  # noqa: B018
    assert vars(np) == before
    with pytest.raises(DeprecationWarning), compiling.newest_numpy_allowed():
        warnings.warn("another one", DeprecationWarning, stacklevel=1)


@pytest.mark.parametrize("capability", [(7, 5), (8, 9), (9, 0), (12, 0)])
def test_this_compiler_works(capability):
    assert gpu_problems._trial(capability, DRIVER, "cuda13") is None


def test_declarations_that_cannot_be_read(monkeypatch):
    def fail():
        raise AttributeError("module 'numpy' has no attribute 'stack_of_rows'")

    monkeypatch.setattr(compiling, "read_declarations", fail)
    problem = gpu_problems._trial((9, 0), DRIVER, "cuda13")
    assert problem.startswith(f"numba-cuda 0.30.4 does not work with NumPy {np.__version__} and ")
    assert "(AttributeError: module 'numpy' has no attribute 'stack_of_rows'). Run: pip" in problem


@pytest.mark.parametrize("name", ["libNVVM", "NVRTC", "libdevice"])
def test_a_missing_library(monkeypatch, name):
    from numba.cuda.cudadrv import nvrtc, nvvm

    def fail(*args):
        raise RuntimeError("Failure finding it:\n  No such file")

    places = {
        "libNVVM": (nvvm, "NVVM"),
        "NVRTC": (nvrtc, "get_arch_option"),
        "libdevice": (nvvm, "LibDevice"),
    }
    monkeypatch.setattr(*places[name], fail)
    problem = gpu_problems._trial((9, 0), DRIVER, "cuda13")
    assert problem.startswith("numba-cuda does not find libNVVM, NVRTC or libdevice")
    assert "(RuntimeError: Failure finding it: No such file). Run: pip install" in problem
    assert problem.endswith("'gpuens[cuda13]', or install the CUDA toolkit and set CUDA_HOME")


def test_an_architecture_that_the_compiler_does_not_know(monkeypatch):
    """NVRTC is asked for it, and libNVVM is of an older CUDA."""
    from numba.cuda.cudadrv import nvrtc

    monkeypatch.setattr(nvrtc, "get_arch_option", lambda *cc: "compute_{}{}{}".format(*cc))
    problem = gpu_problems._trial((99, 0), DRIVER, "cuda13")
    assert "do not know compute capability 99.0 (" in problem


@pytest.mark.parametrize("has_nvjitlink", [True, False])
def test_libnvvm_of_a_later_generation(monkeypatch, has_nvjitlink):
    """The real linker refuses its PTX."""
    ptx = compiling.trial_ptx
    release = ".".join(map(str, compiling.nvjitlink_version()))

    def later(capability):
        text = ptx(capability)
        version = text.split(".version ")[1].split("\n")[0]
        return text.replace(f".version {version}", ".version 99.9").replace(
            f"release {compiling.release_of(text)}", "release 99.9"
        )

    monkeypatch.setattr(compiling, "trial_ptx", later)
    if not has_nvjitlink:
        monkeypatch.setattr(compiling, "nvjitlink_version", lambda: None)
    problem = gpu_problems._trial((9, 0), DRIVER, "cuda13")
    linker = (
        f"nvJitLink of CUDA {release}" if has_nvjitlink else "the driver, of CUDA 13.0, without"
    )
    assert problem.startswith(f"libNVVM of CUDA 99.9 writes code that {linker}")
    assert "Install both of one version: pip install --upgrade 'gpuens[cuda13]'" in problem
