"""Estimators that predict with the trees of another library."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils.validation import check_is_fitted

from ..devices.placement import Device
from ..estimators.base import ForestEstimator
from ..estimators.docstrings import documented
from ..estimators.scores import ScoresClasses, ScoresValues
from ..explanation.explainer import explained
from ..forest.forest import Forest
from ..forest.sum_of_trees import SumOfTrees
from ..inputs.arrays import to_input_library
from ..kernels.runtime.arrays import Array
from ..members.classes import labels_of
from .matching import KnownCategories, read_rows
from .reading.files import ImportedModelError
from .rules import Finish, Reading

IMPORTED = """Parameters
    ----------
    n_jobs : int or None, default=None
        Threads on the CPU; None uses all that the process may use.
    device : {"auto", "cpu", "cuda", "array"}, default="auto"
        Where to predict. "auto" follows the arrays; host arrays go to a usable GPU, else stay.
        "array" works in the array library of X by functions of the Array API standard alone: the
        same model, many times slower.

    Attributes
    ----------
    <classes>forest_ : Forest
        The trees.
    source_ : dict
        Library, version and objective of the source.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where the source has names."""
"""The parameters and attributes of the two estimators."""
OF_CLASSES = """classes_ : ndarray, shape (n_classes,), or list of ndarray
        0, 1, ... where the source does not name them; 0 and 1 of each output of models of several
        labels.
    """


@dataclass(frozen=True)
class Parts:
    """A model that was read. ``classes`` is None for a regression, a list of labels 0 and 1 of
    several binary outputs (``labels_of_each``); ``names`` is None where the source has none of its
    own; ``source`` is data about the model for users."""

    forest: Forest
    reading: Reading
    finish: Finish
    source: Mapping[str, Any]
    names: list[str] | None = None
    classes: np.ndarray | list[np.ndarray] | None = None
    known: KnownCategories | None = None


class ImportedModel(ForestEstimator):
    """The common part of the two estimators: they are fitted from the start, and never again.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}, default="auto"
    n_jobs : int or None, default=None
    """

    _reading: Reading
    _finish: Finish
    _known: KnownCategories | None

    def __init__(self, *, device: str = "auto", n_jobs: int | None = None) -> None:
        self.device, self.n_jobs = device, n_jobs

    @classmethod
    def _of(cls, parts: Parts) -> Self:
        """Return the estimator of a model that was read."""
        model = cls()
        model.forest_ = parts.forest
        model.n_features_in_ = parts.forest.n_features
        model._reading, model._finish, model._known = parts.reading, parts.finish, parts.known
        model.source_ = dict(parts.source)
        if parts.names is not None:
            model.feature_names_in_ = np.array(parts.names, object)
        return model

    def fit(self, X: Any = None, y: Any = None, **params: Any) -> Self:
        """Do nothing: the model is trained. Pipelines that are fitted call this.

        Parameters
        ----------
        X, y : array, default=None
            Not read.
        **params : dict
            Not read.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        return self

    def __sklearn_clone__(self) -> Self:
        return copy.copy(self)

    def _rows(self, X: Any, device: Device) -> Array:
        table = read_rows(X, device, self, self._known)
        return self._reading.prepare(table, self.forest_, device.xp)

    def _sum_of_trees(self) -> SumOfTrees:
        """Describe raw scores as the source explains them: of scikit-learn's forests the mean over
        the trees, of LightGBM's the sum."""
        trees, finish = super()._sum_of_trees(), self._finish
        averages = finish.averages == "scores" or (
            finish.averages == "predictions" and self.source_["library"] == "scikit-learn"
        )
        n = max(1, finish.n_rounds) if averages else 1
        base = trees.base if finish.base_last else trees.base / n
        return replace(trees, base=base, scale=(finish.scale if finish.base_last else 1.0) / n)

    def _rows_of(self, X: Any, device: Device, name: str) -> Array:
        return self._rows(X, device)

    def _chosen(self, iteration_range: tuple[int, int] | None) -> slice:
        n = self._finish.n_rounds
        if iteration_range is None:
            return slice(0, n)
        return rounds_of(iteration_range, n)

    def _scores(self, X: Any, iteration_range: Any, finish: Any) -> Any:
        """``finish(raw, device, n_chosen)`` of the raw scores, in the array library of X."""
        check_is_fitted(self)
        chosen = self._chosen(iteration_range)
        device = self._device_to_predict(X)
        with self._working_on(device):
            table = self._rows(X, device)
            raw = self._finish.scores(self.forest_, table, device, chosen)
            return to_input_library(finish(raw, device, chosen.stop - chosen.start), X)

    def _margin(self, X: Any, iteration_range: Any) -> Any:
        return self._scores(X, iteration_range, lambda raw, *_: _by_rows(raw))

    def predict(
        self,
        X: Any,
        output_margin: bool = False,
        iteration_range: tuple[int, int] | None = None,
        *,
        pred_contribs: bool = False,
        pred_interactions: bool = False,
    ) -> Any:
        """Predict classes, or the target.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
            The columns that the model was trained on. Categories are matched by their values
            where the source has them, otherwise they are codes.
        output_margin : bool, default=False
            Return raw scores.
        iteration_range : (int, int), default=None
            Rounds to predict with, from the first one to the second, exclusive; 0 in the second
            place is all.
        pred_contribs, pred_interactions : bool, default=False
            Return Shapley values of all rounds, or of pairs of features, instead (see
            ``gpuens.TreeExplainer``): float64 of shape (n_rows, n_features + 1) or
            (n_rows, n_features + 1, n_features + 1), of several raw outputs
            (n_rows, n_outputs, ...). The last entry is the expected value; the sum is the raw
            score.

        Returns
        -------
        array of labels or of float32 or float64, shape (n_rows,), of several labels or targets
        (n_rows, n_outputs); raw scores have shape (n_rows,) or (n_rows, n_classes)

        Raises
        ------
        ImportedModelError
            X has other features than the model.
        """
        if pred_contribs or pred_interactions:
            return explained(self, X, pred_contribs, pred_interactions)
        if output_margin:
            return self._margin(X, iteration_range)
        return self._scores(X, iteration_range, self._predictions)

    def _predictions(self, raw: Array, device: Device, n_chosen: int) -> Any:
        """Return the predictions of rows by their raw scores."""
        return self._finish.predictions(raw, device, n_chosen)


