"""The members of a bag as one forest, where they are trees of this package: prediction then
passes over the rows once instead of once for each member."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..devices.placement import Device
from ..estimators.parameters import threads_of
from ..forest.forest import Forest
from ..inputs.categories import read_features
from ..kernels.runtime.cpu.team import using_threads

_joined: WeakKeyDictionary[Any, tuple[list[Any], Forest]] = WeakKeyDictionary()
"""Of each bag the members and the forest of all their trees; not in the bag, which prediction
must not change and which would be saved with every tree twice."""


def joined_forest(bag: Any) -> Forest | None:
    """The trees of all members, None if these are not trees that see the whole table.

    Parameters
    ----------
    bag : fitted BaggingClassifier or BaggingRegressor
    """
    members = bag.estimators_
    known = _joined.get(bag)
    if known is not None and len(known[0]) == len(members):
        if all(a is b for a, b in zip(known[0], members, strict=True)):
            return known[1]
    pairs = zip(members, bag.estimators_features_, strict=True)
    if not all(_is_whole(member, features, bag) for member, features in pairs):
        return None
    forest = Forest.concatenate([member.forest_ for member in members])
    _joined[bag] = list(members), forest
    return forest


def mean_of_trees(forest: Forest, member: Any, X: Any, device: Device) -> Any:
    """The mean of what all trees predict.

    Parameters
    ----------
    forest : Forest
    member : estimator
        One of the trees, which knows how to read X.
    X : array, shape (n_rows, n_features)
    device : Device

    Returns
    -------
    float64, shape (n_rows, width), on the device
    """
    with using_threads(threads_of(member.n_jobs)):
        table = read_features(X, device, estimator=member, reset=False).values
        return forest.raw_predict(table, device).T / forest.n_trees


def _is_whole(member: Any, features: np.ndarray, bag: Any) -> bool:
    """Whether a member is a tree that has seen all features and classes."""
    if not (hasattr(member, "_fit_batch") and isinstance(getattr(member, "forest_", None), Forest)):
        return False
    if getattr(member, "_categories", None) is not getattr(bag.estimators_[0], "_categories", None):
        return False  # fitted on different rows, whose categories have other numbers
    sees_all = np.array_equal(features, np.arange(bag.n_features_in_))
    return sees_all and len(getattr(member, "classes_", ())) == getattr(bag, "n_classes_", 0)
