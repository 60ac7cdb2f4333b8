"""The stand-in for CuPy: it takes and refuses what CuPy takes and refuses."""

from __future__ import annotations

import copy
import pickle
import sys
import threading

import array_api_compat
import numpy as np
import pytest

from gpuens.kernels.statistics.add_leaf_values import add_leaf_values
from tests.support import strict_cupy
from tests.support.strict_cupy import record, signatures

HOST = np.arange(10)


@pytest.fixture
def a(cupy):
    return cupy.arange(10)


MIXED = {
    "plus NumPy": lambda cupy, a: a + HOST,
    "NumPy plus": lambda cupy, a: HOST + a,
    "plus a NumPy array without axes": lambda cupy, a: a + np.array(3),
    "in place": lambda cupy, a: a.__iadd__(HOST),
    "compared": lambda cupy, a: a == HOST,
    "NumPy's function": lambda cupy, a: np.maximum(HOST, a),
    "joined": lambda cupy, a: cupy.concatenate([a, HOST]),
    "joined by NumPy": lambda cupy, a: np.concatenate([HOST, a]),
    "chosen": lambda cupy, a: cupy.where(a > 1, HOST, 0),
    "searched": lambda cupy, a: cupy.searchsorted(a, HOST),
    "counted": lambda cupy, a: cupy.bincount(a, HOST),
    "multiplied": lambda cupy, a: a @ HOST,
    "summed": lambda cupy, a: cupy.sum(HOST),
    "repeated": lambda cupy, a: cupy.repeat(a, a),
    "a list": lambda cupy, a: cupy.sum([1, 2]),
    "NumPy's conversion": lambda cupy, a: np.asarray(a),
    "NumPy's array of arrays": lambda cupy, a: np.array([a, a]),
    "an index of Python": lambda cupy, a: [1, 2][a[0]],
    "a range": lambda cupy, a: range(a[3]),
    "a shape": lambda cupy, a: cupy.zeros(a[3]),
}
UNKNOWN = {
    "sum": lambda cupy, a: cupy.sum(a, initial=0),
    "method": lambda cupy, a: a.max(where=a > 3),
    "item": lambda cupy, a: a.item(0),
    "round": lambda cupy, a: np.floor(a, where=HOST > 3),
    "clip": lambda cupy, a: cupy.clip(a, min=0, max=3),
    "argsort": lambda cupy, a: cupy.argsort(a, stable=True),
    "like": lambda cupy, a: cupy.asarray([1], like=a),
    "bounds": lambda cupy, a: a.clip(a_min=0, a_max=3),
    "unique": lambda cupy, a: cupy.unique(a, sorted=False),
    "NumPy's function": lambda cupy, a: np.sum(a, initial=0),
    "device": lambda cupy, a: cupy.zeros(3, device="cpu"),
}


class TestRefusals:
    @pytest.mark.parametrize("call", MIXED.values(), ids=MIXED)
    def test_other_arrays(self, cupy, a, call):
        with pytest.raises(TypeError):
            call(cupy, a)

    @pytest.mark.parametrize("call", UNKNOWN.values(), ids=UNKNOWN)
    def test_unknown_parameters(self, cupy, a, call):
        with pytest.raises(TypeError, match="argument"):
            call(cupy, a)

    @pytest.mark.parametrize("value", [HOST[:2], [1, 2], "text"], ids=["NumPy", "list", "text"])
    def test_assignments(self, a, value):
        with pytest.raises(ValueError, match="fill"):
            a[:2] = value

    @pytest.mark.parametrize("name", ["vecdot", "unstack", "nope", "float128", "str_"])
    def test_what_cupy_lacks(self, cupy, name):
        with pytest.raises(AttributeError):
            getattr(cupy, name)

    @pytest.mark.parametrize("name", ["ctypes", "__index__", "__array_interface__"])
    def test_attributes_of_numpy_only(self, a, name):
        assert hasattr(HOST, name) or name == "__index__"
        assert not hasattr(a, name)

    def test_types_without_a_device(self, cupy):
        for values in (["a"], [None], np.array(["2020-01-01"], "M8[D]")):
            with pytest.raises(ValueError, match="dtype"):
                cupy.asarray(values)

    def test_numpy_reads_no_device(self, a):
        with pytest.raises(BufferError):
            np.from_dlpack(a)

    def test_indices_out_of_range(self, cupy, a):
        for index in ([10], cupy.asarray([-11])):
            with pytest.raises(IndexError):
                a[index]

    def test_a_view_is_not_hashed(self, a):
        with pytest.raises(TypeError):
            hash(a[1:])


