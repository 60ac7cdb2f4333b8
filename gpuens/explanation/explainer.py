"""Shapley values of the predictions of trees: ``TreeExplainer``, and in place of predictions,
``predict(X, pred_contribs=True)``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..devices.placement import CPU, Device, to_numpy
from ..forest.plain import require_plain_trees
from ..forest.sum_of_trees import NotASumOfTreesError, SumOfTrees, described
from ..inputs.arrays import resolve_device, to_input_library
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.cpu.team import using_threads
from .values import expected_value, interaction_values, program_of, shapley_values, values_against

AUTO, PATH_DEPENDENT, INTERVENTIONAL = "auto", "tree_path_dependent", "interventional"


@dataclass
class Explanation:
    """The result of an explainer where shap is not installed; the attributes are those of
    ``shap.Explanation``.

    Parameters
    ----------
    values : float64, shape (n_rows, n_features) or (n_rows, n_features, n_outputs)
    base_values : float64, shape (n_rows,) or (n_rows, n_outputs)
        The expected value.
    data : array, shape (n_rows, n_features)
    feature_names : list of str, or None
    """

    values: np.ndarray
    base_values: np.ndarray
    data: np.ndarray
    feature_names: list[str] | None = None


class TreeExplainer:
    """Explains the predictions of trees by Shapley values (Lundberg et al. 2020).

    A prediction is the sum of the expected value and of one number for each feature: what knowing
    the feature changes on average, over all orders in which the features of the row may become
    known. Names and shapes are those of ``shap.TreeExplainer``, and so are the values, which are
    exact here; shap need not be installed.

    Predictions are raw ones: log-odds or other scores of boosting, the mean of the leaf values
    (shares of classes, targets) of forests and bags, mean path lengths of isolation forests, the
    sum of the weighted votes of AdaBoost classifiers.

    Parameters
    ----------
    model : fitted estimator
        Gradient boosting, random forests, extra trees, decision trees, isolation forests, bags of
        such trees, AdaBoost classifiers of trees, and imported models. A quantile forest is
        explained by its mean.
    data : array or data frame, shape (n_background, n_features), default=None
        Background rows, from which features that are not known get their values.
    feature_perturbation : {"auto", "interventional", "tree_path_dependent"}, default="auto"
        How unknown features are treated. "interventional": they have the values of a background
        row; the mean over ``data``. "tree_path_dependent": a split by such a feature sends the row
        both ways, by the shares of the training rows. "auto": the first if there is ``data``.

    Attributes
    ----------
    expected_value : float, or float64 ndarray of shape (n_outputs,)
        The mean prediction over the background rows, or over the training weight of the leaves.
    feature_names : list of str, or None
        Columns of the data frame that the model was fitted with.

    Raises
    ------
    TypeError, ValueError
        The model does not add up the values of trees, ``data`` has other features or no rows,
        or an unknown ``feature_perturbation``.
    sklearn.exceptions.NotFittedError

    References
    ----------
    Lundberg et al., "From local explanations to global understanding with explainable AI for
    trees", Nature Machine Intelligence 2, 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuens import GradientBoostingRegressor, TreeExplainer
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GradientBoostingRegressor(n_estimators=20, device="cpu").fit(X, y)
    >>> explainer = TreeExplainer(model)
    >>> values = explainer.shap_values(X)
    >>> values.shape
    (442, 10)
    >>> total = values.sum(axis=1) + explainer.expected_value
    >>> bool(abs(total - model.predict(X)).max() < 1e-10)
    True
    """

    def __init__(self, model: Any, data: Any = None, feature_perturbation: str = AUTO) -> None:
        self._trees = _sum_of_trees(model)
        self.model = model
        self.data = data
        self.feature_perturbation = _perturbation(feature_perturbation, data)
        names = getattr(model, "feature_names_in_", None)
        self.feature_names = None if names is None else [str(name) for name in names]
        self._background: dict[str, Array] = {}
        expected = self._expected()
        self.expected_value = float(expected[0]) if expected.size == 1 else expected

    def _expected(self) -> np.ndarray:
        forest, base, scale = self._trees.forest, self._trees.base, self._trees.scale
        if self.feature_perturbation == PATH_DEPENDENT:
            program_of(forest, CPU, with_covers=True)  # raises where covers are missing
            return base + scale * expected_value(forest)
        device = resolve_device(self.model.device, self.data)
        with using_threads(self._trees.n_threads), device.active():
            rows = self._rows_against(device)
            raw = to_numpy(forest.raw_predict(rows, device)) - forest.base[:, None]
        return base + scale * raw.mean(axis=1)

    def _rows_against(self, device: Device) -> Array:
        """Return the background rows on a device."""
        if str(device) not in self._background:
            self._background[str(device)] = self._trees.read(self.data, device, "data")
        return self._background[str(device)]

    def shap_values(self, X: Any) -> Any:
        """Return the Shapley value of each feature in each row.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
            NaN is missing.

        Returns
        -------
        float64, shape (n_rows, n_features), or (n_rows, n_features, n_outputs)
            In the units of the raw prediction, in the array library and on the device of X. Lines
            add up to the raw prediction minus ``expected_value``.

        Raises
        ------
        ValueError, TypeError
            X has other columns than the model, or is not a table of numbers.
        MemoryError
            The result would not fit.
        """
        return self._explained(X, False, without_single_output)

    def shap_interaction_values(self, X: Any) -> Any:
        """Return the Shapley interaction values of all pairs of features in each row.

        The entry (i, j) is half of what both features change together beyond what each does alone;
        (i, i) is the rest of the Shapley value of i.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
            In any form that ``fit`` takes.

        Returns
        -------
        float64, shape (n_rows, n_features, n_features), for several outputs with a further axis
            Symmetric; lines add up to the Shapley values. In the array library and on the device
            of X.

        Raises
        ------
        ValueError
            Features have the values of background rows: interactions are path-dependent ones.
        MemoryError
            The result, 8 * n_rows * n_features² * n_outputs bytes, would not fit.
        """
        if self.feature_perturbation != PATH_DEPENDENT:
            raise ValueError(
                "shap_interaction_values needs feature_perturbation='tree_path_dependent', got "
                f"{self.feature_perturbation!r}. Create the explainer without data."
            )
        return self._explained(X, True, without_single_output)

    def _explained(
        self, X: Any, interactions: bool, finish: Callable[[Array, Device], Array]
    ) -> Any:
        """Return ``finish(values, device)`` in the array library of X; outputs are the last axis
        of ``values``."""
        trees = self._trees
        device = resolve_device(self.model.device, X)
        with using_threads(trees.n_threads), device.active():
            rows = trees.read(X, device, "X")
            if interactions:
                values = interaction_values(trees.forest, rows, device)
            elif self.feature_perturbation == PATH_DEPENDENT:
                values = shapley_values(trees.forest, rows, device)
            else:
                values = values_against(trees.forest, rows, self._rows_against(device), device)
            if trees.scale != 1.0:
                values = values * trees.scale
            return to_input_library(finish(values, device), X)

    def __call__(self, X: Any) -> Any:
        """Return the Shapley values with what belongs to them.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)

        Returns
        -------
        shap.Explanation if shap is installed, else gpuens.explanation.explainer.Explanation
            With ``values``, ``base_values``, ``data`` and ``feature_names``, NumPy arrays.
        """
        values = to_numpy(self.shap_values(X))
        base = np.tile(self.expected_value, (len(values), *[1] * (values.ndim - 2)))
        data = X.to_numpy() if hasattr(X, "to_numpy") else to_numpy(X)
        kind: Any = Explanation
        if find_spec("shap") is not None:
            kind = import_module("shap").Explanation
        return kind(values, base_values=base, data=data, feature_names=self.feature_names)

    def to_shap(self) -> dict[str, Any]:
        """Return the trees as ``shap.TreeExplainer`` reads them.

        Returns
        -------
        dict
            For ``shap.TreeExplainer(explainer.to_shap(), feature_perturbation=...)``.

        Raises
        ------
        ValueError
            The trees have splits by sets of categories, which the dict cannot describe.
        """
        return shap_trees(self._trees)


def without_single_output(values: Array, device: Device) -> Array:
    """Leave out the last axis if there is one output."""
    return values[..., 0] if values.shape[-1] == 1 else values


def _perturbation(wanted: Any, data: Any) -> str:
    """Read ``feature_perturbation``."""
    if not (isinstance(wanted, str) and wanted in (AUTO, PATH_DEPENDENT, INTERVENTIONAL)):
        raise ValueError(
            f"feature_perturbation must be '{AUTO}', '{INTERVENTIONAL}' or '{PATH_DEPENDENT}', got "
            f"{wanted!r}."
        )
    if wanted == INTERVENTIONAL and data is None:
        raise ValueError(
            f"feature_perturbation='{INTERVENTIONAL}' takes values from background rows: pass "
            f"data, or '{PATH_DEPENDENT}', which follows the shares of the training rows."
        )
    if wanted == PATH_DEPENDENT and data is not None:
        raise ValueError(
            f"feature_perturbation='{PATH_DEPENDENT}' follows the shares of the training rows and "
            f"does not look at data: pass data=None, or '{INTERVENTIONAL}'."
        )
    return wanted if wanted != AUTO else (PATH_DEPENDENT if data is None else INTERVENTIONAL)


def _sum_of_trees(model: Any) -> SumOfTrees:
    """Return the trees of a fitted model. Raises a TypeError if it is not of this package or does
    not add up the values of its trees, and a ValueError if these are more than splits of single
    features and constants."""
    instead = "use gpuens.inspection.permutation_importance, or "
    try:
        trees = described(model)
    except NotASumOfTreesError as error:
        raise NotASumOfTreesError(
            f"model is a {type(model).__name__} whose prediction is not a sum of the values of "
            f"trees: {error}. Use gpuens.inspection.permutation_importance, or shap."
        ) from error
    if trees is None:
        kind = model.__name__ if isinstance(model, type) else type(model).__name__
        raise TypeError(
            f"model must be a fitted gradient boosting, random forest, extra trees, decision tree "
            f"or isolation forest model of gpuens, a bag of its trees, or a model imported with "
            f"gpuens.from_xgboost and the like, got {kind}. Predictions of other models are not "
            "sums of the values of trees: use gpuens.inspection.permutation_importance, or shap."
        )
    require_plain_trees(trees.forest, "An explanation by Shapley values", instead)
    return trees


def explained(model: Any, X: Any, contribs: Any, interactions: Any) -> Any:
    """Return contributions, or interactions, with the expected value behind the features, so that
    the sum of all is the raw prediction: (n_rows, n_features + 1) or (n_rows, n_features + 1,
    n_features + 1), of several outputs (n_rows, n_outputs, ...). Raises a ValueError if both are
    wanted."""
    for name, value in (("pred_contribs", contribs), ("pred_interactions", interactions)):
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, got {value!r}.")
    if contribs and interactions:
        raise ValueError(
            "pred_contribs and pred_interactions are both set: a prediction is one or the other."
        )
    explainer = TreeExplainer(model)
    expected = np.atleast_1d(explainer.expected_value)

    def with_expected(values: Array, device: Device) -> Array:
        shape = (values.shape[0], values.shape[-1], *(n + 1 for n in values.shape[1:-1]))
        result = device.xp.zeros(shape)
        features = (slice(-1),) * (values.ndim - 2)
        result[(slice(None), slice(None), *features)] = values.transpose(
            0, values.ndim - 1, *range(1, values.ndim - 1)
        )
        result[(slice(None), slice(None), *(-1,) * len(features))] = device.asarray(expected)
        return result[:, 0] if expected.size == 1 else result

    return explainer._explained(X, interactions, with_expected)


def shap_trees(model: SumOfTrees) -> dict[str, Any]:
    """Return a dict of trees for ``shap.TreeExplainer``, in new arrays. Raises a ValueError if the
    trees have splits by sets of categories."""
    forest = model.forest
    if (forest.category_begin >= 0).any():
        raise ValueError(
            "The model has splits by sets of categories, which the dict of trees of shap cannot "
            "describe: use gpuens.TreeExplainer, or encode the categories as numbers."
        )
    trees = [_tree(model, t) for t in range(forest.n_trees)]
    base = model.base if forest.n_outputs > 1 else float(model.base[0])
    return {"trees": trees, "base_offset": base, "tree_output": "raw_value"}


def _tree(model: SumOfTrees, t: int) -> dict[str, np.ndarray]:
    forest = model.forest
    nodes = slice(int(forest.offset[t]), int(forest.offset[t + 1]))
    left, right, feature = forest.left[nodes], forest.right[nodes], forest.feature[nodes]
    values = np.zeros((feature.size, forest.n_outputs))
    first = int(forest.output[t])
    values[:, first : first + forest.width] = model.scale * forest.value[nodes]
    weight = np.where(feature < 0, forest.cover[nodes], 0.0)
    for node in np.flatnonzero(feature >= 0)[::-1]:  # children come after their parents
        weight[node] = weight[left[node]] + weight[right[node]]
    missing = np.where(forest.missing_left[nodes] != 0, left, right)
    return {
        "children_left": left.copy(),
        "children_right": right.copy(),
        "children_default": missing.astype(np.int32),
        "features": feature.copy(),
        "thresholds": forest.threshold[nodes].copy(),
        "values": values,
        "node_sample_weight": weight,
    }
