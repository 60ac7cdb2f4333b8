"""What the host does while trees grow on the device: launches, and waiting for results."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from functools import partial

import numpy as np
import pytest

from gpuens import (
    BaggingRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    StackingRegressor,
    VotingRegressor,
)
from gpuens.boosting.parameters import growth_params
from gpuens.boosting.steps.many_models import run_together
from gpuens.combining.linear import RidgeRegression
from gpuens.datasets import make_higgs_like
from gpuens.kernels.growth import frontier
from gpuens.kernels.growth.cuda import grow as growth
from gpuens.kernels.growth.cuda import tables as growth_tables
from gpuens.kernels.leaves.cuda import newton_steps
from gpuens.kernels.runtime.cuda import target
from gpuens.kernels.runtime.cuda.fetch import Fetched
from gpuens.losses import Huber
from tests.support.cuda_modules import cuda_modules
from tests.support.strict_cupy import arrays, compiled, functions, state

ROUND = 5
"""Launches of a round where no features are drawn."""
AFTER = 2
"""Launches after the rounds."""

AROUND_THE_GROWTH = (
    "gradients_of_chunks",
    "make_records",
    "sum_in_shared",
    "add_values",
)

OF_GROWTH = (
    "add_tiles", "best_of_features", "choose_nodes", "move_apart", "open_nodes", "number_leaves",
    "scatter_closed", "sum_in_shared",
)  # fmt: skip
"""Kernels that more rounds than expected launch again."""

pytestmark = pytest.mark.usefixtures("host")


@contextlib.contextmanager
def launches_of_cupy():
    """Count the functions of CuPy that are called inside the block, and are launches."""
    counts: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("note", "note_call", "note_copy", "note_fill", "note_index"):
            inner = getattr(compiled, name)

            def noted(*args, inner=inner):
                before, state.log.compiled = state.log.compiled, set()
                inner(*args)
                counts["of CuPy"] += bool(state.log.compiled)
                state.log.compiled |= before

            for module in (arrays, functions):
                if hasattr(module, name):
                    patch.setattr(module, name, noted)
        yield counts


@pytest.fixture
def counted(monkeypatch):
    """What the host has asked of the device since the last ``clear``.

    "waits" are for results behind which the device has nothing to do. Those of the round before
    are "late": the trees of this one grow meanwhile. What was sent for before something that was
    waited for has "arrived".
    """
    counts: Counter[str] = Counter()
    modules = cuda_modules()

    def count(owner, attribute, name):
        inner = getattr(owner, attribute)

        def call(*args, **kwargs):
            counts[name] += 1
            return inner(*args, **kwargs)

        for module in (owner, *modules):
            if getattr(module, attribute, None) is inner:
                monkeypatch.setattr(module, attribute, call)

    for name in ("launch", "download", "upload"):
        count(target, name, name)
    count(growth_tables, "write", "write")
    start, wait = Fetched.__init__, Fetched.wait
    numbers, latest = itertools.count(), [-1]

    def started(self, array):
        self.number, self.started_in = next(numbers), growth.Workspace.n_started
        self.is_known = False
        start(self, array)

    def waited(self):
        if not self.is_known:
            is_late = self.started_in != growth.Workspace.n_started
            has_arrived = self.number < latest[0]
            counts["arrived" if has_arrived else "late" if is_late else "waits"] += 1
            latest[0] = max(latest[0], self.number)
            self.is_known = True
        return wait(self)

    begin = growth.Workspace.start

    def begun(self, *args):
        growth.Workspace.n_started += 1
        return begin(self, *args)

    monkeypatch.setattr(growth.Workspace, "n_started", 0, raising=False)
    monkeypatch.setattr(growth.Workspace, "start", begun)
    monkeypatch.setattr(Fetched, "__init__", started)
    monkeypatch.setattr(Fetched, "wait", waited)
    monkeypatch.setattr(Fetched, "is_here", property(lambda self: self.is_known))
    return counts


@pytest.fixture
def grown(monkeypatch):
    """The workspaces of all batches that were grown."""
    batches = []
    start = growth.Workspace.start

    def noted(self, *args):
        batches.append(self)
        return start(self, *args)

    monkeypatch.setattr(growth.Workspace, "start", noted)
    return batches


def fit(kind, X, y, device="cuda", **settings):
    settings = {"n_estimators": 4, "min_samples_leaf": 2, "max_depth": 3} | settings
    return kind(device=device, **settings).fit(X, y)


def test_the_growth_of_a_batch_is_one_piece_of_work(counted, monkeypatch):
    X, y = make_higgs_like(200, 4)
    start = growth.Workspace.start

    def alone(self, *args):
        counted.clear()
        wait = start(self, *args)
        launches.append(counted["launch"] - self.n_rounds * ROUND)
        waits.append(counted["download"] + counted["waits"])
        writes.append(counted["write"] + counted["upload"])
        return wait

    launches, waits, writes = [], [], []
    monkeypatch.setattr(growth.Workspace, "start", alone)
    fit(GradientBoostingClassifier, X, y, max_leaf_nodes=None)
    assert launches == [AFTER] * 4
    assert waits == [0] * 4
    assert writes == [1] * 4


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_round_of_boosting_waits_once(counted, n_classes, watched):
    """Until its trees have grown; nothing else is waited for before the next trees grow."""
    X, _ = make_higgs_like(200, 4)
    y = np.arange(200) % n_classes
    more = {"eval_set": (X, y)} if watched else {}
    counts = []
    for n_rounds in (2, 5):
        counted.clear()
        model = GradientBoostingClassifier(
            n_estimators=n_rounds, min_samples_leaf=2, max_depth=3, device="cuda",
            early_stopping=watched, n_iter_no_change=9,
        )  # fmt: skip
        model.fit(X, y, **more)
        counts.append(counted.copy())
    a_round = Counter(counts[1])
    a_round.subtract(counts[0])
    assert a_round["waits"] == 3 * 1
    assert a_round["download"] == 0
    assert a_round["arrived"] == 3  # totals of all outputs
    assert a_round["late"] == 3 * (1 + watched)  # values of all leaves, a metric


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("watched", [False, True])
def test_launches_around_the_growth(host, watched, n_classes):
    """Gradients with the update by the tree before, and their totals; integers with the sums of
    the root; sums of the leaves and their values; the update alone where something reads its
    result: a metric, or the sum over the classes. Classes share all of them."""
    X, _ = make_higgs_like(200, 4)
    y = np.arange(200) % n_classes
    rounds = []
    for n_rounds in (2, 5):
        host.launches.clear()
        fit(GradientBoostingClassifier, X, y, n_estimators=n_rounds, early_stopping=watched,
            validation_fraction=None, n_iter_no_change=9, min_samples_leaf=1)  # fmt: skip
        rounds.append(Counter(launch.name for launch in host.launches))
    around = {name: (rounds[1][name] - rounds[0][name]) / 3 for name in AROUND_THE_GROWTH}
    is_apart = watched or n_classes > 2
    assert around == {**dict.fromkeys(AROUND_THE_GROWTH, 1), "add_values": int(is_apart)}


@pytest.mark.parametrize("n_models", [1, 4])
def test_models_share_the_launches_of_one(host, n_models):
    """Whatever their seeds, rates, penalties and limits of leaves."""
    X, _ = make_higgs_like(200, 4)
    rounds = []
    for n_rounds in (2, 4):
        host.launches.clear()
        settings = {
            "n_estimators": n_rounds,
            "max_depth": 3,
            "device": "cuda",
            "colsample_bynode": 1.0,
        }
        models = [
            GradientBoostingRegressor(
                random_state=k, learning_rate=0.1 + 0.1 * k, l2_regularization=k,
                max_leaf_nodes=8 - k, min_samples_leaf=1 + k, **settings,
            )
            for k in range(n_models)
        ]  # fmt: skip
        run_together([partial(model.fit, X, X[:, 0]) for model in models], n_models)
        rounds.append(Counter(launch.name for launch in host.launches))
    around = {name: (rounds[1][name] - rounds[0][name]) / 2 for name in AROUND_THE_GROWTH}
    assert around == dict.fromkeys(AROUND_THE_GROWTH, 1)
    n_phases = growth.likely_rounds(growth_params(models[0], X.shape))
    launches = (rounds[1] - rounds[0]).total() / 2
    assert launches == len(AROUND_THE_GROWTH) + n_phases * ROUND + AFTER


@pytest.mark.parametrize(
    "settings", [{}, {"subsample": 0.5}, {"monotonic_cst": [1, 0, 0, 0]}], ids=str
)
def test_folds_share_the_launches_of_one(host, settings):
    """Those of unequal rows, whose tables have different bins, and of several settings."""
    X, _ = make_higgs_like(152, 4)
    y = X[:, 0] + np.sin(3 * X[:, 2])
    folds = [np.flatnonzero(np.arange(152) % 5 != k) for k in range(5)]
    launches = []
    for n_folds, n_settings in ((1, 1), (5, 2)):
        counts = []
        for n_rounds in (1, 3):
            host.launches.clear()
            fits = [
                partial(
                    GradientBoostingRegressor(
                        n_estimators=n_rounds, max_depth=2, min_samples_leaf=1, device="cuda",
                        random_state=k, l2_regularization=k, **settings,
                    ).fit, X[own], y[own],
                )
                for own in folds[:n_folds] for k in range(n_settings)
            ]  # fmt: skip
            run_together(fits, len(fits))
            counts.append(Counter(launch.name for launch in host.launches))
        launches.append(counts[1] - counts[0])
    assert launches[0] == launches[1]


def launches_of_rounds(host, fit):
    """The launches of two rounds more of ``fit(n_rounds)``."""
    counts = []
    for n_rounds in (1, 3):
        host.launches.clear()
        fit(n_rounds)
        counts.append(len(host.launches))
    return counts[1] - counts[0]


def boosted(n_rounds, **settings):
    settings = {"max_depth": 2, "min_samples_leaf": 1, "device": "cuda"} | settings
    return GradientBoostingRegressor(n_estimators=n_rounds, **settings)


ENSEMBLES = {
    "stack": lambda members: StackingRegressor(members, RidgeRegression(), cv=5),
    "vote": VotingRegressor,
    "weighted vote": lambda members: VotingRegressor(members, weights="optimal"),
    "bag": lambda members: BaggingRegressor(members[0][1], n_estimators=10, random_state=0),
    "bag of features": lambda members: BaggingRegressor(
        members[0][1], n_estimators=4, max_features=2, random_state=0
    ),
}


@pytest.mark.parametrize("name", ENSEMBLES)
def test_members_share_the_launches_of_one(host, name):
    """Those of a stack with all their copies on folds, and those of a bag on draws."""
    X, _ = make_higgs_like(152, 4)
    y = X[:, 0] + np.sin(3 * X[:, 2])
    alone = launches_of_rounds(host, lambda n: boosted(n).fit(X, y))

    def fit(n_rounds):
        rates = (0.1, 0.2, 0.3, 0.4)
        members = [(f"m{k}", boosted(n_rounds, learning_rate=own)) for k, own in enumerate(rates)]
        ENSEMBLES[name](members).fit(X, y)

    assert launches_of_rounds(host, fit) <= 1.3 * alone


def test_members_that_cannot_join_grow_by_themselves(host):
    """Beside two that share their launches: one with rounds of its own, one on the CPU."""
    X, _ = make_higgs_like(152, 4)
    y = X[:, 0] + np.sin(3 * X[:, 2])
    joining, others = [{}, {"learning_rate": 0.3}], [{"line_search": True}, {"device": "cpu"}]

    def launches(*kinds):
        def fit(n_rounds):
            members = [(f"m{k}", boosted(n_rounds, **own)) for k, own in enumerate(kinds)]
            VotingRegressor(members).fit(X, y)

        return launches_of_rounds(host, fit)

    by_themselves = launches(others[0])
    assert by_themselves > 0 == launches(others[1])
    assert launches(*joining, *others) == launches(*joining) + by_themselves


@pytest.mark.parametrize("settings, n_classes", [
    ({"subsample": 0.5}, 2), ({"monotonic_cst": [1, 0, 0, 0]}, 2), ({"subsample": 0.5}, 3),
    ({"class_weight": "balanced"}, 3),
], ids=str)  # fmt: skip
def test_models_share_other_launches(host, settings, n_classes):
    """Those of rows outside the samples, of bounded values, and of classes; samples and weights may
    be those of some."""
    X, _ = make_higgs_like(120, 4)
    y = np.digitize(X[:, 0] + np.sin(3 * X[:, 2]), [-0.5, 0.5][: n_classes - 1])
    counts = []
    for n_models in (1, 3):
        host.launches.clear()
        models = [
            GradientBoostingClassifier(
                n_estimators=2, max_depth=2, min_samples_leaf=2, device="cuda", random_state=k,
                **(settings if k < 2 or "monotonic_cst" in settings else {}),
            )
            for k in range(n_models)
        ]  # fmt: skip
        run_together([partial(model.fit, X, y) for model in models], n_models)
        launched = Counter(launch.name for launch in host.launches)
        names = (*AROUND_THE_GROWTH, "walk_codes", "sum_of_exps", "count_drawn", "list_drawn")
        counts.append({name: launched[name] for name in names})
    assert counts[0] == counts[1]
    assert counts[0]["gradients_of_chunks"] == 2
    assert counts[0]["walk_codes"] == counts[0]["list_drawn"] == 2 * ("subsample" in settings)


EARLY = {"early_stopping": True, "n_iter_no_change": 9, "validation_fraction": 0.2}
OF_EACH = {
    "samples of rows with weights": [{"subsample": 0.5}] * 4,
    "goss": [{"sampling": "goss", "learning_rate": 1.0, "top_rate": 0.1 * k} for k in range(1, 5)],
    "mvs": [{"sampling": "mvs", "subsample": 0.2 * k} for k in range(1, 5)],
    "quantiles": [{"loss": "quantile", "quantile": [0.2 * k, 0.9]} for k in range(1, 5)],
    "medians": [{"loss": "absolute_error", "subsample": 0.7}] * 4,
    "Huber's loss": [{"loss": Huber(0.2 * k)} for k in range(1, 5)],
    "expectiles": [{"loss": "expectile", "quantile": 0.2 * k} for k in range(1, 5)],
    "rows held out": [EARLY] * 4,
    "rows held out, several targets": [EARLY | {"targets": 2}] * 4,
}


def launches_of_a_round(host, fits_of):
    """Return the kernels of three rounds, and the functions of arrays that CuPy launches."""
    counts = []
    for n_rounds in (2, 5):
        host.launches.clear()
        fits = fits_of(n_rounds)
        with launches_of_cupy() as launched:
            run_together(fits, len(fits))
        counts.append(launched + Counter(launch.name for launch in host.launches))
    return counts[1] - counts[0]


@pytest.mark.parametrize("name", OF_EACH)
def test_models_share_what_is_between_the_growth(host, name):
    """The launches of four models are those of one, as are the functions of CuPy, but for those of
    a growth that takes a round more for one of them."""
    X, _ = make_higgs_like(150, 4)
    y = X[:, 0] + np.sin(3 * X[:, 2])
    weight = {"sample_weight": np.arange(150) % 3 * 0.7} if "weights" in name else {}

    def fits_of(n_models, n_rounds):
        for k, own in enumerate(OF_EACH[name][:n_models]):
            own, target = dict(own), y
            if own.pop("targets", 1) > 1:
                target = np.stack([y, y**2], axis=1)
            model = GradientBoostingRegressor(**{
                "n_estimators": n_rounds, "max_depth": 2, "max_leaf_nodes": 4, "random_state": k,
                "min_samples_leaf": 2, "device": "cuda",
            } | own)  # fmt: skip
            yield partial(model.fit, X, target, **weight)

    one, four = (
        launches_of_a_round(host, lambda n, n_models=n_models: list(fits_of(n_models, n)))
        for n_models in (1, 4)
    )
    for counts in (one, four):
        for kernel in OF_GROWTH:
            del counts[kernel]
    assert four.total() <= 1.1 * one.total(), (one, four)


def test_losses_share_the_growth(host):
    """Gradients are launched once a kind of loss."""
    X, _ = make_higgs_like(150, 4)
    losses = ["squared_error", "huber", "absolute_error"] * 2

    def fits_of(n_rounds):
        how = {"n_estimators": n_rounds, "max_depth": 2, "max_leaf_nodes": 4, "device": "cuda"}
        return [
            partial(GradientBoostingRegressor(loss=own, **how).fit, X, X[:, 0]) for own in losses
        ]

    launched = launches_of_a_round(host, fits_of)
    assert launched["make_records"] == launched["add_values"] == 3
    # Huber's steps measure two others: those of the medians, and the changes of the loss.
    assert launched["gradients_of_chunks"] == 3 * (3 + 2)


def test_one_workspace_serves_all_rounds(grown):
    X, y = make_higgs_like(200, 4)
    fit(GradientBoostingClassifier, X, y)
    assert len(grown) == 4
    assert len(set(map(id, grown))) == 1


def test_trees_of_many_nodes(host, monkeypatch):
    """Their leaves have four bytes, and update the raw predictions in a launch of its own; sums
    in global memory lead to the steps in another one."""
    monkeypatch.setattr(frontier, "NO_LEAF", 2)
    monkeypatch.setattr(newton_steps, "SHARED_NODES", 2)
    X, y = make_higgs_like(200, 4)
    settings = {"n_estimators": 2, "max_leaf_nodes": None, "min_samples_leaf": 1, "subsample": 0.5}
    grown = [fit(GradientBoostingClassifier, X, y, device=device, **settings)
             for device in ("cpu", "cuda")]  # fmt: skip
    assert grown[0].forest_.fingerprint() == grown[1].forest_.fingerprint()
    launched = Counter(launch.name for launch in host.launches)
    assert launched["add_values"] == launched["gradients_of_chunks"] - 1 == 1
    assert launched["take_steps"] == launched["sum_in_global"] == 2


def test_more_rounds_than_expected(grown, monkeypatch):
    monkeypatch.setattr(growth, "likely_rounds", lambda params: 2)
    X, y = make_higgs_like(200, 4)
    settings = {"max_leaf_nodes": 9, "max_depth": None}
    model = fit(GradientBoostingClassifier, X, y, **settings)
    expected = fit(GradientBoostingClassifier, X, y, device="cpu", **settings)
    assert model.forest_.fingerprint() == expected.forest_.fingerprint()
    assert grown[0].n_rounds > 2
