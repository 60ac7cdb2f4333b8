"""A model of the time on GPUs, from the compiled kernels, without one.

Fits and predictions run on the PTX machine of the tests (``tests/ptx``), which executes the PTX
that libNVVM has made of each kernel. It counts the instructions of every launch, and replays some
warps of some blocks: issue slots, sectors of memory, bank conflicts, atomic operations, and the
time of a block whose instructions wait for each other. Small fits stand for large ones
(``launches``), and the published rates of each card (``cards``) turn counts into time (``times``):
the time of a launch is that of the resource that takes the longest.

It is a model, not a measurement: caches are simplified, machine code is estimated from PTX, clocks
are those of the data sheets, and resources are taken to overlap perfectly. It aims at a factor of
two. When a card is at hand, ``make gpu-check`` measures, and ``expected.beside`` shows both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from ..common.goals import Goal
from ..common.markdown import number, pivot, table
from ..common.peers import GapError
from ..common.program import Content, Options, Program, Results
from . import figures, pays
from .groups import CHECKED, ESTIMATES, NOTES

LAUNCHER = "launches, the driver stubbed"
"""The part that measures the host's time, as it is here, for launches."""
CALLS = "predictions, the driver stubbed"
"""The part that measures the host's time for predictions of rows that a GPU has."""
LAYOUTS = "layouts of histograms"
"""The part that models what other layouts could gain."""
MOST_MICROSECONDS = 5.0
MOST_OF_A_CALL = 60.0
FACTOR = 2.0
"""Within which the model and an estimate agree."""
CHECK_CARD = "H100"
NAMES = ("11M × 28, depth 8", "11M × 28, 255 leaves", "100k × 28", "10M × 28",
         "465k × 54, 100 trees, depth 30", "1M × 28, exact")  # fmt: skip


def measure(options: Options, name: str) -> Results:
    """Model one case."""
    try:
        from . import summary
        from .cases import CASES
    except ImportError as error:
        raise GapError(f"{name}: {error}. Install the extra: pip install -e '.[test]'") from error
    case = CASES[name]
    return summary.of(case, case.measure())


def measure_launcher(options: Options) -> Results:
    """Measure the host's time for launches."""
    try:
        from . import launcher
    except ImportError as error:
        raise GapError(f"{error}. Install the extra: pip install -e '.[test]'") from error
    return launcher.measure()


def measure_calls(options: Options) -> Results:
    """Measure the host's time for predictions."""
    try:
        from . import calls
    except ImportError as error:
        raise GapError(f"{error}. Install the extra: pip install -e '.[test]'") from error
    result = calls.measure()
    return {**result, "slowest": calls.slowest(result)}


def measure_layouts(options: Options) -> Results:
    """Model histograms of narrow and wide tables."""
    try:
        from . import layouts
    except ImportError as error:
        raise GapError(f"{error}. Install the extra: pip install -e '.[test]'") from error
    return layouts.measure()


def ratio_of(row: Mapping[str, Any], estimate: tuple[float, float]) -> float:
    """Return the model's time relative to the middle of an estimate."""
    return float(row["cards"][CHECK_CARD]["ms"] / math.sqrt(estimate[0] * estimate[1]))


def agrees(ratio: float) -> bool:
    """Return whether a ratio is within the factor."""
    return 1 / FACTOR <= ratio <= FACTOR


def show(content: Content) -> Iterator[str]:
    """Yield what is asked, launches by case and card, the check against estimates, and from which
    size a card pays."""
    if len(content["results"]) > 1:  # not after each case
        yield from figures.show(content["results"])
    for name in NAMES:
        result = content["results"].get(name, {})
        if "rows" not in result:
            continue
        yield _launches(result)
        if name == CHECKED:
            yield _check(result)
    yield from pays.show(content["results"])
    kernels = content["results"].get(LAUNCHER, {}).get("microseconds", {})
    if kernels:
        yield pivot("µs of a launch, by arguments that are not those of the launch before", {
            name: {what: str(value) if what == "arguments" else f"{value:.1f}"
                   for what, value in row.items()}
            for name, row in kernels.items()
        })  # fmt: skip
    yield from figures.show_layouts(content["results"].get(LAYOUTS, {}))
    predictions = content["results"].get(CALLS, {}).get("microseconds", {})
    if predictions:
        yield pivot("µs of the host for a prediction, CuPy's place taken by NumPy or strictly", {
            what: {key: f"{value:.0f}" for key, value in row.items()}
            for what, row in predictions.items()
        })  # fmt: skip