class TestMeaning:
    def test_scalars_are_operands(self, a):
        for three in (3, 3.0, np.int64(3), np.float32(3), True):
            np.testing.assert_array_equal((a + three).get(), HOST + three)
            np.testing.assert_array_equal((three - a).get(), three - HOST if three is not True
                                          else 1 - HOST)  # fmt: skip

    def test_results_without_axes_are_arrays(self, cupy, a):
        for found in (a.sum(), a[3], a.argmax(), cupy.count_nonzero(a), cupy.median(a)):
            assert type(found) is strict_cupy.ndarray
            assert found.shape == ()

    def test_views_share_memory(self, a):
        a.reshape(2, 5)[:, 1:].T[0] = 77
        assert a.get().tolist() == [0, 77, 2, 3, 4, 5, 77, 7, 8, 9]

    def test_new_memory_is_not_zero(self, cupy):
        assert not (cupy.empty(100, np.int32) == 0).any()
        assert not (cupy.empty_like(cupy.zeros((3, 4))) == 0).any()

    def test_sums_are_rounded_in_another_order(self, cupy):
        values = np.random.default_rng(0).random((200, 50))
        there = cupy.asarray(values)
        for name, settings in (("sum", {"axis": 0}), ("cumsum", {"axis": 0}), ("mean", {})):
            here = getattr(np, name)(values, **settings)
            found = getattr(there, name)(**settings).get()
            np.testing.assert_allclose(found, here, rtol=1e-12)
            if np.finfo(np.longdouble).nmant > 52 and name != "mean":
                assert (found != here).any()
        whole = np.arange(200.0)
        assert float(cupy.asarray(whole).sum()) == whole.sum()  # exact in every order

    def test_functions_differ_in_the_last_place(self, cupy):
        values = np.linspace(-3, 3, 200)
        found = cupy.exp(cupy.asarray(values)).get()
        assert (found != np.exp(values)).any()
        np.testing.assert_allclose(found, np.exp(values), rtol=3e-16)
        np.testing.assert_array_equal(cupy.sqrt(cupy.asarray(values**2)).get(), abs(values))

    def test_equal_keys_keep_their_order(self, cupy):
        keys = np.random.default_rng(0).integers(0, 3, 500)
        np.testing.assert_array_equal(
            cupy.argsort(cupy.asarray(keys)).get(), np.argsort(keys, kind="stable")
        )

    def test_copies(self, cupy, a):
        for other in (copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a)), a.copy()):
            other[0] = 5
            assert int(a[0]) == 0
        assert cupy.asarray(a) is a
        assert cupy.array(a) is not a

    def test_libraries_take_it_for_cupy(self, cupy, a):
        assert array_api_compat.is_cupy_array(a)
        assert not array_api_compat.is_numpy_array(a)
        xp = array_api_compat.array_namespace(a)
        assert xp.__name__ == "array_api_compat.cupy"
        assert type(xp.astype(a, xp.float32)) is strict_cupy.ndarray
        assert float(xp.cumulative_sum(a)[-1]) == 45

    def test_it_leaves_no_trace(self):
        with pytest.MonkeyPatch.context() as patched:
            strict_cupy.install(patched)
            assert "cupy" in sys.modules
        assert getattr(sys.modules.get("cupy"), "__version__", None) != "stand-in"
        compat = sys.modules.get("array_api_compat.cupy")
        assert compat is None or compat.ndarray is not strict_cupy.ndarray


class TestMemory:
    def test_the_address_is_true(self, cupy, a):
        described = a[2:8:2].__cuda_array_interface__
        assert described["strides"] == (16,)
        assert described["data"][0] == a.memory.ctypes.data + 16
        assert described["stream"] == 1
        assert a.__cuda_array_interface__["strides"] is None
        assert cupy.empty((0, 3)).__cuda_array_interface__["data"][0] == 0

    def test_arrays_of_other_libraries_share_it(self, cupy, a):
        class Tensor:
            __cuda_array_interface__ = a[::3].__cuda_array_interface__

        taken = cupy.asarray(Tensor())
        taken[1] = 99
        assert int(a[3]) == 99

    def test_dlpack(self, cupy, a):
        assert a.__dlpack_device__() == (2, 0)
        taken = cupy.from_dlpack(a)
        taken[0] = 5
        assert int(a[0]) == 5


