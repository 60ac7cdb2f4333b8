"""The rows that each round of boosting is trained on."""

from __future__ import annotations

import numpy as np

from ..kernels.runtime.arrays import Array
from ..kernels.runtime.collective import largest_of_all
from ..kernels.scalars.deferred import lazy_property
from ..numerics.sampling import draw_rows
from .gradients import Gradients
from .round_data import Training
from .sampling import Sample, balanced_chances, draw_by_chance, goss_chances, mvs_chances


class RowSampler:
    """Draws the rows of the rounds (see ``sampling``)."""

    def __init__(self, training: Training, gradients: Gradients) -> None:
        self._training, self._gradients = training, gradients

    def draw(self, index: int) -> Sample:
        """Draw the rows of a round."""
        rows, settings, device = self._training.rows, self._training.settings, self._training.device
        scheme, fraction, top_rate, other_rate = settings.sampling
        if scheme == "goss" and index < 1.0 / settings.learning_rate(0):  # as in LightGBM
            scheme, fraction = "uniform", 1.0
        if scheme == "uniform" and fraction == 1.0:
            return self._weighted_rows
        if scheme == "uniform":
            return self._uniform(fraction, settings.seed, index)
        if scheme == "balanced":
            chance = self._balanced
        elif scheme == "goss":
            importance = self._gradients.sum_of_rows(index, lambda g, h: abs(g) * h, np.float32)
            chance = goss_chances(importance, top_rate, other_rate, device)
        else:
            squares = self._gradients.sum_of_rows(
                index, lambda g, h: g.astype(np.float64) ** 2, np.float64
            )
            chance = mvs_chances(squares, fraction, device)
        return draw_by_chance(chance, rows.weight, settings.seed, index, device)

    def _uniform(self, fraction: float, seed: int, index: int) -> Sample:
        training = self._training
        weight, device = training.rows.weight, training.device
        drawn = draw_rows(training.n_rows, fraction, weight, seed, index, device)
        return Sample(drawn, device.xp.empty(0, dtype=np.float32))

    @lazy_property
    def _weighted_rows(self) -> Sample:
        """The rows with a positive weight; kept, because finding them waits for a GPU."""
        return self._uniform(1.0, 0, 0)

    @lazy_property
    def _balanced(self) -> Array:
        """The chance of each row to be drawn, by its class; kept."""
        training = self._training
        classes = training.rows.y.astype(np.int64)
        n_classes = int(largest_of_all(float(classes.max()))) + 1
        fraction = training.settings.sampling.fraction
        return balanced_chances(classes, n_classes, fraction, training.device)
