"""What voting and stacking share: models of different kinds, fitted on the same table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import MetaEstimatorMixin, TransformerMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted, validate_data

from ..devices.placement import Device, to_numpy
from ..inputs.arrays import require_shape
from ..members.fitting import input_tags
from ..members.homes import home_of
from ..members.rows import Rows, readable
from ..members.training_set import Metadata
from .named_estimators import NamedEstimators, is_dropped, pairs_of


class Combination(MetaEstimatorMixin, TransformerMixin, NamedEstimators):
    """An ensemble of named members of any kind."""

    estimators_: list[Any]
    device: str
    n_jobs: int | None
    verbose: bool | int
    random_state: Any
    _seed: int

    def _read_fit_table(self, X: Any, home: Device) -> Rows:
        """The table to learn from; sets what is known of the features."""
        X = readable(X)
        rows = Rows(X, home, self.device != "auto")
        _require_table(X, self)
        validate_data(self, X, reset=True, skip_check_array=True)
        return rows

    @contextmanager
    def _asking(self, X: Any) -> Iterator[Rows]:
        """The table to predict; its home is active inside."""
        check_is_fitted(self)
        X = readable(X)
        home = home_of(self.device, X)
        with home.active():
            self._check_more(X)
            yield Rows(X, home, self.device != "auto")

    def _check_more(self, X: Any) -> None:
        """Compare the features of another table with those of ``fit``."""
        _require_table(X, self)
        shape = tuple(getattr(X, "shape", (0, 0)))
        if len(shape) != 2 and hasattr(self, "n_features_in_"):
            require_shape(shape, self)
        validate_data(self, X, reset=False, skip_check_array=True)

    def _metadata(self, sample_weight: Any, others: dict[str, Any], **consumed: Any) -> Metadata:
        """What the ``fit`` of each member that is not dropped gets beside X and y.

        ``consumed`` is what ``fit`` itself takes for others than the members.

        Raises
        ------
        ValueError
            There are others than ``sample_weight``, and metadata routing is not enabled.
        sklearn.exceptions.UnsetMetadataPassedError
            It is enabled, and a member has not said whether it wants them.
        """
        routed = routing_enabled()
        if others and not routed:
            raise ValueError(
                f"{list(others)} are passed to {type(self).__name__}.fit, which is only supported "
                "if enable_metadata_routing=True. You can set it using "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        names = self._kept_names()
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}
        if not routed:
            return Metadata(set(names), {name: {} for name in names})
        used = {name: value for name, value in consumed.items() if value is not None}
        found = process_routing(self, "fit", **weight, **used, **others)
        given = {name: dict(found[name]["fit"]) for name in names}
        weighted = {
            name for name in names if weight and given[name].get("sample_weight") is sample_weight
        }
        for name in weighted:
            del given[name]["sample_weight"]
        return Metadata(weighted, given)

    def _kept_names(self) -> list[str]:
        """Names of the members that are not dropped; none if ``estimators`` is wrong."""
        return [name for name, entry in pairs_of(self.estimators) if not is_dropped(entry)]

    def _set_members(self, members: list[Any]) -> None:
        """Keep fitted members under the names that they have now."""
        self.estimators_, self.named_estimators_ = members, self._named(members)
        self._member_names = self._kept_names()

    def _fitted_members(self) -> list[tuple[str, Any]]:
        """The fitted members by name, whatever ``estimators`` says now."""
        return list(zip(self._member_names, self.estimators_, strict=True))

    def _message(self, name: str, number: int) -> str:
        """What is printed about the fit of a member."""
        if not self.verbose:
            return ""
        kind = type(self).__name__.removesuffix("Classifier").removesuffix("Regressor")
        return f"[{kind}] ({number + 1} of {len(self._kept_names())}) Processing {name}"

    def get_metadata_routing(self) -> MetadataRouter:
        """Metadata of ``fit`` goes to the ``fit`` of the members that request it."""
        router = MetadataRouter(owner=self)
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        for name, estimator in self.estimators:
            if not is_dropped(estimator):
                router.add(**{name: estimator}, method_mapping=to_fit)
        return router

    def _check_input_features(self, input_features: Any) -> None:
        """Compare names that the user gives with those of ``fit``."""
        check_is_fitted(self)
        if input_features is None:
            return
        names = np.asarray(input_features, dtype=object)
        known = getattr(self, "feature_names_in_", None)
        if known is not None and not np.array_equal(names, known):
            raise ValueError("input_features is not equal to feature_names_in_")
        n_features = getattr(self, "n_features_in_", len(names))
        if len(names) != n_features:
            raise ValueError(
                f"input_features should have length equal to number of features ({n_features}), "
                f"got {len(names)}"
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimators_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        pairs = pairs_of(self.estimators)
        inputs = [input_tags(entry) for _, entry in pairs if not is_dropped(entry)]
        tags.input_tags.sparse = bool(inputs) and all(found.sparse for found in inputs)
        tags.input_tags.allow_nan = bool(inputs) and all(found.allow_nan for found in inputs)
        return tags


def routing_enabled() -> bool:
    """Whether scikit-learn routes metadata."""
    return bool(get_config().get("enable_metadata_routing", False))


def _require_table(X: Any, estimator: Any) -> None:
    """Tables have columns; what is no array with two axes is the members' business."""
    shape = tuple(getattr(X, "shape", ()))
    if len(shape) == 2:
        require_shape(shape, estimator)


class ScoresClasses:
    """A classifier's score, for arrays of any library."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the rows that are classified correctly.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
        y : array, shape (n_rows,)
        sample_weight : array of shape (n_rows,), default=None

        Returns
        -------
        float
        """
        weight = None if sample_weight is None else to_numpy(sample_weight)
        prediction = to_numpy(self.predict(X))  # type: ignore[attr-defined]
        return float(accuracy_score(to_numpy(y), prediction, sample_weight=weight))


class ScoresValues:
    """A regressor's score, for arrays of any library."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions, with several outputs the mean of theirs.

        Parameters
        ----------
        X : array, sparse matrix or data frame, shape (n_rows, n_features)
        y : array, shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array of shape (n_rows,), default=None

        Returns
        -------
        float
        """
        weight = None if sample_weight is None else to_numpy(sample_weight)
        prediction = to_numpy(self.predict(X))  # type: ignore[attr-defined]
        return float(r2_score(to_numpy(y), prediction, sample_weight=weight))


def labels_of(codes: Any, classes: np.ndarray, home: Device) -> Any:
    """The labels of class numbers; at home where labels are numbers, else on the host."""
    if classes.dtype.kind in "biuf":
        return home.asarray(classes)[codes]
    return classes[to_numpy(codes)]


def check_jobs(n_jobs: Any) -> None:
    """Raise a ValueError unless ``n_jobs`` is None or an integer other than 0."""
    if n_jobs is None:
        return
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, (bool, np.bool_)) or n_jobs == 0:
        raise ValueError(f"n_jobs must be None or an integer other than 0, got {n_jobs!r}.")


def check_verbose(verbose: Any) -> None:
    """Raise a ValueError unless ``verbose`` is a bool or an integer >= 0."""
    if not isinstance(verbose, (Integral, np.bool_)) or int(verbose) < 0:
        raise ValueError(f"verbose must be a bool or an integer >= 0, got {verbose!r}.")
