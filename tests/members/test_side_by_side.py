"""Members of ensembles, their copies on folds, and settings are trained side by side."""

from __future__ import annotations

import os
import signal
import threading
import warnings

import numpy as np
import pytest
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpuens import (
    BaggingClassifier,
    GradientBoostingClassifier,
    GridSearchCV,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
    fit_many,
)
from gpuens.datasets import make_higgs_like
from gpuens.estimators.parameters import threads_of
from gpuens.members import side_by_side
from gpuens.members.side_by_side import TrainingGroup

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
    others = set(threading.enumerate()) - before  # of a pool that was starting them
    for thread in others:
        thread.join(timeout=600)
    assert not any(thread.is_alive() for thread in others)
    assert Interrupts.sent and Interrupts.most < MANY_ROUNDS


def test_an_interruption_ends_forests(monkeypatch):
    monkeypatch.setattr(Interrupts, "sent", False)
    forest = RandomForestClassifier(MANY_ROUNDS, max_depth=1, n_jobs=2)
    boosted = GradientBoostingClassifier(n_estimators=5, callbacks=[Interrupts()], n_jobs=2)
    with pytest.raises(KeyboardInterrupt):
        VotingClassifier(named(forest, boosted)).fit(X, Y)


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


def test_the_first_member_that_fails_is_named():
    """In their order, whichever fails first."""
    wrong = [GradientBoostingClassifier(n_estimators=-k, n_jobs=2) for k in (1, 2)]
    right = GradientBoostingClassifier(n_estimators=50, n_jobs=2)
    with pytest.raises(ValueError, match="-1"):
        VotingClassifier(named(right, *wrong)).fit(X, Y)
