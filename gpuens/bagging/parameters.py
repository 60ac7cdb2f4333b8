"""The parameters of bags: their documentation and their rules."""

from __future__ import annotations

from typing import Any

from ..estimators.parameters import (
    CALLABLE,
    COUNT,
    FLOAT_SHARE,
    JOBS,
    NONE,
    SWITCH,
    VERBOSE,
    check_learner,
    check_rules,
    one_of,
)
from ..members.frames import COLUMN_PARAMETERS

BAGGING = """Parameters
    ----------
    Members
        What is fitted, and how often.
    estimator : estimator or None, default=None
        Fitted on each sample: any object with ``fit`` and ``predict``, from scikit-learn, cuML,
        this package or the user. None is <default>. Bags help learners most that change much with
        their rows, such as deep trees.
    n_estimators : int, default=10
        Members of the bag. More predict as well or better, and take longer: 10 are few, 50 to 500
        are common.
    <voting>Sampling
        The rows and features of each member.
    max_samples : int, float or None, default=None
        Rows drawn for each member: a number, a share of the rows (with ``sample_weight``, of
        the sum of the weights), or as many as there are (None). Lower it for large tables, or to
        make members differ more.
    max_features : int or float, default=1.0
        Features drawn for each member: a number, or a share (at least one). Lower it where
        features repeat each other.
    bootstrap, bootstrap_features : bool, default=True and False
        Whether rows and features are drawn with replacement. Set ``bootstrap=False``, with a
        smaller ``max_samples``, for samples without repetitions (pasting).
    oob_score : bool or callable, default=False
        Whether to score each training row with the members that did not see it; a callable
        ``(y_true, y_pred) -> float`` replaces the <score>. Needs ``bootstrap``.
    Running
        Where and how members are fitted.
    n_jobs : int or None, default=None
        Processes that fit members and predict with them, through joblib; None is 1. Members of
        this package are fitted in so many threads, with 1 in those that the estimator itself
        takes: on small tables several side by side, one on each, on large ones as many as keep all
        busy, and boosted ones together on a GPU. The model does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws, and of the ``random_state`` of each member. None is a fixed seed: the
        same call gives the same model.
    verbose : int, default=0
        The verbosity of joblib for members of other packages; those of this one are printed when
        they are fitted, unless they grow as one batch. If not zero, where the work runs is printed
        too.
    warm_start : bool, default=False
        Whether ``fit`` keeps the existing members and adds those that are missing, drawn as if
        all had been fitted at once.
    device : {"auto", "cpu", "cuda", "array"}, default="auto"
        Where the members get their arrays. "auto" leaves them where they are for estimators
        of this package, cuML and XGBoost, and copies them to the host once for all others. Host
        arrays go to a usable GPU if the members are of this package and it would be faster
        (``gpuens.show_config()``). "cuda" gives CuPy arrays to any estimator.
        "array" works in the array library of X by functions of the Array API standard alone: the
        same model, many times slower.

    Attributes
    ----------
    estimator_ : estimator
        What was cloned for each member.
    estimators_ : list of estimators
        The fitted members.
    estimators_samples_ : list of int64 ndarrays
        The rows of each member's sample, ascending, with repetitions; drawn again on
        request.
    estimators_features_ : list of int64 ndarrays
        The features of each member, ascending.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names.
    oob_score_ : float
        Only with ``oob_score``: over the rows that some member did not see.
    <attributes>"""

_RULES = {
    "n_estimators": COUNT,
    "max_samples": NONE | COUNT | FLOAT_SHARE,
    "max_features": COUNT | FLOAT_SHARE,
    "bootstrap": SWITCH,
    "bootstrap_features": SWITCH,
    "oob_score": SWITCH | CALLABLE,
    "warm_start": SWITCH,
    "n_jobs": JOBS,
    "verbose": VERBOSE,
    "voting": one_of("auto", "soft", "hard"),
}


def check_bagging_parameters(bag: Any) -> None:
    """Check the parameters that do not depend on data; ``device`` is checked when it is resolved.
    Raises a ValueError or a TypeError that names the parameter, what it got and what it wants."""
    check_rules(bag, _RULES)
    if bag.estimator is not None:
        check_learner(bag.estimator)
        if getattr(bag, "voting", None) == "soft" and not hasattr(bag.estimator, "predict_proba"):
            raise ValueError(
                f"voting='soft' averages probabilities, but {bag.estimator!r} has no "
                "predict_proba. Use voting='hard', or 'auto'."
            )
    if bag.oob_score and not bag.bootstrap:
        raise ValueError(
            "Out of bag estimation only available if bootstrap=True. Set it, or oob_score=False."
        )
    if bag.oob_score and bag.warm_start:
        raise ValueError(
            "Out of bag estimate only available if warm_start=False: the rows can differ between "
            "the calls of fit. Set warm_start=False or oob_score=False."
        )


def check_columns(estimator: Any) -> None:
    """Check that the members of a bag can be fitted on a part of the columns. Raises a ValueError
    if a parameter of the estimator refers to columns by their position in the whole table."""
    for name, value in estimator.get_params(deep=False).items():
        if name in COLUMN_PARAMETERS and not (value is None or isinstance(value, str)):
            raise ValueError(
                f"{name}={value!r} of the estimator refers to columns of the whole X, but "
                "members get columns drawn at random. Set max_features=1.0 and "
                f"bootstrap_features=False, or {name}=None."
            )
