"""
Which class is predicted where?
===============================

Colours are paler where the predicted class is less probable.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

from gpuens import RandomForestClassifier
from gpuens.plotting import DecisionRegionsDisplay

X, y = load_iris(return_X_y=True, as_frame=True)
X = X[["petal length (cm)", "petal width (cm)"]]
forest = RandomForestClassifier(n_estimators=100, min_samples_leaf=2).fit(X, y)

figure, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
DecisionRegionsDisplay.from_estimator(forest, X, y, response_method="predict_proba", ax=ax)
plt.show()
