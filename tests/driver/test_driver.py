"""What reaches the driver: attributes, words of parameter blocks, contexts and streams; and what
becomes of its errors."""

from __future__ import annotations

import json
import struct

import pytest
from numba import config

if config.ENABLE_CUDASIM:
    pytest.skip("needs a process without the simulator", allow_module_level=True)
pytest.importorskip("numba_cuda")

from building import cubins
from tests.driver import headers, stub

if (problem := stub.problem()) is not None:
    pytest.skip(problem, allow_module_level=True)


ENTRY = "add_leaf_values_wide"
SYMBOL = f"gpuens_{ENTRY}"
MOST_DYNAMIC = 8
"""The number of the attribute MAX_DYNAMIC_SHARED_SIZE_BYTES."""
WITHOUT_COMPILER = """
import sys
sys.modules["numba_cuda"] = sys.modules["numba.cuda"] = None
"""
PREPARE = """
import json, warnings
from pathlib import Path
import cupy, numpy as np
from gpuens.devices import placement
from gpuens.kernels.runtime.cuda import precompiled, launching, target
from gpuens.kernels.statistics.cuda.add_leaf_values import add_values
precompiled.FOLDER = Path({folder!r})
def arrays(n):
    return cupy.zeros((3, n)), cupy.zeros((3, n), np.int32), cupy.zeros((3, 7))
def launch(given, *, blocks=4, threads=256, factor=0.5, shared=0):
    target.launch(add_values, blocks, threads, *given, factor, cupy.zeros(0), shared=shared)
def outcome(action, *args, **settings):
    try:
        with placement.resolve_device("cuda").active():
            action(*args, **settings)
    except Exception as error:
        return f"{{type(error).__name__}}: {{error}}"
    return "done"
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The stub, and a kernel for sm_90 with its PTX."""
    folder = tmp_path_factory.mktemp("driver")
    stub.build(folder)
    cubins.build(folder / "prebuilt", ((90,),), [ENTRY])
    return folder


def run(folder, code, **settings):
    prepare = PREPARE.format(folder=str(folder / "prebuilt"))
    return stub.run(folder, f"{WITHOUT_COMPILER}{prepare}{code}", **settings)


LAUNCHES = """
given, stream = arrays(500), cupy.cuda.Stream(non_blocking=True)
launch(given)
with stream:
    launch(given, blocks=(4, 3), factor=0.25, shared=100_000)
    launch(given, shared=100_000)
    launch(given, threads=32, shared=120_000)
with cupy.cuda.Device(1):
    there = arrays(30)
    launch(there)
print(json.dumps([stream.ptr, [a.data.ptr for a in given], [a.data.ptr for a in there]]))
"""


def words_of(pointers, n, factor):
    """The words of the three arrays, of a number, and of an empty array."""
    words = []
    for pointer, itemsize, width in zip(pointers, (8, 4, 8), (n, n, 7), strict=True):
        words += [0, 0, 3 * width, itemsize, pointer, 3, width, itemsize * width, itemsize]
    return [*words, *struct.unpack("<Q", struct.pack("<d", factor)), 0, 0, 0, 8, 0, 0, 8]


@pytest.fixture(scope="module")
def launched(built):
    """The output and the calls of launches on two devices."""
    return run(built, LAUNCHES, devices=2)


def test_launches(launched):
    out, calls = launched
    stream, here, there = json.loads(out)
    launches = stub.named(calls, "cuLaunchKernel")
    assert {(call["kernel"], call["status"]) for call in launches} == {(SYMBOL, 0)}
    how = [
        (call["device"], call["grid"], call["block"], call["shared"], call["stream"])
        for call in launches
    ]
    assert how == [
        (0, [4, 1, 1], [256, 1, 1], 0, 1),
        (0, [4, 3, 1], [256, 1, 1], 100_000, stream),
        (0, [4, 1, 1], [256, 1, 1], 100_000, stream),
        (0, [4, 1, 1], [32, 1, 1], 120_000, stream),
        (1, [4, 1, 1], [256, 1, 1], 0, 1),
    ]
    expected = [words_of(here, 500, factor) for factor in (0.5, 0.25, 0.5, 0.5)]
    assert [call["words"] for call in launches] == [*expected, words_of(there, 30, 0.5)]


