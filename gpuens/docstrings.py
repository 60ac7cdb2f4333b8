"""Text that the docstrings of several classes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BOOSTING = """Parameters
    ----------
    loss : <losses>
    n_estimators : int, default=100
        Rounds of boosting; a round grows one tree, or one a class where there are more
        than two.
    learning_rate : float, default=0.1
        Factor on every leaf value (shrinkage).
    max_depth : int or None, default=None
        Longest path from the root to a leaf, in splits.
    max_leaf_nodes : int or None, default=31
        The best leaf is split first until there are this many. None grows level by level.
    min_samples_leaf : int, default=10
        Fewest rows of a leaf.
    min_sum_hessian : float, default=1e-3
        Least sum of the loss's second derivatives in a leaf.
    l2_regularization : float, default=1.0
        Added to that sum where leaf values and gains are computed.
    min_gain_to_split : float, default=0
        A split must improve the second-order model of the loss by more than this.
    max_bins : int, default=255
        Most bins of a feature, from 2 to 255; missing values have one of their own.
    subsample : float, default=1.0
        Chance of a row to take part in a round, drawn without replacement.
    colsample_bytree, colsample_bylevel, colsample_bynode : float, default=1.0
        Share of the features drawn for each tree, of those for each level, and of those for
        each node.
    early_stopping : bool or "auto", default=False
        Stop when the first metric on the first evaluation set (or, without one, on rows held
        out) has not improved for ``n_iter_no_change`` rounds, and drop the trees after the
        best round. "auto": with an evaluation set, or with more than 10000 rows.
    validation_fraction : float or int, default=0.1
        Share or number of rows to hold out.
    n_iter_no_change : int, default=10
    tol : float, default=1e-7
        Least change of the metric that counts as improvement.
    scoring : str, callable or list of these, default="loss"
        Metrics of the evaluation sets: "loss" (lower is better), names of scikit-learn's
        scorers, or callables ``(estimator, X, y) -> float`` (higher is better), which get a
        stand-in that predicts the rows of ``y``, whatever it is asked about.
    <class_weight>warm_start : bool, default=False
        Whether ``fit`` goes on from the trees that are there, with the bins and the seed that
        they were grown with.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws. None is a fixed seed: the same call gives the same model.
    n_jobs : int or None, default=None
        Threads on the CPU; None uses all that the process may use.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where to work. "auto" follows the arrays; host arrays go to a usable GPU, else stay.
    verbose : bool or int, default=False
        Whether to show a progress bar with the metrics.
    callbacks : list or None, default=None
        Objects with ``after_iteration(state)``, see ``gpuens.callbacks``. A true result stops
        the training.

    Attributes
    ----------
    forest_ : Forest
        The trees; ``forest_.fingerprint()`` is the same on every device.
    n_iter_ : int
        Rounds in the model.
    n_trees_per_iteration_ : int
        1, or the number of classes where there are more than two.
    do_early_stopping_ : bool
        Whether early stopping was in use.
    evals_result_ : dict
        ``evals_result_[data][metric]``: one value for every round, entry 0 before the first.
        Data are "validation" (rows held out), "validation_0" … (``eval_set``), or "training"
        with ``verbose`` and none of these.
    validation_score_ : ndarray
        The first metric on the first of these, the loss with a minus sign; empty without.
    stopped_ : str
        Why the training ended: "finished", "early stopping", "callback" or "interrupted".
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names.
    <attributes>"""


def documented(text: str, **parts: str) -> Callable[[Any], Any]:
    """Put a shared text, with its ``<parts>`` filled in, where a docstring says ``<shared>``."""
    for name, part in parts.items():
        text = text.replace(f"<{name}>", part)

    def complete(cls: Any) -> Any:
        if cls.__doc__:
            cls.__doc__ = cls.__doc__.replace("<shared>", text)
        return cls

    return complete
