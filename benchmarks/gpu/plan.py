"""The plan of ``gpu_check``: its parts, each a program of these benchmarks in a process of its own.

There are two calls, for machines that are lent for minutes: the first finds out whether everything
works, the second measures. A part has a share of the time of its call; what it leaves over goes to
the next ones. Its cases run in the order that they are written in, what has goals first and what is
largest last. The seconds are estimates for one H200, the other libraries' time included; kernels
are taken to have come compiled (``python -m building cubins``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .gpu_models import MODELS
from .gpu_unknowns import PROGRAM as UNKNOWNS

CALLS = {1: 470.0, 2: 270.0}
"""Seconds of each call. A command must end within ten minutes, and both within fifteen, with the
start of the machine."""
TINY = "--rows 60 --trees 2 --repeats 1"


@dataclass(frozen=True)
class Part:
    """A program, and what it measures within a share of the time.

    Parameters
    ----------
    call : int
        Which one it is a part of.
    cases : tuple of str
        Its parts, for ``--only``; the name of the program where it has none.
    options, tiny : str
        Further options; ``tiny`` takes their place in a rehearsal.
    limit : float
        Seconds without a result after which it is taken to hang; kernels may have to be compiled
        in them.
    """

    title: str
    call: int
    seconds: float
    program: str
    cases: tuple[str, ...]
    options: str = ""
    tiny: str = TINY
    limit: float = 75.0
    also: str = field(default="--threads {threads}")
    """Options of both."""

    @property
    def has_parts(self) -> bool:
        return self.cases != (self.program,)

    def arguments(self, threads: int, rehearse: bool) -> list[str]:
        """Return the options of the program."""
        text = f"{self.tiny if rehearse else self.options} {self.also}"
        return text.format(threads=threads).split()


def fit(title: str, seconds: float, cases: tuple[str, ...], options: str) -> Part:
    """Return trainings on a GPU."""
    tiny = "--rows 300 --trees 1 --repeats 1"  # of that many rows every class has some
    tiny += " --depth 2" if "--depth" in options else ""
    also = f"--device cuda --threads {{threads}}{' --with-cpu' if 'with' in options else ''}"
    return Part(title, 2, seconds, "fit", cases, options.replace("with", ""), tiny, also=also)


PARTS: dict[str, Part] = {
    "machine code": Part(
        "load what came compiled, compile the rest", 1, 80, "gpu_tests",
        ("load", "compile", "warm up"), tiny="", limit=300.0,
    ),
    "models": Part(
        "models of the GPU and of the CPU", 1, 105, "gpu_models", tuple(MODELS),
        tiny="--rows 80 --tiny",
    ),
    "unknowns": Part(
        "launches, atomics, shared memory, kernels", 1, 90, "gpu_unknowns",
        tuple(UNKNOWNS.measure),
        tiny="--rows 120 --depth 2 --trees 1 --repeats 1 --launches 1 --rounds 1", also="",
    ),
    "launches": Part(
        "milliseconds a tree of small tables", 1, 20, "gpu_unknowns", ("ms_a_tree",),
        "--trees 20 --repeats 3", "--rows 600 --trees 1 --repeats 1", also="",
    ),
    "tests": Part("tests with a GPU", 1, 160, "gpu_tests", ("tests",), tiny="", limit=300.0),
    "fit": fit(
        "gradient boosting, depth 8", 55, ("11m", "1m", "10k narrow"), "--depth 8 --repeats 2"
    ),
    "fit, depth 6": fit(
        "gradient boosting, depth 6", 34, ("100k narrow", "covtype 100 rounds"),
        "--depth 6 --repeats 3 with",
    ),
    "predict": Part(
        "prediction, 500 trees of depth 8", 2, 28, "predict",
        ("table", "10M rows", "10k rows", "row"),
        "--trees 500 --depth 8 --repeats 3 --batches 5", f"{TINY} --depth 3 --batches 1",
        also="--device cuda --threads {threads}",
    ),
    "forests": Part(
        "a forest of 100 trees of depth 30", 2, 26, "forests", ("gpu",), "--repeats 2",
        "--gpu-rows 80 --depth 3 --trees 1 --repeats 1",
    ),
    "small": Part(
        "many small fits", 2, 14, "many_fits", ("many_fits",), "--rows 12500 --repeats 1",
        "--rows 60 --trees 1 --repeats 1 --settings 1", also="--device cuda --threads {threads}",
    ),
    "sanitizer": Part(
        "compute-sanitizer", 2, 55, "gpu_tests", ("memcheck", "racecheck"), tiny="", limit=300.0
    ),
    "kernels": Part(
        "kernels and their floors", 2, 12, "kernels", ("gpu",), "--repeats 9",
        "--rows 60 --features 4 --trees 1 --repeats 1",
    ),
    "fit, 63 leaves": fit(
        "gradient boosting, best leaf first", 16, ("100k narrow", "1m"), "--repeats 2"
    ),
    "crossover": Part(
        "sizes from which the GPU pays", 2, 18, "crossover", ("boosting", "forest"),
        "--repeats 2", "--rows 30 60 --trees 1 --repeats 1",
    ),
}  # fmt: skip
"""Everything, in the order in which it runs."""


def chosen(names: Sequence[str], call: int | None = None) -> list[str]:
    """Return parts by their names, or those of a call; "fit" means all of that kind."""
    return [
        name
        for name, part in PARTS.items()
        if (not names or name in names or name.partition(",")[0] in names)
        and call in (None, part.call)
    ]


NAMES = list(dict.fromkeys(name.partition(",")[0] for name in PARTS))
"""The values of ``--part``."""
