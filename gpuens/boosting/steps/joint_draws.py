"""Samples of the rows of several models, drawn together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...kernels.runtime.arrays import Array
from ...kernels.statistics.row_draws import draw_by_chances
from ...numerics.sampling import draw_samples, key_of_rows
from .joined_models import AlikeModels, JoinedModels
from .sampling import Sample, Sampling, goss_chances_of_lines, mvs_chances_of_lines


def draw_rows(joined: JoinedModels, asked: Sequence[Any]) -> None:
    """Draw the samples of the models of a batch, those of equal chances in one operation, and those
    of a scheme and a kind of loss in another; the models whose loss has no formulas draw their own.
    """
    equal = [k for k, own in enumerate(asked) if own.model.sampler.equal_draw(own.index)]
    if equal:
        draws = [asked[k].model.sampler.equal_draw(asked[k].index) for k in equal]
        found = draw_samples(draws, _lines(joined.weight, equal, len(asked)), joined.device)
        for k, rows in zip(equal, found, strict=True):
            nothing = joined.device.xp.empty(0, dtype=joined.device.xp.float32)
            asked[k].model.sampler.given = Sample(rows, nothing)
    for alike in joined.kinds:
        of_kind = asked[alike.own]
        schemes = [own.sampling for own in of_kind]
        is_by_gradients = any(own.scheme in ("goss", "mvs") for own in schemes)
        if alike.joint is not None:
            if is_by_gradients:
                _compute_gradients(joined, alike, of_kind)
            for name in ("goss", "mvs", "balanced"):
                drawn = [k for k, own in enumerate(schemes) if own.scheme == name]
                if drawn:
                    _draw(joined, alike, of_kind, schemes, drawn)


def _compute_gradients(joined: JoinedModels, alike: AlikeModels, asked: Sequence[Any]) -> None:
    """Compute the gradients of all rows, whose sizes decide the chances."""
    losses = [own.model.training.loss for own in asked]
    everything = [joined.device.xp.empty(0, dtype=joined.device.xp.int32)] * len(asked)
    losses = type(losses[0]).in_round_of_models(losses, alike.joint, everything)
    joined.gradients(alike, losses)


def _draw(
    joined: JoinedModels, alike: AlikeModels, asked: Sequence[Any], schemes: Sequence[Sampling],
    drawn: Sequence[int],
) -> None:  # fmt: skip
    """Draw the samples of some models of a kind, all by one scheme."""
    rows, device = alike.joint, joined.device
    assert rows is not None
    n_rows = [rows.n_rows[k] for k in drawn]
    own = [schemes[k] for k in drawn]
    if own[0].scheme == "balanced":
        chances = rows.joined([asked[k].model.sampler.balanced for k in drawn], always=True)
    elif own[0].scheme == "goss":
        importance = _sum_of_outputs(joined, alike, lambda g, h: abs(g) * h, np.float32)
        lines = _lines(importance, drawn, len(asked))
        chances = goss_chances_of_lines(lines, n_rows, own, device)
    else:
        squares = _sum_of_outputs(joined, alike, lambda g, h: g.astype(np.float64) ** 2, np.float64)
        lines = _lines(squares, drawn, len(asked))
        chances = mvs_chances_of_lines(lines, n_rows, [s.fraction for s in own], device)
    keys = [key_of_rows(asked[k].model.training.settings.seed, asked[k].index) for k in drawn]
    weight = _lines(rows.weight, drawn, len(asked))
    for k, sample in zip(drawn, draw_by_chances(weight, chances, n_rows, keys), strict=True):
        asked[k].model.sampler.given = Sample(*sample)


def _sum_of_outputs(joined: JoinedModels, alike: AlikeModels, term: Any, dtype: Any) -> Array:
    """Return the sum of a function of every row's gradient and hessian over the outputs of each
    model, a line a model."""
    rows, xp = alike.joint, joined.device.xp
    assert rows is not None
    shape = len(rows.rows), rows.n_outputs, joined.g.shape[1]
    g, h = (own[alike.lines].reshape(shape) for own in (joined.g, joined.h))
    total = xp.zeros((shape[0], shape[2]), dtype=dtype)
    for k in range(rows.n_outputs):
        total += term(g[:, k], h[:, k])
    return total


def _lines(array: Array, numbers: Sequence[int], n_models: int) -> Array:
    """Return the lines of some models, or what all have in common."""
    is_common = array.ndim == 1 or len(array) == 1 < n_models
    return array if is_common or len(numbers) == n_models else array[list(numbers)]
