"""Class labels, which are read in one way wherever they come: each keeps its identity.

Readers are called inside ``device.active()``, like ``read_table``.
"""

from __future__ import annotations

import numbers
from itertools import chain
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..devices.array_functions import distinct_and_codes, occurrences
from ..devices.placement import Device, module_of, to_numpy
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import ONE_WORKER, Workers, objects_of_all
from .few_values import FewValues
from .frames import EXACT_IN_FLOAT64, is_missing
from .shared_tables import class_totals
from .targets import (
    array_of,
    columns_of,
    found_in,
    read_column,
    require_finite,
    require_present,
)

_WIDEST_LOOKUP = 2**16
"""Range of integer labels below which a table is cheaper than sorting, however few the rows."""
_INFINITE = frozenset((np.inf, -np.inf))
NO_LABEL = "Drop these rows: the label of each must be known."


class Labels(NamedTuple):
    """Class labels, ready for the operations.

    classes : ndarray, shape (n_classes,)
        The distinct labels, ascending, as the user wrote them.
    codes : int64 or uint8, shape (n_rows,)
        Their positions in ``classes``, on the device that they were read for.
    """

    classes: np.ndarray
    codes: Array


def read_labels(
    y: Any, n_rows: int, device: Device, *, estimator: Any, min_classes: int = 1, name: str = "y"
) -> Labels:
    """Read the target of a classification: integers of any size, booleans, strings, whole floats,
    or objects that can be hashed and ordered, such as bytes, decimals, fractions and dates.

    Numbers among objects get the classes that a NumPy array of them has, unless that would round
    one: then the classes are objects.

    Parameters
    ----------
    y : array or FewValues, shape (n_rows,)
        A single column is accepted with a DataConversionWarning.
    n_rows : int
        Of the table.
    device, estimator, name
        As for ``read_table``.
    min_classes : int
        Fewest classes that the estimator can learn.

    Raises
    ------
    ValueError
        y is None, continuous, of the wrong shape or length, has missing values, labels that
        cannot be ordered, or too few classes.
    """
    if isinstance(y, FewValues):
        y = y.present()
        classes, codes = y.values, y.numbers
    else:
        y = read_column(y, n_rows, device, estimator, name)
        if y.dtype.kind == "f":
            require_finite(y, name, NO_LABEL)
        classes, codes = _encode(y, name)
    require_classes(classes, min_classes, name)
    return Labels(classes, device.asarray(codes))


def require_classes(classes: np.ndarray, fewest: int, name: str) -> None:
    """Raise ValueError if there are too few classes."""
    if len(classes) < fewest:
        raise ValueError(
            f"{name} holds {len(classes)} class ({classes[0]} in every row), the number of "
            f"classes must be at least {fewest}."
        )


def class_numbers(
    y: Any, known: list[np.ndarray], n_rows: int, device: Device, *, estimator: Any, name: str
) -> np.ndarray:
    """Return labels as class numbers of a fitted model.

    Parameters
    ----------
    y : array, shape (n_rows,) or (n_rows, n_outputs)
    known : list of ndarray
        The classes of each output.
    n_rows, device, estimator, name
        As for ``read_labels``.

    Returns
    -------
    int64, shape (n_rows, n_outputs), NumPy
        -1 for a label that the model does not know.

    Raises
    ------
    ValueError
        As ``read_labels`` raises, or the number of outputs differs from the model's.
    """
    columns = columns_of(y)
    if len(columns) != len(known):
        raise ValueError(
            f"{name} has {len(columns)} outputs, the model was fitted with {len(known)}."
        )
    found = []
    for column, classes in zip(columns, known, strict=True):
        labels = read_labels(column, n_rows, device, estimator=estimator, name=name)
        places = places_among(classes, labels.classes)
        if (places < 0).all() and _is_text(classes) != _is_text(labels.classes):
            raise ValueError(
                f"{name} holds labels such as {_listed(labels.classes)[0]!r}, the classes of the "
                f"model are such as {_listed(classes)[0]!r}. Pass labels of the type that it was "
                "fitted with."
            )
        found.append(places[to_numpy(labels.codes)])
    return np.stack(found, axis=1)


def unknown_labels(y: Any, numbers: Array) -> list[Any]:
    """Return the distinct labels that ``class_numbers`` has given -1, in the order of the rows."""
    columns = zip(columns_of(y), numbers.T, strict=True)
    found = (_listed(array_of(column).ravel()[codes < 0]) for column, codes in columns)
    return list(dict.fromkeys(chain.from_iterable(found)))


