"""Newton steps from the CPU's sums: the reference's composition (contract:
``kernels.leaves.newton_steps``)."""

from ..reference.newton_steps import newton_steps

__all__ = ["newton_steps"]
