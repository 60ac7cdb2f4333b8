"""Partial dependence: the mean prediction as a function of a few features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import Bunch
from sklearn.utils.extmath import cartesian
from sklearn.utils.validation import check_is_fitted, validate_data

from ..devices.memory_plan import format_bytes
from ..devices.placement import Device
from ..estimators.recursion import HasRecursion, mean_response, trees_of_response
from ..forest.plain import require_plain_trees
from ..forest.sum_of_trees import SumOfTrees
from ..inputs.arrays import to_input_library
from ..inputs.targets import read_sample_weight
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.system import available_memory
from .columns import Columns, categorical_positions, columns_of, feature_names_of, positions_of
from .dependence_grid import axis_of, grid_settings

CHOICES = {
    "response_method": ("auto", "predict_proba", "decision_function"),
    "method": ("auto", "recursion", "brute"),
    "kind": ("average", "individual", "both"),
}
Axes = dict[int, np.ndarray]
"""The grid values of each feature."""
OTHERS_RECURSION = "_compute_partial_dependence_recursion"
"""The weighted pass of scikit-learn's own trees."""


def partial_dependence(
    estimator: Any,
    X: Any,
    features: Any,
    *,
    sample_weight: Any = None,
    categorical_features: Any = None,
    feature_names: Any = None,
    response_method: str = "auto",
    percentiles: tuple[float, float] = (0.05, 0.95),
    grid_resolution: int = 100,
    custom_values: Any = None,
    method: str = "auto",
    kind: str = "average",
    centered: bool = False,
) -> Bunch:
    """Compute the mean prediction at each point of a grid over some features (Friedman 2001), and
    the predictions of each row there (individual conditional expectation, Goldstein et al.
    2015).

    Parameters
    ----------
    estimator : fitted classifier or regressor
        Of any library.
    X : array or data frame, shape (n_rows, n_features)
        The grid is taken from it; ``method="brute"`` averages over its rows.
    features : int, str, list of these, or mask of bool
        One or more features.
    sample_weight : array, shape (n_rows,), default=None
        Weights of the rows in the average; not for ``method="recursion"``.
    categorical_features : mask, positions or names, default=None
        Features whose grid is the values that occur. None: those that the estimator was fitted
        with as categorical, and columns of text.
    feature_names : list of str, default=None
        None: the columns of a data frame.
    response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
        What a classifier is asked for. "auto" is what the recursion gives where that is taken,
        else probabilities, else decisions. Of two classes the result is that of the second.
    percentiles : (float, float), default=(0.05, 0.95)
        The ends of the grid, as shares of the finite values.
    grid_resolution : int, default=100
        Points of each numeric feature. One with fewer different values has these as its grid.
    custom_values : dict, default=None
        Grids of some features, by position or name as in ``features``. NaN is missing.
    method : {"auto", "recursion", "brute"}, default="auto"
        "recursion" passes down the trees once for all points and weights the branches by the
        training rows: trees, forests and bags of trees (of a classifier the probabilities),
        boosting (of a classifier the decisions), and scikit-learn's trees that have it. "brute"
        predicts all rows of X at all points. "auto" is the recursion where it can be had.
    kind : {"average", "individual", "both"}, default="average"
        The mean, the predictions of the rows, or both; the last two by brute force.
    centered : bool, default=False
        Whether to subtract from each curve its value at the first point of the grid.

    Returns
    -------
    Bunch
        ``grid_values``: a list of one array for each feature. ``average``: float64, shape
        (n_outputs, n_values_0, ...). ``individual``: float64, shape
        (n_outputs, n_rows, n_values_0, ...). In the array library and on the device of X.

    Raises
    ------
    ValueError
        A feature that is not there, a column that cannot have the grid that is asked for, or a
        bad parameter: the message names it and its allowed values.

    Notes
    -----
    The two methods agree where the features do not depend on each other within the training data;
    elsewhere the recursion weights the branches below a split as the training rows behind it were
    divided. Boosting weights rows by ``sample_weight`` for the squared error, else alike.

    References
    ----------
    Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics
    29, 2001.
    Goldstein, Kapelner, Bleich and Pitkin, "Peeking inside the black box", Journal of
    Computational and Graphical Statistics 24, 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import RandomForestRegressor
    >>> from gpuens.inspection import partial_dependence
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> forest = RandomForestRegressor(n_estimators=20, device="cpu").fit(X, y)
    >>> found = partial_dependence(forest, X, "bmi", grid_resolution=20)
    >>> found.average.shape, bool(found.average[0, -1] > found.average[0, 0])
    ((1, 20), True)
    """
    check_estimator(estimator, response_method)
    check_choices(response_method=response_method, method=method, kind=kind)
    columns = columns_of(X, estimator)
    names = feature_names_of(columns, feature_names)
    positions = positions_of(features, columns, names)
    trees = recursion_of(estimator, method, kind, sample_weight, response_method)
    asked = _as_written(features, positions)
    settings = grid_settings(percentiles, grid_resolution, custom_values, asked, positions)
    categorical = categorical_positions(categorical_features, columns, names, estimator)
    with columns.device.active():
        if trees is not None:
            require_features_of_fit(estimator, columns)
        axes = {f: axis_of(columns, f, f in categorical, settings, estimator) for f in positions}
        found = _curves(estimator, columns, axes, trees, response_method, sample_weight, kind)
        like = None if issparse(X) else X
        return Bunch(
            grid_values=[to_input_library(values, like) for values in axes.values()],
            **{
                name: to_input_library(_centred(values, values.ndim - len(axes), centered), like)
                for name, values in found.items()
            },
        )


