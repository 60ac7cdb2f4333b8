"""Why a row of weight two is not always the same as two rows: the only exceptions there are."""

from __future__ import annotations

CHECKS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)
DRAWS_ROWS = dict.fromkeys(
    CHECKS,
    "Rows are drawn by their number: after repeating some, others are drawn, and a row of weight "
    "two is drawn whole, or twice as often, where two rows are drawn one by one.",
)
COUNTS_ROWS = dict.fromkeys(
    CHECKS,
    "The setting counts rows, whatever their weights, as scikit-learn's does: min_samples_leaf of "
    "boosting, scales of oblique forests, balanced class weights.",
)
TRIALS = dict.fromkeys(
    CHECKS,
    "feature_combinations='auto' compares out-of-bag errors of small forests, also with "
    "bootstrap=False: their rows are drawn by number, so that another value may be chosen.",
)
TIES = dict.fromkeys(
    CHECKS,
    "Among equally good splits of few rows the stochastic rounding of gradients decides, which is "
    "drawn by row number.",
)
