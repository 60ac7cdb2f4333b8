"""A round of Newton boosting on a share of the rows (contract: ``kernels.boosting.newton_trees``):
the operations that it is made of meet the other workers."""

from __future__ import annotations

from ..reference.newton_trees import add_newton_trees

__all__ = ["add_newton_trees"]
