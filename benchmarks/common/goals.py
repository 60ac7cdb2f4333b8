"""Goals: what was measured beside the most that it should be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .markdown import number, table

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Goal:
    """One goal: ``what`` is a noun phrase in the singular, ``instead`` is shown where a measurement
    is missing. Without ``at_most`` the value is reported and has no goal."""

    what: str
    at_most: float | None
    measured: float | None
    unit: str = ""
    instead: str = NOT_MEASURED

    @property
    def reached(self) -> bool | None:
        """None without a goal or a measurement."""
        if self.at_most is None or self.measured is None:
            return None
        return self.measured <= self.at_most

    @property
    def limit(self) -> str:
        return "" if self.at_most is None else f"{self.at_most:g} {self.unit}".strip()

    @property
    def value(self) -> str:
        return self.instead if self.measured is None else number(self.measured, self.unit)

    def sentence(self) -> str:
        """Return the measurement and the goal as a sentence."""
        if self.at_most is None:
            return f"{self.what} is {self.value}."
        return f"{self.what} is {self.value}; the goal is at most {self.limit}."


def goals_table(goals: Iterable[Goal]) -> str:
    """Return every goal beside its measurement."""
    reached = {True: "yes", False: "**no**", None: ""}
    rows = [[goal.what, goal.limit, goal.value, reached[goal.reached]] for goal in goals]
    return table(["", "goal, at most", "measured", "reached"], rows) if rows else ""


def measured(results: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a result that hold more than gaps and have not failed."""
    return {
        name: part
        for name, part in results.items()
        if name != "gaps" and set(part) != {"gaps"} and "failed" not in part
    }
