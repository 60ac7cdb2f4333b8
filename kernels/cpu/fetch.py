"""Values for the host, where they are already (contract: ``kernels.fetch``)."""

from ..reference.fetch import fetch

__all__ = ["fetch"]
