"""The cases of one part of ``gpu_check``, in a process of their own.

What a case finds goes into a file, a line of JSON each, so that it is kept whatever happens next:
``{"case", "event", ...}`` with the events "begin", "done" (with ``result`` and ``seconds``),
"failed" (with ``error``), "dropped" (with ``reason``), and "broken" when the card no longer
computes in this process. The program that started this one reads the file, ends this process when
a case hangs, and starts another for the cases behind it.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from ..common import peers
from .bench import Bench, short
from .card import Card, the_card
from .plan import PARTS, Case
from .runner import BROKEN


def finite(value: Any) -> Any:
    """The same for JSON: what is not finite is None, NumPy's numbers are Python's."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def why_not(case: Case, card: Card, left: float, rehearsal: bool) -> str | None:
    """Why a case is not begun, None if it is."""
    if not rehearsal and case.seconds > left:
        return f"no time: takes about {case.seconds:.0f} s, {max(0.0, left):.0f} s were left"
    if case.bytes and (free := card.free_bytes()) < case.bytes and not rehearsal:
        return f"no memory: wants {case.bytes / 2**30:.0f} GiB, {free / 2**30:.0f} GiB are free"
    return None


def run_cases(
    part: str, names: Sequence[str], card: Card, options: argparse.Namespace, file: TextIO
) -> int:
    """All cases, one after the other; returns the exit status."""
    end = time.monotonic() + options.until - time.time()

    def tell(case: str, event: str, **more: Any) -> None:
        file.write(json.dumps({"case": case, "event": event, **finite(more)}) + "\n")
        file.flush()

    for name in names:
        case = PARTS[part].cases[name]
        reason = why_not(case, card, end - time.monotonic(), options.rehearse)
        if reason is not None:
            tell(name, "dropped", reason=reason)
            print(f"{part}, {name}: dropped: {reason}", flush=True)
            continue
        print(f"{part}, {name}", flush=True)
        tell(name, "begin")
        started = time.monotonic()
        deadline = end if options.rehearse else min(end, started + case.limit)
        bench = Bench(card, options.repeats, options.threads, deadline, options.rehearse)
        try:
            result = case.run(bench)
            if bench.gaps:
                result["gaps"] = [f"{name}: {why}" for name, why in bench.gaps.items()]
            tell(name, "done", result=result, seconds=time.monotonic() - started)
        except Exception as error:
            traceback.print_exc()
            where = traceback.extract_tb(error.__traceback__)[-6:]
            at = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in where]
            tell(name, "failed", error=short(error), at=at, gaps=bench.gaps)
        if PARTS[part].on_card:
            card.give_back() if card.is_alive() else None
            if not card.is_alive():
                tell(name, "broken")
                return BROKEN
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.worker", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("file", type=Path)
    parser.add_argument("--cases", nargs="+", required=True)
    parser.add_argument("--until", type=float, required=True, help="seconds of time.time()")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rehearse", action="store_true")
    options = parser.parse_args(argv)
    peers.silence()
    on_card = PARTS[options.part].on_card
    with open(options.file, "a", encoding="utf-8") as file:
        try:
            card = the_card(options.rehearse or not on_card)
        except Exception as error:
            for case in options.cases:
                event = {"case": case, "event": "failed", "error": short(error)}
                file.write(json.dumps(event) + "\n")
            return 1
        return run_cases(options.part, options.cases, card, options, file)


if __name__ == "__main__":
    sys.exit(main())
