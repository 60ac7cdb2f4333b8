"""Models that are trained together are those of their own fits, bit for bit."""

from __future__ import annotations

import _thread
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from gpuens import (
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    GridSearchCV,
    TunedRegressor,
    fit_many,
)
from gpuens.boosting.rounds import BoostingRounds
from gpuens.boosting.steps import joined_models, joined_round, many_models, plain
from gpuens.boosting.steps.many_models import (
    Meeting,
    RoundsTogether,
    meeting_here,
    run_together,
)
from gpuens.devices.placement import Device
from gpuens.losses import ArrayLoss, CustomLoss, Loss, names
from gpuens.tuning import boosting as searching
from tests.support import strict_cupy
from tests.support.lanes import few

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5)).round(2)
X[RNG.random(X.shape) < 0.1] = np.nan
TARGET = np.nan_to_num(X[:, 0] + np.sin(3 * X[:, 1])) + 0.1 * RNG.normal(size=300)
TARGETS = {
    "numbers": TARGET,
    "two classes": (TARGET > 0).astype(int),
    "three classes": np.digitize(TARGET, [-0.5, 0.5]),
    "two numbers": np.stack([TARGET, TARGET**2], axis=1),
}
FURTHER = {
    "rows": {},
    "weights": {"sample_weight": np.arange(300) % 3 * 0.7},
    "watched": {"eval_set": (X[:90], None)},
    "folds": {"sample_weight": np.arange(300) % 7 * 0.4},
}
SETTINGS = st.fixed_dictionaries(
    {"n_estimators": st.integers(1, 6), "n_jobs": st.just(1), "device": st.just("cpu")},
    optional={
        "random_state": st.integers(0, 9),
        "learning_rate": st.sampled_from([0.05, 0.3, 1.0]),
        "max_leaf_nodes": st.sampled_from([None, 2, 5, 31]),
        "max_depth": st.sampled_from([1, 3, 5]),
        "min_samples_leaf": st.integers(1, 40),
        "l2_regularization": st.sampled_from([0.0, 1.0, 9.0]),
        "min_gain_to_split": st.sampled_from([0.0, 0.5]),
        "min_sum_hessian": st.sampled_from([0.0, 5.0]),
        "min_impurity_decrease": st.sampled_from([0.0, 0.01]),
        "subsample": st.sampled_from([0.3, 0.8, 1.0]),
        "colsample_bytree": st.sampled_from([0.4, 1.0]),
        "colsample_bynode": st.sampled_from([0.4, 1.0]),
        "sampling": st.sampled_from(["uniform", "goss", "mvs"]),
        "max_bins": st.sampled_from([20, 255]),
        "early_stopping": st.just(True),
        "n_iter_no_change": st.integers(1, 3),
    },
)
SPECIAL = [
    {"grow_policy": "depthwise"},
    {"grow_policy": "symmetric"},
    {"multi_strategy": "multi_output_tree"},
    {"monotonic_cst": [1, 0, 0, -1, 0]},
    {"interaction_cst": [[0, 1, 2], [3, 4]]},
    {"dropout": 0.3},
    {"linear_leaves": True},
    {"line_search": True},
    {"loss": "huber"},
    {"loss": "absolute_error"},
]
ANY = st.one_of(SETTINGS, SETTINGS, st.builds(dict.__or__, SETTINGS, st.sampled_from(SPECIAL)))


def kind_of(target):
    is_of_classes = "classes" in target
    return GradientBoostingClassifier if is_of_classes else GradientBoostingRegressor


def fits_of(models, target, further):
    y, more = TARGETS[target], dict(FURTHER[further])
    if "eval_set" in more:
        more["eval_set"] = (X[:90], y[:90][::-1])

    def fit(model, k):
        rows, own = slice(None), more
        if further == "folds":  # of 225 to 227 rows, every other one with weights
            rows = np.arange(300) % 4 != k
            rows[:k] = True
            own = {"sample_weight": more["sample_weight"][rows]} if k % 2 else {}
        try:
            return model.fit(X[rows], y[rows], **own)
        except (ValueError, NotImplementedError) as error:  # settings that do not go together
            return str(error)

    return [partial(fit, model, k) for k, model in enumerate(models)]


