"""How much memory a training would take, and what is said where there is too little."""

from __future__ import annotations

import re
import tracemalloc
from importlib import import_module

import numpy as np
import pytest
from scipy.sparse import csr_array

from gpuens import (
    AdaBoostClassifier,
    BinnedTable,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    IsolationForest,
    ObliqueRandomForestClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    memory_plan,
)
from gpuens.boosting.rounds import BoostingRounds
from gpuens.boosting.steps.many_models import Meeting
from gpuens.devices import placement as devices
from gpuens.devices.memory_plan import MemoryPlan, format_bytes
from gpuens.forests import growing as forest_growing
from gpuens.forests.oblique import CELLS_AT_ONCE
from gpuens.inputs.sparse import ENTRY_BYTES
from gpuens.kernels.growth import frontier
from gpuens.losses import ArrayLoss
from gpuens.members.side_by_side import TrainingGroup, planned_groups, trainings_at_once
from gpuens.trees import cart, growth
from tests.support import strict_cupy

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60_000, 10)).astype(np.float32)
Y = X[:, 0] + RNG.normal(size=len(X))
C = np.digitize(Y, [-1, 0, 1])
HELD_OUT = {"early_stopping": True, "n_estimators": 3}


def free_on_host(monkeypatch, size):
    monkeypatch.setattr(devices, "available_memory", lambda: size)


