"""Tables of any size for demonstrations, tests and benchmarks, and public ones by name.

The tables that ``make_…`` functions make need no memory but their own: a cell depends on
(``random_state``, row, column) alone, so that any block of rows can be made anywhere
(``rows=(begin, end)``), on the CPU or a GPU (``device="cuda"``, ``xp=torch``), and all hold the
same bits. ``fetch_…`` functions get the originals from OpenML.
"""

from .airline import airline_like_categories, airline_like_frame, make_airline_like
from .breiman import make_ringnorm, make_threenorm, make_twonorm, make_waveform
from .friedman import make_friedman1, make_friedman2, make_friedman3
from .lookalikes import make_covtype_like, make_higgs_like
from .oblique import make_sparse_parity, make_trunk
from .openml import fetch_adult, fetch_airlines, fetch_covtype, fetch_higgs
from .shapes import make_hastie_10_2, make_moons, make_nested_spheres, make_spirals
from .wide import make_wide_sparse

__all__ = [
    "airline_like_categories",
    "airline_like_frame",
    "fetch_adult",
    "fetch_airlines",
    "fetch_covtype",
    "fetch_higgs",
    "make_airline_like",
    "make_covtype_like",
    "make_friedman1",
    "make_friedman2",
    "make_friedman3",
    "make_hastie_10_2",
    "make_higgs_like",
    "make_moons",
    "make_nested_spheres",
    "make_ringnorm",
    "make_sparse_parity",
    "make_spirals",
    "make_threenorm",
    "make_trunk",
    "make_twonorm",
    "make_waveform",
    "make_wide_sparse",
]
