"""Error rates of trees, bagging and forests beside published ones.

spambase
    Hastie, Tibshirani and Friedman 2009 (ESL), chapters 9 and 15: error on the official test
    rows, the mean over several seeds. The tree is pruned by cost complexity, alpha chosen by
    ten-fold cross-validation on the training rows.
protocol
    Breiman 2001: a tenth of the rows, drawn at random, is held out, a hundred times. 100 trees,
    either one feature a split ("single input") or the better by its out-of-bag error of one and
    floor(log2 M + 1) ("selection").
out_of_bag
    The out-of-bag error beside the error on fresh rows.

All values are percentages of rows. A table or a class that is missing is named and left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split

from ..common.goals import Goal, measured
from ..common.markdown import pivot
from ..common.peers import BOTH, OURS, build, measure_each, percent_wrong
from ..common.program import Content, Options, Program, Results
from ..common.tables import DATA, by_split, load, official_split

SPAMBASE = {
    "random forest": (4.88, 5.3),
    "bagging": (5.4, 6.0),
    "pruned tree": (8.7, 9.0),
}
"""The published test error, and the goal."""

PROTOCOL = {
    "glass": ((20.6, 22.5), (21.2, 22.6)),
    "sonar": ((15.9, 17.9), (18.0, 18.2)),
    "ionosphere": ((7.1, 6.4), (7.5, 6.7)),
    "breast_cancer_wisconsin": ((2.9, 2.6), (2.7, 2.6)),
    "pima_diabetes": ((24.2, 23.6), (24.3, 23.7)),
}
"""Breiman's value and a re-run's: of the selection, and of a single input."""

OUT_OF_BAG = {"letter": 15_000, "satimage": 4_435}
"""Rows to train on."""

Errors = dict[str, float]


def pruned_tree(library: str, X: np.ndarray, y: np.ndarray, seed: int, threads: int) -> Any:
    """Return a tree with the alpha of least error in cross-validation, the larger where errors tie.

    An alpha is tried for each (of at most 40) of the subtrees on the path: the geometric mean of
    the values between which it is optimal (Breiman et al. 1984, 11.5).
    """
    tree = build(library, "DecisionTreeClassifier", threads, random_state=seed)
    path = np.maximum(tree.cost_complexity_pruning_path(X, y).ccp_alphas, 0.0)
    alphas = np.sqrt(path * np.append(path[1:], path[-1]))
    alphas = np.unique(alphas[np.linspace(0, alphas.size - 1, 40).astype(int)])
    folds = StratifiedKFold(10, shuffle=True, random_state=seed)
    scores = [
        cross_val_score(tree.set_params(ccp_alpha=alpha), X, y, cv=folds).mean() for alpha in alphas
    ]
    best = alphas[np.flatnonzero(np.isclose(scores, max(scores), atol=1e-12))[-1]]
    return tree.set_params(ccp_alpha=best).fit(X, y)


def spambase_model(
    what: str, library: str, X: np.ndarray, y: np.ndarray, seed: int, options: Options
) -> Any:
    """Return one fitted model."""
    if what == "pruned tree":
        return pruned_tree(library, X, y, seed, options.threads)
    name = "RandomForestClassifier" if what == "random forest" else "BaggingClassifier"
    settings = {"n_estimators": options.trees, "random_state": seed}
    return build(library, name, options.threads, **settings).fit(X, y)


def spambase(options: Options) -> Results:
    """Measure test errors on the official split."""
    X, X_test, y, y_test = official_split(load(options.data, "spambase"))

    def errors(what: str, seed: int) -> dict[str, float]:
        models = {name: spambase_model(what, name, X, y, seed, options) for name in BOTH}
        return {name: percent_wrong(model, X_test, y_test) for name, model in models.items()}

    return {
        what: {
            "published": published, "asked": asked,
            "errors": by_split(options.seeds, partial(errors, what)),
        }
        for what, (published, asked) in SPAMBASE.items()
    }  # fmt: skip


def forest(library: str, table: list[np.ndarray], options: Options, **settings: Any) -> Errors:
    """Return the errors of one forest out of bag and on fresh rows."""
    X, X_test, y, y_test = table
    made = build(library, "RandomForestClassifier", options.threads, oob_score=True, **settings)
    model = made.fit(X, y)
    return {
        "out of bag": 100.0 * (1.0 - float(model.oob_score_)),
        "test": percent_wrong(model, X_test, y_test),
    }


def protocol(options: Options) -> Results:
    """Repeat Breiman's experiment on each table."""

    def errors(library: str, X: np.ndarray, y: np.ndarray, seed: int) -> Errors:
        """Of one feature, and of the better out of bag of one and of more."""
        table = train_test_split(X, y, test_size=0.1, random_state=seed)
        settings = {"n_estimators": 100, "random_state": seed}
        single, several = (
            forest(library, table, options, max_features=n_features, **settings)
            for n_features in (1, int(np.log2(X.shape[1]) + 1))
        )
        better = min(single, several, key=lambda found: found["out of bag"])
        return {"selection": better["test"], "single": single["test"]}

    def measure(table: str) -> Results:
        arrays = load(options.data, table)
        of = {name: partial(errors, name, arrays["X"], arrays["y"]) for name in BOTH}
        found = {name: by_split(options.repeats, of[name]) for name in BOTH}
        return {
            kind: {"published": published, "errors": {name: found[name][kind] for name in BOTH}}
            for kind, published in zip(("selection", "single"), PROTOCOL[table], strict=True)
        }

    return measure_each(options.tables, measure)


