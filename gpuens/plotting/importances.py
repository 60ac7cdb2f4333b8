"""Bar plots of importances: ``FeatureImportancesDisplay``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..devices.placement import to_numpy
from ..estimators.docstrings import documented
from ..estimators.parameters import COUNT
from ..forest.forest import Forest
from ..forest.structure import tree_importances
from ..inspection.importances import KINDS, feature_importances
from ..trees.cart import CartEstimator
from .axes import (
    COLORS,
    DRAWN_ON,
    axes_for,
    choice,
    finite,
    name_lines,
    names_for,
    require_fitted,
    tidy,
)

LABELS = {
    "impurity": "mean decrease in impurity (share)",
    "share": "gain of the splits (share)",
    "gain": "gain of the splits (largest = 100)",
    "cover": "cover of the splits (largest = 100)",
    "frequency": "number of splits (largest = 100)",
}


class FeatureImportancesDisplay:
    """Importances of features as bars, with their spread.

    Parameters
    ----------
    importances : float64, shape (n_features,) or (n_features, n_repeats)
        Of several repeats (or trees) the mean is drawn, and one standard deviation to each side.
    feature_names : list of str, default=None
        None: "x[0]", "x[1]", ...
    label : str, default="importance"
        What the importances are.

    Attributes
    ----------
    importances_mean : float64, shape (n_features,)
    importances_std : float64, shape (n_features,), or None
        None where there is one value for each feature.
    ax_, figure_ : matplotlib axes and figure
    bars_ : matplotlib container
        The most important feature first.
    order_ : int64, shape (n_bars,)
        The features of the bars.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuens import RandomForestClassifier
    >>> from gpuens.plotting import FeatureImportancesDisplay
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> forest = RandomForestClassifier(n_estimators=20, device="cpu").fit(X, y)
    >>> display = FeatureImportancesDisplay.from_estimator(forest)
    >>> display.importances.shape, display.feature_names[display.order_[0]].startswith("petal")
    ((4, 20), True)
    """

    def __init__(
        self, importances: Any, *, feature_names: Any = None, label: str = "importance"
    ) -> None:
        importances = finite(importances, "importances")
        if importances.ndim not in (1, 2) or importances.size == 0:
            raise ValueError(
                "importances must have the shape (n_features,) or (n_features, n_repeats), got "
                f"{importances.shape}."
            )
        self.importances = importances
        self.feature_names = names_for(feature_names, None, importances.shape[0])
        self.label = label

    @property
    def importances_mean(self) -> np.ndarray:
        return self.importances if self.importances.ndim == 1 else self.importances.mean(axis=1)

    @property
    def importances_std(self) -> np.ndarray | None:
        return None if self.importances.ndim == 1 else self.importances.std(axis=1)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, kind: str = "auto", feature_names: Any = None,
        max_features: int = 20, ax: Any = None, **kwargs: Any,
    ) -> FeatureImportancesDisplay:  # fmt: skip
        """Create the display of the importances of a fitted model.

        Parameters
        ----------
        kind : {"auto", "gain", "cover", "frequency"}, default="auto"
            "auto": decreases of the impurity, with their spread over the trees where these are
            grown independently of each other (forests, bags); ``feature_importances_`` or
            ``coef_`` of other models; the shares in the gains of boosting. The others: as for
            ``gpuens.inspection.feature_importances``, without a spread.
        feature_names : list of str, default=None
            None: the columns of the data frame that was fitted.
        max_features, ax, **kwargs
            As for ``plot``.

        Returns
        -------
        FeatureImportancesDisplay

        Raises
        ------
        AttributeError, TypeError, ValueError
            The model has no importances, or a bad parameter.
        """
        require_fitted(estimator)
        if choice(kind, "kind", ("auto", *KINDS)) == "auto":
            importances, label = importances_of(estimator)
        else:
            importances, label = feature_importances(estimator, kind), LABELS[kind]
        names = names_for(feature_names, estimator, importances.shape[0])
        display = cls(importances, feature_names=names, label=label)
        return display.plot(ax=ax, max_features=max_features, **kwargs)

    @classmethod
    def from_importances(
        cls, result: Any, *, feature_names: Any = None, label: str = "decrease of the score",
        max_features: int = 20, ax: Any = None, **kwargs: Any,
    ) -> FeatureImportancesDisplay:  # fmt: skip
        """Create the display of a result of ``permutation_importance``, ``drop_column_importance``
        or a forest's ``oob_permutation_importance``, or of an array.

        Parameters
        ----------
        result : Bunch with ``importances``, or array
            Of shape (n_features,) or (n_features, n_repeats).
        feature_names : list of str, default=None
            None: "x[0]", "x[1]", ...
        label : str, default="decrease of the score"
            What the importances are.
        max_features, ax, **kwargs
            As for ``plot``.

        Returns
        -------
        FeatureImportancesDisplay
        """
        if isinstance(result, dict) and "importances" not in result:
            raise ValueError(
                f"result must have importances, got a dict of {list(result)}: pass the result of "
                "one of the metrics."
            )
        values = result["importances"] if isinstance(result, dict) else result
        display = cls(to_numpy(values), feature_names=feature_names, label=label)
        return display.plot(ax=ax, max_features=max_features, **kwargs)

    @documented(DRAWN_ON, artist="bars", by="barh", display="FeatureImportancesDisplay")
    def plot(
        self, ax: Any = None, *, max_features: int = 20, **kwargs: Any
    ) -> FeatureImportancesDisplay:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            None: new ones.
        max_features : int, default=20
            The most important ones are drawn.
        <shared>
        """
        COUNT.check("max_features", max_features)
        self.ax_ = ax = axes_for(ax)
        self.figure_ = ax.figure
        mean, std = self.importances_mean, self.importances_std
        self.order_ = order = np.argsort(-mean, kind="stable")[:max_features]
        style = {
            "color": COLORS[0],
            "height": 0.7,
            "error_kw": {"elinewidth": 1, "capsize": 2, "ecolor": "#333333"},
        }
        spread = None if std is None else std[order]
        at = np.arange(order.size)
        self.bars_ = ax.barh(at, mean[order], xerr=spread, **style | kwargs)
        name_lines(ax, [self.feature_names[f] for f in order])
        ax.invert_yaxis()
        tidy(ax, self.label, "", grid="x")
        ax.tick_params(axis="y", length=0)
        if mean[order].min() < 0:
            ax.axvline(0, color="black", linewidth=0.8)
        elif spread is not None:
            ax.set_xlim(left=0)  # the spread does not imply negative importances
        return self


