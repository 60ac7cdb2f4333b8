"""Actions after every round of training: progress, logs, checkpoints and your own.

A callback is a function ``callback(state) -> bool | None``, or an object with a method
``after_iteration(state)`` that returns the same; ``state`` is a ``TrainingState``. A true result
stops the training and keeps the rounds so far. If a callback has a method
``after_training(state)``, that is called once at the end, also after early stopping and Ctrl-C. A
callback that raises ends the training: the finished rounds are kept, and ``fit`` raises its error.
"""

from __future__ import annotations

import copy
import os
import pickle
import sys
import time
from typing import Any, TextIO

from .estimators.training import Callback, TrainingState
from .files import replacing

__all__ = [
    "Callback",
    "Checkpoint",
    "EvaluationLog",
    "ProgressBar",
    "PruningCallback",
    "TrainingState",
]

LOGGED_SHARES = (1, 2, 5, 10, 20, 40, 60, 80)
"""Percent of the rounds after which a log file gets a line; another one follows at the end."""
LINE_WIDTH = 119


def callbacks_of(estimator: Any) -> list[Any]:
    """Return the callbacks of an estimator, with a progress bar if it is verbose."""
    return [*(estimator.callbacks or []), *([ProgressBar()] if estimator.verbose else [])]


def _latest(state: TrainingState) -> str:
    """Format the metrics of the last round."""
    return "  ".join(
        f"{data} {metric} {values[-1]:.6g}"
        for data, metrics in state.evals.items()
        for metric, values in metrics.items()
        if values
    )


class _Printer:
    """A callback that writes to a text stream."""

    def __init__(self, file: TextIO | None) -> None:
        self.file = file

    def __deepcopy__(self, memo: Any) -> Any:
        return copy.copy(self)  # scikit-learn's clone copies parameters; streams cannot be


