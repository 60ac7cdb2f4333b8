"""One figure, and what all of their readers need."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Any

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Figure:
    """One line of the table: what, at most how much, and what was measured.

    Parameters
    ----------
    what : str
    at_most : float or None
        None: it is told, nothing is asked of it.
    measured : float or None
        None: see ``instead``.
    unit : str
    instead : str
        What is said in the place of a missing measurement.
    below : bool
        Whether the limit itself is too much.
    """

    what: str
    at_most: float | None
    measured: float | None
    unit: str = ""
    instead: str = NOT_MEASURED
    below: bool = False

    @property
    def reached(self) -> bool | None:
        """None where nothing was asked or measured."""
        if self.at_most is None or self.measured is None:
            return None
        return self.measured < self.at_most if self.below else self.measured <= self.at_most


def measured_parts(part: dict[str, Any]) -> dict[str, Any]:
    """Without what was missing."""
    return {name: row for name, row in part.items() if name != "gaps" and "gaps" not in row}


def our_error(row: dict[str, Any]) -> float:
    """Our mean error."""
    return fmean(row["errors"]["gpuens"])
