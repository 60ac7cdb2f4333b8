"""Errors and scores while an ensemble grows: ``LearningCurveDisplay``, ``OOBCurveDisplay``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score

from ..devices.placement import to_numpy
from ..estimators.docstrings import documented
from .axes import (
    COLORS,
    DRAWN,
    DRAWN_ON,
    GREY,
    attribute_of,
    axes_for,
    require_fitted,
    tidy,
    vector,
    whole_ticks,
)

LINES = ("-", "--", "-.", ":")


class LearningCurveDisplay:
    """Losses or scores after every round of boosting.

    Parameters
    ----------
    curves : dict of str to float64, shape (n_values,)
        By the name of the data.
    metric : str
        What the values are.
    first_round : int, default=1
        The round of the first value; 0 is before the first tree.
    n_kept : int or None, default=None
        The rounds that the model kept, where early stopping dropped some.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    lines_ : list of matplotlib lines
        In the order of ``curves``.
    kept_line_ : matplotlib line or None

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import GradientBoostingRegressor
    >>> from gpuens.plotting import LearningCurveDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GradientBoostingRegressor(n_estimators=20, device="cpu")
    >>> model = model.fit(X[::2], y[::2], eval_set=(X[1::2], y[1::2]))
    >>> display = LearningCurveDisplay.from_estimator(model)
    >>> [(name, curve.size) for name, curve in display.curves.items()]
    [('validation_0', 21)]
    """

    def __init__(
        self, curves: Mapping[str, Any], *, metric: str, first_round: int = 1,
        n_kept: int | None = None,
    ) -> None:  # fmt: skip
        self.curves = {
            str(data): vector(values, f"curves[{data!r}]") for data, values in curves.items()
        }
        self.metric, self.first_round, self.n_kept = metric, first_round, n_kept

    @classmethod
    def from_estimator(
        cls, estimator: Any, eval_set: Any = None, *, metric: Any = None,
        response_method: str = "predict", ax: Any = None, **kwargs: Any,
    ) -> LearningCurveDisplay:  # fmt: skip
        """Create the display of a fitted model.

        Parameters
        ----------
        eval_set : dict of str to (X, y), or (X, y), default=None
            Rows to predict round by round, for any model with ``staged_predict``. None: what
            gradient boosting recorded while it was trained, in ``evals_result_``.
        metric : str or callable, default=None
            Without ``eval_set`` the name of a recorded metric; None: the first. With it a function
            (y_true, prediction) -> float; None: accuracy or R².
        response_method : {"predict", "predict_proba", "decision_function"}, default="predict"
            What the function gets, of ``eval_set``.
        ax, **kwargs
            As for ``plot``.

        Returns
        -------
        LearningCurveDisplay

        Raises
        ------
        AttributeError, ValueError, TypeError
            The model recorded nothing, or not this metric; or cannot predict round by round.
        """
        require_fitted(estimator)
        if eval_set is None:
            display = cls._of_evals(estimator, metric)
        else:
            display = cls._of_rows(estimator, _named(eval_set), metric, response_method)
        return display.plot(ax=ax, **kwargs)

    @classmethod
    def _of_evals(cls, estimator: Any, metric: Any) -> LearningCurveDisplay:
        recorded = attribute_of(
            estimator, "evals_result_", "pass eval_set=(X, y), rows to predict after every round"
        )
        names = list(dict.fromkeys(name for metrics in recorded.values() for name in metrics))
        if not names:
            raise ValueError(
                f"{type(estimator).__name__}.evals_result_ is empty: pass eval_set to fit or set "
                "early_stopping=True, or pass eval_set here."
            )
        metric = names[0] if metric is None else metric
        if metric not in names:
            raise ValueError(
                f"metric must be one that was recorded, {' or '.join(map(repr, names))}, got "
                f"{metric!r}."
            )
        curves = {data: metrics[metric] for data, metrics in recorded.items() if metric in metrics}
        kept = int(estimator.n_iter_)
        longest = max(map(len, curves.values())) - 1
        return cls(curves, metric=metric, first_round=0, n_kept=kept if kept < longest else None)

    @classmethod
    def _of_rows(
        cls, estimator: Any, rows: Mapping[str, Any], metric: Any, response_method: str
    ) -> LearningCurveDisplay:
        compute, name = _metric_of(estimator, metric)
        attribute = f"staged_{response_method}"
        attribute_of(estimator, attribute, "pass boosting, and a response_method that it has")

        def curve(data: str, X: Any, y: Any) -> Iterator[float]:
            truth = vector(y, f"y of eval_set {data!r}")
            for predicted in getattr(estimator, attribute)(X):
                yield float(compute(truth, to_numpy(predicted)))

        curves = {data: np.array(list(curve(data, *pair))) for data, pair in rows.items()}
        return cls(curves, metric=name)

    @documented(DRAWN_ON, artist="lines", by="plot", display="LearningCurveDisplay")
    def plot(
        self, ax: Any = None, *, names: Mapping[str, str] | None = None, **kwargs: Any
    ) -> LearningCurveDisplay:
        """Draw the curves; several displays can share axes.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            None: new ones.
        names : dict of str to str, default=None
            What the legend calls the data.
        <shared>
        """
        self.ax_ = ax = axes_for(ax)
        self.figure_ = ax.figure
        self.lines_ = []
        names = {} if names is None else names
        n_before = len(ax.lines)
        for i, (data, values) in enumerate(self.curves.items(), n_before):
            style = {"color": COLORS[i % len(COLORS)], "linestyle": LINES[i % len(LINES)]}
            rounds = np.arange(self.first_round, self.first_round + values.size)
            label = names.get(data, data.replace("_", " "))
            self.lines_ += ax.plot(rounds, values, **style | {"label": label} | kwargs)
        self.kept_line_ = None
        if self.n_kept is not None:
            label = f"kept: {self.n_kept} rounds"
            self.kept_line_ = ax.axvline(self.n_kept, color=GREY, linestyle=":", label=label)
        tidy(ax, "number of rounds", self.metric.replace("_", " "))
        whole_ticks(ax.xaxis)
        ax.legend(frameon=False)
        return self


class OOBCurveDisplay:
    """The out-of-bag error of a forest by the number of its trees.

    It shows how many trees are enough. With few of them it is too pessimistic: a row is judged by
    about 0.37 of the trees.

    Parameters
    ----------
    errors : float64, shape (n_trees,)
        NaN where no row has a prediction.
    error_name : str, default="error"
        What the errors are.
    estimator_name : str or None, default=None
        Name for the legend.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
    line_ : matplotlib line

    References
    ----------
    Breiman, "Out-of-bag estimation", technical report, Berkeley, 1996.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from gpuens import RandomForestClassifier
    >>> from gpuens.plotting import OOBCurveDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> forest = RandomForestClassifier(n_estimators=30, oob_score=True, device="cpu").fit(X, y)
    >>> OOBCurveDisplay.from_estimator(forest).errors.shape
    (30,)
    """

    def __init__(
        self, errors: Any, *, error_name: str = "error", estimator_name: str | None = None
    ) -> None:
        self.errors = vector(errors, "errors")
        self.error_name, self.estimator_name = error_name, estimator_name

    @classmethod
    @documented(DRAWN, artist="line", by="plot", display="OOBCurveDisplay")
    def from_estimator(
        cls, estimator: Any, *, name: str | None = None, ax: Any = None, **kwargs: Any
    ) -> OOBCurveDisplay:
        """Create the display of a forest that was fitted with ``oob_score``.

        Parameters
        ----------
        name : str, default=None
            For the legend; None: the class of the estimator.
        <shared>

        Raises
        ------
        AttributeError
            The model has no ``oob_scores_path_``.
        """
        remedy = "fit a forest of this package with oob_score=True and bootstrap=True"
        errors = attribute_of(estimator, "oob_scores_path_", remedy)
        of_classes = is_classifier(estimator)
        error = "share of wrong rows" if of_classes else "mean squared error"
        display = cls(
            errors,
            error_name=f"out-of-bag error\n({error})",
            estimator_name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> OOBCurveDisplay:
        """Draw the curve; several displays can share axes.

        Parameters
        ----------
        ax, name, **kwargs
            As for ``from_estimator``.

        Returns
        -------
        OOBCurveDisplay
        """
        self.ax_ = ax = axes_for(ax)
        self.figure_ = ax.figure
        style = {
            "color": COLORS[len(ax.lines) % len(COLORS)],
            "linestyle": LINES[len(ax.lines) % len(LINES)],
            "label": self.estimator_name if name is None else name,
        } | kwargs
        (self.line_,) = ax.plot(np.arange(1, self.errors.size + 1), self.errors, **style)
        tidy(ax, "number of trees", self.error_name)
        ax.set_ylim(bottom=0, auto=True)  # a display that comes later can go higher
        whole_ticks(ax.xaxis)
        if style["label"] is not None:
            ax.legend(frameon=False)
        return self


def _named(eval_set: Any) -> Mapping[str, Any]:
    """Return pairs (X, y) by name."""
    named = eval_set if isinstance(eval_set, Mapping) else {"evaluation": eval_set}
    for data, pair in named.items():
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise ValueError(
                "eval_set must be (X, y), or a dict of names to such pairs, got "
                f"{type(pair).__name__} for {data!r}."
            )
    if not named:
        raise ValueError("eval_set is empty: pass (X, y), or a dict of names to such pairs.")
    return named


def _metric_of(estimator: Any, metric: Any) -> tuple[Callable[[Any, Any], Any], str]:
    """Return a function of truth and prediction, and its name."""
    if metric is None:
        if not is_classifier(estimator):
            return r2_score, "R²"
        own = getattr(estimator, "_score_of", None)
        return partial(own, sample_weight=None) if own else accuracy_score, "accuracy"
    if not callable(metric):
        raise ValueError(
            "metric must be a function (y_true, prediction) -> float where eval_set is passed, got "
            f"{metric!r}."
        )
    return metric, getattr(metric, "__name__", "metric")
