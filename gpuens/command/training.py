"""``python -m gpuens fit``: train, evaluate, save and draw."""

from __future__ import annotations

import argparse
import ast
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.model_selection import train_test_split

import gpuens

from ..other_names import meant
from .columns import learn, text_of
from .errors import CommandError
from .features import choose, described, features_of, remember, words_for_missing
from .numbers import has_leading_zeros
from .rows import UNNAMED
from .tables import FileTable, bare, read, require_columns
from .types import BOOLEAN, DATE, NUMBER, TEXT, ColumnReading, Overrides, overrides_of

MOST_INTEGER_CLASSES = 20
"""A target of integers with at most this many values is taken for classes."""
FEWEST_ROWS = 10
SHOWN = 10
"""Features in the table of importances."""
ESTIMATORS = {
    "boosting": "GradientBoosting",
    "forest": "RandomForest",
    "extra-trees": "ExtraTrees",
    "tree": "DecisionTree",
    "adaboost": "AdaBoost",
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "forest": {"n_estimators": 300},
    "extra-trees": {"n_estimators": 300},
}
"""Settings that differ from the estimators' own defaults."""


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    if not 0 <= options.test_size < 1:
        raise CommandError(f"--test-size must be at least 0 and below 1, got {options.test_size}.")
    overrides = overrides_of(options)
    table = read(options.data, overrides)
    import pyarrow  # read reports it if it is missing

    print(f"{options.data}: {len(table):,} rows, {len(table.names)} columns")
    used = _used(table, options)
    columns = {name: table.column(name) for name in used}
    readings, notes = learn(columns, overrides, table.separator)
    _say_understood(table, readings, notes, options)
    has_target = _has_target(readings[options.target], options.target)
    readings = {name: _of_rows(reading, has_target) for name, reading in readings.items()}
    target = columns[options.target].filter(pyarrow.array(has_target))
    y, is_classes = _target(readings.pop(options.target), target, options)
    weights = None if options.weights is None else _weights(readings.pop(options.weights), options)
    readings, left_out = choose(readings)
    for sentence in left_out:
        print(f"Note: {sentence}.")
    X = features_of(readings)
    parts = _split(X, y, weights, is_classes, options)
    model = _train(parts[0], is_classes, options)
    remember(model, {n: r.type for n, r in readings.items()}, table.separator, overrides)
    if parts[1] is not None:
        _evaluate(model, parts[0], parts[1], is_classes)
    _save(model, options)


def _used(table: FileTable, options: argparse.Namespace) -> list[str]:
    """Return the names of the columns to read, the target among them."""
    require_columns(table, [options.target], "--target")
    require_columns(table, options.drop, "--drop")
    if options.weights is not None:
        require_columns(table, [options.weights], "--weights")
    dropped = set(options.drop) - {options.target, options.weights}
    used = [name for name in table.names if name not in dropped]
    if used[0] == f"{UNNAMED}0" and used[0] not in (options.target, options.weights):
        print("Note: the first column was left out: without a name, it names the rows.")
        del used[0]
    table.require_unique(used)
    return used


def _say_understood(
    table: FileTable,
    readings: dict[str, ColumnReading],
    notes: list[str],
    options: argparse.Namespace,
) -> None:
    """Print how the file was understood, where that is not obvious."""
    understood = [*table.notes, *described({n: r.type for n, r in readings.items()})]
    understood += words_for_missing(readings.values())
    if understood:
        print(f"Read with: {'; '.join(understood)}.")
    for name, reading in readings.items():
        if reading.example and len(reading.values):
            kind = "text" if reading.type.kind == TEXT else "numbers"
            notes.append(f"column {name!r} was taken for {kind} because of cells such as "
                         f"{reading.example!r}, though most look like numbers or dates (--missing "
                         "for words that mean a missing value)")  # fmt: skip
    target = readings[options.target]
    if target.type.kind == TEXT and target.missing:
        word, count = target.missing[0]
        notes.append(f"{word!r} in {count:,} rows of the target is a class (--missing {word} to "
                     "leave such rows out)")  # fmt: skip
    for note in notes:
        print(f"Note: {note}.")


def _has_target(reading: ColumnReading, target: str) -> np.ndarray:
    """Return the rows that have a target."""
    is_text = reading.type.kind == TEXT
    found = reading.values.is_valid().to_numpy() if is_text else ~np.isnan(reading.values)
    n_rows = int(found.sum())
    if n_rows == 0:
        raise CommandError(f"--target {target!r} has no values. Choose another column.")
    if n_rows < len(found):
        print(f"Note: rows without a target were left out: {len(found) - n_rows:,}.")
    if n_rows < FEWEST_ROWS:
        raise CommandError(
            f"The table has {n_rows} rows with a target; pass at least {FEWEST_ROWS}."
        )
    return np.asarray(found)