def places_among(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the position of each label among the classes: int64, -1 for one that is not there.

    Labels are equal if Python calls them so, whatever the types of the arrays.
    """
    if classes.dtype.kind == labels.dtype.kind and classes.dtype.kind in "mM":
        unit = np.result_type(classes, labels)
        classes, labels = classes.astype(unit), labels.astype(unit)
    place = {label: k for k, label in enumerate(_listed(classes))}
    return np.array([place.get(label, -1) for label in _listed(labels)], np.int64)


def _listed(labels: np.ndarray) -> list[Any]:
    """Return labels as Python objects; dates of nanoseconds would become integers."""
    return list(labels) if labels.dtype.kind in "mM" else labels.tolist()


def _is_text(labels: np.ndarray) -> bool:
    return all(isinstance(label, str) for label in labels.tolist())


def classes_among_workers(classes: np.ndarray, workers: Workers) -> np.ndarray:
    """Return the classes of all workers, ascending."""
    if workers is ONE_WORKER:
        return classes
    found = objects_of_all(classes, workers)
    if len({each.dtype.kind for each in found}) == 1:
        return np.unique(np.concatenate(found))
    every: np.ndarray = np.array([label for each in found for label in _listed(each)], object)
    return encode_objects(every, "y")[0]


def labels_of_all(labels: Labels, workers: Workers) -> Labels:
    """Return the labels of the rows of all workers; ``labels`` are those of this worker's."""
    if workers is ONE_WORKER:
        return labels
    found = classes_among_workers(labels.classes, workers)
    places = places_among(found, labels.classes).astype(np.min_scalar_type(len(found)))
    numbers = workers.collective.gather(places[to_numpy(labels.codes)])
    return Labels(found, np.concatenate(numbers).astype(np.int64))


def labels_for_metrics(classes: np.ndarray) -> np.ndarray:
    """Return classes as scikit-learn's metrics take them: the numbers of those that they refuse."""
    kind = classes.dtype.kind
    is_known = kind in "biufU" or (kind == "O" and _is_text(classes))
    return classes if is_known else np.arange(len(classes))


def as_classes(y: Any) -> Any:
    """Return labels in the type of the classes that they are read as, for scikit-learn's folds and
    metrics, which refuse numbers among objects and round those of data frames; anything else
    unchanged."""
    dtype = getattr(y, "dtype", None)
    if y is None or (isinstance(dtype, np.dtype) and dtype.kind != "O"):
        return y
    column = array_of(y)
    if column.ndim != 1 or column.dtype.kind != "O" or not len(column):
        return column if column.ndim == 1 else y
    try:
        classes, codes = encode_objects(column, "y")
    except ValueError:  # the estimator names what is wrong
        return y
    return classes[codes]


def class_factors(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, weight: np.ndarray | None,
    workers: Workers,
) -> np.ndarray:  # fmt: skip
    """Return the factor of each class.

    Parameters
    ----------
    class_weight : dict or "balanced"
        "balanced" gives every class that occurs the same sum of weights, and leaves their
        total as it is. (scikit-learn's trees count rows here, whatever their weights.)
    classes : ndarray, shape (n_classes,)
    codes : int64, shape (n_rows,)
        Class numbers of the rows.
    weight : float64, shape (n_rows,), or None

    Returns
    -------
    float64, shape (n_classes,)

    Raises
    ------
    ValueError
        A key of the dict is not a class.
    """
    total = class_totals(codes, weight, len(classes), workers)
    occurs = np.flatnonzero(total)
    factors = np.ones(len(classes))
    if isinstance(class_weight, dict):
        factors[occurs] = factors_of_keys(class_weight, classes[occurs])
    else:
        factors[occurs] = total.sum() / (occurs.size * total[occurs])
    return factors


def _encode(y: Array, name: str) -> tuple[np.ndarray, Array]:
    """Return distinct labels, ascending, and the position of every label among them."""
    if y.dtype.kind in "OUST":
        return encode_objects(y, name)
    if y.dtype.kind in "mM":
        return _encode_dates(y, name)
    if y.dtype.kind == "V":
        raise ValueError(
            f"Unknown label type: {name} has dtype {y.dtype}, of several fields or none. Use "
            "strings or integers."
        )
    if y.dtype.kind == "f" and not bool((y == y.round()).all()):
        raise _continuous(name)
    low, high = y.min().item(), y.max().item()
    if (
        -EXACT_IN_FLOAT64 < low
        and high < EXACT_IN_FLOAT64
        and high - low < max(len(y), _WIDEST_LOOKUP)
    ):
        return _encode_by_table(y.astype(np.int64) - int(low), int(low), y.dtype)
    classes, codes = distinct_and_codes(y)
    return to_numpy(classes), codes


def _encode_by_table(y: Array, low: int, dtype: Any) -> tuple[np.ndarray, Array]:
    """Count every integer of the range (from 0, which represents ``low``); no sorting."""
    xp = module_of(y)
    present = occurrences(y) > 0
    classes = to_numpy(xp.nonzero(present)[0] + low).astype(dtype)
    return classes, (xp.cumulative_sum(xp.astype(present, xp.int64)) - 1)[y]


def _encode_dates(y: Array, name: str) -> tuple[np.ndarray, Array]:
    """Sort dates or spans of time, of any unit."""
    if (unknown := np.isnat(to_numpy(y))).any():
        raise ValueError(f"Input {name} contains NaT: {found_in(unknown)}. {NO_LABEL}")
    classes, codes = distinct_and_codes(y)
    return to_numpy(classes), codes


def factors_of_keys(class_weight: dict[Any, float], classes: np.ndarray) -> np.ndarray:
    """Return the factor of each class that a dict has, 1 for those that are not among its keys.
    Raises a ValueError if a key is not a class, and a class is not a key."""
    keys: list[Any] = _plain(list(class_weight))
    if classes.dtype.kind in "mM":
        keys = list(np.array(keys, classes.dtype))  # dates of any type
    factor = dict(zip(keys, class_weight.values(), strict=True))
    listed = _listed(classes)
    left_out = [label for label in listed if label not in factor]
    if left_out and len(listed) - len(left_out) != len(class_weight):
        raise ValueError(
            f"The classes, {left_out}, are not in class_weight, whose keys are {keys}, not all of "
            "them classes of y. Pass a factor for each class."
        )
    return np.array([factor.get(label, 1.0) for label in listed], np.float64)


def encode_objects(y: Array, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Hash every label; only the distinct ones are sorted."""
    labels = _plain(y.tolist())
    try:
        distinct = set(labels)
    except TypeError as error:
        raise ValueError(
            f"Unknown label type: {name} holds {error}. Use strings or integers."
        ) from error
    if any(map(is_missing, distinct)):
        require_present(y, name, NO_LABEL)
    if distinct & _INFINITE:
        is_infinite = np.fromiter((label in _INFINITE for label in labels), bool, len(labels))
        raise ValueError(f"Input {name} contains infinity: {found_in(is_infinite)}. {NO_LABEL}")
    if any(isinstance(label, (float, np.floating)) and label % 1 for label in distinct):
        raise _continuous(name)
    try:
        ordered = sorted(distinct)
    except TypeError as error:
        types = sorted({type(label).__name__ for label in distinct})
        raise ValueError(
            f"Unknown label type: {name} mixes labels of the types {types}, which have no order. "
            "Use strings or integers throughout."
        ) from error
    position = {label: code for code, label in enumerate(ordered)}
    codes = np.fromiter((position[label] for label in labels), np.int64, len(labels))
    return _class_array(ordered, y.dtype), codes


def _plain(labels: list[Any]) -> list[Any]:
    """Return NumPy's numbers among labels as Python's, which compare without rounding."""
    of_numpy = [t for t in set(map(type, labels)) if issubclass(t, (np.number, np.bool_))]
    plain = tuple(t for t in of_numpy if not issubclass(t, np.timedelta64))
    return [v.item() if isinstance(v, plain) else v for v in labels] if plain else labels


def _class_array(ordered: list[Any], dtype: Any) -> np.ndarray:
    """Return distinct labels as an array: numbers in NumPy's type for them if it holds each as it
    is, anything else in the type of the column."""
    if all(isinstance(label, numbers.Real) for label in ordered):
        array = np.asarray(ordered)
        are_whole = all(isinstance(label, numbers.Integral) for label in ordered)
        if array.dtype.kind in ("biu" if are_whole else "f") and array.tolist() == ordered:
            return array
        dtype = object
    classes = np.empty(len(ordered), dtype)
    classes[:] = ordered
    return classes


def _continuous(name: str) -> ValueError:
    return ValueError(
        f"Unknown label type: continuous. {name} holds numbers that are not whole; classes are "
        "discrete. Use a regressor, or turn the numbers into classes."
    )


def side_by_side(labels: list[Array], xp: ModuleType) -> Array:
    """Return the labels of several outputs as the columns of a table, those of one as they are."""
    if len(labels) == 1:
        return labels[0]
    kinds = {label.dtype.kind for label in labels}
    if len({kind in "biuf" for kind in kinds}) > 1 or _would_round(labels):
        labels = [to_numpy(label).astype(object) for label in labels]  # text would swallow numbers
    return (np if isinstance(labels[0], np.ndarray) else xp).stack(labels, axis=1)


def _would_round(labels: list[Array]) -> bool:
    """Return whether numbers of several types would become floats that do not hold them."""
    types = [label.dtype for label in labels]
    if any(each.kind not in "biuf" for each in types) or np.result_type(*types).kind != "f":
        return False
    wide = [label for label in labels if label.dtype.kind in "iu" and label.dtype.itemsize == 8]
    return any(len(c) and not -EXACT_IN_FLOAT64 <= int(c.min()) <= int(c.max()) <= EXACT_IN_FLOAT64
               for c in wide)  # fmt: skip
