"""Text that the docstrings of several classes share."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import Any, TypeVar

Documented = TypeVar("Documented", bound=Callable[..., Any])

_PLACE = """n_jobs : int or None, default=None
        Threads on the CPU; None uses all that the process may use.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where to work. "auto" follows the arrays; host arrays go to a usable GPU if they are large
        enough for that to be faster (``gpuens.show_config()``), else stay."""
_GROWTH = """max_depth : int or None, default=None
        Longest path from the root to a leaf, in splits.
    min_samples_split : int or float, default=2
        Fewest rows of a node that is split, as a number or as a share of the rows.
    min_samples_leaf : int or float, default=1
        Fewest rows of a leaf.
    min_weight_fraction_leaf : float, default=0.0
        Least share of the whole weight that a leaf holds.
    max_features : int, float, "sqrt", "log2" or None, default=<features>
        Features that each node looks at, drawn at random: their number, or their share of all.
        The search goes on until one of them is not constant in the node.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws, those between equally good splits included. None is a fixed seed: the
        same call gives the same model.
    max_leaf_nodes : int or None, default=None
        The best leaf is split first until there are this many.
    min_impurity_decrease : float, default=0.0
        A split must lower the impurity, weighted by the node's share of the weight, by this.
    <class_weight>ccp_alpha : float, default=0.0
        Branches that lower the impurity by less than this for each leaf are cut (minimal
        cost-complexity pruning).
    monotonic_cst : array-like of int, shape (n_features,), default=None
        1: predictions (of class 1) must not fall as the feature rises, -1: not rise, 0: free.
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Features whose values have no order: a mask, indices or names, or those whose column in
        a data frame has a categorical type. They are split into two groups of
        categories. Categories that were not in the training data count as missing.
    max_bins : int or None, default=<bins>
        None: every midpoint between neighbouring values can be a threshold. Otherwise a feature
        with more distinct values is cut into this many bins, from 2 to 255, extreme values into
        bins of their own. A table of at most 2**20 values with more than 255 classes is treated as
        with None."""
_FEATURES_IN = """n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names."""

BOOSTING = """Parameters
    ----------
    loss : <losses>
    n_estimators : int, default=100
        Rounds of boosting; a round grows one tree, or one a class where there are more
        than two, or one a target or quantile where there are several.
    learning_rate : float, sequence of float or callable, default=0.1
        Factor on every leaf value (shrinkage): one for all rounds, one for each, or what a
        function of the number of rounds before gives.
    line_search : bool, default=False
        Whether each round goes along its trees to where the loss is least, at most 16 times
        their values, before ``learning_rate`` is applied (Friedman 2001, eq. 12). Losses whose
        leaf values are exact minima are there already.
    dropout : float, default=0.0
        Chance of each round before to be left out where a round computes its gradients (DART;
        Rashmi and Gilad-Bachrach 2015). Its trees then take part of the place of those k rounds,
        see ``normalize_drop``. Predictions always use all trees.
    skip_dropout : float, default=0.0
        Chance of a round to leave out none.
    max_drop : int or None, default=None
        Most rounds that are left out together.
    uniform_drop : bool, default=True
        Whether all rounds have the same chance. False: in proportion to their weights, the learning
        rate times the factors of later rounds; ``dropout`` is the mean chance.
    normalize_drop : {"tree", "forest"}, default="tree"
        With learning rate r, values of new trees are multiplied by r / (k + r), those of the trees
        left out by k / (k + r) ("tree"), or by r / (1 + r) and 1 / (1 + r) ("forest").
    linear_leaves : bool, default=False
        Whether leaves have linear functions of the numeric features that lead to them, in place of
        constants, but for those of the first round (Shi et al. 2019). A row with a missing value
        in a feature of its leaf gets the constant.
    linear_lambda : float, default=0.0
        Times the squares of their coefficients / 2, added to the loss that they minimise.
    max_depth : int or None, default=None
        Longest path from the root to a leaf, in splits.
    max_leaf_nodes : int or None, default=31
        The best leaf is split first until there are this many. None grows level by level.
    min_samples_split : int or float, default=2
        Fewest rows of a node that is split, as a number or as a share of the rows.
    min_samples_leaf : int, default=10
        Fewest rows of a leaf.
    min_sum_hessian : float, default=1e-3
        Least sum of the loss's second derivatives in a leaf.
    l2_regularization : float, default=1.0
        Added to that sum where leaf values and gains are computed.
    min_gain_to_split : float, default=0
        A split must improve the second-order model of the loss by more than this.
    min_impurity_decrease : float, default=0
        The same for each unit of weight of the tree's rows: with the squared error and
        ``l2_regularization=0`` the least decrease of the variance, as in scikit-learn.
    max_bins : int, default=255
        Most bins of a feature, from 2 to 255; missing values have one of their own, and extreme
        values theirs.
    subsample : float, default=1.0
        Chance of a row to take part in a round, drawn without replacement.
    sampling : {"uniform", "goss", "mvs", "balanced"}, default="uniform"
        How the rows of each round are drawn, without replacement. "goss": the ``top_rate`` with
        the largest gradients, and ``other_rate`` of all rows from the others (Ke et al. 2017),
        after ``1 / learning_rate`` rounds with all rows, as in LightGBM.
        "mvs": chances in proportion to the size of the gradients, ``subsample`` of the rows
        expected (Ibragimov and Gusev 2019). "balanced": as many rows of every class. All but
        "uniform" count a row that was drawn with chance p for 1/p rows, so that sums keep their
        expectation.
    top_rate, other_rate : float, default=0.2 and 0.1
        Shares of all rows for sampling="goss".
    colsample_bytree, colsample_bylevel, colsample_bynode : float, default=1.0
        Share of the features drawn for each tree, of those for each level, and of those for
        each node.
    max_features : int, float, "sqrt", "log2" or None, default=None
        ``colsample_bynode`` in scikit-learn's words: of all features the number or share that each
        node looks at. Of features drawn for a tree or level a node looks at the same share.
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Features whose values have no order: a mask, positions or names, or those whose column in
        a data frame has a categorical type. A split sends a group of categories to either side:
        the best cut in the order of their mean gradients. Missing values, and categories that
        were not in the training data, go where a split learned to send what is rare or missing.
        Of more categories than ``max_bins`` the rarest share bins (see ``cat_hash_groups``).
    cat_smooth : float or "auto", default="auto"
        Added to the sum of the second derivatives of a category where categories are ordered.
        A category with fewer rows in a node counts as missing there. "auto": 10, or less for a
        feature whose categories with 2 to 9 rows certainly differ: the number of rows that make
        the mean gradient of a category as credible as that of all (the variance within these
        categories / that between them, by a lower confidence limit of 95 %), divided by the share
        of rows in such categories. It is learned before the first tree; a warm start keeps it.
    cat_l2 : float, default=0
        Added to ``l2_regularization`` where ordered categories are compared with other splits.
    max_cat_to_onehot : int, default=4
        A feature with at most so many categories is split into one and the others instead.
    cat_hash_groups : int, default=1
        Of a feature with more categories than ``max_bins``, the most frequent have a bin each and
        the others are hashed into so many groups, a bin each, that no split divides. At most
        ``max_bins``: then all are hashed.
    monotonic_cst : array-like of int, shape (n_features,), or dict, default=None
        1: raw predictions, and so the chance of class 1, must not fall as the feature rises, -1:
        not rise, 0: free. A dict has names of columns as keys. Not for more than two classes.
    interaction_cst : "pairwise", "no_interactions" or list of sets, default=None
        Which features may meet on a path from the root to a leaf: any two, none, or those of a
        set, by position or name. Features that are in no set are one more set.
    early_stopping : bool or "auto", default=False
        Stop when the first metric on the first evaluation set (or, without one, on rows held
        out) has not improved for ``n_iter_no_change`` rounds. "auto": with an evaluation set,
        or with more than 10000 rows.
    validation_fraction : float, int or None, default=0.1
        Share or number of rows to hold out, drawn as HistGradientBoosting draws them for the same
        whole number as ``random_state``. None: early stopping watches the training rows.
    n_iter_no_change : int, default=10
    tol : float, default=1e-7
        Least change of the metric that counts as improvement.
    keep_best : bool, default=True
        Whether the trees after the best round are dropped where early stopping is in use. False
        keeps all that were grown, as scikit-learn does.
    scoring : str, callable, None or list of these, default="loss"
        Metrics of the evaluation sets: "loss" (lower is better), names of scikit-learn's
        scorers, callables ``(estimator, X, y) -> float`` (higher is better), which get a
        stand-in that predicts the rows of ``y``, whatever it is asked about, or metrics of
        ``gpuens.custom_metrics``. None: "accuracy" or "r2".
    <class_weight>warm_start : bool, default=False
        Whether ``fit`` continues from the existing trees, with the bins and the seed that
        they were grown with.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws. None is a fixed seed: the same call gives the same model.
    n_jobs : int or None, default=None
        Threads on the CPU; None uses all that the process may use.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where to work. "auto" follows the arrays; host arrays go to a usable GPU if they are large
        enough for that to be faster (``gpuens.show_config()``), else stay.
    verbose : bool or int, default=False
        Whether to show a progress bar with the metrics, where the work runs, and the memory that it
        takes.
    callbacks : list or None, default=None
        Functions of the state after a round, or objects with ``after_iteration(state)``, see
        ``gpuens.callbacks``. A true result stops the training.

    Attributes
    ----------
    forest_ : Forest
        The trees; ``forest_.fingerprint()`` is the same on every device.
    feature_importances_ : float64, shape (n_features,)
        Share of each feature in the gains of all splits; they add up to 1.
    n_iter_ : int
        Rounds in the model.
    best_iteration_ : int
        The round with the best value of the first metric on the first evaluation set, from 1 (0:
        the model without trees); ``n_iter_`` if none was recorded.
    n_trees_per_iteration_ : int
        1, or the number of classes where there are more than two, or of targets or quantiles.
    do_early_stopping_ : bool
        Whether early stopping was in use.
    evals_result_ : dict
        ``evals_result_[data][metric]``: one value for every round, entry 0 before the first.
        Data are "validation" (rows held out), "validation_0" … (``eval_set``), and "training"
        with ``verbose``, or with early stopping and none of these.
    validation_score_ : ndarray
        The first metric on the first of these, the loss with a minus sign; empty without.
    train_score_ : ndarray
        The first metric on "training", the loss with a minus sign; empty without.
    stopped_ : str
        Why the training ended: "finished", "early stopping", "callback", "interrupted", or
        "error", of a callback.
    n_features_in_ : int
    is_categorical_ : ndarray of bool, shape (n_features,), or None
        Which features are split by categories; None if none is.
    feature_names_in_ : ndarray of str
        Only where X had column names.
    <attributes>"""


TREE = f"""Parameters
    ----------
    criterion : <criteria>
        What a split lowers.
    splitter : {{"best", "random"}}, default="best"
        The best of all cuts of a feature, or of one random cut of each.
    {_GROWTH}
    {_PLACE}

    Attributes
    ----------
    forest_ : Forest
        The tree; ``forest_.fingerprint()`` is the same on every device.
    tree_ : TreeView
        The tree in scikit-learn's terms. Its nodes are numbered breadth first.
    feature_importances_ : float64, shape (n_features,)
        Share of each feature in the decrease of impurity.
    max_features_ : int
    n_outputs_ : int
    {_FEATURES_IN}
    <attributes>"""

CLASS_CRITERIA = """{"gini", "entropy", "log_loss", "misclassification"}, default="gini\""""
NUMBER_CRITERIA = """{"squared_error", "poisson", "absolute_error"}, default="squared_error\""""
CLASS_WEIGHT = """class_weight : dict, list of dict, "balanced" or None, default=None
        Factors on the weights of the rows by class; "balanced": in inverse proportion to
        the number of rows.
    """
