"""Outcomes of generated tables, a line each.

``python -m tests.campaign.tables.elsewhere SEED FIRST`` prints them.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ..attack import FoundError
from ..versions import N_CASES
from .generated_tables import GeneratedTables, drawn


def outcome(attack: GeneratedTables, number: int) -> dict[str, Any]:
    """Return what became of one table, and hashes of what went in and came out."""
    model, case = drawn(np.random.default_rng([attack.seed, number]))
    found = {"model": type(model).__name__, "words": f"{model!r} on {case.words}", "input": ""}
    if isinstance(case.X, np.ndarray) and case.X.dtype.kind in "fiub":
        found["input"] = "".join(map(hashed, (case.X, case.y, *case.arguments.values())))
    try:
        attack.trial(number)
    except FoundError as error:
        return found | {"kind": "wrong", "outcome": f"{error.kind}: {error.text}"}
    try:
        predicted = model.fit(case.X, case.y, **case.arguments).predict(case.X)
    except Exception as error:
        return found | {"kind": "refused", "outcome": type(error).__name__}
    return found | {"kind": "fitted", "outcome": hashed(predicted)}


def hashed(what: Any) -> str:
    return hashlib.sha256(repr(_plain(what)).encode()).hexdigest()[:16]


def _plain(what: Any) -> Any:
    """Return arrays, and lists of these that differ in length, as lists of Python's numbers."""
    if isinstance(what, (list, tuple)):
        return [_plain(each) for each in what]
    return what.tolist() if isinstance(what, (np.ndarray, np.generic)) else what


def main(seed: int, first: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        attack = GeneratedTables(seed, Path(folder), set())
        for number in range(first, first + N_CASES):
            print(json.dumps(outcome(attack, number)), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
