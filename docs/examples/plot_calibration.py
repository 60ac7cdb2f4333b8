"""
Can predicted probabilities be trusted?
=======================================

Of the rows for which 0.8 is predicted, 80 % should belong to the class. Bars are 95 %
intervals, and every bin holds the same number of rows. The votes of AdaBoost are not
probabilities.
"""

import matplotlib.pyplot as plt

from gpuens import AdaBoostClassifier, GradientBoostingClassifier
from gpuens.datasets import make_higgs_like
from gpuens.plotting import CalibrationDisplay

X, y = make_higgs_like(4000)
X_new, y_new = make_higgs_like(4000, random_state=1)
boosting = GradientBoostingClassifier(n_estimators=60, max_depth=4).fit(X, y)
stumps = AdaBoostClassifier(n_estimators=60).fit(X, y)

figure, ax = plt.subplots(figsize=(4.8, 4.2), layout="constrained")
for model in boosting, stumps:
    CalibrationDisplay.from_estimator(model, X_new, y_new, strategy="quantile", ax=ax)
plt.show()
