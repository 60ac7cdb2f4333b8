"""The settings that are tried, and how long."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import ParameterSampler

from ..estimators.parameters import is_count

NUMERIC: dict[str, Sequence[Any]] = {
    "learning_rate": (0.035, 0.05, 0.07),
    "max_leaf_nodes": (5, 8, 12, 18, 28, 42, 64),
    "min_samples_leaf": (1, 2, 5, 10, 20, 40),
    "l2_regularization": (0.1, 0.5, 1.0, 3.0, 10.0),
    "subsample": (0.5, 0.65, 0.8, 0.95),
    "colsample_bynode": (0.3, 0.4, 0.6, 0.8, 1.0),
}
SYMMETRIC: dict[str, Sequence[Any]] = {
    "grow_policy": ("symmetric",),
    "learning_rate": (0.05, 0.07, 0.1),
    "max_depth": (3, 4, 5, 6, 7, 8),
    "min_samples_leaf": (1, 2, 5, 10),
}
CATEGORICAL: dict[str, Sequence[Any]] = {
    "cat_smooth": ("auto", 5.0, 20.0, 60.0),
    "cat_l2": (0.0, 3.0, 10.0, 30.0),
}
"""Lists of values, of which each is drawn with the same chance; what differs for symmetric trees,
and what tables with categories have in addition. On four tables of 1500 to 3000 rows
(california_housing, waveform5000, airlines_allyears2k, a synthetic one with steps) lower rates took
two to three times as long and were not better, and neither were 100 leaves; nor was a penalty of
30, with which classes need thousands of rounds."""
FIRST: tuple[dict[str, Any], ...] = (
    {"grow_policy": "lossguide", "learning_rate": 0.05, "max_leaf_nodes": 8,
     "min_samples_leaf": 10, "l2_regularization": 3.0, "subsample": 0.65, "colsample_bynode": 0.6},
    {"grow_policy": "symmetric", "learning_rate": 0.07, "max_depth": 7,
     "min_samples_leaf": 2, "l2_regularization": 3.0, "subsample": 0.65, "colsample_bynode": 0.6},
    {"grow_policy": "lossguide", "learning_rate": 0.05, "max_leaf_nodes": 42,
     "min_samples_leaf": 5, "l2_regularization": 3.0, "subsample": 0.65, "colsample_bynode": 0.6},
    {"grow_policy": "symmetric", "learning_rate": 0.07, "max_depth": 4,
     "min_samples_leaf": 5, "l2_regularization": 0.5, "subsample": 0.65, "colsample_bynode": 1.0},
)  # fmt: skip
"""What is tried before anything is drawn: rounded from settings that were among the best on some of
these tables, and unlike each other. Without them the error was the same on the mean of five other
tables (10 CPU seconds of search), and 15 % higher on bike (20 CPU seconds)."""
SHARED = (
    "loss", "quantile", "class_weight", "scoring", "random_state", "n_jobs", "device", "verbose",
    "max_bins", "categorical_features", "cat_hash_groups", "multi_strategy", "linear_leaves",
)  # fmt: skip
"""Parameters that all settings share: members with others could not be averaged, or would need bins
of their own."""
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
CHANGES, CHANGED = 0.5, 0.35
"""Share of the draws that change one of the best settings, and the chance that a parameter is drawn
again there."""
MOST_REPEATED = 20
"""Random draws in a row of settings that were drawn before, after which a space counts as
exhausted."""


class Budget(NamedTuple):
    """How long to search: for a number of settings, or for seconds; the other one is infinite."""

    settings: float
    seconds: float


def read_budget(budget: Any) -> Budget:
    """Read the parameter ``budget``. Raises a ValueError if it is neither a number of settings nor
    a text such as "60s"."""
    if is_count(budget):
        return Budget(int(budget), math.inf)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h)\s*", budget) if _is_text(budget) else None
    if found is None or float(found[1]) == 0:
        raise ValueError(
            "budget must be a number of settings >= 1, or a time as '60s', '5min' or '1.5h', got "
            f"{budget!r}."
        )
    return Budget(math.inf, float(found[1]) * UNITS[found[2]])


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def space_of(
    has_categories: bool, has_symmetric: bool, draws_features: bool
) -> list[dict[str, Any]]:
    """Return the space that is searched by default: symmetric trees have a depth, not leaves; the
    features that nodes look at are drawn from unless the estimator has ``max_features``."""
    space = {**NUMERIC, **CATEGORICAL} if has_categories else dict(NUMERIC)
    if not draws_features:
        del space["colsample_bynode"]
    if not has_symmetric:
        return [space]
    symmetric = {name: values for name, values in space.items() if name != "max_leaf_nodes"}
    symmetric |= SYMMETRIC
    return [{**space, "grow_policy": ("lossguide",)}, symmetric]


def defaults(has_symmetric: bool) -> list[dict[str, Any]]:
    """Return the default, with each of the shapes of trees that it chooses from: one for each part
    of the space."""
    policies = ("lossguide", "symmetric") if has_symmetric else ()
    return [{"grow_policy": policy} for policy in policies] or [{}]


def first_of(space: Sequence[Mapping[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Return the settings of ``FIRST`` that the default space has, in the parameters that it has,
    each with the number of its part of the space."""
    return [
        (k, {name: value for name, value in params.items() if name in part})
        for params in FIRST
        for k, part in enumerate(space)
        if params["grow_policy"] in part.get("grow_policy", ("lossguide",))
    ]


def draws(
    space: Any,
    seed: int,
    best: Callable[[], Sequence[Mapping[str, Any]]] = tuple,
    first: Sequence[tuple[int, Mapping[str, Any]]] = (),
) -> Iterator[dict[str, Any]]:
    """Yield settings of a space, none twice and none of the ``first``, which come with the number
    of their part of the space. They depend on the seed, and on what ``best`` returns: half of them
    are one of these with some parameters drawn again, if it was drawn here or is a first one."""
    parts = space if isinstance(space, (list, tuple)) else [space]
    known = {_key(params): part for part, params in first}
    rng, repeated = np.random.RandomState(seed % 2**32), 0
    while repeated < MOST_REPEATED:
        parents = [params for params in best() if _key(params) in known]
        is_change = bool(parents) and rng.random_sample() < CHANGES
        parent = parents[rng.randint(len(parents))] if is_change else {}
        part = known[_key(parent)] if is_change else rng.randint(len(parts))
        (found,) = ParameterSampler(parts[part], 1, random_state=rng)
        if is_change:
            drawn = {name: found[name] for name in found if rng.random_sample() < CHANGED}
            found = {**parent, **drawn}
        repeated += not is_change
        if _key(found) not in known:
            known[_key(found)] = part
            repeated = 0
            yield found


def _key(params: Mapping[str, Any]) -> str:
    return repr(sorted(params.items()))


def check_space(space: Any, kind: Any, fixed: Sequence[str]) -> None:
    """Check the parameter ``param_distributions``. Raises a TypeError or a ValueError if it is not
    a space, or has parameters that the estimator lacks or that are fixed."""
    if space is None:
        return
    parts = space if isinstance(space, (list, tuple)) else [space]
    if not parts or not all(isinstance(part, Mapping) and part for part in parts):
        raise TypeError(
            "param_distributions must be None, a dict from parameters to lists of values or "
            f"distributions, or a list of these, got {space!r:.80}."
        )
    known = set(kind._get_param_names()) - {*fixed, *SHARED}
    for name in sorted({name for part in parts for name in part} - known):
        raise ValueError(
            f"param_distributions has {name!r}, which is not a parameter of {kind.__name__} that "
            "settings may differ in."
        )
