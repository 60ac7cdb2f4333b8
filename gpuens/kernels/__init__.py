"""Leads to the modules of this package, which are in ``kernels/`` beside ``gpuens`` in a checkout.

An installed copy has that folder, with its own ``__init__``, in this place.
"""

from pathlib import Path

__path__ = [str(Path(__file__).parents[2] / "kernels")]
