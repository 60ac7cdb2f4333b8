"""What a user can get wrong: each error names the argument, what it got and what it wants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_api_strict import asarray as strict

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from tests.support import strict_cupy
from tests.support.errors import changed, raises

NAN, INF = float("nan"), float("inf")
N = 40
X = np.random.default_rng(0).normal(size=(N, 3))
Y = X[:, 0] + X[:, 1]
C = (Y > 0).astype(int)
BOTH = [(GradientBoostingRegressor, Y), (GradientBoostingClassifier, C)]
both = pytest.mark.parametrize("cls, y", BOTH, ids=["regressor", "classifier"])


class TestTarget:
    def test_shape(self):
        with raises(ValueError, "y should be a 1d array, got an array of shape (40, 2)"):
            GradientBoostingClassifier().fit(X, np.stack([C, C], axis=1))
        with raises(ValueError, "y has the shape (40, 0), without a single output"):
            GradientBoostingRegressor().fit(X, np.empty((N, 0)))
        with raises(ValueError, "dim 3, while dim <= 2 is required"):
            GradientBoostingRegressor().fit(X, np.ones((N, 2, 1)))

    def test_one_class(self):
        with raises(ValueError, "y holds 1 class (7 in every row)", "at least 2"):
            GradientBoostingClassifier().fit(X, np.full(N, 7))

    @pytest.mark.parametrize("scale", [1e38, 1e155, 1e300])
    def test_too_large_for_gradients(self, scale):
        with raises(ValueError, f"y has values up to {scale:g}", "float32", "divide it"):
            GradientBoostingRegressor().fit(X, Y / np.abs(Y).max() * scale)

    def test_too_large_with_weights(self):
        with raises(ValueError, "gradients of round 1 do not fit", "divide y or sample_weight"):
            GradientBoostingRegressor().fit(X, Y * 1e20, np.full(N, 1e20))

    @pytest.mark.parametrize("device", ["cpu", "array"])
    def test_too_large_with_weights_for_rare_categories(self, device):
        """Their gradients are added up before the first round."""
        rows = np.column_stack([X, np.arange(N) % 12])
        model = GradientBoostingRegressor(categorical_features=[3], n_estimators=1, device=device)
        with raises(ValueError, "gradients of round 1 do not fit", "divide y or sample_weight"):
            model.fit(strict(rows), strict(Y * 1e20), strict(np.full(N, 1e20)))


class TestWeights:
    def test_too_large_for_gradients(self):
        with raises(ValueError, "sample_weight has values up to 1e+38", "float32", "divide it"):
            GradientBoostingRegressor().fit(X, Y, np.full(N, 1e38))

    @pytest.mark.parametrize("factors", [{0: -1.0}, {0: NAN}, {0: "much"}, "even", 3, [1, 2]])
    def test_class_weight(self, factors):
        with raises(ValueError, "class_weight must be None, 'balanced' or a dict",
                    f"got {factors!r}"):  # fmt: skip
            GradientBoostingClassifier(class_weight=factors).fit(X, C)

    def test_class_weight_of_an_unknown_class(self):
        with raises(ValueError, "classes, [1], are not in class_weight"):
            GradientBoostingClassifier(class_weight={0: 1.0, 7: 2.0}).fit(X, C)

    def test_class_weights_of_zero(self):
        with raises(ValueError, "class_weight={0: 0, 1: 0} leaves no row"):
            GradientBoostingClassifier(class_weight={0: 0, 1: 0}).fit(X, C)


class TestTable:
    @pytest.mark.parametrize("column", [np.full(N, NAN), np.ones(N), np.full(N, -INF)])
    @both
    def test_columns_without_information_are_fine(self, cls, y, column):
        model = cls(n_estimators=3).fit(np.column_stack([column, X]), y)
        assert 0 not in model.forest_.feature and model.score(np.column_stack([column, X]), y) > 0.3


class TestEvaluationSets:
    @pytest.mark.parametrize("eval_set, error, parts", [
        (5, TypeError, ("eval_set must be a pair (X, y) or a list of these, got int",)),
        (np.ones((2, 2)), TypeError, ("eval_set must be a pair", "got ndarray")),
        ([X, Y], ValueError, ("eval_set[0] must be a pair (X, y), got ndarray",)),
        ([(X, Y), (X,)], ValueError, ("eval_set[1] must be a pair (X, y), got tuple of length 1",)),
        ((X, Y, Y), ValueError, ("eval_set[0] must be a pair", "length 3")),
        ([(X[:, :2], Y)], ValueError, ("X has 2 features, but", "is expecting 3")),
        ([(X, Y), (X[:0], Y[:0])], ValueError, ("0 sample(s)",)),
        ([(X, Y), (X, Y[:5])], ValueError, ("eval_set[1] y has 5 values", "40 rows")),
        ((X, None), ValueError, ("eval_set[0] y to be passed",)),
        ((X, changed(Y, 0, NAN)), ValueError, ("Input eval_set[0] y contains NaN",)),
        ((X.astype(str), Y), ValueError, ("eval_set[0] X must hold numbers",)),
    ])  # fmt: skip
    def test_sets(self, eval_set, error, parts):
        with raises(error, *parts):
            GradientBoostingRegressor(n_estimators=1).fit(X, Y, eval_set=eval_set)

    @pytest.mark.parametrize("weight, parts", [
        (np.zeros(N), ("eval_set[0] sample_weight is zero for every row",)),
        (np.ones(3), ("eval_set[0] sample_weight must hold one weight for each of the 40 rows",)),
        (-np.ones(N), ("Negative values in data passed to `eval_set[0] sample_weight`",)),
    ])  # fmt: skip
    def test_weights(self, weight, parts):
        for data in ({"eval_set": (X, Y), "eval_sample_weight": weight},
                     {"eval_set": [(X, Y)], "eval_sample_weight": [weight]}):  # fmt: skip
            with raises(ValueError, *parts):
                GradientBoostingRegressor(n_estimators=1).fit(X, Y, **data)

    @pytest.mark.parametrize("eval_set, weights, got", [
        ([(X, Y)], np.ones(N), "got ndarray of length 40"), ([(X, Y)], [], "got list of length 0"),
        (None, [np.ones(N)], "got list of length 1"), ([(X, Y)], 5, "got int"),
    ])  # fmt: skip
    def test_number_of_weights(self, eval_set, weights, got):
        data = {"eval_set": eval_set, "eval_sample_weight": weights}
        with raises(ValueError, "eval_sample_weight must be a list with an array (or None)", got):
            GradientBoostingRegressor(n_estimators=1).fit(X, Y, **data)

    def test_unknown_classes(self):
        with raises(ValueError, "eval_set[0] y has classes that the model does not know: [2]",
                    "trained on [0, 1]"):  # fmt: skip
            GradientBoostingClassifier(n_estimators=1).fit(X, C, eval_set=(X, C * 2))

    def test_unknown_kind_of_classes(self):
        with raises(ValueError, "does not know: ['a', 'b']. It was trained on [0, 1]"):
            y = np.array(["a", "b"])[C]
            GradientBoostingClassifier(n_estimators=1).fit(X, C, eval_set=(X, y))

    def test_one_class_is_fine(self):
        model = GradientBoostingClassifier(n_estimators=2).fit(X, C, eval_set=(X, np.ones(N, int)))
        assert len(model.evals_result_["validation_0"]["loss"]) == 3

    @pytest.mark.parametrize("n, fraction", [(1, 0.1), (N, N), (N, N + 1)])
    def test_nothing_to_hold_out(self, n, fraction):
        model = GradientBoostingRegressor(early_stopping=True, validation_fraction=fraction)
        with raises(ValueError, f"validation_fraction={fraction} of {n} rows cannot be held out",
                    "pass eval_set"):  # fmt: skip
            model.fit(X[:n], Y[:n])


COUNT = [0, -1, 1.0, 2.5, "3", NAN, True, [1]]
SHARE = [0, 0.0, -0.5, 1.0001, 2, NAN, INF, "0.5", None, True]
AMOUNT = [-1e-9, -1, NAN, INF, "0", None, True]
FLAG = ["yes", 2, None, "True"]
PARAMETERS: dict[str, list[Any]] = {
    "loss": ["mse", None, 3, len, int],
    "line_search": FLAG,
    "multi_strategy": ["one_tree", 1, None, True],
    "dropout": [-0.1, 1.5, NAN, None, "0.2", True],
    "skip_dropout": [-0.1, 1.5, NAN, None, "0.2", True],
    "max_drop": COUNT,
    "uniform_drop": FLAG,
    "linear_leaves": FLAG,
    "linear_lambda": [-0.1, NAN, INF, None, "0.2", True],
    "normalize_drop": ["trees", "", 1, None],
    "n_estimators": [*COUNT, None],
    "learning_rate": [0, 0.0, -0.1, NAN, INF, "0.1", None, True],
    "max_depth": COUNT,
    "max_leaf_nodes": [1, *COUNT],
    "grow_policy": ["symmetrical", "", 1, None],
    "min_samples_split": [1, 0, -1, 0.0, 1.5, "3", NAN, None],
    "min_samples_leaf": [*COUNT, None],
    "min_sum_hessian": AMOUNT,
    "l2_regularization": AMOUNT,
    "min_gain_to_split": AMOUNT,
    "min_impurity_decrease": AMOUNT,
    "max_bins": [0, 1, 256, 10.0, None, True],
    "subsample": SHARE,
    "sampling": ["bagging", "", 1, None],
    "top_rate": [-0.1, 1.5, np.nan, None, "0.2", True],
    "other_rate": SHARE,
    "colsample_bytree": SHARE,
    "colsample_bylevel": SHARE,
    "colsample_bynode": SHARE,
    "max_features": [0, -1, 0.0, 1.5, "auto", NAN, True],
    "init": ["mean", 0, print],
    "categorical_features": ["all", 0.5],
    "cat_smooth": AMOUNT,
    "cat_l2": AMOUNT,
    "max_cat_to_onehot": [*COUNT, None],
    "cat_hash_groups": [*COUNT, None, 256],
    "monotonic_cst": ["up", 1],
    "interaction_cst": ["none", 3],
    "early_stopping": FLAG,
    "validation_fraction": [0, 0.0, 1.0, 1.5, -0.1, -3, NAN, "0.1", True],
    "n_iter_no_change": [*COUNT, None],
    "tol": AMOUNT,
    "keep_best": FLAG,
    "scoring": ["unheard of", 3, [], ["loss", 3]],
    "warm_start": FLAG,
    "random_state": [-1, 2**32, 1.5, "0", NAN, np.random.default_rng(0)],
    "n_jobs": [0, 1.5, "2", True],
    "device": ["gpu", "cuda:x", 0, None],
    "verbose": [-1, 1.5, "yes", None],
    "callbacks": [print, [int], [object()], "log", [None]],
}  # fmt: skip
CASES = [(name, value) for name, values in PARAMETERS.items() for value in values]


class TestParameters:
    def test_every_parameter_has_its_cases(self):
        for cls, _ in BOTH:
            own = {"class_weight", "quantile"}
            assert set(cls().get_params()) - own == set(PARAMETERS)

    @pytest.mark.parametrize("name, value", CASES, ids=[f"{n}={v!r:.30}" for n, v in CASES])
    @both
    def test_out_of_range(self, cls, y, name, value):
        got = value[-1] if isinstance(value, list) and value and name != "max_depth" else value
        got = value if name in PARAMETERS and value in ([1],) else got
        error = TypeError if name == "callbacks" else ValueError
        with raises(error, name, "must be", f"got {got!r}"):
            cls(**{name: value}).fit(X, y)

    @pytest.mark.parametrize("settings", [
        {"n_estimators": np.int32(2)}, {"learning_rate": np.float32(0.5)}, {"subsample": 1},
        {"max_depth": 10**12, "max_leaf_nodes": 10**12}, {"min_samples_leaf": 10**30},
        {"early_stopping": np.True_, "validation_fraction": np.int64(5)}, {"verbose": 0},
        {"scoring": ("loss", "r2")}, {"callbacks": ()}, {"random_state": np.uint8(7)},
        {"random_state": np.random}, {"n_jobs": -1}, {"n_jobs": -(10**6)}, {"max_bins": 2},
        {"min_gain_to_split": 0}, {"max_depth": 1, "max_leaf_nodes": 2}, {"tol": 0},
    ], ids=str)  # fmt: skip
    def test_unusual_but_fine(self, settings):
        model = GradientBoostingRegressor(**{"n_estimators": 2, **settings})
        assert np.isfinite(model.fit(X, Y).predict(X)).all()

    @both
    def test_nothing_happens_at_construction(self, cls, y):
        parameters = {name: values[0] for name, values in PARAMETERS.items()}
        assert cls(**parameters).get_params().items() >= parameters.items()
        with raises(ValueError, "Invalid parameter 'max_iter'"):
            cls().set_params(max_iter=3)


class TestDevices:
    @pytest.fixture
    def cupy(self, monkeypatch):
        return strict_cupy.install(monkeypatch)

    def test_no_gpu(self, monkeypatch):
        monkeypatch.setattr("gpuens.devices.placement.simulated", lambda: False)
        monkeypatch.setattr(
            "gpuens.devices.placement.gpu_problem", lambda: "no NVIDIA driver was found"
        )
        with raises(RuntimeError, "device='cuda' asks for a GPU, but no NVIDIA driver was found"):
            GradientBoostingRegressor(device="cuda").fit(X, Y)
        model = GradientBoostingRegressor(n_estimators=1).fit(X, Y).set_params(device="cuda")
        with raises(RuntimeError, "device='cuda' asks for a GPU"):
            model.predict(X)

    def test_arrays_on_two_gpus(self, cupy):
        there, elsewhere = strict_cupy.on_gpu(cupy, X, 0), strict_cupy.on_gpu(cupy, Y, 1)
        with raises(ValueError, "All arrays must be on one GPU, got X on cuda:0, y on cuda:1"):
            GradientBoostingRegressor().fit(there, elsewhere)
        weight = strict_cupy.on_gpu(cupy, np.ones(N), 1)
        with raises(ValueError, "got X on cuda:0, sample_weight on cuda:1"):
            GradientBoostingRegressor().fit(there, Y, weight)
        with raises(ValueError, "got device on cuda:1, X on cuda:0"):
            GradientBoostingRegressor(device="cuda:1").fit(there, Y)
        with raises(RuntimeError, "device='cuda:7'", "only 2 GPU(s)"):
            GradientBoostingRegressor(device="cuda:7").fit(X, Y)

    def test_evaluation_set_on_another_gpu(self, cupy):
        there, elsewhere = strict_cupy.on_gpu(cupy, X, 0), strict_cupy.on_gpu(cupy, X, 1)
        with raises(ValueError, "got X on cuda:0, eval_set[0] X on cuda:1"):
            GradientBoostingRegressor().fit(there, Y, eval_set=(elsewhere, Y))

    def test_host_and_gpu_with_device_cpu(self, cupy):
        there = strict_cupy.on_gpu(cupy, X, 0)
        model = GradientBoostingRegressor(n_estimators=2, device="cpu")
        plain = GradientBoostingRegressor(n_estimators=2, device="cpu").fit(X, Y)
        assert model.fit(there, Y).forest_.fingerprint() == plain.forest_.fingerprint()
        assert isinstance(model.predict(there), cupy.ndarray)

    def test_a_gpu_without_memory_enough(self, cupy):
        def full(*args: Any, **keywords: Any) -> Any:
            raise cupy.cuda.memory.OutOfMemoryError("out of memory allocating 960 bytes")

        cupy.asarray = cupy.empty = full
        with raises(MemoryError, "cuda:0 has not enough memory", "1.0 of 16.0 GiB are free",
                    "960 bytes", "fewer rows"):  # fmt: skip
            GradientBoostingRegressor(device="cuda").fit(X, Y)
        model = GradientBoostingRegressor(n_estimators=1, device="cpu").fit(X, Y)
        with raises(MemoryError, "cuda:0 has not enough memory"):
            model.set_params(device="cuda").predict(X)