class ProgressBar(_Printer):
    """Show the rounds done, the time left and the latest metrics.

    A widget in notebooks and one line in a terminal, both of tqdm; in files and pipes a few whole
    lines, after 1, 2, 5, 10, 20, 40, 60, 80 and 100 % of the rounds. A line at the end says why
    the training ended.

    Parameters
    ----------
    file : text stream or None, default=None
        Where to print; None: standard error, or a widget in a notebook.
    width : int, default=30
        Characters of the bar in a terminal.
    interval : float, default=0.1
        Seconds between two updates of the bar.
    """

    def __init__(self, file: TextIO | None = None, width: int = 30, interval: float = 0.1) -> None:
        super().__init__(file)
        self.width = width
        self.interval = interval
        self._started = -1.0  # of the training that is shown
        self._bar: Any = None
        self._shown = -1
        self._first = (0, 0.0)

    def after_iteration(self, state: TrainingState) -> None:
        """Update the bar, or write a line if it is time for one."""
        self._begin(state)
        if self._bar is not None:
            self._bar.set_postfix_str(_latest(state), refresh=False)
            self._bar.update(state.iteration - self._bar.n)
        elif state.iteration < state.n_iterations:
            before = max(self._shown, state.first_iteration)
            low, high = (100 * n // state.n_iterations for n in (before, state.iteration))
            if any(low < share <= high for share in LOGGED_SHARES):
                self._log(state)

    def after_training(self, state: TrainingState) -> None:
        """Show the last state."""
        self._begin(state)
        if self._bar is not None:
            self._bar.close()
        elif self._shown != state.iteration:
            self._log(state)
        if state.stopped:
            ended = f"Ended after {state.iteration} of {state.n_iterations} rounds: {state.stopped}"
            kept = f"; the model keeps the first {state.n_kept}"
            self._print(f"{ended}{kept if state.n_kept < state.iteration else ''}.")
        self._started, self._bar = -1.0, None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_started": -1.0, "_bar": None}

    def _begin(self, state: TrainingState) -> None:
        """Make a bar, unless the one at hand is that of this training."""
        if self._started != state.started:
            self._started, self._shown = state.started, -1
            self._first = state.iteration, time.perf_counter()
            self._bar = self._new_bar(state)

    def _new_bar(self, state: TrainingState) -> Any:
        """Return a bar of tqdm, or None if the stream is neither a notebook nor a terminal."""
        stream = self.file or sys.stderr
        notebook = self.file is None and _in_notebook()
        if not notebook and not (hasattr(stream, "isatty") and stream.isatty()):
            return None
        from tqdm.auto import tqdm  # not needed to train

        layout = f"{{bar:{self.width}}} {{n_fmt}}/{{total_fmt}} [{{elapsed}}<{{remaining}}"
        bar = tqdm(
            total=state.n_iterations,
            initial=state.first_iteration,
            file=stream,
            mininterval=self.interval,
            miniters=1,
            dynamic_ncols=True,
            bar_format=None if notebook else layout + "{postfix}]",
        )
        bar.start_t -= time.perf_counter() - state.started
        return bar

    def _log(self, state: TrainingState) -> None:
        self._shown = state.iteration
        percent = 100 * state.iteration // state.n_iterations
        elapsed = time.perf_counter() - state.started
        line = (
            f"{percent:3d} % {state.iteration}/{state.n_iterations} {elapsed:.1f} s"
            f"{self._left(state)}  {_latest(state)}"
        )
        self._print(line.rstrip()[:LINE_WIDTH])

    def _left(self, state: TrainingState) -> str:
        """Return the time left, by the rounds after the first: that one may wait for a compiler."""
        first, since = self._first
        left = state.n_iterations - state.iteration
        if left and state.iteration == first:
            return ""
        seconds = left * (time.perf_counter() - since) / max(1, state.iteration - first)
        return f", {seconds:.1f} s left"

    def _print(self, line: str) -> None:
        print(line, file=self.file or sys.stderr, flush=True)


def _in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    return bool(shell) and "IPKernelApp" in shell.config


class EvaluationLog(_Printer):
    """Print the metrics every few rounds.

    Parameters
    ----------
    period : int, default=10
        Rounds from one line to the next.
    file : text stream or None, default=None
        Where to print; None: standard output.
    """

    def __init__(self, period: int = 10, file: TextIO | None = None) -> None:
        super().__init__(file)
        self.period = period

    def after_iteration(self, state: TrainingState) -> None:
        """Print a line every ``period`` rounds, and after the last one."""
        if state.iteration % self.period == 0 or state.iteration == state.n_iterations:
            print(f"[{state.iteration}] {_latest(state)}", file=self.file or sys.stdout)


class Checkpoint:
    """Save a fitted model every few rounds, whole or not at all.

    ``gpuens.load`` reads it; after ``set_params(warm_start=True)`` its ``fit`` goes on
    from there, to the model that one uninterrupted ``fit`` gives. Callbacks are not saved.

    Parameters
    ----------
    path : str or path
        Replaced at every save.
    period : int, default=10
        Rounds from one save to the next.
    pickled : bool, default=False
        Whether to pickle the model, for one that holds functions (a loss or metric of your own);
        then ``pickle.load`` reads it, from files that you trust.
    """

    def __init__(
        self, path: str | os.PathLike[str], period: int = 10, *, pickled: bool = False
    ) -> None:
        self.path = path
        self.period = period
        self.pickled = pickled

    def after_iteration(self, state: TrainingState) -> None:
        """Save every ``period`` rounds, and after the last one."""
        if state.iteration % self.period and state.iteration != state.n_iterations:
            return
        if not self.pickled:
            import gpuens  # saving knows every class, training needs few

            gpuens.save(state.model(), self.path)
            return
        with replacing(self.path) as unfinished, open(unfinished, "wb") as file:
            pickle.dump(state.model(), file, protocol=pickle.HIGHEST_PROTOCOL)


class PruningCallback:
    """Report a metric to a trial of Optuna after every round, and end the training if the trial is
    to be pruned.

    Then ``fit`` raises ``optuna.TrialPruned``, which Optuna expects of an objective.

    Parameters
    ----------
    trial : optuna.Trial
        Of a study whose direction is the metric's: "minimize" for "loss".
    data : str or None, default=None
        The rows, a key of ``evals_result_``; None: the first.
    metric : str or None, default=None
        None: the first.

    Examples
    --------
    >>> from gpuens import GradientBoostingClassifier
    >>> from gpuens.callbacks import PruningCallback
    >>> def objective(trial):
    ...     depth = trial.suggest_int("max_depth", 1, 6)
    ...     callbacks = [PruningCallback(trial)]
    ...     model = GradientBoostingClassifier(max_depth=depth, callbacks=callbacks)
    ...     model.fit(X, y, eval_set=(X_val, y_val))
    ...     return model.evals_result_["validation_0"]["loss"][-1]
    """

    def __init__(self, trial: Any, data: str | None = None, metric: str | None = None) -> None:
        self.trial, self.data, self.metric = trial, data, metric

    def __deepcopy__(self, memo: Any) -> Any:
        return copy.copy(self)  # the copies of an estimator belong to the same trial

    def after_iteration(self, state: TrainingState) -> None:
        """Report the metric; raise what Optuna prunes with."""
        self.trial.report(self._values(state)[-1], state.iteration)
        if self.trial.should_prune():
            from optuna import TrialPruned

            raise TrialPruned(f"Pruned after {state.iteration} rounds.")

    def _values(self, state: TrainingState) -> list[float]:
        data = next(iter(state.evals), None) if self.data is None else self.data
        metrics = state.evals.get(data, {}) if data is not None else {}
        metric = next(iter(metrics), None) if self.metric is None else self.metric
        if data is None or metric not in metrics:
            recorded = {name: list(metrics) for name, metrics in state.evals.items()}
            raise ValueError(
                f"PruningCallback(data={self.data!r}, metric={self.metric!r}) finds no such "
                f"metric: the training records {recorded}. Pass names among these; "
                "fit(..., eval_set=(X, y)) records metrics of further rows."
            )
        return metrics[metric]
