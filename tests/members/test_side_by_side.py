"""Members of ensembles, their copies on folds, and settings are trained side by side."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from gpuens import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    GridSearchCV,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
    fit_many,
)
from gpuens.datasets import make_higgs_like
from gpuens.estimators import parameters
from gpuens.estimators.parameters import threads_of
from gpuens.members import side_by_side
from gpuens.members.side_by_side import TrainingGroup
from gpuens.trees import growth

X, Y = make_higgs_like(200, 4)
MANY_ROUNDS = 10**5


def named(*models):
    return [(f"m{k}", model) for k, model in enumerate(models)]


WAYS = {
    "stack": lambda one, other: StackingClassifier(named(one, other), cv=2),
    "stack with holdout": lambda one, other: StackingClassifier(named(one, other), cv="holdout"),
    "vote": lambda one, other: VotingClassifier(named(one, other), voting="soft"),
    "weighted vote": lambda one, other: VotingClassifier(
        named(one, other), voting="soft", weights="optimal"
    ),
    "bag": lambda one, other: BaggingClassifier(one, 2),
    "bag in two threads": lambda one, other: BaggingClassifier(one, 2, n_jobs=2),
}
ALL_WAYS = [*WAYS, "settings"]


def fit(way, one, other):
    if way == "settings":
        return fit_many([one, other], X, Y, n_jobs=2)
    return WAYS[way](one, other).fit(X, Y)


class Interrupts:
    """Send the signal of Ctrl-C after the second round of any model, once."""

    sent, most = False, 0

    def after_iteration(self, state):
        Interrupts.most = max(Interrupts.most, state.iteration)
        if state.iteration == 2 and not Interrupts.sent:
            Interrupts.sent = True
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("cells", [0, side_by_side.CELLS_WORTH_THREADS])
@pytest.mark.parametrize("way", ALL_WAYS)
def test_an_interruption_ends_all(way, cells, monkeypatch):
    """Those in other threads, which no signal reaches, before their next round."""
    monkeypatch.setattr(side_by_side, "CELLS_WORTH_THREADS", cells)
    monkeypatch.setattr(Interrupts, "sent", False)
    monkeypatch.setattr(Interrupts, "most", 0)
    model = GradientBoostingClassifier(
        n_estimators=MANY_ROUNDS, max_leaf_nodes=2, callbacks=[Interrupts()], n_jobs=2
    )
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        fit(way, model, clone(model))
    while set(threading.enumerate()) - before:  # of a pool that was starting them
        time.sleep(0.01)
    assert Interrupts.sent and Interrupts.most < MANY_ROUNDS


@pytest.fixture
def ended(monkeypatch):
    """Is set once a group has ended."""

    def end(self):
        error = ends(self)
        known.set()
        return error

    ends, known = TrainingGroup.end, threading.Event()
    monkeypatch.setattr(TrainingGroup, "end", end)
    return known


def test_an_interruption_ends_forests(ended, monkeypatch):
    """Before their next batch: the forest begins none once the group has ended."""
    begun, batches = threading.Event(), []

    def batch(*args, **more):
        begun.set()
        batches.append(ended.wait(timeout=60))
        return grow_batch(*args, **more)

    def wait_for_the_forest(state):
        assert begun.wait(timeout=60)

    grow_batch = growth._grow_batch
    monkeypatch.setattr(growth, "_grow_batch", batch)
    monkeypatch.setattr(Interrupts, "sent", False)
    forest = RandomForestClassifier(50, max_depth=1, n_jobs=2)
    boosted = GradientBoostingClassifier(
        n_estimators=MANY_ROUNDS, max_leaf_nodes=2, n_jobs=2,
        callbacks=[wait_for_the_forest, Interrupts()],
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        VotingClassifier(named(forest, boosted)).fit(X, Y)
    assert batches == [True]  # that which had begun


class Watched(GradientBoostingClassifier):
    """Notes where and how it is fitted; waits for another one that is fitted meanwhile."""

    __module__ = GradientBoostingClassifier.__module__
    seen: list[dict] = []
    together: threading.Barrier | None = None

    def fit(self, *args, **more):
        note = {
            "thread": threading.get_ident(),
            "share": threads_of(self.n_jobs),
            "finite": get_config()["assume_finite"],
        }
        self.seen.append(note)
        if self.together is not None and len(self.seen) <= 2:
            self.together.wait(timeout=600)
        return super().fit(*args, **more)


@pytest.fixture
def seen(monkeypatch):
    monkeypatch.setattr(Watched, "seen", [])
    return Watched.seen


MODEL = Watched(n_estimators=2, n_jobs=2)


@pytest.mark.parametrize("way", ALL_WAYS)
def test_two_are_fitted_at_a_time(way, seen, monkeypatch):
    """Each on one thread, with the settings of scikit-learn of the caller."""
    monkeypatch.setattr(Watched, "together", threading.Barrier(2))
    with config_context(assume_finite=True):
        fit(way, MODEL, clone(MODEL))
    assert len({note["thread"] for note in seen[:2]} | {threading.get_ident()}) == 3
    assert [note["share"] for note in seen[:2]] == [1, 1]
    assert all(note["finite"] for note in seen)


@pytest.mark.parametrize("way", ALL_WAYS)
def test_large_tables_have_all_threads(way, seen, monkeypatch):
    monkeypatch.setattr(side_by_side, "CELLS_WORTH_THREADS", 0)
    fit(way, MODEL, clone(MODEL))
    assert {note["thread"] for note in seen} == {threading.get_ident()}
    assert {note["share"] for note in seen} == {2}


@pytest.mark.parametrize("way", ["bag in two threads", "settings"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_models_for_one_thread_are_fitted_two_at_a_time_to_large_tables(
    way, wrapped, seen, monkeypatch
):
    """Where two are asked for, also if the number of threads is that of a model inside."""
    monkeypatch.setattr(side_by_side, "CELLS_WORTH_THREADS", 0)
    monkeypatch.setattr(Watched, "together", threading.Barrier(2))
    model = clone(MODEL).set_params(n_jobs=1)
    model = BaggingClassifier(model, 1) if wrapped else model
    fit(way, model, clone(model))
    assert len({note["thread"] for note in seen}) == 2


@pytest.mark.parametrize(
    ("model", "n"),
    [
        (GradientBoostingClassifier(), 8),
        (GradientBoostingClassifier(n_jobs=-1), 8),
        (GradientBoostingClassifier(n_jobs=2), 2),
        (AdaBoostClassifier(GradientBoostingClassifier()), 8),
        (AdaBoostClassifier(KNeighborsClassifier(n_jobs=3)), 3),
        (AdaBoostClassifier(DecisionTreeClassifier()), 1),
        (make_pipeline(StandardScaler(), GradientBoostingClassifier(n_jobs=1)), 1),
        (make_pipeline(StandardScaler(), HistGradientBoostingClassifier()), 8),
        (HistGradientBoostingClassifier(), 8),
        (KNeighborsClassifier(n_jobs=1), 1),
    ],
)
def test_threads_that_a_model_keeps_busy(model, n, monkeypatch):
    monkeypatch.setattr(parameters, "available_threads", lambda: 8)
    assert side_by_side._threads_of_one(model) == n


@pytest.mark.parametrize("way", [way for way in WAYS if way != "bag in two threads"])
def test_models_for_one_thread_get_one(way, seen):
    fit(way, clone(MODEL).set_params(n_jobs=1), clone(MODEL).set_params(n_jobs=1))
    assert {note["thread"] for note in seen} == {threading.get_ident()}


def test_models_inside_models_share_a_thread(seen, monkeypatch):
    monkeypatch.setattr(Watched, "together", threading.Barrier(2))
    stacks = [StackingClassifier(named(MODEL, clone(MODEL)), cv=2) for _ in range(2)]
    VotingClassifier(named(*stacks)).fit(X, Y)
    assert len({note["thread"] for note in seen}) == 2
    assert seen[0]["share"] == seen[1]["share"] == 1


def test_the_last_ones_get_the_threads_that_are_left():
    group = TrainingGroup(n_at_once=2, n_models=3, n_threads=8)
    shares = []

    def training():
        shares.append(threads_of(8))

    for _ in range(3):
        group.taking_part_in(training)()
    assert shares == [4, 4, 8]
    assert threads_of(8) == 8


def test_groups_inside_a_group_end_with_it():
    outer = TrainingGroup()
    with outer.here():
        inner = TrainingGroup()
    beside = TrainingGroup()
    outer.end()
    assert inner.has_ended and not beside.has_ended


def test_warnings_are_those_of_the_caller():
    constant = GradientBoostingClassifier(n_estimators=2, min_samples_leaf=150, n_jobs=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            VotingClassifier(named(constant, constant)).fit(X, Y)
    with pytest.warns(UserWarning) as known:
        constant.fit(X, Y)
    with pytest.warns(UserWarning) as found:
        VotingClassifier(named(constant, constant)).fit(X, Y)
    assert [str(one.message) for one in found] == [str(known[0].message)] * 2


def test_members_are_their_own_fits():
    """Of this package and of others, pipelines and searches; copies of some search for rounds."""
    boosted = GradientBoostingClassifier(n_estimators=2, n_jobs=2)
    members = named(
        boosted,
        LogisticRegression(),
        GradientBoostingClassifier(random_state=1, max_leaf_nodes=2, learning_rate=1.0),
        RandomForestClassifier(5, random_state=2),
        make_pipeline(StandardScaler(), boosted),
        GridSearchCV(boosted, {"max_depth": [1, 2]}, cv=2),
        BaggingClassifier(boosted, 2),
    )
    of_all = StackingClassifier(members, KNeighborsClassifier(), cv=2).fit(X, Y)
    columns = []
    for (name, model), fitted in zip(members, of_all.estimators_, strict=True):
        alone = StackingClassifier([(name, model)], KNeighborsClassifier(), cv=2).fit(X, Y)
        columns.append(alone.final_estimator_._fit_X)
        expected = clone(model).fit(X, Y)
        np.testing.assert_array_equal(expected.predict_proba(X), fitted.predict_proba(X), name)
        assert str(fitted.get_params()) == str(expected.get_params())
    np.testing.assert_array_equal(of_all.final_estimator_._fit_X, np.concatenate(columns, axis=1))


class Failing(GradientBoostingClassifier):
    """Fails once the group has ended, or at once."""

    __module__ = GradientBoostingClassifier.__module__
    ended: threading.Event

    def fit(self, *args, **more):
        if self.random_state == 0:
            assert self.ended.wait(timeout=60)
        try:
            raise KeyError("context")
        except KeyError:
            raise ValueError(f"member {self.random_state}")  # noqa: B904


def test_the_first_member_that_fails_is_named(ended, monkeypatch):
    """In their order, whichever fails first; with its own context, which is shown."""
    monkeypatch.setattr(Failing, "ended", ended, raising=False)
    wrong = [Failing(random_state=k, n_jobs=2) for k in (0, 1)]
    with pytest.raises(ValueError, match="member 0") as caught:
        VotingClassifier(named(*wrong)).fit(X, Y)
    assert isinstance(caught.value.__context__, KeyError)
    assert not caught.value.__suppress_context__


def test_a_member_that_fails_ends_those_before_it(monkeypatch):
    monkeypatch.setattr(Interrupts, "most", 0)
    monkeypatch.setattr(Interrupts, "sent", True)
    endless = GradientBoostingClassifier(
        n_estimators=MANY_ROUNDS, max_leaf_nodes=2, callbacks=[Interrupts()], n_jobs=2
    )
    with pytest.raises(ValueError, match="member 1"):
        VotingClassifier(named(endless, Failing(random_state=1, n_jobs=2))).fit(X, Y)
    assert Interrupts.most < MANY_ROUNDS


class Tokens(BaseEstimator):
    """The number of words of each document, which is a list of them; notes the type of the
    table."""

    def fit(self, X, y=None):
        assert isinstance(X, list)
        return self

    def transform(self, X):
        return np.array([[len(document)] for document in X], dtype=float)


@pytest.mark.parametrize("last", [LogisticRegression(), GradientBoostingClassifier(n_estimators=2)])
@pytest.mark.parametrize("way", ["stack", "vote", "settings", "search"])
def test_lists_of_any_length(way, last):
    """As of documents, which are no table before the first step of a pipeline."""
    documents = [["a"] * (1 + k % 3) for k in range(60)]
    is_long = np.arange(60) % 3 == 2
    model = make_pipeline(Tokens(), last)
    if way == "settings":
        ((fitted,),) = fit_many(model, documents, is_long)
    elif way == "search":
        fitted = GridSearchCV(model, {"tokens": [Tokens()]}, cv=2).fit(documents, is_long)
    else:
        fitted = WAYS[way](model, clone(model)).fit(documents, is_long)
    assert fitted.predict(documents).shape == (60,)


@pytest.mark.parametrize(
    ("X", "n"),
    [(X, 800), (X.tolist(), 800), ([["a"], ["a", "b"]], 2), (["ab", "c"], 2), ([], 0), (3, 0)],
    ids=["array", "list", "tokens", "text", "empty", "number"],
)
def test_values_are_counted(X, n):
    assert side_by_side._n_cells(X) == n


def test_an_interruption_of_a_search_inside_a_stack_is_raised(monkeypatch):
    """After its first setting, too, on the only thread of a large table."""
    monkeypatch.setattr(side_by_side, "CELLS_WORTH_THREADS", 0)
    monkeypatch.setattr(Interrupts, "sent", False)
    model = GradientBoostingClassifier(n_estimators=1, max_leaf_nodes=2, callbacks=[Interrupts()])
    search = GridSearchCV(model, {"n_estimators": [1, 3]}, cv=2, n_jobs=1)
    with pytest.raises(KeyboardInterrupt):
        VotingClassifier(named(search, GradientBoostingClassifier(n_estimators=1))).fit(X, Y)
    assert Interrupts.sent
