"""Fuzzers of the command line: damaged CSV and parquet files, and files of models."""

from __future__ import annotations

import io
import warnings
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import numpy as np

from gpuens import command
from gpuens.command import columns, features, tables, training
from gpuens.command.errors import CommandError
from gpuens.command.types import Overrides
from tests.exchange.mutations import with_bytes_changed

from ..attack import LIBRARY, FoundError
from ..tables.hard_tables import hard_frame
from .fuzzing import Fuzzer, refused

N_ROWS = 24
"""Of a whole table; a command needs ten to train on."""
N_WHOLE = 64
"""Whole files, of which making one takes longer than reading it."""
DESCRIBED = 8
"""One of so many models is described by ``info`` as well."""
CELLS = ("", " ", "nan", "NaN", "NA", "inf", "-inf", "1e400", "1e-400", "9" * 25, "-0", "true",
         "2020-01-01", "9999-99-99", "0001-01-01", '"', "'", "a,b", '"a\nb"', "\x00", "é", "\ud83d",
         "0x10", "1_000", "1 000", "1,5", "\t", "#", "=1+1", "x" * 200)  # fmt: skip
MODELS = ("tree", "tree", "boosting", "forest", "adaboost")


class CommandFuzzer(Fuzzer):
    """The reader of tables; on some files, all of ``python -m gpuens fit`` and ``predict``: they
    succeed, or report an error in one line."""

    watched = (str(Path(LIBRARY[0]) / "command"),)
    suffix = ".csv"
    trained = 1
    """One in so many files is trained on, which takes ten times as long as reading it."""

    def __init__(self, seed: int, folder: Path, known: set[str]) -> None:
        training.find_spec = lambda name: None  # no picture of importances, which takes long
        command._parser = cache(command._parser)  # takes as long as reading a small file
        super().__init__(seed, folder, known)

    def read(self, data: bytes) -> None:
        path, model = self.scratch / f"data{self.suffix}", self.scratch / "model.gpuens"
        path.write_bytes(data)
        if len(data) % self.trained:
            self._read_alone(path)
            return
        choice = MODELS[len(data) % len(MODELS)]
        rounds = [] if choice == "tree" else ["--set", "n_estimators=2"]
        model.unlink(missing_ok=True)
        fit = ["fit", str(path), "--target", "target", "--model", choice, *rounds]
        if self._run([*fit, "--set", "n_jobs=1", "--output", str(model)]):
            self._run(["predict", str(model), str(path)])
            if len(data) % DESCRIBED == 0:
                self._run(["info", str(model)])

    def _read_alone(self, path: Path) -> None:
        """Read a table and make features of it."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                table = tables.read(str(path))
                cells = dict(zip(table.names, table.columns, strict=True))
                features.features_of(columns.learn(cells, Overrides(), table.separator)[0])
        except (CommandError, OSError, TypeError, ValueError) as error:
            refused(error, Exception)

    def _run(self, arguments: list[str]) -> bool:
        """Run a command, and return whether it succeeded."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            status = command.main(arguments)
        text = err.getvalue()
        shown = f"{arguments[0]}: status {status}, {text[:300]!r}"
        if status not in (0, 2):
            raise FoundError("wrong result", shown, "exit status")
        if status == 2 and (text.count("\n") != 1 or len(text) < 30):
            raise FoundError("unnamed error", shown, text[:60])
        return status == 0


class CsvFiles(CommandFuzzer):
    """Damaged files of hard tables, most of which can be read all the same."""

    trained = 8

    def sources(self) -> list[bytes]:
        made = []
        for k in range(N_WHOLE):
            frame = hard_frame(np.random.default_rng(k), N_ROWS, target=True)
            made.append(frame.to_csv(index=False).encode(errors="replace"))
        return made

    def damage(self, data: bytes, rng: np.random.Generator) -> bytes:
        lines = data.split(b"\n")
        if rng.random() < 0.3 or len(lines) < 2:
            return with_bytes_changed(data, rng)
        at = int(rng.integers(len(lines)))
        cells = lines[at].split(b",")
        k = int(rng.integers(len(cells)))
        match rng.integers(4):
            case 0:
                del cells[k]
            case 1:
                cells.insert(k, cells[k])
            case _:
                cells[k] = CELLS[int(rng.integers(len(CELLS)))].encode(errors="surrogatepass")
        lines[at] = b",".join(cells)
        return b"\n".join(lines)


class ParquetFiles(CommandFuzzer):
    """Damaged files of hard tables, and now and then a whole one of which nothing is known."""

    suffix = ".parquet"

    def sources(self) -> list[bytes]:
        return [self._whole(np.random.default_rng(k)) for k in range(N_WHOLE)]

    def damage(self, data: bytes, rng: np.random.Generator) -> bytes:
        return self._whole(rng) if rng.random() < 0.02 else with_bytes_changed(data, rng)

    def _whole(self, rng: np.random.Generator) -> bytes:
        frame = hard_frame(rng, int(rng.choice([0, 1, 11, N_ROWS, N_ROWS])), target=True)
        file = io.BytesIO()
        try:
            frame.to_parquet(file, index=False)
        except Exception:  # parquet does not hold every column
            frame[["target"]].astype(str).to_parquet(file, index=False)
        return file.getvalue()
