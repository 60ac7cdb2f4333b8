"""Growth (contract: ``kernels.grow``): driven from the host for now, one launch an operation
and round for the whole frontier; the operations dispatch to this folder."""

from ..reference.grow import grow

__all__ = ["grow"]
