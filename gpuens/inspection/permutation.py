"""Permutation importance on any rows, and the scores it compares."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.utils import Bunch
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from ..devices.lazy_tables import require_in_memory
from ..devices.placement import CPU, Device, on_host, to_numpy
from ..estimators.parameters import COUNT, seed_of
from ..inputs.arrays import to_input_library
from ..inputs.labels import as_classes
from ..inputs.targets import array_of, read_sample_weight
from ..kernels.runtime.arrays import Array
from ..kernels.scalars import rng
from ..kernels.scalars.primitives import vectorise
from ..members.fitting import jobs_for
from ..numerics.sampling import subset
from .columns import Columns, columns_of

PURPOSE_PERMUTATION = np.uint64(1001)
"""Apart from the purposes of training, in ``kernels.scalars.rng``."""
PURPOSE_PERMUTED_ROWS = np.uint64(1002)
S32 = np.uint64(32)

_draw, _subkey = vectorise(rng.draw), vectorise(rng.subkey)


def permutation_importance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    scoring: Any = None,
    n_repeats: int = 5,
    n_jobs: int | None = None,
    random_state: Any = None,
    sample_weight: Any = None,
    max_samples: int | float = 1.0,
) -> Any:
    """Compute how far a score falls when the values of a feature are shuffled among the rows
    (Breiman 2001; Fisher, Rudin and Dominici 2019).

    Pass rows that the model was not fitted on. (A forest's ``oob_permutation_importance`` shuffles
    the training rows that each tree has not seen.)

    Parameters
    ----------
    estimator : fitted estimator
        Of any library.
    X : array or data frame, shape (n_rows, n_features)
        The rows to score on, whose columns are shuffled one at a time.
    y : array, shape (n_rows,) or (n_rows, n_outputs), or None
        None for scores that need no target.
    scoring : str, callable, list, tuple, dict or None, default=None
        As in scikit-learn; None is the estimator's ``score``. Several metrics share predictions.
    n_repeats : int, default=5
        Shuffles of each feature.
    n_jobs : int or None, default=None
        Features that are worked on at a time, for estimators of other libraries on the host.
    random_state : int, RandomState instance or None, default=None
        Seed; None is a fixed one. An order depends only on the seed, the feature and the
        number of the repeat, so it is the same on every device.
    sample_weight : array, shape (n_rows,), default=None
        Weights of the rows in the score.
    max_samples : int or float, default=1.0
        Rows, or their share, that each feature is scored on, with and without the shuffle; drawn
        without replacement.

    Returns
    -------
    Bunch, or dict of Bunch by metric
        ``importances_mean`` and ``importances_std``, float64 of shape (n_features,), over the
        repeats, and ``importances``, shape (n_features, n_repeats). In the array library and on
        the device of X.

    Raises
    ------
    ValueError, TypeError
        Bad data or parameters; names the argument, what it got and what it wants.

    References
    ----------
    Breiman, "Random forests", Machine Learning 45, 2001.
    Fisher, Rudin and Dominici, "All models are wrong, but many are useful", JMLR 20, 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import RandomForestClassifier
    >>> from gpuens.inspection import permutation_importance
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(n_estimators=20, device="cpu").fit(X[::2], y[::2])
    >>> found = permutation_importance(forest, X[1::2], y[1::2])
    >>> found.importances.shape, bool(found.importances_mean[2:].min() > 0)
    ((4, 5), True)
    """
    if not hasattr(estimator, "fit"):
        raise ValueError(
            f"estimator must be a fitted estimator with a fit method, got {estimator!r}."
        )
    check_is_fitted(estimator)
    COUNT.check("n_repeats", n_repeats)
    seed = seed_of(random_state)
    columns = columns_of(X, estimator)
    n_rows, n_features = columns.shape
    n_samples = _rows_to_score(max_samples, n_rows)
    with columns.device.active():
        target = rows_of_target(y, n_rows, estimator)
        weight = read_sample_weight(sample_weight, n_rows, CPU)
        scorer = Scorer(estimator, scoring, columns.device)
        is_whole = n_samples == n_rows
        baseline = scorer.of(columns.table(), 1, target, weight) if is_whole else None
        task = functools.partial(
            _scores_shuffled, scorer, columns, target, weight, int(n_repeats), n_samples, seed,
            baseline,
        )  # fmt: skip
        n_jobs = 1 if scorer.in_one_go else jobs_for(X, columns.device, n_jobs)
        with Parallel(n_jobs=n_jobs) as parallel:
            found = parallel(delayed(task)(feature) for feature in range(n_features))
        return in_library_of(importances_of(*zip(*found, strict=True)), X)


def _scores_shuffled(
    scorer: Scorer, columns: Columns, y: Any, weight: Any, n_repeats: int, n_samples: int,
    seed: int, baseline: Scores | None, feature: int,
) -> tuple[Scores, Scores]:  # fmt: skip
    """Return the scores with a feature as it is (``baseline``, if not None: where all features have
    the same rows), and shuffled."""

    def order(repeat: int) -> Array:
        index = np.uint64(feature * n_repeats + repeat)
        key = int(_subkey(np.uint64(seed), PURPOSE_PERMUTATION, index))
        return random_order(columns.shape[0], key, columns.device)

    if baseline is None:
        key = int(_subkey(np.uint64(seed), PURPOSE_PERMUTED_ROWS, np.uint64(0)))
        rows = subset(columns.shape[0], n_samples, key, feature, columns.device)
        host = on_host(rows)
        columns, y = columns.take(rows), take_rows(y, host)
        weight = None if weight is None else weight[host]
        baseline = scorer.of(columns.table(), 1, y, weight)
    at_once = columns.most_copies if scorer.in_one_go else 1
    scores: Scores = []
    for first in range(0, n_repeats, at_once):
        orders = [order(r) for r in range(first, min(first + at_once, n_repeats))]
        scores += scorer.of(columns.shuffled(feature, orders), len(orders), y, weight)
    return baseline, scores


def random_order(n: int, key: int, device: Device) -> Array:
    """Return a random order of n rows, by the draws of a key; equal draws keep their order: int64,
    shape (n,), on the device."""
    xp = device.xp
    bits = _draw(np.uint32(key), xp.arange(n, dtype=xp.uint32)).astype(xp.uint64)
    return xp.argsort(bits << S32 | xp.arange(n, dtype=xp.uint64), stable=False)


def rows_of_target(y: Any, n_rows: int, estimator: Any) -> Any:
    """Return the target on the host, otherwise as passed; lists become arrays, and labels of a
    classifier get the type of its classes. Raises a ValueError if it has another number of rows
    than X."""
    if y is None:
        return None
    require_in_memory(y, "y")
    y = on_host(y)
    y = as_classes(y) if is_classifier(estimator) else y
    y = y if hasattr(y, "iloc") else array_of(y)
    if len(y.shape) == 0 or y.shape[0] != n_rows:
        raise ValueError(
            f"y has the shape {tuple(y.shape)}, X has {n_rows} rows: pass one target for each row."
        )
    return y


def take_rows(y: Any, rows: np.ndarray) -> Any:
    """Return some rows of a target on the host."""
    if y is None:
        return None
    return y.iloc[rows] if hasattr(y, "iloc") else y[rows]


def _rows_to_score(max_samples: Any, n_rows: int) -> int:
    if isinstance(max_samples, Integral) and not isinstance(max_samples, bool):
        if int(max_samples) > n_rows:
            raise ValueError(
                f"max_samples must be <= n_samples, got {max_samples} for the {n_rows} rows of X."
            )
        if int(max_samples) >= 1:
            return int(max_samples)
    elif isinstance(max_samples, Real) and not isinstance(max_samples, bool):
        share = float(max_samples)
        if 0 < share <= 1 and int(share * n_rows) >= 1:
            return int(share * n_rows)
    raise ValueError(
        "max_samples must be an integer >= 1 or a share in (0, 1] of at least one row, got "
        f"{max_samples!r}."
    )


RESPONSES = ("predict", "predict_proba", "predict_log_proba", "decision_function", "score_samples")
Scores = list[Any]


class Scorer:
    """The scoring functions that a model is evaluated with, as in scikit-learn; None is the model's
    own ``score``. Raises a ValueError or TypeError if ``scoring`` is none, or the model has no
    ``score``."""

    def __init__(self, model: Any, scoring: Any, device: Device) -> None:
        self.model, self.device = model, device
        self.in_one_go = type(model).__module__.partition(".")[0] == "gpuens"
        if isinstance(scoring, str) and scoring not in get_scorer_names():
            raise ValueError(
                "scoring must be a name from sklearn.metrics.get_scorer_names(), a callable "
                f"(estimator, X, y) -> float, several of these, or None, got {scoring!r}."
            )
        self.score: Callable[..., Any] = check_scoring(model, scoring=scoring)
        if scoring is None and hasattr(model, "_score_of"):
            self.score = self._own_score

    def _own_score(self, part: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the model's ``score`` of predictions that are computed once for all tables."""
        return self.model._score_of(y, part.predict(X), sample_weight)

    def of(self, table: Any, n: int, y: Any, weight: Any) -> Scores:
        """Return the scores, or dicts of these, of n tables that stand below each other (1 for a
        model of another library); y and weight, on the host, are those of each table."""
        weights = {} if weight is None else {"sample_weight": weight}
        if not self.in_one_go:
            return [self.score(self.model, table, y, **weights)]

        @functools.cache
        def answers(method: str) -> np.ndarray:
            answer = to_numpy(getattr(self.model, method)(table))
            return answer.reshape(n, -1, *answer.shape[1:])

        n_rows = len(table) // n if n > 1 else 0
        parts = [table] if n == 1 else [table[i * n_rows : (i + 1) * n_rows] for i in range(n)]
        return [
            self.score(_Part(self.model, answers, i, part), part, y, **weights)
            for i, part in enumerate(parts)
        ]


