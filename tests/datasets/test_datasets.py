"""The generated tables: what all of them have in common."""

from __future__ import annotations

import tracemalloc

import array_api_compat.numpy as compat
import array_api_strict
import numpy as np
import pytest
from scipy.special import ndtri

from gpuens import GradientBoostingClassifier, datasets
from gpuens.datasets import make_airline_like, make_covtype_like, make_higgs_like, make_moons
from gpuens.datasets import tables as datasets_tables
from gpuens.datasets.draws import (
    LABELS,
    RULE,
    BlockDraws,
    arctan,
    cos_pi,
    normal_quantile,
    sin_pi,
    sqrt_float32,
    sqrt_float64,
)
from gpuens.kernels.scalars import rng

MAKERS = [getattr(datasets, name) for name in datasets.__all__ if name.startswith("make_")]
every_maker = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)


def assert_same(actual, expected):
    for a, b in zip(actual, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes()


@every_maker
def test_the_seed_decides(make):
    first, again, other = make(500, random_state=4), make(500, random_state=4), make(500)
    assert_same(first, again)
    assert_same(make(500, random_state=None), other)
    assert_same(make(500, random_state=np.int64(4)), first)
    assert not np.array_equal(first[0], other[0], equal_nan=True)
    assert not np.array_equal(first[1], other[1])
    X, y = first
    assert (X.dtype, X.flags.c_contiguous, X.shape[0]) == (np.float32, True, 500)
    assert y.dtype in (np.int64, np.float64) and y.shape == (500,)


@every_maker
def test_any_block_of_rows_is_that_of_the_table(make, monkeypatch):
    X, y = make(1000)
    assert_same(make(1000, rows=(300, 400)), (X[300:400], y[300:400]))
    assert_same(make(400), (X[:400], y[:400]))
    monkeypatch.setattr(datasets_tables, "BLOCK", 37 * X.shape[1])
    assert_same(make(1000, rows=[1, 1000]), (X[1:], y[1:]))


@every_maker
def test_every_array_library_gives_the_same_bits(make, monkeypatch):
    expected = make(300, rows=(100, 300))
    monkeypatch.setattr(datasets_tables, "BLOCK", 64 * expected[0].shape[1])
    strict = make(300, rows=(100, 300), xp=array_api_strict)
    assert all(isinstance(a, array_api_strict.zeros(1).__class__) for a in strict)
    assert_same(tuple(map(np.asarray, strict)), expected)
    assert_same(make(300, rows=(100, 300), xp=np, device="cpu"), expected)


@every_maker
def test_torch_gives_the_same_bits(make):
    torch = pytest.importorskip("torch")
    for device in ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]:
        X, y = make(3000, xp=torch, device=device)
        assert X.device.type == y.device.type == device
        assert_same((X.cpu().numpy(), y.cpu().numpy()), make(3000))


@pytest.mark.gpu
@every_maker
def test_a_gpu_gives_the_same_bits(make):
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    for where in ({"device": "cuda"}, {"xp": cupy}):
        X, y = make(3000, **where)
        assert isinstance(X, cupy.ndarray) and isinstance(y, cupy.ndarray)
        assert_same((X.get(), y.get()), make(3000))


def test_a_cell_is_the_hash_of_its_place():
    bits = BlockDraws(compat, None, 2**32 - 1, 2**32 - 3, 2**32).bits(2, first=5, stream=LABELS)
    for k in range(2):
        key = rng.subkey(np.uint64(2**32 - 1), np.uint64(LABELS), np.uint64(5 + k))
        expected = [int(rng.draw(key, np.uint64(row))) for row in range(2**32 - 3, 2**32)]
        assert bits[k].tolist() == expected


def test_uniform_draws():
    u = BlockDraws(compat, None, 3, 0, 200_000).uniform(2)
    assert u.dtype == np.float32 and 0 < u.min() < 1e-4 and 1 - 1e-4 < u.max() < 1
    odd = u.astype(np.float64) * 2**24
    np.testing.assert_array_equal(odd % 2, 1)
    edges = np.histogram(u, bins=64, range=(0, 1))[0]
    assert ((edges - 6250) ** 2 / 6250).sum() < 110  # χ² with 63 degrees: 1 in 4000 exceeds it


