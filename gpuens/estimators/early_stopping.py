"""When to stop adding trees."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass
class EarlyStopping:
    """Watches one metric on one data set.

    Parameters
    ----------
    patience : int
        Rounds without improvement before the training stops.
    tol : float
        What counts as improvement.
    higher_is_better : bool
    """

    patience: int
    tol: float
    higher_is_better: bool
    best: float = field(default=math.nan, init=False)
    best_iteration: int = field(default=0, init=False)
    _reference: float = field(default=math.nan, init=False)
    _reference_iteration: int = field(default=-1, init=False)

    def update(self, iteration: int, value: float) -> bool:
        """Take note of a round's value (rounds in ascending order); whether to stop."""
        score = value if self.higher_is_better else -value
        first = self._reference_iteration < 0
        if first or _improves(score, self.best):
            self.best, self.best_iteration = score, iteration
        if first or _improves(score, self._reference + self.tol):
            self._reference, self._reference_iteration = score, iteration
        return iteration - self._reference_iteration >= self.patience


def _improves(score: float, best: float) -> bool:
    """NaN is worse than any number."""
    return score > best or (math.isnan(best) and not math.isnan(score))