def _curves(
    estimator: Any, columns: Columns, axes: Axes, trees: SumOfTrees | str | None,
    response_method: str, sample_weight: Any, kind: str,
) -> dict[str, Array]:  # fmt: skip
    """Return the mean predictions at the points of a grid, those of the rows, or both."""
    shape = tuple(values.size for values in axes.values())
    if trees is not None:
        return {"average": _recursion(estimator, trees, axes).reshape(-1, *shape)}
    response = response_of(estimator, response_method)
    weight = _weights(sample_weight, columns, estimator)
    average, individual = brute_force(
        estimator, columns, _points_of(axes), response, weight, kind != "average"
    )
    found = {} if kind == "individual" else {"average": average.reshape(-1, *shape)}
    if individual is not None:
        found["individual"] = individual.reshape(-1, columns.shape[0], *shape)
    return found


def check_choices(**given: Any) -> None:
    """Raise a ValueError for a parameter that is not one of its allowed words."""
    for name, value in given.items():
        if not (isinstance(value, str) and value in CHOICES[name]):
            wanted = " or ".join(map(repr, CHOICES[name]))
            raise ValueError(f"{name} must be {wanted}, got {value!r}.")


def check_estimator(estimator: Any, response_method: Any) -> None:
    """Raise an error unless the estimator is a fitted regressor or classifier with one target."""
    check_is_fitted(estimator)
    if not (is_classifier(estimator) or is_regressor(estimator)):
        raise ValueError(
            "'estimator' must be a fitted regressor or classifier, got a "
            f"{type(estimator).__name__}."
        )
    if is_classifier(estimator) and isinstance(estimator.classes_[0], np.ndarray):
        raise ValueError(
            "Multiclass-multioutput estimators are not supported: fit a classifier for each output."
        )
    if is_regressor(estimator) and response_method != "auto":
        raise ValueError(
            "The response_method parameter is ignored for regressors and must be 'auto', got "
            f"{response_method!r}."
        )


def recursion_of(
    estimator: Any, method: str, kind: str, sample_weight: Any, response_method: str
) -> SumOfTrees | str | None:
    """Return what the recursion runs on: trees, the name of scikit-learn's method, or None for
    brute force. Raises a ValueError if it is asked for by name and cannot be had."""
    if method == "brute":
        return None
    must = method == "recursion"
    if kind != "average" or sample_weight is not None:
        if must:
            _refuse_recursion(kind)
        return None
    trees: SumOfTrees | str | None = trees_of_response(estimator)
    own = isinstance(estimator, HasRecursion)
    if trees is None and hasattr(estimator, OTHERS_RECURSION) and not own:
        starts_anywhere = getattr(estimator, "init", None) is not None
        trees = None if starts_anywhere and not must else OTHERS_RECURSION
    if trees is None:
        if must:
            instead = "set method='brute', or "
            require_plain_trees(getattr(estimator, "forest_", None), "method='recursion'", instead)
            raise ValueError(
                "Only the following estimators support the 'recursion' method: trees, forests, "
                "bags of trees that are averaged, boosting (of numbers with a loss whose link is "
                "the identity), and scikit-learn's trees that have it; got "
                f"{type(estimator).__name__}. Try using method='brute'."
            )
        return None
    gives = trees.response if isinstance(trees, SumOfTrees) else "decision_function"
    if is_classifier(estimator) and response_method not in ("auto", gives):
        if must:
            raise ValueError(
                f"With the 'recursion' method, the response_method must be {gives!r}. Got "
                f"{response_method!r}; pass method='brute' for it."
            )
        return None
    return trees


def _refuse_recursion(kind: str) -> None:
    """Raise a ValueError, for curves of single rows or for weights."""
    if kind != "average":
        raise ValueError(
            "The 'recursion' method only applies when 'kind' is set to 'average', got "
            f"kind={kind!r}. Pass method='brute'."
        )
    raise ValueError(
        "The 'recursion' method can only be applied when sample_weight is None: it has the "
        "weights of the training rows. Pass method='brute'."
    )


def _as_written(features: Any, positions: Sequence[int]) -> list[Any]:
    """Return the features as the user wrote them, by which custom values are named."""
    if isinstance(features, str) or not hasattr(features, "__len__"):
        return [features]
    listed = list(features)
    is_mask = all(isinstance(feature, (bool, np.bool_)) for feature in listed)
    return list(positions) if is_mask else listed