CLASS_ATTRIBUTES = """classes_ : ndarray, or a list of these for several outputs
    n_classes_ : int or list of int"""


FOREST = f"""Parameters
    ----------
    n_estimators : int, default=100
        Trees.
    criterion : <criteria>
        What a split lowers.
    {_GROWTH}
    bootstrap : bool, default=<bootstrap>
        Whether each tree has a sample of its own, drawn with replacement, or all rows.
    max_samples : int, float or None, default=None
        Rows drawn for each tree, or their share; None: as many as there are.
    oob_score : bool or callable, default=False
        Whether to predict each row by the trees whose samples it is not in, and score that
        by accuracy or R², or by ``callable(y_true, y_pred)``.
    <honest>    warm_start : bool, default=False
        Whether ``fit`` adds to the trees that are there until there are ``n_estimators``.
    verbose : bool or int, default=0
        Whether to show a progress bar, and where the work runs.
    {_PLACE}

    Attributes
    ----------
    forest_ : Forest
        The trees; ``forest_.fingerprint()`` is the same on every device.
    estimators_ : list of estimators
        The trees, one by one.
    estimators_samples_ : list of int64 ndarrays
        The rows of each tree's sample, with repetitions; drawn again when asked for.
    feature_importances_ : float64, shape (n_features,)
        Mean decrease in impurity; ``feature_importances_percent_`` is scaled to 0 ... 100.
    oob_score_ : float
        Only with ``oob_score``, like the next two.
    oob_scores_path_ : float64, shape (n_trees,)
        Out-of-bag error (share of wrong classes, or mean squared error) of the first tree,
        of the first two, and so on.
    n_outputs_ : int
    {_FEATURES_IN}
    <attributes>"""

