"""One item after the other: the reference's loop (contract: ``kernels.runtime.each``)."""

from ..reference.each import each

__all__ = ["each"]
