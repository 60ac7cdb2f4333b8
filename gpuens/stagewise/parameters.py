"""The parameters of forward stagewise modelling: what they mean, their values, and the errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..boosting.parameters import schedule_of
from ..estimators.parameters import (
    check_callbacks,
    is_bool,
    is_count,
    is_number,
    is_share,
    threads_of,
)
from ..members.rows import takes_weights

STAGEWISE = """Parameters
    ----------
    estimator : regressor, list of regressors or None, default=None
        What is fitted to the negative gradients in each round. Of a list, ``selection`` says which.
        None is ``DecisionTreeRegressor(max_depth=3, max_bins=255)`` of this package.
    loss : <losses>
    n_estimators : int, default=100
        Most rounds.
    learning_rate : float, sequence of float, or callable, default=0.1
        Shrinkage: the step of line search is multiplied by it. One for each round, or a function
        of the round, counted from 0.
    line_search : bool, default=True
        Whether base learners go as far as lowers the loss most, times ``learning_rate``. False:
        steps of 1.
    selection : {"best", "cyclic"}, default="best"
        Of a list of base learners: all are fitted in each round and the one with the lowest
        loss on the round's rows after its line search is taken, or they take turns.
    subsample : float, default=1.0
        Share of the rows that a round is fitted on, drawn without replacement.
    early_stopping : bool, default=False
        Whether to hold rows out, and stop when their loss does not fall any more. The rounds
        after the best one are dropped.
    validation_fraction : float, int or None, default=0.1
        Share or number of the rows held out. None: the loss on the training rows is watched.
    n_iter_no_change : int, default=10
        Rounds without improvement before the training stops.
    tol : float, default=1e-7
        What counts as improvement of the loss.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the rounds that are there, to the model that one call gives.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws, and of the ``random_state`` of each base learner. None is a fixed seed:
        the same call gives the same model.
    n_jobs : int or None, default=None
        Threads on the CPU; None uses all that the process may use. For base learners of other
        packages their own parameter counts.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where to work. "auto" follows the arrays; host arrays go to a usable GPU if all base
        learners are of this package, else stay. Base learners that know no arrays on a GPU get
        copies on the host.
    verbose : bool or int, default=0
        Whether to show a progress bar with the losses.
    callbacks : list or None, default=None
        Functions of the state after a round, or objects with ``after_iteration(state)``, see
        ``gpuens.callbacks``. A true result stops the training.

    Attributes
    ----------
    estimators_ : list of estimators
        The base learners: <outputs>
    estimator_weights_ : float64, shape (n_estimators,)
        The steps that line search found, one for each of ``estimators_``, without shrinkage.
    learning_rates_ : float64, shape (n_rounds,)
    n_iter_ : int
        Rounds that the model keeps.
    train_score_ : float64, shape (n_rounds,)
        The mean loss over the training rows after every round.
    validation_score_ : float64, shape (n_rounds_run + 1,)
        That over the rows held out, beginning with the best constant.
    evals_result_ : dict of dict of list
        ``evals_result_["training"]["loss"]`` and, with early stopping, "validation"; entry 0 is
        the best constant.
    stopped_ : str
        Why the training ended: "finished", "early stopping", "callback", "interrupted", or
        "error", of a callback.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names.
    <attributes>"""


_SWITCH = ("True or False", is_bool)
_ALLOWED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "n_estimators": ("an integer >= 1", lambda value: is_count(value, 1)),
    "line_search": _SWITCH,
    "selection": (
        "'best' or 'cyclic'",
        lambda value: isinstance(value, str) and value in ("best", "cyclic"),
    ),
    "subsample": ("a number in (0, 1]", lambda value: is_number(value) and 0 < float(value) <= 1),
    "early_stopping": _SWITCH,
    "validation_fraction": (
        "None, a number in (0, 1) or a number of rows >= 1",
        lambda value: value is None or is_share(value) or is_count(value, 1),
    ),
    "n_iter_no_change": ("an integer >= 1", lambda value: is_count(value, 1)),
    "tol": (
        "a finite number >= 0",
        lambda value: is_number(value) and 0 <= float(value) < np.inf,
    ),
    "warm_start": _SWITCH,
    "verbose": ("a bool or an integer >= 0", lambda value: is_bool(value) or is_count(value, 0)),
}


def check_stagewise_parameters(estimator: Any) -> None:
    """Check the parameters that do not depend on data; ``loss`` and ``device`` are checked where
    they are resolved.

    Raises
    ------
    ValueError, TypeError
        Names the parameter, what it got and what it wants.
    """
    for name, (wanted, is_allowed) in _ALLOWED.items():
        value = getattr(estimator, name)
        if not is_allowed(value):
            raise ValueError(f"{name} must be {wanted}, got {value!r}.")
    schedule_of(estimator.learning_rate, int(estimator.n_estimators))
    check_callbacks(estimator.callbacks)
    threads_of(estimator.n_jobs)


def check_kinds(kinds: list[Any]) -> None:
    """Check that base learners are regressors, at least one.

    Raises
    ------
    TypeError
        One of them is not; says what it lacks.
    ValueError
        There is none.
    """
    if not kinds:
        raise ValueError("estimator is an empty list: pass a regressor, or a list of some.")
    for kind in kinds:
        needed = ("fit", "predict", "get_params")
        lacking = [name for name in needed if not callable(getattr(kind, name, None))]
        if lacking or isinstance(kind, type):
            raise TypeError(
                "estimator must be None, an object with the methods fit, predict and get_params "
                "(a subclass of sklearn.base.BaseEstimator has the last one), or a list of these, "
                f"got {kind!r}."
            )
        if hasattr(kind, "__sklearn_tags__") and is_classifier(kind):
            raise TypeError(
                f"estimator must be a regressor, got {kind!r}, which predicts classes. Base "
                "learners learn negative gradients, which are numbers, for classes as well."
            )


def check_weighted(kinds: list[Any]) -> None:
    """Check that base learners take the weights of the rows.

    Raises
    ------
    ValueError
        One of them does not.
    """
    for kind in kinds:
        if not takes_weights(kind):
            raise ValueError(
                f"sample_weight was given, but the fit of the base learner {kind!r} takes none. "
                "Fit without sample_weight, or use base learners that take it."
            )
