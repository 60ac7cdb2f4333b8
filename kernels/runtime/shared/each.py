"""Items one after the other (contract: ``kernels.runtime.each``): every worker must take part in
the same collective at the same time."""

from __future__ import annotations

from ..reference.each import each

__all__ = ["each"]
