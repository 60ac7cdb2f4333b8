"""Classes of an ensemble and of its members, which know them as labels or as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..devices.placement import Device, to_numpy
from ..inputs.labels import places_among, read_labels
from ..kernels.runtime.arrays import Array, derived


def common_classes(members: Sequence[tuple[str, Any]]) -> np.ndarray | None:
    """Return the classes of members that were fitted elsewhere; None if no member has ``classes_``.
    Raises a ValueError if they disagree."""
    first, classes = "", None
    for name, member in members:
        known = getattr(member, "classes_", None)
        if known is None or isinstance(known, list):
            continue
        if classes is None:
            first, classes = name, to_numpy(known)
        elif to_numpy(known).tolist() != classes.tolist():
            raise ValueError(
                f"The members disagree in their classes: {name!r} knows {_listed(known)}, "
                f"{first!r} knows {_listed(classes)}. Fit them on the same labels."
            )
    return classes


def codes_among(
    y: Any, n_rows: int, classes: np.ndarray, home: Device, *, estimator: Any, name: str
) -> Any:
    """Return the numbers of labels among known classes: int64, shape (n_rows,), on ``home``. Raises
    a ValueError if a label is not among them."""
    labels = read_labels(y, n_rows, home, estimator=estimator, name=name)
    places = places_among(classes, labels.classes)
    if unknown := labels.classes[places < 0].tolist():
        raise ValueError(
            f"{name} holds the classes {unknown}, which the members do not know: they know "
            f"{_listed(classes)}."
        )
    return home.asarray(places)[labels.codes]


def check_classes(name: str, member: Any, classes: np.ndarray) -> None:
    """Raise a ValueError unless a fitted member knows exactly the classes of its ensemble."""
    known = getattr(member, "classes_", None)
    if known is None or isinstance(known, list):
        return
    known = to_numpy(known)
    if known.tolist() in (list(range(len(classes))), classes.tolist()):
        return
    if known.dtype.kind in "iu" and set(known.tolist()) < set(range(len(classes))):
        known = classes[known]  # it was fitted on numbers of classes
    raise ValueError(
        f"The member {name!r} knows the classes {_listed(known)}, the ensemble has "
        f"{_listed(classes)}. Each member must be fitted on rows of every class: hold out fewer "
        "rows, choose folds with all classes (sklearn.model_selection.StratifiedKFold), or drop "
        "it."
    )


def codes_of(
    prediction: Array, member: Any, classes: np.ndarray, home: Device, labels: bool
) -> Array:
    """Return the class numbers that a member predicts: int64, shape (n_rows,), on ``home``.
    ``labels`` is whether a member without ``classes_`` predicts labels, not numbers."""
    known = getattr(member, "classes_", None)
    if known is not None and not isinstance(known, list):
        labels = not np.array_equal(to_numpy(known), np.arange(len(classes)))
        classes = to_numpy(known) if labels else classes  # in the type that it predicts
    if not labels:
        return home.asarray(prediction).reshape(-1).astype(np.int64)
    if classes.dtype.kind in "biuf":
        found = home.asarray(prediction).reshape(-1)
        return home.xp.searchsorted(home.asarray(classes), found).astype(np.int64)
    return home.asarray(np.searchsorted(classes, to_numpy(prediction).reshape(-1)).astype(np.int64))


def labels_of(codes: Any, classes: np.ndarray, home: Device) -> Any:
    """Return the labels of class numbers, on ``home`` if labels are numbers, else on the host."""
    if classes.dtype.kind in "biuf":
        return _labels_on(home, classes)[codes]
    return classes[to_numpy(codes)]


def _labels_on(home: Device, classes: np.ndarray) -> Any:
    """Return the labels on a device, where they are copied to once."""
    if not home.is_gpu:
        return home.asarray(classes)
    return derived(classes, ("labels", home), lambda: home.settled(home.asarray(classes)))


def check_width(owner: Any, name: str, member: Any) -> None:
    """Raise a ValueError if a member was fitted on another number of features."""
    wanted, found = (getattr(model, "n_features_in_", None) for model in (owner, member))
    if wanted is not None and found is not None and wanted != found:
        raise ValueError(
            f"The member {name!r} was fitted on {found} features, X has {wanted}. All members must "
            "take the same table."
        )


def check_shares(name: str, shares: Array, n_rows: int, n_classes: int) -> None:
    """Raise a ValueError unless probabilities have a row for each row and a column for each
    class."""
    if tuple(shares.shape) != (n_rows, n_classes):
        raise ValueError(
            f"The member {name!r} gives probabilities of shape {tuple(shares.shape)} for {n_rows} "
            f"rows and {n_classes} classes."
        )


def _listed(classes: Any) -> str:
    """Format the first classes."""
    listed = [str(label) for label in to_numpy(classes)[:11].tolist()]
    return f"[{', '.join(listed[:10])}{', ...' if len(listed) > 10 else ''}]"
