"""Writing to full disks: an OSError, the old file untouched, and nothing left behind."""

from __future__ import annotations

import io
import os
import resource
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

import gpuens
from gpuens.callbacks import Checkpoint, ProgressBar
from gpuens.command import main

from .attack import Attack, FoundError, unnamed, wrong

KIB = 1024


class FullDisks(Attack):
    """Files of models and tables on a file system of a few pages, or below a limit on the sizes of
    files where none may be mounted."""

    weight = 0.5

    def __init__(self, seed: int, folder: Path, known: set[str]) -> None:
        super().__init__(seed, folder, known)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        rng = np.random.default_rng(0)
        self.X = rng.normal(size=(3000, 6))
        self.y = self.X[:, 0] + self.X[:, 1]
        settings: dict[str, Any] = {"device": "cpu", "n_jobs": 1}
        self.model = gpuens.GradientBoostingRegressor(n_estimators=30, max_depth=8, **settings)
        self.model.fit(self.X, self.y)
        settings |= {"n_estimators": 1}
        self.small = gpuens.GradientBoostingRegressor(**settings).fit(self.X, self.y)
        self.data = folder / "data.csv"
        columns = ",".join(f"f{k}" for k in range(6))
        np.savetxt(self.data, self.X, delimiter=",", header=columns, comments="")
        import pandas as pd

        self.saved = folder / "saved.gpuens"
        named = gpuens.GradientBoostingRegressor(**settings)
        named.fit(pd.DataFrame(self.X, columns=columns.split(",")), self.y).save(self.saved)

    def writers(self) -> dict[str, tuple[Callable[[Any, Path], Any], str]]:
        """Return functions that write, and the ends of the names of their files."""
        return {
            "save": (lambda model, path: model.save(path), ".gpuens"),
            "checkpoint": (self._with_checkpoints, ".gpuens"),
            "pickled checkpoint": (self._with_pickles, ".pickle"),
            "table": (self._table, ".table"),
            "xgboost": (lambda m, path: m.to_xgboost(path, allow_rounding=True), ".json"),
            "lightgbm": (lambda model, path: model.to_lightgbm(path), ".txt"),
            "onnx": (lambda model, path: model.to_onnx(path), ".onnx"),
            "c": (lambda model, path: model.to_c(path), ".c"),
            "predict": (self._predictions, ".csv"),
            "progress": (self._progress, ".log"),
        }

    def trial(self, number: int) -> None:
        rng = np.random.default_rng([self.seed, number])
        writers = self.writers()
        name = list(writers)[number % len(writers)]
        write, suffix = writers[name]
        words = f"{name}, "
        try:
            with full_disk(self.folder, rng) as (folder, kind):
                words += kind
                self._try(write, folder / f"file{suffix}", name)
        except FoundError as found:
            place = found.place or name
            raise FoundError(found.kind, found.text, place, words) from found

    def _try(self, write: Callable[[Any, Path], Any], path: Path, name: str) -> None:
        fresh = name in ("table", "progress")
        if not fresh:
            try:
                write(self.small, path)
            except OSError:
                pass
        listed = sorted(path.parent.iterdir())
        before = {p: p.read_bytes() for p in listed}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                write(self.model, path)
        except OSError as error:
            if len(str(error)) < 20:
                raise unnamed(error, name) from error
        except Exception as error:
            raise unnamed(error, name) from error
        else:
            return
        if name in ("predict", "progress"):
            return  # which append to what is there, or replace it
        if sorted(path.parent.iterdir()) != listed:
            left = [p.name for p in path.parent.iterdir()]
            raise wrong(f"left behind: {left}, before {[p.name for p in listed]}", name)
        if "checkpoint" not in name and before != {p: p.read_bytes() for p in listed}:
            raise wrong("the old file has changed", name)

    def _with_checkpoints(self, model: Any, path: Path, pickled: bool = False) -> None:
        again = gpuens.GradientBoostingRegressor(**model.get_params())
        again.set_params(callbacks=[Checkpoint(path, 5, pickled=pickled)])
        try:
            again.fit(self.X, self.y)
        finally:
            again.predict(self.X)  # the finished rounds are kept

    def _with_pickles(self, model: Any, path: Path) -> None:
        self._with_checkpoints(model, path, pickled=True)

    def _table(self, model: Any, path: Path) -> None:
        gpuens.BinnedTable.from_batches(self.X, y=self.y, path=path)

    def _predictions(self, model: Any, path: Path) -> None:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = main(["predict", str(self.saved), str(self.data), "--output", str(path)])
        if status not in (0, 2) or (status == 2 and len(err.getvalue()) < 30):
            raise wrong(f"status {status}, {err.getvalue()!r}", "predict")

    def _progress(self, model: Any, path: Path) -> None:
        with open("/dev/full", "w") as stream:
            bars = [ProgressBar(stream)]
            again = gpuens.GradientBoostingRegressor(**self.small.get_params())
            again.set_params(callbacks=bars)
            try:
                again.fit(self.X, self.y)
            finally:
                again.predict(self.X)
                try:
                    stream.close()
                except OSError:
                    pass


@contextmanager
def full_disk(folder: Path, rng: np.random.Generator) -> Iterator[tuple[Path, str]]:
    """Yield a folder in which little can be written, and what it is."""
    size = int(rng.choice([4, 8, 16, 32, 64, 128, 256])) * KIB
    at = Path(tempfile.mkdtemp(dir=folder))
    options = f"size={size}"
    mounted = rng.random() < 0.7 and os.geteuid() == 0 and _mounted(at, options)
    try:
        if mounted:
            yield at, f"tmpfs of {size} bytes"
        else:
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
            try:
                yield at, f"files of at most {size} bytes"
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(at)], check=True)
        for path in at.iterdir():
            path.unlink()
        at.rmdir()


def _mounted(at: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(at)]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False