FOREST_CLASS_WEIGHT = """class_weight : dict, list of dict, str or None, default=None
        Factors on the weights of the rows by class; "balanced": in inverse proportion to the
        number of rows, "balanced_subsample": to that in the tree's sample.
    """
FOREST_CLASS_ATTRIBUTES = f"""oob_decision_function_ : float64, shape (n_rows, n_classes)
        Out-of-bag class probabilities; NaN for rows that are in every sample.
    {CLASS_ATTRIBUTES}"""
FOREST_NUMBER_ATTRIBUTES = """oob_prediction_ : float64, shape (n_rows,) or (n_rows, n_outputs)
        NaN for rows that are in every sample."""

HONEST = """honest : bool, default=False
        Whether one half of a tree's sample chooses its splits, and the other half gives what its
        leaves predict, and all other numbers of its nodes (Wager and Athey 2018). Limits on leaves
        are for the first half; a split is undone where a child has no row of the other half.
    """

FOREST_OF_CLASSES = {
    "honest": HONEST,
    "criteria": CLASS_CRITERIA,
    "features": '"sqrt"',
    "class_weight": FOREST_CLASS_WEIGHT,
    "attributes": FOREST_CLASS_ATTRIBUTES,
}
FOREST_OF_VALUES = {
    "honest": HONEST,
    "criteria": NUMBER_CRITERIA,
    "features": "1.0",
    "class_weight": "",
    "attributes": FOREST_NUMBER_ATTRIBUTES,
}
"""The parts of ``FOREST`` for classification and for regression."""


