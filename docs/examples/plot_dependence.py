"""
How do predictions depend on a feature?
=======================================

Thin lines are single rows, the thick line is their mean, and the ticks at the bottom are
deciles of the feature. On the right, two features together.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

from gpuens import GradientBoostingRegressor
from gpuens.plotting import PartialDependenceDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True)
model = GradientBoostingRegressor(n_estimators=60, max_depth=3).fit(X, y)

figure, ax = plt.subplots(figsize=(9.0, 3.2), layout="constrained")
PartialDependenceDisplay.from_estimator(
    model, X, ["bmi", "bp", ("bmi", "s5")], kind="both", centered=True, subsample=20, ax=ax
)
plt.show()
