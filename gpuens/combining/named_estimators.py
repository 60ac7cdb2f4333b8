"""The parameter ``estimators`` of voting and stacking: models by name."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.utils import Bunch

from ..estimators.savable import Savable

DROPPED = "drop"
"""Stands in the place of an estimator that takes no part."""


def is_dropped(estimator: Any) -> bool:
    """Whether an entry of ``estimators`` takes no part."""
    return isinstance(estimator, str) and estimator == DROPPED


class NamedEstimators(Savable, BaseEstimator):
    """An estimator whose parameter ``estimators`` is a list of pairs (name, estimator).

    Parameters of the estimators are ``name__parameter``, the estimators themselves ``name``.
    """

    estimators: list[tuple[str, Any]]

    @property
    def named_estimators(self) -> Bunch:
        """The unfitted estimators by name."""
        return Bunch(**dict(self.estimators))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, with ``deep`` also the estimators by name and their parameters."""
        parameters = super().get_params(deep=deep)
        for name, estimator in pairs_of(self.estimators) if deep else []:
            parameters[name] = estimator
            if hasattr(estimator, "get_params") and not isinstance(estimator, type):
                nested = estimator.get_params(deep=True)
                parameters |= {f"{name}__{key}": value for key, value in nested.items()}
        return parameters

    def set_params(self, **params: Any) -> Any:
        """Set parameters, replace estimators by name (by "drop" for none), set theirs."""
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
        """Names and estimators without those that are dropped."""
        return [(name, entry) for name, entry in self.estimators if not is_dropped(entry)]

    def _named(self, fitted: list[Any]) -> Bunch:
        """The fitted estimators by name, in the place of the others "drop"."""
        left = iter(fitted)
        return Bunch(
            **{
                name: DROPPED if is_dropped(entry) else next(left)
                for name, entry in self.estimators
            }
        )


def pairs_of(estimators: Any) -> list[tuple[str, Any]]:
    """The pairs of a list, none if it is no list of pairs."""
    if isinstance(estimators, (list, tuple)) and all(map(_is_pair, estimators)):
        return list(estimators)
    return []


def _is_pair(entry: Any) -> bool:
    return isinstance(entry, (tuple, list)) and len(entry) == 2 and isinstance(entry[0], str)


def check_estimators(owner: NamedEstimators, kind: str | None) -> None:
    """Check the parameter ``estimators``.

    Parameters
    ----------
    owner : NamedEstimators
    kind : "classifier", "regressor" or None
        What the estimators must be; None for either.

    Raises
    ------
    ValueError, TypeError
        Names the entry, what it is and what is wanted.
    """
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
            f"The estimator {type(estimator).__name__} should be a {kind}: {name!r} is none."
        )


def may_be(estimator: Any, kind: str) -> bool:
    """Whether an estimator says that it is of a kind, or does not say what it is."""
    if hasattr(estimator, "__sklearn_tags__"):
        is_kind = {"classifier": is_classifier, "regressor": is_regressor}[kind]
        return bool(is_kind(estimator))
    return getattr(estimator, "_estimator_type", kind) == kind
