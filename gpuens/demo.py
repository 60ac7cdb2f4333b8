"""``python -m gpuens.demo``: train on four tables beside scikit-learn, and compare."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets as bundled
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss, roc_auc_score, root_mean_squared_error
from sklearn.model_selection import train_test_split

from . import GradientBoostingClassifier, GradientBoostingRegressor, __version__
from .callbacks import ProgressBar
from .config import available_threads
from .datasets import make_higgs_like
from .devices.placement import gpu_problem, resolve_device, simulated

N_TREES = 100
ROWS, QUICK_ROWS = 1_000_000, 20_000
TEST_ROWS = 100_000
LONG_ROWS = 100_000
"""A table with this many rows takes long enough for a progress bar."""
CURVE_ROWS = 20_000
"""Rows of the training table that the learning curve is computed on."""
WIDTHS = (15, 15, 10, 10, 10, 10, 10)
HEAD = ("table", "rows × columns", "measure", "gpuens", "HistGB", "gpuens", "HistGB")
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Task:
    """A table, and how predictions for it are judged."""

    name: str
    question: str
    split: Split
    """Training X, y and test X, y."""
    measure: str
    judge: Callable[[Any, np.ndarray, np.ndarray], float]
    regression: bool = False

    def models(self, n_trees: int) -> tuple[Any, Any]:
        """Return gpuens' model and scikit-learn's, with the same settings."""
        ours: dict[str, Any] = {
            "n_estimators": n_trees,
            "min_samples_leaf": 20,
            "l2_regularization": 0.0,
        }
        if self.regression:
            peer = HistGradientBoostingRegressor(max_iter=n_trees, early_stopping=False)
            return GradientBoostingRegressor(**ours), peer
        peer = HistGradientBoostingClassifier(max_iter=n_trees, early_stopping=False)
        return GradientBoostingClassifier(**ours), peer


def rmse(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the root of the mean squared error."""
    return float(root_mean_squared_error(y, model.predict(X)))


