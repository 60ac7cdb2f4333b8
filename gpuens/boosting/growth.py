"""Growth of the trees of a round: one for each output of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..devices.placement import Device
from ..kernels.boosting.newton_trees import add_newton_trees
from ..kernels.growth.frontier import most_slots
from ..kernels.growth.grow import GrownTrees, grow, records_for
from ..kernels.growth.params import GrowthParams
from ..kernels.runtime.collective import NO_ROWS, count_of_all, rows_of_all, selected
from ..kernels.runtime.dtypes import MOST_OUTPUTS, NodeValues, Totals
from ..kernels.scalars.primitives import vectorise
from ..kernels.scalars.rng import draw
from ..kernels.statistics.quantise import scales_for
from ..numerics.weighted import ordered_sum
from .gradients import Gradients
from .round_data import Round, Training
from .sampling import Sample

BATCH_RECORDS = 2_000_000
"""Most records of the trees of one batch on the CPU: more would not fit into its caches."""
BATCH_RECORDS_ON_GPU = 2**24
"""The same on a GPU, where the host waits for each batch and a record takes 36 bytes."""


def batch_size(n_outputs: int, n_rows: int, n_features: int, device: Device) -> int:
    """Return the number of trees of a round that grow together; the model does not depend on it.

    Each tree of a batch needs a histogram from the start.
    """
    most = BATCH_RECORDS_ON_GPU if device.runs_ahead else BATCH_RECORDS
    most = min(most // max(n_rows, 1), most_slots(n_features), MOST_OUTPUTS)
    return max(1, min(n_outputs, most))


class Batch(NamedTuple):
    """The trees of some outputs, which a GPU may still be growing. With ``values`` the raw
    predictions of the training rows include them already."""

    outputs: range
    totals: Sequence[Totals]
    trees: GrownTrees
    values: Sequence[NodeValues] | None = None


class Growth:
    """Trees on the gradients of a sample, in two operations: integers, and growth on these."""

    def __init__(self, training: Training, gradients: Gradients) -> None:
        self.training, self.gradients = training, gradients

    def start(self, round_: Round, outputs: range, totals: Sequence[Totals]) -> Batch:
        """Start to grow trees on the gradients at hand; ``totals`` are theirs."""
        training = self.training
        g, h = self.gradients.g[: len(outputs)], self.gradients.h[: len(outputs)]
        codes, draws = training.rows.codes, training.draws(round_, outputs)
        scales = [scales_for(own, training.n_rows) for own in totals]
        records = records_for(codes, g, h, round_.sample.rows, draws.rounding, draws.first, scales)
        keys = [_draw(draws.tree, draws.first + i) for i in range(len(outputs))]
        trees = grow(
            codes,
            training.n_bins,
            records,
            np.array(keys, np.uint64),
            params_of(training, round_.sample),
            training.settings.rules,
        )
        return Batch(outputs, totals, trees)


class FusedGrowth(Growth):
    """Trees of Newton steps, grown and added to the raw predictions in one call, where all rows
    take part: on the CPU the calls take as long as the growth of a small table."""

    def start(self, round_: Round, outputs: range, totals: Sequence[Totals]) -> Batch:
        if round_.sample.rows.size:
            return super().start(round_, outputs, totals)
        training, rows = self.training, self.training.rows
        trees, values = add_newton_trees(
            rows.codes,
            training.n_bins,
            self.gradients.g[: len(outputs)],
            self.gradients.h[: len(outputs)],
            totals,
            rows.raw[outputs.start : outputs.stop],
            training.draws(round_, outputs),
            round_.rate,
            round_.loss.largest_step(round_.rate),
            params_of(training, round_.sample),
            training.settings.rules,
        )
        return Batch(outputs, totals, trees, values)


def params_of(training: Training, sample: Sample) -> GrowthParams:
    """Return the settings of growth on the rows of a round."""
    params, decrease = training.settings.params, training.settings.min_decrease
    if decrease == 0.0:
        return params
    # Slightly less: the gain is rounded, the number it is compared with is not.
    least = decrease * _weight_of(training, sample) * (1.0 - 1e-10)
    return params._replace(min_gain=max(params.min_gain, least))


def _weight_of(training: Training, sample: Sample) -> float:
    """Return the weight of a round's rows; rows that are drawn with factors count for all."""
    weight, drawn = training.rows.weight, sample.rows
    is_part = drawn.size > 0 and sample.factor.size == 0
    if weight.size:
        return ordered_sum(selected(weight, drawn) if is_part else weight, training.device)
    if is_part:
        return float(count_of_all(0 if drawn is NO_ROWS else drawn.size))
    return float(rows_of_all(training.n_rows))


_draw = vectorise(draw)
