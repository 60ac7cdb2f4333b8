"""Reasons why the GPUs of a machine cannot be used."""

from __future__ import annotations

import ctypes
import functools
import os
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from ..kernels.runtime.system import cuda_driver

OLDEST_DRIVER = 12
"""Major version of CUDA that the driver must support."""
OLDEST_CUPY = 14
"""Major version of CuPy whose results have the types of NumPy 2's."""
OLDEST_CARD = (7, 5)
"""Compute capability that a GPU must have."""
PACKAGES = (("CuPy", "cupy"), ("cuda-bindings", "cuda.bindings"), ("cuda-core", "cuda.core"))
"""Packages that GPUs need, and a module of each."""
COMPILER = ("numba-cuda", "numba_cuda")
"""The package that kernels are compiled with which did not come compiled."""
LIBRARY_WORDS = (
    "failed to load",
    "cannot open shared object",
    ".so",
    ".dll",
    "header",
    "cuda_path",
)
"""Parts of the errors that CuPy raises when a library or header of CUDA is missing."""


@functools.cache
def gpu_problem() -> str | None:
    """Return why the GPUs of this machine cannot be used, None if they can.

    Determined once a process.
    """
    if os.environ.get("NUMBA_DISABLE_CUDA", "0") not in ("", "0"):
        return "NUMBA_DISABLE_CUDA=1 keeps kernels from being compiled. Unset it"
    driver = driver_version()
    if driver is None:
        return (
            "no NVIDIA driver was found. Install the driver of the GPU, or use device='cpu' "
            "on a machine without one"
        )
    if driver[0] < OLDEST_DRIVER:
        return (
            f"the NVIDIA driver supports CUDA {driver[0]}.{driver[1]}, at least "
            f"{OLDEST_DRIVER}.0 is needed. Update the driver"
        )
    extra = f"cuda{min(driver[0], 13)}"
    for package, module in PACKAGES:
        if not _is_installed(module):
            return _not_installed(package, extra)
    built_for = _major_version("cuda-bindings")
    if built_for is not None and built_for > driver[0]:
        return _too_new("cuda-bindings", built_for, driver, f"pip install 'gpuens[{extra}]'")
    return _cupy_problem(driver, extra) or _compiler_problem(driver, extra)


def _not_installed(package: str, extra: str) -> str:
    return f"the package {package} is not installed. Run: pip install 'gpuens[{extra}]'"


def _too_new(package: str, built_for: int, driver: tuple[int, int], command: str) -> str:
    return (
        f"{package} is installed for CUDA {built_for}, and the NVIDIA driver supports CUDA "
        f"{driver[0]}.{driver[1]}. Update the driver, or run: {command}"
    )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # nor is the package that it is in
        return False


def _major_version(package: str) -> int | None:
    try:
        return int(version(package).split(".")[0])
    except (PackageNotFoundError, ValueError):
        return None


@functools.cache
def card_problem(index: int) -> str | None:
    """Return why one of the GPUs cannot be used, None if it can."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(index)
    capability = properties["major"], properties["minor"]
    if capability >= OLDEST_CARD:
        return None
    return (
        f"cuda:{index} ({properties['name'].decode()}) has compute capability {capability[0]}."
        f"{capability[1]}, at least {OLDEST_CARD[0]}.{OLDEST_CARD[1]} (Turing, 2018) is needed. "
        "Use device='cpu', or a newer GPU by device='cuda:<number>' or CUDA_VISIBLE_DEVICES"
    )


def driver_version() -> tuple[int, int] | None:
    """Return the CUDA version that the driver supports, None without a driver."""
    try:
        driver = cuda_driver()
    except OSError:
        return None
    version = ctypes.c_int()
    if driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return version.value // 1000, version.value % 1000 // 10


def _compiler_problem(driver: tuple[int, int], extra: str) -> str | None:
    """Return why kernels cannot be compiled: numba-cuda alone comes without the compiler.

    It is not needed where all GPUs have kernels that came compiled.
    """
    if _came_compiled(driver):
        return None
    package, module = COMPILER
    if not _is_installed(module):
        return _not_installed(package, extra)
    try:
        _load_compiler()
    except Exception as error:  # of several libraries, with types of their own
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return (
            f"numba-cuda does not find the compiler of CUDA, libNVVM and nvJitLink ({text}). Run: "
            f"pip install 'gpuens[{extra}]', or install the CUDA toolkit and set CUDA_HOME"
        )
    return None


def _came_compiled(driver: tuple[int, int]) -> bool:
    """Return whether compiled kernels that the driver takes came for every usable GPU."""
    import cupy

    from ..kernels.runtime.cuda import ahead

    runtime = cupy.cuda.runtime
    properties = map(runtime.getDeviceProperties, range(runtime.getDeviceCount()))
    capabilities = {(int(card["major"]), int(card["minor"])) for card in properties}
    usable = (capability for capability in capabilities if capability >= OLDEST_CARD)
    return all(ahead.has_code_for(capability, driver) for capability in usable)


def _load_compiler() -> None:
    from ..kernels.runtime.cuda.compiling import load_compiler

    load_compiler()


def _cupy_problem(driver: tuple[int, int], extra: str) -> str | None:
    """Return why CuPy does not work, found by an allocation and a computation."""
    try:
        import cupy

        if int(cupy.__version__.split(".")[0]) < OLDEST_CUPY:
            return (
                f"CuPy {cupy.__version__} is installed, at least {OLDEST_CUPY} is needed: results "
                "of older versions have other types than NumPy's. Run: pip install --upgrade "
                f"'gpuens[{extra}]'"
            )
        built_for = cupy.cuda.runtime.runtimeGetVersion() // 1000
        if built_for > driver[0]:
            command = f"pip uninstall cupy-cuda{built_for}x, then pip install 'gpuens[{extra}]'"
            return _too_new("CuPy", built_for, driver, command)
        if cupy.cuda.runtime.getDeviceCount() == 0:
            raise RuntimeError("it lists no device")
        cupy.zeros(1) + 1  # compiles a kernel, for which libraries are needed
    except Exception as error:  # a broken installation can raise anything
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, ImportError) or any(w in text.lower() for w in LIBRARY_WORDS):
            return (
                f"CuPy does not find the libraries of CUDA ({text}). Run: "
                f"pip install 'gpuens[{extra}]' 'cupy-cuda{min(driver[0], 13)}x[ctk]', or install "
                "the CUDA toolkit and set CUDA_PATH"
            )
        return (
            f"CuPy finds no device that works ({text}). Compare with "
            "the output of nvidia-smi and with CUDA_VISIBLE_DEVICES"
        )
    return None
