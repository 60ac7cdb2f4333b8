"""The modules that hold CUDA kernels."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import gpuens.kernels


def cuda_modules() -> list[ModuleType]:
    """Import and return every module under ``kernels/*/cuda/``, and the catalogue."""
    root = Path(gpuens.kernels.__path__[0])
    names = [".".join(path.relative_to(root).with_suffix("").parts)
             for path in sorted(root.glob("*/cuda/*.py"))]  # fmt: skip
    return [import_module(f"gpuens.kernels.{name}") for name in [*names, "catalogue"]]