class _Part:
    """Stands in for the model when a scorer evaluates one of several tables, whose ``answers`` are
    computed at once; predictions are on the host, where scikit-learn's metrics work."""

    def __init__(
        self, model: Any, answers: Callable[[str], np.ndarray], number: int, table: Any
    ) -> None:
        self._model, self._answers, self._number, self._table = model, answers, number, table

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__sklearn_tags__":
            raise AttributeError(name)
        value = getattr(self._model, name)
        if name not in RESPONSES:
            return value

        def answer(X: Any) -> Any:
            if X is not self._table:  # a scorer that asks about other rows
                return to_numpy(value(X))
            return self._answers(name)[self._number]

        answer.__name__ = name
        return answer


def importances_of(baseline: Sequence[Scores], scores: Sequence[Scores]) -> Any:
    """Return how far scores fell, as a Bunch, or by metric: ``importances`` (n_features, n_scores),
    and their ``importances_mean`` and ``importances_std``. ``baseline`` and ``scores`` have a list
    for each feature, the former of length 1 or n_scores."""
    if isinstance(baseline[0][0], dict):
        return {
            name: importances_of(_of_metric(baseline, name), _of_metric(scores, name))
            for name in baseline[0][0]
        }
    fall = np.array(baseline, np.float64) - np.array(scores, np.float64)
    return Bunch(
        importances_mean=fall.mean(axis=1), importances_std=fall.std(axis=1), importances=fall
    )


def _of_metric(scores: Sequence[Scores], name: str) -> list[Scores]:
    return [[score[name] for score in row] for row in scores]


def in_library_of(importances: Any, X: Any) -> Any:
    """Convert results to the array library and device of a table."""
    if not isinstance(importances, Bunch):
        return {name: in_library_of(bunch, X) for name, bunch in importances.items()}
    return Bunch(**{name: to_input_library(array, X) for name, array in importances.items()})
