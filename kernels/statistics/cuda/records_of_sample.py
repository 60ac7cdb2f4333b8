"""A sample as records, by library calls (contract: ``kernels.statistics.records_of_sample``)."""

from ..reference.records_of_sample import records_of_sample

__all__ = ["records_of_sample"]
