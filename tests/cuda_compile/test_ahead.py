"""Kernels that were compiled ahead: which file is used, and which is not.

Loading itself needs a driver; everything up to it runs here.
"""

from __future__ import annotations

import lzma
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numba import config

if config.ENABLE_CUDASIM:
    pytest.skip("compiling needs a process without the simulator", allow_module_level=True)
pytest.importorskip("numba_cuda")
pytest.importorskip("cuda.bindings.nvjitlink")

from building import cubins
from gpuens.kernels import catalogue
from gpuens.kernels.runtime import compilation
from gpuens.kernels.runtime.cuda import ahead, launching
from gpuens.kernels.runtime.cuda.compiling import kinds_of, types_of
from gpuens.kernels.statistics.cuda.gradients import gradients_kernel
from gpuens.losses import CustomLoss
from tests.ptx import machine

ENTRIES = {entry.name: entry for entry in catalogue.entries()}
ENTRY = ENTRIES["add_leaf_values"]
NAMES = ["add_leaf_values", "grow_clear_histograms"]
KINDS = kinds_of(ENTRY.arguments)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Two kernels for two architectures, and their PTX."""
    folder = tmp_path_factory.mktemp("prebuilt")
    cubins.build(folder, (80, 120), NAMES)
    return folder


@pytest.fixture
def folder(built, tmp_path, monkeypatch):
    """A copy of the files for a device with compute capability 8.6 and a driver for CUDA 99."""
    for path in built.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(ahead, "FOLDER", tmp_path)
    monkeypatch.setattr(ahead, "capability_of", lambda device: (8, 6))
    monkeypatch.setattr(ahead, "driver_version", lambda: (99, 0))
    monkeypatch.setattr(ahead, "loaded", lambda kernel, is_ptx: (kernel.code, is_ptx))
    monkeypatch.setattr(ahead, "_refused", set())
    ahead.archive_for.cache_clear()
    yield tmp_path
    ahead.archive_for.cache_clear()


def test_every_kernel_has_a_name_of_its_own():
    """Which follows from what the launcher knows, as well as from the catalogue."""
    keys = {}
    for entry in ENTRIES.values():
        kinds = kinds_of(entry.arguments)
        assert types_of(kinds) == entry.arguments, entry.name
        key = ahead.key_of(entry.kernel, kinds)
        assert key is not None
        assert keys.setdefault(key, (id(entry.kernel), kinds)) == (id(entry.kernel), kinds)
    assert launching.kind_of(np.float64(1)) == launching.kind_of(1.0) == KINDS[3]


def test_a_kernel_is_found(folder):
    """The cubin of its generation."""
    code, is_ptx = ahead.find(ENTRY.kernel, 0, KINDS)
    assert not is_ptx
    assert code == ahead.read(folder / "cuda-sm_80.xz").kernels[
        ahead.key_of(ENTRY.kernel, KINDS)
    ].code  # fmt: skip
    assert code.startswith(b"\x7fELF")


def test_other_types_functions_and_losses_are_not(folder):
    assert ahead.find(ENTRY.kernel, 0, KINDS[:3]) is None
    assert ahead.find(ENTRIES["count_draws"].kernel, 0, KINDS) is None
    loss = CustomLoss(*(lambda y, score: score - y,) * 3)
    kernel = gradients_kernel(type(loss.formula(0)))
    assert ahead.key_of(kernel, KINDS) is None and ahead.find(kernel, 0, KINDS) is None


@pytest.mark.parametrize(
    ("capability", "driver", "expected"),
    [
        ((8, 0), (13, 5), "cuda-sm_80.xz"),
        ((8, 9), (13, 0), "cuda-sm_80.xz"),
        ((12, 1), (13, 0), "cuda-sm_120.xz"),
        ((9, 0), (13, 5), "cuda-ptx_75.xz"),
        ((9, 0), (13, 4), None),
        ((7, 5), (14, 0), "cuda-ptx_75.xz"),
        ((7, 0), (14, 0), None),
        ((8, 0), (12, 9), None),
        ((15, 0), (14, 0), "cuda-ptx_75.xz"),
    ],
)
def test_the_file_follows_from_the_device_and_the_driver(tmp_path, capability, driver, expected):
    for name in ("cuda-sm_80.xz", "cuda-sm_120.xz", "cuda-ptx_75.xz"):
        ahead.write(tmp_path / name, (13, 5), {})
    found = ahead.archive_for(capability, driver, tmp_path)
    assert (None if found is None else found.path.name) == expected


def test_edited_sources_are_compiled(folder, monkeypatch):
    stamp = compilation._stamp_of_sources
    monkeypatch.setattr(compilation, "_stamp_of_sources", lambda path: stamp(path) + "edited")
    assert ahead.find(ENTRY.kernel, 0, KINDS) is None


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGE = {
    "half of it": lambda content: content[: len(content) // 2],
    "a bit": flipped,
    "nothing": lambda content: b"",
    "something else": lambda content: b"PK\x03\x04 not one of these",
    "no table": lambda content: lzma.compress(b"text"),
    "another format": lambda content: lzma.compress(
        lzma.decompress(content).replace(b'"format": 1', b'"format": 2', 1)
    ),
    "another table": lambda content: lzma.compress(b'{"format": 1, "toolkit": 3}\n'),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_named_once_and_passed_over(folder, damage):
    path = folder / "cuda-sm_80.xz"
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with pytest.warns(RuntimeWarning, match=r"cuda-sm_80.xz is damaged .* Install gpuens again"):
        _, is_ptx = ahead.find(ENTRY.kernel, 0, KINDS)
    assert is_ptx
    assert ahead.find(ENTRY.kernel, 0, KINDS)[1]  # and no warning


def test_a_file_that_the_driver_refuses_is_named_once(folder, monkeypatch):
    def refuse(kernel, is_ptx):
        raise ValueError("CUDA_ERROR_NO_BINARY_FOR_GPU")

    monkeypatch.setattr(ahead, "loaded", refuse)
    with pytest.warns(RuntimeWarning, match="is refused by the driver .*NO_BINARY_FOR_GPU"):
        assert ahead.find(ENTRY.kernel, 0, KINDS) is None
    assert ahead.find(ENTRY.kernel, 0, KINDS) is None


def test_without_files_nothing_is_asked(monkeypatch, tmp_path):
    monkeypatch.setattr(ahead, "FOLDER", tmp_path / "nowhere")
    monkeypatch.setattr(ahead, "capability_of", None)
    assert ahead.find(ENTRY.kernel, 0, KINDS) is None


def test_the_launcher_looks_for_it_before_it_compiles(monkeypatch):
    asked = []
    found = {"ahead": SimpleNamespace(handle=1), "now": SimpleNamespace(handle=2)}
    monkeypatch.setattr(launching, "_kernels", {})
    monkeypatch.setattr(launching, "bindings", lambda: SimpleNamespace(CUfunction=int))
    monkeypatch.setattr(ahead, "find", lambda *kernel: asked.append(kernel) or found["ahead"])
    monkeypatch.setattr(launching, "compiled", lambda *kernel: found["now"])
    assert launching.kernel_for(ENTRY.kernel, 3, KINDS).handle == 1
    assert launching.kernel_for(ENTRY.kernel, 3, KINDS).handle == 1
    found["ahead"] = None
    assert launching.kernel_for(ENTRY.kernel, 4, KINDS).handle == 2
    assert asked == [(ENTRY.kernel, 3, KINDS), (ENTRY.kernel, 4, KINDS)]


def test_looking_for_kernels_imports_no_compiler():
    code = (
        "import sys\n"
        "from gpuens.kernels.growth.cuda import grow\n"
        "from gpuens.kernels.runtime.cuda import ahead\n"
        "assert ahead.key_of(grow.open_nodes, ()) and ahead.stamp_of(grow.open_nodes)\n"
        "print(sorted({'numba', 'llvmlite', 'numba_cuda'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_cuda_core_takes_the_code(built):
    """Objects are made without a driver."""
    for name, is_ptx in (("cuda-sm_80.xz", False), ("cuda-ptx_75.xz", True)):
        for kernel in ahead.read(built / name).kernels.values():
            found = ahead.object_of(kernel, is_ptx)
            assert found.code_type == ("ptx" if is_ptx else "cubin")
            assert found.name == kernel.symbol


def test_the_code_computes_what_the_kernel_does(built):
    """The PTX of the file, from which the cubins are linked, on the machine."""
    kernel = ahead.read(built / "cuda-ptx_75.xz").kernels[ahead.key_of(ENTRY.kernel, KINDS)]
    raw, leaf, value = np.arange(50.0), np.arange(50, dtype=np.int32) % 3, np.array([1.0, 2, 4])
    words = [
        word
        for array in (raw, leaf, value)
        for word in (0, 0, array.size, array.itemsize, array.ctypes.data, array.size,
                     array.itemsize)
    ]  # fmt: skip
    block = np.array(words, np.int64).tobytes() + np.float64(0.5).tobytes()
    expected = raw + 0.5 * value[leaf]
    machine.load(kernel.code.decode(), kernel.symbol).launch((1, 1, 1), (64, 1, 1), block)
    np.testing.assert_array_equal(raw, expected)
