"""The base of voting and stacking: named members of any kind, fitted on the same table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import (
    BaseEstimator,
    MetaEstimatorMixin,
    TransformerMixin,
    is_classifier,
    is_regressor,
)
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted, validate_data

from ..devices.placement import Device
from ..estimators.base import Savable, kept_on_failure
from ..estimators.parameters import seed_of
from ..inputs.arrays import require_shape
from ..inputs.targets import read_sample_weight
from ..kernels.runtime.arrays import Array
from ..members.classes import check_width
from ..members.fitting import input_tags
from ..members.rows import (
    Fit,
    MemberRows,
    Metadata,
    TrainingSet,
    home_of,
    readable,
    require_fitted,
    run_fits,
)

DROPPED = "drop"
"""Replaces an estimator that takes no part."""


def is_dropped(estimator: Any) -> bool:
    """Return whether an entry of ``estimators`` is dropped."""
    return isinstance(estimator, str) and estimator == DROPPED


def pairs_of(estimators: Any) -> list[tuple[str, Any]]:
    """Return the pairs of a list, or nothing if it is not a list of pairs."""
    is_list = isinstance(estimators, (list, tuple)) and all(
        isinstance(entry, (tuple, list)) and len(entry) == 2 and isinstance(entry[0], str)
        for entry in estimators
    )
    return list(estimators) if is_list else []


def check_estimators(owner: Combination, kind: str | None) -> None:
    """Check the parameter ``estimators``, all of one kind ("classifier", "regressor", None for
    either). Errors name the entry, its value and the allowed ones."""
    entries = owner.estimators
    if not pairs_of(entries):
        raise ValueError(
            "Invalid 'estimators' attribute, 'estimators' should be a non-empty list of (string, "
            f"estimator) tuples, got {entries!r}."
        )
    names = [name for name, _ in entries]
    if len(set(names)) < len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(
            f"Names provided are not unique: {repeated} in {names}. Give each estimator a name of "
            "its own."
        )
    taken = sorted(set(names) & set(owner.get_params(deep=False)))
    if taken:
        raise ValueError(
            f"Estimator names conflict with constructor arguments: {taken}. Choose other names."
        )
    if wrong := [name for name in names if "__" in name]:
        raise ValueError(
            f"Estimator names must not contain __: got {wrong}. It separates names from parameters."
        )
    if all(is_dropped(entry) for _, entry in entries):
        raise ValueError("All estimators are dropped. At least one is required to be an estimator.")
    for name, entry in entries:
        _check_estimator(name, entry, kind)


def _check_estimator(name: str, estimator: Any, kind: str | None) -> None:
    if is_dropped(estimator):
        return
    if isinstance(estimator, type) or not callable(getattr(estimator, "fit", None)):
        raise TypeError(
            f"estimators must hold objects with a method fit, or 'drop', got {estimator!r} for "
            f"{name!r}."
        )
    if kind is not None and not may_be(estimator, kind):
        raise ValueError(
            f"The estimator {type(estimator).__name__} should be a {kind}: {name!r} is not."
        )


def may_be(estimator: Any, kind: str) -> bool:
    """Return whether an estimator declares itself to be of a kind, or declares nothing."""
    if hasattr(estimator, "__sklearn_tags__"):
        is_kind = {"classifier": is_classifier, "regressor": is_regressor}[kind]
        return bool(is_kind(estimator))
    return getattr(estimator, "_estimator_type", kind) == kind


class Combination(MetaEstimatorMixin, TransformerMixin, Savable, BaseEstimator):
    """An ensemble of named members of any kind, the pairs (name, estimator) of ``estimators``.

    Parameters of the members are ``name__parameter``, the members themselves ``name``.
    """

    estimators: list[tuple[str, Any]]
    estimators_: list[Any]
    device: str
    n_jobs: int | None
    verbose: bool | int
    random_state: Any
    _seed: int

    @property
    def named_estimators(self) -> Bunch:
        """The unfitted estimators by name."""
        return Bunch(**dict(self.estimators))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with ``deep`` also the estimators by name and their parameters.

        Parameters
        ----------
        deep : bool, default=True
            Whether to return the parameters of members, too.
        """
        parameters = super().get_params(deep=deep)
        for name, estimator in pairs_of(self.estimators) if deep else []:
            parameters[name] = estimator
            if hasattr(estimator, "get_params") and not isinstance(estimator, type):
                nested = estimator.get_params(deep=True)
                parameters |= {f"{name}__{key}": value for key, value in nested.items()}
        return parameters

    def set_params(self, **params: Any) -> Any:
        """Set parameters, replace estimators by name (by "drop" for none), set theirs.

        Parameters
        ----------
        **params : dict
            By name; ``member`` for an estimator, ``member__name`` for its parameter.
        """
        if "estimators" in params:
            self.estimators = params.pop("estimators")
        names = [name for name, _ in pairs_of(self.estimators)]
        replaced = {name: params.pop(name) for name in names if name in params}
        if replaced:
            self.estimators = [
                (name, replaced.get(name, estimator)) for name, estimator in self.estimators
            ]
        return super().set_params(**params)

    def _kept(self) -> list[tuple[str, Any]]:
        """Return the pairs that are not dropped."""
        return [(name, entry) for name, entry in self.estimators if not is_dropped(entry)]

    def _named(self, fitted: list[Any]) -> Bunch:
        """Return the fitted estimators by name, and "drop" for the dropped ones."""
        left = iter(fitted)
        return Bunch(
            **{
                name: DROPPED if is_dropped(entry) else next(left)
                for name, entry in self.estimators
            }
        )

    def _train(self, X: Any, y: Any, sample_weight: Any, metadata: Metadata, more: Any) -> Any:
        """Read the training set, and call ``_fit`` with it and what else it takes."""
        home = home_of(self.device, X, y=y, sample_weight=sample_weight)
        with kept_on_failure(self), home.active():
            self._seed = seed_of(self.random_state)
            rows = self._read_fit_table(X, home)
            target = self._read_y(y, rows.n, home)
            weight = read_sample_weight(sample_weight, rows.n, home)
            self._fit(TrainingSet(rows, target, weight, metadata), more)
        return self

    @abstractmethod
    def _fit(self, data: TrainingSet, more: Any) -> None:
        """Fit the members and what combines them."""

    @abstractmethod
    def _read_y(self, y: Any, n_rows: int, home: Device) -> Array:
        """Read the target that members are fitted on, on ``home``."""

    def _prefitted(self) -> list[Any]:
        """Return the members that were fitted elsewhere, on as many features."""
        for name, estimator in self._kept():
            require_fitted(name, estimator)
            check_width(self, name, estimator)
        return [estimator for _, estimator in self._kept()]

    def _read_fit_table(self, X: Any, home: Device) -> MemberRows:
        """Read the table to learn from, and set the attributes that describe its features."""
        X = readable(X)
        rows = MemberRows(X, home, self.device != "auto")
        _require_table(X, self)
        validate_data(self, X, reset=True, skip_check_array=True)
        return rows

    @contextmanager
    def _asking(self, X: Any) -> Iterator[MemberRows]:
        """Read the table to predict; its device is active inside the block."""
        check_is_fitted(self)
        X = readable(X)
        home = home_of(self.device, X)
        with home.active():
            self._check_more(X)
            yield MemberRows(X, home, self.device != "auto")

    def _check_more(self, X: Any) -> None:
        """Compare the features of another table with those of ``fit``."""
        _require_table(X, self)
        shape = tuple(getattr(X, "shape", (0, 0)))
        if len(shape) != 2 and hasattr(self, "n_features_in_"):
            require_shape(shape, self)
        validate_data(self, X, reset=False, skip_check_array=True)

    def _metadata(self, sample_weight: Any, others: dict[str, Any], **consumed: Any) -> Metadata:
        """Collect the arguments of each kept member's ``fit`` other than X and y, ``consumed``
        being those that are not for members. Raises a ValueError for ``others`` where metadata
        routing is not enabled; where it is, scikit-learn reports members that have not set what
        they request."""
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
        """Return the names of members that are not dropped; none if ``estimators`` is invalid."""
        return [name for name, entry in pairs_of(self.estimators) if not is_dropped(entry)]

    def _set_members(self, members: list[Any]) -> None:
        """Store fitted members under their present names."""
        self.estimators_, self.named_estimators_ = members, self._named(members)
        self._member_names = self._kept_names()

    def _fitted_members(self) -> list[tuple[str, Any]]:
        """Return the fitted members by name, whatever ``estimators`` is now."""
        return list(zip(self._member_names, self.estimators_, strict=True))

    def _fits(self, data: TrainingSet) -> list[Fit]:
        """Return the fits of clones of all members to all rows."""
        pairs = enumerate(self._kept())
        return [
            (own, partial(data.fit_one, name, own, self._message(name, number)))
            for number, (name, own) in pairs
        ]

    def _fitted(self, data: TrainingSet) -> list[Any]:
        """Return clones of all members, fitted to all rows."""
        return run_fits(self._fits(data), data.rows, data.target, self.n_jobs)

    def _message(self, name: str, number: int) -> str:
        """Return the message to print about the fit of a member."""
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
    """Return whether scikit-learn routes metadata."""
    return bool(get_config().get("enable_metadata_routing", False))


def _require_table(X: Any, estimator: Any) -> None:
    """Check the shape of arrays with two axes; members validate other tables themselves."""
    shape = tuple(getattr(X, "shape", ()))
    if len(shape) == 2:
        require_shape(shape, estimator)
