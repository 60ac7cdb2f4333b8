"""Friedman's H: the share of the effect of two features that is their interaction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import Bunch

from ..devices.placement import to_numpy
from ..estimators.parameters import integer, seed_of
from ..estimators.recursion import mean_response
from ..forest.sum_of_trees import SumOfTrees
from ..inputs.arrays import to_input_library
from ..kernels.scalars import rng
from ..kernels.scalars.primitives import vectorise
from ..numerics.sampling import subset
from .columns import Columns, columns_of, feature_names_of, positions_of
from .dependence import (
    brute_force,
    check_choices,
    check_estimator,
    recursion_of,
    require_features_of_fit,
    response_of,
)

PURPOSE_ROWS_OF_H = np.uint64(1003)
"""Apart from the purposes of training, in ``kernels.scalars.rng``."""
NOTHING = 1e-24
"""Share of the squared response below which an effect is rounding error."""

_subkey = vectorise(rng.subkey)


def h_statistic(
    estimator: Any,
    X: Any,
    features: Any = None,
    *,
    feature_names: Any = None,
    response_method: str = "auto",
    method: str = "auto",
    max_samples: int = 200,
    random_state: Any = None,
) -> Bunch:
    """Return the share of the variance of two features' joint partial dependence that their own
    partial dependences do not explain (Friedman and Popescu 2008, equation 44)::

        H² = Σ (F_jk - F_j - F_k)² / Σ F_jk²

    over rows of X, where F_j, F_k and F_jk are partial dependences minus their means. 0: the
    features do not interact. 1: each has no effect of its own. Where the joint effect is zero, H
    is 0. A large H of a weak effect says little: compare ``joint_variance``.

    Parameters
    ----------
    estimator : fitted classifier or regressor
        Of any library.
    X : array or data frame, shape (n_rows, n_features)
        Numbers or categories.
    features : list of int or str, default=None
        At least two; all pairs of them are looked at. None: all features.
    feature_names : list of str, default=None
        None: the columns of a data frame.
    response_method, method : str, default="auto"
        As for ``partial_dependence``. Brute force predicts ``max_samples**2`` rows for each pair
        and each feature.
    max_samples : int, default=200
        Rows of X that the sums go over, drawn without replacement; all if there are fewer.
    random_state : int, RandomState instance or None, default=None
        Seed of the rows; None is a fixed one.

    Returns
    -------
    Bunch
        ``pairs``: the pairs as positions, a list of tuples. ``h`` and ``h_squared``: float64,
        shape (n_pairs, n_outputs). ``joint_variance``: the mean of F_jk², of the same shape. In
        the array library and on the device of X.

    Raises
    ------
    ValueError
        Fewer than two features, or as for ``partial_dependence``.

    References
    ----------
    Friedman and Popescu, "Predictive learning via rule ensembles", Annals of Applied Statistics 2,
    2008.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuens import GradientBoostingRegressor
    >>> from gpuens.inspection import h_statistic
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> model = GradientBoostingRegressor(n_estimators=100).fit(X, X[:, 0] * X[:, 1] + X[:, 2])
    >>> h = h_statistic(model, X).h[:, 0]  # of the pairs (0, 1), (0, 2) and (1, 2)
    >>> bool(h[0] > 0.9), bool(h[1:].max() < 0.2)
    (True, True)
    """
    check_estimator(estimator, response_method)
    check_choices(response_method=response_method, method=method)
    integer(2).check("max_samples", max_samples)
    columns = columns_of(X, estimator)
    names = feature_names_of(columns, feature_names)
    wanted = list(range(columns.shape[1])) if features is None else features
    positions = positions_of(wanted, columns, names)
    if len(positions) < 2:
        raise ValueError(f"features must name at least two features, which interact, got {wanted}.")
    trees = recursion_of(estimator, method, "average", None, response_method)
    with columns.device.active():
        if trees is not None:
            require_features_of_fit(estimator, columns)
        rows = _rows(columns, int(max_samples), seed_of(random_state))
        pairs = list(combinations(positions, 2))
        effects = {
            at: _effect(estimator, rows, trees, response_method, at)
            for at in [*((f,) for f in positions), *pairs]
        }
        square = max(float(np.mean(effect**2)) for effect in effects.values())  # rounding's scale
        effects = {at: e - e.mean(axis=1, keepdims=True) for at, e in effects.items()}
        parts = [(effects[j, k], effects[j,] + effects[k,]) for j, k in pairs]
        joint = np.stack([np.mean(both**2, axis=1) for both, _ in parts])
        apart = np.stack([np.mean((both - sum_) ** 2, axis=1) for both, sum_ in parts])
        zero = joint <= NOTHING * square
        squared = np.where(zero, 0.0, apart / np.where(zero, 1.0, joint))
        like = None if issparse(X) else X
        found = {"h": np.sqrt(squared), "h_squared": squared, "joint_variance": joint}
        return Bunch(
            pairs=pairs, **{name: to_input_library(array, like) for name, array in found.items()}
        )


def _rows(columns: Columns, n: int, seed: int) -> Columns:
    """Sample rows."""
    if n >= columns.shape[0]:
        return columns
    key = int(_subkey(np.uint64(seed), PURPOSE_ROWS_OF_H, np.uint64(0)))
    return columns.take(subset(columns.shape[0], n, key, 0, columns.device))


def _effect(
    estimator: Any, columns: Columns, trees: SumOfTrees | str | None, response_method: str,
    features: Sequence[int],
) -> np.ndarray:  # fmt: skip
    """Return the partial dependence at the rows themselves: float64, shape (n_outputs, n_rows)."""
    at = [columns.values(feature) for feature in features]
    if isinstance(trees, SumOfTrees):
        effect = mean_response(trees, features, at)
        effect = effect if len(at) == 1 else np.diagonal(effect, axis1=1, axis2=2)
    elif trees is not None:
        grid = np.stack(at, axis=1)
        found = getattr(estimator, trees)(grid, np.array(features, np.intp))
        effect = np.asarray(found).reshape(-1, len(grid))
    else:
        points = [dict(zip(features, row, strict=True)) for row in zip(*at, strict=True)]
        found, _ = brute_force(estimator, columns, points, response_of(estimator, response_method))
        effect = to_numpy(found)
    return effect