def test_code_is_loaded_once_a_device(launched):
    _, calls = launched
    loaded = stub.named(calls, "cuLibraryLoadData")
    assert [call["machine code"] for call in loaded] == [1, 1]
    assert [call["kernel"] for call in stub.named(calls, "cuLibraryGetKernel")] == [SYMBOL] * 2
    allowed = stub.named(calls, "cuKernelSetAttribute")
    assert [(c["attribute"], c["value"], c["device"]) for c in allowed] == [
        (MOST_DYNAMIC, 100_000, 0), (MOST_DYNAMIC, 120_000, 0)
    ]  # fmt: skip


def test_contexts_are_released(launched):
    """All but those of the runtime library, which keeps one a device until the process ends."""
    _, calls = launched
    changed = ("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease")
    retained = {c["device"]: c["retained"] for name in changed for c in stub.named(calls, name)}
    assert retained == {0: 1, 1: 1}
    assert len(stub.named(calls, changed[0])) == 4 and len(stub.named(calls, changed[1])) == 2


def test_later_architectures_get_ptx(built):
    out, calls = run(built, LAUNCHES, devices=2, capability="10.0", cuda=99000)
    _, here, _ = json.loads(out)
    assert [call["machine code"] for call in stub.named(calls, "cuLibraryLoadData")] == [0, 0]
    launches = stub.named(calls, "cuLaunchKernel")
    assert [call["words"] for call in launches[:1]] == [words_of(here, 500, 0.5)]


STARTS = "does not start the kernel add_values with 4 x 1 blocks of 256 threads: CUDA_ERROR_"
AGAIN = "must be started again"


@pytest.mark.parametrize(
    ("fail", "action", "expected"),
    [
        ("cuLaunchKernel=2", "launch, given",
         ["MemoryError: cuda:0 has not enough memory", f"{STARTS}OUT_OF_MEMORY", "'cpu'"]),
        ("cuLaunchKernel=700", "launch, given",
         [f"RuntimeError: The CUDA driver {STARTS}ILLEGAL_ADDRESS. ", AGAIN, "Xid"]),
        ("cuLaunchKernel=701", "launch, given",
         [f"RuntimeError: The CUDA driver {STARTS}LAUNCH_OUT_OF_RESOURCES. ", "registers"]),
        ("", "launch, given, shared=300_000",
         ["RuntimeError: ", "add_values with 300,000 bytes of shared memory a block: "
          "CUDA_ERROR_INVALID_VALUE. This GPU does not have", "show_config()", "'cpu'"]),
        ("cuLibraryLoadData=2", "launch, given",
         ["MemoryError: ", f"does not load the kernel {SYMBOL}: CUDA_ERROR_OUT_OF_MEMORY"]),
        ("cuLibraryLoadData=46", "launch, given",
         ["RuntimeError: ", f"the kernel {SYMBOL}: CUDA_ERROR_DEVICE_UNAVAILABLE", AGAIN]),
        ("cuLibraryLoadData=209", "launch, given",
         ["RuntimeError: The kernel add_values did not come compiled", "'gpuens[cuda13]'"]),
        ("cuDevicePrimaryCtxRetain=2@2", "launch, given",
         ["MemoryError: ", "gives no context on cuda:0: CUDA_ERROR_OUT_OF_MEMORY"]),
        ("cuCtxSynchronize=719", "cupy.cuda.runtime.deviceSynchronize",
         ["RuntimeError: cuda:0 has stopped: cudaErrorLaunchFailure. ", AGAIN]),
        ("cuMemAlloc=2@20", "arrays, 100_000",
         ["MemoryError: cuda:0 has not enough memory", "GiB are free", "Out of memory allocating"]),
    ],
)  # fmt: skip
def test_errors_name_the_cause_and_the_remedy(built, fail, action, expected):
    code = "given = arrays(500)\nwarnings.simplefilter('ignore')\n"
    code += "for _ in range(30 if 'cuMemAlloc' in FAIL else 1):\n    found = outcome({action})\n"
    code = code.replace("FAIL", repr(fail)).replace("{action}", action)
    out, _ = run(built, f"{code}print(found)", **({"fail": fail} if fail else {}))
    for text in expected:
        assert text in out


