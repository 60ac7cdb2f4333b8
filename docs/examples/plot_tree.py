"""
What does a tree look like?
===========================

A tree of an ensemble is drawn with ``index=``. Colours show the most frequent class of a node.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

from gpuens import DecisionTreeClassifier
from gpuens.plotting import TreeDisplay

X, y = load_iris(return_X_y=True, as_frame=True)
tree = DecisionTreeClassifier(max_depth=3, min_samples_leaf=5).fit(X, y)

figure, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
names = ["setosa", "versicolor", "virginica"]
TreeDisplay.from_estimator(tree, class_names=names, label="root", ax=ax)
plt.show()
