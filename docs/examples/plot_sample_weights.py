"""
Which rows does AdaBoost struggle with?
=======================================

The weights of the training rows over the rounds, recomputed from the model. The coloured rows
had the largest weights at the end.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

from gpuens import AdaBoostClassifier
from gpuens.plotting import SampleWeightsDisplay

X, y = load_breast_cancer(return_X_y=True)
model = AdaBoostClassifier(n_estimators=40).fit(X, y)

figure, ax = plt.subplots(figsize=(6.0, 3.8), layout="constrained")
SampleWeightsDisplay.from_estimator(model, X, y, ax=ax)
plt.show()
