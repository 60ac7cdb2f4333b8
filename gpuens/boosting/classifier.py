"""Gradient boosted classification trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..devices.placement import Device, to_numpy
from ..estimators.boosting_docs import BOOSTING, SCORING
from ..estimators.docstrings import documented
from ..estimators.nothing_learned import warn_of_one_class
from ..inputs.labels import (
    class_factors,
    classes_among_workers,
    places_among,
    read_labels,
    require_classes,
)
from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import Workers, largest_of_all
from ..losses import Loss
from ..losses.names import OF_CLASSES
from .additive import AdditiveClassifier
from .data.reading import EvalSet
from .estimator import BoostingEstimator
from .nothing_learned import ends
from .round_data import RawRows


@documented(
    BOOSTING,
    losses="""str, loss object or function, default="log_loss"
        "log_loss", "exponential" or "focal".
        "exponential" is for two classes; "focal" makes rows count less that are right already,
        which can help where classes are very unequal. ``gpuens.losses`` has them as objects with
        their parameters, and ``CustomLoss``. A function of two arrays
        ``(y, score) -> (gradient, hessian)`` is the objective of an ``ArrayLoss``.""",
    init="""init : "zero", estimator or None, default=None
        What the raw predictions are before the first round: None is the best constant, "zero" is
        0. Of an estimator, a copy is fitted on the table as the trees read it, with the numbers of
        the classes, and training starts from its probabilities; Shapley values and exports, which
        have trees alone, refuse the model then.
    """,
    class_weight="""class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the rows by class; "balanced": in inverse proportion to their
        number of rows. Set it where errors on a rare class cost more; probabilities are then those
        of the weighted rows.
    """,
    scoring=SCORING,
    attributes="""classes_ : ndarray
        The labels, ascending.
    init_ : estimator
        The fitted copy of ``init``, where it is an estimator.
    """,
)
@dataclass(kw_only=True, eq=False, repr=False)
class GradientBoostingClassifier(AdditiveClassifier, BoostingEstimator):
    """Gradient boosted classification trees on binned features.

    Newton boosting of the binomial or multinomial log loss (Friedman 2001; Chen and Guestrin
    2016) with histogram trees; K trees a round for K > 2 classes. The same data and seed give
    the same model, bit for bit, on the CPU with any number of threads and on a GPU.

    <shared>

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuens import GradientBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = GradientBoostingClassifier(n_estimators=50).fit(X, y)
    >>> model.score(X, y) > 0.98
    True
    """

    _losses = OF_CLASSES

    loss: str | Loss | Callable[..., Any] = field(default="log_loss", kw_only=False)
    class_weight: Any = None
    init: Any = None

    def _read_y(self, rows: EvalSet, n: int, device: Device, fit: bool) -> Array:
        name = rows.names[1]
        labels = read_labels(rows.y, n, device, estimator=self, name=name)
        if fit:
            classes = classes_among_workers(labels.classes, rows.workers)
            require_classes(classes, 2, name)
            if not hasattr(self, "forest_"):
                self.classes_ = classes
        places = places_among(self.classes_, labels.classes)
        if unknown := labels.classes[places < 0].tolist():
            raise ValueError(
                f"{name} has classes that the model does not know: {unknown}. It was trained on "
                f"{self.classes_.tolist()}."
            )
        return device.asarray(places.astype(np.float64))[labels.codes]

    def _class_weighted(
        self, target: Array, weight: Array | None, device: Device, fit: bool, workers: Workers
    ) -> Array | None:
        """Multiply the weights by the factors of ``class_weight``.

        For evaluation sets, too, the factors are those of the training rows.
        """
        if self.class_weight is None:
            return weight
        codes = device.asarray(target).astype(np.int64)
        if fit:
            given = None if weight is None else to_numpy(weight)
            self._class_factors = class_factors(
                self.class_weight, self.classes_, to_numpy(codes), given, workers
            )
        factors = device.asarray(self._class_factors)[codes]
        weight = factors if weight is None else weight * factors
        if not largest_of_all(float(weight.max()), workers) > 0:
            raise ValueError(
                f"class_weight={self.class_weight!r} leaves no row with a positive weight; raise "
                "the factor of a class that occurs."
            )
        return weight

    def _hold_out(self, sets: list[RawRows], device: Device) -> list[RawRows]:
        sets = super()._hold_out(sets, device)
        if len(sets) > 1:
            trained, watched = (
                to_numpy(rows.target)[to_numpy(rows.weight) > 0]
                if rows.weight.size
                else rows.target
                for rows in sets[:2]
            )
            ((low, high),) = ends(trained, sets[0].table.workers)
            if low < high:
                warn_of_one_class(sets[1].data, watched, self.classes_)
        return sets

    def _bound(self, loss: Loss, target: Array) -> Loss:
        return loss.for_classes(self._n_classes())

    def _n_classes(self) -> int:
        return len(self.classes_)