def test_normal_draws_are_the_quantiles_of_uniform_ones():
    high = np.r_[np.arange(5000), np.arange(5000, 2**24 - 5000, 13), np.arange(2**24 - 5000, 2**24)]
    z = normal_quantile(high << 8, compat)
    expected = ndtri((2 * high + 1) * 2.0**-25)
    np.testing.assert_allclose(z, expected, rtol=2e-6)
    np.testing.assert_array_equal(normal_quantile((2**24 - 1 - high) << 8, compat), -z)
    assert z.dtype == np.float32 and (np.diff(z.astype(float)) > -3e-6).all()


def test_columns_seeds_and_streams_are_independent():
    n = 100_000
    draws = [BlockDraws(compat, None, seed, 0, n) for seed in (0, 1)]
    lines = [draws[0].normal(12), draws[1].normal(12), draws[0].normal(12, stream=LABELS)]
    lines.append(draws[0].normal(12, stream=RULE))
    shifted = lines[0][:, np.r_[1:n, 0]]
    for Z in (np.concatenate(lines), np.concatenate([lines[0], shifted])):
        correlation = np.corrcoef(Z)[np.triu_indices(len(Z), 1)]
        assert np.abs(correlation).max() < 4.5 / np.sqrt(n)


def test_choices():
    draws = BlockDraws(compat, None, 0, 0, 100_000)
    plain, skewed = draws.choice(10, 0), draws.choice(300, 1, skew=2)
    np.testing.assert_allclose(np.bincount(plain, minlength=10) / 1e5, 0.1, atol=0.005)
    assert skewed.min() == 0 and 295 < skewed.max() < 300
    # floor(300 u³) is 0 for u below 300^(-1/3).
    assert abs((skewed == 0).mean() - 300 ** (-1 / 3)) < 0.006


def test_effects_belong_to_codes():
    codes = np.array([[7, 0], [4999, 7]])
    effect = BlockDraws(compat, None, 0, 0, 1).effect(codes, 3)
    assert effect[0, 0] == effect[1, 1] and len(set(effect.ravel().tolist())) == 3
    np.testing.assert_array_equal(effect, BlockDraws(compat, None, 0, 50, 90).effect(codes, 3))


