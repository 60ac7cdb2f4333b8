"""Many models of small data, trained side by side: those of a cross-validation or a search.

A small table keeps only one thread busy: starting the others for every tree costs more than they
save. So each thread trains whole models, one after another, on folds that are cut out once. On a
GPU, where a launch takes longer than its work, boosted models grow together instead.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, overload

import numpy as np
from joblib import parallel_config
from joblib.parallel import ThreadingBackend
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import GridSearchCV as _GridSearchCV
from sklearn.model_selection import ParameterGrid, ParameterSampler, check_cv
from sklearn.model_selection import RandomizedSearchCV as _RandomizedSearchCV
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.validation import _num_samples

from .combining.out_of_fold import check_decisions, check_method, in_order, order_of
from .devices.lazy_tables import require_in_memory
from .devices.placement import gpu_of, on_host
from .estimators.base import PACKAGE, PAGE
from .estimators.docstrings import documented
from .estimators.nothing_learned import warn_user
from .estimators.parameters import threads_of
from .estimators.training import group_here
from .inputs.labels import as_classes
from .members.side_by_side import (
    TrainingGroup,
    planned_groups,
    raise_as_it_is,
    train_side_by_side,
)
from .tuning.host_scoring import scoring_on_host

SEARCH = """scoring : str, callable, list, tuple, dict or None, default=None
        What decides: the name of a scorer of scikit-learn or a function ``(estimator, X, y) ->
        float``, higher is better; several of them; or the estimator's ``score`` (None).
    n_jobs : int or None, default=None
        Threads, each of which trains whole models; on tables of more than two million values those
        of one model or, where its own ``n_jobs`` allows it fewer, of several. None: all cores that
        the process may use.
    refit : bool, str or callable, default=True
        Whether the best setting is fitted to all rows afterwards (``best_estimator_``). The name of
        the metric that decides where there are several, or a function that chooses from
        ``cv_results_``.
    cv : int, cross-validation splitter, iterable or None, default=None
        The folds: their number (None: 5), a splitter of scikit-learn, or pairs of rows to train on
        and to score. Pass ``GroupKFold`` or ``TimeSeriesSplit`` where rows depend on each other.
    verbose : int, default=0
        1 prints how many settings are finished, and the best score so far, to standard error; 2
        and 3 have scikit-learn print the time of each fit, and its score too.
    pre_dispatch : int or str, default="2*n_jobs"
        Fits that are handed to the threads ahead.
    error_score : "raise" or float, default=nan
        The score of a fit that raises an error; "raise" ends the search with the error.
    return_train_score : bool, default=False
        Whether ``cv_results_`` has the scores of the training rows, too, which shows overfitting
        and takes time."""
ALL_FAILED = r"\s*All the \d+ fits failed"
"""How the error of scikit-learn begins where no fit of several settings succeeded."""


Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]] | None
Models = list[list[Any]]


@overload
def fit_many(
    estimators: Any, X: Any, y: Any = None, *, param_grid: Grid = None, folds: Any = None,
    method: None = None, sample_weight: Any = None, n_jobs: int | None = None,
) -> Models: ...  # fmt: skip


@overload
def fit_many(
    estimators: Any, X: Any, y: Any = None, *, param_grid: Grid = None, folds: Any, method: str,
    sample_weight: Any = None, n_jobs: int | None = None,
) -> tuple[Models, list[Any]]: ...  # fmt: skip


def fit_many(
    estimators: Any, X: Any, y: Any = None, *, param_grid: Grid = None, folds: Any = None,
    method: str | None = None, sample_weight: Any = None, n_jobs: int | None = None,
) -> Models | tuple[Models, list[Any]]:  # fmt: skip
    """Fit several estimators to several parts of a table.

    Parameters
    ----------
    estimators : estimator or sequence of estimators
        They are cloned, not changed.
    X : array or data frame, shape (n_rows, n_features)
        The table; its rows are cut into folds where it is.
    y : array, shape (n_rows,), default=None
        The target. X, y and the weights may be in the memory of a GPU: they are cut into folds
        there.
    param_grid : dict or list of dicts, default=None
        Settings of one estimator, as for scikit-learn's ``ParameterGrid``.
    folds : int, cross-validation splitter, or iterable of (train, test) rows, default=None
        The rows to train on; None: all rows. ``GroupKFold().split(X, y, groups)`` keeps groups.
    method : {"predict", "predict_proba", "predict_log_proba", "decision_function"}, default=None
        The method whose out-of-fold predictions are returned too, as of scikit-learn's
        ``cross_val_predict``: each row is predicted by the model of the fold that holds it out, of
        which there must be one for every row. None: models only.
    sample_weight : array, shape (n_rows,), default=None
        Weights of the rows, which go to ``fit``.
    n_jobs : int or None, default=None
        Number of threads, as for ``GridSearchCV``; None: all cores that the process may use. On a
        GPU each has a stream of
        its own, and there are no more than free memory holds trainings. Models of gradient boosting
        on a GPU grow together, as many at a time (None: as many as memory holds): the trees of all
        folds and settings take about as long as those of one while the table is small.

    Returns
    -------
    models : list of lists of fitted estimators
        ``[setting][fold]``. Each model is the one that its own ``fit`` on these rows returns.
    predictions : list of arrays, shape (n_rows, ...)
        With ``method`` only: those of each setting, in the order of the rows of X. Probabilities
        have a column for each class of y; it is zero (its logarithm the least number) in the rows
        of a fold whose training rows lack the class, with a warning. A list for each setting where
        y has several columns of classes.

    Raises
    ------
    ValueError, TypeError
        From the ``fit`` of the first model that fails, whose setting and fold a note names; or
        there is nothing to fit; or ``method`` is not one of the estimators, or the folds do not
        hold out every row once, or their training rows lack classes that "decision_function" needs.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import RandomForestClassifier, fit_many
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RandomForestClassifier(n_estimators=10)
    >>> models, (p,) = fit_many(model, X, y, folds=5, method="predict_proba")
    >>> len(models[0]), p.shape
    (5, (150, 3))
    """
    settings = _settings(estimators, param_grid)
    if method is not None:
        check_method(method, settings, folds)
    parts = _parts(folds, X, y, settings[0])
    order = None if method is None else order_of([test for _, test in parts], _num_samples(X))
    if method == "decision_function":
        check_decisions([train for train, _ in parts], y, settings)
    # They must have one length, and sparse tables a form whose rows can be taken.
    columns = (X, y, sample_weight) if folds is None else tuple(indexable(X, y, sample_weight))
    rows = [
        tuple(a if a is None or train is None else _safe_indexing(a, train) for a in columns)
        for train, _ in parts
    ]
    names = "From the fit of setting {} to fold {}, counted from 0."
    fits = [
        (setting, partial(_fit, clone(setting), part, names.format(s, k)))
        for s, setting in enumerate(settings)
        for k, part in enumerate(rows)
    ]
    n_threads = threads_of(n_jobs)
    models = train_side_by_side(fits, X, y, n_threads, None if n_jobs is None else n_threads)
    found = [models[first : first + len(rows)] for first in range(0, len(models), len(rows))]
    if method is None or order is None:
        return found
    held_out = [_safe_indexing(columns[0], test) for _, test in parts]
    return found, [in_order(own, held_out, y, method, order) for own in found]


def _fit(model: Any, columns: tuple[Any, ...], name: str) -> Any:
    """Fit a model to X, y and weights; errors get a note that names it."""
    X, y, weight = columns
    further = {} if weight is None else {"sample_weight": weight}
    try:
        return model.fit(X, y, **further) if y is not None else model.fit(X)
    except Exception as error:
        error.add_note(name)
        raise


def _settings(estimators: Any, param_grid: Any) -> list[Any]:
    if param_grid is not None:
        if isinstance(estimators, (list, tuple)):
            raise TypeError("param_grid is for one estimator; got a list of them.")
        found = [clone(estimators).set_params(**s) for s in ParameterGrid(param_grid)]
    else:
        found = list(estimators) if isinstance(estimators, (list, tuple)) else [estimators]
    for estimator in found:
        if not isinstance(estimator, BaseEstimator):
            raise TypeError(
                f"estimators must be estimators, got {estimator!r}. Pass instances, not classes."
            )
    if not found:
        raise ValueError("estimators is empty: there is nothing to fit.")
    return found


def _parts(folds: Any, X: Any, y: Any, estimator: Any) -> list[tuple[Any, Any]]:
    """Return the rows to train on and those held out of each fold; None means all and none."""
    if folds is None:
        return [(None, None)]
    is_splitter = hasattr(folds, "split") or isinstance(folds, (int, np.integer))
    if not is_splitter and not isinstance(folds, Iterable):
        raise TypeError(f"folds must be an int, a splitter or pairs of rows, got {folds!r}.")
    of_classes = is_classifier(estimator) or hasattr(estimator, "predict_proba")
    y = on_host(y)  # for the splitters of scikit-learn, which look at the classes
    y = as_classes(y) if of_classes else y
    splits = check_cv(folds, y, classifier=of_classes).split(X, y)
    parts = [(on_host(train), on_host(test)) for train, test in splits]
    if not parts:
        raise ValueError("folds is empty: there is nothing to fit.")
    return parts


class _ThreadsHere(ThreadingBackend):
    """joblib's threads, in which the models of a group are trained."""

    def __init__(self, group: TrainingGroup) -> None:
        super().__init__()
        self._group = group

    def abort_everything(self, ensure_ready: bool = True) -> None:
        error = self._group.end()
        super().abort_everything(ensure_ready)
        if error and error is not sys.exception():
            raise_as_it_is(error)  # in place of what it has ended other models with

    def submit(self, func: Callable[[], Any], callback: Any = None) -> Any:
        return super().submit(self._group.taking_part_in(func), callback)

    def apply_async(self, func: Callable[[], Any], callback: Any = None) -> Any:
        """``submit`` by its name before joblib 1.5."""
        return super().apply_async(self._group.taking_part_in(func), callback)


