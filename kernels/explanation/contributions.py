"""Shapley values of path-dependent trees, and of the pairs of features, by quadrature.

Give every feature of a row to a tree with probability t, independently. A split of a known feature
sends the row where its value belongs, one of an unknown feature sends it both ways, by the shares
of the training weight. The Shapley value of a feature is the derivative of the expected value f by
its own t, integrated over 0 < t < 1 with all t equal (Owen 1972)::

    phi_i = integral of df/dt_i dt          interaction_ij = 1/2 integral of d2f/dt_i dt_j dt

Along a path with d different features the integrand has the degree d - 1: ceil(d / 2) points of a
Gauss-Legendre quadrature make it exact. Derivatives go backward: ``flow``, what arrives at a node,
goes from the root to the leaves, the expected value of a node comes back. So a tree takes a few
operations for each node and point, however deep it is, and no division of products.

A split whose feature was tested above on the same path is not special: a row that came here by all
of these tests knows the feature with the larger probability ``known_share``, a row that did not
come by one of them does not know it.

All rows visit all nodes in the same order; results have the same bits everywhere:

- Products and sums are those of ``kernels.scalars.explanation``, points ascending.
- Splits add to their feature when both children are done, left before right; pairs after that, in
  the order in which the other features first occur on the path.
- Trees of a group (``program.TREES_TOGETHER``) are added up in order from 0.0, then the groups.

References
----------
Lundberg et al., "From local explanations to global understanding with explainable AI for trees",
Nature Machine Intelligence 2, 2020. Owen, "Multilinear extensions of games", Management Science 18,
1972.
"""

from __future__ import annotations

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation
from .program import Program, Size


def add_contributions(
    program: Program, size: Size, X: Array, phi: Array, pairs: Array | None = None
) -> None:
    """Add Shapley values to ``phi``, and double interactions to ``pairs``.

    Parameters
    ----------
    program : Program
        On the device of X.
    size : Size
    X : float32 or float64, shape (n_rows, n_features), any strides
        Values are routed as by ``kernels.prediction.traverse``.
    phi : float64, shape (n_outputs, n_features, n_rows), contiguous
    pairs : float64, shape (n_outputs, n_features * n_features, n_rows), contiguous, or None
        Only entries ``i * n_features + j`` with i < j are changed, by twice the interaction of the
        two features.
    """
    implementation(__name__, X).add_contributions(program, size, X, phi, pairs)