def test_refused_code_is_named(built):
    code = "warnings.simplefilter('error')\nprint(outcome(launch, arrays(5)))"
    out, _ = run(built, code, fail="cuLibraryLoadData=209")
    assert out.startswith("RuntimeWarning: ") and "is refused by the driver" in out
    assert "cuda-sm_90.xz" in out and "CUDA_ERROR_NO_BINARY_FOR_GPU" in out


WHOLE_FIT = """
start, started = launching.start, []
def words_of(value):
    if isinstance(value, (int, float, np.generic)):
        return [int.from_bytes(np.asarray(value).tobytes(), "little")]
    sizes = [*value.shape, *value.strides]
    return [0, 0, value.size, value.dtype.itemsize, value.data.ptr, *sizes]
def region_of(array):
    steps = [(n - 1) * stride for n, stride in zip(array.shape, array.strides)]
    return array.data.ptr, array.dtype.itemsize + sum(steps) if array.size else 0
def noting(function, blocks, threads, device, stream, args, shared=0):
    grid = [*blocks, 1] if isinstance(blocks, tuple) else [blocks, 1, 1]
    words = [word for value in args for word in words_of(value)]
    regions = [region_of(value) for value in args if hasattr(value, "data") and len(value.shape)]
    started.append([function.py_func.__name__, grid, threads, shared, words, regions])
    start(function, blocks, threads, device, stream, args, shared)
launching.start = noting
import gpuens
from gpuens.datasets import make_higgs_like
from gpuens.kernels.runtime import kernel_origins
X, y = make_higgs_like(300, 5)
def fitted(device):
    return gpuens.{cls}(n_estimators=2, device=device, random_state=0, **{settings}).fit(X, y)
assert fitted("cuda").forest_.fingerprint() == fitted("cpu").forest_.fingerprint()
assert not kernel_origins.of_cuda()[kernel_origins.COMPILED]
print(json.dumps(started))
"""
GROWTH = ["add_tiles", "best_of_features", "choose_nodes", "move_apart"]
ROUND = ["gradients_of_chunks", "make_records",
         "open_roots", *GROWTH, "open_nodes", *GROWTH, "number_leaves",
         "scatter_closed", "sum_in_shared"]  # fmt: skip
ORDER = {
    "GradientBoostingClassifier": ["sum_lines", "number_bins", *ROUND, "add_values", *ROUND],
}
"""Kernels of a training, by their functions, up to what depends on their results."""


@pytest.fixture(scope="module")
def code(built):
    """A folder with kernels without instructions."""
    headers.write(built / "headers")
    return str(built / "headers")


@pytest.mark.parametrize("cls, settings", [
    ("GradientBoostingClassifier", {"max_depth": 2, "max_leaf_nodes": None}),
    ("GradientBoostingRegressor", {"max_leaf_nodes": 5, "subsample": 0.5}),
    ("RandomForestClassifier", {"max_depth": 3}), ("AdaBoostClassifier", {}),
])  # fmt: skip
def test_a_whole_fit(built, code, cls, settings):
    """Nothing is compiled, and the driver reads what the launcher was given, in memory that it has
    not been given back."""
    text = WHOLE_FIT.format(cls=cls, settings=settings)
    out, calls = stub.run(built, PREPARE.format(folder=code) + text)
    started = json.loads(out.splitlines()[-1])
    names = [name for name, *_ in started]
    assert names == ORDER.get(cls, names) and len(set(names)) > 3
    launches = stub.named(calls, "cuLaunchKernel")
    for (name, grid, threads, shared, words, _), call in zip(started, launches, strict=True):
        how = call["status"], call["grid"], call["block"], call["shared"]
        assert how == (0, grid, [threads, 1, 1], shared), name
        assert call["words"] == words, name
    require_alive(calls, [regions for *_, regions in started])


def require_alive(calls, regions_of_launches):
    """Fail if an array of a launch is not inside of memory that is allocated then."""
    alive, left = {}, list(regions_of_launches)
    for call in calls:
        if call["call"] == "cuMemAlloc":
            alive[call["pointer"]] = call["bytes"]
        elif call["call"] == "cuMemFree":
            alive.pop(call["pointer"], None)
        elif call["call"] == "cuLaunchKernel":
            for pointer, size in left.pop(0):
                holds = (begin <= pointer and pointer + size <= begin + n
                         for begin, n in alive.items())  # fmt: skip
                assert size == 0 or any(holds), call
    assert not left
