"""Gradients of learning to rank: from pairs of documents, or from the list of a query."""

from __future__ import annotations

from typing import NamedTuple

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation
from .queries import Queries


class PairSettings(NamedTuple):
    """The weights of pairs of documents.

    sigma : float
        Steepness of the logistic function of the scores' difference, > 0.
    truncation : int
        Pairs take part if one of their ranks is below this, > 0.
    normalise : bool
        Whether a pair is divided by the distance of its scores (if the best and the worst score
        of the query differ), and a query's gradients multiplied by ``query_factor``.
    by_gain : bool
        Whether a pair counts by its change of NDCG, otherwise 1.
    """

    sigma: float
    truncation: int
    normalise: bool
    by_gain: bool


def pair_gradients(
    score: Array,
    gain: Array,
    order: Array,
    inverse_ideal: Array,
    discount: Array,
    queries: Queries,
    settings: PairSettings,
) -> Array:
    """Sum the gradients of the pairs of documents of each query (LambdaRank, RankNet).

    For ranks i < j of a query, i < truncation, with different gains, ``pair_gradient`` is a size
    and a hessian. The size is added to the gradient of the document with the lower gain and
    subtracted from the other's; the hessian is added to both.

    Sums: the document of rank k first receives the pairs with ranks i = 0, 1, … k - 1, one after
    the other from 0, then the sum of the pairs with ranks j = k + 1 …, taken in lanes (see
    ``LANES``; that with j is value j - k - 1). The sum of all sizes, whose double is the total in
    ``query_factor``, is that of what each document received in the first step, in lanes by rank.

    Parameters
    ----------
    score, gain : float64, shape (n_rows,), contiguous
        Finite.
    order : int32, shape (n_rows,)
        From ``order_queries(score, queries)``.
    inverse_ideal : float64, shape (n_queries,)
        1 / (largest DCG of the query), or 0.
    discount : float64, shape (queries.longest,) or longer
        By rank.
    queries : Queries
    settings : PairSettings

    Returns
    -------
    float64, shape (2, n_rows), on the device
        Gradients and hessians.
    """
    op = implementation(__name__, score)
    return op.pair_gradients(score, gain, order, inverse_ideal, discount, queries, settings)


def list_gradients(score: Array, gain: Array, queries: Queries, key: int) -> Array:
    """Compute the gradients of the cross entropy of each query's documents (XE-NDCG).

    The scores' softmax is compared with targets that are drawn with ``draw(key, row)``; the
    gradients have two corrections of higher order, as in LightGBM. All sums are taken in lanes
    (see ``LANES``) by the position in the query.

    Parameters
    ----------
    score, gain : float64, shape (n_rows,), contiguous
        Finite; gains not negative.
    queries : Queries
    key : int
        Random key below 2**32.

    Returns
    -------
    float64, shape (2, n_rows), on the device
        Gradients and hessians.
    """
    return implementation(__name__, score).list_gradients(score, gain, queries, key)
