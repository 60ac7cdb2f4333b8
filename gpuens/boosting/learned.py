"""Boosting that found no split because the target or the weights are too small."""

from __future__ import annotations

from ..estimators.nothing_learned import warn
from ..forest.forest import Forest
from ..kernels.runtime.collective import current_share
from .round import Grower


def warn_if_nothing_was_learned(forest: Forest, grower: Grower, min_sum_hessian: float) -> None:
    """Warn if no tree has a split, and the size of the target or of the weights is the reason.

    Parameters
    ----------
    forest : Forest
    grower : Grower
        Has grown the trees.
    min_sum_hessian : float
        Of a child.
    """
    if current_share() is not None:  # a worker does not know the targets of the others
        return
    y, weight = grower.rows.y, grower.rows.weight
    if forest.n_trees == 0 or forest.feature.size > forest.n_trees:
        return
    seen = y[..., weight > 0] if weight.size else y
    if bool((seen.min(axis=-1) == seen.max(axis=-1)).all()):
        return
    gradient, hessian = grower.sizes()
    if gradient == 0.0:
        warn(
            "No tree has a split: in float32, in which trees see them, all gradients are zero. "
            "Multiply y by a power of two, such as 2.0**100, and divide the predictions by it."
        )
    elif hessian < 2.0 * min_sum_hessian:
        warn(
            f"No tree has a split: the hessians of all rows add up to {hessian:.3g}, and each "
            f"child needs min_sum_hessian={min_sum_hessian:g}. Multiply sample_weight by a power "
            "of two, or, where the hessian depends on y (as of Poisson), y."
        )
