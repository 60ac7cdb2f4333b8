"""Kernels that tests write around functions of the CPU's kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from gpuens.kernels.runtime.compilation import CpuKernel
from gpuens.kernels.runtime.disk import made_safe
from gpuens.kernels.runtime.source_stamps import stamp_of_sources


class TestedKernel(CpuKernel):
    """A kernel that is kept on disk until a source of ``module`` changes: the stamp of its own file
    knows nothing of those, which tests import by their full names."""

    module: ModuleType

    def _make(self, numba: ModuleType) -> Any:
        assert self.module.__file__ is not None
        compiled = self._make_callable(numba)
        compiled.enable_caching()
        made_safe(compiled._cache._cache_file, stamp_of_sources(Path(self.module.__file__)))
        return compiled


def kernel_around(module: ModuleType) -> Callable[[Callable[..., Any]], TestedKernel]:
    """Decorate a kernel that calls functions of a module, or of those that it imports."""

    def decorate(function: Callable[..., Any]) -> TestedKernel:
        made = TestedKernel(function, {"nogil": True, "error_model": "numpy"})
        made.module = module
        return made

    return decorate
