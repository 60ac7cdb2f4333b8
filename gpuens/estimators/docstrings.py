"""Text that the docstrings of several classes share."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import Any, TypeVar

Documented = TypeVar("Documented", bound=Callable[..., Any])

_PLACE = """n_jobs : int or None, default=None
        Threads on the CPU; None uses all that the process may use. Lower it to leave processors
        to others.
    device : {"auto", "cpu", "cuda", "array"}, default="auto"
        Where to work. "auto" follows the arrays; host arrays go to a usable GPU if they are large
        enough for that to be faster (``gpuens.show_config()``), else stay.
        "array" works in the array library of X by functions of the Array API standard alone: the
        same model, many times slower."""
_RANDOM_STATE = """random_state : int, RandomState instance or None, default=None
        Seed of all draws, those between equally good splits included. None is a fixed seed: the
        same call gives the same model. Pass other numbers to see how much depends on chance."""
_MAX_FEATURES = """max_features : int, float, "sqrt", "log2" or None, default=<features>
        Features that each node looks at, drawn at random: their number, or their share of all.
        The search goes on until one of them is not constant in the node. Fewer make trees differ
        more and grow faster; raise it where few of many features matter."""
_GROWTH = """max_depth : int or None, default=None
        Longest path from the root to a leaf, in splits. Set it to keep a model small, or to limit
        how many features interact.
    min_samples_leaf : int or float, default=<leaf>
        Fewest rows of a leaf, as a number or as a share of the rows. Raise it (5, 20) for noisy
        targets, for smoother probabilities and for smaller models.
    max_leaf_nodes : int or None, default=None
        The best leaf is split first until there are this many.
    min_samples_split : int or float, default=2
        Fewest rows of a node that is split, as a number or as a share of the rows.
    max_bins : int or None, default=<bins>
        None: every midpoint between neighbouring values can be a threshold. Otherwise a feature
        with more distinct values is cut into this many bins, from 2 to 255, extreme values into
        bins of their own, which is faster. A table of at most 2**20 values with more than 255
        classes is treated as with None.
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Features whose values have no order: a mask, indices or names, or those whose column in
        a data frame has a categorical type. They are split into two groups of
        categories. Categories that were not in the training data count as missing."""
_LIMITS = """Regularisation
        What keeps trees from fitting noise, or makes them respect what is known.
    ccp_alpha : float, default=0.0
        Branches that lower the impurity by less than this for each leaf are cut (minimal
        cost-complexity pruning). Raise it for smaller trees; ``cost_complexity_pruning_path`` of
        a single tree returns the values at which branches go.
    min_impurity_decrease : float, default=0.0
        A split must lower the impurity, weighted by the node's share of the weight, by this. Raise
        it to stop growth where splits gain little.
    min_weight_fraction_leaf : float, default=0.0
        Least share of the whole weight that a leaf holds: ``min_samples_leaf`` for rows that
        differ in weight.
    <honest>monotonic_cst : array-like of int, shape (n_features,), default=None
        1: predictions (of class 1) must not fall as the feature rises, -1: not rise, 0: free. Set
        it where the direction of an effect is known."""
_FEATURES_IN = """n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names."""

TREE = f"""Parameters are in groups, the most important ones first: ``max_depth`` and
    ``min_samples_leaf`` decide how large the tree becomes.

    Parameters
    ----------
    Growing
        How nodes are split, and which.
    criterion : <criteria>
        What a split lowers.
    {_GROWTH}
    splitter : {{"best", "random"}}, default=<splitter>
        The best of all cuts of a feature, or of one random cut of each.
    {_MAX_FEATURES}
    <class_weight>{_LIMITS}
    Running
        Where and how the tree is grown.
    {_RANDOM_STATE}
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
        the number of rows. Set it where errors on a rare class cost more.
    """
CLASS_ATTRIBUTES = """classes_ : ndarray, or a list of these for several outputs
    n_classes_ : int or list of int"""


FOREST = f"""Parameters are in groups, the most important ones first. Defaults are good starting
    points: raise ``n_estimators`` for smoother predictions, and tune ``max_features`` and
    ``min_samples_leaf``.

    Parameters
    ----------
    n_estimators : int, default=100
        Trees. More predict as well or better, and take longer: the error levels off
        (``oob_scores_path_``).
    Growing
        The shape of each tree.
    {_MAX_FEATURES}
    {_GROWTH}
    <further>criterion : <criteria>
        What a split lowers.
    Sampling
        The rows of each tree, and what they weigh.
    bootstrap : bool, default=<bootstrap>
        Whether each tree has a sample of its own, drawn with replacement, or all rows.
    max_samples : int, float or None, default=None
        Rows drawn for each tree, or their share; None: as many as there are. Fewer train faster
        and make trees differ more.
    oob_score : bool or callable, default=False
        Whether to predict each row by the trees whose samples it is not in, and score that
        by accuracy or R², or by ``callable(y_true, y_pred)``: a validation without rows held out.
    <class_weight>{_LIMITS}
    Running
        Where and how the trees are grown.
    {_RANDOM_STATE}
    {_PLACE}
    verbose : bool or int, default=0
        Above 0, where the work runs, why, and a progress bar are printed to standard error.
    warm_start : bool, default=False
        Whether ``fit`` adds to the trees that are there until there are ``n_estimators``.

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
        number of rows, "balanced_subsample": to that in the tree's sample. Set it where errors on
        a rare class cost more.
    """
FOREST_CLASS_ATTRIBUTES = f"""oob_decision_function_ : float64, shape (n_rows, n_classes)
        Out-of-bag class probabilities; NaN for rows that are in every sample.
    {CLASS_ATTRIBUTES}"""
FOREST_NUMBER_ATTRIBUTES = """oob_prediction_ : float64, shape (n_rows,) or (n_rows, n_outputs)
        NaN for rows that are in every sample."""

HONEST = """honest : bool, default=False
        Whether one half of a tree's sample chooses its splits, and the other half gives what its
        leaves predict, and all other numbers of its nodes (Wager and Athey 2018). Limits on leaves
        are for the first half; a split is undone where a child has no row of the other half. Set
        it for estimates without bias; it needs more rows.
    """

FOREST_OF_CLASSES = {
    "honest": HONEST,
    "further": "",
    "leaf": "1",
    "criteria": CLASS_CRITERIA,
    "features": '"sqrt"',
    "class_weight": FOREST_CLASS_WEIGHT,
    "attributes": FOREST_CLASS_ATTRIBUTES,
}
FOREST_OF_VALUES = {
    "honest": HONEST,
    "further": "",
    "leaf": "1",
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
        In any form that ``fit`` takes.

    Returns
    -------
    <result>"""
"""The documentation of methods that predict, with one of these results."""
EXPLAINED = PREDICTED.replace(
    "In any form that ``fit`` takes.\n",
    """In any form that ``fit`` takes.
    pred_contribs, pred_interactions : bool, default=False
        Return Shapley values of the features, or of their pairs, instead (see
        ``gpuens.TreeExplainer``): float64 of shape (n_rows, n_features + 1) or
        (n_rows, n_features + 1, n_features + 1), of several raw outputs
        (n_rows, n_outputs, ...). The last entry is the expected value; the sum is the raw
        prediction.
""",
)
"""The documentation of ``predict`` where trees are explained."""
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