def test_functions_without_a_library():
    x = np.linspace(-9, 9, 10_001)
    np.testing.assert_allclose(sin_pi(x, compat), np.sin(np.pi * x), atol=2e-15)
    np.testing.assert_allclose(cos_pi(x, compat), np.cos(np.pi * x), atol=2e-15)
    for v in (x, x * 1e7, x * 1e-7):
        np.testing.assert_allclose(arctan(v, compat), np.arctan(v), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize(("sqrt", "dtype"), [(sqrt_float32, "f4"), (sqrt_float64, "f8")])
@pytest.mark.parametrize("towards", [-np.inf, None, np.inf])
def test_roots_do_not_depend_on_the_library(sqrt, dtype, towards):
    x = np.random.default_rng(0).random(100_000).astype(dtype) * 4 + np.finfo(dtype).tiny
    library = type("Library", (), {"float32": np.float32, "float64": np.float64})
    library.astype = staticmethod(compat.astype)
    library.sqrt = staticmethod(
        lambda v: np.sqrt(v) if towards is None else np.nextafter(np.sqrt(v), v.dtype.type(towards))
    )
    np.testing.assert_array_equal(sqrt(x, library), np.sqrt(x))  # IEEE 754 in NumPy


def test_temporary_memory_is_bounded():
    make_higgs_like(10)
    tracemalloc.start()
    X, y = make_higgs_like(400_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - X.nbytes - y.nbytes < 32 * 2**20


def test_other_rows_follow_the_same_rule():
    X, y = make_higgs_like(4000, 20)
    model = GradientBoostingClassifier(n_estimators=30, device="cpu").fit(X, y)
    assert model.score(*make_higgs_like(2000, 20, random_state=1)) > 0.6


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: make_higgs_like(0), ["n_rows must be an integer >= 1, got 0"]),
        (lambda: make_higgs_like(5, 0), ["n_features must be an integer >= 1, got 0"]),
        (lambda: make_higgs_like(5, True), ["n_features must be an integer >= 1, got True"]),
        (lambda: make_covtype_like(-1), ["n_rows must be an integer >= 1, got -1"]),
        (lambda: make_covtype_like(2.5), ["n_rows must be an integer >= 1, got 2.5"]),
        (lambda: make_covtype_like("10"), ["n_rows must be an integer >= 1, got '10'"]),
        (lambda: make_covtype_like(2**33), ["n_rows must be at most 2**32", "random_state"]),
        (lambda: make_higgs_like(5, random_state=-1), ["random_state must be", "got -1"]),
        (lambda: make_higgs_like(5, random_state=1.5), ["random_state must be", "got 1.5"]),
        (lambda: make_higgs_like(5, random_state="a"), ["random_state must be", "got 'a'"]),
        (lambda: make_higgs_like(9, rows=(3, 10)), ["rows must be", "n_rows=9", "got (3, 10)"]),
        (lambda: make_higgs_like(9, rows=(3, 3)), ["rows must be", "begin < end", "got (3, 3)"]),
        (lambda: make_higgs_like(9, rows=(-1, 3)), ["rows must be", "got (-1, 3)"]),
        (lambda: make_higgs_like(9, rows=5), ["rows must be", "(begin, end)", "got 5"]),
        (lambda: make_higgs_like(9, rows=(0.0, 3)), ["rows must be", "got (0.0, 3)"]),
        (lambda: make_higgs_like(9, device="tpu"), ["device must be", "got 'tpu'"]),
        (lambda: make_higgs_like(9, xp=np, device="moon"), ["moon"]),
        (lambda: datasets.make_friedman1(9, 4), ["n_features must be an integer >= 5, got 4"]),
        (lambda: datasets.make_friedman1(9, noise=-1), ["noise must be", ">= 0, got -1"]),
        (lambda: datasets.make_friedman2(9, np.inf), ["noise must be a finite number", "got inf"]),
        (lambda: datasets.make_friedman3(9, "no"), ["noise must be", "got 'no'"]),
        (lambda: make_moons(9, np.nan), ["noise must be a finite number >= 0, got nan"]),
        (lambda: datasets.make_spirals(0), ["n_rows must be an integer >= 1, got 0"]),
        (lambda: datasets.make_twonorm(9, 0), ["n_features must be an integer >= 1, got 0"]),
        (lambda: datasets.make_waveform(9, -1), ["n_noise must be an integer >= 0, got -1"]),
        (lambda: datasets.make_nested_spheres(9, n_classes=1), ["n_classes", ">= 2, got 1"]),
        (lambda: datasets.make_sparse_parity(9, 2), ["n_relevant must be at most", "=2, got 3"]),
        (lambda: datasets.make_wide_sparse(9, density=0), ["density must be", "(0, 0.5], got 0"]),
        (lambda: datasets.make_wide_sparse(9, density=0.7), ["density must be", "got 0.7"]),
        (
            lambda: make_airline_like(9, as_frame=True, xp=np),
            ["as_frame=True", "leave xp and device out"],
        ),
        (lambda: make_airline_like(9, as_frame=True, device="cuda"), ["as_frame", "'cuda'"]),
        (lambda: datasets.airline_like_frame(np.zeros((3, 2))), ["9 columns", "(3, 2)"]),
    ],
)
def test_bad_arguments(call, parts):
    with pytest.raises(ValueError) as caught:
        call()
    assert [part for part in parts if part not in str(caught.value)] == []


@pytest.mark.parametrize("xp", ["numpy", object(), np.float32])
def test_no_namespace(xp):
    with pytest.raises(TypeError, match="xp must be a module of arrays .* such as numpy"):
        make_moons(9, xp=xp)


def test_unknown_arguments():
    with pytest.raises(TypeError, match="n_samples"):
        make_moons(n_samples=9)
    with pytest.raises(TypeError, match="positional"):
        make_moons(9, 0.1, 0, (1, 2))


def test_a_gpu_that_is_not_there(monkeypatch):
    from gpuens.devices import placement as devices

    monkeypatch.setattr(devices, "gpu_problem", lambda: "no NVIDIA driver was found")
    monkeypatch.setattr(devices, "simulated", lambda: False)
    with pytest.raises(RuntimeError, match="device='cuda' asks for a GPU, but no NVIDIA driver"):
        make_moons(9, device="cuda")
    assert_same(make_moons(9, device="auto"), make_moons(9))
