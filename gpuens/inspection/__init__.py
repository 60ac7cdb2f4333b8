"""Inspection of fitted models: importances, partial dependence, interactions.

- ``feature_importances``: what the splits of each feature add up to (gain, cover, frequency).
- ``permutation_importance``: how far a score falls once a feature is shuffled.
- ``drop_column_importance``: how far it falls if the model never sees the feature.
- ``partial_dependence``: how the prediction depends on a feature or several, whatever the others
  are; with ``kind="individual"`` for each row.
- ``h_statistic``: whether two features work together.

All but the first work with models of any library, on tables of any library, and give their results
in the array library and on the device of the table.
"""

from __future__ import annotations

from .dependence import partial_dependence
from .drop_column import drop_column_importance
from .importances import feature_importances
from .interaction import h_statistic
from .permutation import permutation_importance

__all__ = [
    "drop_column_importance",
    "feature_importances",
    "h_statistic",
    "partial_dependence",
    "permutation_importance",
]