def require_features_of_fit(estimator: Any, columns: Columns) -> None:
    """Check the number of features, as prediction would; the recursion does not predict."""
    n_features = getattr(estimator, "n_features_in_", columns.shape[1])
    if n_features != columns.shape[1]:
        raise ValueError(
            f"X has {columns.shape[1]} features, but {type(estimator).__name__} was fitted with "
            f"{n_features}."
        )
    if columns.names is not None and hasattr(estimator, "feature_names_in_"):
        validate_data(estimator, columns.table(), reset=False, skip_check_array=True)


def _points_of(axes: Axes) -> list[dict[int, Any]]:
    """Return the values of the features at all points of a grid."""
    points = product(*map(list, axes.values()))
    return [dict(zip(axes, point, strict=True)) for point in points]


def _recursion(estimator: Any, trees: SumOfTrees | str, axes: Axes) -> np.ndarray:
    if isinstance(trees, SumOfTrees):
        return mean_response(trees, list(axes), list(axes.values()))
    grid = cartesian(list(axes.values()))
    features = np.array(list(axes), np.intp)
    return np.asarray(getattr(estimator, trees)(grid, features))


def _weights(sample_weight: Any, columns: Columns, estimator: Any) -> Array | None:
    n_rows, shape = columns.shape[0], np.shape(sample_weight)
    if sample_weight is not None and shape not in ((), (n_rows,)):
        raise ValueError(
            f"sample_weight.shape == {shape}, expected ({n_rows},): pass one weight for each row "
            "of X."
        )
    return read_sample_weight(sample_weight, n_rows, columns.device)


def _centred(curves: Array, first_axis: int, centered: bool) -> Array:
    """Subtract the value at the first point of the grid from each curve."""
    if not centered:
        return curves
    start = (slice(None),) * first_axis + (slice(0, 1),) * (curves.ndim - first_axis)
    return curves - curves[start]


RESPONSES = ("predict_proba", "decision_function")


def response_of(estimator: Any, response_method: str) -> str:
    """Return the name of the method that is averaged: the one asked for or the first that a
    classifier has; ``predict`` for a regressor. Raises a ValueError if the estimator does not have
    it."""
    if not is_classifier(estimator):
        return "predict"
    wanted = RESPONSES if response_method == "auto" else (response_method,)
    for name in wanted:
        if hasattr(estimator, name):
            return name
    raise ValueError(
        f"{type(estimator).__name__} has no {' and no '.join(wanted)}, whose mean could be taken. "
        f"Pass another response_method or a model with {' or '.join(RESPONSES)}."
    )


def responses(estimator: Any, table: Any, method: str, device: Device) -> Array:
    """Return the predictions of the rows of a table: float64, shape (n_rows, n_outputs), on the
    device; for two classes only the second."""
    answer = device.asarray(getattr(estimator, method)(table), np.float64)
    if answer.ndim == 1:
        return answer[:, None]
    two_classes = method == "predict_proba" and answer.shape[1] == 2
    return answer[:, 1:] if two_classes else answer


def brute_force(
    estimator: Any,
    columns: Columns,
    points: Sequence[Mapping[int, Any]],
    method: str,
    weight: Array | None = None,
    keep_rows: bool = False,
) -> tuple[Array, Array | None]:
    """Replace features of all rows by the values of each point (by the position of the feature),
    predict, and average by the weights.

    Returns the average, float64 (n_outputs, n_points), and with ``keep_rows`` the predictions,
    (n_outputs, n_rows, n_points), else None; both on the device of the columns. Raises a
    MemoryError if the predictions of all rows would not fit."""
    device, n_rows = columns.device, columns.shape[0]
    averages, individual = [], None
    for first in range(0, len(points), columns.most_copies):
        some = points[first : first + columns.most_copies]
        answer = responses(estimator, columns.filled(some), method, device)
        answer = answer.reshape(len(some), n_rows, -1)
        averages.append(_mean(answer, weight, device))
        if keep_rows:
            if individual is None:
                individual = _room((answer.shape[2], n_rows, len(points)), device)
            individual[:, :, first : first + len(some)] = answer.transpose(2, 1, 0)
    return device.xp.concat(averages).T, individual


def _mean(answer: Array, weight: Array | None, device: Device) -> Array:
    """Average (n_points, n_rows, n_outputs) over the rows."""
    if weight is None:
        return answer.mean(axis=1)
    return (answer * weight[:, None]).sum(axis=1) / weight.sum()


def _room(shape: tuple[int, ...], device: Device) -> Array:
    size, available = 8 * prod(shape), available_memory()
    if available is not None and size > available:
        raise MemoryError(
            f"The predictions of {shape[1]} rows at {shape[2]} points take {format_bytes(size)}, "
            f"{format_bytes(available)} are free. Pass fewer rows, a smaller grid_resolution, or "
            "kind='average'."
        )
    return device.xp.empty(shape)
