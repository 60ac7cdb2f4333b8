"""Trees on tables that were binned before."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..devices.placement import Device
from ..inputs.binning import SAMPLE_SIZE
from ..inputs.category_bins import CategoryBinner
from ..kernels.cart.problem import CartTable
from ..kernels.runtime.dtypes import MAX_BINS, MISSING
from ..tables.binned_table import BinnedTable
from ..tables.extremes import Extremes
from .table import joined_ends


def beside_bins(
    table: BinnedTable, y: Any, sample_weight: Any, needs_values: bool
) -> tuple[Any, Any]:
    """Return the target of a fit, y or that of the table, and the weights, those of the table.

    Raises
    ------
    NotImplementedError
        Trees are applied to rows outside their samples, whose values can be on either side of a
        threshold that lies in their bin.
    TypeError
        Weights were passed, which the cut points do not follow.
    """
    if needs_values:
        raise NotImplementedError(
            "X is a BinnedTable, which has no values to apply the trees to while they grow: set "
            "oob_score=False and honest=False, or pass the rows as an array or a data frame."
        )
    return table.beside(y, sample_weight)


def cart_table_of_bins(
    table: BinnedTable, max_bins: int | None, monotone: np.ndarray, device: Device
) -> CartTable:
    """Return the codes that ``cart_table`` gives the rows of a binned table.

    Parameters
    ----------
    max_bins : int or None
        The parameter of the estimator.
    monotone : int8, shape (n_features,)

    Raises
    ------
    ValueError
        The bins of the table are not those that trees would get of its values.
    """
    if max_bins is None:
        raise ValueError(
            "max_bins must be a number where X is a BinnedTable, which has no exact thresholds, "
            f"got None (or more than {MAX_BINS} classes): set max_bins={table.max_bins}."
        )
    binner, extremes = table.binner_for(max_bins, None), table.extremes
    if extremes is None:
        raise ValueError(
            "X is a BinnedTable that does not know the smallest and largest values of its bins, "
            "because an older version made it or it has some of the rows of another one: make it "
            "with BinnedTable.from_batches."
        )
    n_rows, n_features = table.shape
    n_used = n_rows if table.sample_weight is None else np.count_nonzero(table.sample_weight)
    categories = binner.bins if isinstance(binner, CategoryBinner) else (None,) * n_features
    codes = np.empty((n_features, n_rows), np.uint8)
    ends: list[tuple[np.ndarray, np.ndarray]] = []
    for f, of_categories in enumerate(categories):
        if of_categories is not None:
            place = _places_of_categories(table, f, of_categories)
            low = high = np.zeros(of_categories.size)
        else:
            place, low, high = _places_of_numbers(extremes, f)
            if n_used > SAMPLE_SIZE and low.size < extremes.n_distinct[f] <= max_bins:
                _refuse(table, f, "values that the sample for the cut points did not have")
        codes[f] = place[table.codes_of_feature(f)]
        ends.append((low, high))
    n_bins = np.array([low.size for low, _ in ends], np.int32)
    return CartTable(
        codes=device.asarray(codes),
        n_bins=n_bins,
        begin=np.concatenate([[0], np.cumsum(n_bins, dtype=np.int64)]),
        lower=joined_ends([low for low, _ in ends]),
        upper=joined_ends([high for _, high in ends]),
        categorical=np.array([bins is not None for bins in categories], np.uint8),
        monotone=monotone,
    )


def _places_of_numbers(extremes: Extremes, f: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the places of a feature's bins among those that have rows, and the lowest and highest
    values of these."""
    filled = extremes.lowest[f] <= extremes.highest[f]
    low, high = extremes.lowest[f][filled], extremes.highest[f][filled]
    place = np.full(MISSING + 1, low.size, np.uint8)
    place[:MAX_BINS][filled] = np.arange(low.size)
    return place, low, high


def _places_of_categories(table: BinnedTable, f: int, bins: np.ndarray) -> np.ndarray:
    """Return the category of each bin of a feature."""
    n = bins.size
    if np.unique(bins).size < n:
        _refuse(table, f, f"{n} categories, more than it has bins")
    place = np.full(MISSING + 1, n, np.uint8)
    place[bins] = np.arange(n)
    return place


def _refuse(table: BinnedTable, feature: int, has: str) -> None:
    names = table.feature_names_in_
    name = f"feature {feature}" if names is None else f"column {names[feature]!r}"
    raise ValueError(
        f"The {name} of the BinnedTable has {has}: trees would get other bins of its values. Leave "
        "it out, merge rare values, or pass the rows as an array or a data frame."
    )