def _launches(result: Results) -> str:
    """Return the table of a case: milliseconds of each card and what binds."""
    cards = list(result["cards"])
    rows = []
    for group, row in result["rows"].items():
        cells = []
        for card in cards:
            own = row["cards"][card]
            cells.append(
                f"{number(own['ms'])} ({own['binds']})" if own["binds"] else number(own["ms"])
            )
        gb = row["cards"][cards[0]]["gb"]
        rows.append([group, str(row["launches"] or ""), number(gb) if gb else "", *cells])
    for title, key in (("device", "device_ms"), ("host", "host_ms")):
        cells = [f"**{number(result['cards'][card][key])}**" for card in cards]
        rows.append([title, "", "", *cells])
    head = [
        f"model, ms a {result['unit']}: {result['title']}",
        "launches",
        f"GB, {cards[0]}",
        *cards,
    ]
    return table(head, rows)


def _check(result: Results) -> str:
    """Return the model beside the estimates."""
    rows = []
    for group, estimate in ESTIMATES.items():
        if group in result["rows"]:
            row = result["rows"][group]
            ratio = ratio_of(row, estimate)
            span = number(estimate[0]) if estimate[0] == estimate[1] else (
                f"{number(estimate[0])} … {number(estimate[1])}"
            )  # fmt: skip
            note = "" if agrees(ratio) else NOTES.get(group, "not explained")
            ours = number(row["cards"][CHECK_CARD]["ms"])
            rows.append([group, ours, span, number(ratio), note])
    head = [
        f"{CHECK_CARD}, ms a round: {result['title']}",
        "model",
        "estimate by hand",
        "ratio",
        "why",
    ]
    return table(head, rows)


def goals(content: Content) -> Iterator[Goal]:
    """Yield how many rows are beyond the factor without an explanation, the host's time for a
    launch, and what is asked of the model."""
    result = content["results"].get(CHECKED, {})
    off = [
        group for group, estimate in ESTIMATES.items()
        if group in result.get("rows", {}) and not agrees(ratio_of(result["rows"][group], estimate))
        and group not in NOTES
    ]  # fmt: skip
    what = f"the number of rows of the GPU model off by more than {FACTOR:g} times, unexplained,"
    yield Goal(what, 0, float(len(off)) if "rows" in result else None)
    mean = content["results"].get(LAUNCHER, {}).get("mean", {})
    what = "the host's time for a launch of growth, two arrays changed, the driver stubbed,"
    yield Goal(what, MOST_MICROSECONDS, mean.get("two others"), "µs")
    found = content["results"].get(CALLS, {}).get("slowest")
    what = "the host's time for a prediction of up to 100 rows of a GPU, CuPy and driver stubbed,"
    yield Goal(what, MOST_OF_A_CALL, found, "µs")
    what = "the modelled share of a tree that another layout of histograms could gain,"
    most = figures.most_gained(content["results"].get(LAYOUTS, {}))
    yield Goal(what, figures.WORTH, most, "%")
    yield from figures.figures(content["results"])


PROGRAM = Program(
    "gpu_model", __doc__,
    {**{name: partial(measure, name=name) for name in NAMES}, LAUNCHER: measure_launcher,
     CALLS: measure_calls, LAYOUTS: measure_layouts},
    tables=show, goals=goals,
)  # fmt: skip
main = PROGRAM.main
