"""The model beside measurements: what ``gpu_check`` prints when a card is at hand.

    from benchmarks.model import expected

    print(expected.beside("NVIDIA H200", {"11M × 28, depth 8": 0.0061}))    # seconds a tree

The names of the cases are those of ``gpu_check``'s plan. The newest result of ``gpu_model`` is
read, and nothing is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..common.markdown import number, table
from ..common.records import RESULTS
from .pays import newest

CARDS = ("H100", "H200", "RTX 4090", "A10")
"""Their words are in the names that drivers give."""


class Expected(NamedTuple):
    """Modelled seconds of one round, call or batch.

    Parameters
    ----------
    device, host : float
        They work side by side.
    unit : str
    """

    device: float
    host: float
    unit: str

    @property
    def seconds(self) -> float:
        return max(self.device, self.host)


def card_of(gpu: str) -> str | None:
    """Return the card of the model that a driver names, None for another one."""
    words = gpu.split()
    return next((card for card in CARDS if set(card.split()) <= set(words)), None)


def expected(gpu: str, case: str, folder: Path = RESULTS) -> Expected | None:
    """Return what the model expects of a card.

    Parameters
    ----------
    gpu : str
        As the driver names it, for example ``"NVIDIA H200"``.
    case : str
        As the plan of ``gpu_check`` names it.
    folder : Path
        Where the results are.

    Returns
    -------
    Expected or None
        None if the card or the case is not modelled, or there is no result.
    """
    card, record = card_of(gpu), newest("gpu_model", folder)
    result = (record or {"results": {}})["results"].get(case, {})
    if card is None or "cards" not in result:
        return None
    own = result["cards"][card]
    return Expected(own["device_ms"] / 1e3, own["host_ms"] / 1e3, result["unit"])


def beside(gpu: str, measured: Mapping[str, float], folder: Path = RESULTS) -> str:
    """Return a table of measured seconds (of a round, call or batch) by case, and of the model's;
    empty if none of them is modelled."""
    rows = []
    for case, seconds in measured.items():
        found = expected(gpu, case, folder)
        if found is not None:
            ours = [seconds, found.seconds, found.device, found.host]
            cells = [number(value * 1e3) for value in ours]
            rows.append([f"{case}, a {found.unit}", *cells, number(seconds / found.seconds)])
    head = [f"{gpu}: ms", "measured", "model", "model: device", "model: host",
            "measured ÷ model"]  # fmt: skip
    return table(head, rows) if rows else ""