class _SameFolds:
    """A splitter that splits once: all settings of a search get the same folds."""

    def __init__(self, splitter: Any) -> None:
        self._splitter, self._folds = splitter, []  # type: ignore[var-annotated]

    def split(self, *args: Any, **params: Any) -> Iterator[Any]:
        if not self._folds:
            self._folds = list(self._splitter.split(*args, **params))
        return iter(self._folds)


class _SideBySide:
    """A search of scikit-learn whose fits run on threads of this process."""

    estimator: Any
    n_jobs: Any
    scoring: Any
    verbose: Any
    error_score: Any
    refit: Any
    _group: TrainingGroup
    _config: parallel_config
    _checked_cv_orig: Any
    _doc_link_module = PACKAGE
    _doc_link_template = PAGE

    def __sklearn_tags__(self) -> Any:
        """Add what scikit-learn's searches leave out of the tags of their estimator."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        of_estimator = get_tags(self.estimator)
        tags.input_tags.allow_nan = of_estimator.input_tags.allow_nan
        tags.target_tags = of_estimator.target_tags
        return tags

    def fit(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Search as scikit-learn does, but fit on threads instead of processes.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
            An array on a GPU stays there. Predictions for scorers of scikit-learn, named or from
            ``make_scorer``, are copied to the host; a function of your own as ``scoring`` gets the
            estimator and the rows as they are.
        y : array, shape (n_rows,), default=None
            Copied to the host, where scikit-learn makes the folds.
        **params : dict
            As for scikit-learn's search; arrays are copied to the host likewise.

        Returns
        -------
        self

        Raises
        ------
        KeyboardInterrupt
            Before a setting was finished. Later Ctrl-C ends the search, with a warning: the results
            are those of the settings that are finished, and the best of them is fitted.
        """
        if y is None and get_tags(self.estimator).target_tags.required:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        require_in_memory(X, "X")
        require_in_memory(y, "y")
        n_threads = threads_of(self.n_jobs)
        most = None if self.n_jobs is None else n_threads
        ((kind, n_at_once, _),) = planned_groups([self.estimator], X, y, n_threads, most)
        on_host_too = {name: on_host(value) for name, value in params.items()}
        before, scoring, verbose = self.n_jobs, self.scoring, self.verbose
        try:
            self.n_jobs, self._group = n_at_once, kind(n_at_once, n_threads=n_threads)
            if gpu_of(X) is not None:
                self.scoring = scoring_on_host(scoring)
            self._reports, self.verbose = verbose == 1, 0 if verbose == 1 else verbose
            self._config = parallel_config(backend=_ThreadsHere(self._group))
            with self._config:
                y = as_classes(on_host(y)) if is_classifier(self.estimator) else on_host(y)
                super().fit(X, y, **on_host_too)  # type: ignore[misc]
        finally:
            self.n_jobs, self.scoring, self.verbose = before, scoring, verbose
            for name in ("_reports", "_group", "_config"):
                vars(self).pop(name, None)
        return self

    def _evaluate(self, settings: Sequence[Any], evaluate_candidates: Callable[..., Any]) -> None:
        """Evaluate settings, some at a time: Ctrl-C keeps those that are finished.

        The threads of the group are for the search alone, which has them by now: what estimators do
        in parallel is up to them, and the last fit goes on when the group has ended.
        """
        self._config.unregister()
        folds, begin, done, all_failed = _SameFolds(self._checked_cv_orig), 0, 0, False
        try:
            while done < len(settings):
                # Few enough that Ctrl-C loses little, and enough for all threads.
                more = len(settings) if all_failed else max(self.n_jobs, done // 8)
                done = min(done + more, len(settings))
                try:
                    with self._group.here():
                        found = evaluate_candidates(settings[begin:done], cv=folds)
                except ValueError as error:
                    if done == len(settings) or not re.match(ALL_FAILED, str(error)):
                        raise
                    # They fail again beside all others, of which some may not: once more only.
                    all_failed = True
                    continue
                begin = done
                self._report(done, len(settings), found)
        except KeyboardInterrupt:
            if not begin or group_here.get() is not None:  # the group outside has ended, too
                raise
            warn_user(
                f"The search was interrupted: cv_results_ has the {begin} of {len(settings)} "
                "settings that were finished.",
                RuntimeWarning,
            )

    def _report(self, n_done: int, n: int, results: Mapping[str, Any]) -> None:
        """Print how many settings are finished, and the best score."""
        if not self._reports:
            return
        metric = self.refit if isinstance(self.refit, str) else "score"
        # Several metrics of which none is for refit have no best; one alone is called the score.
        of_metric = results.get(f"mean_test_{metric}", results.get("mean_test_score", np.nan))
        scores = np.asarray(of_metric)
        best = "" if np.isnan(scores).all() else f", best {metric} {np.nanmax(scores):.6g}"
        print(f"{n_done} of {n} settings{best}", file=sys.stderr, flush=True)


@documented(SEARCH)
class GridSearchCV(_SideBySide, _GridSearchCV):
    """scikit-learn's ``GridSearchCV`` for small data: models train side by side, one thread each,
    if the table is too small to keep several threads busy.

    Attributes and results are those of scikit-learn: ``best_estimator_``, ``best_params_``,
    ``best_score_``, ``cv_results_``. Its ``mean_fit_time`` is the time from the begin to the end of
    a fit. Where models grow together, as on a GPU, it includes the work of the others, so that the
    sum over all fits exceeds the time of the search.

    Parameters
    ----------
    estimator : estimator
        What to tune, of this package or another one.
    param_grid : dict or list of dict
        The values to try for each parameter: all combinations. A list holds several such grids.
    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import GradientBoostingClassifier, GridSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = GridSearchCV(GradientBoostingClassifier(n_estimators=10), {"max_depth": [1, 3]})
    >>> sorted(search.fit(X, y).best_params_)
    ['max_depth']
    """

    def _run_search(self, evaluate_candidates: Callable[..., Any]) -> None:
        self._evaluate(list(ParameterGrid(self.param_grid)), evaluate_candidates)


@documented(SEARCH)
class RandomizedSearchCV(_SideBySide, _RandomizedSearchCV):
    """scikit-learn's ``RandomizedSearchCV``, with fits side by side as in ``GridSearchCV``.

    Attributes and results are those of scikit-learn, with the ``mean_fit_time`` of
    ``GridSearchCV``.

    Parameters
    ----------
    estimator : estimator
        What to tune, of this package or another one.
    param_distributions : dict or list of dict
        For each parameter a list of values, or a distribution of ``scipy.stats``.
    n_iter : int, default=10
        Settings that are drawn and tried. More find better ones, and take longer.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws. None is a fixed seed, as everywhere in this package.
    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import GradientBoostingClassifier, RandomizedSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GradientBoostingClassifier(n_estimators=10)
    >>> search = RandomizedSearchCV(model, {"max_depth": [1, 2, 3]}, n_iter=2)
    >>> sorted(search.fit(X, y).best_params_)
    ['max_depth']
    """

    def _run_search(self, evaluate_candidates: Callable[..., Any]) -> None:
        seed = 0 if self.random_state is None else self.random_state
        settings = ParameterSampler(self.param_distributions, self.n_iter, random_state=seed)
        self._evaluate(list(settings), evaluate_candidates)
