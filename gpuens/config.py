"""Versions, devices, threads and the cache of compiled kernels that gpuens uses."""

from __future__ import annotations

import os
import platform
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .devices.gpu_problems import driver_version
from .devices.placement import gpu_problem, simulated
from .devices.policy import thresholds
from .devices.threads import available_threads
from .kernels.runtime import kernel_origins, native

PACKAGES = ("numpy", "numba", "numba-cuda", "scikit-learn", "array-api-compat", "narwhals")
CUPY_PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "cupy")


def show_config() -> dict[str, Any]:
    """Print versions, devices, threads and where kernels come from, for a report or a question.

    Returns
    -------
    dict
        What was printed. ``gpus`` holds one dict for each usable GPU, and ``gpu_problem``
        says why there is none. ``gpu_pays`` holds the sizes from which ``device="auto"`` gives
        data in host memory to a GPU, by kind of work. ``kernels`` holds where those of the CPU come
        from: ``source``, a native library or the reason why Numba compiles all of them, and of this
        process the kernels that ran from the library (``native``) and those that it did not have,
        with the number of calls (``missed``). ``gpu`` holds the names of those of GPUs, by where
        they came from: ``cubin`` and ``PTX``, which the wheel brings, or ``compiled``.

    Examples
    --------
    >>> import gpuens
    >>> config = gpuens.show_config()  # doctest: +ELLIPSIS
    gpuens ...
    >>> config["gpuens"] == gpuens.__version__
    True
    """
    config = _collect()
    for key, value in config.items():
        if key == "gpus":
            for gpu in value:
                capability = ".".join(gpu["compute_capability"])
                print(
                    f"{'GPU ' + str(gpu['index']):<18}{gpu['name']}, {gpu['memory_gib']:.1f} GiB, "
                    f"compute capability {capability}"
                )
        elif key == "gpu_pays":
            for work, sizes in value.items():
                print(f"{'GPU pays':<18}{work} of host data: {sizes} (estimate)")
        elif key == "kernels":
            print(f"{key:<18}{value['source']}")
            for name, calls in value["missed"].items():
                print(f"{'compiled kernel':<18}{name} ({calls} calls)")
            if any(value["gpu"].values()):
                counts = (f"{len(names)} {origin}" for origin, names in value["gpu"].items())
                print(f"{'CUDA kernels':<18}{', '.join(counts)}")
        elif value is not None:
            print(f"{key.replace('_', ' '):<18}{value}")
    return config


def _collect() -> dict[str, Any]:
    from . import __version__

    driver = driver_version()
    problem = "NUMBA_ENABLE_CUDASIM=1: kernels run in the simulator" if simulated() else None
    problem = problem or gpu_problem()
    return {
        "gpuens": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{package: _version(package) for package in PACKAGES},
        "cupy": next(filter(None, map(_version, CUPY_PACKAGES)), None) or "not installed",
        "cuda_driver": "none" if driver is None else f"CUDA {driver[0]}.{driver[1]}",
        "gpus": [] if problem else _gpus(),
        "gpu_problem": problem,
        "gpu_pays": thresholds(),
        "threads": available_threads(),
        "threading": "gpuens' own team of threads, started on first use",
        "kernels": _kernels(),
        "kernel_cache": str(kernel_cache()),
    }


def _kernels() -> dict[str, Any]:
    library, on_gpu = native.source(), {"gpu": kernel_origins.of_cuda()}
    if not isinstance(library, native.Library):
        return {"source": f"compiled by Numba: {library}", "native": [], "missed": {}, **on_gpu}
    missed: Counter[str] = Counter()
    for (name, _), calls in library.missed.items():
        missed[name] += calls
    source = f"native library for {library.level}"
    return {"source": source, "native": sorted(library.used), "missed": dict(missed), **on_gpu}


def kernel_cache() -> Path:
    """Return the folder in which Numba keeps compiled CPU kernels between processes.

    ``NUMBA_CACHE_DIR`` moves it.
    """
    from numba.core import config
    from numba.misc.appdirs import AppDirs

    from . import kernels

    chosen = getattr(config, "CACHE_DIR", "")
    if chosen:
        return Path(chosen)
    beside = Path(kernels.__path__[0]).resolve() / "cpu" / "__pycache__"
    writable = next(folder for folder in (beside, *beside.parents) if folder.exists())
    if os.access(writable, os.W_OK):
        return beside
    return Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _gpus() -> list[dict[str, Any]]:
    import cupy

    found = []
    for index in range(cupy.cuda.runtime.getDeviceCount()):
        properties = cupy.cuda.runtime.getDeviceProperties(index)
        found.append(
            {
                "index": index,
                "name": properties["name"].decode(),
                "memory_gib": properties["totalGlobalMem"] / 2**30,
                "compute_capability": (str(properties["major"]), str(properties["minor"])),
            }
        )
    return found
