"""The codes of a table in a mapped file, which growth on the CPU reads in the order of the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class StreamedCodes(NamedTuple):
    """``Codes`` that do not fit into memory beside what training takes.

    rows, columns : uint8
        As those of ``Codes``.
    will_need : callable
        Called with the first and the last row, exclusive, that are read next.
    """

    rows: np.ndarray
    columns: np.ndarray
    will_need: Callable[[int, int], None]
