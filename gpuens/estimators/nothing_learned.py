"""The warning of a model that is constant because numbers are too small."""

from __future__ import annotations

import warnings
from typing import Any

TINY_SPREAD = 1e-150
"""Range of a target below which squares of its deviations are not normal float64."""


class NothingLearnedWarning(UserWarning):
    """The model is constant, or nearly so, because the target or the weights are too small for the
    arithmetic of training. The message says by what to multiply them."""


def warn_of_tiny_targets(targets: list[Any]) -> None:
    """Warn of targets whose squared deviations are zero in float64."""
    for target in targets:
        spread = float(target.max()) - float(target.min())
        if 0.0 < spread < TINY_SPREAD:
            warn(
                f"y ranges over {spread:.3g} only: squares of that are zero in float64, and trees "
                "find no splits. Multiply y by a power of two, such as 2.0**500, and divide the "
                "predictions by it."
            )


def warn(message: str) -> None:
    """Warn the caller of ``fit``."""
    warnings.warn(message, NothingLearnedWarning, stacklevel=7)
