"""In a checkout the modules of this package are in the folder ``kernels`` beside ``gpuens``, and this
file says so; an installed copy has that folder, with its own ``__init__``, in this place."""

from pathlib import Path

__path__ = [str(Path(__file__).parents[2] / "kernels")]