@documented(IMPORTED, classes=OF_CLASSES)
class ImportedClassifier(ScoresClasses, ClassifierMixin, ImportedModel):
    """A classifier that was trained by another library, and predicts here.

    ``from_xgboost``, ``from_lightgbm``, ``from_catboost``, ``from_sklearn`` and ``from_treelite``
    return it. Its raw scores are those of the source bit for bit, on the CPU and on a GPU.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from gpuens import from_sklearn
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> model = from_sklearn(forest)
    >>> bool((model.predict_proba(X) == forest.predict_proba(X)).all())
    True
    """

    classes_: np.ndarray | list[np.ndarray]

    @classmethod
    def _of(cls, parts: Parts) -> Self:
        model = super()._of(parts)
        assert parts.classes is not None
        model.classes_ = parts.classes
        return model

    def decision_function(self, X: Any) -> Any:
        """Return raw scores, as ``predict(X, output_margin=True)``.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            Features of the model that was imported.
        """
        return self._margin(X, None)

    def predict_proba(self, X: Any, iteration_range: tuple[int, int] | None = None) -> Any:
        """Predict the probabilities of the classes.

        Parameters
        ----------
        X : array or data frame, shape (n_rows, n_features)
            Features of the model that was imported.
        iteration_range : (int, int), default=None
            As in ``predict``.

        Returns
        -------
        float64, shape (n_rows, n_classes)
            Of one-versus-all models each class by itself, as their libraries return them; of models
            of several labels the probability of each, shape (n_rows, n_outputs).
        """
        return self._scores(X, iteration_range, self._probabilities)

    def _probabilities(self, raw: Array, device: Device, n_chosen: int) -> Array:
        shares = self._finish.predictions(raw, device, n_chosen)
        if shares.ndim == 1 and len(self.classes_) == 1:
            return shares[:, None]
        if shares.ndim == 1:
            return device.xp.stack([1.0 - shares, shares], axis=1)
        return shares

    def _predictions(self, raw: Array, device: Device, n_chosen: int) -> Any:
        above = raw > self._finish.half
        if self.source_.get("estimator") == "GradientBoostingClassifier":
            above = raw >= 0  # the second class is its choice between equals
        above = above.astype(np.int64)
        if isinstance(self.classes_, list):
            return above.T.copy()
        if raw.shape[0] == len(self.classes_):
            return labels_of(raw.argmax(axis=0), self.classes_, device)
        return labels_of(above[0], self.classes_, device)


@documented(IMPORTED, classes="")
class ImportedRegressor(ScoresValues, RegressorMixin, ImportedModel):
    """A regression model that was trained by another library, and predicts here.

    ``from_xgboost``, ``from_lightgbm``, ``from_catboost``, ``from_sklearn`` and ``from_treelite``
    return it. Its raw scores are those of the source bit for bit, on the CPU and on a GPU. Models
    that rank are regressors too.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from gpuens import from_sklearn
    >>> X, y = load_diabetes(return_X_y=True)
    >>> tree = DecisionTreeRegressor(max_depth=5).fit(X, y)
    >>> bool((from_sklearn(tree).predict(X) == tree.predict(X)).all())
    True
    """


def rounds_of(iteration_range: Any, n_rounds: int) -> slice:
    """Read a range of rounds, whose end 0 means all. Raises a ValueError if it is not a pair of
    whole numbers within the rounds."""
    try:
        first, last = (int(k) for k in iteration_range)
    except (TypeError, ValueError):
        raise ValueError(
            f"iteration_range must be a pair of whole numbers, got {iteration_range!r}."
        ) from None
    last = last or n_rounds
    if not 0 <= first <= last <= n_rounds:
        raise ValueError(
            f"iteration_range must be within 0 and the {n_rounds} rounds of the model, first <= "
            f"last, got {iteration_range!r}."
        )
    return slice(first, last)


def labels_of_each(n_outputs: int) -> list[np.ndarray]:
    """Return the classes of models that predict several labels, 0 or 1, at once."""
    return [np.arange(2) for _ in range(n_outputs)]


def kind_of(model: Any) -> str | None:
    """Return "classifier" or "other" of estimators in the manner of scikit-learn, None of others:
    the objective alone does not say whether a model predicts classes or their probabilities."""
    if not isinstance(model, BaseEstimator):
        return None
    return "classifier" if is_classifier(model) else "other"


def refuse_classifier(library: str, objective: str, instead: str) -> ImportedModelError:
    """Return the error of a classifier whose objective is not one of classes."""
    return ImportedModelError(
        f"objective is {objective!r}, and the model is a classifier of {library}, which predicts "
        f"classes by comparing what the objective predicts with one half. Import {instead} for "
        "these predictions."
    )


def imported(parts: Parts) -> ImportedClassifier | ImportedRegressor:
    """Return the estimator for a model that was read."""
    if parts.forest.n_features < 1:
        raise ImportedModelError("The model has no features.")
    return (ImportedRegressor if parts.classes is None else ImportedClassifier)._of(parts)


def _by_rows(raw: Array) -> Array:
    return raw[0].copy() if raw.shape[0] == 1 else raw.T.copy()
