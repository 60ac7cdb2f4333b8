"""CPU kernels for formulas that come from outside of this package."""

from __future__ import annotations

import functools
from typing import Any

from numba import njit

from ...scalars.losses import is_custom


def compiled_for(kernel: Any, loss: Any) -> Any:
    """The kernel itself, or for a custom loss a copy that is compiled anew in every process:
    the cache on disk would not notice a change of the loss's functions."""
    return _compiled_for_custom(kernel, type(loss)) if is_custom(type(loss)) else kernel


@functools.lru_cache(maxsize=64)
def _compiled_for_custom(kernel: Any, cls: type) -> Any:
    compile_kernel = njit(nogil=True, error_model="numpy", boundscheck=False, no_cfunc_wrapper=True)
    return compile_kernel(kernel.py_func)
