"""Models that grow together on a GPU are those that their own fits train on the CPU."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuens import (
    BaggingRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    GridSearchCV,
    StackingRegressor,
    VotingRegressor,
)
from gpuens.boosting.steps.many_models import run_together
from gpuens.datasets import make_higgs_like
from gpuens.losses import Huber

pytestmark = pytest.mark.gpu
X, Y = make_higgs_like(300, 5)
X[::7, 1] = np.nan
TARGET = X[:, 0] + np.sin(3 * X[:, 2])
WEIGHT = np.arange(300) % 4 * 1.0

SETTINGS = {
    "seeds and rates": [{"random_state": i, "learning_rate": 0.1 * (i + 1)} for i in range(3)],
    "leaves and depths": [
        {"max_leaf_nodes": 3 + 4 * i, "max_depth": 4 - i, "min_samples_leaf": 3 + 9 * i}
        for i in range(3)
    ],
    "penalties": [
        {"l2_regularization": 2.0 * i, "min_sum_hessian": 1.0 + 9 * i, "min_gain_to_split": 0.1 * i}
        for i in range(3)
    ],
    "without a limit of leaves": [
        {"max_leaf_nodes": None, "max_depth": 2 + i, "min_samples_leaf": 8} for i in range(2)
    ],
    "rows": [{"subsample": 1.0 - 0.3 * i, "random_state": i} for i in range(3)],
    "features": [{"colsample_bynode": 1.0 - 0.4 * i, "colsample_bytree": 0.8} for i in range(2)],
    "rows by their gradients": [{"sampling": name, "subsample": 0.5} for name in ("goss", "mvs")],
    "losses": [{"loss": name} for name in ("squared_error", "huber", "absolute_error")],
    "monotone values": [{"monotonic_cst": [1, 0, -1, 0, 0], "max_depth": 2 + i} for i in range(2)],
    "weights of classes": [{"class_weight": own} for own in ("balanced", None)],
    "rounds": [{"n_estimators": 1 + i} for i in range(3)],
    # The least gain depends on the rows of a round.
    "gains": [{"min_impurity_decrease": 0.01 * i, "subsample": 0.6} for i in range(3)],
}


PLACES = ("cuda", "cpu")


def fingerprint(model):
    return model.forest_.fingerprint()


def fitted(kind, settings, y, device, **further):
    models = [kind(**{"n_estimators": 3, "device": device} | own) for own in settings]
    if device == "cpu":
        return [model.fit(X, y, **further) for model in models]
    fits = [lambda model=model: model.fit(X, y, **further) for model in models]
    return run_together(fits, len(fits))


def require_equal(kind, settings, y, **further):
    pairs = [fitted(kind, settings, y, device, **further) for device in ("cuda", "cpu")]
    for own, alone in zip(*pairs, strict=True):
        assert own.forest_.fingerprint() == alone.forest_.fingerprint()
        assert own.evals_result_ == alone.evals_result_


@pytest.mark.parametrize("name", [name for name in SETTINGS if "classes" not in name])
def test_settings_of_a_regression(cupy, name):
    require_equal(GradientBoostingRegressor, SETTINGS[name], TARGET)


@pytest.mark.parametrize("name", [*list(SETTINGS)[:5], "weights of classes"])
def test_settings_of_three_classes(cupy, name):
    require_equal(GradientBoostingClassifier, SETTINGS[name], np.digitize(TARGET, [-0.5, 0.5]))


@pytest.mark.parametrize("name", ["penalties", "rows"])
def test_rows_have_weights(cupy, name):
    require_equal(GradientBoostingClassifier, SETTINGS[name], Y, sample_weight=WEIGHT)


def test_targets_differ(cupy):
    targets = [TARGET, TARGET**2, 3 - TARGET]
    models = [GradientBoostingRegressor(n_estimators=3, device="cuda") for _ in targets]
    pairs = zip(models, targets, strict=True)
    run_together([lambda model=model, y=y: model.fit(X, y) for model, y in pairs], 3)
    for model, y in zip(models, targets, strict=True):
        alone = GradientBoostingRegressor(n_estimators=3, device="cpu").fit(X, y)
        assert model.forest_.fingerprint() == alone.forest_.fingerprint()


FOLDS = {
    "rows": {"subsample": 0.6},
    "features": {"colsample_bynode": 0.5, "min_samples_leaf": 9},
    "monotone values": {"monotonic_cst": [1, 0, -1, 0, 0]},
    "categories": {"categorical_features": [3, 4], "max_depth": 3},
    "without a limit of leaves": {"max_leaf_nodes": None, "max_depth": 3, "min_samples_leaf": 8},
    "losses": {"loss": "absolute_error", "subsample": 0.6},
    "rows by their gradients": {"sampling": "goss", "learning_rate": 1.0},
}


def table_of_folds():
    """In fold 0 column 2 is constant, and column 1 has no missing value."""
    table = X[:203].astype(np.float64)
    table[:, 3] = np.arange(203) * 7 % 5
    table[:, 4] = np.arange(203) // 5 % 2
    table[np.arange(203) % 5 != 0, 2] = 0.5
    table[np.arange(203) % 5 != 0, 1] = np.nan_to_num(table[np.arange(203) % 5 != 0, 1])
    return table


def fit_folds(kind, table, y, settings, device, **further):
    """Fit a model to the rows of each of five folds of unequal sizes."""
    folds = [np.flatnonzero(np.arange(len(y)) % 5 != k) for k in range(5)]
    models = [kind(**{"n_estimators": 2, "device": device} | settings) for _ in folds]
    fits = [
        partial(model.fit, table[own], y[own], **{k: v[own] for k, v in further.items()})
        for model, own in zip(models, folds, strict=True)
    ]
    return run_together(fits, 5) if device == "cuda" else [fit() for fit in fits]


@pytest.mark.parametrize("name", FOLDS)
def test_folds(cupy, name):
    table, y, how = table_of_folds(), TARGET[:203], FOLDS[name]
    pairs = [fit_folds(GradientBoostingRegressor, table, y, how, where) for where in PLACES]
    assert len(set(map(fingerprint, pairs[0]))) == 5
    assert list(map(fingerprint, pairs[0])) == list(map(fingerprint, pairs[1]))


@pytest.mark.parametrize("how", [{}, {"subsample": 0.6, "class_weight": "balanced"}], ids=str)
def test_folds_of_three_classes(cupy, how):
    """Of two numbers of rows, in one batch."""
    table, y = table_of_folds(), np.digitize(TARGET[:203], [-0.5, 0.5])
    weight = np.arange(203) % 3 * 0.7
    pairs = [
        fit_folds(GradientBoostingClassifier, table, y, how, where, sample_weight=weight)
        for where in PLACES
    ]
    assert list(map(fingerprint, pairs[0])) == list(map(fingerprint, pairs[1]))


@given(
    st.lists(st.integers(30, 90), min_size=2, max_size=4),
    st.fixed_dictionaries(
        {"n_estimators": st.integers(1, 3), "max_depth": st.integers(1, 3)},
        optional={
            "subsample": st.sampled_from([0.3, 0.8]),
            "colsample_bytree": st.just(0.4),
            "min_samples_leaf": st.integers(1, 20),
            "max_bins": st.sampled_from([5, 255]),
            "monotonic_cst": st.just([0, 1, -1, 0, 0]),
            "categorical_features": st.just([3, 4]),
            "early_stopping": st.just(True),
        },
    ),
    st.booleans(),
)
@settings(max_examples=8)
def test_tables_of_any_rows(cupy, sizes, given_settings, has_weights):
    """Of which the second has weights, and the last one ends a round later than the others."""
    table = table_of_folds()
    begins = np.cumsum([0, *sizes[:-1]]) % 100

    def fits(device):
        for k, (begin, size) in enumerate(zip(begins, sizes, strict=True)):
            own = slice(begin, begin + size)
            how = {"device": device, "random_state": k} | given_settings
            how["n_estimators"] += k == len(sizes) - 1
            more = {"sample_weight": WEIGHT[own]} if has_weights and k == 1 else {}
            yield partial(GradientBoostingRegressor(**how).fit, table[own], TARGET[own], **more)

    together, alone = run_together([*fits("cuda")], len(sizes)), [fit() for fit in fits("cpu")]
    assert list(map(fingerprint, together)) == list(map(fingerprint, alone))


EARLY = {"early_stopping": True, "n_iter_no_change": 2}
HOW = {
    "goss": {
        "sampling": st.just("goss"), "learning_rate": st.just(1.0),
        "top_rate": st.sampled_from([0.0, 0.1, 0.4]), "other_rate": st.sampled_from([0.1, 0.9]),
    },
    "mvs": {"sampling": st.just("mvs"), "subsample": st.sampled_from([0.1, 0.5, 0.95])},
    "quantile": {
        "loss": st.just("quantile"), "quantile": st.sampled_from([0.1, 0.5, [0.2, 0.9]]),
        "subsample": st.sampled_from([0.5, 1.0]),
    },
    "huber": {
        "loss": st.sampled_from([Huber(0.1), Huber(0.9)]),
        "subsample": st.sampled_from([0.5, 1.0]),
    },
    "held out": {
        "loss": st.sampled_from(["squared_error", "poisson", "huber"]),
        "validation_fraction": st.sampled_from([0.1, 0.3]),
        **{name: st.just(value) for name, value in EARLY.items()},
    },
}  # fmt: skip


def models_of(name):
    """Several models of a kind, some beside a plain one, with rows and weights of their own."""
    model = st.fixed_dictionaries(HOW[name])
    rows = st.tuples(st.integers(0, 120), st.integers(30, 80), st.booleans())
    return st.lists(st.tuples(model, rows), min_size=2, max_size=4)


@pytest.mark.parametrize("name", HOW)
def test_random_models_of_a_kind(cupy, name):
    """Beside a plain one: bit for bit those of their own fits, with the same metrics."""
    table, target = table_of_folds(), abs(TARGET[:203])

    def fits(drawn, device):
        plain = {}, (3, 60, False)
        for k, (how, (begin, size, has_weight)) in enumerate([*drawn, plain]):
            own = slice(begin, begin + size)
            how = {"n_estimators": 2, "max_depth": 2, "min_samples_leaf": 3, **how}
            more = {"sample_weight": WEIGHT[own]} if has_weight else {}
            model = GradientBoostingRegressor(device=device, random_state=k, **how)
            yield partial(model.fit, table[own], target[own], **more)

    @given(models_of(name))
    @settings(max_examples=20)
    def are_equal(drawn):
        together, alone = run_together([*fits(drawn, "cuda")], len(drawn) + 1), fits(drawn, "cpu")
        for own, expected in zip(together, [fit() for fit in alone], strict=True):
            assert fingerprint(own) == fingerprint(expected)
            assert own.evals_result_ == expected.evals_result_

    are_equal()


@pytest.mark.parametrize("how", [
    EARLY, EARLY | {"subsample": 0.5}, EARLY | {"class_weight": "balanced"},
    {"sampling": "balanced", "subsample": 0.5}, {"sampling": "goss", "learning_rate": 1.0},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("n_classes", [2, 3])
def test_folds_of_classes(cupy, how, n_classes):
    """Held out rows, and samples by chances, of tables with one number of rows or two."""
    table, y = table_of_folds(), np.digitize(TARGET[:203], [-0.5, 0.5][: n_classes - 1])
    pairs = [
        fit_folds(GradientBoostingClassifier, table, y, how, where,
                  sample_weight=np.arange(203) % 3 * 0.7) for where in PLACES
    ]  # fmt: skip
    for own, alone in zip(*pairs, strict=True):
        assert fingerprint(own) == fingerprint(alone)
        assert own.evals_result_ == alone.evals_result_


def test_several_evaluation_sets(cupy):
    """Of which some models have none, others one or two, and the metrics of training rows."""
    sets = [[], [(X[:70], TARGET[:70])], [(X[:70], TARGET[:70]), (X[50:90], TARGET[50:90])]]
    found = []
    for where in PLACES:
        fits = [
            partial(GradientBoostingRegressor(n_estimators=3, device=where, verbose=k).fit,
                    X, TARGET, **({"eval_set": own} if own else {}))
            for k, own in enumerate(sets)
        ]  # fmt: skip
        found.append(run_together(fits, 3) if where == "cuda" else [fit() for fit in fits])
    for own, alone in zip(*found, strict=True):
        assert fingerprint(own) == fingerprint(alone)
        assert own.evals_result_ == alone.evals_result_


def test_folds_of_a_search(cupy):
    """Of unequal sizes, each by its rows and those that it is scored on."""
    grid, scores = {"max_leaf_nodes": [3, 6], "l2_regularization": [0.0, 2.0]}, []
    for where in PLACES:
        model = GradientBoostingRegressor(n_estimators=2, device=where)
        search = GridSearchCV(model, grid, cv=5).fit(table_of_folds(), TARGET[:203])
        scores.append([search.cv_results_[f"split{k}_test_score"] for k in range(5)])
    np.testing.assert_array_equal(*scores)


def ensembles(where):
    """With members of several losses and draws, of which one grows by itself."""
    kinds = {}, {"loss": "huber", "subsample": 0.6}, {"max_leaf_nodes": 4}, {"line_search": True}
    members = [
        (f"m{k}", GradientBoostingRegressor(n_estimators=2, random_state=k, device=where, **own))
        for k, own in enumerate(kinds)
    ]
    yield StackingRegressor(members, cv=3)
    yield StackingRegressor(members, cv="holdout")
    yield VotingRegressor(members, weights="optimal")
    for features in ({}, {"max_features": 0.6}, {"bootstrap": False, "max_samples": 0.4}):
        yield BaggingRegressor(members[1][1], n_estimators=4, **features)


@pytest.mark.parametrize("number", range(6))
def test_members_of_ensembles(cupy, number):
    """Their final models, too, which see what copies on folds have predicted."""
    weight = {} if number > 2 else {"sample_weight": WEIGHT[:203]}
    pair = [[*ensembles(where)][number] for where in PLACES]
    together, alone = [own.fit(table_of_folds(), TARGET[:203], **weight) for own in pair]
    prints = [list(map(fingerprint, own.estimators_)) for own in (together, alone)]
    assert len(set(prints[0])) == 4 and prints[0] == prints[1]
    for name in ("final_estimator_", "weights_"):
        found = [getattr(own, name, None) for own in (together, alone)]
        pairs = [getattr(own, "coef_", own) for own in found]
        np.testing.assert_array_equal(*pairs)


def test_a_model_stops_early(cupy):
    settings = [{"n_estimators": 8, "n_iter_no_change": k, "learning_rate": 0.9} for k in (1, 3, 8)]
    watched = {"eval_set": (X[:100], TARGET[:100][::-1].copy())}
    require_equal(GradientBoostingRegressor, settings, TARGET, **watched)


@pytest.mark.parametrize("is_late", [False, True])
def test_gradients_of_one_model_are_not_finite(cupy, is_late):
    """From the first round on, or behind one whose values are too large; the others go on."""

    def fit(y, device, **settings):
        model = GradientBoostingRegressor(n_estimators=4, device=device, **settings)
        try:
            return fingerprint(model.fit(X, y, sample_weight=np.full(300, 1e3)))
        except ValueError as error:
            return str(error)

    def found(device):
        rate = {"learning_rate": lambda index: 1e35 if index == 1 else 0.1}
        wrong = partial(fit, TARGET, **rate) if is_late else partial(fit, TARGET * 1e36)
        fits = [
            partial(own, device=device)
            for own in (partial(fit, TARGET), wrong, partial(fit, TARGET**2))
        ]
        return run_together(fits, 3) if device == "cuda" else [own() for own in fits]

    with np.errstate(all="ignore"):
        together, alone = map(found, PLACES)
    assert "float32" in alone[1] and together == alone
