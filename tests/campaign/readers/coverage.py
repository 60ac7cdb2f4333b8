"""Edges: the pairs of lines that a function of the library ran one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

Edge = tuple[CodeType, int, int]


class Edges:
    """Collects the edges in the modules of some folders.

    Parameters
    ----------
    folders : tuple of str
        Beginnings of the paths of modules.

    Attributes
    ----------
    seen : set of Edge
    """

    def __init__(self, folders: tuple[str, ...]) -> None:
        self.folders = folders
        self.seen: set[Edge] = set()
        self._before: dict[int, int] = {}

    def run(self, function: Callable[[], Any]) -> int:
        """Call a function and return the number of edges that had not been seen. Its error is
        raised once they are counted."""
        n, outer = len(self.seen), sys.gettrace()
        self.new = 0
        sys.settrace(self._enter)
        try:
            function()
        finally:
            sys.settrace(outer)
            self._before.clear()
            self.new = len(self.seen) - n
        return self.new

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self.folders):
            return None
        self._before[id(frame)] = -1
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            line = frame.f_lineno
            self.seen.add((frame.f_code, self._before.get(id(frame), -1), line))
            self._before[id(frame)] = line
        return self._step
