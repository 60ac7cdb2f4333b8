"""The forest that collects the trees of boosting: when they are decoded, Ctrl-C, other threads."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.boosting import forest_builder
from gpuens.boosting.forest_builder import ForestBuilder
from gpuens.inputs.binning import Binner

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
X[:, 2] = np.arange(200) % 11
Y = X[:, 0] + np.sin(X[:, 2])
CLASSES = np.digitize(Y, [-0.5, 0.5])

KINDS = {
    "numbers": (GradientBoostingRegressor, Y, {}),
    "categories": (GradientBoostingRegressor, Y, {"categorical_features": [2]}),
    "linear leaves": (GradientBoostingRegressor, Y, {"linear_leaves": True}),
    "classes": (GradientBoostingClassifier, CLASSES, {"categorical_features": [2]}),
    "one tree": (GradientBoostingClassifier, CLASSES, {"multi_strategy": "multi_output_tree"}),
    "dropout": (GradientBoostingRegressor, Y, {"dropout": 0.5}),
    "early stopping": (GradientBoostingRegressor, RNG.normal(size=200), {
        "early_stopping": True, "n_iter_no_change": 3, "learning_rate": 0.9}),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_the_parts_that_trees_are_decoded_in_change_nothing(name, monkeypatch):
    cls, y, settings = KINDS[name]
    how = {"n_estimators": 9, "max_leaf_nodes": 6, "warm_start": True, **settings}
    append, waiting = ForestBuilder.append, []

    def noted(self, outputs, binner):
        append(self, outputs, binner)
        waiting.append(sum(tree.n_bytes for tree in self._new))

    monkeypatch.setattr(ForestBuilder, "append", noted)
    prints, most = [], []
    for limit in (2**23, 0, 1400):
        monkeypatch.setattr(forest_builder, "WAITING_BYTES", limit)
        model = cls(**how).fit(X, y)
        prints.append([model.forest_.fingerprint()])
        model.set_params(n_estimators=14).fit(X, y)
        prints[-1].append(model.forest_.fingerprint())
        most.append(max(waiting))
        waiting.clear()
    assert prints[0] == prints[1] == prints[2]
    assert most[0] > 1400 >= most[2] > most[1] == 0


@pytest.fixture
def trees(monkeypatch):
    """Arguments of ``append``, for each of five trees."""
    added, append = [], ForestBuilder.append

    def noted(self, *args):
        added.append(args)
        append(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(ForestBuilder, "append", noted)
        GradientBoostingRegressor(n_estimators=5, max_leaf_nodes=6).fit(X, Y)
    return added


def built(trees, n_decoded=0):
    builder = ForestBuilder(3, np.zeros(1))
    for k, args in enumerate(trees):
        if k == n_decoded:
            builder.freeze()
        builder.append(*args)
    return builder


def test_trees_added_while_others_are_frozen_stay(trees, monkeypatch):
    """By another thread, while this one decodes."""
    expected = built(trees).freeze().fingerprint()
    builder, numbers, further = built(trees[:4]), Binner.numbers, [trees[4]]

    def adding(self, features):
        if further:
            builder.append(*further.pop())
        return numbers(self, features)

    monkeypatch.setattr(Binner, "numbers", adding)
    assert builder.freeze().n_trees == 4
    assert builder.freeze().fingerprint() == expected


@pytest.mark.parametrize("n_decoded", [0, 2])
@pytest.mark.parametrize("what", ["freeze", "keep"])
def test_ctrl_c_at_any_call_leaves_each_tree_once(trees, n_decoded, what):
    """Python looks for signals as functions begin and behind calls: each in turn gets one."""

    def done(builder):
        if what == "keep":
            builder.keep(3)
        return builder.freeze().fingerprint()

    expected, n_events = done(built(trees, n_decoded)), 0
    while True:
        builder, left = built(trees, n_decoded), [n_events]

        def interrupt(frame, event, arg, left=left):
            left[0] -= event in ("call", "c_return")
            if left[0] < 0:
                raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            found = done(builder)
        except KeyboardInterrupt:
            found = None
        finally:
            sys.setprofile(None)
        if found is not None:  # behind the last event
            break
        assert done(builder) == expected
        n_events += 1
    assert found == expected and n_events > 50


def test_a_forest_is_frozen_without_copies_if_it_has_one_part(trees):
    builder = built(trees)
    first = builder.freeze()
    assert builder.freeze() is first
    builder.keep(5)
    assert builder.freeze() is first