class TestNumbers:
    def test_arrays_of_the_rows(self):
        """28 features are padded to 32 bytes in one of two copies; 5 classes are 5 trees a round,
        which are grown two at a time and know the leaves of their rows until it ends."""
        model = GradientBoostingClassifier(
            n_estimators=100, device="cpu", subsample=0.5, max_leaf_nodes=3
        )
        plan = memory_plan(model, (1_000_000, 28), n_outputs=5, sample_weight=np.ones(1))
        assert plan.parts["table"] == 1_000_000 * 28 * 4
        assert plan.parts["bins"] == 1_000_000 * (32 + 28)
        assert plan.parts["raw predictions"] == 1_000_000 * 5 * 8
        assert plan.parts["target and weights"] == 1_000_000 * (1 + 8)
        assert plan.parts["gradients"] == 1_000_000 * 2 * (4 + 4)
        assert plan.parts["leaves of the rows"] == 1_000_000 * 5 * 4
        assert plan.parts["records"] == 500_000 * 2 * (8 * 2 + 1)
        assert plan.parts["trees left out"] == 0
        dropping = memory_plan(model.set_params(dropout=0.1), (1_000_000, 28), n_outputs=5)
        assert dropping.parts["trees left out"] == 1_000_000 * (5 * 8 + 4)
        assert plan.total == sum(plan.parts.values())

    def test_values_for_linear_leaves(self, cupy):
        model = GradientBoostingRegressor(device="cuda", linear_leaves=True, max_leaf_nodes=31)
        parts = memory_plan(model, (1_000_000, 28)).parts
        assert parts["values for linear leaves"] == 1_000_000 * 28 * 4
        assert parts["sums of linear leaves"] == 2 * 8 * 31 * (17 * 20 // 2 + 1)
        assert memory_plan(model.set_params(device="cpu"), (1000, 28)).parts[
            "values for linear leaves"
        ] == 0  # fmt: skip
        without = memory_plan(model.set_params(linear_leaves=False), (1000, 28))
        assert "values for linear leaves" not in without.parts

    def test_leaves_of_rows_while_the_next_round_grows(self, cupy):
        model = GradientBoostingClassifier(n_estimators=100, device="cuda", max_leaf_nodes=3)
        for n_rows, batch in ((1_000_000, 5), (8_000_000, 2)):
            parts = memory_plan(model, (n_rows, 28), n_outputs=5).parts
            assert parts["leaves of the rows"] == n_rows * (5 + batch) * 2
            assert parts["gradients"] == n_rows * batch * 8

    @pytest.mark.parametrize("n_features", [10, 5000])
    def test_histograms_are_a_pool_of_limited_size(self, n_features):
        model = GradientBoostingRegressor(device="cpu", max_leaf_nodes=None, max_depth=12)
        size = memory_plan(model, (10**7, n_features)).parts["histograms"]
        one = n_features * 256 * 2 * 4
        assert size % one == 0
        if n_features == 10:  # all nodes of a tree of depth 12 are fewer than the pool holds
            assert size == (2 * 2**12 + 1) * one
        else:
            assert 2**29 - one < size <= 2**29
        wide = memory_plan(model, (1000, 100_000))
        assert wide.parts["histograms"] == 4 * 100_000 * 2048  # as many as one split needs
        assert frontier.HISTOGRAM_BYTES == 2**29

    @pytest.mark.parametrize("model, y, n_rows", [
        (GradientBoostingRegressor(n_estimators=3), Y, 60_000),
        (GradientBoostingRegressor(n_estimators=3, max_leaf_nodes=None, max_depth=9), Y, 60_000),
        (GradientBoostingRegressor(**HELD_OUT), Y, 60_000),
        (GradientBoostingClassifier(n_estimators=2), C, 60_000),
        (GradientBoostingRegressor(subsample=0.3, n_estimators=3), Y, 60_000),
        (GradientBoostingRegressor(sampling="goss", learning_rate=0.5, n_estimators=4), Y, 60_000),
        (GradientBoostingRegressor(sampling="mvs", subsample=0.5, n_estimators=3), Y, 60_000),
        (GradientBoostingClassifier(sampling="balanced", n_estimators=3), C > 1, 60_000),
        (GradientBoostingRegressor("absolute_error", n_estimators=3), Y, 60_000),
        (GradientBoostingRegressor("huber", n_estimators=3), Y, 60_000),
        (GradientBoostingRegressor("normal", n_estimators=3), Y, 60_000),
        (GradientBoostingRegressor(line_search=True, n_estimators=3), Y, 60_000),
        (RandomForestClassifier(n_estimators=4), C, 30_000),
        (RandomForestRegressor(n_estimators=4, max_depth=8), Y, 60_000),
        (DecisionTreeRegressor(max_depth=8), Y, 20_000),
    ], ids=lambda value: repr(value)[:60] if hasattr(value, "fit") else "")  # fmt: skip
    def test_close_to_the_peak(self, model, y, n_rows):
        model.set_params(device="cpu", n_jobs=2) if hasattr(model, "n_jobs") else None
        model.fit(X[:2000], y[:2000])  # what is made once a process
        data = X[:n_rows], y[:n_rows]
        tracemalloc.start()
        model.fit(*data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 0.6 * peak < memory_plan(model, *data).total < 1.5 * peak

    @pytest.mark.parametrize("model", [ExtraTreesRegressor(), RandomForestClassifier()])
    def test_reading_takes_no_more_than_is_asked_for_before(self, monkeypatch, model):
        planned = []

        class ReadError(Exception):
            pass

        def planning(*args):
            plan = growth.reading_plan(*args)
            planned.append(plan.total)
            return plan

        def stop(*args):
            raise ReadError

        model.set_params(n_estimators=2, n_jobs=2, device="cpu")
        model.fit(X[:, :5], C)  # what is made once a process
        monkeypatch.setattr(cart, "reading_plan", planning)
        monkeypatch.setattr(type(model), "_grow", stop)
        tracemalloc.start()
        with pytest.raises(ReadError):
            model.fit(X[:, :5], C)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < planned[0] < 2 * peak

    def test_a_table_that_is_there_takes_nothing(self, cupy):
        model = GradientBoostingRegressor(device="cpu")
        sizes = [memory_plan(model, table).parts["table"] for table in (
            X, X.astype(np.float64), X.astype(np.int16), X.astype(np.int64), X.shape,
            strict_cupy.on_gpu(cupy, X, 0),
        )]  # fmt: skip
        assert sizes == [0, 0, X.size * 4, X.size * 8, X.size * 4, X.size * 4]
        model.set_params(device="cuda")
        there = memory_plan(model, strict_cupy.on_gpu(cupy, X, 1))
        assert (there.parts["table"], str(there.device)) == (0, "cuda:1")
        assert memory_plan(model, X).parts["table"] == X.nbytes

    def test_histograms_of_a_forest_on_a_gpu(self, cupy):
        """A weight and a sum of each bin, twice, in every block that searches for splits, and once
        for nodes that blocks share."""
        tree = {"n_estimators": 1, "bootstrap": False, "max_leaf_nodes": 3, "max_bins": 31}
        model = RandomForestRegressor(**tree, device="cuda")
        assert memory_plan(model, (1000, 10)).parts["histograms"] == 2 * 8 * 32 * 2 * 2**12
        wide = RandomForestClassifier(n_estimators=50, device="cuda")
        of_wide = memory_plan(wide, (10**7, 50), n_outputs=7).parts["histograms"]
        assert of_wide == 2 * 8 * 256 * (1 + 7) * 2**12 + 2**28
        for none in ({"device": "cpu"}, {"device": "cuda", "criterion": "absolute_error"}):
            assert memory_plan(model.set_params(**none), (1000, 10)).parts["histograms"] == 0

    def test_trees_of_means_have_a_leaf_for_every_row(self):
        """Unless settings end their growth before."""

        def growing(forest, **settings):
            model = forest(n_estimators=3, n_jobs=1, device="cpu", **settings)
            return memory_plan(model, (20_000, 5)).parts["records and growing nodes"]

        X = np.random.default_rng(0).normal(size=(20_000, 5))
        model = RandomForestRegressor(n_estimators=3, n_jobs=1, device="cpu").fit(X, X[:, 0])
        tracemalloc.start()
        model.fit(X, X[:, 0])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert growing(RandomForestRegressor) > 0.75 * peak
        finished = memory_plan(model, X, X[:, 0]).parts["trees"]
        size = sum(v.nbytes for v in vars(model.forest_).values() if isinstance(v, np.ndarray))
        assert size < finished < 4 * size
        pure = growing(RandomForestClassifier)
        for settings in ({"min_samples_leaf": 2}, {"min_samples_split": 3}):
            assert growing(RandomForestRegressor, **settings) <= pure
        few = growing(RandomForestRegressor, max_leaf_nodes=31)
        assert few == growing(RandomForestRegressor, max_leaf_nodes=31, min_samples_leaf=2)

    def test_the_copy_of_codes_by_row(self):
        """A byte for each value, where many small nodes look at enough features."""

        def copied(forest=RandomForestRegressor, shape=(20_000, 30), **settings):
            model = forest(**{"n_estimators": 4, "n_jobs": 1, "device": "cpu"} | settings)
            parts = memory_plan(model, shape).parts
            assert parts["middles of bins"] == (
                shape[1] * 2048 if parts["codes by row"] and forest is ExtraTreesRegressor else 0
            )
            return parts["codes by row"]

        assert copied() == copied(max_depth=6) == 20_000 * 30
        # Random cuts read rows of whole vectors.
        assert copied(ExtraTreesRegressor) == copied(ExtraTreesRegressor, n_estimators=1)
        assert copied(ExtraTreesRegressor, max_features=5) == 20_000 * 32
        assert copied(ExtraTreesRegressor, max_features=4) == 0
        assert copied(ExtraTreesRegressor, shape=(20_000, 9), max_features=4) == 20_000 * 16
        assert copied(ExtraTreesRegressor, shape=(20_000, 9), max_features=3) == 0
        # They do so for numbers of one output and two classes alone.
        assert copied(ExtraTreesRegressor, criterion="poisson") == 0
        assert copied(ExtraTreesRegressor, monotonic_cst=[1] * 30) == 0
        for n_outputs, by_row in ((1, 20_000 * 32), (2, 0)):
            plan = memory_plan(ExtraTreesRegressor(device="cpu"), (20_000, 30), n_outputs=n_outputs)
            assert plan.parts["codes by row"] == by_row
        for none in (
            {"max_depth": 5}, {"max_features": 7}, {"n_estimators": 1}, {"max_bins": None},
            {"shape": (9_000_000, 30)},
        ):  # fmt: skip
            assert copied(**none) == 0, none

    @pytest.mark.parametrize("settings", [
        {}, {"max_features": 3}, {"max_features": 3, "max_depth": 5}, {"criterion": "entropy"},
        {"max_features": 3, "max_leaf_nodes": 9}, {"max_leaf_nodes": 9}, {"bootstrap": True},
        {"monotonic_cst": [0] * 12}, {"monotonic_cst": [1] + [0] * 11},
        {"max_features": 3, "monotonic_cst": [0] * 12},
        {"max_features": 3, "monotonic_cst": [0] * 11 + [-1]},
        {"n_classes": 3}, {"n_features": 2}, {"n_features": 100}, {"n_features": 101},
        {"regressor": True}, {"regressor": True, "max_features": 3},
        {"regressor": True, "max_features": 1.0, "monotonic_cst": [0] * 12},
    ], ids=str)  # fmt: skip
    def test_what_random_cuts_read_is_that_of_growth(self, monkeypatch, settings):
        cpu, made = import_module("gpuens.kernels.cart.cpu.grow_cart"), []
        run = cpu.run

        def noting(worker, n_threads, table, rows, params, work, rooms, stacks):
            made.append((rows.by_row.nbytes, rows.middle.nbytes, rooms.lanes.codes.size > 0))
            run(worker, n_threads, table, rows, params, work, rooms, stacks)

        monkeypatch.setattr(cpu, "run", noting)
        settings = {"max_features": 4, "n_estimators": 2, "n_jobs": 1, "device": "cpu"} | settings
        n_features, n_classes = settings.pop("n_features", 12), settings.pop("n_classes", 2)
        settings["max_features"] = min(settings["max_features"], n_features)
        rng = np.random.default_rng(0)
        rows, labels = rng.normal(size=(300, n_features)), rng.integers(0, n_classes, 300)
        of_numbers = settings.pop("regressor", False)
        model = (ExtraTreesRegressor if of_numbers else ExtraTreesClassifier)(**settings)
        parts = memory_plan(model.fit(rows, labels), rows, labels).parts
        by_row, middles, on_lanes = made[0]
        # A vector may be read behind the last row.
        assert parts["codes by row"] == (by_row - 32 if by_row else 0)
        of_lanes = 72 * n_features if on_lanes else 0
        assert parts["middles of bins"] == middles + of_lanes

    @pytest.mark.parametrize("shape", [(600, 2000), (40_000, 12)])
    def test_extra_trees_of_two_classes(self, shape):
        rng = np.random.default_rng(0)
        rows = rng.normal(size=shape).astype(np.float32)
        labels = rows[:, 0] + rng.normal(size=len(rows)) > 0
        model = ExtraTreesClassifier(n_estimators=4, n_jobs=1, device="cpu")
        model.fit(rows[:300], labels[:300])  # what is made once a process
        tracemalloc.start()
        model.fit(rows, labels)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        total = memory_plan(model, rows, labels).total
        assert 0.6 * peak < total < 1.5 * peak

    def test_bins_of_many_features(self):
        """Their ends and middles take more than the codes of a few rows."""
        rows = np.random.default_rng(0).normal(size=(400, 1500)).astype(np.float32)
        model = ExtraTreesRegressor(n_estimators=2, n_jobs=1, device="cpu")
        model.fit(rows[:200], Y[:200])  # what is made once a process
        tracemalloc.start()
        model.fit(rows, Y[:400])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 0.6 * peak < memory_plan(model, rows, Y[:400]).total < 1.5 * peak

    @pytest.mark.slow
    def test_projections_of_oblique_forests(self):
        """Some at a time; those before are gone by then."""
        X = np.random.default_rng(0).normal(size=(20_000, 20))
        settings = {"n_estimators": 2, "feature_combinations": 2, "n_projections": 900}
        model = ObliqueRandomForestClassifier(**settings, device="cpu").fit(X, X[:, 0] > 0)
        tracemalloc.start()
        model.fit(X, X[:, 0] > 0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        plan = memory_plan(model, X.shape)
        assert plan.parts["columns to bin"] == 8 * 20_000 * (CELLS_AT_ONCE // 20_000)
        assert plan.total > peak
        plain = ObliqueRandomForestClassifier(n_estimators=2, feature_combinations=1, device="cpu")
        assert memory_plan(plain, X.shape).parts["columns to bin"] == 0

    def test_sorted_rows_of_an_exact_tree_on_a_gpu(self, cupy):
        """Unless its cuts are drawn at random."""
        tree = {"max_leaf_nodes": 3, "max_bins": None, "device": "cuda"}
        sizes = [
            memory_plan(DecisionTreeRegressor(**tree, splitter=splitter), (10**6, 10)).parts[
                "records and growing nodes"
            ]
            for splitter in ("best", "random")
        ]
        assert sizes[0] - sizes[1] == 10**6 * (10 * 16 + 56)

    def test_tiles_of_an_exact_tree_on_a_gpu(self, cupy):
        """Of 4,096 rows, and of 16,384 at most one more."""
        tree = {"max_leaf_nodes": 3, "max_bins": None, "device": "cuda"}
        best, random = (
            memory_plan(DecisionTreeRegressor(**tree, splitter=splitter), (10**6, 10)).parts[
                "histograms"
            ]
            for splitter in ("best", "random")
        )
        assert best - random == (10**6 // 2**12 + 10**6 // 2**14) * 10 * 8 * (2 * 2 + 3)

    def test_targets_are_counted(self):
        classifier = GradientBoostingClassifier(device="cpu")
        n = len(X)
        for y, n_trees in ((C > 0, 1), (C, 4), (C.astype(str), 4), (None, 1)):
            assert memory_plan(classifier, X, y).parts["raw predictions"] == 8 * n * n_trees
        regressor = GradientBoostingRegressor(device="cpu")
        two = memory_plan(regressor, X, np.stack([Y, Y], axis=1))
        assert two.parts["raw predictions"] == 8 * n * 2
        quantiles = GradientBoostingRegressor(device="cpu", loss="quantile", quantile=[0.1, 0.5])
        assert memory_plan(quantiles, X, Y).parts["raw predictions"] == 8 * n * 2

    def test_as_text(self):
        plan = MemoryPlan("A task", devices.CPU, {"a": 1024, "b": 2048, "c": 0}, 4096, None)
        assert str(plan) == "A task on cpu takes about 3 KiB (b 2 KiB, a 1 KiB); 4 KiB are free"
        assert plan.fits and plan.require() is None
        unknown = MemoryPlan("A task", devices.CPU, {"a": 2**60}, None, None)
        assert unknown.fits and str(unknown).endswith("(a 1.05e+06 TiB)")


class TestSideBySide:
    """How many trainings there is room for."""

    def test_on_a_gpu(self, cupy):
        small = RandomForestRegressor(device="cuda", max_depth=3, n_estimators=2)
        large = GradientBoostingRegressor(device="cuda", max_depth=8, max_leaf_nodes=None)
        sizes = [memory_plan(model, X, Y).total for model in (small, large)]
        room = [2**30 // size for size in sizes]
        assert trainings_at_once(small, X, Y) == room[0] > 1
        assert trainings_at_once(large, X, Y) == room[1]
        parts = memory_plan(large, X, Y).parts
        copied = parts["bins"] + parts["target and weights"]
        n_joined = 2**30 // (sizes[1] + copied)
        assert n_joined < room[1]
        models = [small, large, small, large]
        for most, expected in ((10**6, n_joined), (None, min(n_joined, Meeting.most)), (3, 3)):
            groups = planned_groups(models, X, Y, 2, most)
            assert groups == [(TrainingGroup, 2, [0, 2]), (Meeting, expected, [1, 3])]
        assert planned_groups(models, X, Y, 2, 1) == [(TrainingGroup, 2, [0, 1, 2, 3])]
        n_threads = max(room) + 1
        assert planned_groups(models, X, Y, n_threads, 1)[0].n_at_once == min(room)
        cupy.cuda.runtime.memGetInfo = lambda: (sizes[0] - 1, 2**34)
        assert trainings_at_once(small, X, Y) == 1
        cupy.cuda.get_allocator = lambda: lambda size: None
        assert trainings_at_once(small, X, Y) is None

    def test_models_with_rounds_of_their_own_do_not_meet(self, cupy):
        """Nor do those of the CPU, whatever the others are."""
        settings = {"linear_leaves": True}, {"grow_policy": "symmetric"}, {"device": "cpu"}
        models = [GradientBoostingRegressor(**({"device": "cuda"} | own)) for own in settings]
        meets = GradientBoostingRegressor(device="cuda")
        groups = planned_groups([*models, meets], X, Y, 2, None)
        assert [(own.kind, own.numbers) for own in groups] == [
            (TrainingGroup, [0, 1, 2]), (Meeting, [3]),
        ]  # fmt: skip

    def test_of_what_has_no_plan(self, cupy):
        there = strict_cupy.on_gpu(cupy, X, 1)
        for model in (AdaBoostClassifier(), GradientBoostingRegressor(max_depth="deep")):
            assert trainings_at_once(model, there, C) == 2**30 // (64 * X.size)
            assert trainings_at_once(model.set_params(device="cpu"), X, C) is None

    def test_on_the_host(self, cupy):
        assert trainings_at_once(DecisionTreeRegressor(device="cpu"), X, Y) is None


class TestTooLittle:
    def test_on_the_host(self, monkeypatch):
        """Refused before anything is trained, with the numbers."""
        model = GradientBoostingRegressor(n_estimators=100, device="cpu")
        free_on_host(monkeypatch, 2**20)
        plan = memory_plan(model, X, Y)
        assert not plan.fits
        monkeypatch.setattr(BoostingRounds, "start", None)
        with pytest.raises(MemoryError) as refused:
            model.fit(X, Y)
        assert "Gradient boosting with 60,000 x 10 values on cpu takes about" in str(refused.value)
        assert "1 MiB are free" in str(refused.value)
        largest = max(plan.parts, key=plan.parts.get)
        assert f"{largest} {format_bytes(plan.parts[largest])}" in str(refused.value)
        assert f"Most of it is {largest}: pass or set fewer" in str(refused.value)
        assert "device='cpu'" not in str(refused.value)
        assert not hasattr(model, "forest_")

    def test_a_tree_of_many_classes(self, monkeypatch):
        free_on_host(monkeypatch, 2**30)
        y = np.arange(20_000)
        with pytest.raises(MemoryError, match=r"A tree on .* GiB .*1 GiB are free.* or classes"):
            DecisionTreeClassifier(device="cpu").fit(y[:, None], y)

    @pytest.mark.parametrize("kind", [DecisionTreeRegressor, RandomForestClassifier])
    def test_a_tree_before_its_bins(self, monkeypatch, kind):
        """Not even the target is read."""
        free_on_host(monkeypatch, 2**20)
        monkeypatch.setattr(cart, "columns_of", None)
        with pytest.raises(MemoryError, match=r"60,000 x 10 .*bins .*; 1 MiB are free"):
            kind(device="cpu").fit(X, Y > 0)

    def test_on_a_gpu(self, cupy):
        cupy.cuda.runtime.memGetInfo = lambda: (10_000, 2**34)
        with pytest.raises(MemoryError, match="on cuda:0 takes about .* free of 16 GiB") as refused:
            GradientBoostingRegressor(device="cuda").fit(X, Y)
        assert "or use device='cpu'" in str(refused.value)
        assert "not supported" not in str(refused.value)

    def test_larger_than_the_card(self, cupy):
        plan = memory_plan(GradientBoostingRegressor(device="cuda"), (10**9, 100))
        with pytest.raises(MemoryError, match="more than cuda:0 has in all") as refused:
            plan.require()
        assert "on a gpuens.BinnedTable does without all the rows" in str(refused.value)
        assert "Most of it is bins: pass or set fewer rows or fewer features" in str(refused.value)

    def test_what_cupy_holds_back_is_free(self, cupy):
        cupy.get_default_memory_pool().free = 2**30
        assert devices.Device("cuda").memory() == (2**31, 2**34)

    def test_the_limit_of_cupys_pool_is_kept(self, cupy):
        pool = cupy.get_default_memory_pool()
        pool.free, pool.used, pool.limit = 2**20, 5 * 2**20, 7 * 2**20
        assert devices.Device("cuda").memory() == (2**21, 2**34)
        model = GradientBoostingRegressor(device="cuda")
        with pytest.raises(MemoryError, match="2 MiB are free of 16 GiB"):
            memory_plan(model, X).require()

    def test_another_allocator_says_nothing(self, cupy):
        """Its pool may have much that the driver counts as taken."""
        cupy.cuda.get_allocator = lambda: lambda size: None
        assert devices.Device("cuda").memory() == (None, 2**34)
        plan = memory_plan(GradientBoostingRegressor(device="cuda"), X)
        assert plan.fits and str(plan).endswith("); it has 16 GiB")

    def test_another_allocator_ends_too(self, cupy):
        cupy.cuda.get_allocator = lambda: lambda size: None
        plan = memory_plan(GradientBoostingRegressor(device="cuda"), (10**9, 100))
        with pytest.raises(MemoryError, match="That is more than cuda:0 has in all"):
            with plan.explaining():
                raise MemoryError("allocating 9 bytes")

    def test_that_shows_during_the_training(self, monkeypatch):
        def out_of_memory(*args):
            raise MemoryError("Unable to allocate 5 GiB")

        monkeypatch.setattr(BoostingRounds, "start", out_of_memory)
        with pytest.raises(MemoryError) as ended:
            GradientBoostingRegressor(device="cpu").fit(X, Y)
        assert isinstance(ended.value.__cause__, MemoryError)
        text = str(ended.value)
        assert text.startswith("Out of memory during training (Unable to allocate 5 GiB).")
        assert "The plan was: Gradient boosting with 60,000 x 10 values on cpu takes" in text
        assert "Most of it is" in text

    @pytest.mark.parametrize("n_trees", [20, 100])
    def test_of_isolation_trees(self, monkeypatch, n_trees):
        model = IsolationForest(n_estimators=n_trees, device="cpu").fit(
            X[:2000]
        )  # what is made once a process
        tracemalloc.start()
        model.fit(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        free_on_host(monkeypatch, 1000)
        with pytest.raises(MemoryError, match=f"{n_trees} trees on 60,000 rows") as error:
            model.fit(X)
        found = re.search(r"takes about ([\d.]+) MiB", str(error.value))
        assert 0.7 * peak < float(found[1]) * 2**20 < 1.7 * peak

    def test_of_a_target_that_is_read(self, monkeypatch):
        free_on_host(monkeypatch, 500_000)
        with pytest.raises(MemoryError, match=r"60,000 x 10 values .*\(target and weights 703 KiB"):
            GradientBoostingRegressor(device="cpu").fit(X, Y > 0)

    def test_of_a_forest_that_grows(self, monkeypatch):
        """What is left to be taken is asked for before, and named if it is not there after all."""
        y = C[:1000]
        forest = RandomForestClassifier(n_estimators=20, device="cpu", max_depth=3)
        free_on_host(monkeypatch, 200_000)
        with pytest.raises(MemoryError, match=r"20 trees on 1,000 x 10 .* \(records and growing"):
            forest.fit(X[:1000], y)
        monkeypatch.undo()

        def out_of_memory(*args, **keywords):
            raise MemoryError("Unable to allocate 5 GiB")

        monkeypatch.setattr(forest_growing, "grow_forest", out_of_memory)
        with pytest.raises(
            MemoryError, match="Unable to allocate .* The plan was: A forest of 20 "
        ):
            forest.fit(X[:1000], y)
        assert not hasattr(forest, "forest_")

    def test_out_of_memory_of_a_gpu_is_explained(self, cupy):
        plan = memory_plan(GradientBoostingRegressor(device="cuda"), X)
        with pytest.raises(MemoryError, match=r"Out of memory .* \(allocating 9 bytes\)") as ended:
            with devices.Device("cuda").active(), plan.explaining():
                raise cupy.cuda.memory.OutOfMemoryError("allocating 9 bytes")
        assert re.search(r"The plan was: .* cuda:0 takes about .* free of 16 GiB", str(ended.value))


@pytest.mark.parametrize("verbose, prints", [(True, False), (1, False), (2, True)])
def test_the_second_level_of_verbose_prints_the_plan(verbose, prints, capsys):
    GradientBoostingRegressor(n_estimators=1, device="cpu", verbose=verbose).fit(X[:100], Y[:100])
    plan = "Gradient boosting with 100 x 10 values on cpu takes about"
    assert (plan in capsys.readouterr().err) is prints


@pytest.mark.parametrize(
    "table", [np.zeros(3), (3,), (0, 5), (5, -1), np.zeros((2, 2, 2)), [[1.0]]]
)
def test_what_is_no_table(table):
    with pytest.raises(ValueError, match="X must be a table, or its numbers of rows and features"):
        memory_plan(GradientBoostingRegressor(device="cpu"), table)


class TestWorkers:
    """The plan of one of the workers that share a table."""

    def test_the_rows_of_a_worker(self):
        model = GradientBoostingRegressor(subsample=0.5, device="cuda")
        plan = memory_plan(model, (1_000_000, 28), n_workers=3)
        n = 326 * 1024  # whole chunks; the last one has less
        assert not plan.device.is_gpu
        assert plan.parts["bins"] == n * (32 + 28)
        assert plan.parts["records"] == n // 2 * (8 * 2 + 1)
        assert plan.parts["messages"] == plan.parts["histograms"]
        assert plan.parts["evaluation sets"] == 0
        assert "with 333,824 x 28 values of 1,000,000 rows on cpu" in str(plan)

    def test_rows_held_out_are_on_all_workers(self):
        model = GradientBoostingClassifier(early_stopping=True, validation_fraction=0.2)
        plan = memory_plan(model, (1_000_000, 28), n_outputs=3, n_workers=4)
        assert plan.parts["order of all rows"] == 24 * 1_000_000
        assert plan.parts["evaluation sets"] == 200_000 * (28 * 4 + 60 + 3 * 8 + 4)

    @pytest.mark.parametrize(
        ("model", "n_outputs", "parts"),
        [
            (
                GradientBoostingRegressor(loss="cox"),
                1,
                {"scores of all rows": 16, "queries or risk sets": 16 * 8},
            ),
            (
                GradientBoostingClassifier(loss=ArrayLoss(lambda y, score: (score, score))),
                3,
                {"scores of all rows": 3 * 16, "arguments and results of the loss": 8 + 3 * 40},
            ),
            (
                GradientBoostingRanker(loss="xendcg"),
                1,
                {"scores of all rows": 16, "queries or risk sets": 96},
            ),
        ],
    )
    def test_losses_that_read_all_rows(self, model, n_outputs, parts):
        """Their arrays do not shrink with the number of workers; those of other losses do."""
        for n_workers in (1, 2, 50):
            plan = memory_plan(model, (1_000_000, 28), n_outputs=n_outputs, n_workers=n_workers)
            for name, of_row in parts.items():
                assert plan.parts[name] == of_row * 1_000_000, (name, n_workers)
        alone = memory_plan(model, (1_000_000, 28), n_outputs=n_outputs)
        assert "scores of all rows" not in alone.parts

    def test_losses_that_read_the_rows_of_a_worker(self):
        for model in (GradientBoostingRegressor(loss="aft"), GradientBoostingRanker()):
            plan = memory_plan(model, (1_000_000, 28), n_workers=3)
            of_row = memory_plan(model, (1, 28)).parts["queries or risk sets"]
            assert plan.parts["queries or risk sets"] == of_row * 326 * 1024 > 0
            assert "scores of all rows" not in plan.parts

    def test_forests_have_the_bins_of_all_rows(self):
        model = RandomForestClassifier(oob_score=True)
        whole = memory_plan(model, (1_000_000, 28))
        plan = memory_plan(model, (1_000_000, 28), n_workers=3)
        n = 326 * 1024
        assert plan.parts["bins"] == whole.parts["bins"] == 1_000_000 * (32 + 28)
        assert plan.parts["table"] == n * 28 * 4
        assert plan.parts["columns to bin"] == 3 * 2**25
        assert plan.parts["out-of-bag sums"] < whole.parts["out-of-bag sums"]
        assert plan.parts["trees"] == whole.parts["trees"]
        assert "on 1,000,000 x 28 values, of which a worker reads 333,824 rows," in str(plan)

    @pytest.mark.parametrize("model, n_workers, message", [
        (GradientBoostingRegressor(), 0, "n_workers must be a whole number from 1, got 0"),
        (GradientBoostingRegressor(), True, "n_workers must be a whole number from 1, got T"),
        (DecisionTreeClassifier(), 2, "n_workers=2 is for gradient boosting .* DecisionTreeC"),
    ])  # fmt: skip
    def test_bad_input(self, model, n_workers, message):
        with pytest.raises(ValueError, match=message):
            memory_plan(model, (1000, 5), n_workers=n_workers)

    def test_sparse(self):
        """A worker has the entries of its rows; histograms are of all rows."""
        rng = np.random.default_rng(0)
        entries = np.where(rng.random((9 * 1024, 200)) < 0.01, 1.0, 0.0)
        entries[: 2 * 1024, :5] = 1.0  # all that the first of four workers has
        model, rows = GradientBoostingRegressor(), csr_array(entries)
        whole, plan = memory_plan(model, rows), memory_plan(model, rows, n_workers=4)
        of_each = [np.count_nonzero(entries[part]) for part in np.split(np.arange(9 * 1024), 9)]
        assert whole.parts["bins"] == ENTRY_BYTES * sum(of_each)
        assert plan.parts["bins"] == ENTRY_BYTES * sum(of_each[:2])
        assert plan.parts["gradients"] == 8 * 3 * 1024  # the last has a chunk more
        assert plan.parts["histograms"] == whole.parts["histograms"]
        assert "messages" in plan.parts

    def test_sparse_forest(self):
        rows = csr_array(np.eye(4096))
        plan = memory_plan(RandomForestClassifier(), rows, n_workers=2)
        assert plan.parts["bins"] == memory_plan(RandomForestClassifier(), rows).parts["bins"]

    def test_binned_table(self):
        table = BinnedTable.from_batches(lambda: [(np.eye(9), np.arange(9))])
        with pytest.raises(
            ValueError, match="n_workers=2 is for arrays, .* got a BinnedTable: set"
        ):
            memory_plan(GradientBoostingRegressor(), table, n_workers=2)


def test_other_estimators():
    with pytest.raises(TypeError, match="gradient boosting, trees and forests, got AdaBoost"):
        memory_plan(AdaBoostClassifier(), X)
