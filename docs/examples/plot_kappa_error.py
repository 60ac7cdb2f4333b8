"""
Diverse or accurate?
====================

A point is a pair of trees: those of AdaBoost differ more, those of bagging err less. The large
marks are means.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from gpuens import AdaBoostClassifier, BaggingClassifier, DecisionTreeClassifier
from gpuens.plotting import KappaErrorDisplay

X, y = load_digits(return_X_y=True)

figure, ax = plt.subplots(figsize=(6.0, 3.8), layout="constrained")
for ensemble in BaggingClassifier, AdaBoostClassifier:
    model = ensemble(DecisionTreeClassifier(max_depth=6), n_estimators=30)
    model.fit(X[:900], y[:900])
    KappaErrorDisplay.from_estimator(model, X[900:], y[900:], ax=ax)
plt.show()
