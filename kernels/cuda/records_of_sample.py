"""A tree's sample as records (contract: ``kernels.records_of_sample``): library calls."""

from ..reference.records_of_sample import records_of_sample

__all__ = ["records_of_sample"]
