"""Drop-column importance: the loss in score of a model trained without a feature."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed

from ..devices.placement import CPU, on_host
from ..inputs.targets import read_sample_weight
from ..members.fitting import jobs_for, whole
from .columns import Columns, columns_of, require_same_features
from .permutation import Scorer, Scores, importances_of, in_library_of, rows_of_target, take_rows


def drop_column_importance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    X_val: Any = None,
    y_val: Any = None,
    cv: Any = None,
    scoring: Any = None,
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> Any:
    """Compute how far a score falls when the model is trained without a feature.

    It costs a fit for each feature (and fold), and what other features tell too counts for none
    of them. Every fit has the estimator's own ``random_state``.

    Parameters
    ----------
    estimator : estimator
        Of any library; clones of it are fitted. Its parameters ``categorical_features`` and
        ``monotonic_cst`` follow the columns that are left.
    X : array or data frame, shape (n_rows, n_features)
        The rows to train on.
    y : array, shape (n_rows,) or (n_rows, n_outputs)
        Their target.
    X_val, y_val : array or data frame, default=None
        Rows to score on. None: folds of X.
    cv : int, splitter, iterable or None, default=None
        Folds without validation rows, as in scikit-learn; None is 5, of a classifier stratified.
    scoring : str, callable, list, tuple, dict or None, default=None
        As in scikit-learn; None is the estimator's ``score``.
    sample_weight : array, shape (n_rows,), default=None
        Weights of the rows in training; scores are not weighted.
    n_jobs : int or None, default=None
        Features that are worked on at a time, for estimators of other libraries on the host.

    Returns
    -------
    Bunch, or dict of Bunch by metric
        ``importances_mean`` and ``importances_std``, float64 of shape (n_features,), over the
        folds, and ``importances``, shape (n_features, n_folds), one column with validation rows.
        In the array library and on the device of X.

    Raises
    ------
    ValueError, TypeError
        A table of one column, only one of ``X_val`` and ``y_val``, both and ``cv``, or bad data.

    References
    ----------
    Breiman, "Statistical modeling: the two cultures", Statistical Science 16, 2001; Lei, G'Sell,
    Rinaldo, Tibshirani and Wasserman, "Distribution-free predictive inference for regression",
    JASA 113, 2018 (leave-one-covariate-out).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import DecisionTreeClassifier
    >>> from gpuens.inspection import drop_column_importance
    >>> X, y = load_iris(return_X_y=True)
    >>> drop_column_importance(DecisionTreeClassifier(device="cpu"), X, y, cv=3).importances.shape
    (4, 3)
    """
    if not hasattr(estimator, "fit"):
        raise ValueError(f"estimator must be an estimator with a fit method, got {estimator!r}.")
    columns = columns_of(X, estimator)
    n_rows, n_features = columns.shape
    if n_features < 2:
        raise ValueError("X has one column: without it no model can be trained. Pass at least two.")
    with columns.device.active():
        target = rows_of_target(y, n_rows, estimator)
        weight = read_sample_weight(sample_weight, n_rows, CPU)
        splits = list(_splits(estimator, columns, target, weight, X_val, y_val, cv))
        score = functools.partial(_scores_without, estimator, splits, scoring, columns.names)
        baseline = score(None)
        jobs = 1 if type(estimator).__module__.startswith("gpuens") else None
        with Parallel(n_jobs=jobs or jobs_for(X, columns.device, n_jobs)) as parallel:
            scores = parallel(delayed(score)(feature) for feature in range(n_features))
        return in_library_of(importances_of([baseline] * n_features, scores), X)


_Split = tuple[Columns, Any, Any, Columns, Any]
"""Rows to train on with their targets and weights, and rows to score on with their targets."""


def _splits(
    estimator: Any, columns: Columns, y: Any, weight: Any, X_val: Any, y_val: Any, cv: Any
) -> Iterator[_Split]:
    if (X_val is None) != (y_val is None):
        missing = "X_val" if X_val is None else "y_val"
        raise ValueError(f"{missing} is None: pass X_val and y_val together, or neither.")
    if X_val is not None:
        if cv is not None:
            raise ValueError("cv and X_val both define the rows to score on: pass one of them.")
        test = columns_of(X_val, estimator, "X_val")
        require_same_features(columns, test, "X_val")
        yield columns, y, weight, test, rows_of_target(y_val, test.shape[0], estimator)
        return
    folds = check_cv(5 if cv is None else cv, y, classifier=is_classifier(estimator))
    for train, test in folds.split(np.zeros((columns.shape[0], 1)), y):
        inside, outside = columns.device.asarray(train), columns.device.asarray(test)
        inner = None if weight is None else weight[train]
        rows, others = columns.take(inside), columns.take(outside)
        yield rows, take_rows(y, train), inner, others, take_rows(y, test)


def _scores_without(
    estimator: Any, splits: list[_Split], scoring: Any, names: Any, feature: int | None
) -> Scores:
    """Return the scores of models trained without a feature, one for each split."""
    scores: Scores = []
    for rows, y, weight, others, y_test in splits:
        model = clone(estimator)
        train, test = rows.table(), others.table()
        if feature is not None:
            model.set_params(**_parameters_without(model, feature, rows.shape[1], names))
            train, test = rows.without(feature), others.without(feature)
        weights = {} if weight is None else {"sample_weight": weight}
        y = rows.device.asarray(y) if _is_number(y) else y
        scorer = Scorer(whole(model.fit(train, y, **weights)), scoring, others.device)
        scores += scorer.of(test, 1, y_test, None)
    return scores


def _is_number(y: Any) -> bool:
    return isinstance(y, np.ndarray) and y.dtype.kind in "biuf"


def _parameters_without(
    model: Any, feature: int, n_features: int, names: Sequence[Any] | None
) -> dict[str, Any]:
    """Adapt parameters that refer to features to a table without one of them."""
    given = model.get_params(deep=False)
    changed: dict[str, Any] = {}
    name = None if names is None else names[feature]
    categorical = given.get("categorical_features")
    if categorical is not None and not isinstance(categorical, str):
        listed = np.asarray(on_host(categorical)).tolist()
        changed["categorical_features"] = _without(listed, feature, n_features, name) or None
    constraints = given.get("monotonic_cst")
    if isinstance(constraints, Mapping):
        changed["monotonic_cst"] = {f: c for f, c in constraints.items() if f != name}
    elif constraints is not None:
        listed = np.asarray(on_host(constraints)).tolist()
        changed["monotonic_cst"] = listed[:feature] + listed[feature + 1 :]
    return changed


def _without(listed: list[Any], feature: int, n_features: int, name: Any) -> list[Any]:
    """Remove a feature from a mask, positions or names."""
    if all(isinstance(entry, bool) for entry in listed) and len(listed) == n_features:
        mask = listed[:feature] + listed[feature + 1 :]
        return mask if any(mask) else []
    if all(isinstance(entry, Integral) for entry in listed):
        return [p - (p > feature) for p in listed if p != feature]
    return [entry for entry in listed if entry != name]
