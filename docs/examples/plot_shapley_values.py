"""
Shapley values
==============

Each point is a row of the diabetes data: how much a feature moves its prediction away from the
mean. Points of one line are coloured by the value of the feature.
"""

# %%
from sklearn.datasets import load_diabetes

from gpuens import GradientBoostingRegressor
from gpuens.plotting import BeeswarmDisplay, ShapleyDependenceDisplay, WaterfallDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True)
model = GradientBoostingRegressor(n_estimators=100, max_depth=4).fit(X, y)
display = BeeswarmDisplay.from_estimator(model, X)

# %%
# One row: from the expected value, at the bottom, to the prediction.
display = WaterfallDisplay.from_estimator(model, X.iloc[:1])

# %%
# One feature, coloured by another one.
display = ShapleyDependenceDisplay.from_estimator(model, X, "bmi", color="s5")
