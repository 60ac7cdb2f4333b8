"""
How many rounds of boosting?
============================

The dotted line marks the round that early stopping found best. Trees after it are dropped.
"""

import matplotlib.pyplot as plt

from gpuens import GradientBoostingClassifier
from gpuens.datasets import make_higgs_like
from gpuens.plotting import LearningCurveDisplay

X, y = make_higgs_like(4000)
X_new, y_new = make_higgs_like(4000, random_state=1)
model = GradientBoostingClassifier(n_estimators=300, early_stopping=True, n_iter_no_change=40)
model.fit(X, y, eval_set=[(X_new, y_new), (X, y)])

figure, ax = plt.subplots(figsize=(6.0, 3.6), layout="constrained")
names = {"validation_0": "new rows", "validation_1": "training rows"}
LearningCurveDisplay.from_estimator(model, names=names, ax=ax)
plt.show()
