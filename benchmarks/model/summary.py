"""The result of a case: its launches in groups, by card."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from .cards import CARDS, LAUNCH, LAUNCH_GAP, OTHER_CALL, TRANSFER, Card
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
        cards = {card.name: group_on(launches, card) for card in CARDS.values()}
        rows[name] = {"launches": len(launches), "cards": cards, "counts": counts_of(launches)}
    if ROOT in rows:
        histograms = groups[ROOT] + groups[LEVELS]
        cards = {card.name: flush_on(histograms, card) for card in CARDS.values()}
        rows[FLUSH] = {"launches": 0, "cards": cards}
    cards = {card.name: code_on(work.launches, card) for card in CARDS.values()}
    rows[CODE] = {"launches": 0, "cards": cards}
    n_others = sum(work.others.values())
    gaps = (len(work.launches) + n_others) * LAUNCH_GAP * 1e3
    alike = {name: {"ms": gaps, "binds": "", "gb": 0.0} for name in CARDS}
    rows[GAPS] = {"launches": n_others, "cards": alike}
    if work.downloaded:
        ms, gb = work.downloaded / TRANSFER * 1e3, work.downloaded / 1e9
        alike = {name: {"ms": ms, "binds": "PCIe", "gb": gb} for name in CARDS}
        rows[DOWNLOADED] = {"launches": 0, "cards": alike}
    return {
        "title": case.title, "unit": case.unit, "units": case.units, "n_rows": case.n_rows,
        "n_features": case.n_features, "n_launches": len(work.launches),
        "n_waits": work.waits,
        "others": dict(work.others), "rows": rows,
        "cards": {name: whole(rows, name, len(work.launches), n_others) for name in CARDS},
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


def counts_of(launches: list[Launch]) -> dict[str, float]:
    """Return the sums of the launches' counts, to four digits."""
    return {name: float(f"{value:.4g}") for name, value in total(launches)._asdict().items()}


def whole(rows: dict[str, Any], card: str, n_launches: int, n_others: int) -> dict[str, float]:
    """Return the time of the device and of the host."""
    device = sum(row["cards"][card]["ms"] for name, row in rows.items() if name not in PARTS)
    others = n_others * OTHER_CALL
    return {"device_ms": device, "host_ms": (n_launches * LAUNCH + others) * 1e3}
