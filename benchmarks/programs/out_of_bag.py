"""Draw the picture of docs/guide/out_of_bag.md.

Random forests on halves of the handwritten digits, the out-of-bag error beside the error on the
other half as trees are added, averaged over several partitions, and the share of the rows in each
tree's bag.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from gpuens import RandomForestClassifier

from ..common import pictures
from ..common.machine import ROOT
from ..common.program import add_options, parser_of

PICTURE = ROOT / "docs" / "images" / "out_of_bag.png"


def measure(n_trees: int, n_splits: int) -> dict[str, Any]:
    """Return errors after 1, 2, … trees, and the share of different rows in every bag."""
    X, y = load_digits(return_X_y=True)
    out_of_bag, test, inside = [], [], []
    for seed in range(n_splits):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=seed)
        forest = RandomForestClassifier(n_trees, oob_score=True, random_state=seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Some inputs do not have OOB scores")
            forest.fit(X_train, y_train)
        out_of_bag.append(forest.oob_scores_path_)
        test.append(path_of_errors(forest, X_test, y_test))
        inside += [np.unique(rows).size / len(y_train) for rows in forest.estimators_samples_]
    return {
        "out_of_bag": np.mean(out_of_bag, axis=0),
        "test": np.mean(test, axis=0),
        "inside": np.array(inside),
    }


def path_of_errors(forest: RandomForestClassifier, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the share of wrong rows by the first tree, the first two trees, and so on."""
    shares = np.zeros((len(X), forest.n_classes_))
    errors = []
    for tree in forest:
        shares += tree.predict_proba(X)
        errors.append(float((forest.classes_[shares.argmax(axis=1)] != y).mean()))
    return np.array(errors)


def picture(figure: Any, results: dict[str, Any]) -> None:
    """Draw the errors by the number of trees, and how full the bags are."""
    figure.set_size_inches(9, 3.6)
    left, right = figure.subplots(1, 2, width_ratios=[2, 1])
    trees = np.arange(1, len(results["test"]) + 1)
    left.plot(trees, results["out_of_bag"], color="#e08214", label="out of bag, of t trees")
    left.plot(trees, results["test"], color="#1b5e9e", label="new rows, of t trees")
    left.plot(
        trees / np.exp(-1), results["test"], ":", color="#1b5e9e", label="new rows, of 0.37 t trees"
    )
    left.set(xscale="log", yscale="log", xlim=(1, trees[-1]), xlabel="trees t", ylabel="error")
    left.minorticks_off()
    left.set_xticks([1, 10, 100], ["1", "10", "100"])
    left.set_yticks([0.03, 0.1, 0.3], ["3 %", "10 %", "30 %"])
    left.legend(frameon=False)
    right.hist(100 * results["inside"], bins=20, color="#9ebbd6")
    right.axvline(100 * (1 - np.exp(-1)), color="black", linewidth=0.8, linestyle=":")
    right.set(xlabel="different rows in a bag, %", ylabel="trees")
    right.set_title("1 − 1/e = 63.2 %", fontsize=10)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)


def main(argv: Sequence[str] | None = None) -> int:
    parser = parser_of("out_of_bag", __doc__)
    parser.set_defaults(output=PICTURE.parent)
    add_options(parser, {"trees": (300, "trees"), "splits": (10, "partitions")})
    options = parser.parse_args(argv)
    pictures.draw(picture, measure(options.trees, options.splits), options.output / PICTURE.name)
    return 0
