"""Reasons why the GPUs of a machine cannot be used."""

from __future__ import annotations

import ctypes
import functools
import os
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from ..kernels.runtime.cuda import errors
from ..kernels.runtime.system import cuda_driver

OLDEST_DRIVER = 12
"""Major version of CUDA that the driver must support."""
OLDEST_CUPY = 14
"""Major version of CuPy whose results have the types of NumPy 2's."""
OLDEST_CARD = (7, 5)
"""Compute capability that a GPU must have."""
PACKAGES = (("CuPy", "cupy"), ("cuda-bindings", "cuda.bindings"), ("cuda-core", "cuda.core"))
"""Packages that GPUs need, and a module of each."""
CUDA_OF_WHEELS = 13
"""Major version of CUDA whose drivers take the machine code of wheels."""
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
    """Return why kernels cannot be compiled, found by compiling and linking something.

    The compiler is not needed where all GPUs have kernels that came compiled.
    """
    for capability in _compiled_for(driver):
        package, module = COMPILER
        if not _is_installed(module):
            return f"{_not_installed(package, extra)}{_or_the_wheel(driver)}"
        if problem := _trial(capability, driver, extra):
            return problem
    return None


def _compiled_for(driver: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the compute capabilities of usable GPUs that no kernels came for which the driver
    takes: they are compiled here."""
    import cupy

    from ..kernels.runtime.cuda import precompiled

    runtime = cupy.cuda.runtime
    properties = map(runtime.getDeviceProperties, range(runtime.getDeviceCount()))
    capabilities = {(int(card["major"]), int(card["minor"])) for card in properties}
    usable = sorted(capability for capability in capabilities if capability >= OLDEST_CARD)
    return [capability for capability in usable if not precompiled.has_code_for(capability, driver)]


def _or_the_wheel(driver: tuple[int, int]) -> str:
    """Return how an installation from sources does without a compiler: no wheel has machine code
    for drivers of CUDA 12."""
    from ..kernels.runtime.cuda import precompiled

    if driver[0] < CUDA_OF_WHEELS or any(precompiled.FOLDER.glob("cuda-*.xz")):
        return ""
    return ". Or install the wheel of `make wheels`, which brings compiled kernels"


def _trial(capability: tuple[int, int], driver: tuple[int, int], extra: str) -> str | None:
    """Return why nothing can be compiled for a compute capability, None if it can."""
    from ..kernels.runtime.cuda import compiling

    command = f"pip install --upgrade 'gpuens[{extra}]'"
    try:
        compiling.read_declarations()
    except Exception as error:  # here and below: of several libraries, with types of their own
        return (
            f"numba-cuda {_version('numba-cuda')} does not work with NumPy {_version('numpy')} and "
            f"Numba {_version('numba')} ({_text_of(error)}). Run: {command}"
        )
    try:
        ptx = compiling.trial_ptx(capability)
    except Exception as error:
        return (
            "numba-cuda does not find libNVVM, NVRTC or libdevice, its compiler, or they do not "
            f"know compute capability {capability[0]}.{capability[1]} ({_text_of(error)}). Run: "
            f"{command}, or install the CUDA toolkit and set CUDA_HOME"
        )
    try:
        compiling.link_trial(ptx, capability)
    except Exception as error:
        linker = compiling.nvjitlink_version()
        name = f"nvJitLink of CUDA {linker[0]}.{linker[1]}" if linker else (
            f"the driver, of CUDA {driver[0]}.{driver[1]}, without nvJitLink"
        )  # fmt: skip
        return (
            f"libNVVM of CUDA {compiling.release_of(ptx)} writes code that {name} does not link "
            f"({_text_of(error)}). Install both of one version: {command}"
        )
    return None


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of an unknown version"


def _text_of(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


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


def explain(device: str, error: Exception) -> None:
    """Raise a MemoryError with the free bytes if an error means that a GPU has too few, and a
    RuntimeError if it means that the GPU is lost."""
    import cupy

    name = errors.name_in(error)
    if isinstance(error, cupy.cuda.memory.OutOfMemoryError) or name in errors.MEMORY:
        memory = "the free memory is unknown"
        with suppress(Exception):  # which needs memory too where the GPU has no context yet
            free, total = cupy.cuda.runtime.memGetInfo()
            memory = f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB are free"
        raise MemoryError(
            f"{device} has not enough memory for this data: {memory} ({error}). Free memory that "
            "other arrays or programs hold, pass fewer rows or float32 values, or use "
            "device='cpu'."
        ) from error
    if name in errors.LOST and errors.REMEDIES[name] not in str(error):
        raise RuntimeError(f"{device} has stopped: {errors.remedy(name)}") from error
