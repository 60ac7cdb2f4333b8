"""Public tables from OpenML, through scikit-learn's loader and its cache."""

from __future__ import annotations

from http.client import HTTPException
from typing import Any

import numpy as np

from ..estimators.docstrings import documented

OF_FRAMES = """as_frame : bool, default=True
        True: X is a pandas data frame with columns of a categorical dtype. False: an array
        with the categories' numbers.
    data_home : str or path, default=None
        As in ``fetch_higgs``."""


def fetch_higgs(*, full: bool = False, data_home: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Fetch HIGGS: collisions that made a Higgs boson, or did not.

    Parameters
    ----------
    full : bool, default=False
        False: OpenML's data set 23512 ("higgs", version 2; 98,050 rows), True: data set 45570
        ("Higgs", all 11,000,000 rows; several GB while it is read).
    data_home : str or path, default=None
        Where scikit-learn keeps what it downloads (see ``sklearn.datasets.get_data_home``).

    Returns
    -------
    X : float32, shape (n_rows, 28)
        NaN is missing (one row of the smaller table).
    y : int64, shape (n_rows,)
        1: with a Higgs boson.

    Raises
    ------
    OSError
        It is not in the cache and cannot be downloaded; the message names the data set and the
        reason.
    ImportError
        pandas is not installed.

    References
    ----------
    Baldi, Sadowski and Whiteson, "Searching for exotic particles in high-energy physics with
    deep learning", Nature Communications 5, 2014.
    """
    frame, target = _fetch("fetch_higgs", 45570 if full else 23512, data_home)
    return _numbers(frame), _numbers(target.to_frame())[:, 0].astype(np.int64)


def fetch_covtype(*, data_home: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Fetch Covertype, OpenML's data set 1596 ("covertype"): the trees of a patch of forest.

    Parameters
    ----------
    data_home : str or path, default=None
        As in ``fetch_higgs``.

    Returns
    -------
    X : float32, shape (581012, 54)
        Ten numbers, then 4 areas and 40 soils as columns of zeros and ones.
    y : int64, shape (581012,)
        0 … 6, the original's 1 … 7.

    Raises
    ------
    OSError, ImportError
        As in ``fetch_higgs``.

    References
    ----------
    Blackard and Dean, "Comparative accuracies of artificial neural networks and discriminant
    analysis in predicting forest cover types", Computers and Electronics in Agriculture 24,
    1999.
    """
    frame, target = _fetch("fetch_covtype", 1596, data_home)
    return _numbers(frame), _numbers(target.to_frame())[:, 0].astype(np.int64) - 1


@documented(OF_FRAMES)
def fetch_airlines(*, as_frame: bool = True, data_home: Any = None) -> tuple[Any, np.ndarray]:
    """Fetch OpenML's data set 1169 ("airlines", version 1): will a flight be late?

    Parameters
    ----------
    <shared>

    Returns
    -------
    X : data frame or float32 array, shape (539383, 7)
        Airline, Flight, AirportFrom, AirportTo, DayOfWeek, Time, Length. In an array, category
        k of ``X[column].cat.categories`` is k, NaN is missing.
    y : int64, shape (539383,)
        1: late.

    Raises
    ------
    OSError, ImportError
        As in ``fetch_higgs``.
    """
    frame, target = _fetch("fetch_airlines", 1169, data_home)
    y = _numbers(target.to_frame())[:, 0].astype(np.int64)
    return (frame if as_frame else _codes(frame)), y


@documented(OF_FRAMES)
def fetch_adult(*, as_frame: bool = True, data_home: Any = None) -> tuple[Any, np.ndarray]:
    """Fetch OpenML's data set 1590 ("adult", version 2): who earns over $50,000?

    Parameters
    ----------
    <shared>

    Returns
    -------
    X : data frame or float32 array, shape (48842, 14)
        Six numbers and eight features with categories, some missing.
    y : int64, shape (48842,)
        1: more than 50,000 dollars a year.

    Raises
    ------
    OSError, ImportError
        As in ``fetch_higgs``.

    References
    ----------
    Kohavi, "Scaling up the accuracy of naive-Bayes classifiers: a decision-tree hybrid",
    Proceedings of the 2nd International Conference on Knowledge Discovery and Data Mining, 1996.
    """
    frame, target = _fetch("fetch_adult", 1590, data_home)
    y = np.array([str(value).strip().startswith(">") for value in target], np.int64)
    return (frame if as_frame else _codes(frame)), y


def _fetch(caller: str, data_id: int, data_home: Any) -> tuple[Any, Any]:
    """Return the features (data frame) and the target (series) of a data set."""
    from sklearn.datasets import fetch_openml

    try:
        found = fetch_openml(data_id=data_id, data_home=data_home, as_frame=True, parser="auto")
    except (OSError, ValueError, HTTPException) as error:  # no network, no such data, cut off
        raise OSError(
            f"{caller} could not get data set {data_id} of OpenML ({type(error).__name__}: "
            f"{error}). Connect to the network and call it again, or pass as data_home a folder "
            "to which scikit-learn has downloaded it."
        ) from error
    return found.data, found.target


def _numbers(frame: Any) -> np.ndarray:
    """Return columns of numbers, also where they are categories that are written as numbers."""
    import pandas as pd

    numbers = [pd.to_numeric(frame[name].astype(object)) for name in frame.columns]
    return np.stack([column.to_numpy(np.float32, na_value=np.nan) for column in numbers], axis=1)


def _codes(frame: Any) -> np.ndarray:
    """Return numbers unchanged and categories as their numbers, missing ones as NaN."""
    columns = []
    for name in frame.columns:
        column = frame[name]
        if hasattr(column, "cat"):
            column = column.cat.codes.astype(np.float32).replace(-1, np.nan)
        columns.append(column.to_numpy(np.float32, na_value=np.nan))
    return np.stack(columns, axis=1)
