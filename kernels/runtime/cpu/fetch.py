"""Values for the host, where they are already (contract: ``kernels.runtime.fetch``)."""

from ..reference.fetch import fetch

__all__ = ["fetch"]
