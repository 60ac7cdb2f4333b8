"""Workers that share the rows of a table train the model of ``fit``, bit for bit."""

from __future__ import annotations

import threading
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor, NothingLearnedWarning
from gpuens.devices.placement import CPU
from gpuens.inputs import shared_tables
from gpuens.kernels.growth.cpu import by_phases as shared_growth
from gpuens.kernels.growth.cpu import grow as cpu_grow
from gpuens.kernels.growth.cpu.layout import layout
from gpuens.kernels.runtime.collective import ONE_WORKER, Alone, Workers, current_workers, sharing
from gpuens.losses import ArrayLoss, CustomLoss, SquaredError
from gpuens.numerics.weighted import mean_later, ordered_sum
from tests.support.lanes import few
from tests.support.thread_workers import cut, run_workers

N = 6_500
CUTS = {1: [N], 2: [1024, N], 3: [4096, 5120, N], 5: [1024, 2048, 3072, 6144, N]}
R, C = GradientBoostingRegressor, GradientBoostingClassifier


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns of normal, whole and missing values; a target; whole weights, zero at the start."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 10))
    X[:, 3] = np.round(X[:, 3])
    X[rng.random(N) < 0.1, 5] = np.nan
    X[:, 9] = rng.integers(0, 6, N) + 7 * (np.arange(N) // 1500)  # other categories in each part
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + X[:, 3] + rng.standard_normal(N) / 2
    weight = rng.integers(0, 3, N).astype(float)
    weight[:1100] = 0.0
    return X, y, weight


def fourth_power(y: float, score: float) -> float:
    return (score - y) ** 4


def cube(y: float, score: float) -> float:
    return 4.0 * (score - y) ** 3


def centred(y: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradients that depend on the scores of all rows."""
    residual = score - y
    return residual - 0.5 * residual.mean(axis=0), np.ones_like(score)


def softened(y: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    p = 1.0 / (1.0 + np.exp(-score))
    return p - (y[:, None] == np.arange(score.shape[1])), p * (1.0 - p)


X, Y, WEIGHT = table()
TARGETS = {
    "reg": Y,
    "two": np.column_stack([Y, X[:, 0] - Y]),
    "positive": np.where(np.arange(N) < 1024, 0.0, abs(Y)),
    "amounts": abs(Y) + 1.0,
    "counts": np.round(abs(Y)),
    # The first worker has one class alone, the second lacks one.
    "binary": np.where((Y > 0) & (np.arange(N) >= 1024), "yes", "no"),
    "classes": np.digitize(Y, [-1, 1]) * (np.arange(N) > 2048),
}

CASES: list[tuple[type, str, bool, dict[str, Any]]] = [
    (R, "reg", False, {}),
    (R, "reg", True, {"subsample": 0.3, "n_jobs": 2}),
    (R, "reg", True, {"max_leaf_nodes": None, "max_depth": 5, "min_samples_leaf": 300}),
    (R, "reg", True, {"grow_policy": "symmetric", "min_samples_leaf": 100}),
    (C, "classes", False, {"grow_policy": "symmetric", "colsample_bynode": 0.5, "n_jobs": 2}),
    (R, "reg", False, {"subsample": 0.0005, "min_samples_leaf": 1}),
    (R, "reg", False, {"monotonic_cst": [1, -1, 0, 0, 0, 0, 1, 0, 0, 0], "max_bins": 40}),
    (R, "two", True, {"colsample_bynode": 0.5, "interaction_cst": "pairwise"}),
    (R, "positive", True, {"loss": "poisson", "line_search": True}),
    (R, "positive", False, {"loss": "tweedie", "subsample": 0.5}),
    (R, "amounts", True, {"loss": "gamma"}),
    (C, "binary", False, {"min_samples_leaf": 80}),
    (C, "binary", True, {"loss": "exponential", "subsample": 0.7}),
    (C, "classes", True, {"learning_rate": 0.5}),
    (C, "classes", False, {"loss": "focal", "colsample_bytree": 0.6}),
    (R, "reg", True, {"categorical_features": [3, 9], "max_bins": 8, "cat_smooth": 1.0}),
    (C, "classes", False, {"categorical_features": [9], "min_samples_leaf": 300}),
    (R, "reg", True, {"min_samples_split": 0.1, "min_impurity_decrease": 0.01, "subsample": 0.3}),
    (R, "reg", False, {"min_samples_split": 900, "min_impurity_decrease": 0.05, "subsample": 3e-4}),
    (C, "classes", True, {"class_weight": "balanced"}),
    (C, "binary", False, {"class_weight": {"yes": 3.5}, "sampling": "balanced", "subsample": 0.2}),
    (C, "classes", True, {"class_weight": "balanced", "sampling": "balanced", "subsample": 0.01}),
    (R, "reg", True, {"sampling": "goss", "learning_rate": 0.5, "min_impurity_decrease": 0.01}),
    (C, "classes", False, {"sampling": "goss", "learning_rate": 1.0, "top_rate": 1e-3,
                           "other_rate": 1e-4}),
    (R, "two", True, {"sampling": "mvs", "subsample": 0.3}),
    (R, "positive", False, {"sampling": "mvs", "subsample": 0.001, "loss": "poisson"}),
    (R, "reg", True, {"loss": "absolute_error"}),
    (R, "positive", False, {"loss": "quantile", "quantile": [0.2, 0.8], "subsample": 0.5}),
    (R, "two", True, {"loss": "quantile", "quantile": 0.9, "monotonic_cst": [1] + [0] * 9}),
    (R, "reg", True, {"loss": "huber"}),
    (R, "positive", False, {"loss": "huber", "subsample": 3e-4, "min_samples_leaf": 1}),
    (R, "reg", True, {"loss": "huber", "sampling": "goss", "learning_rate": 1.0}),
    (R, "two", True, {"loss": "expectile", "quantile": 0.97, "learning_rate": 1.0}),
    (R, "reg", True, {"loss": "normal"}),
    (R, "amounts", False, {"loss": "log_normal", "subsample": 0.5}),
    (R, "reg", True, {"loss": "student_t"}),
    (R, "counts", True, {"loss": "negative_binomial"}),
    (C, "classes", True, {"multi_strategy": "multi_output_tree", "subsample": 0.5}),
    (C, "classes", False, {"multi_strategy": "multi_output_tree", "sampling": "goss",
                           "learning_rate": 1.0, "loss": "focal"}),
    (R, "two", True, {"multi_strategy": "multi_output_tree", "loss": "absolute_error"}),
    (R, "reg", True, {"dropout": 0.5}),
    (R, "two", False, {"dropout": 0.6, "normalize_drop": "forest", "subsample": 0.5}),
    (C, "classes", True, {"dropout": 0.5, "uniform_drop": False, "max_drop": 2}),
    (R, "reg", True, {"linear_leaves": True}),
    (R, "positive", False, {"loss": "poisson", "linear_leaves": True, "learning_rate": 1.0}),
    (C, "classes", True, {"linear_leaves": True, "subsample": 0.3, "max_leaf_nodes": 40}),
    (R, "reg", True, {"loss": centred, "line_search": True}),
    (R, "two", False, {"loss": ArrayLoss(centred), "subsample": 0.5}),
    (C, "classes", True, {"loss": ArrayLoss(softened, start=0.5)}),
    (R, "reg", True, {"loss": CustomLoss(fourth_power, cube), "learning_rate": 0.01}),
]  # fmt: skip


def in_turns(cases: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Add the rows of two or five workers to each case, in turns: what is trained does not depend
    on their number, which tests of their own vary."""
    return [(*case, CUTS[n]) for case, n in zip(cases, cycle((2, 5)))]


def fit_shared(model: Any, rows: tuple[Any, ...], ends: list[int], **others: Any) -> list[Any]:
    """Return the models of workers that have the rows up to each of ``ends``."""
    pieces = cut(rows, ends)

    def work(collective):
        own = pieces[collective.rank]
        first = [0, *ends][collective.rank]
        with sharing(Workers(collective, first, own[0].shape[0], ends[-1])):
            return type(model)(**model.get_params(deep=False)).fit(*own, **others)

    return run_workers(len(ends), work)


@pytest.mark.parametrize(
    ("cls", "target", "weighted", "params", "ends"),
    few(in_turns(CASES), *range(0, len(CASES), 3)),
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, dict) else None,
)
def test_the_model_is_that_of_fit(cls, target, weighted, params, ends):
    model = cls(**{"n_estimators": 6, "random_state": 3, "device": "cpu", **params})
    y, weight = TARGETS[target], WEIGHT if weighted else None
    plain = type(model)(**model.get_params()).fit(X, y, weight)
    for shared in fit_shared(model, (X, y, weight), ends):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
        assert np.array_equal(shared.predict(X[:50]), plain.predict(X[:50]))


@pytest.mark.parametrize("n_workers", CUTS)
def test_any_number_of_workers(n_workers):
    model = R(n_estimators=20, random_state=3, device="cpu", subsample=0.6)
    plain = R(**model.get_params()).fit(X.astype(np.float32), Y, WEIGHT)
    rows = X.astype(np.float32), Y, WEIGHT
    for shared in fit_shared(model, rows, CUTS[n_workers]):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


@pytest.mark.parametrize("target", ["reg", "classes"])
def test_rare_categories_are_those_of_all_rows(target):
    """Most of them have fewer rows on each worker than two, all of them fewer than ten."""
    levels = np.r_[np.repeat(np.arange(150), 8), 150 + np.arange(N - 1200) % 20]
    rare = np.random.default_rng(4).permutation(levels)
    y = np.random.default_rng(5).normal(size=170)[rare] + 0.05 * Y
    y = y if target == "reg" else np.digitize(y, [-0.5, 0.5])
    table = np.column_stack([rare, X[:, :2]]).astype(float)
    cls = R if target == "reg" else C
    model = cls(n_estimators=6, device="cpu", categorical_features=[0])
    plain = cls(**model.get_params()).fit(table, y, WEIGHT)
    assert plain._category_smoothing[0] < 5.0
    for n_workers in (2, 5):
        for shared in fit_shared(model, (table, y, WEIGHT), CUTS[n_workers]):
            assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


def test_a_model_of_shared_rows_without_splits_warns():
    model = R(n_estimators=2, device="cpu", min_gain_to_split=1e9)
    with pytest.warns(NothingLearnedWarning, match="min_gain_to_split=1000000000.0"):
        fit_shared(model, (X, Y, WEIGHT), CUTS[3])


def test_features_share_bytes_as_in_fit(monkeypatch):
    """Two columns are away from their common bins in the same row of the last worker alone, one has
    missing values there alone, and another one's common bin is that of all rows."""
    towns = np.random.default_rng(0).integers(0, 12, N)
    X = np.column_stack([towns[:, None] == np.arange(12), Y]).astype(float)
    X[-1, [0, 1]] = 1.0
    X[-2, 2] = np.nan
    X[:1024, 3] = 1.0 - X[:1024, 3]
    found: list[Any] = []
    for module in (cpu_grow, shared_growth):
        monkeypatch.setattr(
            module, "layout", lambda *args: found.append(layout(*args)) or found[-1]
        )
    model = R(n_estimators=3, random_state=3, device="cpu")
    plain = R(**model.get_params()).fit(X, Y**2)
    expected = found[0]
    assert expected.column_slots.size < 8
    for n_workers in (2, 5):
        found.clear()
        for shared in fit_shared(model, (X, Y**2), CUTS[n_workers]):
            assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
        assert len(found) >= n_workers
        for other in found:
            assert (other.features == expected.features).all()


def test_histograms_that_are_not_kept(monkeypatch):
    """Nodes whose histogram was given up get it from all workers again."""
    from gpuens.kernels.growth import frontier

    monkeypatch.setattr(frontier, "HISTOGRAM_BYTES", 0)
    model = R(n_estimators=3, random_state=3, device="cpu", min_samples_leaf=100)
    plain = R(**model.get_params()).fit(X, Y)
    for shared in fit_shared(model, (X, Y, None), CUTS[3]):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


@pytest.mark.parametrize("kept_bytes", [0, 2**29])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_histograms_that_are_added_up_in_vain(monkeypatch, kept_bytes, n_jobs):
    """Where it turns out that a child has too few rows of all workers, its parent stays closed, is
    searched again, and is opened by another split."""
    from gpuens.kernels.growth import frontier

    found: list[int] = []

    def noted(batch: Any) -> Any:
        found.append(int(batch.frontier.state[frontier.N_RECHECK]))
        assert batch.frontier.state[frontier.N_EXPAND] >= found[-1] > 0
        return recount(batch)

    recount = shared_growth._DenseBatch._recount
    monkeypatch.setattr(frontier, "HISTOGRAM_BYTES", kept_bytes)
    monkeypatch.setattr(shared_growth._DenseBatch, "_recount", noted)
    monkeypatch.setattr(shared_growth, "MIN_CELLS_PER_THREAD", 1)
    model = R(
        n_estimators=4, random_state=3, device="cpu", min_samples_leaf=300, n_jobs=n_jobs,
        max_leaf_nodes=12,
    )  # fmt: skip
    weight = np.exp(2.0 * np.random.default_rng(5).standard_normal(N))
    plain = R(**model.get_params()).fit(X, Y, weight)
    for shared in fit_shared(model, (X, Y, weight), CUTS[5]):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
    assert len(found) >= 20


@pytest.mark.parametrize("sampled", [3_000, 1])
def test_cut_points_of_a_sample(monkeypatch, sampled):
    from gpuens.inputs import binning

    monkeypatch.setattr(binning, "SAMPLE_SIZE", sampled)
    model = R(n_estimators=2, random_state=5, device="cpu")
    plain = R(**model.get_params()).fit(X, Y, WEIGHT)
    for shared in fit_shared(model, (X, Y, WEIGHT), CUTS[5]):
        for own, theirs in zip(shared._binner.thresholds, plain._binner.thresholds, strict=True):
            assert np.array_equal(own, theirs)


@pytest.mark.filterwarnings("ignore:All rows of 'validation_0'")  # which are of one class
@pytest.mark.parametrize("weighted", [False, True])
def test_evaluation_sets_and_early_stopping(weighted):
    """Every worker has them as a whole, and stops in the same round."""
    model = C(
        n_estimators=40, random_state=3, device="cpu", early_stopping=True, n_iter_no_change=2,
        learning_rate=1.0, scoring=["loss", "accuracy"],
    )  # fmt: skip
    y = TARGETS["classes"]
    weight = WEIGHT[4096:] if weighted else None
    others = {"eval_set": (X[:700], y[:700])}
    plain = C(**model.get_params()).fit(X[4096:], y[4096:], weight, **others)
    assert plain.stopped_ == "early stopping"
    rows = X[4096:], y[4096:], weight
    for shared in fit_shared(model, rows, [1024, N - 4096], **others):
        assert shared.evals_result_ == plain.evals_result_
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


def test_the_loss_of_the_training_rows():
    model = R(
        n_estimators=5, random_state=3, device="cpu", early_stopping=True, validation_fraction=None
    )
    plain = R(**model.get_params()).fit(X, Y, WEIGHT)
    for shared in fit_shared(model, (X, Y, WEIGHT), CUTS[3]):
        assert shared.evals_result_ == plain.evals_result_


@pytest.mark.parametrize(
    ("cls", "target", "weighted", "n", "fraction", "ends"),
    [
        (R, "reg", False, N, 0.1, CUTS[5]),
        (R, "two", True, N, 700, CUTS[2]),
        (C, "classes", True, N, 0.2, CUTS[3]),
        (C, "binary", False, 2100, 0.4, [1024, 2048, 2100]),  # fewer chunks than workers are left
    ],
)
def test_rows_held_out(monkeypatch, cls, target, weighted, n, fraction, ends):
    monkeypatch.setattr(shared_tables, "MESSAGE_BYTES", 40_000)
    model = cls(
        n_estimators=30, random_state=3, device="cpu", early_stopping=True, n_iter_no_change=2,
        learning_rate=1.0, validation_fraction=fraction, subsample=0.7, scoring=[None, "loss"],
        categorical_features=[3, 9], max_bins=20,
    )  # fmt: skip
    rows = X[:n], TARGETS[target][:n], WEIGHT[:n] if weighted else None
    plain = cls(**model.get_params()).fit(*rows)
    assert plain.n_iter_ < 30
    for shared in fit_shared(model, rows, ends):
        assert shared.evals_result_ == plain.evals_result_
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
    assert current_workers() is ONE_WORKER


@pytest.mark.parametrize("holds_out", [False, True])
def test_callbacks_are_called_on_the_first_worker(holds_out):
    """And what they decide holds for all, also where every worker has all rows."""
    ends = [1024, 2048, 2100]
    seen: list[tuple[str, int]] = []

    class Stopper:
        def after_iteration(self, state: Any) -> bool:
            seen.append((threading.current_thread().name, state.iteration))
            return state.model().n_iter_ == 4

        def after_training(self, state: Any) -> None:
            seen.append(("end", state.iteration))

    model = R(
        n_estimators=9, random_state=3, device="cpu", callbacks=[Stopper(), lambda state: None],
        early_stopping=holds_out, validation_fraction=0.5,
    )  # fmt: skip
    plain = R(**{**model.get_params(), "callbacks": None, "early_stopping": False})
    for shared in fit_shared(model, (X[:2100], Y[:2100]), ends):
        assert shared.stopped_ == "callback" and shared.n_iter_ == 4
        if not holds_out:
            expected = plain.set_params(n_estimators=4).fit(X[:2100], Y[:2100])
            assert shared.forest_.fingerprint() == expected.forest_.fingerprint()
    assert len({name for name, _ in seen[:-1]}) == 1
    assert [iteration for _, iteration in seen] == [1, 2, 3, 4, 4]


def test_a_callback_that_fails_ends_the_training_everywhere(capsys):
    def fail(state: Any) -> None:
        raise KeyError("no disk")

    errors: list[Exception] = []

    def fit(collective):
        (own,) = cut((X[:2048],), [1024, 2048])[collective.rank]
        with sharing(Workers(collective, 1024 * collective.rank, 1024, 2048)):
            model = R(n_estimators=3, device="cpu", callbacks=[fail], verbose=2)
            with pytest.raises((KeyError, RuntimeError), match="no disk") as error:
                model.fit(own, own[:, 0])
            errors.append(error.value)
            assert model.n_iter_ == 1

    run_workers(2, fit)
    assert sorted(type(error).__name__ for error in errors) == ["KeyError", "RuntimeError"]
    assert "callback has failed on the first worker: KeyError" in str(errors)
    said = capsys.readouterr().err
    assert said.count("Running on cpu") == said.count("Gradient boosting with") == 1
    assert said.endswith("Ended after 1 of 3 rounds: error.\n")


def frame_of(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    town = np.array([f"town {k}" for k in range(40)], object)[rng.integers(0, 40, n) // 2 * 2]
    town[:1024] = None
    town[1024:2048] = np.array(["a", "z"], object)[rng.integers(0, 2, len(town[1024:2048]))]
    number = np.where(np.arange(n) < 1500, 3, 2**25 + 1)  # float32 holds those of the first part
    return pd.DataFrame({"town": town, "x": rng.standard_normal(n), "number": number})


def test_categories_and_types_that_not_every_part_has():
    frame = frame_of(3000)
    y = frame["x"] + frame["town"].str.len().fillna(0) + (frame["number"] > 3)
    model = R(
        n_estimators=5, random_state=3, device="cpu", categorical_features=["town"], max_bins=12
    )
    plain = R(**model.get_params()).fit(frame, y)
    for shared in fit_shared(model, (frame, y), [1024, 2048, 3000]):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
        assert np.array_equal(shared.predict(frame), plain.predict(frame))


def test_parts_that_differ():
    def fit(change: Any, **params: Any) -> None:
        pieces = [frame_of(1024), change(frame_of(1024))]

        def work(collective):
            own = pieces[collective.rank]
            with sharing(Workers(collective, 1024 * collective.rank, 1024, 2048)):
                R(n_estimators=2, device="cpu", **params).fit(own, np.arange(1024.0))

        run_workers(2, work)

    numbers = frame_of(1024)[["x", "number"]].rename(columns={"x": "z"})
    with pytest.raises(ValueError, match="the same columns: worker 0 has 'town', 'x', 'number', w"):
        fit(lambda frame: numbers.assign(town=1.0), categorical_features=None)
    with pytest.raises(ValueError, match="of the same type: the categorical features are known to"):
        fit(lambda frame: numbers.to_numpy(), categorical_features="from_dtype")
    with pytest.raises(ValueError, match="holds numbers and strings, in different parts"):
        fit(lambda frame: frame.assign(x=["7"] * 1024), categorical_features=["x", "town"])


def test_training_that_continues_a_model():
    plain = R(n_estimators=3, random_state=3, device="cpu").fit(X, Y)
    begun = R(n_estimators=3, random_state=3, device="cpu").fit(X, Y)
    model = R(n_estimators=4, random_state=5, device="cpu", subsample=0.5)
    expected = R(**model.get_params()).fit(X, Y, init=plain)
    for shared in fit_shared(model, (X, Y), CUTS[3], init=begun):
        assert shared.forest_.fingerprint() == expected.forest_.fingerprint()


@pytest.mark.parametrize("params", [{"subsample": 0.5}, {"dropout": 0.5}, {"linear_leaves": True}])
def test_a_warm_start_on_other_workers(params):
    model = R(n_estimators=7, random_state=3, device="cpu", **params)
    plain = R(**model.get_params()).fit(X, Y)
    begun = fit_shared(R(**{**model.get_params(), "n_estimators": 4}), (X, Y), CUTS[5])
    pieces = cut((X, Y), CUTS[2])

    def work(collective):
        own = pieces[collective.rank]
        first = [0, *CUTS[2]][collective.rank]
        mine = begun[collective.rank].set_params(n_estimators=7, warm_start=True)
        with sharing(Workers(collective, first, len(own[0]), N)):
            return mine.fit(*own)

    for shared in run_workers(2, work):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


def test_a_single_worker_needs_nobody():
    model = C(n_estimators=4, random_state=3, device="cpu", subsample=0.5)
    plain = C(**model.get_params()).fit(X, TARGETS["classes"], WEIGHT)
    with sharing(Workers(Alone(), 0, N, N)):
        model.fit(X, TARGETS["classes"], WEIGHT)
    assert model.forest_.fingerprint() == plain.forest_.fingerprint()


@pytest.mark.parametrize("n", [1, 1024, 1025, 5000])
@pytest.mark.parametrize("kind", ["real", "whole", "zero", "large"])
def test_sums_of_all_rows(n, kind):
    values = np.random.default_rng(n).standard_normal(n) * (1e18 if kind == "large" else 1e3)
    if kind != "real":
        values = np.rint(values)
    if kind == "zero":
        values[:] = 0.0
    ends = [e for e in CUTS[5] if e < n] + [n]
    pieces = cut((values,), ends)

    def work(collective):
        (own,) = pieces[collective.rank]
        workers = Workers(collective, [0, *ends][collective.rank], own.size, n)
        return ordered_sum(own, CPU, workers), mean_later(own, abs(own) + 1.0, CPU, workers)()

    expected = ordered_sum(values, CPU), mean_later(values, abs(values) + 1.0, CPU)()
    assert run_workers(len(ends), work) == [expected] * len(ends)


class Squares(SquaredError):  # noqa: N818 (an error that is squared)
    name = "squares"


REFUSED: list[tuple[type, dict[str, Any], str]] = [
    (R, {"loss": Squares()}, "Squares()"),
    (R, {"early_stopping": True, "validation_fraction": None, "scoring": "r2"}, "scoring='r2'"),
    (R, {"init": LinearRegression()}, "init=LinearRegression()"),
]


@pytest.mark.parametrize(("cls", "params", "named"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_not_supported_is_named(cls, params, named):
    table = np.where(np.isnan(X[:2048]), 0.0, X[:2048])
    table[:, 3] = abs(table[:, 3])
    model = cls(**{"n_estimators": 2, "device": "cpu", **params})
    y = TARGETS["binary"] if cls is C else abs(Y)
    with pytest.raises(NotImplementedError) as error:
        fit_shared(model, (table, y[:2048]), [1024, 2048])
    assert named in str(error.value)
    assert "where several workers share the rows" in str(error.value)


def test_fewer_columns_than_workers():
    table = np.ascontiguousarray(X[:, :1])
    plain = R(n_estimators=2, device="cpu").fit(table, Y)
    for shared in fit_shared(R(n_estimators=2, device="cpu"), (table, Y), CUTS[3]):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


def test_one_class_in_all_rows():
    with pytest.raises(ValueError, match="y holds 1 class"):
        fit_shared(C(device="cpu"), (X, np.zeros(N, int)), CUTS[2])


def test_weights_of_zero_in_all_rows():
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        fit_shared(R(device="cpu"), (X, Y, np.zeros(N)), CUTS[2])


@pytest.mark.parametrize("ends", [[1000, N], [0, N]])
def test_a_share_has_whole_chunks(ends):
    with pytest.raises(ValueError, match="whole chunks of 1024 rows"):
        fit_shared(R(device="cpu"), (X, Y), ends)
