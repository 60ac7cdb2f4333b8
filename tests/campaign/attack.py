"""Attacks, and what they find."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
import traceback
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

KINDS = ("crash", "hang", "unnamed error", "wrong result", "memory", "fault of the campaign")
ROOT = Path(__file__).resolve().parents[2]
SHARED_MEMORY = Path("/dev/shm")
LIBRARY = (str(ROOT / "gpuens"), str(ROOT / "kernels"))


class FoundError(Exception):
    """A trial went wrong.

    Parameters
    ----------
    kind : str
        One of ``KINDS``.
    text : str
        What happened, in a line.
    place : str
        Where; findings of the same kind and place are taken for one.
    smallest : str
        The smallest reproduction that is known.
    """

    def __init__(self, kind: str, text: str, place: str = "", smallest: str = "") -> None:
        super().__init__(kind, text, place, smallest)
        self.kind, self.text, self.place, self.smallest = kind, text, place, smallest


@dataclass(frozen=True)
class Finding:
    """What a trial found, as it is written into the report."""

    attack: str
    seed: int
    trial: int
    kind: str
    text: str
    place: str
    smallest: str

    @property
    def signature(self) -> tuple[str, str, str]:
        return self.attack, self.kind, self.place

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Finding:
        return cls(**json.loads(line))


def findings_in(path: Path) -> list[Finding]:
    """Return the findings in a file, without lines that a process that was ended has cut."""
    found = []
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                found.append(Finding.from_json(line))
            except (ValueError, TypeError):
                continue
    return found


def scratch_of(process: int) -> Path:
    """Return the folder for the files of a process, in memory if possible."""
    shared = os.access(SHARED_MEMORY, os.W_OK)
    return Path(SHARED_MEMORY if shared else tempfile.gettempdir()) / f"campaign-{process}"


class Attack(ABC):
    """One kind of attack. Trial ``k`` depends on the seed and on ``k``, and for fuzzers on the
    inputs that earlier trials have kept in ``folder``.

    Parameters
    ----------
    seed : int
    folder : path
        Its own, kept while the campaign runs.
    known : set of str
        Places of earlier findings, of which no smaller reproduction is sought.
    """

    weight = 1.0
    """Its share of the campaign's time."""
    limit = 120.0
    """Seconds after which a trial is taken for a hang."""

    def __init__(self, seed: int, folder: Path, known: set[str]) -> None:
        self.seed, self.folder, self.known = seed, folder, known
        self.scratch = scratch_of(os.getpid())
        self.scratch.mkdir(exist_ok=True)
        atexit.register(shutil.rmtree, self.scratch, ignore_errors=True)

    @classmethod
    def missing(cls) -> str | None:
        """Return what this machine lacks for the attack, or None."""
        return None

    @abstractmethod
    def trial(self, number: int) -> None:
        """Try once.

        Raises
        ------
        FoundError
        """

    def end(self) -> None:  # noqa: B027
        """Keep what the next slice begins with."""


def place_of(error: BaseException) -> str:
    """Return the class of an error, and the innermost line of the library that it went through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(LIBRARY)]
    at = (own or frames)[-1:]
    where = [f"{Path(frame.filename).name}:{frame.name}:{frame.lineno}" for frame in at]
    return " ".join([type(error).__name__, *where])


def raised_by(error: BaseException, *modules: ModuleType) -> bool:
    """Return whether an error was raised by the code of the library or of some modules itself,
    not by something beneath them."""
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    folders = [str(Path(module.__file__ or "").parent) for module in modules]
    return last.startswith((*LIBRARY, *folders))


def unnamed(error: BaseException, what: str, smallest: str = "") -> FoundError:
    """Return the finding of an error that is not one of the library's named kinds."""
    text = f"{what}: {type(error).__name__}: {str(error)[:300]}"
    return FoundError("unnamed error", " ".join(text.split()), place_of(error), smallest)


def wrong(text: str, place: str, smallest: Any = "") -> FoundError:
    """Return the finding of a result that is wrong."""
    return FoundError("wrong result", text, place, str(smallest))