FITTED = """Returns
    -------
    self<ends>

    Raises
    ------
    ValueError, TypeError
        Bad data or parameters; names the argument, what it got and what it wants."""
"""The end of the documentation of ``fit``."""
ENDS_EARLY = """
        Ctrl-C ends the training early and keeps the finished rounds; so does an error in a
        callback, which is raised afterwards."""

PREDICTED = """Parameters
    ----------
    X : array-like, shape (n_rows, n_features)
        Of any type that ``fit`` takes.

    Returns
    -------
    <result>"""
"""The documentation of methods that predict, with one of these results."""
LABELS = """array of labels, shape (n_rows,)
        In the array library and on the device of X if labels are numbers, else NumPy."""
PROBABILITIES = """float64, shape (n_rows, n_classes)
        In the order of ``classes_``, in the array library and on the device of X."""
VALUES = """float64, shape (n_rows,)
        In the array library and on the device of X (NumPy for data frames)."""


def documented(text: str, **parts: str) -> Callable[[Documented], Documented]:
    """Put a shared text, with its ``<parts>`` filled in, where a docstring says ``<shared>``."""
    for name, part in parts.items():
        text = text.replace(f"<{name}>", part)

    def complete(thing: Documented) -> Documented:
        if thing.__doc__:
            thing.__doc__ = cleandoc(thing.__doc__).replace("<shared>", cleandoc(text))
        return thing

    return complete
