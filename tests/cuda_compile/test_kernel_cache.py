"""Compiled CUDA kernels on disk, without a GPU: a stand-in says what the device is, and what
would load the kernel on it links it instead."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from numba import config, njit

if config.ENABLE_CUDASIM:
    pytest.skip("compiling needs a process without the simulator", allow_module_level=True)
pytest.importorskip("numba_cuda")
pytest.importorskip("cuda.bindings.nvjitlink")

from gpuens.kernels import catalogue
from gpuens.kernels.prediction.cuda.deep import kernels, walker
from gpuens.kernels.runtime import disk
from gpuens.kernels.runtime.cuda import compiling, target
from gpuens.kernels.scalars.losses import LOSSES
from gpuens.kernels.statistics.cuda.gradients import gradients_kernel

NAMES = ["count_draws", "predict_deep_float32_tile", f"gradients_{next(iter(LOSSES)).__name__}"]

PROCESS = """
import json, sys
import numpy as np
from types import SimpleNamespace
from numba import types
from numba.cuda import codegen, dispatcher

capability = tuple(json.loads(sys.argv[2]))
device = SimpleNamespace(compute_capability=capability, id=0)
dispatcher.get_current_device = lambda: device
dispatcher._Kernel.bind = lambda self: self._codelibrary.get_cubin(capability)
codegen.CUDACodeLibrary._ensure_cc = lambda self, cc: capability
codegen.JITCUDACodegen.magic_tuple = lambda self: ((13, 0), capability)
from gpuens.kernels.runtime import disk
if sys.argv[3]:
    stamp = disk.stamp_of_sources
    disk.stamp_of_sources = lambda path: stamp(path) + sys.argv[3]
from gpuens.kernels import catalogue
from gpuens.kernels.runtime.cuda import compiling, launching, target

class Array:
    def __init__(self, array):
        self.dtype, self.size = array.dtype, array.size
        self.shape, self.strides = array.shape, array.strides

loaded = SimpleNamespace(kernel=SimpleNamespace(handle=1))
codegen.CUDACodeLibrary.get_cufunc = lambda self: loaded
target.current_device = lambda: 0
launching.enter = lambda device: None
launching.precompiled.find = lambda *kernel: None
entries = {entry.name: entry for entry in catalogue.entries()}
counts = {}
for name in json.loads(sys.argv[1]):
    kernel = entries[name].kernel
    if sys.argv[4] == "launch":
        kinds = map(launching.kind_of, (Array(np.zeros(3, np.int32)), 3, np.uint64(7)))
        compiling.compiled(kernel, tuple(kinds))
    else:
        catalogue.compile_ahead(entries[name])
    counts[name] = [sum(kernel._cache_hits.values()), sum(kernel._cache_misses.values())]
print(json.dumps(counts))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


def hits_and_misses(folder, capability=(9, 0), change="", names=NAMES, by="warming up"):
    arguments = [json.dumps(names), json.dumps(capability), change, by]
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, *arguments],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_the_second_process_loads_what_the_first_compiled(folder):
    assert hits_and_misses(folder) == {name: [0, 1] for name in NAMES}
    assert hits_and_misses(folder) == {name: [1, 0] for name in NAMES}


def test_a_launch_finds_what_was_compiled_ahead(folder):
    """And warming up finds what a launch has compiled."""
    of_draws = {"names": NAMES[:1], "capability": (7, 5)}
    hits_and_misses(folder, **of_draws)
    assert hits_and_misses(folder, **of_draws, by="launch") == {NAMES[0]: [1, 0]}
    of_draws["capability"] = (12, 0)
    assert hits_and_misses(folder, **of_draws, by="launch") == {NAMES[0]: [0, 1]}
    assert hits_and_misses(folder, **of_draws) == {NAMES[0]: [1, 0]}


@pytest.mark.parametrize("other", [{"capability": (8, 0)}, {"change": "a file was edited"}])
def test_another_architecture_and_other_sources_are_compiled(folder, other):
    """An edit of any file that a kernel is made of changes the stamp."""
    names = NAMES[1:]
    assert hits_and_misses(folder, names=names, **other) == {name: [0, 1] for name in names}


def test_kernels_are_stamped_with_the_functions_that_they_are_made_of():
    from pathlib import Path

    from gpuens.kernels.runtime.source_stamps import _imported

    own = Path(kernels(False, True).add_values.py_func.__code__.co_filename)
    names = {f"{path.parent.name}/{path.name}" for path in _imported({own}, own)}
    assert {"scalars/routing.py", "cuda/rows.py", "scalars/primitives.py"} <= names


def test_every_kernel_is_kept():
    for entry in catalogue.entries():
        assert entry.kernel._cache.cache_path is not None, entry.name


def test_closures_are_told_apart():
    described = {compiling.describe(walker(wide)) for wide in (False, True)}
    described |= {compiling.describe(gradients_kernel(loss)) for loss in LOSSES}
    assert len(described) == 2 + len(LOSSES)


def test_functions_from_elsewhere_are_not_kept():
    def users_own(x):
        return x

    for function in (users_own, njit(users_own)):
        with pytest.raises(LookupError, match=f"users_own is defined in {__name__}"):
            compiling.describe(function)

    def users_kernel(x):
        x[0] = users_own(x[0])

    assert target.kernel(users_kernel)._cache.cache_path is None
    with pytest.raises(LookupError, match="not a constant"):
        compiling.describe((1, [1]))


def test_no_folder_to_write_to(monkeypatch):
    class Compiled:
        py_func = staticmethod(lambda x: x)

        def enable_caching(self):
            raise RuntimeError("cannot cache function: no locator available")

    compiled = Compiled()
    monkeypatch.setattr(disk, "_warned", set())
    with pytest.warns(RuntimeWarning, match="found no folder to keep compiled kernels in"):
        assert compiling.kept_on_disk(compiled) is compiled
