"""Bias and variance of a learner, and the variance of an average of models."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils.parallel import Parallel, delayed

from ..devices.placement import CPU, to_numpy
from ..diversity.regression import Spread, correlation_of_models, variance_of_average
from ..estimators.parameters import integer, is_share, seed_of
from ..inputs.arrays import to_input_library
from ..inputs.labels import read_labels
from ..inputs.targets import read_target
from ..inspection.columns import Columns, columns_of, require_same_features
from ..kernels.runtime.arrays import Array
from ..kernels.scalars import rng
from ..kernels.scalars.primitives import vectorise
from ..members.fitting import jobs_for, names_of_seeds, whole
from ..numerics.sampling import SamplingPlan, subset

__all__ = [
    "BiasVariance",
    "Spread",
    "bias_variance",
    "correlation_of_models",
    "variance_of_average",
]


@dataclass(frozen=True)
class BiasVariance:
    """The parts of the expected loss of a learner, on average and for each test row.

    The target is taken to be without noise: what there is of it counts as bias.

    Attributes
    ----------
    loss : "squared" or "zero_one"
        What the parts add up to.
    rounds : int
        Models that were trained.
    error : float
        Mean loss of the models: ``bias + net_variance``.
    bias : float
        Mean squared difference between the mean prediction and the target; with zero-one loss
        the share of rows that most models get wrong.
    variance : float
        Mean variance of the predictions; with zero-one loss the mean chance that a model differs
        from the main prediction.
    net_variance : float
        What the variance adds to the loss: all of it, with zero-one loss
        ``unbiased_variance - biased_variance``.
    unbiased_variance, biased_variance : float
        With zero-one loss the mean, over all rows, of the chance that a model is wrong where the
        main prediction is right, and that it is right where that is wrong. Else all, and 0.
    error_of_rows, bias_of_rows, variance_of_rows, net_variance_of_rows : float64, shape (n_test,)
        The same of each row; NaN for rows that no model was tested on.
    main_prediction : array, shape (n_test,)
        The mean, or the most frequent class (the first of those that tie).
    test_rows : int64, shape (n_test,), NumPy, or None
        Positions in X, where the test rows come from there.
    n_predictions : int64, shape (n_test,)
        Models that each row was tested with.
    """

    loss: str
    rounds: int
    error: float
    bias: float
    variance: float
    net_variance: float
    unbiased_variance: float
    biased_variance: float
    error_of_rows: Array
    bias_of_rows: Array
    variance_of_rows: Array
    net_variance_of_rows: Array
    main_prediction: Array
    test_rows: np.ndarray | None
    n_predictions: Any


def bias_variance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    rounds: int = 100,
    test: Any = 0.3,
    loss: str = "auto",
    random_state: Any = None,
    n_jobs: int | None = None,
) -> BiasVariance:
    """Train a learner on bootstrap samples and split its loss on test rows into bias and variance.

    With squared loss a row's expected loss is ``(f̄ - y)² + E (f - f̄)²``, the squared bias and the
    variance. With zero-one loss the main prediction is the mode m of the predictions; the bias is
    1 where m is wrong and the variance is ``P(f ≠ m)``. Variance adds to the loss where m is right,
    and takes from it where m is wrong: ``P(f = y)`` (Domingos 2000; for two classes these are the
    same number). Nothing is known of the noise, which is taken to be zero: it counts as bias.

    Parameters
    ----------
    estimator : classifier or regressor
        Of any library; clones of it are fitted, their ``random_state`` drawn again in each round.
    X : array or data frame, shape (n_rows, n_features)
        The table that samples are drawn from.
    y : array, shape (n_rows,)
        The labels or numbers to predict.
    rounds : int, default=100
        Bootstrap samples.
    test : float, "out_of_bag" or (X_test, y_test), default=0.3
        A share of the rows that is split off at random for the test, all rows, each tested with
        the models whose samples it is not in, or other rows.
    loss : {"auto", "squared", "zero_one"}, default="auto"
        "auto" is zero-one for a classifier and squared for a regressor.
    random_state : int, RandomState instance or None, default=None
        Seed of the samples; None is a fixed one.
    n_jobs : int or None, default=None
        Models of other libraries that are trained at a time, on the host.

    Returns
    -------
    BiasVariance
        Arrays in the library and on the device of X; labels that are text in NumPy.

    Raises
    ------
    ValueError, TypeError
        A loss that does not fit the estimator, a share that leaves no rows, test rows of other
        features or with labels that training does not have, or bad data.

    References
    ----------
    Domingos, "A unified bias-variance decomposition and its applications", ICML 2000.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import DecisionTreeRegressor
    >>> from gpuens.bias_variance.decomposition import bias_variance
    >>> X, y = load_diabetes(return_X_y=True)
    >>> deep, stump = (
    ...     bias_variance(DecisionTreeRegressor(max_depth=d, device="cpu"), X, y, rounds=20)
    ...     for d in (None, 1)
    ... )
    >>> deep.bias < stump.bias, deep.variance > stump.variance
    (True, True)
    """
    loss = loss_of(estimator, loss)
    integer(2).check("rounds", rounds)
    rounds, seed = int(rounds), seed_of(random_state)
    columns = columns_of(X, estimator)
    with columns.device.active():
        target = read_truth(y, columns.shape[0], loss, estimator, "y")
        split = split_rows(columns, target, test, seed, loss, estimator)
        n_train = split.train.shape[0]
        plan = SamplingPlan(n_train, n_train, True, 1, 1, False, None, seed)
        predict = functools.partial(_predictions, estimator, split, plan)
        with Parallel(n_jobs=jobs_for(X, columns.device, n_jobs)) as parallel:
            answers = np.stack(parallel(delayed(predict)(r) for r in range(rounds)), axis=1)
    asked = np.ones(answers.shape, np.bool_)
    if split.train is split.test:
        for r in range(rounds):
            asked[plan.rows(r), r] = False
    parts = _squared if loss == "squared" else _zero_one
    with np.errstate(invalid="ignore"):  # 0 / 0 of rows without a prediction
        rows = parts(answers, split.y_test, asked)
    return _result(loss, rounds, rows, split.rows, asked.sum(axis=1), X)


_Rows = dict[str, np.ndarray]
"""The parts of the loss of each row, float64, and its main prediction, as ``BiasVariance`` has
them."""


def _predictions(estimator: Any, split: Split, plan: SamplingPlan, number: int) -> np.ndarray:
    """Return the predictions of a model trained on one sample."""
    rows, model = plan.rows(number), clone(estimator)
    seeds = names_of_seeds(model)
    states = plan.random_states(number, len(seeds))
    model.set_params(**dict(zip(seeds, states, strict=True)))
    table = split.train.take(split.train.device.asarray(rows)).table()
    answer = to_numpy(whole(model.fit(table, split.y_train[rows])).predict(split.test.table()))
    if answer.ndim == 2 and answer.shape[1] == 1:
        return answer[:, 0]
    return answer


def _squared(answers: np.ndarray, y: np.ndarray, asked: np.ndarray) -> _Rows:
    n = asked.sum(axis=1)
    mean = np.where(asked, answers, 0.0).sum(axis=1) / n
    variance = np.where(asked, (answers - mean[:, None]) ** 2, 0.0).sum(axis=1) / n
    error = np.where(asked, (answers - y[:, None]) ** 2, 0.0).sum(axis=1) / n
    return {
        "main_prediction": mean,
        "error_of_rows": error,
        "bias_of_rows": (mean - y) ** 2,
        "variance_of_rows": variance,
        "net_variance_of_rows": variance,
    }


def _zero_one(answers: np.ndarray, y: np.ndarray, asked: np.ndarray) -> _Rows:
    classes = np.unique(np.concatenate([answers.ravel(), y]))
    votes = np.stack([((answers == label) & asked).sum(axis=1) for label in classes], axis=1)
    n = asked.sum(axis=1)
    shares = votes / n[:, None]
    every, best = np.arange(len(y)), votes.argmax(axis=1)
    right = shares[every, np.searchsorted(classes, y)]
    variance = 1.0 - shares[every, best]
    bias = np.where(n > 0, classes[best] != y, np.nan)
    net_variance = np.where(bias == 1, -right, variance)
    return {
        "main_prediction": classes[best],
        "error_of_rows": 1.0 - right,
        "bias_of_rows": bias,
        "variance_of_rows": variance,
        "net_variance_of_rows": net_variance,
    }


def _result(
    loss: str, rounds: int, rows: _Rows, test_rows: np.ndarray | None, n: np.ndarray, X: Any
) -> BiasVariance:
    tested = n > 0
    if not tested.all():
        warnings.warn(
            f"{np.count_nonzero(~tested)} of {tested.size} rows are in the samples of all rounds "
            "and were not tested: raise rounds.",
            stacklevel=3,
        )
    net, bias = rows["net_variance_of_rows"][tested], rows["bias_of_rows"][tested]
    lowers = (bias == 1) & (loss == "zero_one")
    like = None if issparse(X) else X
    return BiasVariance(
        loss=loss,
        rounds=rounds,
        error=float(rows["error_of_rows"][tested].mean()),
        bias=float(bias.mean()),
        variance=float(rows["variance_of_rows"][tested].mean()),
        net_variance=float(net.mean()),
        unbiased_variance=float(np.where(lowers, 0.0, net).mean()),
        biased_variance=float(np.where(lowers, -net, 0.0).mean()),
        test_rows=test_rows,
        n_predictions=to_input_library(n, like),
        **{name: to_input_library(values, like) for name, values in rows.items()},
    )


PURPOSE_TEST_ROWS = np.uint64(1004)
"""Apart from the purposes of training, in ``kernels.scalars.rng``."""
LOSSES = ("auto", "squared", "zero_one")

_subkey = vectorise(rng.subkey)


class Split(NamedTuple):
    """Rows to train on and rows to test; ``rows`` are the latter in X, if they come from there."""

    train: Columns
    y_train: np.ndarray
    test: Columns
    y_test: np.ndarray
    rows: np.ndarray | None


def loss_of(estimator: Any, loss: Any) -> str:
    """Return the loss that fits the estimator."""
    if not (isinstance(loss, str) and loss in LOSSES):
        raise ValueError(f"loss must be {' or '.join(map(repr, LOSSES))}, got {loss!r}.")
    has_kind = hasattr(estimator, "fit") and hasattr(estimator, "predict")
    if not (has_kind and (is_classifier(estimator) or is_regressor(estimator))):
        raise TypeError(f"estimator must be a classifier or a regressor, got {estimator!r}.")
    fitting = "zero_one" if is_classifier(estimator) else "squared"
    if loss not in ("auto", fitting):
        kind = "classifier" if is_classifier(estimator) else "regressor"
        raise ValueError(f"loss={loss!r} does not fit a {kind}: pass {fitting!r} or 'auto'.")
    return fitting


def read_truth(y: Any, n_rows: int, loss: str, estimator: Any, name: str) -> np.ndarray:
    """Return the target on the host: numbers, or labels."""
    if loss == "squared":
        return read_target(y, n_rows, CPU, estimator=estimator, name=name)
    labels = read_labels(y, n_rows, CPU, estimator=estimator, name=name)
    return labels.classes[to_numpy(labels.codes)]


def split_rows(
    columns: Columns, y: np.ndarray, test: Any, seed: int, loss: str, estimator: Any
) -> Split:
    """Split the rows as the argument ``test`` requests."""
    n_rows = columns.shape[0]
    if isinstance(test, str) and test == "out_of_bag":
        return Split(columns, y, columns, y, np.arange(n_rows))
    if isinstance(test, (tuple, list)) and len(test) == 2:
        return Split(columns, y, *_other_rows(columns, y, test[0], test[1], loss, estimator), None)
    if not is_share(test):
        raise ValueError(
            "test must be a share in (0, 1), 'out_of_bag' or a pair (X_test, y_test), got "
            f"{test!r}."
        )
    n_test = round(float(test) * n_rows)
    if not 0 < n_test < n_rows - 1:
        raise ValueError(
            f"test={test} of {n_rows} rows leaves {n_test} to test and {n_rows - n_test} to train "
            "on: pass more rows, or another share."
        )
    key = int(_subkey(np.uint64(seed), PURPOSE_TEST_ROWS, np.uint64(0)))
    outside = subset(n_rows, n_test, key, 0, CPU)
    inside = np.setdiff1d(np.arange(n_rows), outside)
    parts = (columns.take(columns.device.asarray(rows)) for rows in (inside, outside))
    train, tested = parts
    return Split(train, y[inside], tested, y[outside], outside)


def _other_rows(
    columns: Columns, y: np.ndarray, X_test: Any, y_test: Any, loss: str, estimator: Any
) -> tuple[Columns, np.ndarray]:
    tested = columns_of(X_test, estimator, "X_test")
    require_same_features(columns, tested, "X_test")
    truth = read_truth(y_test, tested.shape[0], loss, estimator, "y_test")
    if loss == "zero_one":
        known = set(y.tolist())
        if unknown := [label for label in np.unique(truth).tolist() if label not in known]:
            raise ValueError(
                f"y_test has labels that y does not have: {unknown}. No model can predict them."
            )
    return tested, truth
