"""
What is lost without a feature?
===============================

Shuffling a feature among the test rows breaks its link to the target; the score falls by what
the model got from that feature alone. Whiskers show one standard deviation over ten shuffles.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

from gpuens import GradientBoostingRegressor
from gpuens.inspection import permutation_importance
from gpuens.plotting import FeatureImportancesDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True)
model = GradientBoostingRegressor(n_estimators=60, max_depth=3).fit(X[::2], y[::2])
found = permutation_importance(model, X[1::2], y[1::2], n_repeats=10)

figure, ax = plt.subplots(figsize=(6.0, 3.4), layout="constrained")
FeatureImportancesDisplay.from_importances(
    found, feature_names=X.columns, label="decrease of R² by shuffling", ax=ax
)
plt.show()
