"""The result of a case: its launches in groups, by card."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from gpuens.devices.cards import HOST_COPIES, LAUNCH, OTHER_CALL, Card

from .cards import LAUNCH_GAP, SHOWN
from .cases import Case
from .groups import CODE, DOWNLOADED, FLUSH, GAPS, LEVELS, PARTS, ROOT, rows_of
from .launches import Launch, Work, total
from .times import RESOURCES, moved, time_of


def of(case: Case, work: Work) -> dict[str, Any]:
    """Return the result of a case."""
    groups: dict[str, list[Launch]] = defaultdict(list)
    for name, launch in rows_of(work):
        groups[name].append(launch)
    rows: dict[str, Any] = {}
    for name, launches in groups.items():
        cards = {card.name: group_on(launches, card) for card in SHOWN}
        rows[name] = {"launches": len(launches), "cards": cards, "counts": counts_of(launches)}
    if ROOT in rows:
        histograms = groups[ROOT] + groups[LEVELS]
        cards = {card.name: flush_on(histograms, card) for card in SHOWN}
        rows[FLUSH] = {"launches": 0, "cards": cards}
    cards = {card.name: code_on(work.launches, card) for card in SHOWN}
    rows[CODE] = {"launches": 0, "cards": cards}
    n_others = sum(work.others.values())
    gaps = (len(work.launches) + n_others) * LAUNCH_GAP * 1e3
    alike = {card.name: {"ms": gaps, "binds": "", "gb": 0.0} for card in SHOWN}
    rows[GAPS] = {"launches": n_others, "cards": alike}
    if work.downloaded:
        cards = {card.name: downloaded_on(work.downloaded, card) for card in SHOWN}
        rows[DOWNLOADED] = {"launches": 0, "cards": cards}
    return {
        "title": case.title, "unit": case.unit, "units": case.units, "n_rows": case.n_rows,
        "n_features": case.n_features, "n_launches": len(work.launches),
        "n_waits": work.waits,
        "others": dict(work.others), "rows": rows,
        "cards": {name: whole(rows, name, len(work.launches), n_others) for name in alike},
    }  # fmt: skip


def group_on(launches: list[Launch], card: Card) -> dict[str, Any]:
    """Return the time of launches on a card, what takes the most of it, and the bytes moved."""
    bound: Counter[str] = Counter()
    for launch in launches:
        time = time_of(launch, card)
        bound[RESOURCES[time.binds]] += time.seconds  # type: ignore[assignment]
    binds = max(bound, key=lambda name: bound[name])
    gb = sum(moved(launch, card) for launch in launches) / 1e9
    return {"ms": sum(bound.values()) * 1e3, "binds": binds, "gb": gb}


def flush_on(launches: list[Launch], card: Card) -> dict[str, Any]:
    """Return the time of the additions in the second-level cache alone."""
    seconds = sum(time_of(launch, card).by_resource["atomics"] for launch in launches)
    return {"ms": seconds * 1e3, "binds": RESOURCES["atomics"], "gb": 0.0}


def code_on(launches: list[Launch], card: Card) -> dict[str, Any]:
    """Return the time that launches wait for their code."""
    seconds = sum(time_of(launch, card).code for launch in launches)
    return {"ms": seconds * 1e3, "binds": RESOURCES["l2"], "gb": 0.0}


def downloaded_on(n_bytes: float, card: Card) -> dict[str, Any]:
    """Return the time of a copy to the host through pinned memory, which threads read."""
    rate = min(card.bus, HOST_COPIES)
    binds = "PCIe" if rate == card.bus else "memory of the host"
    return {"ms": n_bytes / rate * 1e3, "binds": binds, "gb": n_bytes / 1e9}


def counts_of(launches: list[Launch]) -> dict[str, float]:
    """Return the sums of the launches' counts, to four digits."""
    return {name: float(f"{value:.4g}") for name, value in total(launches)._asdict().items()}


def whole(rows: dict[str, Any], card: str, n_launches: int, n_others: int) -> dict[str, float]:
    """Return the time of the device and of the host."""
    device = sum(row["cards"][card]["ms"] for name, row in rows.items() if name not in PARTS)
    others = n_others * OTHER_CALL
    return {"device_ms": device, "host_ms": (n_launches * LAUNCH + others) * 1e3}
