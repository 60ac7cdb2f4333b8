"""Models of scikit-learn: trees, forests and gradient boosting.

Sources: scikit-learn's user guide on trees and ensembles, and its predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sklearn
from sklearn.ensemble import (
    BaseEnsemble,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import check_is_fitted

from .estimators import ImportedClassifier, ImportedRegressor, Parts, imported
from .matching import KnownCategories
from .reading.assembly import MOST_FEATURES, CategorySets, SourceTrees, assemble, joined
from .reading.files import ImportedModelError
from .rules import Finish, Reading

FORESTS = (RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor)
GRADIENT_BOOSTING = (GradientBoostingClassifier, GradientBoostingRegressor)
HISTOGRAMS = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
LINKS = {"PoissonLoss": "exp", "HalfPoissonLoss": "exp", "HalfGammaLoss": "exp"}


def from_sklearn(estimator: Any) -> ImportedClassifier | ImportedRegressor:
    """Import a fitted model of scikit-learn.

    Raw scores are scikit-learn's bit for bit (for forests, with ``n_jobs=1``).

    Parameters
    ----------
    estimator : estimator
        A decision tree, random forest, extra trees, GradientBoosting or HistGradientBoosting.

    Returns
    -------
    ImportedClassifier or ImportedRegressor

    Raises
    ------
    ImportedModelError (a ValueError)
        It is of another class, or holds something that cannot be imported.
    sklearn.exceptions.NotFittedError

    References
    ----------
    Pedregosa et al., "Scikit-learn: Machine Learning in Python", JMLR 12, 2011.
    """
    readers: list[tuple[tuple[type, ...], Callable[[Any], Parts]]] = [
        ((*FORESTS, BaseDecisionTree), _from_forest),
        (GRADIENT_BOOSTING, _from_gradient_boosting),
        (HISTOGRAMS, _from_histograms),
    ]
    for kinds, read in readers:
        if isinstance(estimator, kinds):
            check_is_fitted(estimator)
            return imported(_read(read, estimator))
    raise ImportedModelError(
        "estimator must be a decision tree, random forest, extra trees, GradientBoosting or "
        f"HistGradientBoosting of scikit-learn, got {type(estimator).__name__}."
    )


def _read(read: Callable[[Any], Parts], estimator: Any) -> Parts:
    """Read an estimator, whose attributes may be those of another version."""
    try:
        return read(estimator)
    except ImportedModelError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ImportedModelError(
            f"estimator does not hold what scikit-learn {sklearn.__version__} gives a fitted "
            f"{type(estimator).__name__} ({error}). Fit it again with this version."
        ) from error


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise ImportedModelError(f"{text}: the estimator is damaged. Fit it again.")


def _n_features_of(estimator: Any) -> int:
    n_features = int(estimator.n_features_in_)
    _require(1 <= n_features <= MOST_FEATURES, f"n_features_in_ is {n_features}")
    return n_features


def _from_forest(estimator: Any) -> Parts:
    is_classifier = hasattr(estimator, "classes_")
    if is_classifier and estimator.n_outputs_ > 1:
        raise ImportedModelError(
            f"n_outputs_ is {estimator.n_outputs_}: classifiers of several outputs cannot be "
            "imported. Train one for each output."
        )
    members = estimator.estimators_ if isinstance(estimator, BaseEnsemble) else [estimator]
    trees = [member.tree_ for member in members]
    width = trees[0].n_outputs * trees[0].max_n_classes
    _require(np.size(trees[0].value[0]) == width, f"tree_.value does not have {width} outputs")
    return _parts(
        estimator,
        _trees_of(trees, 1.0, np.zeros(len(trees), np.int64), np.zeros(width), width),
        Finish(False, False, 1.0, "predictions", np.arange(len(trees) + 1), "shares", 1.0),
        estimator.criterion,
    )


def _from_gradient_boosting(estimator: Any) -> Parts:
    if estimator.init_ != "zero" and not type(estimator.init_).__name__.startswith("Dummy"):
        raise ImportedModelError(
            f"init is {estimator.init_!r:.60}: only None and 'zero' can be imported."
        )
    base = estimator._raw_predict_init(np.zeros((1, _n_features_of(estimator))))[0]
    n_rounds, n_outputs = estimator.estimators_.shape
    trees = [tree.tree_ for tree in estimator.estimators_.ravel()]
    output = np.arange(len(trees)) % n_outputs
    found = _trees_of(trees, estimator.learning_rate, output, np.array(base, np.float64), 1)
    link, slope = "identity", 1.0
    if hasattr(estimator, "classes_"):
        link = "softmax" if n_outputs > 1 else "logistic"
        slope = 2.0 if estimator.loss == "exponential" else 1.0
    rounds = np.arange(0, len(trees) + 1, n_outputs)
    finish = Finish(False, False, 1.0, "nothing", rounds, link, slope)
    return _parts(estimator, found, finish, estimator.loss)


def _parts(estimator: Any, trees: SourceTrees, finish: Finish, objective: str) -> Parts:
    names = getattr(estimator, "feature_names_in_", None)
    single = not isinstance(estimator, HISTOGRAMS)
    classes = getattr(estimator, "classes_", None)
    if classes is not None:
        is_forest = isinstance(estimator, (*FORESTS, BaseDecisionTree))
        n_classes = trees.base.size if is_forest else max(2, trees.base.size)
        fits = isinstance(classes, np.ndarray) and classes.shape == (n_classes,)
        _require(fits, f"classes_ does not name {n_classes} classes")
    return Parts(
        forest=assemble(trees),
        reading=Reading(single, np.nan, np.empty(0, np.int64), True),
        finish=finish,
        source={
            "library": "scikit-learn",
            "version": sklearn.__version__,
            "objective": objective,
            "estimator": type(estimator).__name__,
        },
        names=None if names is None else list(names),
        classes=classes,
    )


def _trees_of(
    trees: Sequence[Any], factor: float, output: np.ndarray, base: np.ndarray, width: int
) -> SourceTrees:  # fmt: skip
    """Return the trees of scikit-learn's ``tree_``, their values times a factor."""

    def column(name: str, dtype: Any) -> np.ndarray:
        return joined([getattr(tree, name) for tree in trees], dtype)

    sizes = [tree.node_count for tree in trees]
    values = [np.ascontiguousarray(tree.value).reshape(-1, width) for tree in trees]
    impurity = column("impurity", np.float64)
    left = column("children_left", np.int64)
    cover = column("weighted_n_node_samples", np.float64)
    offset = np.concatenate([[0], np.cumsum(sizes)])
    inner = left >= 0
    right = column("children_right", np.int64)
    _require(offset[-1] == left.size, f"node_count is {sizes}, of {left.size} nodes")
    root = np.repeat(offset[:-1], sizes)
    weighted = cover * impurity
    gain = np.zeros(left.size)
    gain[inner] = weighted[inner] - (
        weighted[(root + left)[inner]] + weighted[(root + right)[inner]]
    )
    return SourceTrees(
        n_features=trees[0].n_features,
        base=base,
        offset=offset,
        output=output,
        feature=np.where(inner, column("feature", np.int64), -1),
        threshold=column("threshold", np.float64),
        missing_left=column("missing_go_to_left", bool),
        left=left,
        right=right,
        value=np.concatenate(values) * factor,
        gain=gain,
        cover=cover,
        n_samples=column("n_node_samples", np.int64),
        sets=CategorySets(),
        names={"left": "children_left", "right": "children_right"},
    )


