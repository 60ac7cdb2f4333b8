"""How much a reader of one fit has to follow: functions entered, their files and folders, and how
often the next function is in another file. The counts may fall, and not rise.

``python -m tests.front.test_reading`` prints them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np
import pytest

import gpuens.kernels
from gpuens import GradientBoostingRegressor, RandomForestRegressor

FOLDERS = str(Path(gpuens.__file__).parent), str(gpuens.kernels.__path__[0])


class Reading(NamedTuple):
    """Counts of the package's own code; comprehensions belong to the functions they stand in."""

    functions: int
    files: int
    folders: int
    switches: int


MOST = {
    "gradient boosting": Reading(functions=248, files=58, folders=21, switches=324),
    "random forest": Reading(functions=190, files=42, folders=17, switches=267),
}


def reading_of(run: Callable[[], Any]) -> Reading:
    """Count what a call enters."""
    entered: list[CodeType] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and is_own_function(code):
            entered.append(code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    files = [code.co_filename for code in entered]
    return Reading(
        len(set(entered)),
        len(set(files)),
        len({Path(name).resolve().parent for name in files}),
        sum(a != b for a, b in zip(files, files[1:], strict=False)),
    )


def is_own_function(code: CodeType) -> bool:
    in_function = code.co_name in ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
    return code.co_filename.startswith(FOLDERS) and not in_function


def plain_fits() -> dict[str, Callable[[], Any]]:
    """Return fits of defaults on 300 rows of 5 features, on the CPU."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = X[:, 0] + rng.normal(size=300)
    boosting = GradientBoostingRegressor(n_estimators=3, device="cpu", random_state=0)
    forest = RandomForestRegressor(n_estimators=3, device="cpu", random_state=0)
    return {
        "gradient boosting": lambda: boosting.fit(X, y),
        "random forest": lambda: forest.fit(X, y),
    }


@pytest.mark.parametrize("name", MOST)
def test_a_plain_fit_stays_readable(name):
    fit = plain_fits()[name]
    fit()  # compiles, and imports what is imported late
    found = reading_of(fit)
    assert all(own <= most for own, most in zip(found, MOST[name], strict=True)), found


def main() -> None:
    for name, fit in plain_fits().items():
        fit()  # compiles
        print(name, *(f"{count} {of}" for of, count in reading_of(fit)._asdict().items()), sep=", ")


if __name__ == "__main__":
    main()
