"""
How many trees does a forest need?
==================================

The out-of-bag error by the number of trees. No rows had to be held out: see
:doc:`/guide/out_of_bag`.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from gpuens import ExtraTreesClassifier, RandomForestClassifier
from gpuens.plotting import OOBCurveDisplay

X, y = load_digits(return_X_y=True)

figure, ax = plt.subplots(figsize=(6.0, 3.6), layout="constrained")
for forest in RandomForestClassifier, ExtraTreesClassifier:
    model = forest(n_estimators=150, bootstrap=True, oob_score=True).fit(X, y)
    OOBCurveDisplay.from_estimator(model, ax=ax)
plt.show()