def importances_of(estimator: Any) -> tuple[np.ndarray, str]:
    """Return importances, with one column for each tree where trees are independent, and their
    name."""
    forest = getattr(estimator, "forest_", None)
    if isinstance(estimator, CartEstimator) and isinstance(forest, Forest):
        by_tree = tree_importances(forest)
        if forest.n_trees == 1:
            return by_tree[0], LABELS["impurity"]
        splits = by_tree.sum(axis=1) > 0  # the others do not count in feature_importances_ either
        return (by_tree[splits] if splits.any() else by_tree).T, LABELS["impurity"]
    # Members that are drawn alike have a spread that means something.
    if hasattr(estimator, "estimators_samples_") and isinstance(estimator.estimators_, list):
        by_member = _of_members(estimator)
        if by_member is not None:
            return by_member, LABELS["impurity"]
    if isinstance(forest, Forest) and forest.impurity.size == 0:
        gain = feature_importances(estimator, normalize=False)
        return gain / (gain.sum() or 1.0), LABELS["share"]
    if hasattr(estimator, "feature_importances_"):
        return to_numpy(estimator.feature_importances_), LABELS["impurity"]
    if hasattr(estimator, "coef_"):
        absolute = np.abs(to_numpy(estimator.coef_))
        return absolute if absolute.ndim == 1 else absolute.mean(axis=0), "absolute coefficient"
    raise AttributeError(
        f"{type(estimator).__name__} has no feature_importances_, coef_ or trees of this package: "
        "pass the result of gpuens.inspection.permutation_importance, which works with any model, "
        "to from_importances."
    )


def _of_members(estimator: Any) -> np.ndarray | None:
    """Return importances by member, (n_features, n_members); 0 for features that a member has not
    seen."""
    members = estimator.estimators_
    if not all(hasattr(member, "feature_importances_") for member in members):
        return None
    found = np.zeros((estimator.n_features_in_, len(members)))
    every = np.arange(estimator.n_features_in_)
    features = getattr(estimator, "estimators_features_", [every] * len(members))
    for m, (member, seen) in enumerate(zip(members, features, strict=True)):
        found[to_numpy(seen), m] = to_numpy(member.feature_importances_)
    return found
