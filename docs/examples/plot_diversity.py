"""
Do the members of an ensemble err on different rows?
====================================================

Each cell is the share of the test rows on which one model is right and the other wrong. An
ensemble gains most from members that are accurate and disagree.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from gpuens import GradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from gpuens.plotting import DiversityDisplay

X, y = load_digits(return_X_y=True)
models = [
    ("boosting", GradientBoostingClassifier(n_estimators=30, max_depth=3)),
    ("forest", RandomForestClassifier(n_estimators=100)),
    ("neighbours", KNeighborsClassifier()),
    ("Bayes", GaussianNB()),
    ("logistic", LogisticRegression(max_iter=5000, C=0.01)),
]
vote = VotingClassifier(models).fit(X[:900], y[:900])

figure, ax = plt.subplots(figsize=(5.6, 4.4), layout="constrained")
DiversityDisplay.from_estimator(vote, X[900:], y[900:], measure="disagreement", ax=ax)
plt.show()
