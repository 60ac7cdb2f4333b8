"""``python -m gpuens.gallery``: a page with a picture of every display, and the code for it."""

from __future__ import annotations

import argparse
import inspect
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# ruff: noqa: D103 - what the page says of a picture stands in PICTURES

DPI = 100
PAGE, IMAGES = "gallery.md", "images"
HEAD = """# Pictures of models

`gpuens.plotting` has a display for each question below, in the manner of scikit-learn: a class
method computes, `plot(ax)` draws, the numbers are attributes. `ax` are matplotlib's axes to draw
into; without it a display makes its own figure. Most work with models of any library.
`python -m gpuens.gallery` makes this page; drawing needs matplotlib (`pip install 'gpuens[viz]'`).
"""


def importances(ax: Any) -> None:
    from sklearn.datasets import load_diabetes

    from gpuens import RandomForestRegressor
    from gpuens.plotting import FeatureImportancesDisplay

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    forest = RandomForestRegressor(n_estimators=100, max_features=0.5).fit(X, y)
    FeatureImportancesDisplay.from_estimator(forest, ax=ax)


def permutation(ax: Any) -> None:
    from sklearn.datasets import load_diabetes

    from gpuens import GradientBoostingRegressor
    from gpuens.inspection import permutation_importance
    from gpuens.plotting import FeatureImportancesDisplay

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = GradientBoostingRegressor(n_estimators=60, max_depth=3).fit(X[::2], y[::2])
    found = permutation_importance(model, X[1::2], y[1::2], n_repeats=10)
    FeatureImportancesDisplay.from_importances(
        found, feature_names=X.columns, label="decrease of R² by shuffling", ax=ax
    )


def learning_curve(ax: Any) -> None:
    from gpuens import GradientBoostingClassifier
    from gpuens.datasets import make_higgs_like
    from gpuens.plotting import LearningCurveDisplay

    X, y = make_higgs_like(4000)
    X_new, y_new = make_higgs_like(4000, random_state=1)
    model = GradientBoostingClassifier(n_estimators=300, early_stopping=True, n_iter_no_change=40)
    model.fit(X, y, eval_set=[(X_new, y_new), (X, y)])
    names = {"validation_0": "new rows", "validation_1": "training rows"}
    LearningCurveDisplay.from_estimator(model, names=names, ax=ax)


def out_of_bag(ax: Any) -> None:
    from sklearn.datasets import load_digits

    from gpuens import ExtraTreesClassifier, RandomForestClassifier
    from gpuens.plotting import OOBCurveDisplay

    X, y = load_digits(return_X_y=True)
    for forest in RandomForestClassifier, ExtraTreesClassifier:
        model = forest(n_estimators=150, bootstrap=True, oob_score=True).fit(X, y)
        OOBCurveDisplay.from_estimator(model, ax=ax)


def dependence(ax: Any) -> None:
    from sklearn.datasets import load_diabetes

    from gpuens import GradientBoostingRegressor
    from gpuens.plotting import PartialDependenceDisplay

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = GradientBoostingRegressor(n_estimators=60, max_depth=3).fit(X, y)
    PartialDependenceDisplay.from_estimator(
        model, X, ["bmi", "bp", ("bmi", "s5")], kind="both", centered=True, subsample=20, ax=ax
    )


def tree(ax: Any) -> None:
    from sklearn.datasets import load_iris

    from gpuens import DecisionTreeClassifier
    from gpuens.plotting import TreeDisplay

    X, y = load_iris(return_X_y=True, as_frame=True)
    tree = DecisionTreeClassifier(max_depth=3, min_samples_leaf=5).fit(X, y)
    names = ["setosa", "versicolor", "virginica"]
    TreeDisplay.from_estimator(tree, class_names=names, label="root", ax=ax)


def diversity(ax: Any) -> None:
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
    DiversityDisplay.from_estimator(vote, X[900:], y[900:], measure="disagreement", ax=ax)


def kappa_error(ax: Any) -> None:
    from sklearn.datasets import load_digits

    from gpuens import AdaBoostClassifier, BaggingClassifier, DecisionTreeClassifier
    from gpuens.plotting import KappaErrorDisplay

    X, y = load_digits(return_X_y=True)
    for ensemble in BaggingClassifier, AdaBoostClassifier:
        model = ensemble(DecisionTreeClassifier(max_depth=6), n_estimators=30)
        model.fit(X[:900], y[:900])
        KappaErrorDisplay.from_estimator(model, X[900:], y[900:], ax=ax)


def regions(ax: Any) -> None:
    from sklearn.datasets import load_iris

    from gpuens import RandomForestClassifier
    from gpuens.plotting import DecisionRegionsDisplay

    X, y = load_iris(return_X_y=True, as_frame=True)
    X = X[["petal length (cm)", "petal width (cm)"]]
    forest = RandomForestClassifier(n_estimators=100, min_samples_leaf=2).fit(X, y)
    DecisionRegionsDisplay.from_estimator(forest, X, y, response_method="predict_proba", ax=ax)


