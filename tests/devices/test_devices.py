"""Where the work runs, and what is said when it cannot run there."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from gpuens import DecisionTreeRegressor, fit_many
from gpuens.devices import gpu_problems
from gpuens.devices import placement as devices
from gpuens.devices.placement import (
    CPU,
    SIMULATOR,
    Device,
    gpu_problem,
    places_beside,
    resolve_device,
)
from gpuens.forest import forest
from gpuens.forest.forest import Forest
from gpuens.kernels.runtime import source_stamps
from gpuens.kernels.runtime.cuda import precompiled
from gpuens.kernels.runtime.cuda.errors import remedy
from gpuens.kernels.runtime.dispatch import Implementation, implementation_for
from gpuens.members import side_by_side
from tests.support import strict_cupy

HOST = np.zeros((3, 2))
PACKAGES = [("cupy", "CuPy"), ("cuda.bindings", "cuda-bindings"), ("cuda.core", "cuda-core")]


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(devices, "simulated", lambda: False)
    monkeypatch.setattr(devices, "gpu_problem", lambda: "no NVIDIA driver was found")


@pytest.fixture
def probe(monkeypatch, tmp_path):
    """``gpu_problem`` as on a machine with a driver and all packages, without compiled kernels."""
    monkeypatch.setattr(gpu_problems, "driver_version", lambda: (13, 0))
    monkeypatch.setattr(gpu_problems, "find_spec", lambda name: object())
    monkeypatch.setattr(gpu_problems, "version", lambda package: "12.9.1")
    monkeypatch.setattr(gpu_problems, "_trial", lambda *asked: None)
    monkeypatch.setattr(precompiled, "FOLDER", tmp_path)
    monkeypatch.delenv("NUMBA_DISABLE_CUDA", raising=False)
    gpu_problem.cache_clear()
    yield gpu_problem
    gpu_problem.cache_clear()


class TestWithoutGPU:
    @pytest.mark.parametrize("device", ["auto", "cpu"])
    def test_host_data_stay_on_the_cpu(self, no_gpu, device):
        assert resolve_device(device, HOST, y=[1, 2], sample_weight=None) == CPU

    @pytest.mark.parametrize("device", ["cuda", "cuda:1"])
    def test_asking_for_a_gpu_says_what_is_missing(self, no_gpu, device):
        with pytest.raises(RuntimeError, match=f"device='{device}' asks .* no NVIDIA driver"):
            resolve_device(device, HOST)

    def test_data_on_an_unusable_gpu(self, no_gpu, monkeypatch):
        monkeypatch.setattr(devices, "gpu_of", lambda array: 0 if array is HOST else None)
        with pytest.raises(RuntimeError, match="^X is on cuda:0, but no NVIDIA driver"):
            resolve_device("auto", HOST)
        assert resolve_device("cpu", HOST) == CPU


class TestWithGPU:
    def test_host_data_go_to_the_current_gpu(self, cupy):
        assert resolve_device("auto", HOST) == Device("cuda", 0)
        with cupy.cuda.Device(1):
            assert resolve_device("cuda", HOST) == Device("cuda", 1)

    @pytest.mark.parametrize("device", ["auto", "cuda", "cuda:1"])
    def test_follows_the_array(self, cupy, device):
        assert resolve_device(device, strict_cupy.on_gpu(cupy, HOST, 1)) == Device("cuda", 1)

    def test_follows_the_targets_and_weights_of_host_data(self, cupy):
        there = strict_cupy.on_gpu(cupy, [1.0, 2.0], 1)
        assert resolve_device("auto", HOST, y=there) == Device("cuda", 1)
        assert resolve_device("auto", HOST, y=[1, 2], sample_weight=there) == Device("cuda", 1)

    def test_a_word_goes_before_the_current_gpu(self, cupy):
        assert resolve_device("cuda:1", HOST) == Device("cuda", 1)
        assert resolve_device("cpu", strict_cupy.on_gpu(cupy, HOST, 1)) == CPU

    def test_arrays_on_two_gpus(self, cupy):
        X, y = strict_cupy.on_gpu(cupy, HOST, 0), strict_cupy.on_gpu(cupy, [1.0], 1)
        with pytest.raises(ValueError, match="on one GPU, got X on cuda:0, y on cuda:1"):
            resolve_device("auto", X, y=y)
        with pytest.raises(ValueError, match="got device on cuda:1, X on cuda:0"):
            resolve_device("cuda:1", X)

    def test_a_gpu_that_does_not_exist(self, cupy):
        with pytest.raises(RuntimeError, match=r"'cuda:2', but this machine has only 2 GPU"):
            resolve_device("cuda:2", HOST)


class TestSimulator:
    @pytest.fixture(autouse=True)
    def simulate(self, cupy, monkeypatch):
        monkeypatch.setattr(devices, "simulated", lambda: True)

    def test_stands_in_for_cuda_when_asked(self):
        assert resolve_device("cuda", HOST) == SIMULATOR
        assert resolve_device("auto", HOST) == CPU

    def test_refuses_data_on_a_gpu(self, cupy):
        with pytest.raises(RuntimeError, match="X is on cuda:1.*NUMBA_ENABLE_CUDASIM=1.*Unset"):
            resolve_device("auto", strict_cupy.on_gpu(cupy, HOST, 1))

    def test_follows_numba(self, monkeypatch):
        from numba.core import config

        monkeypatch.undo()
        monkeypatch.setattr(config, "ENABLE_CUDASIM", 1)
        assert devices.simulated()
        monkeypatch.setattr(config, "ENABLE_CUDASIM", 0)
        assert not devices.simulated()


@pytest.mark.parametrize("device", ["gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", None, 0])
def test_unknown_words(device):
    with pytest.raises(
        ValueError, match="device must be 'auto', 'cpu', 'cuda', 'cuda:<number>' or"
    ):
        resolve_device(device, HOST)


def test_a_device_of_an_earlier_build():
    """It was pickled with its parameters alone."""
    device = object.__new__(Device)
    device.__setstate__({"kind": "cuda", "index": 1, "reason": "", "library": None})
    assert device == Device("cuda", 1)
    assert device.is_gpu and device.runs_ahead and not device.has_numpy


class TestWhatIsMissing:
    def test_nothing(self, cupy, probe):
        assert probe() is None

    def test_driver(self, probe, monkeypatch):
        monkeypatch.setattr(gpu_problems, "driver_version", lambda: None)
        assert "no NVIDIA driver was found" in probe()

    def test_driver_too_old(self, probe, monkeypatch):
        monkeypatch.setattr(gpu_problems, "driver_version", lambda: (11, 8))
        assert "supports CUDA 11.8, at least 12.0" in probe()

    @pytest.mark.parametrize("module, package", PACKAGES)
    @pytest.mark.parametrize("driver", [12, 13])
    def test_package(self, probe, monkeypatch, module, package, driver):
        monkeypatch.setattr(gpu_problems, "driver_version", lambda: (driver, 2))
        monkeypatch.setattr(gpu_problems, "find_spec", lambda name: None if name == module else 1)
        assert f"package {package} is not installed" in probe()
        assert f"pip install 'gpuens[cuda{driver}]'" in probe()

    @pytest.mark.parametrize(
        ("capabilities", "driver", "kernels", "is_enough"),
        [
            ([(8, 6)], (13, 0), "cuda-sm_75-80.xz", True),
            ([(8, 9), (7, 5)], (13, 2), "cuda-sm_75-80.xz", True),
            ([(8, 6), (9, 0)], (13, 0), "cuda-sm_75-80.xz", False),
            ([(8, 6), (7, 0)], (13, 0), "cuda-sm_75-80.xz", True),  # too old for any use
            ([(8, 6)], (12, 9), "cuda-sm_75-80.xz", False),
            ([(15, 0)], (13, 1), "cuda-ptx_75.xz", True),
            ([(15, 0)], (13, 0), "cuda-ptx_75.xz", False),
        ],
    )
    def test_numba_cuda_is_needed_for_kernels_that_did_not_come_compiled(
        self, cupy, probe, monkeypatch, capabilities, driver, kernels, is_enough
    ):
        """Their files are of CUDA 13.1."""
        path = precompiled.FOLDER / kernels
        precompiled.write(path, (13, 1), {n: {} for n in precompiled.contents_of(path)[1]})
        cards = [{"name": b"card", "major": a, "minor": b} for a, b in capabilities]
        monkeypatch.setattr(cupy.cuda.runtime, "getDeviceProperties", cards.__getitem__)
        monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: len(cards))
        monkeypatch.setattr(cupy.cuda.runtime, "runtimeGetVersion", lambda: 12000)
        monkeypatch.setattr(gpu_problems, "driver_version", lambda: driver)
        missing = "numba_cuda"
        monkeypatch.setattr(gpu_problems, "find_spec", lambda name: None if name == missing else 1)
        if is_enough:
            assert probe() is None
        else:
            command = f"pip install 'gpuens[cuda{driver[0]}]'"
            assert probe() == f"the package numba-cuda is not installed. Run: {command}"

    @pytest.mark.parametrize("driver", [12, 13])
    def test_the_wheel_does_without_a_compiler(self, cupy, probe, monkeypatch, driver):
        """With a driver that takes its machine code; an installation from sources brings none."""
        monkeypatch.setattr(cupy.cuda.runtime, "runtimeGetVersion", lambda: 12000)
        monkeypatch.setattr(gpu_problems, "driver_version", lambda: (driver, 0))
        missing = "numba_cuda"
        monkeypatch.setattr(gpu_problems, "find_spec", lambda name: None if name == missing else 1)
        advice = "pip install 'gpuens[cuda13]'. Or install the wheel of `make wheels`, which brings"
        assert (advice in probe()) == (driver == 13)

    def test_device(self, probe, monkeypatch):
        strict_cupy.install(monkeypatch, gpus=0)
        assert "finds no device that works (RuntimeError: it lists no device)" in probe()

    def test_package_inside_of_a_package_that_is_not_there(self, probe, monkeypatch):
        def find(name):
            if name == "cuda.bindings":
                raise ModuleNotFoundError("No module named 'cuda'")
            return object()

        monkeypatch.setattr(gpu_problems, "find_spec", find)
        assert "package cuda-bindings is not installed. Run: pip install" in probe()

    @pytest.mark.parametrize("module, package", [("cupy", "CuPy"), ("cuda", "cuda-bindings")])
    def test_package_of_the_next_cuda(self, cupy, probe, monkeypatch, module, package):
        """CuPy and cuda-bindings are installed for a version of CUDA each."""
        monkeypatch.setattr(gpu_problems, "driver_version", lambda: (12, 4))
        if module == "cupy":
            assert probe().startswith("CuPy is installed for CUDA 13, and the NVIDIA driver")
            assert "pip uninstall cupy-cuda13x, then pip install 'gpuens[cuda12]'" in probe()
        else:
            monkeypatch.setattr(gpu_problems, "version", lambda package: "13.1.0")
            assert probe().startswith(
                "cuda-bindings is installed for CUDA 13, and the NVIDIA driver"
            )
            assert "supports CUDA 12.4. Update the driver, or run: pip install" in probe()

    @pytest.mark.parametrize(("installed", "is_enough"), [("13.6.0", False), ("14.0.0a1", True)])
    def test_version_of_cupy(self, cupy, probe, monkeypatch, installed, is_enough):
        """CuPy 13 gives results other types than NumPy 2 does."""
        cupy.__version__ = installed
        if is_enough:
            assert probe() is None
            return
        assert probe().startswith("CuPy 13.6.0 is installed, at least 14 is needed: results of")
        assert "Run: pip install --upgrade 'gpuens[cuda13]'" in probe()
        monkeypatch.setattr(devices, "gpu_problem", probe)
        with pytest.raises(RuntimeError, match="X is on cuda:1, but CuPy 13.6.0 is installed"):
            resolve_device("auto", strict_cupy.on_gpu(cupy, HOST, 1))

    def test_driver_newer_than_the_packages(self, cupy, probe, monkeypatch):
        monkeypatch.setattr(gpu_problems, "driver_version", lambda: (14, 1))
        assert probe() is None

    @pytest.mark.parametrize("error", [
        ImportError("libnvrtc.so.13: cannot open shared object file"),
        RuntimeError("CuPy failed to load libnvrtc.so.13: OSError: no such file"),
        RuntimeError("Failed to find CUDA headers; set CUDA_PATH"),
    ])  # fmt: skip
    def test_cupy_without_the_libraries_of_cuda(self, cupy, probe, error):
        def fail(shape):
            raise error

        cupy.zeros = fail
        assert probe().startswith("CuPy does not find the libraries of CUDA")
        assert f"({type(error).__name__}: {error})" in probe()
        assert "pip install 'gpuens[cuda13]' 'cupy-cuda13x[ctk]'" in probe()

    def test_libraries_are_looked_for(self, cupy, probe):
        """Memory alone works without them, a computation does not."""

        class Array:
            def __add__(self, other):
                raise OSError("libnvrtc-builtins.so.13.0: cannot open shared object file")

        cupy.zeros = lambda shape: Array()
        assert "does not find the libraries of CUDA (OSError: libnvrtc-builtins" in probe()

    def test_cupy_broken_in_another_way(self, cupy, probe):
        def fail(shape):
            raise RuntimeError("cudaErrorUnknown: unknown error")

        cupy.zeros = fail
        assert "finds no device that works (RuntimeError: cudaErrorUnknown" in probe()

    def test_a_compiler_that_does_not_work(self, cupy, probe, monkeypatch):
        """Tried for each architecture that no kernels came for (more in tests/cuda_compile)."""
        cards = [{"name": b"card", "major": major, "minor": 0} for major in (9, 8, 9, 7)]
        monkeypatch.setattr(cupy.cuda.runtime, "getDeviceProperties", cards.__getitem__)
        monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: len(cards))
        tried = []
        monkeypatch.setattr(
            gpu_problems, "_trial", lambda *asked: tried.append(asked) or "no" * (len(tried) > 1)
        )
        assert probe() == "no" and probe() == "no"
        assert tried == [((8, 0), (13, 0), "cuda13"), ((9, 0), (13, 0), "cuda13")]

    def test_kernels_of_other_sources_are_none(self, cupy, probe, monkeypatch):
        """As in a checkout whose sources changed since the files were built."""
        ours = source_stamps.stamp_of_sources(
            precompiled.KERNELS / "statistics" / "cuda" / "gradients.py"
        )
        monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 1)
        monkeypatch.setattr(gpu_problems, "_trial", lambda *asked: "tried")
        card = {"name": b"card", "major": 9, "minor": 0}
        monkeypatch.setattr(cupy.cuda.runtime, "getDeviceProperties", lambda index: card)
        for stamp, expected in ((ours, None), ("another", "tried")):
            kernels = {90: {"key": precompiled.Code("symbol", stamp, b"code")}}
            precompiled.write(precompiled.FOLDER / "cuda-sm_90.xz", (13, 0), kernels)
            precompiled.archive_for.cache_clear()
            probe.cache_clear()
            assert probe() == expected

    def test_switched_off(self, probe, monkeypatch):
        monkeypatch.setenv("NUMBA_DISABLE_CUDA", "1")
        assert "NUMBA_DISABLE_CUDA=1 keeps kernels from being compiled. Unset it" == probe()

    def test_asked_once(self, cupy, probe, monkeypatch):
        assert probe() is None
        monkeypatch.setattr(gpu_problems, "driver_version", lambda: None)
        assert probe() is None


class TestOldCard:
    """The first of two GPUs is of 2017."""

    @pytest.fixture(autouse=True)
    def old_card(self, cupy, monkeypatch):
        def properties(index):
            return {"name": b"Tesla V100", "major": 7 if index == 0 else 9, "minor": 0}

        monkeypatch.setattr(cupy.cuda.runtime, "getDeviceProperties", properties)
        devices.card_problem.cache_clear()
        yield
        devices.card_problem.cache_clear()

    @pytest.mark.parametrize("device", ["cuda", "cuda:0"])
    def test_asked_for(self, device):
        with pytest.raises(
            RuntimeError, match=f"device='{device}' asks for a GPU, but cuda:0"
        ) as e:
            resolve_device(device, HOST)
        assert "(Tesla V100) has compute capability 7.0, at least 7.5" in str(e.value)
        assert "Use device='cpu', or a newer GPU by device='cuda:<number>'" in str(e.value)

    def test_holds_the_data(self, cupy):
        with pytest.raises(RuntimeError, match="^y is on cuda:0, but cuda:0"):
            resolve_device("auto", HOST, y=strict_cupy.on_gpu(cupy, [1.0, 2.0], 0))

    def test_host_data_stay_on_the_host(self):
        assert resolve_device("auto", HOST) == CPU

    def test_the_other_one_works(self, cupy):
        assert resolve_device("cuda:1", HOST) == Device("cuda", 1)
        assert resolve_device("auto", strict_cupy.on_gpu(cupy, HOST, 1)) == Device("cuda", 1)


class TestDevice:
    def test_words(self):
        assert [str(d) for d in (CPU, SIMULATOR, Device("cuda", 1))] == [
            "cpu", "simulator", "cuda:1"
        ]  # fmt: skip

    def test_arrays_and_implementation(self, cupy):
        numpy_names = import_module("array_api_compat.numpy")
        assert (CPU.xp, CPU.implementation) == (numpy_names, Implementation.CPU)
        assert (SIMULATOR.xp, SIMULATOR.implementation) == (numpy_names, Implementation.CUDA)
        gpu = Device("cuda", 1)
        assert (gpu.cupy, gpu.implementation) == (cupy, Implementation.CUDA)
        assert gpu.xp is import_module("array_api_compat.cupy")

    def test_what_is_kept_is_waited_for_on_its_own_gpu(self, cupy):
        waited = []
        cupy.cuda.get_current_stream = lambda: SimpleNamespace(
            synchronize=lambda: waited.append(cupy.cuda.runtime.getDevice())
        )
        assert Device("cuda", 1).settled("made") == "made"
        assert (CPU.settled(HOST) is HOST, SIMULATOR.settled(HOST) is HOST) == (True, True)
        assert waited == [1]

    def test_a_forest_is_copied_and_predicts_on_its_own_gpu(self, cupy, monkeypatch):
        """Whichever GPU is current; other streams find it there completely."""
        waited, places = [], []
        monkeypatch.setattr(Device, "settled", lambda self, made: (waited.append(self), made)[1])

        def empty(shape, dtype, empty=cupy.empty):
            places.append(cupy.cuda.runtime.getDevice())
            return empty(shape, dtype)

        cupy.empty = empty
        monkeypatch.setattr(forest, "traverse", lambda *args: None)
        made = replace(Forest.empty(2, np.zeros(1)), output=np.zeros(1, np.int32))
        assert made.n_trees == 1
        for _ in range(2):
            made.raw_predict(strict_cupy.on_gpu(cupy, HOST, 1), Device("cuda", 1))
        assert (waited, places) == ([Device("cuda", 1)], [1, 1])

    @pytest.mark.parametrize("stands_still", [False, True])
    def test_threads_work_beside_each_other(self, cupy, monkeypatch, stands_still):
        """A new thread knows neither the GPU nor what the caller's stream holds."""
        monkeypatch.setattr(devices, "simulated", lambda: stands_still)
        waited = []
        monkeypatch.setattr(
            strict_cupy.machine.Stream, "wait_event", lambda *args: waited.append(args)
        )
        with cupy.cuda.Device(1):
            place = places_beside()

        def work(k):
            found = []
            for _ in range(2):
                with place():
                    stream = cupy.cuda.get_current_stream()
                    found.append((cupy.cuda.runtime.getDevice(), stream.ptr))
            return found

        threads = [ThreadPoolExecutor(1) for _ in range(2)]
        found = [thread.submit(work, 0).result() for thread in threads]
        for thread in threads:
            thread.shutdown()
        if stands_still:
            assert found == [[(0, 0)] * 2] * 2 and not waited
            return
        assert [pair[0] for pair in found] == [pair[1] for pair in found]
        assert {pair[0][0] for pair in found} == {1}
        assert len({pair[0][1] for pair in found} | {0}) == 3, "neither shared nor the default one"
        assert len(waited) == 2

    def test_many_fits_have_places_beside_their_caller(self, cupy, monkeypatch):
        seen = []

        @contextlib.contextmanager
        def place():
            seen.append(threading.get_ident())
            yield

        monkeypatch.setattr(side_by_side, "places_beside", lambda own_streams: place)
        model = DecisionTreeRegressor(max_depth=1, device="cpu")
        fit_many(model, HOST, np.arange(3.0), param_grid={"max_depth": [1, 2]}, n_jobs=2)
        assert len(seen) == 2 and threading.get_ident() not in seen

    def test_only_the_simulator_overrides_the_dispatch(self, cupy):
        for device, expected in ((CPU, Implementation.CPU), (SIMULATOR, Implementation.CUDA)):
            with device.active():
                assert implementation_for(HOST) is expected
        with Device("cuda", 1).active():
            assert cupy.cuda.runtime.getDevice() == 1
        assert implementation_for(HOST) is Implementation.CPU

    def test_arrays_move(self, cupy):
        there = Device("cuda", 1).asarray(HOST)
        assert isinstance(there, cupy.ndarray) and there.device.id == 1
        assert Device("cuda", 1).asarray(there) is there
        assert type(CPU.asarray(there)) is np.ndarray
        assert CPU.asarray(HOST) is HOST

    def test_holds(self, cupy):
        there = strict_cupy.on_gpu(cupy, HOST, 1)
        assert Device("cuda", 1).holds(there)
        assert not Device("cuda", 1).holds(HOST)
        assert not CPU.holds(there) and not CPU.holds(HOST)

    def test_too_little_memory(self, cupy):
        with pytest.raises(MemoryError, match=r"cuda:1 .*1\.0 of 16\.0 GiB are free \(8 GiB\)"):
            with Device("cuda", 1).active():
                raise cupy.cuda.memory.OutOfMemoryError("8 GiB")

    @pytest.mark.parametrize("text", [
        "cudaErrorMemoryAllocation: out of memory", "[CUresult.CUDA_ERROR_OUT_OF_MEMORY] ...",
    ])  # fmt: skip
    def test_too_little_memory_past_cupys_pool(self, cupy, text):
        """For a kernel's code, a stream or a graph."""
        with pytest.raises(MemoryError, match="cuda:1 .*are free.*use device='cpu'"):
            with Device("cuda", 1).active():
                raise RuntimeError(text)

    def test_other_errors_stay_what_they_are(self, cupy):
        with pytest.raises(RuntimeError, match="^cudaErrorInvalidValue: no$"):
            with Device("cuda", 1).active():
                raise RuntimeError("cudaErrorInvalidValue: no")

    @pytest.mark.parametrize("name", ["cudaErrorIllegalAddress", "CUDA_ERROR_LAUNCH_FAILED"])
    def test_a_gpu_that_is_lost(self, cupy, monkeypatch, name):
        """It cannot be left either, which hides nothing."""
        text = rf"^cuda:1 has stopped: {name}\. .*must be started again.*Xid"
        with pytest.raises(RuntimeError, match=text):
            with Device("cuda", 1).active():
                leave = Mock(side_effect=RuntimeError("cannot be left"))
                monkeypatch.setattr(cupy.cuda.Device, "__exit__", leave)
                raise RuntimeError(f"{name}: an illegal memory access was encountered")
        assert leave.called
        text = f"The kernel: {remedy(name)}"
        with pytest.raises(RuntimeError) as caught, Device("cuda", 1).active():
            raise RuntimeError(text)
        assert str(caught.value) == text


def test_this_machine_is_consistent():
    """Whatever is here: the reason is a sentence, or a GPU works."""
    problem = gpu_problem()
    if problem is None:
        assert resolve_device("cuda", HOST).kind in ("cuda", "simulator")
    else:
        assert resolve_device("auto", HOST) == CPU
        assert len(problem) > 20
