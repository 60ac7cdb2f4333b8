"""What values the parameters of an isolation forest may have, and what they mean."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..estimators.parameters import is_bool, is_count, threads_of
from ..members.samples import SamplingPlan

AUTO_SAMPLES = 256


def _is_share(value: Any, most: float = 1.0) -> bool:
    return (
        isinstance(value, Real)
        and not isinstance(value, Integral)
        and not is_bool(value)
        and 0 < float(value) <= most
    )


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


_RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "n_estimators": ("an integer >= 1", is_count),
    "max_samples": (
        "'auto', an integer >= 1 or a float in (0, 1]",
        lambda v: _is_auto(v) or is_count(v) or _is_share(v),
    ),
    "contamination": (
        "'auto' or a float in (0, 0.5]",
        lambda v: _is_auto(v) or _is_share(v, most=0.5),
    ),
    "max_features": (
        "an integer >= 1 or a float in (0, 1]",
        lambda v: is_count(v) or _is_share(v),
    ),
    "bootstrap": ("True or False", is_bool),
    "warm_start": ("True or False", is_bool),
    "verbose": ("a bool or an integer >= 0", lambda v: is_bool(v) or is_count(v, least=0)),
}


def check_isolation_parameters(forest: Any) -> None:
    """Check the parameters that do not depend on data; ``device`` where it is resolved.

    Raises
    ------
    ValueError
        Names the parameter, what it got and what it wants.
    """
    for name, (wanted, is_allowed) in _RULES.items():
        value = getattr(forest, name)
        if not is_allowed(value):
            raise ValueError(f"{name} must be {wanted}, got {value!r}.")
    threads_of(forest.n_jobs)


def isolation_plan(
    forest: Any, shape: tuple[int, int], weight: np.ndarray | None, seed: int
) -> SamplingPlan:
    """The plan that the parameters of an isolation forest ask for.

    Parameters
    ----------
    forest : IsolationForest
    shape : (n_rows, n_features)
    weight : float64, shape (n_rows,), NumPy, or None
        Chances of the rows.
    seed : int

    Raises
    ------
    ValueError
        More features are asked for than there are, or more rows without replacement than there
        are with a positive weight.
    """
    n_rows, n_features = shape
    drawable = n_rows
    if weight is not None and bool((weight == weight[0]).all()):
        weight = None  # gives the same samples, and faster
    if weight is not None and not forest.bootstrap:
        drawable = int(np.count_nonzero(weight))
        warnings.warn(
            f"When fitting {type(forest).__name__} with sample_weight it is recommended to use "
            "bootstrap=True, got bootstrap=False.",
            stacklevel=4,
        )
    n_draws = _rows_to_draw(forest.max_samples, n_rows, drawable)
    wanted = forest.max_features
    n_drawn = max(1, int(wanted if isinstance(wanted, Integral) else wanted * n_features))
    if n_drawn > n_features:
        raise ValueError(
            f"max_features must be <= n_features, got max_features={wanted} for X with "
            f"{n_features} features. Pass at most that many, or a share such as 0.5."
        )
    return SamplingPlan(
        n_rows=n_rows,
        n_draws=n_draws,
        replace=bool(forest.bootstrap),
        n_features=n_features,
        n_feature_draws=n_drawn,
        replace_features=False,
        weight=weight,
        seed=seed,
    )


def _rows_to_draw(wanted: Any, n_rows: int, drawable: int) -> int:
    """The size of a sample; ``drawable`` rows have a positive weight, or may be drawn again."""
    if _is_auto(wanted):
        return min(AUTO_SAMPLES, drawable)
    n_draws = max(1, int(wanted if isinstance(wanted, Integral) else wanted * n_rows))
    if n_draws > n_rows:
        warnings.warn(
            f"max_samples ({wanted}) is greater than the total number of samples ({n_rows}). "
            "max_samples will be set to n_samples for estimation.",
            stacklevel=5,
        )
        n_draws = n_rows
    if n_draws > drawable:
        raise ValueError(
            f"sample_weight is positive for {drawable} rows, fewer than the {n_draws} that are "
            "drawn without replacement for each tree. Lower max_samples, or set bootstrap=True."
        )
    return n_draws
