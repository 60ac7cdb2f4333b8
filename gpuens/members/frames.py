"""Which members need the data frame itself.

Ensembles import this module once they get a frame, as scikit-learn's pipelines take long to import.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from ..inputs.frames import columns_of_categories

COLUMN_PARAMETERS = ("categorical_features", "monotonic_cst", "interaction_cst")
"""Parameters of estimators that refer to columns by their positions or names."""


def needs_frame(ensemble: Any, X: Any) -> bool:
    """Return whether members need a frame: they name its columns, or all read types that it has.
    Others get arrays, which they may index by positions, and in which text can be numbers."""
    several = isinstance(ensemble.estimator, (list, tuple))
    estimators = ensemble.estimator if several else [ensemble.estimator]
    kinds = [list(_readers(estimator)) for estimator in estimators]
    if any(isinstance(reader, ColumnTransformer) for kind in kinds for reader in kind):
        return True
    return any(map(_names_columns, estimators)) or (
        all(map(_reads_types, kinds)) and bool(columns_of_categories(X).any())
    )


def _names_columns(estimator: Any) -> bool:
    """Return whether an estimator or a part of it names columns: also a later step of a pipeline,
    since earlier ones may keep the names."""
    parameters = {} if estimator is None else estimator.get_params(deep=True)
    return any(
        (isinstance(value, ColumnTransformer) or name.rpartition("__")[2] in COLUMN_PARAMETERS)
        and _has_names(value)
        for name, value in parameters.items()
    )


def _reads_types(readers: list[Any]) -> bool:
    columns = [getattr(reader, "categorical_features", None) for reader in readers]
    by_type = any(isinstance(own, str) and own == "from_dtype" for own in columns)
    return by_type or not readers  # by default a member is a tree, which does


def _readers(part: Any) -> Iterator[Any]:
    """Yield an estimator and those among its parameters: what sees X as it is passed, of which the
    later steps of a pipeline are not."""
    if isinstance(part, Pipeline):
        part = next((step for _, step in part.steps if hasattr(step, "get_params")), None)
        yield from _readers(part)
    elif isinstance(part, (list, tuple)):
        for own in part:
            yield from _readers(own)
    elif hasattr(part, "get_params") and not isinstance(part, type):
        yield part
        yield from _readers(list(part.get_params(deep=False).values()))


def _has_names(columns: Any) -> bool:
    """Return whether columns, or groups of them, are given by their names."""
    if isinstance(columns, ColumnTransformer):
        columns = [own for *_, own in columns.transformers]
    if isinstance(columns, (list, tuple, set, frozenset, np.ndarray)):
        return any(isinstance(own, str) or _has_names(own) for own in columns)
    return isinstance(columns, Mapping)
