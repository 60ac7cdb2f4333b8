"""What every case of ``gpu_check`` has: the card, contestants that take turns, and a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from ..common.timing import compare, interleaved
from .card import Card

OURS, ON_CPU, XGBOOST = "gpuens", "gpuens on the CPU", "XGBoost"
Action = Callable[[], Any]


@dataclass
class Bench:
    """The surroundings of a case.

    Parameters
    ----------
    card : Card
    repeats : int
        Rounds of what is short.
    threads : int
        Of everything that runs on the host.
    deadline : float
        By ``time.monotonic()``, when the case must be done.
    rehearsal : bool
        Tables are tiny, and contestants work on the host.
    """

    card: Card
    repeats: int = 3
    threads: int = 2
    deadline: float = float("inf")
    rehearsal: bool = False
    gaps: dict[str, str] = field(default_factory=dict)
    """Contestants that a case misses, and why."""

    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()

    def rows(self, n: int) -> int:
        """Rows of a table, or of its miniature."""
        return min(n, 80) if self.rehearsal else n

    def features(self, n: int) -> int:
        """Columns of a generated table, or of its miniature."""
        return min(n, 6) if self.rehearsal else n

    def classes(self, n: int) -> int:
        """Classes of a target, or of that of a miniature."""
        return min(n, 5) if self.rehearsal else n

    def trees(self, n: int) -> int:
        """Trees of a model, or of its miniature."""
        return min(n, 2) if self.rehearsal else n

    def depth(self, n: int) -> int:
        """Depth of trees, or of those of a miniature."""
        return min(n, 3) if self.rehearsal else n

    @property
    def xgboost_device(self) -> str:
        return "cpu" if self.rehearsal else "cuda"

    def waiting(self, action: Action) -> Action:
        """The same, done when the card is."""

        def wait() -> Any:
            result = action()
            self.card.synchronise()
            return result

        return wait

    def contest(
        self, actions: Mapping[str, Action], repeats: int | None = None, share: float = 0.8
    ) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """Let contestants take turns on the clock.

        One that fails is out of it and stands in ``gaps``.

        Parameters
        ----------
        actions : dict of str to callable
        repeats : int, optional
            Rounds; ours if not given.
        share : float
            Of the time that is left; no round starts after it.

        Returns
        -------
        libraries : dict of str to dict
            Times and ratios by contestant, as ``timing.compare`` says.
        results : dict of str to object
            What each returned last.
        """
        failed: dict[str, str] = {}

        def guarded(name: str) -> Action:
            action = self.waiting(actions[name])

            def call() -> Any:
                if name not in failed:
                    try:
                        return action()
                    except Exception as error:
                        failed[name] = short(error)
                        print(f"  {name} failed: {failed[name]}", flush=True)
                        if name == OURS:
                            raise
                return None

            return call

        budget = max(0.0, share * self.left())
        guarded_actions = {name: guarded(name) for name in actions}
        seconds, results = interleaved(
            guarded_actions, repeats or self.repeats, self.threads, budget
        )
        self.gaps.update(failed)
        seconds = {name: runs for name, runs in seconds.items() if name not in failed}
        results = {name: results[name] for name in seconds}
        if OURS in seconds:
            return compare(seconds, OURS), results
        return {
            n: {"seconds": runs, "median": median(runs)} for n, runs in seconds.items()
        }, results


def short(error: BaseException, most: int = 400) -> str:
    """An exception in one line."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= most else text[: most - 1] + "…"
