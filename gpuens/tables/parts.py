"""The parts of a binned table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..inputs.categories import Categories
from ..inputs.few_values import FewValues
from ..kernels.runtime.dtypes import ROW_ALIGNMENT


@dataclass(frozen=True)
class Features:
    """The features of a table: their number, names and categories, as estimators keep them."""

    n: int
    names: np.ndarray | None
    is_categorical: np.ndarray | None
    categories: Categories | None

    def describe(self, estimator: Any) -> None:
        """Set the attributes that ``read_features`` sets."""
        estimator.n_features_in_ = self.n
        if self.names is not None:
            estimator.feature_names_in_ = self.names
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        estimator.is_categorical_ = self.is_categorical
        estimator._categories = self.categories

    @property
    def n_categories(self) -> np.ndarray:
        """Categories of each feature, 0 for a numeric one."""
        if self.categories is None:
            return np.zeros(self.n, np.int32)
        return self.categories.n_categories


@dataclass(frozen=True)
class Binning:
    """The settings that a table was binned with; ``n_groups`` is the ``cat_hash_groups`` of
    boosting."""

    max_bins: int
    seed: int
    n_groups: int = 1


class Content(NamedTuple):
    """The target and the weights of the rows, and the file that holds their codes; or None."""

    y: np.ndarray | FewValues | None
    weight: np.ndarray | None
    path: Path | None


def stride_of(n_features: int) -> int:
    """Return the bytes of a row of ``Codes.rows``."""
    return -(-n_features // ROW_ALIGNMENT) * ROW_ALIGNMENT