def accuracy(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the share of the rows whose class is right."""
    return float(model.score(X, y))


def auc(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the area under the ROC curve."""
    return float(roc_auc_score(y, model.predict_proba(X)[:, 1]))


def tasks(n_rows: int) -> Iterator[Task]:
    """Make the tables, each when it is needed."""

    def quarter(load: Callable[..., Any]) -> Split:
        X, X_test, y, y_test = train_test_split(*load(return_X_y=True), random_state=0)
        return X, y, X_test, y_test

    tumours = quarter(bundled.load_breast_cancer)
    yield Task("breast cancer", "is a tumour benign?", tumours, "accuracy", accuracy)
    patients = quarter(bundled.load_diabetes)
    question = "how far does the disease progress in a year?"
    yield Task("diabetes", question, patients, "RMSE", rmse, regression=True)
    pictures = quarter(bundled.load_digits)
    yield Task("digits", "which digit is on a picture?", pictures, "accuracy", accuracy)
    n_test = min(n_rows, TEST_ROWS)
    split = (*make_higgs_like(n_rows), *make_higgs_like(n_test, random_state=1))
    yield Task("generated", "signal or background, as in the HIGGS data?", split, "AUC", auc)


def say(text: str = "") -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def device_line() -> str:
    """Return a sentence that names the device, and the reason why it is used."""
    device = resolve_device("auto")
    problem = "NUMBA_ENABLE_CUDASIM=1 is set" if simulated() else gpu_problem()
    if problem is None:
        return (
            f"Models are trained on {device}, because this machine has a usable GPU, or on the "
            "CPU where that is faster."
        )
    reason = problem.split(". ")[0]
    threads = available_threads()
    return (
        f"Models are trained on the {str(device).upper()} with {threads} threads, because {reason}."
    )


def seconds_to_fit(model: Any, task: Task) -> float:
    """Train on the task's rows and return how long it took."""
    start = time.perf_counter()
    model.fit(*task.split[:2])
    return time.perf_counter() - start


def warm_up() -> float:
    """Compile the kernels, so that no time to train includes it; return the seconds it took."""
    start = time.perf_counter()
    X, y = make_higgs_like(300)
    for kind in (y, y + X[:, 0], np.arange(300) % 3):
        regression = kind.dtype.kind == "f"
        cls = GradientBoostingRegressor if regression else GradientBoostingClassifier
        cls(n_estimators=2).fit(X, kind).predict(X)
        cls(n_estimators=2).fit(X.astype(np.float64), kind).predict(X.astype(np.float64))
    return time.perf_counter() - start


def line(cells: Sequence[str]) -> str:
    """Lay out a line of the table, numbers on the right."""
    sides = "<<<>>>>"
    columns = zip(cells, sides, WIDTHS, strict=True)
    return " ".join(f"{cell:{side}{width}}" for cell, side, width in columns).rstrip()


def run(task: Task, n_trees: int) -> tuple[list[str], Any, Any]:
    """Train both models on a table; return the cells of its line, and the models."""
    ours, peer = task.models(n_trees)
    X, _, *test = task.split
    shape = f"{X.shape[0]:,} × {X.shape[1]}"
    say(f"{task.name.capitalize()} ({shape}): {task.question}")
    if X.shape[0] >= LONG_ROWS:
        ours.callbacks = [ProgressBar(sys.stdout)]
    took = [seconds_to_fit(ours, task)]
    say(f"  gpuens trained in {took[0]:.2f} s. Now scikit-learn ...")
    took.append(seconds_to_fit(peer, task))
    say(f"  scikit-learn trained in {took[1]:.2f} s.")
    digits = ".2f" if task.regression else ".4f"
    scores = [format(task.judge(model, *test), digits) for model in (ours, peer)]
    return [task.name, shape, task.measure, *scores, *(f"{t:.2f} s" for t in took)], ours, peer


def same_with_any_threads(n_rows: int = 20_000) -> bool:
    """Return whether one and two threads give the same fingerprint, and print both."""
    say("\nThe model must not depend on the number of threads. Fingerprints of two models:")
    X, y = make_higgs_like(n_rows)
    found = []
    for n in (1, 2):
        model = GradientBoostingClassifier(n_estimators=10, n_jobs=n).fit(X, y)
        found.append(model.forest_.fingerprint())
        say(f"  {n} thread{'s' if n > 1 else ' '}  {found[-1]}")
    same = found[0] == found[1]
    say("They are the same model, bit for bit." if same else "THEY DIFFER. Please report this.")
    return same


def staged_losses(model: Any, X: np.ndarray, y: np.ndarray) -> list[float]:
    """Return the log loss after every tree."""
    return [float(log_loss(y, p)) for p in model.staged_predict_proba(X)]


def draw_learning_curve(task: Task, ours: Any, peer: Any, path: Path) -> None:
    """Draw log loss by the number of trees, on training rows and on new ones."""
    if find_spec("matplotlib") is None:
        say("No picture: matplotlib is not installed. Run: pip install 'gpuens[viz]'")
        return
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    X, y, *test = task.split
    curves = (
        ("gpuens, test", staged_losses(ours, *test), "#1b5e9e", "-"),
        ("gpuens, training", staged_losses(ours, X[:CURVE_ROWS], y[:CURVE_ROWS]), "#1b5e9e", ":"),
        ("HistGradientBoosting, test", staged_losses(peer, *test), "#e08214", "--"),
    )
    figure = Figure(figsize=(7, 4.2), layout="constrained", dpi=150)
    axes = figure.subplots()
    for label, losses, colour, style in curves:
        axes.plot(range(1, len(losses) + 1), losses, style, color=colour, label=label)
    axes.set_xlabel("number of trees")
    axes.set_ylabel("log loss in nats a row")
    axes.set_title(f"Generated table, {X.shape[0]:,} rows × {X.shape[1]} columns", fontsize=11)
    axes.set_xlim(0, None)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    say(f"Picture of the learning curves on the generated table: {path}")


def read_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m gpuens.demo",
        description="Train gradient boosted trees on four tables beside scikit-learn.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the generated table")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS} rows, 20 trees")
    parser.add_argument(
        "--output", type=Path, default=Path("demo-output"), help="folder of the picture"
    )
    options = parser.parse_args(argv)
    if options.rows < 1000:
        parser.error(f"argument --rows: must be at least 1000, got {options.rows}")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demonstration; return 1 if one and two threads gave different models."""
    options = read_options(argv)
    n_trees = 20 if options.quick else N_TREES
    say(f"gpuens {__version__}. {device_line()}")
    say("\nGradient boosting is trained on four tables, beside scikit-learn's")
    say(f"HistGradientBoosting with the same settings ({n_trees} trees, no early stopping).")
    say("Then both predict rows that they have not seen.\n")
    say("Waiting for Numba to compile the kernels. The first run on a machine takes about half a")
    say("minute; later runs load them from disk ...")
    say(f"Ready after {warm_up():.1f} s.\n")
    rows = []
    for task in tasks(min(options.rows, QUICK_ROWS) if options.quick else options.rows):
        cells, ours, peer = run(task, n_trees)
        rows.append(cells)
    same = same_with_any_threads()
    say("\nResults on the test rows (RMSE: lower is better), and seconds to train:\n")
    say(line(["", "", "", "quality", "", "seconds", ""]))
    for row in (HEAD, *rows):
        say(line(row))
    say()
    draw_learning_curve(task, ours, peer, options.output / "learning_curve.png")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
