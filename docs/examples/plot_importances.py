"""
Which features do the trees use?
================================

Bars are means over the trees of a forest, whiskers show one standard deviation over the trees.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes

from gpuens import RandomForestRegressor
from gpuens.plotting import FeatureImportancesDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True)
forest = RandomForestRegressor(n_estimators=100, max_features=0.5).fit(X, y)

figure, ax = plt.subplots(figsize=(6.0, 3.4), layout="constrained")
FeatureImportancesDisplay.from_estimator(forest, ax=ax)
plt.show()
