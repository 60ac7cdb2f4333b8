"""Which child a row goes to."""

import numpy as np

from .primitives import formula

MISSING_CODE = np.uint8(255)


@formula
def code_goes_left(code, bin_, missing_left):
    """Training: ``code <= bin``; the missing code goes where the node learned it to."""
    return missing_left if code == MISSING_CODE else code <= bin_


@formula
def value_goes_left(x, threshold, missing_left):
    """Prediction: ``x <= threshold``; NaN goes where the node learned it to."""
    return missing_left if x != x else x <= threshold
