"""Messages to people who wait while kernels are compiled."""

from __future__ import annotations

import sys
import time

from .system import ForkSafeLock

_lock = ForkSafeLock()


class CompilationWatch:
    """Counts the kernels that are compiled, and prints a line when the first of them is."""

    def __init__(self) -> None:
        self._n_kernels, self._seconds, self._since = 0, 0.0, 0.0
        self._announced = False
        self.is_due = False  # to be summed up

    def start(self, folder: str) -> None:
        """Note that a kernel is compiled now, and announce the first one."""
        with _lock.held:
            self._n_kernels += 1
            self._since = time.perf_counter()
            announced, self._announced = self._announced, True
            self.is_due = self.is_due or not announced
        if not announced and sys.stderr is not None:
            print(
                "gpuens compiles kernels at their first use: once, for up to a minute. Later "
                f"processes load them from {folder}; gpuens.warmup() compiles them ahead."
                f"{_advice()}",
                file=sys.stderr,
                flush=True,
            )

    def finish(self) -> None:
        """Note that the kernel is compiled; Numba compiles one at a time."""
        with _lock.held:
            self._seconds += time.perf_counter() - self._since

    def sum_up(self) -> None:
        """Print, after the first work that compiled kernels, how many they were and how long it
        took, if a person reads it: in a terminal or a notebook. To be called where ``is_due``.
        """
        self.is_due = False
        if sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules):
            seconds = f"{self._seconds:.1f} s"
            print(f"gpuens compiled {self._n_kernels} kernels in {seconds}.", file=sys.stderr)


def _advice() -> str:
    """Return what an installation from sources lacks, beside the wheel."""
    from .native import is_from_sources  # here, so that no kernel is stamped with that file

    if not is_from_sources():
        return ""
    return (
        " It was installed from sources: the wheel that `make wheels` writes into dist/ of a "
        "checkout brings the kernels of the CPU and of GPUs compiled."
    )


watch = CompilationWatch()
"""The messages of this process."""
