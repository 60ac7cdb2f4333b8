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
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split

from ..common.goals import Goal, measured
from ..common.markdown import pivot
from ..common.peers import BOTH, OURS, GapError, build, percent_wrong, say_skipped
from ..common.program import Content, Options, Program, Results
from ..common.tables import DATA, load

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

Errors = dict[str, list[float]]


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
    arrays = load(options.data, "spambase")
    X, y, test = arrays["X"], arrays["y"], arrays["is_test"]
    results: Results = {}
    for what, (published, asked) in SPAMBASE.items():
        errors: Errors = {}
        for library in BOTH:
            for seed in range(options.seeds):
                model = spambase_model(what, library, X[~test], y[~test], seed, options)
                errors.setdefault(library, []).append(percent_wrong(model, X[test], y[test]))
        results[what] = {"published": published, "asked": asked, "errors": errors}
    return results


def splits_of(X: np.ndarray, y: np.ndarray, library: str, options: Options) -> Errors:
    """Return the errors of every split: of one feature, of more, and of the better out of bag."""
    n_features = {"single": 1, "several": int(np.log2(X.shape[1]) + 1)}
    errors: Errors = {"single": [], "several": [], "selection": []}
    for seed in range(options.repeats):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.1, random_state=seed)
        out_of_bag = {}
        for kind, max_features in n_features.items():
            settings = {"n_estimators": 100, "max_features": max_features, "oob_score": True}
            model = build(library, "RandomForestClassifier", options.threads, random_state=seed,
                          **settings).fit(X_train, y_train)  # fmt: skip
            out_of_bag[kind] = model.oob_score_
            errors[kind].append(percent_wrong(model, X_test, y_test))
        better = max(out_of_bag, key=lambda kind: out_of_bag[kind])
        errors["selection"].append(errors[better][-1])
    return errors


def protocol(options: Options) -> Results:
    """Repeat Breiman's experiment on each table."""
    results: Results = {}
    for table in options.tables:
        try:
            arrays = load(options.data, table)
        except GapError as gap:
            results[table] = {"gaps": [say_skipped(gap)]}
            continue
        found = {library: splits_of(arrays["X"], arrays["y"], library, options) for library in BOTH}
        for kind, published in zip(("selection", "single"), PROTOCOL[table], strict=True):
            errors = {library: by_kind[kind] for library, by_kind in found.items()}
            results.setdefault(table, {})[kind] = {"published": published, "errors": errors}
    return results


def out_of_bag(options: Options) -> Results:
    """Measure out-of-bag and test errors of forests."""
    results: Results = {}
    for table, n_rows in OUT_OF_BAG.items():
        try:
            arrays = load(options.data, table)
        except GapError as gap:
            results[table] = {"gaps": [say_skipped(gap)]}
            continue
        bags: dict[str, Errors] = {"out of bag": {}, "test": {}}
        for library in BOTH:
            for seed in range(options.seeds):
                pair = _out_of_bag_and_test(library, arrays, n_rows, seed, options)
                for errors, value in zip(bags.values(), pair, strict=True):
                    errors.setdefault(library, []).append(value)
        results[table] = {name: {"errors": errors} for name, errors in bags.items()}
    return results


def _out_of_bag_and_test(
    library: str, arrays: dict[str, Any], n_rows: int, seed: int, options: Options
) -> tuple[float, float]:
    X, y = arrays["X"], arrays["y"]
    n_train = min(n_rows, 3 * len(y) // 4)
    X, X_test, y, y_test = train_test_split(X, y, train_size=n_train, random_state=seed)
    settings = {"n_estimators": options.trees, "oob_score": True, "random_state": seed}
    model = build(library, "RandomForestClassifier", options.threads, **settings).fit(X, y)
    return 100.0 * (1.0 - float(model.oob_score_)), percent_wrong(model, X_test, y_test)


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