def require_equal(found, expected):
    assert len(found) == len(expected)
    for own, alone in zip(found, expected, strict=True):
        if isinstance(alone, str):
            assert own == alone
            continue
        assert own.forest_.fingerprint() == alone.forest_.fingerprint()
        assert (own.n_iter_, own.stopped_) == (alone.n_iter_, alone.stopped_)
        np.testing.assert_equal(own.evals_result_, alone.evals_result_)


@given(
    st.lists(ANY, min_size=2, max_size=5),
    st.sampled_from(sorted(TARGETS)),
    st.sampled_from(sorted(FURTHER)),
    st.integers(2, 5),
)
@settings(max_examples=25)
def test_models_are_those_of_their_own_fits(given_settings, target, further, most):
    kind = kind_of(target)
    alone = [fit() for fit in fits_of([kind(**own) for own in given_settings], target, further)]
    fits = fits_of([kind(**own) for own in given_settings], target, further)
    require_equal(run_together(fits, most), alone)


def gradients_of_squared(y, score):
    if y.ndim < score.ndim:
        y = y[:, None] == np.arange(score.shape[1])
    return score - y, np.ones_like(score)


def squared(y, score):
    return 0.5 * (score - y) * (score - y)


def difference(y, score):
    return score - y


CUSTOM = (CustomLoss(squared, difference), ArrayLoss(gradients_of_squared))
COUNTS = np.ceil(np.exp(TARGET))
TIMES = np.zeros(300, dtype=[("event", bool), ("time", float)])
TIMES["event"], TIMES["time"] = RNG.random(300) < 0.7, np.exp(TARGET)
OF_LOSSES = {
    "number": (GradientBoostingRegressor, COUNTS, {}),
    "numbers": (GradientBoostingRegressor, np.stack([COUNTS, COUNTS**2, COUNTS + 1], axis=1), {}),
    "two classes": (GradientBoostingClassifier, TARGETS["two classes"], {}),
    "classes": (GradientBoostingClassifier, TARGETS["three classes"], {}),
    "times": (GradientBoostingRegressor, TIMES, {}),
    "grades": (GradientBoostingRanker, TARGETS["three classes"], {"qid": np.arange(300) // 10}),
}
"""The estimator, target and further arguments of each kind of loss."""
WITH_LOSSES = [
    *((kind, own.name) for kind in ("number", "numbers") for own in names.OF_NUMBERS),
    *(("number", own.name) for own in names.OF_DISTRIBUTIONS),
    *(("two classes", own.name) for own in names.OF_CLASSES),
    *(("classes", own.name) for own in names.OF_CLASSES if own.name != "exponential"),
    *(("times", own.name) for own in names.OF_TIMES),
    *(("grades", own.name) for own in names.OF_RANKINGS),
    *((kind, own) for kind in ("number", "numbers", "two classes", "classes") for own in CUSTOM),
]
PAIRS = [
    *((own, own) for own in WITH_LOSSES),
    (("number", "squared_error"), ("number", "normal")),
    (("number", "squared_error"), ("number", "poisson")),
    (("number", "squared_error"), ("numbers", "squared_error")),
    (("number", CUSTOM[0]), ("classes", CUSTOM[0])),
    (("numbers", CUSTOM[0]), ("classes", CUSTOM[0])),
    (("times", "cox"), ("grades", "lambdarank")),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: " and ".join(map(str, pair)))
def test_models_of_every_loss(grown, pair):
    """The third has fewer rows, with which several outputs do not join those of more."""

    def fit(number):
        kind, loss = pair[number % 2]
        estimator, y, further = OF_LOSSES[kind]
        n = 300 if number < 2 else 290
        how = {"n_estimators": 3, "max_leaf_nodes": 5, "subsample": 0.7, "device": "cpu"}
        if loss in ("quantile", "expectile"):
            how["quantile"] = 0.7
        further = {name: own[:n] for name, own in further.items()}
        model = estimator(loss=loss, random_state=number, n_jobs=1, **how)
        return model.fit(X[:n], y[:n], **further)

    alone = [fit(number) for number in range(3)]
    n_outputs = alone[2].forest_.n_trees // 3
    require_equal(run_together([partial(fit, number) for number in range(3)], 3), alone)
    assert grown == ([3] * 3 if n_outputs == 1 else [2, 1] * 3)


@pytest.fixture
def grown(monkeypatch):
    """How many models each batch had."""
    sizes, grow = [], joined_round.grow_models

    def noted(stack, g, h, models, *how):
        sizes.append(len(models))
        return grow(stack, g, h, models, *how)

    monkeypatch.setattr(joined_round, "grow_models", noted)
    return sizes


def boosting(**given_settings):
    return GradientBoostingRegressor(
        **{"n_estimators": 4, "learning_rate": 0.3, "device": "cpu", "n_jobs": 1} | given_settings
    )


def models_of(n, **given_settings):
    return [boosting(random_state=k, subsample=0.7, **given_settings) for k in range(n)]


def test_a_round_is_one_batch(grown):
    run_together(fits_of(models_of(5), "numbers", "rows"), 5)
    assert grown == [5] * 4


def test_tables_of_folds_are_one_batch(grown):
    """Whose columns have other bins, also where a model has finished."""
    models = [boosting(random_state=k, n_estimators=2 + k, subsample=0.7) for k in range(4)]
    alone = [fit() for fit in fits_of(map(clone, models), "numbers", "folds")]
    require_equal(run_together(fits_of(models, "numbers", "folds"), 4), alone)
    assert grown == [4, 4, 3, 2, 1]


def test_categories_of_folds_are_as_many(grown):
    """Others are another batch."""
    table = np.stack([np.arange(300) // 60, np.arange(300) % 7], axis=1).astype(np.float64)
    folds = [np.arange(300) % 5 != k for k in range(3)] + [np.arange(300) < 240]
    models = [boosting(categorical_features=[0], min_samples_leaf=3) for _ in folds]

    def fits():
        pairs = zip(models, folds, strict=True)
        return [partial(clone(model).fit, table[own], TARGET[own]) for model, own in pairs]

    require_equal(run_together(fits(), 4), [fit() for fit in fits()])
    assert grown == [3, 1] * 4


@pytest.fixture
def room(monkeypatch):
    """Bytes on a GPU for copies of tables: those that are free, and those that copies take."""
    strict_cupy.install(monkeypatch)
    room = SimpleNamespace(free=10**9, copied=[], raises=False)
    can_stack, stack_tables = many_models._can_stack, joined_models.stack_tables

    def with_room(*given, **how):  # plans of trainings have enough
        with monkeypatch.context() as patch:
            patch.setattr(Device, "memory", lambda device: (room.free, None))
            return can_stack(*given, **how)

    def stack(tables, n_bins):
        if len(tables) > 1:
            if room.raises:
                raise MemoryError
            room.copied.append(sum(own.rows.size + own.columns.size for own in tables))
            room.free -= room.copied[-1]
        return stack_tables(tables, n_bins)

    monkeypatch.setattr(many_models, "_can_stack", with_room)
    monkeypatch.setattr(joined_models, "stack_tables", stack)
    return room


def test_no_memory_for_a_copy_of_the_tables(grown, room):
    """Folds are batches of their own then."""
    how = {"folds": 2, "param_grid": {"max_depth": [2, 3]}}
    expected = fit_many(boosting(), X, TARGET, **how)
    for free, raises, sizes in ((10**9, False, [4]), (0, False, [2, 2]), (10**9, True, [2, 2])):
        grown.clear()
        room.free, room.raises = free, raises
        found = fit_many(boosting(device="cuda"), X, TARGET, **how)
        assert grown == sizes * 4
        for own, alone in zip(found, expected, strict=True):
            require_equal(own, alone)


def test_tables_that_are_copied_need_no_memory_again(grown, room):
    """When a model leaves, the others stay together."""
    models = [boosting(n_estimators=1 + k, device="cuda") for k in range(3)]
    run_together(fits_of(map(clone, models), "numbers", "folds"), 3)
    (room.free,) = room.copied
    run_together(fits_of(models, "numbers", "folds"), 3)
    assert grown == [3, 2, 1] * 2


def test_batches_share_the_memory_for_copies(grown, room):
    """There is enough for the tables of one of two batches."""
    cuts = [{"monotonic_cst": [k // 2, 0, 0, 0, 0]} for k in range(4)]
    models = [boosting(n_estimators=1, device="cuda", **own) for own in cuts]
    run_together(fits_of(map(clone, models), "numbers", "folds"), 4)
    assert grown == [2, 2]
    room.free = sum(room.copied) - 1
    run_together(fits_of(models, "numbers", "folds"), 4)
    assert grown == [2, 2, 2, 1, 1]


@pytest.fixture
def stacked(monkeypatch):
    """How many tables each copy of evaluation sets had, and the numbers of the copies, from 0, for
    which there is no memory: known before, or found out."""
    strict_cupy.install(monkeypatch)
    stacked = SimpleNamespace(sizes=[], without_room=[], failing=[])
    stack_sets = joined_models.stack_sets

    def has_room(*given):
        if len(stacked.sizes) in stacked.without_room:
            stacked.sizes.append(0)
            return False
        return True

    def noted(sets):
        stacked.sizes.append(len(sets))
        if len(stacked.sizes) - 1 in stacked.failing:
            raise MemoryError
        return stack_sets(sets)

    monkeypatch.setattr(joined_models, "has_room", has_room)
    monkeypatch.setattr(joined_models, "stack_sets", noted)
    return stacked


def watched_fits(target="numbers", n_models=4, device="cuda", are_folds=True):
    """Of models that end one after the other, with evaluation sets of unequal sizes on tables of
    their own, or one set on one table."""
    kind, y = kind_of(target), TARGETS[target]

    def fit(k):
        rows = slice(10 * k * are_folds, None)
        own = slice(90 - 10 * k * are_folds)
        model = kind(n_estimators=2 + k, max_leaf_nodes=4, random_state=k, device=device, n_jobs=1)
        return model.fit(X[rows], y[rows], eval_set=(X[own], y[own][::-1].copy()))

    return [partial(fit, k) for k in range(n_models)]


def test_models_share_an_evaluation_set(stacked):
    """Which is not copied then."""
    found = run_together(watched_fits(are_folds=False), 4)
    assert stacked.sizes == [1]
    require_equal(found, [fit() for fit in watched_fits(device="cpu", are_folds=False)])


def test_evaluation_sets_are_copied_once(stacked, grown):
    """Also where models leave."""
    found = run_together(watched_fits(), 4)
    assert stacked.sizes == [4] and grown == [4, 4, 3, 2, 1]
    require_equal(found, [fit() for fit in watched_fits(device="cpu")])


@pytest.mark.parametrize("target", ["numbers", "three classes"])
@pytest.mark.parametrize("how", ["without_room", "failing"])
@pytest.mark.parametrize("copies", [[0], [1], range(99)], ids=str)
def test_no_memory_for_copies_of_evaluation_sets(stacked, grown, target, how, copies):
    """Models that are together have sets of their own then; others come when some have ended."""
    setattr(stacked, how, copies)
    found = run_together(watched_fits(target), 3)
    assert len(stacked.sizes) > 1 and max(grown) == 3
    require_equal(found, [fit() for fit in watched_fits(target, device="cpu")])


@pytest.fixture
def means(monkeypatch):
    """How many models each joint mean of a loss is of."""
    sizes, values = [], Loss.values_of_models

    def noted(losses, rows):
        sizes.append(len(losses))
        return values(losses, rows)

    monkeypatch.setattr(Loss, "values_of_models", staticmethod(noted))
    return sizes


def test_those_that_have_a_set_join_it(means, monkeypatch):
    """And the first one, where the second is too large."""
    sets = [(X[:60], TARGET[:60]), (X[:200], TARGET[:200])]
    numbers = 1, 0, 1, 2, 1

    def fits():
        further = [{"eval_set": sets[:n]} if n else {} for n in numbers]
        return [partial(boosting(random_state=n).fit, X, TARGET, **own) for n, own in
                zip(numbers, further, strict=True)]  # fmt: skip

    alone = [fit() for fit in fits()]
    means.clear()
    require_equal(run_together(fits(), 5), alone)
    assert means == [4, 1] * 4
    means.clear()
    monkeypatch.setattr(joined_models, "BATCH_RECORDS_ON_GPU", 5 * 100)
    require_equal(run_together(fits(), 5), alone)
    assert means == [4] * 4


def test_a_model_that_is_finished_leaves(grown):
    models = [boosting(n_estimators=k + 1) for k in range(3)]
    run_together(fits_of(models, "numbers", "rows"), 3)
    assert grown == [3, 2, 1]


def test_batches_have_what_models_share(grown, capsys):
    cuts = [{"monotonic_cst": [k, 0, 0, 0, 0]} for k in (1, 0)]
    models = [boosting(verbose=True, **cuts[k]) for k in (0, 1, 0, 1, 1)]
    run_together(fits_of(models, "numbers", "rows"), 5)
    assert grown == [2, 3] * 4
    assert capsys.readouterr().err.count("5 models grow in 2 batches: 2 + 3.") == 1


def test_memory_bounds_batches(grown, monkeypatch):
    monkeypatch.setattr(plain, "BATCH_RECORDS", 2 * len(X))
    alone = [fit() for fit in fits_of(models_of(5), "numbers", "rows")]
    require_equal(run_together(fits_of(models_of(5), "numbers", "rows"), 5), alone)
    assert grown == [2, 2, 1] * 4


def test_others_take_the_places_of_those_that_are_finished(grown):
    run_together(fits_of(models_of(5), "numbers", "rows"), 2)
    assert max(grown) == 2 and sum(grown) == 5 * 4


def test_each_model_has_its_callbacks():
    seen = {name: [] for name in "ab"}

    def noting(name, last):
        def after_iteration(state):
            seen[name].append(state.iteration)
            return state.iteration == last

        return [after_iteration]

    models = [boosting(callbacks=noting("a", 2)), boosting(callbacks=noting("b", 9))]
    run_together(fits_of(models, "numbers", "rows"), 2)
    assert seen == {"a": [1, 2], "b": [1, 2, 3, 4]}
    assert [model.stopped_ for model in models] == ["callback", "finished"]


def test_gradients_of_one_model_are_not_finite(grown):
    """It fails; the others go on without it."""
    targets, weight = [TARGET, TARGET * 1e36, TARGET**2], np.full(300, 1e3)

    def fit(y):
        try:
            return boosting().fit(X, y, sample_weight=weight)
        except ValueError as error:
            return str(error)

    with np.errstate(over="ignore"):
        found = run_together([partial(fit, y) for y in targets], 3)
        alone = [fit(y) for y in targets]
    assert "do not fit float32" in found[1]
    require_equal(found, alone)
    assert grown == [2] * 4


def test_an_error_ends_all():
    def wrong(state):
        if state.iteration == 2:
            raise RuntimeError("This callback fails.")

    models = [boosting(n_estimators=500), boosting(n_estimators=500, callbacks=[wrong])]
    with pytest.raises(RuntimeError, match="This callback fails"):
        run_together([partial(model.fit, X, TARGET) for model in models], 2)
    assert not hasattr(models[0], "forest_")


def test_ctrl_c_ends_all():
    def interrupted(state):
        if state.iteration == 2:
            raise KeyboardInterrupt

    models = [boosting(n_estimators=500), boosting(n_estimators=500, callbacks=[interrupted])]
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        run_together([partial(model.fit, X, TARGET) for model in models], 2)
    assert threading.active_count() == before
    assert not hasattr(models[0], "forest_")


def test_ctrl_c_in_a_round_is_raised_where_it_comes(monkeypatch):
    """The other model, whose round it was too, ends without an error of its own."""

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(joined_round, "add_values_of_models", interrupted)
    errors = []

    def fit(model):
        try:
            model.fit(X, TARGET)
        except BaseException as error:
            errors.append(repr(error))
            raise

    with pytest.raises(KeyboardInterrupt):
        run_together([partial(fit, boosting()), partial(fit, boosting())], 2)
    assert errors == ["KeyboardInterrupt()", "MeetingEnded()"]


def test_settled_trees_are_not_kept():
    asked = joined_round.AskedRounds(None, 0, 2, threading.Condition())
    asked.grown.extend([["first"], ["second"]])
    assert asked.settle_next() == ["first"]
    assert list(asked.grown) == [["second"]]


@pytest.fixture
def asked(monkeypatch):
    """The first round of each wait, and the one behind the last, by ``n_unseen`` of the model."""
    waits, wait_for = {}, Meeting.wait_for

    def noted(meeting, models, first, end):
        waits.setdefault(models[0].n_unseen, []).append((first, end))
        return wait_for(meeting, models, first, end)

    monkeypatch.setattr(Meeting, "wait_for", noted)
    return waits


def test_a_model_waits_once_for_rounds_that_nobody_looks_at(asked, grown):
    """Beside one whose callback is called after each."""
    models = [boosting(random_state=k, n_estimators=k, subsample=0.7) for k in (2, 3, 5)]
    seen = boosting(callbacks=[lambda state: None])
    alone = [fit() for fit in fits_of(map(clone, [*models, seen]), "numbers", "rows")]
    require_equal(run_together(fits_of([*models, seen], "numbers", "rows"), 4), alone)
    assert asked == {2: [(0, 2)], 3: [(0, 3)], 5: [(0, 5)], 0: [(k, k + 1) for k in range(4)]}
    assert grown == [4, 4, 3, 2, 1]


def test_one_of_the_rounds_that_nobody_looks_at_fails(asked):
    """The others go on."""

    def schedule(index):
        if index == 2:
            raise ZeroDivisionError("a schedule fails")
        return 0.5

    models = [boosting(learning_rate=schedule), boosting(n_estimators=7)]
    errors = errors_of(models)
    assert [type(error) for error in errors] == [ZeroDivisionError, type(None)]
    assert asked == {4: [(0, 4)], 7: [(0, 7)]}
    require_equal(models[1:], [boosting(n_estimators=7).fit(X, TARGET)])


def test_the_first_error_is_raised():
    """However the threads of those that it ends are switched."""

    def wait(number):
        meeting_here.get().wait_for([SimpleNamespace(number=number)], 0, 1)

    def fail():
        time.sleep(0.001)
        raise ValueError("the first error")

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(100):
            with pytest.raises(ValueError, match="the first error"):
                run_together([*(partial(wait, number) for number in range(8)), fail], 9)
    finally:
        sys.setswitchinterval(before)


def errors_of(models):
    """The error of each fit of models that are trained together, or None."""

    def fit(model):
        try:
            model.fit(X, TARGET)
        except Exception as error:
            return error
        return None

    return run_together([partial(fit, model) for model in models], len(models))


@pytest.mark.parametrize("name", ["gradients_of_models", "lines_of", "grow_models"])
def test_what_fails_for_all_is_an_error_of_each(monkeypatch, name):
    """An error in the gradients, arrays or growth that models share ends all of them."""
    module = joined_round if name == "grow_models" else joined_models
    function, calls = getattr(module, name), []

    def failing(*args):
        calls.append(args)
        if len(calls) == (1 if name == "lines_of" else 3):
            raise MemoryError("no room")
        return function(*args)

    monkeypatch.setattr(module, name, failing)
    errors = errors_of(models_of(3))
    assert all(isinstance(error, MemoryError) for error in errors)
    assert len(set(map(id, errors))) == 3
    assert all("no room" in str(error) for error in errors)


@pytest.mark.parametrize("name", ["take", "begin"])
def test_the_error_of_a_model_is_its_own(monkeypatch, name):
    step = getattr(RoundsTogether, name)

    def failing(self, *args, **how):
        if self.training.settings.params.max_depth == 2 and self.failed > 1:
            raise ZeroDivisionError("a loss fails")
        self.failed += 1
        return step(self, *args, **how)

    monkeypatch.setattr(RoundsTogether, "failed", 0, raising=False)
    # Bounded values are each model's own.
    models = [boosting(max_depth=depth, monotonic_cst=[1, 0, 0, 0, 0]) for depth in (3, 2, 4)]
    alone = [clone(model).fit(X, TARGET) for model in models[::2]]
    monkeypatch.setattr(RoundsTogether, name, failing)
    errors = errors_of(models)
    assert [type(error) for error in errors] == [type(None), ZeroDivisionError, type(None)]
    require_equal([models[0], models[2]], alone)


@pytest.mark.parametrize("call", range(4, 12))
def test_the_error_of_a_schedule_is_its_own(call):
    """Gradient-based sampling asks it for a rate before any rows are drawn."""

    def schedule(index):
        calls.append(index)
        if len(calls) > call:
            raise ZeroDivisionError("a schedule fails")
        return 0.5

    calls = []
    own = {"sampling": "goss", "learning_rate": schedule}
    models = [boosting(), boosting(**own), boosting(sampling="goss", learning_rate=0.9)]
    errors = errors_of(models)
    assert len(calls) == call + 1
    assert [type(error) for error in errors] == [type(None), ZeroDivisionError, type(None)]
    alone = [boosting(), boosting(sampling="goss", learning_rate=0.9)]
    require_equal([models[0], models[2]], [model.fit(X, TARGET) for model in alone])


def test_no_threads_start(monkeypatch):
    """As in ``atexit``."""

    def submit(self, function, *args):
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    alone = [fit() for fit in fits_of(models_of(3), "numbers", "rows")]
    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
    require_equal(run_together(fits_of(models_of(3), "numbers", "rows"), 2), alone)


def test_threads_have_workspaces_of_their_own(monkeypatch):
    owners, grow = set(), joined_round.grow_models

    def noted(*args):
        owners.add(args[-1])
        return grow(*args)

    monkeypatch.setattr(joined_round, "grow_models", noted)
    here = partial(run_together, fits_of(models_of(2), "numbers", "rows"), 2)
    here()
    here()
    assert owners == {threading.get_ident()}
    other = threading.Thread(target=here)
    other.start()
    other.join()
    assert len(owners) == 2


class TestOnADevice:
    """On arrays that only a GPU reads, where fits of several models meet by themselves."""

    @pytest.fixture
    def cupy(self, monkeypatch):
        return strict_cupy.install(monkeypatch)

    @pytest.fixture
    def there(self, cupy):
        return cupy.asarray(X), cupy.asarray(TARGET)

    GRID = {"max_leaf_nodes": [3, 9], "l2_regularization": [0.0, 4.0]}

    def test_fit_many(self, there, grown):
        how = {"param_grid": self.GRID, "folds": 3}
        found = fit_many(boosting(device="auto"), *there, **how)
        assert grown == [12] * 4
        expected = fit_many(boosting(), X, TARGET, **how)
        for own, alone in zip(found, expected, strict=True):
            require_equal(own, alone)

    def test_the_model_that_fails_is_named(self, there):
        models = [boosting(device="auto"), boosting(device="auto", max_depth=-1)]
        with pytest.raises(ValueError, match="max_depth") as failed:
            fit_many(models, *there)
        assert failed.value.__notes__ == ["From the fit of setting 1 to fold 0, counted from 0."]

    def test_grid_search(self, there, grown):
        found = GridSearchCV(boosting(device="auto"), self.GRID, cv=2).fit(*there)
        assert max(grown) > 1
        expected = GridSearchCV(boosting(), self.GRID, cv=2).fit(X, TARGET)
        name = "mean_test_score"
        np.testing.assert_array_equal(found.cv_results_[name], expected.cv_results_[name])
        require_equal([found.best_estimator_], [expected.best_estimator_])

    def test_models_of_two_devices(self, cupy, grown):
        names = ("cuda:0", "cuda:1", "cuda:1")
        models = [boosting(device=name, random_state=k) for k, name in enumerate(names)]
        found = fit_many(models, X, TARGET)
        assert grown == [1, 2] * 4
        alone = [boosting(random_state=k).fit(X, TARGET) for k in range(len(names))]
        require_equal([own for (own,) in found], alone)

    def test_an_error_ends_a_search(self, there):
        """It is raised, in place of what other threads end with."""

        def failing(state):
            if state.n_iterations == 31 and state.iteration == 3:
                raise ValueError("This callback fails.")

        model = boosting(device="auto", callbacks=[failing])
        grid = {"n_estimators": [30] * 4 + [31] + [30] * 3}
        for n_jobs in (None, 4, 3):
            search = GridSearchCV(model, grid, cv=2, n_jobs=n_jobs, error_score="raise")
            with pytest.raises(ValueError, match="This callback fails"):
                search.fit(*there)

    def test_an_error_of_all_ends_the_search_of_rounds(self, there, monkeypatch):
        def failing(*args):
            raise MemoryError("no room")

        monkeypatch.setattr(joined_models, "lines_of", failing)
        model = boosting(device="auto", n_estimators="auto", grow_policy="lossguide")
        with pytest.raises(MemoryError, match="no room"):
            model.fit(*there)

    def test_ctrl_c_ends_a_search(self, there):
        """It keeps the settings that are finished."""
        interrupted = []

        def interrupting(state):
            if state.n_iterations == 300 and state.iteration == 3 and not interrupted:
                interrupted.append(True)  # another one might come after the search
                _thread.interrupt_main()

        model = boosting(device="auto", callbacks=[interrupting])
        grid = {"n_estimators": [3] * 8 + [300] * 8}
        search = GridSearchCV(model, grid, cv=2, n_jobs=4, refit=False)
        with pytest.warns(RuntimeWarning, match="was interrupted"):
            search.fit(*there)
        assert 4 <= len(search.cv_results_["params"]) < 16

    @pytest.fixture
    def tuned(self):
        space = {"max_leaf_nodes": [3, 9], "learning_rate": [0.3]}
        model = GradientBoostingRegressor(learning_rate=0.3, max_leaf_nodes=4)
        return TunedRegressor(model, budget=3, param_distributions=space, cv=3)

    @pytest.mark.parametrize("last", few([0, 3], 1))
    def test_ctrl_c_in_the_last_training_of_a_tuned_model(self, tuned, there, monkeypatch, last):
        """It keeps the rounds of all members; without one there is nothing to keep."""
        expected = clone(tuned).fit(X, TARGET)
        n_members = len(expected.members_)
        assert n_members > 1

        def interrupted(self, finished):
            if finished.index == last and type(self) is RoundsTogether:
                raise KeyboardInterrupt
            return settle(self, finished)

        settle = BoostingRounds.settle
        monkeypatch.setattr(BoostingRounds, "settle", interrupted)
        if not last:
            with pytest.raises(KeyboardInterrupt):
                tuned.fit(*there)
            return
        what = f"the first 3 rounds of {n_members} of {n_members} members are kept"
        with pytest.warns(RuntimeWarning, match=what):
            tuned.fit(*there)
        assert (tuned.members_, tuned.weights_.tolist()) == (
            expected.members_, expected.weights_.tolist()
        )  # fmt: skip
        assert tuned.forest_.n_trees == 3 * n_members
        sizes = [len(own["mean_test_score"]) for own in (tuned.cv_results_, expected.cv_results_)]
        assert sizes == [3, 3]

    def test_trainings_that_grow_together_share_their_time(self, tuned, there, monkeypatch):
        """By a clock that goes on by a second a round of all."""
        rounds, grow = [], joined_round.grow_models

        def counted(*args):
            rounds.append(1)
            return grow(*args)

        monkeypatch.setattr(joined_round, "grow_models", counted)
        monkeypatch.setattr(searching, "clock", lambda: float(len(rounds)))
        tuned.fit(*there)
        results = tuned.cv_results_
        np.testing.assert_allclose(results["fit_time"], results["n_trained"], rtol=0.2)

    def test_the_number_of_rounds_is_searched(self, there, grown):
        how = {"n_estimators": "auto", "grow_policy": "lossguide", "learning_rate": 1.0}
        found, expected = (boosting(device=device, **how) for device in ("auto", "cpu"))
        found.fit(*there)
        expected.fit(X, TARGET)
        assert set(grown) == {5}  # folds
        require_equal([found], [expected])

    @pytest.mark.slow
    def test_settings_are_searched(self, there, grown):
        found, expected = (
            TunedRegressor(budget=2, random_state=0, device=device) for device in ("auto", "cpu")
        )
        found.fit(*there)
        expected.fit(X, TARGET)
        assert max(grown) > 1
        assert found.forest_.fingerprint() == expected.forest_.fingerprint()

    @pytest.mark.slow
    def test_a_search_with_one_fold_has_plain_rounds(self, there, grown):
        """No other model grows beside that of its only fold, or beside its only member."""
        cv = [(np.arange(200), np.arange(200, 300))]
        model = GradientBoostingRegressor(grow_policy="lossguide")
        found, expected = (
            TunedRegressor(model, budget=1, cv=cv, random_state=0, device=device)
            for device in ("auto", "cpu")
        )
        found.fit(*there)
        expected.fit(X, TARGET)
        assert grown == []
        assert found.forest_.fingerprint() == expected.forest_.fingerprint()
