"""Messages to people who wait while kernels are compiled."""

from __future__ import annotations

import sys
import time

from .locks import ForkSafeLock

_lock = ForkSafeLock()


class CompilationWatch:
    """Counts the kernels that are compiled, and tells the first fit's user about them."""

    def __init__(self) -> None:
        self._n_kernels, self._seconds, self._since = 0, 0.0, 0.0
        self._announced = self._summed_up = False

    def start(self, folder: str) -> None:
        """Note that a kernel is compiled now, and announce the first one."""
        with _lock.held:
            self._n_kernels += 1
            self._since = time.perf_counter()
            announced, self._announced = self._announced, True
        if not announced:
            _tell(
                "gpuens compiles kernels at their first use: once, for up to a minute. Later "
                f"processes load them from {folder}; gpuens.warmup() compiles them ahead."
                f"{_advice()}"
            )

    def finish(self) -> None:
        """Note that the kernel is compiled; Numba compiles one at a time."""
        with _lock.held:
            self._seconds += time.perf_counter() - self._since

    def sum_up(self) -> None:
        """Say, after the first work that compiled kernels, how many they were and how long it
        took."""
        if not self._announced or self._summed_up:
            return
        self._summed_up = True
        _tell(f"gpuens compiled {self._n_kernels} kernels in {self._seconds:.1f} s.")


def _advice() -> str:
    """Return what an installation from sources lacks, beside the wheel."""
    from .native import is_from_sources  # here, so that no kernel is stamped with that file

    if not is_from_sources():
        return ""
    return (
        " It was installed from sources: the wheel that `make wheels` writes into dist/ of a "
        "checkout brings the kernels of the CPU and of GPUs compiled."
    )


def _tell(message: str) -> None:
    """Print to stderr if a person reads it: a terminal or a notebook."""
    reads = sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)
    if reads:
        print(message, file=sys.stderr)


watch = CompilationWatch()
"""Of this process."""
