"""The order in which a node looks at the features (contract: ``kernels.cart.grow_cart``)."""

from __future__ import annotations

import numpy as np

from ...runtime.compilation import inlined
from ...scalars.rng import draw

u64, i64 = np.uint64, np.int64

S32 = u64(32)


@inlined
def draw_features(params, shuffle_key, last, n_drawn, room):
    """Draw features until ``last`` are drawn; return how many are."""
    features = room.features
    while params.shuffle == 1 and n_drawn < last:
        # Fisher-Yates, a step for each feature that is looked at: most nodes look at a few of many.
        bits = draw(shuffle_key, u64(n_drawn))
        # A draw has 32 bits: the high word of the product is a number below the number of features
        # that are left, without the division of a remainder.
        other = n_drawn + i64((bits * u64(features.size - n_drawn)) >> S32)
        room.swapped[n_drawn] = other
        features[n_drawn], features[other] = features[other], features[n_drawn]
        n_drawn += 1
    return last


@inlined
def put_back(n_drawn, room):
    """Put the features back into ascending order, swap by swap: as many steps as were drawn."""
    features = room.features
    while n_drawn > 0:
        n_drawn -= 1
        other = room.swapped[n_drawn]
        features[n_drawn], features[other] = features[other], features[n_drawn]