def _from_histograms(estimator: Any) -> Parts:
    rounds = estimator._predictors
    n_outputs = estimator.n_trees_per_iteration_
    predictors = [predictor for of_round in rounds for predictor in of_round]
    columns, known = _columns_of(estimator)
    base = np.array(estimator._baseline_prediction, np.float64).reshape(-1)
    _require(base.size == n_outputs, f"_baseline_prediction does not have {n_outputs} entries")
    trees = _trees_of_histograms(predictors, columns, base)
    link = "identity"
    if hasattr(estimator, "classes_"):
        link = "softmax" if n_outputs > 1 else "logistic"
    elif type(estimator._loss).__name__ in LINKS:
        link = LINKS[type(estimator._loss).__name__]
    ends = np.arange(0, len(predictors) + 1, n_outputs)
    finish = Finish(False, False, 1.0, "nothing", ends, link, 1.0)
    parts = _parts(estimator, trees, finish, str(estimator.loss))
    return Parts(**{**vars(parts), "known": known})


def _columns_of(estimator: Any) -> tuple[np.ndarray, KnownCategories | None]:
    """Return the column of each feature, and the categories. Categorical features come first."""
    n_features = _n_features_of(estimator)
    is_categorical = getattr(estimator, "is_categorical_", None)
    if getattr(estimator, "_preprocessor", None) is None or is_categorical is None:
        return np.arange(n_features), None
    _require(np.shape(is_categorical) == (n_features,), "is_categorical_ is not of the features")
    categorical = np.flatnonzero(is_categorical)
    encoder = estimator._preprocessor.named_transformers_["encoder"]
    listed = [
        [value for value in known.tolist() if value is not None and value == value]
        for known in encoder.categories_
    ]
    _require(len(listed) == categorical.size, "its encoder is not of its categorical features")
    known = KnownCategories.of(listed, categorical, unknown=np.nan, of_numbers=True)
    return np.concatenate([categorical, np.flatnonzero(~np.asarray(is_categorical))]), known


def _trees_of_histograms(
    predictors: list[Any], columns: np.ndarray, base: np.ndarray
) -> SourceTrees:
    sizes = [predictor.nodes.size for predictor in predictors]
    nodes = np.concatenate([predictor.nodes for predictor in predictors])
    inner = nodes["is_leaf"] == 0
    by_set = np.flatnonzero(inner & (nodes["is_categorical"] != 0))
    tree = np.repeat(np.arange(len(predictors)), sizes)
    members = [_members_of(predictors[tree[node]], nodes[node]) for node in by_set]
    sets = CategorySets.of(by_set, members, np.ones(by_set.size, bool))
    counts = nodes["count"].astype(np.int64)
    return SourceTrees(
        n_features=columns.size,
        base=base,
        offset=np.concatenate([[0], np.cumsum(sizes)]),
        output=np.arange(len(predictors)) % base.size,
        feature=np.where(inner, columns[np.where(inner, nodes["feature_idx"], 0)], -1),
        threshold=nodes["num_threshold"].astype(np.float64),
        missing_left=nodes["missing_go_to_left"] != 0,
        left=np.where(inner, nodes["left"].astype(np.int64), -1),
        right=np.where(inner, nodes["right"].astype(np.int64), -1),
        value=nodes["value"].astype(np.float64)[:, None],
        gain=np.where(inner, nodes["gain"], 0.0).astype(np.float64),
        cover=counts.astype(np.float64),
        n_samples=counts,
        sets=sets,
        names={},
    )


def _members_of(predictor: Any, node: Any) -> np.ndarray:
    words = np.ascontiguousarray(predictor.raw_left_cat_bitsets[node["bitset_idx"]], "<u4")
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).astype(np.int64)
