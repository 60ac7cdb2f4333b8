"""Several boosted models as one: the mean of their raw predictions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..forest.forest import Forest
from ..forest.linear import LinearForest

NOT_OF_THE_MEAN = (
    "_category_smoothing", "_dropout", "evals_result_", "learning_rate_", "grow_policy_",
    "unique_times_", "baseline_cumulative_hazard_",
)  # fmt: skip
"""Attributes of a model's own training."""


def averaged_model(models: Sequence[Any]) -> Any:
    """Return the model whose raw prediction is the mean of those of fitted boosted models. Raises a
    ValueError if a model of the raw predictions' mean does not exist, or would be another function
    of them."""
    first = models[0]
    if hasattr(first, "init_"):
        raise ValueError(
            "averaged() cannot average members that start from the predictions of other models: "
            "set init=None."
        )
    if hasattr(first, "baseline_cumulative_hazard_"):
        raise ValueError(
            "averaged() cannot average members with loss='cox', each of which has its own baseline "
            "hazard: predict with the bag."
        )
    if any(type(model) is not type(first) or model.loss != first.loss for model in models):
        raise ValueError(
            "averaged() cannot average members with different losses, whose raw predictions are of "
            "different kinds: fit the bag again with warm_start=False."
        )
    if not all(_fits(first, model) for model in models):
        raise ValueError(
            "averaged() cannot average members that know different classes, categories or outputs: "
            "the sample of a member lacks some. Raise max_samples."
        )
    model = copy.copy(first)
    for name in NOT_OF_THE_MEAN:
        model.__dict__.pop(name, None)
    model.forest_ = averaged_forest([each.forest_ for each in models])
    model.n_iter_ = sum(each.n_iter_ for each in models)
    model.evals_result_ = {}
    return model


def averaged_forest(forests: Sequence[Forest]) -> Forest:
    """Return the trees of all forests, whose sum is the mean of their sums."""
    n = len(forests)
    base = np.mean([forest.base for forest in forests], axis=0)
    parts = []
    for forest in forests:
        values: dict[str, Any] = {"base": base, "value": forest.value / n}
        if isinstance(forest, LinearForest):
            values["coefficient"] = forest.coefficient / n
            values["intercept"] = forest.intercept / n
        parts.append(replace(forest, **values))
    return type(parts[0]).concatenate(parts)


def _fits(model: Any, other: Any) -> bool:
    """Return whether raw predictions and codes of categories mean the same in two models."""
    own_classes, its_classes = (getattr(m, "classes_", np.empty(0)) for m in (model, other))
    mine, others = (each._categories for each in (model, other))
    same = np.array_equal(own_classes, its_classes)
    same = same and model.forest_.base.size == other.forest_.base.size
    same = same and model.forest_.width == other.forest_.width
    if not same or mine is None or others is None:
        return same and mine is others
    pairs = zip(mine.values, others.values, strict=True)
    return all(np.array_equal(a, b) if a is not None else b is None for a, b in pairs)