def out_of_bag(options: Options) -> Results:
    """Measure out-of-bag and test errors of forests."""

    def errors(library: str, X: np.ndarray, y: np.ndarray, n_train: int, seed: int) -> Errors:
        table = train_test_split(X, y, train_size=n_train, random_state=seed)
        return forest(library, table, options, n_estimators=options.trees, random_state=seed)

    def measure(table: str) -> Results:
        arrays = load(options.data, table)
        n_train = min(OUT_OF_BAG[table], 3 * len(arrays["y"]) // 4)
        of = {name: partial(errors, name, arrays["X"], arrays["y"], n_train) for name in BOTH}
        found = {name: by_split(options.seeds, of[name]) for name in BOTH}
        kinds = ("out of bag", "test")
        return {kind: {"errors": {name: found[name][kind] for name in BOTH}} for kind in kinds}

    return measure_each(OUT_OF_BAG, measure)


def show(content: Content) -> Iterator[str]:
    """Yield error rates beside published ones."""
    rows = {}
    for of, part in content["results"].items():
        for name, entry in measured(part).items():
            for kind, row in {"": entry}.items() if "errors" in entry else entry.items():
                values = row.get("published", ())
                values = values if isinstance(values, list | tuple) else [values]
                name = f"spambase, {name}" if of == "spambase" else name
                rows[", ".join(filter(None, (name, kind)))] = {
                    "published / re-run": " / ".join(f"{value:g}" for value in values),
                    **{
                        library: f"{fmean(errors):.2f}" for library, errors in row["errors"].items()
                    },
                }
    yield pivot("error in %", rows)


def goals(content: Content) -> Iterator[Goal]:
    results = {name: measured(part) for name, part in content["results"].items()}
    for what, row in results.get("spambase", {}).items():
        name = f"the test error of a {what} on spambase".replace("a bagging", "bagging")
        yield Goal(name, row["asked"], fmean(row["errors"][OURS]), "%")
    for table, kinds in results.get("protocol", {}).items():
        worst = max(
            min(abs(fmean(row["errors"][OURS]) - value) for value in row["published"])
            for row in kinds.values()
        )
        what = f"the difference to the nearest published error on {table}"
        yield Goal(what, 2.0, worst, "points")
    for table, rows in results.get("out_of_bag", {}).items():
        bag, test = (fmean(rows[name]["errors"][OURS]) for name in ("out of bag", "test"))
        what = f"the difference of out-of-bag and test error on {table}"
        yield Goal(what, 1.0, abs(bag - test), "points")


PROGRAM = Program(
    "published", __doc__, {"spambase": spambase, "protocol": protocol, "out_of_bag": out_of_bag},
    {
        "data": (DATA, "folder of the tables"),
        "seeds": (3, "models of a kind"),
        "repeats": (100, "splits of a table"),
        "trees": (500, "trees, except in Breiman's experiment"),
        "threads": (2, "threads"),
        "tables": (list(PROTOCOL), "tables of Breiman's experiment"),
    },
    show, goals,
)  # fmt: skip
main = PROGRAM.main