class TestLog:
    def test_what_waits(self, cupy, a):
        waiting = (
            a.get, a.tolist, a[2].item, lambda: float(a[1]), lambda: int(a[1]), lambda: bool(a[1]),
            lambda: a[a > 3], lambda: cupy.unique(a), lambda: cupy.flatnonzero(a),
            lambda: cupy.bincount(a), cupy.cuda.get_current_stream().synchronize,
            lambda: cupy.asnumpy(a), lambda: a[0] == 0 and None,
        )  # fmt: skip
        for call in waiting:
            strict_cupy.log().clear()
            call()
            assert strict_cupy.log().waits
        strict_cupy.log().clear()
        (cupy.sort(a) + 1)[a // 2].sum(axis=0).astype(np.float32).reshape(1)
        assert not strict_cupy.log().waits

    def test_what_is_copied_from_the_host(self, cupy, a):
        strict_cupy.log().clear()
        a[HOST[:2]]
        cupy.asarray(HOST)
        assert len(strict_cupy.log().uploads) == 2

    def test_copies_to_the_host_arrive_when_they_are_waited_for(self, cupy, a):
        out = sys.modules["cupyx"].empty_pinned(10, a.dtype)
        stream = cupy.cuda.get_current_stream()
        a.get(stream=stream, out=out, blocking=False)
        event = stream.record()
        a[:] = 0
        assert not (out == HOST).any()
        event.synchronize()
        np.testing.assert_array_equal(out, HOST)


class TestPlaces:
    def test_arrays_of_another_device(self, cupy, a):
        with cupy.cuda.Device(1):
            other = cupy.ones(10)
            with pytest.raises(ValueError, match="Peer access"):
                other + a
            with pytest.raises(ValueError, match="Peer access"):
                a[other > 0]
            moved = cupy.asarray(a)
        assert (other.device.id, moved.device.id, a.device.id) == (1, 1, 0)
        assert other.get().sum() == 10

    def test_threads_begin_on_the_first_device_and_its_default_stream(self, cupy):
        found = []

        def look():
            found.append((cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr))

        with cupy.cuda.Device(1), cupy.cuda.Stream(non_blocking=True) as stream:
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
            look()
            with cupy.cuda.Device(0), pytest.raises(RuntimeError, match="not created"):
                stream.__enter__()
        assert found == [(0, 0), (1, stream.ptr)]

    def test_operations_are_noted_with_their_stream(self, cupy, a):
        strict_cupy.log().clear()
        with cupy.cuda.Stream() as stream:
            a + 1
        assert strict_cupy.log().places == {(0, stream.ptr)}


class TestOperations:
    def test_they_change_the_memory(self, cupy):
        raw, leaf = cupy.zeros(3), cupy.asarray(np.array([0, 1, 1], np.int32))
        values = type("Values", (), {"value": np.array([1.0, 2.0])})()
        add_leaf_values(raw, leaf, values, 0.5)
        assert raw.get().tolist() == [0.5, 1.0, 1.0]

    def test_arguments_are_where_the_contract_wants_them(self, cupy):
        values = type("Values", (), {"value": np.array([1.0, 2.0])})()
        with pytest.raises(TypeError, match="leaf must be on the device"):
            add_leaf_values(cupy.zeros(3), np.zeros(3, np.int32), values, 0.5)


def test_the_table_is_that_of_the_installed_cupy():
    cupy = pytest.importorskip("cupy")
    recorded = {versions.get(cupy.__version__, "unknown") for versions in
                signatures.TABLE_OF_NAMES.values()}  # fmt: skip
    if "unknown" in recorded:
        pytest.skip(f"CuPy {cupy.__version__} is not in the table")
    table = signatures.TABLE_OF_NAMES
    assert record.columns() == {name: row[cupy.__version__] for name, row in table.items()}


CALLS = {
    name: versions
    for name, versions in signatures.TABLE_OF_NAMES.items()
    if signatures.is_everywhere(name) and not name.startswith("ndarray.__")
}


def test_no_parameter_but_those_in_the_table(cupy):
    """What the table lacks is refused before anything is computed."""
    for name, versions in CALLS.items():
        place, _, attribute = name.rpartition(".")
        function = getattr(strict_cupy.ndarray if place else cupy, attribute)
        given = [cupy.arange(3)] if place or "self" in versions else []
        with pytest.raises(TypeError, match="argument"):
            function(*given, no_such_parameter=1)