def sample_weights(ax: Any) -> None:
    from sklearn.datasets import load_breast_cancer

    from gpuens import AdaBoostClassifier
    from gpuens.plotting import SampleWeightsDisplay

    X, y = load_breast_cancer(return_X_y=True)
    model = AdaBoostClassifier(n_estimators=40).fit(X, y)
    SampleWeightsDisplay.from_estimator(model, X, y, ax=ax)


def calibration(ax: Any) -> None:
    from gpuens import AdaBoostClassifier, GradientBoostingClassifier
    from gpuens.datasets import make_higgs_like
    from gpuens.plotting import CalibrationDisplay

    X, y = make_higgs_like(4000)
    X_new, y_new = make_higgs_like(4000, random_state=1)
    boosting = GradientBoostingClassifier(n_estimators=60, max_depth=4).fit(X, y)
    CalibrationDisplay.from_estimator(boosting, X_new, y_new, strategy="quantile", ax=ax)
    stumps = AdaBoostClassifier(n_estimators=60).fit(X, y)
    CalibrationDisplay.from_estimator(stumps, X_new, y_new, strategy="quantile", ax=ax)


Picture = tuple[Callable[[Any], None], tuple[float, float], str, str]
PICTURES: tuple[Picture, ...] = (
    (importances, (6.0, 3.4), "Which features do the trees use?",
     "Bars are means over the trees of a forest, whiskers one standard deviation over the trees."),
    (permutation, (5.0, 3.4), "What is lost without a feature?",
     "Whiskers are one standard deviation over the shuffles."),
    (learning_curve, (5.6, 3.4), "How many rounds of boosting?",
     "The dotted line is where early stopping found the best round; what is behind it was "
     "dropped."),
    (out_of_bag, (5.6, 3.2), "How many trees?",
     "No rows had to be held out: see [the out-of-bag error](out_of_bag.md)."),
    (dependence, (9.0, 3.0), "How do predictions depend on a feature?",
     "Thin lines are single rows, the thick one is their mean, and ticks at the bottom are "
     "deciles. At the right, two features together."),
    (tree, (7.5, 4.2), "What does a tree ask?",
     "`index=` picks a tree of an ensemble."),
    (diversity, (5.2, 4.2), "Do the models of an ensemble err on different rows?",
     "The share of the rows where one model is right and the other wrong."),
    (kappa_error, (5.6, 3.6), "Diverse or accurate?",
     "A point is a pair of models: boosting's differ more, bagging's err less. The large marks "
     "are means."),
    (regions, (5.6, 3.8), "What is predicted where?",
     "Paler where the class is less probable."),
    (sample_weights, (5.6, 3.6), "Which rows does AdaBoost struggle with?",
     "Weights of the training rows, computed again from the model; the coloured rows were the "
     "heaviest in the end."),
    (calibration, (4.8, 4.2), "Are probabilities kept?",
     "Of the rows for which 0.8 is predicted, 80 % should be of the class. Bars are 95 % "
     "intervals, bins hold equal numbers of rows. Votes of AdaBoost are no probabilities."),
)  # fmt: skip
"""Function, inches, heading, and what to see."""


def code_of(draw: Callable[[Any], None]) -> str:
    """The body of a function, as the page shows it: what is shown is what was run."""
    source = inspect.getsource(draw)
    return textwrap.dedent(source.partition("-> None:\n")[2]).strip()


def page() -> str:
    """The gallery in Markdown."""
    parts = [HEAD]
    for draw, _, heading, text in PICTURES:
        wrapped = textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)
        image = f"{IMAGES}/gallery_{draw.__name__}.png"
        parts.append(
            f"## {heading}\n\n![{heading}]({image})\n\n{wrapped}\n\n"
            f"```python\n{code_of(draw)}\n```\n"
        )
    return "\n".join(parts)


def save(draw: Callable[[Any], None], size: tuple[float, float], path: Path) -> None:
    """Draw a picture into a PNG file.

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    from .plotting.axes import pyplot

    pyplot()  # its absence is explained
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained", dpi=DPI)
    draw(figure.subplots())
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, pil_kwargs={"optimize": True}, metadata={"Software": None})


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page and its pictures."""
    parser = argparse.ArgumentParser(
        prog="python -m gpuens.gallery",
        description="Write a page with a picture of every display, and the code for it.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--output", type=Path, default=Path("docs"), help="folder of the page")
    options = parser.parse_args(argv)
    for draw, size, _, _ in PICTURES:
        path = options.output / IMAGES / f"gallery_{draw.__name__}.png"
        save(draw, size, path)
        print(path, flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / PAGE).write_text(page(), encoding="utf-8")
    print(options.output / PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