def _of_rows(reading: ColumnReading, rows: np.ndarray) -> ColumnReading:
    if rows.all():
        return reading
    if reading.type.kind == TEXT:
        import pyarrow

        return reading._replace(values=reading.values.filter(pyarrow.array(rows)))
    return reading._replace(values=reading.values[rows])


def _target(
    reading: ColumnReading, column: Any, options: argparse.Namespace
) -> tuple[np.ndarray, bool]:  # fmt: skip
    """Return the target, and whether it holds classes."""
    name, kind = options.target, reading.type.kind
    values = _labels(reading, column, options.task)
    n = len(np.unique(values))
    is_number = values.dtype.kind in "if"
    looks_like_classes = not is_number or (values.dtype.kind == "i" and n <= MOST_INTEGER_CLASSES)
    is_classes = {"auto": looks_like_classes}.get(options.task, options.task == "classification")
    if not is_classes and kind in (TEXT, DATE):
        raise CommandError(
            f"--target {name!r} holds {'text' if kind == TEXT else 'dates'}, which --task "
            "regression cannot learn. Convert it to numbers, or pass --task classification."
        )
    if is_classes and n > max(MOST_INTEGER_CLASSES, len(values) // 2):
        raise CommandError(
            f"--target {name!r} has {n:,} different values in {len(values):,} rows, too many for "
            "classes. Choose another column, or convert it to numbers and pass --task regression."
        )
    if is_classes and n < 2:
        raise CommandError(
            f"--target {name!r} has one value, {values[0]!r}. Choose another column."
        )
    text = f"{n} classes: a classification" if is_classes else "numbers: a regression"
    print(
        f"Target {name!r} holds {text}{'' if options.task != 'auto' else ' (change with --task)'}."
    )
    return values, is_classes


def _labels(reading: ColumnReading, column: Any, task: str) -> np.ndarray:
    """Return the target as numbers, truth values or text. Codes such as 007 are text, unless they
    are to be numbers."""
    kind, values = reading.type.kind, reading.values
    if kind == TEXT:
        return np.array(values.to_pylist(), dtype=str)
    if kind == BOOLEAN:
        return np.asarray(values == 1)
    if kind == DATE or task != "regression" and reading.whole and has_leading_zeros(column):
        return np.array(text_of(column, Overrides()).to_pylist(), dtype=str)
    return values.astype(np.int64) if reading.whole else values


def _weights(reading: ColumnReading, options: argparse.Namespace) -> np.ndarray:
    if reading.type.kind != NUMBER:
        raise CommandError(f"--weights {options.weights!r} must hold numbers.")
    return np.asarray(reading.values)


def _split(
    X: Any, y: np.ndarray, weights: np.ndarray | None, is_classes: bool, options: argparse.Namespace
) -> tuple[Any, Any]:
    """Rows to train on and to evaluate on (None without any), each as X, y and weights."""
    rows = np.arange(len(y))
    if options.test_size == 0:
        return (X, y, weights), None
    n_test = max(1, round(options.test_size * len(y)))
    counts = np.unique(y, return_counts=True)[1]
    stratify = y if is_classes and counts.min() >= 2 and n_test >= len(counts) else None
    train, test = train_test_split(
        rows, test_size=n_test, random_state=options.seed, stratify=stratify
    )
    if is_classes and len(np.unique(y[train])) < 2:
        raise CommandError("The rows to train on have one class. Pass more rows of the others.")

    def part(rows: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray | None]:
        return X.iloc[rows], y[rows], None if weights is None else weights[rows]

    return part(train), part(test)


def _train(part: Any, is_classes: bool, options: argparse.Namespace) -> Any:
    X, y, weights = part
    name = ESTIMATORS[options.model] + ("Classifier" if is_classes else "Regressor")
    model = getattr(gpuens, name)(**DEFAULTS.get(options.model, {}))
    categorical = [str(c) for c in X.columns if str(X[c].dtype) == "category"]
    settings: dict[str, Any] = {"random_state": options.seed, "device": options.device}
    if categorical:
        settings["categorical_features"] = categorical
    known = model.get_params(deep=False)
    if categorical and "categorical_features" not in known:
        raise CommandError(
            f"--model {options.model} takes numbers only, but {categorical[0]!r} holds "
            "categories. Choose --model boosting or forest, or pass --drop for such columns."
        )
    given = _parameters(options.parameters, known, name)
    model.set_params(**{k: v for k, v in settings.items() if k in known} | given)
    text = f", {len(categorical)} of them categorical" if categorical else ""
    print(f"Training {name} on {len(y):,} rows and {X.shape[1]} features{text} ...", flush=True)
    print("(The first fit on a machine compiles kernels, which can take a minute.)", flush=True)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        model.fit(X, y, sample_weight=weights)
    trees = f", {model.forest_.n_trees:,} trees" if hasattr(model, "forest_") else ""
    print(f"Trained in {time.perf_counter() - start:.1f} s{trees}.")
    return model


def _parameters(given: list[str], known: dict[str, Any], estimator: str) -> dict[str, Any]:
    parameters = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise CommandError(f"--set must be NAME=VALUE, got {text!r}.")
        if name not in known:
            raise CommandError(
                f"--set {name}: {estimator} has no such parameter. {meant(name, known)} It has "
                f"{', '.join(sorted(known))}."
            )
        try:
            parameters[name] = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            parameters[name] = value
    return parameters


def _evaluate(model: Any, train: Any, test: Any, is_classes: bool) -> None:
    """Print how good the model is on held-out rows, beside the best constant."""
    y_train, weights = train[1], train[2]
    rows = (
        _class_scores(model, y_train, weights, test)
        if is_classes
        else (_number_scores(model, y_train, weights, test))
    )
    baseline = "most frequent class" if is_classes else "mean of the target"
    print(f"\n{f'On {len(test[1]):,} held-out rows':<28}{'model':>12}{baseline:>22}")
    for name, value, constant in rows:
        print(f"  {name:<26}{value:>12.4g}{constant:>22.4g}")


def _class_scores(
    model: Any, y_train: np.ndarray, weights: Any, test: Any
) -> list[tuple[str, float, float]]:
    X, y, w = test
    classes = model.classes_
    shares = np.bincount(np.searchsorted(classes, y_train), weights, len(classes))
    shares = shares / shares.sum()
    constant = np.full(len(y), classes[shares.argmax()])
    rows = [
        ("accuracy", *(metrics.accuracy_score(y, p, sample_weight=w)
                       for p in (model.predict(X), constant))),
    ]  # fmt: skip
    if not np.isin(y, classes).all():
        return rows
    probabilities = model.predict_proba(X)
    prior = np.broadcast_to(shares, probabilities.shape)
    losses = (
        metrics.log_loss(y, p, labels=classes, sample_weight=w) for p in (probabilities, prior)
    )
    rows.append(("log loss", *losses))
    if len(classes) == 2 and len(np.unique(y)) == 2:
        auc = metrics.roc_auc_score(y == classes[1], probabilities[:, 1], sample_weight=w)
        rows.append(("area under the ROC curve", auc, 0.5))
    return rows


def _number_scores(
    model: Any, y_train: np.ndarray, weights: Any, test: Any
) -> list[tuple[str, float, float]]:
    X, y, w = test
    both = model.predict(X), np.full(len(y), np.average(y_train, weights=weights))
    scores = {
        "root mean squared error": metrics.root_mean_squared_error,
        "mean absolute error": metrics.mean_absolute_error,
        "R²": metrics.r2_score,
    }
    return [(name, *(s(y, p, sample_weight=w) for p in both)) for name, s in scores.items()]


def _save(model: Any, options: argparse.Namespace) -> None:
    from ..plotting.importances import importances_of

    path = Path(options.output or bare(Path(options.data)).with_suffix(".gpuens"))
    gpuens.save(model, path)
    importances, scale = importances_of(model)  # those of the picture
    importances = importances.reshape(model.n_features_in_, -1).mean(axis=1)
    order = np.argsort(-importances, kind="stable")[:SHOWN]
    print(f"\nMost important features: {scale}")
    shown = order[importances[order] > 0]
    width = max((len(str(model.feature_names_in_[i])) for i in shown), default=0)
    for i in shown:
        bar = "█" * max(1, round(30 * importances[i] / importances[order[0]]))
        print(f"  {model.feature_names_in_[i]!s:<{max(24, width)}}  {importances[i]:>7.3f}  {bar}")
    print(f"\nSaved the model to {path}")
    if find_spec("matplotlib") is None:
        print("For a picture of the importances: pip install 'gpuens[viz]'")
    else:
        picture = path.with_name(f"{path.stem}-importances.png")
        _draw(model, picture)
        print(f"Saved a picture of the importances to {picture}")
    print(f"Next: python -m gpuens predict {path} NEW_DATA.csv")


def _draw(model: Any, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from ..plotting import FeatureImportancesDisplay
    from ..plotting.axes import NAME_WIDTH

    lines = sum(1 + len(str(name)) // NAME_WIDTH for name in model.feature_names_in_[:20])
    figure = Figure(figsize=(8, max(4.5, 0.25 * lines)), layout="constrained")
    FigureCanvasAgg(figure)
    FeatureImportancesDisplay.from_estimator(model, ax=figure.subplots())
    figure.savefig(path, dpi=120)
