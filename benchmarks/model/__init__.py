"""A model of the CUDA kernels' time on cards that are not here."""
